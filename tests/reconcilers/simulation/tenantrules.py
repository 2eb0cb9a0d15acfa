"""How each rule of "addresses are given back in an order that cannot hurt" is switched off."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller.client import Client
from controller.errors import ControllerError
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.ipallocation.release import InUse, Released
from reconcilers.loadbalancers.metallb import adapter
from reconcilers.loadbalancers.metallb import projection as metallb
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL, IPAddressPool
from reconcilers.loadbalancers.metallb.projection import TenantMetalLB
from reconcilers.loadbalancers.metallb.uptake import WithdrawalCheck
from reconcilers.loadbalancers.port import AllocationName, ProjectedRanges, Projection, Proven
from reconcilers.tenantcluster import projector
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.elastic import changes
from reconcilers.tenantcluster.projector import Projector
from reconcilers.tenantcluster.record.gate import BoundedWait
from reconcilers.tenantcluster.release import check as release_check
from reconcilers.tenantcluster.release.check import TenantReleaseCheck
from reconcilers.tenantcluster.release.markedranges import MarkedReleaser
from reconcilers.tenantcluster.release.teardown import VanishedClusters
from tests.reconcilers.server import Json, Server

Patch = pytest.MonkeyPatch


def open_gate(mp: Patch) -> None:
    """The finalizer goes whatever the tenant says."""

    async def check(self: TenantReleaseCheck, allocation: IPAllocation, mark: int) -> Released:
        return Released("the tenant was not asked")

    mp.setattr(TenantReleaseCheck, "check", check)


def gone_is_torn_down(mp: Patch) -> None:
    """Whatever a cluster that is gone left in its tenant counts as out."""
    mp.setattr(VanishedClusters, "find_owner", lambda self, allocation: None)


def marks_projected(mp: Patch) -> None:
    """A range that is being given back is projected like any other."""

    def projection(members: Sequence[IPAllocation], position: int) -> Projection:
        unmarked = [a for a in members if a.spec.type == names.TYPE_LOADBALANCER]
        held_ranges = [
            statusranges.find_held_range(a) for a in unmarked if a.status.phase == ALLOCATED
        ]
        ranges = [
            (f"{held_range.start_text}-{held_range.end_text}",)
            for held_range in held_ranges
            if held_range is not None
        ]
        unnamed = AllocationName("any", "")
        return Projection(tuple(ProjectedRanges(unnamed, entries) for entries in ranges), position)

    mp.setattr(projector, "make_projection", projection)
    mp.setattr(projector, "find_needed_basis", lambda _: 0)


def older_views_written(mp: Patch) -> None:
    """A projection is written though a newer one has been."""
    read_basis = metallb.read_basis
    mp.setattr(metallb, "read_basis", lambda _: 0)

    def differs(live: IPAddressPool, projection: Projection) -> bool:
        behind = read_basis(live) < projection.needed
        return behind or live.spec.addresses != projection.entries or not metallb.is_ours(live)

    mp.setattr(TenantMetalLB, "_differs", staticmethod(differs))


def applied_blindly(mp: Patch) -> None:
    """A projection is applied whatever the pool has become."""
    apply = Client.apply

    async def without_precondition(
        self: Client, resource: Any, key: Any, body: Any, **options: Any
    ) -> Any:
        options |= {"version": "", "uid": ""}
        return await apply(self, resource, key=key, body=body, **options)

    mp.setattr(Client, "apply", without_precondition)


def basis_of_own_answers(mp: Patch) -> None:
    """A projection's basis is what was written, not what was read."""
    find_projection = Projector.find_projection

    def boastful(self: Projector, tenant: TenantCluster, provider: str = "") -> Projection:
        newest = max((a.metadata.revision for a in self._allocations), default=0)
        projection = find_projection(self, tenant, provider)
        return replace(projection, basis=max(projection.basis, newest))

    mp.setattr(Projector, "find_projection", boastful)


def any_basis(mp: Patch) -> None:
    """The tenant's pool need not have been written since the mark."""
    inspect = TenantReleaseCheck._inspect

    async def lax(
        self: TenantReleaseCheck, client: Any, kind: Any, *, mark: int, **keywords: Any
    ) -> Any:
        del mark
        return await inspect(self, client, kind, mark=0, **keywords)

    mp.setattr(TenantReleaseCheck, "_inspect", lax)


def first_family_asked_for(mp: Patch) -> None:
    """Of an allocation of both families, the tenant is asked for the first range only."""
    inspect = TenantReleaseCheck._inspect

    async def lax(
        self: TenantReleaseCheck, client: Any, kind: Any, *, ranges: Any, **keywords: Any
    ) -> Any:
        return await inspect(self, client, kind, ranges=ranges[:1], **keywords)

    mp.setattr(TenantReleaseCheck, "_inspect", lax)


def uptake_not_waited_for(mp: Patch) -> None:
    """No check waits until MetalLB has read that a range is not its own any more."""

    async def prove_withdrawal(*_: Any, **__: Any) -> Proven:
        return Proven()

    mp.setattr(WithdrawalCheck, "prove_withdrawal", prove_withdrawal)


