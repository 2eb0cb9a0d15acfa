"""Requests to which the API server refuses every write do not disturb other requests."""

import pytest
from typing_extensions import override

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.api import ADDRESS_FINALIZER, GROUP
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.vitistack import api as vitistack
from tests.reconcilers.promises.refusing import (
    ADDRESSES,
    GREEDY,
    ClaimPool,
    ClusterPool,
    Gate,
    MachineNetwork,
    Pool,
    RangePool,
    SentWrite,
    gate,
    open_pool,
)

__all__ = ["gate"]

RESYNC = 60.0
"""Seconds after which a refused write is tried again."""
WAITING = [f"waiting-{number}" for number in range(5)]
"""The names of requests that wait for the full pool."""


class SmallClaimPool(ClaimPool):
    """A GlobalInClusterIPPool of two addresses."""

    @override
    async def create(self) -> None:
        await self.cluster.create_object(
            self.kind, "p", {"addresses": ["10.0.0.1-10.0.0.2"], "prefix": 24}
        )


class SmallRangePool(RangePool):
    """A NetworkPool of two addresses."""

    @override
    async def create(self) -> None:
        ranges = [{"start": "10.0.0.1", "end": "10.0.0.2"}]
        spec = {"cidr": "10.0.0.0/24", "tenantAllocation": {"ranges": ranges}}
        await self.cluster.create_object(NETWORK_POOL, "p", spec)


class SmallNetwork(MachineNetwork):
    """A NetworkNamespace of two addresses; a third one is its gateway."""

    @override
    async def create(self) -> None:
        static = {
            "ipv4CIDR": "10.0.0.0/29",
            "ipv4Gateway": "10.0.0.1",
            "ipv4RangeStart": "10.0.0.2",
            "ipv4RangeEnd": "10.0.0.3",
            "ttlSeconds": 86400,
        }
        spec = {"ipAllocation": {"type": "static", "provider": "us", "static": static}}
        status = {"provisioningPhase": "Ready"}
        await self.cluster.create_object(vitistack.NETWORKS, "p", spec, status=status)


class SmallClusterPool(ClusterPool):
    """An IPAMPool of two addresses."""

    @override
    async def create(self) -> None:
        datacenter = {"type": "range", "poolCidr": "10.0.0.0/31", "allocationRange": 1}
        await self.cluster.create_object(
            kubermatic.POOLS, "p", {"datacenters": {"dc": datacenter}}
        )


SMALL_POOLS: list[type[Pool]] = [SmallClaimPool, SmallRangePool, SmallNetwork, SmallClusterPool]


