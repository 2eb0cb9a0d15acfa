"""The allocations that a tenant should have, and the requests to create for them: decisions only.

They are made from caches: requester.py carries them out on the management cluster, and the command
line shows them without one.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from allocator import Family
from controller.cache import Cache
from controller.cacheparts import CachePart
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.networkpool import NetworkPool, cap_at_int32
from reconcilers.api.providerconfig import ELASTIC, ProviderConfig, ProviderNetwork
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster.allocations import membership
from reconcilers.tenantcluster.allocations.poolchoice import PoolChoice
from reconcilers.tenantcluster.allocations.refusals import RequestRefusal, count_of_type


def load_balancer_count(tenant: TenantCluster, network: ProviderNetwork) -> int:
    """Return how many load-balancer addresses the tenant starts with, quota applied.

    The tenant's own lbPoolSize goes before the provider's size. An elastic tenant without an
    ingress starts with none: it would keep addresses that nothing asks for, and it can grow.
    """
    override = tenant.networking.lbPoolSize
    if override is not None:
        count = override
    elif network.sizing.allocationMode != ELASTIC:
        count = network.sizing.defaultPoolSize
    elif tenant.spec.addons is not None and not tenant.spec.addons.ingress_enabled:
        count = 0
    else:
        count = network.sizing.initialPoolSize
    return _clamp(count, network.quota.maxLoadBalancerIPs)


def node_count(pool: NetworkPool, network: ProviderNetwork) -> int:
    """Return how many node addresses a tenant gets from `pool`, quota applied."""
    return _clamp(pool.spec.default_count(names.TYPE_NODES), network.quota.maxNodeIPs)


def _clamp(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)


@dataclass(frozen=True, slots=True)
class RequiredAllocation:
    """One of the allocations that a tenant should have.

    Args:
        kind: nodes or loadbalancer.
        count: how many addresses, given the pool.
        existing: the allocation that serves the purpose, if there is one.
    """

    kind: str
    count: Callable[[NetworkPool], int]
    existing: IPAllocation | None


@dataclass(frozen=True, slots=True)
class AllocationState:
    """What became of one of the allocations that a tenant should have.

    Args:
        kind: nodes or loadbalancer.
        allocation: the allocation, once it exists.
        refusal: why no pool serves it; None if one does, or if it waits for another request of
            its group.
        count: how many addresses in a row it needs if there is no allocation: the smallest number
            if pools differ in it.
    """

    kind: str
    allocation: IPAllocation | None
    refusal: RequestRefusal | None = None
    count: int = 0

    @property
    def is_served(self) -> bool:
        """Whether the allocation holds its range and is not being released."""
        return (
            self.allocation is not None
            and self.allocation.status.phase == ALLOCATED
            and not self.allocation.releasing
        )


@dataclass(frozen=True, slots=True)
class NewAllocation:
    """An allocation that is not created yet.

    Args:
        pool: the pool with room for it; its namespace is the allocation's.
        count: how many addresses it asks for.
        body: what to create.
    """

    pool: NetworkPool
    count: int
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the allocation."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The pool's namespace, in which the allocation is created."""
        return self.pool.metadata.namespace

    def requested_at(self, time: str) -> "NewAllocation":
        """Return the same, for a request that was first made at `time`, in RFC 3339."""
        meta = self.body["metadata"]
        annotations = meta["annotations"] | {names.ANNOTATION_REQUESTED_AT: time}
        body = self.body | {"metadata": meta | {"annotations": annotations}}
        return NewAllocation(self.pool, self.count, body)


def _new_allocation(
    tenant: TenantCluster, name: str, pool: NetworkPool, kind: str, count: int, role: str
) -> NewAllocation:
    body = membership.request(
        tenant, kind, name=name, pool=pool.metadata.name, size=count, role_name=role
    )
    return NewAllocation(pool, count, body)


