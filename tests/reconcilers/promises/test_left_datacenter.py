"""A datacenter leaves an IPAMPool while a promise of its addresses is open."""

from reconcilers.integrations.kubermatic import api as kubermatic
from tests.reconcilers.promises.refusing import Gate, gate, open_pool

__all__ = ["gate"]

RESYNC = 60.0


async def test_a_cluster_is_served_in_another_datacenter_once_its_promised_one_has_left_the_pool(
    gate: Gate,
) -> None:
    async with open_pool("IPAMPool") as pool:
        gate.refuses = pool.is_any
        [name] = await pool.ask_greedily(1)
        await pool.place.home.pass_by(20)
        assert name in pool.promises()
        datacenter = {"type": "range", "poolCidr": "10.1.0.0/20", "allocationRange": 1}
        datacenters = {"dc2": datacenter, "dc": None}
        await pool.place.edit(kubermatic.POOLS, "p", {"spec": {"datacenters": datacenters}})
        moved = {"spec": {"cloud": {"dc": "dc2"}}}
        await pool.place.edit(kubermatic.CLUSTERS, name, moved)
        await pool.place.home.pass_by(5)
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(2 * RESYNC)
        assert pool.address(name).startswith("10.1.")
