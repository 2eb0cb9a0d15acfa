"""A tenant with the stand-in for LB-IPAM, and the adapter's view of one TenantCluster there."""

from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import override

from allocator import AddressRange
from controller.client import Client
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.loadbalancers.cilium.adapter import CiliumBalancer, CiliumKind
from reconcilers.loadbalancers.cilium.pools import make_pool_name
from reconcilers.loadbalancers.port import (
    AllocationName,
    BalancerBlocked,
    BalancerMemory,
    CreationNote,
    Offer,
    ProjectedRanges,
    Projection,
    Withdrawal,
    WithdrawalAnswer,
)
from tests.clock import VirtualClock
from tests.reconcilers.lbipam import POOLS, LbIpam
from tests.reconcilers.server import Json, Server

OWNER = {names.ANNOTATION_PROJECTION_OWNER: "team/a", names.ANNOTATION_PROJECTION_OWNER_UID: "u-a"}
FIRST = AllocationName("team-a-lb", "uid-1")
SECOND = AllocationName("team-a-lb-2", "uid-2")
RANGES = {
    FIRST: ("10.40.0.0-10.40.0.7", "fd00::10-fd00::17"),
    SECOND: ("10.40.0.8-10.40.0.15",),
}


class NoNote(CreationNote):
    """Cilium's adapter creates nothing for a proof."""

    @property
    @override
    def is_pending(self) -> bool:
        return False

    @override
    async def begin(self) -> bool:
        return False

    @override
    async def remove(self) -> bool:
        return False


class Site:
    """A tenant with a stand-in for Cilium's operator, and our process, which projects there.

    Args:
        served_kinds: the kinds that the tenant serves; none for those that LB-IPAM needs.

    Attributes:
        memory: what our process remembers of projections.
        releases: what our process remembers of each release.
        basis: the basis of projections: the revision that they were computed from.
    """

    def __init__(self, *served_kinds: str) -> None:
        self.clock = VirtualClock()
        self.tenant = Server(self.clock, served_kinds or ("services", "namespaces", POOLS))
        self.operator = LbIpam(self.tenant)
        self.kind = CiliumKind(self.clock, wait=10.0)
        self.memory = BalancerMemory()
        self.releases: dict[AllocationName, BalancerMemory] = {}
        self.basis = 100

    def balancer(self, memory: BalancerMemory | None = None) -> CiliumBalancer:
        """Return the balancer with a memory; None for the memory of projections."""
        return self.kind.make_balancer(Client(self.tenant), memory or self.memory)

    def make_projection(self, *allocations: AllocationName, basis: int = 0) -> Projection:
        """Return a projection of allocations; basis 0 stands for the basis of the site."""
        ranges = tuple(ProjectedRanges(name, RANGES[name]) for name in allocations)
        return Projection(ranges, basis or self.basis, owner=OWNER)

    async def project(
        self,
        *allocations: AllocationName,
        basis: int = 0,
        releasing: str = "",
        confirmed: Sequence[AllocationName] | None = None,
        evicting: AllocationName | None = None,
    ) -> None:
        """Project allocations.

        Args:
            allocations: the allocations as the caches show them.
            basis: the basis of the projection; 0 for the basis of the site.
            releasing: the uid of an allocation that is being released; empty for none.
            confirmed: the allocations as a live read shows them; None for `allocations`.
            evicting: a deleted allocation whose addresses Services lose; None for none.
        """
        expected = self.make_projection(*allocations, basis=basis)
        evicted = () if evicting is None else (ProjectedRanges(evicting, RANGES[evicting]),)
        uids = frozenset(ranges.allocation.uid for ranges in evicted) | {releasing} - {""}
        expected = replace(expected, releasing=uids, evicting=evicted)
        live = expected if confirmed is None else self.make_projection(*confirmed)

        async def confirm() -> Projection:
            return replace(live, owner={})

        await self.balancer().project(expected, confirm, permit_own)

    async def ask(
        self,
        allocation: AllocationName = FIRST,
        *,
        mark: int | None = None,
        release_note: str = "",
    ) -> WithdrawalAnswer:
        """Ask the balancer once to withdraw a range, and to prove that no Service can get it.

        Args:
            allocation: the allocation that is released.
            mark: the revision at which the release began; None for the one after the basis.
            release_note: why the release needs more than the operator's acknowledgement.
        """
        balancer = self.balancer(self.releases.setdefault(allocation, BalancerMemory()))
        reading = await balancer.read()
        at = self.basis + 1 if mark is None else mark
        withdrawal = Withdrawal(
            allocation,
            parse_ranges_of(allocation),
            mark=at,
            position=at,
            owner=OWNER,
            note=NoNote(),
            release_note=release_note,
        )
        return await balancer.prove_withdrawal(reading, withdrawal)

    async def ask_six_times(
        self, allocation: AllocationName = FIRST, *, release_note: str = ""
    ) -> list[WithdrawalAnswer]:
        """Ask six times, a second apart, like `ask`; return the answers."""
        answers = []
        for _ in range(6):
            answers.append(await self.ask(allocation, release_note=release_note))
            await self.clock.advance(1)
        return answers

    def pool(self, allocation: AllocationName = FIRST) -> Json:
        """Return the pool of an allocation."""
        return self.tenant.see(POOLS, make_pool_name(allocation), namespace="")

    def has_pool(self, allocation: AllocationName = FIRST) -> bool:
        """Return whether an allocation has a pool."""
        return self.tenant.has(POOLS, make_pool_name(allocation), namespace="")

    def edit(self, patch: Json, allocation: AllocationName = FIRST) -> None:
        """Edit the pool of an allocation by hand."""
        self.tenant.edit(POOLS, make_pool_name(allocation), patch, namespace="")

    def add_service(self, name: str = "web", key: str = "", **spec: object) -> None:
        """Add a Service of type LoadBalancer; `key` is its sharing key, empty for none."""
        annotations = {"lbipam.cilium.io/sharing-key": key} if key else {}
        meta = {"name": name, "namespace": "default", "annotations": annotations}
        body = {"metadata": meta, "spec": {"type": "LoadBalancer", **spec}}
        self.tenant.add("services", body)

    def addresses(self, name: str = "web") -> list[str]:
        """Return the addresses that a Service shows."""
        status = self.tenant.see("services", name, namespace="default").get("status", {})
        return [ingress["ip"] for ingress in status.get("loadBalancer", {}).get("ingress", ())]


def parse_ranges_of(allocation: AllocationName) -> list[AddressRange]:
    """Return the ranges of an allocation."""
    parsed = map(addresstexts.parse_cidr_or_span, RANGES[allocation])
    return [span for span in parsed if span is not None]


async def permit_own(offer: Offer) -> None:
    """Permit pools of team/a, and of no owner."""
    owner = offer.metadata.annotations.get(names.ANNOTATION_PROJECTION_OWNER, "team/a")
    if owner != "team/a":
        raise BalancerBlocked("TenantShared", f"of {owner}")