def groups(
    tenant: TenantCluster, missing: Sequence[RequiredAllocation]
) -> list[list[RequiredAllocation]]:
    """Return the missing allocations in groups; a group is created together or not at all.

    All of them until it is Ready: one that held load-balancer addresses while it waits for node
    addresses would keep them from others, and two such clusters could wait for each other forever.
    """
    return [[request] for request in missing] if tenant.is_ready else [list(missing)]


def count_in_any_pool(count: int) -> Callable[[NetworkPool], int]:
    """Return a function that answers `count` for each pool."""
    return lambda _: count


class RequestPlanner:
    """Decides which allocations to create for tenants."""

    def __init__(self, allocations: Cache[IPAllocation], choice: PoolChoice) -> None:
        self._allocations = allocations
        self._without_range = CachePart(
            allocations, lambda allocation: statusranges.find_held_range(allocation) is None
        )
        self._choice = choice

    def list_required(
        self, tenant: TenantCluster, provider: ProviderConfig, backfill_nodes: bool
    ) -> list[RequiredAllocation]:
        """Return the allocations that `tenant` should have.

        A cluster that was Ready without ever having had node addresses gets none unless
        `backfill_nodes`: adopting a running installation must not take addresses by surprise.
        """
        network = provider.spec.networking
        allocations = membership.members(self._allocations, tenant)
        nodes = membership.initial(allocations, tenant, names.TYPE_NODES)
        balancer = membership.initial(allocations, tenant, names.TYPE_LOADBALANCER)
        required = []
        lb_count = load_balancer_count(tenant, network)
        if lb_count or balancer is not None:
            required.append(
                RequiredAllocation(names.TYPE_LOADBALANCER, count_in_any_pool(lb_count), balancer)
            )
        had_nodes = nodes is not None or tenant.status.ipAllocationRef is not None
        if had_nodes or backfill_nodes or not tenant.is_ready:
            required.append(
                RequiredAllocation(names.TYPE_NODES, lambda p: node_count(p, network), nodes)
            )
        return required

    def new_allocation(
        self, tenant: TenantCluster, provider: ProviderConfig, required: RequiredAllocation
    ) -> NewAllocation | None:
        """Return the allocation to create, in the first pool that fits; None if none does."""
        pool = self._choice.find_first_fit(provider, required.count, tenant.networking)
        if pool is None:
            return None
        namespace, role = provider.metadata.namespace, names.ROLE_INITIAL
        name = membership.free_name(
            tenant, required.kind, taken_by=self._allocations, namespace=namespace
        )
        return _new_allocation(
            tenant, name, pool=pool, kind=required.kind, count=required.count(pool), role=role
        )

    def new_allocations(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        group: Sequence[RequiredAllocation],
        reserved: ExitStack,
    ) -> list[NewAllocation] | RequestRefusal:
        """Return the allocations to create for all of `group`; else why one of them is refused.

        Their addresses are kept from other choices until `reserved` is closed.
        """
        drafts: list[NewAllocation] = []
        for required in group:
            new = self.new_allocation(tenant, provider, required)
            if new is None:
                beside = (
                    count_of_type(kept.kind, draft.count)
                    for kept, draft in zip(group, drafts, strict=False)
                )
                refusal = self._refusal(tenant, provider, kind=required.kind, count=required.count)
                return replace(refusal, beside=" and ".join(beside))
            kept_free = self._choice.keep_free(new.pool, new.count, tenant.networking)
            reserved.enter_context(kept_free)
            drafts.append(new)
        return drafts

    def states_of_refused(
        self,
        provider: ProviderConfig,
        group: Sequence[RequiredAllocation],
        refusal: RequestRefusal,
    ) -> list[AllocationState]:
        """Return the states of a group of which one is refused: the others wait for it."""
        return [
            AllocationState(
                required.kind,
                None,
                refusal=refusal if refusal.kind == required.kind else None,
                count=self._choice.least_count(provider, required.count),
            )
            for required in group
        ]

    def growth_refusal(
        self, tenant: TenantCluster, provider: ProviderConfig, count: int
    ) -> RequestRefusal:
        """Return why no pool serves one more growth allocation of `count` addresses."""
        return self._refusal(
            tenant, provider, kind=names.TYPE_LOADBALANCER, count=count_in_any_pool(count)
        )

    def _refusal(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        kind: str,
        count: Callable[[NetworkPool], int],
    ) -> RequestRefusal:
        """Return why no pool of `provider` serves a request of the tenant."""
        asked = tenant.networking
        pools = self._choice.refusals(provider, count, asked)
        return RequestRefusal(provider, kind, families=asked.families_text, pools=pools)

    def growth(
        self, tenant: TenantCluster, provider: ProviderConfig, count: int
    ) -> NewAllocation | None:
        """Return one more growth allocation of `count` addresses, in the first pool that fits.

        Returns:
            The allocation to create; None if no pool fits.
        """
        pool = self._choice.find_first_fit(provider, count_in_any_pool(count), tenant.networking)
        if pool is None:
            return None
        name = membership.free_growth_name(tenant, self._allocations, provider.metadata.namespace)
        kind, role = names.TYPE_LOADBALANCER, names.ROLE_GROWTH
        return _new_allocation(tenant, name, pool=pool, kind=kind, count=count, role=role)

    def families_of_growth(self, tenant: TenantCluster, provider: ProviderConfig) -> set[Family]:
        """Return of which families a growth allocation would bring addresses; none if it waits."""
        new = self.growth(tenant, provider, provider.spec.networking.sizing.growthIncrement)
        if new is None:
            return set()
        return self._choice.families(new.pool, new.count, tenant.networking)

    def successor(self, tenant: TenantCluster, deleted: IPAllocation) -> dict[str, Any]:
        """Return the body of an allocation that asks for the range of a deleted one of nodes.

        It goes before all that wait for that pool by now, so that no other is handed the range in
        between; who comes later is younger.
        """
        spans, meta = statusranges.list_held_ranges(deleted), deleted.metadata
        assert spans, "only the range of an allocation that holds one is requested again"
        rivals = (rival for rival in self._without_range if rival.pool_key == deleted.pool_key)
        waiting = [rival.requested_at for rival in rivals]
        first = min([deleted.requested_at, *waiting]) - timedelta(seconds=1)
        name, pool = membership.successor_name(tenant, deleted), deleted.spec.poolRef.name
        body = membership.request(
            tenant, deleted.spec.type, name=name, pool=pool, size=cap_at_int32(spans[0].size)
        )
        body["metadata"]["annotations"] |= {
            names.ANNOTATION_REPLACES: meta.uid,
            names.ANNOTATION_REQUESTED_AT: first.isoformat(),
        }
        pins = [{"startAddress": span.start_text, "endAddress": span.end_text} for span in spans]
        body["spec"] |= {"pinnedRange": pins[0]} if len(pins) == 1 else {"pinnedRanges": pins}
        kept = {name: value for name, value in body["spec"].items() if not name.startswith("ipF")}
        body["spec"] = kept | membership.asked_families(deleted.spec)
        return body

    def should_move(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        failed: IPAllocation,
    ) -> bool:
        """Return whether a request is to be deleted and created again for another pool.

        Only one that we made, that is not pinned and holds nothing; and only if another pool
        fits it now, and its own is not about to serve it. Otherwise it stays and keeps its place
        in the queue.
        """
        ours = failed.metadata.annotations.get(names.ANNOTATION_TENANT_UID) == tenant.metadata.uid
        if not ours or failed.spec.is_pinned or statusranges.find_held_range(failed) is not None:
            return False
        if self._choice.will_serve(failed):
            return False
        pool = self._choice.find_first_fit(provider, count, tenant.networking)
        return pool is not None and pool.metadata.name != failed.spec.poolRef.name
