"""Decides which allocations a tenant should have, and plans the requests to create for them.

Nothing is written here: requester.py carries the decisions out on the management cluster, and the
command line shows them without one.

A *request* is an allocation without a range. `kind` is the type of an allocation: nodes or
loadbalancer.
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
from reconcilers.tenantcluster.allocations.refusals import RequestRefusal, describe_count_of_type


def compute_load_balancer_count(tenant: TenantCluster, network: ProviderNetwork) -> int:
    """Return how many load-balancer addresses the tenant starts with, at most the quota.

    The tenant's own lbPoolSize precedes the provider's size. An elastic tenant without an ingress
    starts with none: no Service asks for an address yet, and the tenant grows when one does.
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


def compute_node_count(pool: NetworkPool, network: ProviderNetwork) -> int:
    """Return how many node addresses a tenant gets from `pool`, at most the quota."""
    return _clamp(pool.spec.default_count(names.TYPE_NODES), network.quota.maxNodeIPs)


def _clamp(count: int, limit: int | None) -> int:
    """Return `count`, but at most `limit`; None means no limit."""
    return count if limit is None else min(count, limit)


@dataclass(frozen=True, slots=True)
class RequiredAllocation:
    """One of the allocations that a tenant should have.

    Args:
        kind: nodes or loadbalancer.
        count: returns how many addresses the request needs from a pool: pools have different
            defaults.
        existing: the allocation that serves this purpose; None if it has to be created.
    """

    kind: str
    count: Callable[[NetworkPool], int]
    existing: IPAllocation | None


