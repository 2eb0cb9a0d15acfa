"""Requests of which the API server refuses every write: others of the pool do not notice."""

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
    Sent,
    gate,
    open_pool,
)

__all__ = ["gate"]

RESYNC = 60.0
WAITING = [f"waiting-{number}" for number in range(5)]


class SmallClaimPool(ClaimPool):
    """A GlobalInClusterIPPool of two addresses."""

    @override
    async def make(self) -> None:
        await self.place.make(self.kind, "p", {"addresses": ["10.0.0.1-10.0.0.2"], "prefix": 24})


class SmallRangePool(RangePool):
    """A NetworkPool of two addresses."""

    @override
    async def make(self) -> None:
        ranges = [{"start": "10.0.0.1", "end": "10.0.0.2"}]
        spec = {"cidr": "10.0.0.0/24", "tenantAllocation": {"ranges": ranges}}
        await self.place.make(NETWORK_POOL, "p", spec)


class SmallNetwork(MachineNetwork):
    """A NetworkNamespace of two addresses; a third one is its gateway."""

    @override
    async def make(self) -> None:
        static = {
            "ipv4CIDR": "10.0.0.0/29",
            "ipv4Gateway": "10.0.0.1",
            "ipv4RangeStart": "10.0.0.2",
            "ipv4RangeEnd": "10.0.0.3",
            "ttlSeconds": 86400,
        }
        spec = {"ipAllocation": {"type": "static", "provider": "us", "static": static}}
        status = {"provisioningPhase": "Ready"}
        await self.place.make(vitistack.NETWORKS, "p", spec, status=status)


class SmallClusterPool(ClusterPool):
    """An IPAMPool of two addresses."""

    @override
    async def make(self) -> None:
        datacenter = {"type": "range", "poolCidr": "10.0.0.0/31", "allocationRange": 1}
        await self.place.make(kubermatic.POOLS, "p", {"datacenters": {"dc": datacenter}})


SMALL: list[type[Pool]] = [SmallClaimPool, SmallRangePool, SmallNetwork, SmallClusterPool]


@pytest.mark.parametrize("kind", SMALL)
async def test_a_refusal_that_cannot_be_written_changes_no_other_request_of_a_full_pool(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        await pool.ask("second")
        await pool.place.home.pass_by(5)
        gate.refuses = pool.is_any
        await pool.ask(f"{GREEDY}-000")
        for name in WAITING:
            await pool.ask(name)
        await pool.place.home.pass_by(RESYNC + 30)
        before = [pool.find_shown_reason(name) for name in WAITING]
        assert all(before)
        assert not any("cannot be written" in message for message in before)
        gate.forget()
        await pool.place.home.pass_by(5 * RESYNC)
        assert [pool.find_shown_reason(name) for name in WAITING] == before
        assert not any(sent.name in WAITING for sent in gate.accepted)
        assert len(gate.accepted) <= 6, "the pool is written once per resync at most"
        assert len(gate.refused) <= 12


@pytest.mark.parametrize("kind", SMALL)
async def test_a_refusal_is_written_within_a_resync_once_that_is_accepted(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        await pool.ask("second")
        await pool.place.home.pass_by(5)
        gate.refuses = pool.is_any
        await pool.ask(f"{GREEDY}-000")
        await pool.ask("waiting")
        await pool.place.home.pass_by(3 * RESYNC)
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(RESYNC + 5)
        refused = pool.find_shown_reason(f"{GREEDY}-000")
        assert refused.replace(f"{GREEDY}-000", "waiting") == pool.find_shown_reason("waiting")


@pytest.mark.parametrize("kind", SMALL)
async def test_a_stuck_promise_is_kept_within_a_resync_beside_a_refusal_that_cannot_be_written(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_any
        await pool.ask(f"{GREEDY}-stuck")
        await pool.place.home.pass_by(5)
        await pool.ask(f"{GREEDY}-too-late")
        await pool.place.home.pass_by(10 * RESYNC)
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(RESYNC + 5)
        assert pool.address(f"{GREEDY}-stuck")


class TwoTenants(ClaimPool):
    """A GlobalInClusterIPPool; claims named `deferred` have a namespace of their own."""

    @staticmethod
    @override
    def _namespace(name: str) -> str:
        return name if name == "deferred" else ClaimPool._namespace(name)


async def test_a_deferred_claim_is_served_beside_a_refusal_that_cannot_be_written(
    gate: Gate,
) -> None:
    def is_deferred(sent: Sent) -> bool:
        return sent.kind == ADDRESSES.full_name and sent.namespace == "deferred"

    async with open_pool(TwoTenants) as pool:
        name = f"{GREEDY}-000"
        spec = {"address": "10.9.9.9", "prefix": 20, "claimRef": {"name": "another"}}
        spec["poolRef"] = {"apiGroup": "example.com", "kind": "Pool", "name": "another"}
        await pool.place.make(ADDRESSES, name, spec, namespace=GREEDY)
        gate.refuses = lambda sent: pool.is_any(sent) or is_deferred(sent)
        await pool.ask(name)
        await pool.ask("deferred")
        await pool.place.home.pass_by(10 * RESYNC)
        gate.refuses = pool.is_any
        await pool.place.home.pass_by(RESYNC + 5)
        assert pool.address("deferred")


async def test_an_ipaddress_whose_deletion_is_refused_ends_no_pass(gate: Gate) -> None:
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
        await pool.place.make(ADDRESSES, name, spec, namespace=GREEDY, metadata=metadata)
        gate.refuses = lambda sent: sent.kind == ADDRESSES.full_name and sent.method == "DELETE"
        await pool.ask(name)
        await pool.place.home.pass_by(RESYNC + 10)
        assert gate.refused
        gate.forget()
        await pool.place.home.pass_by(5 * RESYNC)
        assert "of-before" in pool.find_shown_reason(name)
        assert len(gate.refused) <= 6
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(RESYNC + 10)
        assert pool.address(name)


@pytest.mark.parametrize("is_moved", [False, True], ids=["repair", "deletion"])
async def test_an_ipamallocation_whose_repair_or_deletion_is_refused_ends_no_pass(
    is_moved: bool, gate: Gate
) -> None:
    name = f"{GREEDY}-000"
    without_owner = {"metadata": {"ownerReferences": None}}

    def is_write_of_ours(sent: Sent) -> bool:
        is_by_hand = sent.body.get("metadata", {}).get("ownerReferences", ()) is None
        return sent.namespace == f"cluster-{name}" and not is_by_hand

    async with open_pool(ClusterPool) as pool:
        await pool.ask(name)
        await pool.place.home.pass_by(5)
        assert pool.address(name)
        gate.refuses = is_write_of_ours
        if is_moved:
            elsewhere = {"spec": {"cloud": {"dc": "elsewhere"}}}
            await pool.place.edit(kubermatic.CLUSTERS, name, elsewhere)
        else:
            await pool.place.edit(
                kubermatic.ALLOCATIONS, "p", patch=without_owner, namespace=f"cluster-{name}"
            )
        await pool.place.home.pass_by(5)
        assert gate.refused
        gate.forget()
        await pool.ask("waiting")
        await pool.place.home.pass_by(5)
        assert pool.address("waiting")
        await pool.place.home.pass_by(5 * RESYNC)
        assert 1 <= len(gate.refused) <= 6, "it is tried again once per resync"
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(RESYNC + 10)
        stored = pool.place.see(kubermatic.ALLOCATIONS, "p", f"cluster-{name}")
        assert not stored or stored["metadata"]["ownerReferences"]
        assert bool(stored) != is_moved