@pytest.mark.parametrize("kind", SMALL_POOLS)
async def test_a_refusal_that_cannot_be_written_does_not_change_other_requests_of_a_full_pool(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        await pool.create_request("second")
        await pool.pass_by(5)
        gate.refuses = pool.is_keep_or_void
        await pool.create_request(f"{GREEDY}-000")
        for name in WAITING:
            await pool.create_request(name)
        await pool.pass_by(RESYNC + 30)
        before = [pool.read_reason(name) for name in WAITING]
        assert all(before)
        assert not any("cannot be written" in message for message in before)
        gate.forget()
        await pool.pass_by(5 * RESYNC)
        assert [pool.read_reason(name) for name in WAITING] == before
        assert not any(sent.name in WAITING for sent in gate.accepted)
        assert len(gate.accepted) <= 6, "the pool is written once per resync at most"
        assert len(gate.refused) <= 12


@pytest.mark.parametrize("kind", SMALL_POOLS)
async def test_a_refusal_is_written_within_a_resync_once_its_write_is_accepted(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        await pool.create_request("second")
        await pool.pass_by(5)
        gate.refuses = pool.is_keep_or_void
        await pool.create_request(f"{GREEDY}-000")
        await pool.create_request("waiting")
        await pool.pass_by(3 * RESYNC)
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC + 5)
        refused = pool.read_reason(f"{GREEDY}-000")
        assert refused.replace(f"{GREEDY}-000", "waiting") == pool.read_reason("waiting")


@pytest.mark.parametrize("kind", SMALL_POOLS)
async def test_a_promise_is_kept_within_a_resync_once_its_write_is_accepted(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep_or_void
        await pool.create_request(f"{GREEDY}-stuck")
        await pool.pass_by(5)
        await pool.create_request(f"{GREEDY}-too-late")
        await pool.pass_by(10 * RESYNC)
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC + 5)
        assert pool.find_address(f"{GREEDY}-stuck")


class TwoTenants(ClaimPool):
    """A GlobalInClusterIPPool; claims named `deferred` have a namespace of their own."""

    @staticmethod
    @override
    def _namespace(name: str) -> str:
        return name if name == "deferred" else ClaimPool._namespace(name)


async def test_a_deferred_claim_is_served_beside_a_refusal_that_cannot_be_written(
    gate: Gate,
) -> None:
    def is_deferred(sent: SentWrite) -> bool:
        return sent.kind == ADDRESSES.full_name and sent.namespace == "deferred"

    async with open_pool(TwoTenants) as pool:
        name = f"{GREEDY}-000"
        spec = {"address": "10.9.9.9", "prefix": 20, "claimRef": {"name": "another"}}
        spec["poolRef"] = {"apiGroup": "example.com", "kind": "Pool", "name": "another"}
        await pool.cluster.create_object(ADDRESSES, name, spec, namespace=GREEDY)
        gate.refuses = lambda sent: pool.is_keep_or_void(sent) or is_deferred(sent)
        await pool.create_request(name)
        await pool.create_request("deferred")
        await pool.pass_by(10 * RESYNC)
        gate.refuses = pool.is_keep_or_void
        await pool.pass_by(RESYNC + 5)
        assert pool.find_address("deferred")


async def test_the_deletion_of_an_ipaddress_that_is_refused_is_retried_once_per_resync(
    gate: Gate,
) -> None:
    async with open_pool(ClaimPool) as pool:
        name = f"{GREEDY}-000"
        kind = pool.kinds[-1]
        spec = {"address": "10.9.9.9", "prefix": 20, "claimRef": {"name": name}}
        spec["poolRef"] = {"apiGroup": kind.group, "kind": kind.kind, "name": "of-before"}
        owner = {"apiVersion": f"{GROUP}/v1beta2", "kind": "IPAddressClaim", "name": name}
        metadata = {
            "finalizers": [ADDRESS_FINALIZER],
            "ownerReferences": [{**owner, "uid": "of-before", "controller": True}],
        }
        await pool.cluster.create_object(
            ADDRESSES, name, spec, namespace=GREEDY, metadata=metadata
        )
        gate.refuses = lambda sent: sent.kind == ADDRESSES.full_name and sent.method == "DELETE"
        await pool.create_request(name)
        await pool.pass_by(RESYNC + 10)
        assert gate.refused
        gate.forget()
        await pool.pass_by(5 * RESYNC)
        assert "of-before" in pool.read_reason(name)
        assert len(gate.refused) <= 6
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC + 10)
        assert pool.find_address(name)


@pytest.mark.parametrize("is_moved", [False, True], ids=["repair", "deletion"])
async def test_the_repair_or_deletion_of_an_ipamallocation_that_is_refused_is_retried(
    is_moved: bool, gate: Gate
) -> None:
    name = f"{GREEDY}-000"
    without_owner = {"metadata": {"ownerReferences": None}}

    def is_write_of_ours(sent: SentWrite) -> bool:
        is_by_hand = sent.body.get("metadata", {}).get("ownerReferences", ()) is None
        return sent.namespace == f"cluster-{name}" and not is_by_hand

    async with open_pool(ClusterPool) as pool:
        await pool.create_request(name)
        await pool.pass_by(5)
        assert pool.find_address(name)
        gate.refuses = is_write_of_ours
        if is_moved:
            elsewhere = {"spec": {"cloud": {"dc": "elsewhere"}}}
            await pool.cluster.edit(kubermatic.CLUSTERS, name, elsewhere)
        else:
            await pool.cluster.edit(
                kubermatic.ALLOCATIONS, "p", patch=without_owner, namespace=f"cluster-{name}"
            )
        await pool.pass_by(5)
        assert gate.refused
        gate.forget()
        await pool.create_request("waiting")
        await pool.pass_by(5)
        assert pool.find_address("waiting")
        await pool.pass_by(5 * RESYNC)
        assert 1 <= len(gate.refused) <= 6, "it is tried again once per resync"
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC + 10)
        stored = pool.cluster.get_stored(kubermatic.ALLOCATIONS, "p", f"cluster-{name}")
        assert not stored or stored["metadata"]["ownerReferences"]
        assert bool(stored) != is_moved
