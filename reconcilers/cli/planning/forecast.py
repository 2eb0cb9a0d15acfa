"""What the controllers would do, pass by pass, until they have nothing left to do.

Each step calls the functions that the reconcilers call, and writes what they would write:
allocations get their finalizers; TenantClusters ask for addresses (reconcilers/tenantcluster);
NetworkPools hand out ranges (reconcilers/networkpool); allocations that wait say for what
(reconcilers/ipallocation); TenantClusters and ProviderConfigs get their statuses.

Requests in the input come before those that TenantClusters make of it. What depends on a tenant's
own API server (load balancer, growth, shrink) and on Secrets is not foreseen.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from allocator import AddressRange, InvalidPool, Layout
from controller.cache import Cache
from controller.conditions import rfc3339
from controller.meta import Key
from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import (
    ALLOCATED,
    FAILED,
    PENDING,
    POOL_INDEX,
    IPAllocation,
)
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.tenantcluster import FAILED as CLUSTER_FAILED
from reconcilers.api.tenantcluster import PROVISIONING, READY, TenantCluster
from reconcilers.cli.planning.ledger import Ledger
from reconcilers.cli.reading.manifests import UNBORN
from reconcilers.configuration.settings import Settings
from reconcilers.ipallocation.poolproblems import find_pool_problem
from reconcilers.networkpool import status
from reconcilers.networkpool.blockreports import find_block
from reconcilers.networkpool.offers import layout_offers
from reconcilers.networkpool.pending_promises import (
    granted_status,
    new_refusals,
    refused_status,
)
from reconcilers.networkpool.protocol import Decision, blockers, decide
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.networkpool.view import UnreadableAllocations, View
from reconcilers.promises.unreadable import (
    Unreadable,
    UnreadableHolders,
    UnreadableObject,
    describe_unreadable,
)
from reconcilers.providerconfig import evaluation
from reconcilers.reporting.allocationstatus import waiting_status
from reconcilers.reporting.conditions import Finding, rendered, with_findings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.tenantcluster.allocations.poolchoice import PoolChoice
from reconcilers.tenantcluster.allocations.refusals import Refusal
from reconcilers.tenantcluster.allocations.requests import (
    AllocationState,
    RequestPlanner,
    RequiredAllocation,
    groups,
)
from reconcilers.tenantcluster.allocations.unreadable_members import unreadable_members
from reconcilers.tenantcluster.provider import (
    ProviderUnreadable,
    find_obstacle,
    find_provider,
    find_provider_key,
    provider_unknown,
)
from reconcilers.tenantcluster.status import (
    Verdict,
    allocations_unreadable,
    network_ready,
    not_ready,
    patch,
    problem_verdict,
    ready_finding,
    refs,
)
from reconcilers.tenantcluster.status import addresses as addresses_condition

_ROUNDS = 100
"""Far more than it takes: a request moves on only to a pool that has room for it now."""


class Supply(NamedTuple):
    """What a pool gives.

    Args:
        is_open: whether it hands out what it has free.
        unreadable: which objects that may hold addresses of it cannot be decoded; empty for none.
    """

    is_open: bool
    unreadable: str


@dataclass(slots=True)
class Forecast:
    """Works out what becomes of a ledger, which it changes in place; all of it happens `now`.

    Args:
        ledger: the objects.
        settings: those of the controllers.
        platform_default: the ProviderConfig of clusters that name none.
        now: the time.
        spaces: what pools of all kinds hand out.
        also_held: what requests of other kinds hold of NetworkPools.
        unreadable_holders: the objects of other kinds that may hold addresses of NetworkPools and
            cannot be decoded, by pool.
    """

    ledger: Ledger
    settings: Settings
    platform_default: Key | None
    now: datetime
    spaces: SpaceIndex
    also_held: Mapping[Key, Sequence[AddressRange]] = field(default_factory=dict)
    unreadable_holders: Mapping[Key, Sequence[UnreadableObject]] = field(default_factory=dict)
    _shared: RequestPlanner | None = None

    def run(self) -> None:
        """Let the controllers work until they rest."""
        self._adopt()
        for pool in self.ledger.pools:
            self._serve(pool)
        for _ in range(_ROUNDS):
            if not self._ask():
                break
        self.write_pool_statuses()
        self._wait()
        self._write_other_statuses()

    def write_pool_statuses(self) -> None:
        """Write every pool's status as it is once everything rests."""
        for pool in self.ledger.pools:
            self._write_pool_status(pool)

    def _ask(self) -> bool:
        """Let every cluster ask, and each request be served at once; return whether any did."""
        asked = False
        for created in self._requests():
            asked = True
            pool = self.ledger.pools.cache.get(created.pool_key)
            if pool is not None:
                self._serve(pool)
        return asked

    def _adopt(self) -> None:
        for allocation in self.ledger.allocations:
            if not allocation.metadata.terminating:
                self.ledger.allocations.add_finalizer(allocation, names.FINALIZER_ALLOCATION)

    def _layouts(self, pool: NetworkPool) -> tuple[Layout, ...]:
        """Return the geometry of a pool that hands out ranges; nothing if it does not."""
        if pool.metadata.terminating:
            return ()
        try:
            return poolgeometry.parse_layouts(pool.spec, self.settings.pool.max_addresses)
        except InvalidPool:
            return ()

    def _serve(self, pool: NetworkPool) -> None:
        """Let a pool make passes until there is nothing left to do."""
        if self.find_unreadable(pool.metadata.key) is not None:
            return
        layouts = self._layouts(pool)
        while layouts and self._carry_out(pool, *self._pass(pool, layouts)):
            pass

    def find_unreadable(self, pool: Key) -> Unreadable | None:
        """Return which objects that may hold ranges of a pool cannot be decoded; None for none."""
        try:
            self.ledger.check_allocations(pool)
        except UnreadableAllocations as unreadable:
            return unreadable
        holders = self.unreadable_holders.get(pool)
        return UnreadableHolders(holders) if holders else None

    def supply(self, pool: NetworkPool) -> Supply:
        """Return whether a pool with a sound spec hands out what it has free."""
        unreadable = self.find_unreadable(pool.metadata.key)
        return Supply(self._hands_out(pool) and unreadable is None, str(unreadable or ""))

    def _pass(self, pool: NetworkPool, layouts: Sequence[Layout]) -> tuple[View, Decision]:
        view = self._view(pool.metadata.key)
        return view, decide(
            pool,
            view,
            layouts,
            self.settings.pool.batch if self._hands_out(pool) else 0,
            self.also_held.get(pool.metadata.key, ()),
        )

    def _hands_out(self, pool: NetworkPool) -> bool:
        """Return whether a pool with a sound spec hands out anything new."""
        return not pool.metadata.terminating and self._closed(pool) is None

    def _closed(self, pool: NetworkPool) -> Finding | None:
        return status.closed_by_namespace(pool, self.settings.pool.namespaces)

    def _write_pool_status(self, pool: NetworkPool) -> None:
        """Write a pool's status as it is once everything rests."""
        unreadable = self.find_unreadable(pool.metadata.key)
        closed = self._closed(pool)
        if pool.metadata.terminating:
            count = blockers(STATUS_JOURNALS.read(pool), self._view(pool.metadata.key))
            closed = status.waiting_for_holders(count)
            if unreadable is not None and count:
                wanted = status.without_figures(pool, closed, self.now)
                self.ledger.pools.write_status(pool, wanted)
                return
        try:
            layouts = poolgeometry.parse_layouts(pool.spec, self.settings.pool.max_addresses)
        except InvalidPool as invalid:
            wanted = status.invalid(pool, invalid.messages, self.now, closed)
            self.ledger.pools.write_status(pool, wanted)
            return
        if unreadable is not None:
            wanted = status.unreadable(pool, unreadable, self.now)
            self.ledger.pools.write_status(pool, wanted)
            return
        self._write(pool, *self._pass(pool, layouts), closed)

    def _view(self, pool: Key) -> View:
        allocations = self.ledger.allocations
        return View.from_allocations(
            allocations.read_up_to,
            allocations.cache.by_index(POOL_INDEX, str(pool)),
            allocations.cache.get,
            allocations.cache.unreadable.keys(),
        )

    def _carry_out(self, pool: NetworkPool, view: View, decision: Decision) -> bool:
        """Write what a pass decided to the allocations; return whether another may decide more.

        It may where a range was handed out and another request was refused or not looked at yet.
        """
        given = [(grant.asker, grant.addresses, grant.choice) for grant in decision.choice.grants]
        given += [
            (allocation, tuple(part.range for part in promise.ranges), promise.choice)
            for promise in decision.settled.promises
            if (allocation := view.at_version(promise)) is not None
        ]
        for allocation, found, choice in given:
            self.ledger.allocations.write_status(
                allocation, granted_status(allocation, pool, found, self.now, choice)
            )
        refused = new_refusals(decision.choice.refusals)
        for refusal in refused:
            self.ledger.allocations.write_status(refusal.asker, refused_status(refusal, self.now))
        others = decision.choice.refusals or decision.choice.more or decision.settled.promises
        return bool(others and (given or refused))

    def _write(
        self, pool: NetworkPool, view: View, decision: Decision, closed: Finding | None
    ) -> None:
        """Write the status of a pool whose spec is sound.

        Its memory (revisions) are numbers of the server's; only those that were in the input are
        shown.

        Args:
            pool: the pool.
            view: its allocations.
            decision: what a pass hands out.
            closed: condition Ready of a pool that hands out nothing; None if it hands out ranges.
        """
        overlapping = self.spaces.finding(layout_offers(pool, decision.layouts))
        wanted = status.current_figures(pool, view, decision, self.now, overlapping, closed)
        if pool.status.assignments:
            journal = STATUS_JOURNALS.fields(pool, decision.settled)
            wanted["assignments"] = journal["assignments"] or None
        self.ledger.pools.write_status(pool, wanted)

    def _wait(self) -> None:
        for allocation in self.ledger.allocations:
            phase = allocation.status.phase
            held = statusranges.find_held_range(allocation) is not None and phase == ALLOCATED
            if allocation.metadata.terminating or held or phase == FAILED:
                continue
            if (reason := self._reason_to_wait(allocation)) is not None:
                status_then = waiting_status(allocation, PENDING, reason, self.now)
                if rendered(allocation.status.conditions) != status_then["conditions"]:
                    self.ledger.allocations.write_status(allocation, status_then)

    def _reason_to_wait(self, allocation: IPAllocation) -> Finding | None:
        """Return condition Ready of an allocation that its pool does not answer; None if it does.

        The pool may be missing, or hand out nothing.
        """
        pools = self.ledger.pools.cache
        problem = find_pool_problem(allocation.pool_key, pools)
        pool = pools.get(allocation.pool_key)
        return problem or (None if pool is None else find_block(pool))

    def provider_of(self, tenant: TenantCluster) -> ProviderConfig | None:
        """Return the ProviderConfig that counts for `tenant`; None if there is none.

        Raises:
            ProviderUnreadable: it, or one that may count, cannot be decoded.
        """
        return find_provider(
            tenant,
            self.ledger.providers.cache,
            self.settings.namespace,
            self.platform_default,
        )

    def _problem(self, tenant: TenantCluster, provider: ProviderConfig | None) -> Finding | None:
        """Return why a cluster cannot request addresses of its provider; None if it can."""
        wanted = find_provider_key(tenant, self.settings.namespace, self.platform_default)
        return find_obstacle(tenant, provider, wanted, self.settings.pool.namespaces)

    def _unknown(self, tenant: TenantCluster) -> Finding | None:
        """Return which unreadable objects keep a cluster as it is; None for none."""
        uid = tenant.metadata.uid
        unreadable = unreadable_members(
            self.ledger.allocations.cache,
            tenant.metadata.key,
            "" if uid.startswith(UNBORN) else uid,
        )
        if unreadable:
            return allocations_unreadable(describe_unreadable(unreadable))
        try:
            self.provider_of(tenant)
        except ProviderUnreadable as unknown:
            return provider_unknown(unknown)
        return None

    def _entitled(self) -> Iterator[tuple[TenantCluster, ProviderConfig]]:
        """Yield the clusters that get addresses from pools, oldest first."""
        for tenant in self.ledger.tenants:
            if tenant.metadata.terminating or self._unknown(tenant) is not None:
                continue
            provider = self.provider_of(tenant)
            if self._problem(tenant, provider) is not None:
                continue
            if provider is not None and provider.spec.networking.mode == IPAM:
                yield tenant, provider

    def _planner(self) -> RequestPlanner:
        ledger, limit = self.ledger, self.settings.pool.max_addresses
        if self._shared is None:
            allowed = self.settings.pool.namespaces
            choice = PoolChoice(ledger.pools.cache, ledger.allocations.cache, limit, allowed)
            self._shared = RequestPlanner(ledger.allocations.cache, choice)
        return self._shared

    def _wanted(self, tenant: TenantCluster, provider: ProviderConfig) -> list[RequiredAllocation]:
        backfill = self.settings.tenant.backfill_nodes
        return self._planner().list_required(tenant, provider, backfill)

    def _requests(self) -> Iterator[IPAllocation]:
        """Create the allocations that clusters lack, one by one; yield each."""
        for tenant, provider in list(self._entitled()):
            since = self._delete_moving(tenant, provider)
            wanted = self._wanted(tenant, provider)
            for group in groups(
                tenant, [request for request in wanted if request.existing is None]
            ):
                yield from self._create(tenant, provider, group, since)

    def _delete_moving(self, tenant: TenantCluster, provider: ProviderConfig) -> dict[str, str]:
        """Delete failed requests that move to another pool; return since when they were made."""
        since = {}
        for wanted in self._wanted(tenant, provider):
            existing = wanted.existing
            if existing is None or existing.metadata.terminating:
                continue
            failed = existing.status.phase == FAILED
            if failed and self._planner().should_move(tenant, provider, wanted.count, existing):
                since[wanted.kind] = existing.requested_at.isoformat()
                self.ledger.allocations.delete(existing)
        return since

    def _create(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        group: Sequence[RequiredAllocation],
        since: Mapping[str, str],
    ) -> Iterator[IPAllocation]:
        with ExitStack() as kept:
            drafts = self._planner().new_allocations(tenant, provider, group, kept)
            if isinstance(drafts, Refusal):
                return
            for wanted, draft in zip(group, drafts, strict=True):
                moved = since.get(wanted.kind)
                asked = draft.requested_at(moved) if moved else draft
                created = self.ledger.allocations.create(draft.namespace, asked.body)
                self.ledger.asked_by[created.metadata.key] = tenant.metadata.key
                yield created

    def _standings(self, tenant: TenantCluster, provider: ProviderConfig) -> list[AllocationState]:
        """Return how the cluster's allocations stand."""
        wanted = self._wanted(tenant, provider)
        refused = [
            state
            for group in groups(tenant, [one for one in wanted if one.existing is None])
            for state in self._planner().list_refused_states(tenant, provider, group)
        ]
        by_kind = {state.kind: state for state in refused}
        return [
            by_kind.get(request.kind) or AllocationState(request.kind, request.existing)
            for request in wanted
        ]

    def _write_other_statuses(self) -> None:
        """Write the status of TenantClusters and ProviderConfigs."""
        for tenant in self.ledger.tenants:
            change = patch(tenant, self._expected_status(tenant), self.now)
            if change and not tenant.metadata.terminating:
                self.ledger.tenants.write_status(tenant, change)
        for provider in self.ledger.providers:
            namespaces = self.settings.pool.namespaces
            change = _provider_patch(provider, self.ledger.pools.cache, namespaces, self.now)
            if change and not provider.metadata.terminating:
                self.ledger.providers.write_status(provider, change)

    def _expected_status(self, tenant: TenantCluster) -> Verdict:
        unknown = self._unknown(tenant)
        if unknown is not None:
            return problem_verdict(tenant, unknown, PROVISIONING)
        provider = self.provider_of(tenant)
        problem = self._problem(tenant, provider)
        if problem is not None or provider is None:
            assert problem is not None, "a missing ProviderConfig is a problem"
            return problem_verdict(tenant, problem, CLUSTER_FAILED)
        if provider.spec.networking.mode != IPAM:
            bypass = network_ready(True, "Ready", "cloud networking mode")
            return Verdict(READY, (bypass, ready_finding()))
        standings = self._standings(tenant, provider)
        addresses = addresses_condition(standings)
        found: tuple[Finding, ...] = (addresses,)
        if not addresses.status and not tenant.is_ready:
            found = (addresses, not_ready(addresses.reason, addresses.message))
        phase = READY if tenant.is_ready else PROVISIONING
        return Verdict(phase, found, refs(standings))


def _provider_patch(
    provider: ProviderConfig,
    pools: Cache[NetworkPool],
    namespaces: Sequence[str],
    now: datetime,
) -> dict[str, Any]:
    """Return what a ProviderConfig's status says apart from its credentials."""
    wrong = evaluation.refused_namespace(provider, namespaces) or evaluation.validity(provider)
    evaluated = evaluation.pools(provider, pools.get, pools.unreadable, namespaces)
    findings = [finding for finding in (wrong, evaluated and evaluated[0]) if finding]
    if not findings:
        return {}
    conditions = with_findings(
        provider.status.conditions, findings, provider.metadata.generation, now
    )
    change: dict[str, Any] = {}
    if rendered(conditions) != rendered(provider.status.conditions):
        change["conditions"] = rendered(conditions)
    if evaluated is not None and evaluated[1] != provider.status.capacity:
        change["capacity"] = evaluated[1].written(provider.status.capacity)
    return change | ({"lastProbeTime": rfc3339(now)} if change else {})
