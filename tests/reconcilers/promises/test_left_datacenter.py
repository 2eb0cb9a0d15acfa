"""A datacenter is removed from an IPAMPool while a promise of its addresses is open."""

from reconcilers.integrations.kubermatic import api as kubermatic
from tests.reconcilers.promises.refusing import Gate, gate, open_pool

__all__ = ["gate"]

RESYNC = 60.0
"""Seconds after which a refused write is tried again."""


async def test_a_cluster_moved_from_a_removed_datacenter_is_served_in_the_new_one(
    gate: Gate,
) -> None:
    async with open_pool("IPAMPool") as pool:
        gate.refuses = pool.is_keep_or_void
        [name] = await pool.create_greedy_requests(1)
        await pool.pass_by(20)
        assert name in pool.list_promised()
        datacenter = {"type": "range", "poolCidr": "10.1.0.0/20", "allocationRange": 1}
        datacenters = {"dc2": datacenter, "dc": None}
        await pool.cluster.edit(kubermatic.POOLS, "p", {"spec": {"datacenters": datacenters}})
        moved = {"spec": {"cloud": {"dc": "dc2"}}}
        await pool.cluster.edit(kubermatic.CLUSTERS, name, moved)
        await pool.pass_by(5)
        gate.refuses = lambda _: False
        await pool.pass_by(2 * RESYNC)
        assert pool.find_address(name).startswith("10.1.")