@dataclass(frozen=True, slots=True)
class AllocationState:
    """How far an allocation that a tenant should have is served.

    Args:
        kind: nodes or loadbalancer.
        allocation: the allocation, once it exists.
        refusal: why no pool serves it; None if a pool serves it, or if it only waits for another
            request of its group.
        count: how many addresses in a row it needs if there is no allocation. If pools need
            different numbers, the smallest one.
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

    def copy_with_request_time(self, time: str) -> "NewAllocation":
        """Return a copy that notes when the request was first made, which decides its turn.

        Args:
            time: in RFC 3339.
        """
        meta = self.body["metadata"]
        annotations = meta["annotations"] | {names.ANNOTATION_REQUESTED_AT: time}
        body = self.body | {"metadata": meta | {"annotations": annotations}}
        return NewAllocation(self.pool, self.count, body)


def _make_allocation(
    tenant: TenantCluster, name: str, pool: NetworkPool, kind: str, count: int, role: str
) -> NewAllocation:
    """Return an allocation of `count` addresses that is to be created in `pool`."""
    body = membership.build_request(
        tenant, kind, name=name, pool=pool.metadata.name, size=count, role_name=role
    )
    return NewAllocation(pool, count, body)


def group_missing(
    tenant: TenantCluster, missing: Sequence[RequiredAllocation]
) -> list[list[RequiredAllocation]]:
    """Return the missing allocations in groups; a group is created together or not at all.

    Until the cluster is Ready, all are one group. A cluster that held load-balancer addresses
    while it waits for node addresses would keep them from others, and two such clusters could wait
    for each other for ever. A Ready cluster runs, so each of its requests is a group.
    """
    return [[request] for request in missing] if tenant.is_ready else [list(missing)]


def make_constant_count(count: int) -> Callable[[NetworkPool], int]:
    """Return a function that returns `count` for each pool, for `RequiredAllocation.count`."""
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

        Args:
            backfill_nodes: whether a Ready cluster that never had node addresses gets some. If
                not, its machines have their addresses from elsewhere, and it takes none.
        """
        network = provider.spec.networking
        allocations = membership.list_members(self._allocations, tenant)
        nodes = membership.find_initial(allocations, tenant, names.TYPE_NODES)
        balancer = membership.find_initial(allocations, tenant, names.TYPE_LOADBALANCER)
        required = []
        lb_count = compute_load_balancer_count(tenant, network)
        # An existing allocation is listed even if the size is 0 by now: its state is reported.
        if lb_count or balancer is not None:
            required.append(
                RequiredAllocation(
                    names.TYPE_LOADBALANCER, make_constant_count(lb_count), balancer
                )
            )
        # A Ready cluster that never had node addresses has its machines' addresses from elsewhere.
        had_nodes = nodes is not None or tenant.status.ipAllocationRef is not None
        if had_nodes or backfill_nodes or not tenant.is_ready:
            required.append(
                RequiredAllocation(
                    names.TYPE_NODES, lambda pool: compute_node_count(pool, network), nodes
                )
            )
        return required

    def plan_allocation(
        self, tenant: TenantCluster, provider: ProviderConfig, required: RequiredAllocation
    ) -> NewAllocation | None:
        """Return the allocation to create, in the first pool that fits; None if no pool fits."""
        pool = self._choice.find_first_fit(provider, required.count, tenant.networking)
        if pool is None:
            return None
        namespace, role = provider.metadata.namespace, names.ROLE_INITIAL
        name = membership.find_free_name(
            tenant, required.kind, allocations=self._allocations, namespace=namespace
        )
        return _make_allocation(
            tenant, name, pool=pool, kind=required.kind, count=required.count(pool), role=role
        )

    def plan_group(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        group: Sequence[RequiredAllocation],
        reserved: ExitStack,
    ) -> list[NewAllocation] | RequestRefusal:
        """Return the allocations to create for all of `group`, or why the first one has no pool.

        Args:
            group: the missing allocations, created together or not at all.
            reserved: keeps the planned addresses from other choices until it is closed.
        """
        drafts: list[NewAllocation] = []
        for required in group:
            new = self.plan_allocation(tenant, provider, required)
            if new is None:
                # The drafts before this one in the group take part of the free space.
                beside = (
                    describe_count_of_type(planned.kind, draft.count)
                    for planned, draft in zip(group, drafts, strict=False)
                )
                refusal = self._make_refusal(
                    tenant, provider, kind=required.kind, count=required.count
                )
                return replace(refusal, beside=" and ".join(beside))
            kept_free = self._choice.keep_free(new.pool, new.count, tenant.networking)
            reserved.enter_context(kept_free)
            drafts.append(new)
        return drafts

    def make_refused_states(
        self,
        provider: ProviderConfig,
        group: Sequence[RequiredAllocation],
        refusal: RequestRefusal,
    ) -> list[AllocationState]:
        """Return the states of a group in which one request is refused; the others wait for it."""
        return [
            AllocationState(
                required.kind,
                allocation=None,
                refusal=refusal if refusal.kind == required.kind else None,
                count=self._choice.find_least_count(provider, required.count),
            )
            for required in group
        ]

    def find_growth_refusal(
        self, tenant: TenantCluster, provider: ProviderConfig, count: int
    ) -> RequestRefusal:
        """Return why no pool serves one more growth allocation of `count` addresses."""
        return self._make_refusal(
            tenant, provider, kind=names.TYPE_LOADBALANCER, count=make_constant_count(count)
        )

    def _make_refusal(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        kind: str,
        count: Callable[[NetworkPool], int],
    ) -> RequestRefusal:
        """Return why no pool of `provider` serves a request of the tenant.

        Args:
            kind: the type of the addresses: nodes or loadbalancer.
            count: returns how many addresses the request needs from a pool.
        """
        pools = self._choice.list_refusals(provider, count, tenant.networking)
        families = tenant.networking.families_text
        return RequestRefusal(provider, kind, families=families, pools=pools)

    def plan_growth(
        self, tenant: TenantCluster, provider: ProviderConfig, count: int
    ) -> NewAllocation | None:
        """Return one more growth allocation of `count` addresses, in the first pool that fits.

        Returns:
            The allocation to create; None if no pool fits.
        """
        pool = self._choice.find_first_fit(provider, make_constant_count(count), tenant.networking)
        if pool is None:
            return None
        name = membership.find_free_growth_name(
            tenant, self._allocations, provider.metadata.namespace
        )
        kind, role = names.TYPE_LOADBALANCER, names.ROLE_GROWTH
        return _make_allocation(tenant, name, pool=pool, kind=kind, count=count, role=role)

    def find_growth_families(self, tenant: TenantCluster, provider: ProviderConfig) -> set[Family]:
        """Return the families of addresses that growth would add now; empty if no pool fits."""
        new = self.plan_growth(tenant, provider, provider.spec.networking.sizing.growthIncrement)
        if new is None:
            return set()
        return self._choice.find_families(new.pool, new.count, tenant.networking)

    def build_successor(self, tenant: TenantCluster, deleted: IPAllocation) -> dict[str, Any]:
        """Return the body of an allocation that asks for the range of a deleted one of nodes.

        It notes an earlier time of request than all requests that wait for the pool, so its turn
        comes first. No other request is given the range in between.
        """
        spans, meta = statusranges.list_held_ranges(deleted), deleted.metadata
        assert spans, "only the range of an allocation that holds one is requested again"
        rivals = (rival for rival in self._without_range if rival.pool_key == deleted.pool_key)
        rival_times = [rival.requested_at for rival in rivals]
        earliest = min([deleted.requested_at, *rival_times]) - timedelta(seconds=1)
        name, pool = membership.make_successor_name(tenant, deleted), deleted.spec.poolRef.name
        body = membership.build_request(
            tenant, deleted.spec.type, name=name, pool=pool, size=cap_at_int32(spans[0].size)
        )
        body["metadata"]["annotations"] |= {
            names.ANNOTATION_REPLACES: meta.uid,
            names.ANNOTATION_REQUESTED_AT: earliest.isoformat(),
        }
        pins = [{"startAddress": span.start_text, "endAddress": span.end_text} for span in spans]
        body["spec"] |= {"pinnedRange": pins[0]} if len(pins) == 1 else {"pinnedRanges": pins}
        # ipFamilyPolicy and ipFamilies of the deleted allocation replace those of the tenant's
        # spec, which may have changed since.
        other_fields = {
            name: value for name, value in body["spec"].items() if not name.startswith("ipF")
        }
        body["spec"] = other_fields | membership.build_family_fields(deleted.spec)
        return body

    def should_move(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        stuck: IPAllocation,
    ) -> bool:
        """Return whether to delete a stuck request and to create it again for another pool.

        True if another pool fits it now. Otherwise it stays, and keeps its turn in its pool.

        Args:
            count: returns how many addresses the request needs from a pool.
            stuck: the request.
        """
        is_ours = (
            stuck.metadata.annotations.get(names.ANNOTATION_TENANT_UID) == tenant.metadata.uid
        )
        if not is_ours or stuck.spec.is_pinned:
            return False  # a person created it, or chose its range
        if statusranges.find_held_range(stuck) is not None:
            return False  # it has been served meanwhile
        if self._choice.will_serve(stuck):
            return False  # its own pool serves it next
        pool = self._choice.find_first_fit(provider, count, tenant.networking)
        return pool is not None and pool.metadata.name != stuck.spec.poolRef.name