def pool_not_looked_at(mp: Patch) -> None:
    """No check looks whether the tenant's pool still has the range."""
    mp.setattr(adapter, "_may_overlap", lambda entry, span: False)
    mp.setattr(adapter, "read_basis", lambda pool: 10**9)


def services_not_looked_at(mp: Patch) -> None:
    """No check looks whether a Service still shows an address."""

    async def no_user(*_: Any, **__: Any) -> None:
        return None

    mp.setattr(release_check, "_find_user", no_user)


def silence_is_consent(mp: Patch) -> None:
    """A tenant that cannot be asked has let go."""
    look = TenantReleaseCheck._check_tenant

    async def hasty(
        self: TenantReleaseCheck, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> Released | InUse:
        answer = await look(self, tenant, allocation=allocation, mark=mark)
        if isinstance(answer, InUse) and "cannot be asked" in answer.why:
            return Released("it does not answer")
        return answer

    mp.setattr(TenantReleaseCheck, "_check_tenant", hasty)


def failure_is_absence(mp: Patch) -> None:
    """A kubeconfig that cannot be read is one that is not there."""
    is_gone = TenantReleaseCheck._is_absent_live

    async def hasty(self: TenantReleaseCheck, tenant: TenantCluster) -> bool:
        try:
            return await is_gone(self, tenant)
        except ControllerError:
            return True

    mp.setattr(TenantReleaseCheck, "_is_absent_live", hasty)


def begun_not_recorded(mp: Patch) -> None:
    """That something is projected is not recorded before it is."""

    async def begin(self: Projector, current: CurrentCluster) -> None:
        """Record nothing."""

    mp.setattr(Projector, "_record_begun", begin)


def created_with_ranges(mp: Patch) -> None:
    """A tenant's pool is created with its ranges at once."""

    async def create(self: TenantMetalLB, projection: Projection) -> IPAddressPool:
        body = metallb._make_pool_body(projection.entries, projection)
        body["metadata"]["name"] = metallb.POOL_NAME
        return await self._client.create(IP_ADDRESS_POOL, self._pool.namespace, body)

    mp.setattr(TenantMetalLB, "_create", create)


def filled_unconfirmed(mp: Patch) -> None:
    """A pool that was just created is filled with what the cache says."""

    async def read_projection(self: Projector, tenant: TenantCluster) -> Projection:
        return self.find_projection(tenant)

    mp.setattr(Projector, "_project_live", read_projection)


def deleted_unmarked(mp: Patch) -> None:
    """Shrink deletes and the finalizer goes, without the mark and the question in between."""

    async def conclude(self: MarkedReleaser, allocation: IPAllocation) -> bool:
        await self._delete(allocation, "it is out of use")
        return True

    mp.setattr(MarkedReleaser, "_conclude", conclude)
    open_gate(mp)


def marks_stay(mp: Patch) -> None:
    """Shrink is not withdrawn though a Service has taken an address."""

    async def conclude(self: MarkedReleaser, allocation: IPAllocation) -> bool:
        answer = await self._release_check.check(allocation, allocation.metadata.revision)
        if isinstance(answer, Released):
            await self._delete(allocation, answer.reason)
        return isinstance(answer, Released)

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    mp.setattr(MarkedReleaser, "_conclude", conclude)
    mp.setattr(MarkedReleaser, "withdraw_used", nothing)
    mp.setattr(changes, "withdraw_marks", nothing)


def losses_unseen(mp: Patch) -> None:
    """No check looks for a Service that lost an address of a range that was taken out."""

    async def none_in_need(*_: Any, **__: Any) -> None:
        return None

    mp.setattr(release_check, "find_service_in_need", none_in_need)


def waits_consumed(mp: Patch) -> None:
    """A bounded wait that has elapsed begins anew at the next check."""
    start_or_check = BoundedWait.start_or_check

    def forgetful(
        self: BoundedWait, state: tuple[int, str, int], seconds: float, now: float
    ) -> bool:
        elapsed = start_or_check(self, state, seconds=seconds, now=now)
        if elapsed:
            self.clear()
        return elapsed

    mp.setattr(BoundedWait, "start_or_check", forgetful)


def waits_kept(mp: Patch) -> None:
    """A bounded wait goes on while the balancer is in another state."""
    began: dict[tuple[int, tuple[int, str, int]], float] = {}

    def lasting(
        self: BoundedWait, state: tuple[int, str, int], seconds: float, now: float
    ) -> bool:
        return now - began.setdefault((id(self), state), now) >= seconds

    mp.setattr(BoundedWait, "start_or_check", lasting)


def pools_deleted_blindly(mp: Patch) -> None:
    """The tenant's pool is deleted whatever it has become."""
    delete = Server._delete

    def without_precondition(self: Server, target: Any, options: Any, *, dry: bool) -> Json:
        of_pool = target.kind.resource.plural == "ipaddresspools"
        return delete(self, target, {} if of_pool else options, dry=dry)

    mp.setattr(Server, "_delete", without_precondition)
