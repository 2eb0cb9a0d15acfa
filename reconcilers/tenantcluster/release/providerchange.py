"""Moves a tenant to another load balancer: the old one loses all ranges before the new gets any.

A *projection* is the set of ranges that is written to a load balancer. Each IPAllocation notes the
load balancer that may have its range. The release check asks only that load balancer, so the note
changes only after a proof:

1. Each range is marked as leaving. From the version of that mark on, no projection has the range.
   A process that still sees an older version writes with a lower basis, and is refused.
2. The old load balancer is given the projection without the ranges. Services lose their addresses.
3. Each range is checked as before a release. The check ends with the proof, or with the bounded
   wait for a load balancer that cannot show what it hands out.
4. Our empty objects of the old load balancer are removed: even an empty pool may make two load
   balancers take addresses from each other's Services.
5. If the old load balancer takes addresses from Services even without a pool, people have to
   remove it.
6. The notes change, each at the version that was checked. The next pass projects to the new load
   balancer.

If the spec names the old load balancer again meanwhile, the marks are removed, and nothing else
has to be undone.
"""

from collections.abc import Collection, Sequence

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import format_rfc3339
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.ipallocation.release import InUse, ReleaseCheck
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.reporting.wording import count_noun
from reconcilers.tenantcluster.allocations.annotations import annotate
from reconcilers.tenantcluster.allocations.membership import list_balancer_members
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.projector import ProjectionMemory, Projector, is_behind
from reconcilers.tenantcluster.status import make_load_balancer_ready

CHANGING = "LoadBalancerChanging"
"""The reason while ranges are still in another load balancer than the spec names."""


