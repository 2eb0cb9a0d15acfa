"""A tenant changes its load balancer: the old one loses all ranges before the new one gets any.

Each IPAllocation notes the load balancer that may have its range. The release check asks that one
alone, so the note changes with a proof alone:

1. Each range is marked as leaving. From the version of that mark on, no projection has it. A
   process that still sees an older version writes with a lower basis, and is refused.
2. The old load balancer is given the projection without the ranges. Services lose their addresses.
3. Each range is checked as before a release. The check ends with the proof, or with the bounded
   wait of a load balancer that cannot show what it hands out.
4. What is left of ours of the old one is removed: even an empty pool may make two load balancers
   take addresses from each other's Services.
5. If the old one takes addresses of others even without a pool, people have to remove it.
6. The notes change, each at the version that was checked. The next pass projects to the new one.

If the spec names the old load balancer again meanwhile, the marks are removed, and nothing else
has to be undone.
"""

from collections.abc import Collection, Sequence

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339
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
from reconcilers.tenantcluster.allocations.membership import balancer_members
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.projector import ProjectionMemory, Projector, is_behind
from reconcilers.tenantcluster.status import load_balancer_ready

CHANGING = "LoadBalancerChanging"
"""The reason while ranges are still in another load balancer than the spec names."""


class ProviderChange:
    """Moves the ranges of a tenant from one load balancer to another.

    Args:
        client: of the management cluster.
        allocations: its IPAllocations, indexed by TenantCluster.
        kinds: the load balancers that tenants may have.
        release: finds out whether a load balancer has let go of a range.
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
        self._release = release
        self._projector = projector
        self._clock = clock

    def is_due(self, tenant: TenantCluster) -> bool:
        """Return whether a range of a cluster is in another load balancer than its spec names.

        Where the spec names one that this release does not know, nothing is changed.
        """
        if not self._kinds.is_known(tenant.load_balancer_provider):
            return False
        return bool(self._projector.list_other_balancers(tenant)) or any(
            allocation.is_leaving for allocation in self._list_balancers(tenant)
        )

    async def proceed(self, current: CurrentCluster, memory: ProjectionMemory) -> ConditionFinding:
        """Go on with the change of one cluster; return the condition LoadBalancerReady.

        Args:
            memory: what is remembered of what is written there.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        tenant = current.tenant
        chosen = tenant.load_balancer_provider
        allocations = self._list_balancers(tenant)
        for allocation in allocations:
            if allocation.load_balancer == chosen and allocation.is_leaving:
                await annotate(self._client, allocation, {names.ANNOTATION_LEAVING_BALANCER: None})
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
                return missing  # all ranges stay where they are
        for allocation in moving:
            if not allocation.is_leaving:
                mark = {names.ANNOTATION_LEAVING_BALANCER: rfc3339(self._clock.now())}
                await annotate(self._client, allocation, mark)
        others = {allocation.load_balancer for allocation in moving}
        others.update(self._projector.list_other_balancers(tenant))
        if await self._is_untouched(tenant):
            marked = [allocation for allocation in moving if allocation.is_leaving]
            await self._note_provider(marked, chosen)
            why = f"{count_noun(len(moving), 'range')} will be written"
            return self._describe(others, chosen, why)
        waits = [
            reason
            for provider in self._projector.list_other_balancers(tenant)
            for reason in await self._leave(current, memory, provider=provider, moving=moving)
        ]
        why = waits[0] if waits else "no other load balancer has a range any more"
        return self._describe(others, chosen, why)

    async def _is_untouched(self, tenant: TenantCluster) -> bool:
        """Return whether a live read shows that nothing was ever projected for a cluster.

        It is read after the ranges were marked as leaving. Who begins a projection after that
        read confirms the ranges even later, and leaves them out.
        """
        if tenant.projection_begun or tenant.is_ready:
            return False
        live = await self._client.get(TENANT_CLUSTER, tenant.metadata.key)
        is_same = live.metadata.uid == tenant.metadata.uid
        return is_same and not (live.projection_begun or live.is_ready)

    async def _leave(
        self,
        current: CurrentCluster,
        memory: ProjectionMemory,
        provider: str,
        moving: Sequence[IPAllocation],
    ) -> list[str]:
        """Take all ranges from one load balancer; return what is still waited for.

        Ranges that are being released there are waited for, too: their release may need objects
        in the tenant.
        """
        tenant = current.tenant
        theirs = [a for a in moving if a.load_balancer == provider]
        projected = await self._projector.project(current, memory, provider=provider)
        if is_behind(projected):
            await self._projector.overwrite_lost_history(tenant, memory, provider)
        title = self._kinds.find_kind(provider).title
        waits = []
        for allocation in theirs:
            if not allocation.is_leaving:
                waits.append(f"{title} is about to lose {allocation.metadata.name}")
                continue
            answer = await self._release.check(allocation, allocation.metadata.revision)
            if isinstance(answer, InUse):
                waits.append(f"{title} may still have {allocation.metadata.name}: {answer.why}")
        if self._projector.count_ranges(tenant, provider) > len(theirs):
            waits.append(f"{title} still has ranges that are being released")
        if not waits and not await self._projector.remove_other(tenant, provider):
            waits.append(f"pools of {title} are still being removed")
        if not waits and (claim := await self._projector.find_claim(tenant, provider)):
            waits.append(claim)
        if waits:
            return waits if projected.status else [*waits, projected.message]
        await self._note_provider(theirs, tenant.load_balancer_provider)
        return []

    async def _note_provider(self, allocations: Sequence[IPAllocation], provider: str) -> None:
        """Note the load balancer that may have the ranges of allocations from now on."""
        notes = {
            names.ANNOTATION_LOAD_BALANCER: None
            if provider == DEFAULT_LOAD_BALANCER
            else provider,
            names.ANNOTATION_LEAVING_BALANCER: None,
            names.ANNOTATION_RELEASE_NOTE: None,
        }
        for allocation in allocations:
            await annotate(self._client, allocation, notes)

    def _list_balancers(self, tenant: TenantCluster) -> list[IPAllocation]:
        """Return the load-balancer allocations of a cluster that hold a range."""
        return [
            allocation
            for allocation in balancer_members(self._allocations, tenant)
            if statusranges.find_held_range(allocation) is not None
        ]

    def _describe(self, others: Collection[str], chosen: str, why: str) -> ConditionFinding:
        """Return the condition LoadBalancerReady while the change goes on.

        Args:
            others: the load balancers that lose their ranges.
            chosen: the one that the spec names.
            why: what is waited for.
        """
        titles = sorted(self._kinds.find_kind(provider).title for provider in others)
        origin = f" from {' and '.join(titles)}" if titles else ""
        title = self._kinds.find_kind(chosen).title
        message = (
            f"ranges of the tenant change{origin} to {title}, and Services have no addresses of"
            " them until then"
        )
        return load_balancer_ready(False, CHANGING, f"{message}: {why}")