class ProviderChange:
    """Moves the ranges of a tenant from one load balancer to another.

    Args:
        client: of the management cluster.
        allocations: its IPAllocations, indexed by TenantCluster.
        kinds: the load balancers that tenants may have.
        release: checks whether a load balancer has released a range.
        projector: writes to load balancers.
        clock: the time.
    """

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        *,
        kinds: LoadBalancerKinds,
        release: ReleaseCheck,
        projector: Projector,
        clock: Clock,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._kinds = kinds
        self._release_check = release
        self._projector = projector
        self._clock = clock

    def is_due(self, tenant: TenantCluster) -> bool:
        """Return whether a cluster has a range in another load balancer than its spec names.

        True, too, while a range is marked as leaving a load balancer.
        """
        if not self._kinds.is_known(tenant.load_balancer_provider):
            return False  # nothing could be projected to the new one, so the ranges stay
        return bool(self._projector.list_other_balancers(tenant)) or any(
            allocation.is_leaving for allocation in self._list_balancers(tenant)
        )

    async def proceed(self, current: CurrentCluster, memory: ProjectionMemory) -> ConditionFinding:
        """Take the next steps of one cluster's change; return the condition LoadBalancerReady.

        Nothing is marked while the tenant lacks the new load balancer. If nothing was ever
        projected, no proof is needed: the notes change in the pass after the marks.

        Args:
            memory: what is remembered of the projections into this tenant.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        tenant = current.tenant
        chosen = tenant.load_balancer_provider
        allocations = self._list_balancers(tenant)
        for allocation in allocations:
            if allocation.load_balancer == chosen and allocation.is_leaving:
                # The spec names the old load balancer again.
                await annotate(self._client, allocation, {names.ANNOTATION_LEAVING_BALANCER: None})
        # An allocation that is being released is released where it is. A load balancer that this
        # release does not know can prove nothing.
        moving = [
            allocation
            for allocation in allocations
            if allocation.load_balancer != chosen
            and self._kinds.is_known(allocation.load_balancer)
            and not allocation.releasing
        ]
        if not any(allocation.is_leaving for allocation in moving):
            missing = await self._projector.find_missing(tenant)
            if missing is not None:
                # The tenant would have no load balancer: all ranges stay where they are.
                return missing
        for allocation in moving:
            if not allocation.is_leaving:
                mark = {names.ANNOTATION_LEAVING_BALANCER: format_rfc3339(self._clock.now())}
                await annotate(self._client, allocation, mark)
        old_balancers = {allocation.load_balancer for allocation in moving}
        old_balancers.update(self._projector.list_other_balancers(tenant))
        if await self._is_untouched(tenant):
            # Ranges that were marked just now are left out: `moving` has the version before the
            # mark, and a note at that version would conflict.
            marked = [allocation for allocation in moving if allocation.is_leaving]
            await self._note_provider(marked, chosen)
            why = f"{count_noun(len(moving), 'range')} will be written"
            return self._make_changing_finding(old_balancers, chosen, why)
        waits = [
            reason
            for provider in self._projector.list_other_balancers(tenant)
            for reason in await self._empty_balancer(
                current, memory, provider=provider, moving=moving
            )
        ]
        why = waits[0] if waits else "no other load balancer has a range any more"
        return self._make_changing_finding(old_balancers, chosen, why)

    async def _is_untouched(self, tenant: TenantCluster) -> bool:
        """Return whether a live read shows that nothing was ever projected for a cluster.

        The caller has already marked the ranges as leaving. A process that begins a projection
        after this read has to confirm the ranges live. It finds the marks, and leaves the ranges
        out.
        """
        if tenant.projection_begun or tenant.is_ready:
            return False  # a Ready cluster may have ranges that another controller projected
        live = await self._client.get(TENANT_CLUSTER, tenant.metadata.key)
        is_same = live.metadata.uid == tenant.metadata.uid
        return is_same and not (live.projection_begun or live.is_ready)

    async def _empty_balancer(
        self,
        current: CurrentCluster,
        memory: ProjectionMemory,
        provider: str,
        moving: Sequence[IPAllocation],
    ) -> list[str]:
        """Take all ranges from one load balancer; return sentences about unfinished steps.

        If no step is unfinished, the notes of the ranges change, and the result is empty.

        Args:
            memory: what is remembered of the projections into this tenant.
            provider: the load balancer that loses its ranges.
            moving: the allocations of all load balancers whose ranges move.
        """
        tenant = current.tenant
        leaving = [a for a in moving if a.load_balancer == provider]
        balancer_finding = await self._projector.project(current, memory, provider=provider)
        if is_behind(balancer_finding):
            await self._projector.overwrite_lost_history(tenant, memory, provider)
        title = self._kinds.find_kind(provider).title
        waits = []
        for allocation in leaving:
            if not allocation.is_leaving:
                # Marked in this pass: the next pass has the version of the mark.
                waits.append(f"{title} is about to lose {allocation.metadata.name}")
                continue
            # This version has the mark, so no later projection has the range.
            answer = await self._release_check.check(allocation, mark=allocation.metadata.revision)
            if isinstance(answer, InUse):
                waits.append(f"{title} may still have {allocation.metadata.name}: {answer.why}")
        if self._projector.count_ranges(tenant, provider) > len(leaving):
            # The release of these ranges may need objects of this load balancer, so they stay.
            waits.append(f"{title} still has ranges that are being released")
        if not waits and not await self._projector.remove_other(tenant, provider):
            waits.append(f"pools of {title} are still being removed")
        if not waits and (
            interference := await self._projector.find_interference(tenant, provider)
        ):
            waits.append(interference)
        if waits:
            # If the old load balancer could not be written, its condition says more.
            return waits if balancer_finding.status else [*waits, balancer_finding.message]
        await self._note_provider(leaving, tenant.load_balancer_provider)
        return []

    async def _note_provider(self, allocations: Sequence[IPAllocation], provider: str) -> None:
        """Note the load balancer that may have the ranges of allocations from now on."""
        is_default = provider == DEFAULT_LOAD_BALANCER
        notes = {
            names.ANNOTATION_LOAD_BALANCER: None if is_default else provider,
            names.ANNOTATION_LEAVING_BALANCER: None,
            # The release note was for the release from the old load balancer.
            names.ANNOTATION_RELEASE_NOTE: None,
        }
        for allocation in allocations:
            await annotate(self._client, allocation, notes)

    def _list_balancers(self, tenant: TenantCluster) -> list[IPAllocation]:
        """Return the load-balancer allocations of a cluster that hold a range."""
        return [
            allocation
            for allocation in list_balancer_members(self._allocations, tenant)
            if statusranges.find_held_range(allocation) is not None
        ]

    def _make_changing_finding(
        self, old_balancers: Collection[str], chosen: str, why: str
    ) -> ConditionFinding:
        """Return the condition LoadBalancerReady while the change goes on.

        Args:
            old_balancers: the load balancers that lose their ranges.
            chosen: the load balancer that the spec names.
            why: what is waited for.
        """
        titles = sorted(self._kinds.find_kind(provider).title for provider in old_balancers)
        origin = f" from {' and '.join(titles)}" if titles else ""
        title = self._kinds.find_kind(chosen).title
        message = (
            f"ranges of the tenant change{origin} to {title}, and Services have no addresses of"
            " them until then"
        )
        return make_load_balancer_ready(False, CHANGING, f"{message}: {why}")
