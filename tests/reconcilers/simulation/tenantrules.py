"""Switches for the rules of releasing addresses of tenants.

Each function switches one rule off. Its docstring says what the code does without the rule.
"""

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


def skip_release_check(mp: Patch) -> None:
    """Remove the finalizer of an allocation whatever the tenant shows."""

    async def check(self: TenantReleaseCheck, allocation: IPAllocation, mark: int) -> Released:
        return Released("the tenant was not asked")

    mp.setattr(TenantReleaseCheck, "check", check)


def ignore_vanished_clusters(mp: Patch) -> None:
    """Treat the addresses of a vanished cluster as withdrawn from its tenant."""
    mp.setattr(VanishedClusters, "find_owner", lambda self, allocation: None)


def project_marked_ranges(mp: Patch) -> None:
    """Project a range that is marked for release like any other."""

    def make_full_projection(members: Sequence[IPAllocation], position: int) -> Projection:
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

    mp.setattr(projector, "make_projection", make_full_projection)
    mp.setattr(projector, "find_needed_basis", lambda _: 0)


def write_older_projections(mp: Patch) -> None:
    """Write a projection though a newer one has been written."""
    read_basis = metallb.read_basis
    mp.setattr(metallb, "read_basis", lambda _: 0)

    def needs_write(live: IPAddressPool, projection: Projection) -> bool:
        # With the real basis: otherwise each pass would write.
        behind = read_basis(live) < projection.needed
        return behind or live.spec.addresses != projection.entries or not metallb.is_ours(live)

    mp.setattr(TenantMetalLB, "_needs_write", staticmethod(needs_write))


def apply_at_any_version(mp: Patch) -> None:
    """Apply a projection whatever the tenant's pool has become."""
    apply = Client.apply

    async def apply_without_precondition(
        self: Client, resource: Any, key: Any, body: Any, **options: Any
    ) -> Any:
        options |= {"version": "", "uid": ""}
        return await apply(self, resource, key=key, body=body, **options)

    mp.setattr(Client, "apply", apply_without_precondition)


def move_basis_by_own_answers(mp: Patch) -> None:
    """Let the answers to own writes raise the basis of a projection."""
    find_projection = Projector.find_projection

    def find_projection_at_newest(
        self: Projector, tenant: TenantCluster, provider: str = ""
    ) -> Projection:
        newest = max((a.metadata.revision for a in self._allocations), default=0)
        projection = find_projection(self, tenant, provider)
        return replace(projection, basis=max(projection.basis, newest))

    mp.setattr(Projector, "find_projection", find_projection_at_newest)


def accept_any_basis(mp: Patch) -> None:
    """Release a range though the tenant's pool was not written since the range was marked."""
    inspect = TenantReleaseCheck._inspect

    async def inspect_without_mark(
        self: TenantReleaseCheck, client: Any, kind: Any, *, mark: int, **keywords: Any
    ) -> Any:
        del mark
        return await inspect(self, client, kind, mark=0, **keywords)

    mp.setattr(TenantReleaseCheck, "_inspect", inspect_without_mark)


def check_first_family_only(mp: Patch) -> None:
    """Check only the first range of an allocation of both families in the tenant."""
    inspect = TenantReleaseCheck._inspect

    async def inspect_first_range(
        self: TenantReleaseCheck, client: Any, kind: Any, *, ranges: Any, **keywords: Any
    ) -> Any:
        return await inspect(self, client, kind, ranges=ranges[:1], **keywords)

    mp.setattr(TenantReleaseCheck, "_inspect", inspect_first_range)


def skip_uptake_check(mp: Patch) -> None:
    """Release a range though MetalLB has not read yet that the range was withdrawn."""

    async def prove_withdrawal(*_: Any, **__: Any) -> Proven:
        return Proven()

    mp.setattr(WithdrawalCheck, "prove_withdrawal", prove_withdrawal)


def skip_pool_check(mp: Patch) -> None:
    """Release a range though the tenant's pool may still have it."""
    mp.setattr(adapter, "_may_overlap", lambda entry, span: False)
    mp.setattr(adapter, "read_basis", lambda pool: 10**9)


def skip_service_check(mp: Patch) -> None:
    """Release a range though a Service may still show an address of it."""

    async def find_no_user(*_: Any, **__: Any) -> None:
        return None

    mp.setattr(release_check, "_find_user", find_no_user)


def release_without_answer(mp: Patch) -> None:
    """Release the ranges of a tenant that cannot be asked."""
    check_tenant = TenantReleaseCheck._check_tenant

    async def check_or_release(
        self: TenantReleaseCheck, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> Released | InUse:
        answer = await check_tenant(self, tenant, allocation=allocation, mark=mark)
        if isinstance(answer, InUse) and "cannot be asked" in answer.why:
            return Released("it does not answer")
        return answer

    mp.setattr(TenantReleaseCheck, "_check_tenant", check_or_release)


def treat_failed_read_as_absence(mp: Patch) -> None:
    """Treat a kubeconfig that cannot be read as one that does not exist."""
    is_gone = TenantReleaseCheck._is_absent_live

    async def is_absent_or_unreadable(self: TenantReleaseCheck, tenant: TenantCluster) -> bool:
        try:
            return await is_gone(self, tenant)
        except ControllerError:
            return True

    mp.setattr(TenantReleaseCheck, "_is_absent_live", is_absent_or_unreadable)


def skip_record_of_projection(mp: Patch) -> None:
    """Do not record that a projection begins before it does."""

    async def record_nothing(self: Projector, current: CurrentCluster) -> None:
        """Record nothing."""

    mp.setattr(Projector, "_record_projection_begun", record_nothing)


def create_with_ranges(mp: Patch) -> None:
    """Create a tenant's pool with its ranges at once."""

    async def create(self: TenantMetalLB, projection: Projection) -> IPAddressPool:
        body = metallb._make_pool_body(projection.entries, projection)
        body["metadata"]["name"] = metallb.POOL_NAME
        return await self._client.create(IP_ADDRESS_POOL, self._pool.namespace, body)

    mp.setattr(TenantMetalLB, "_create", create)


def fill_by_cache(mp: Patch) -> None:
    """Fill a pool that was just created with what the cache shows."""

    async def read_projection(self: Projector, tenant: TenantCluster) -> Projection:
        return self.find_projection(tenant)

    mp.setattr(Projector, "_project_live", read_projection)


def delete_unmarked(mp: Patch) -> None:
    """Let shrink delete an allocation without marking it and without checking the tenant."""

    async def delete_or_unmark(self: MarkedReleaser, allocation: IPAllocation) -> bool:
        await self._delete(allocation, "it is out of use")
        return True

    mp.setattr(MarkedReleaser, "_delete_or_unmark", delete_or_unmark)
    skip_release_check(mp)


def keep_marks(mp: Patch) -> None:
    """Keep a range marked for release though a Service has taken an address of it."""

    async def delete_or_unmark(self: MarkedReleaser, allocation: IPAllocation) -> bool:
        answer = await self._release_check.check(allocation, allocation.metadata.revision)
        if isinstance(answer, Released):
            await self._delete(allocation, answer.reason)
        return isinstance(answer, Released)

    async def withdraw_nothing(*_: Any, **__: Any) -> None:
        return None

    mp.setattr(MarkedReleaser, "_delete_or_unmark", delete_or_unmark)
    mp.setattr(MarkedReleaser, "withdraw_used", withdraw_nothing)
    mp.setattr(changes, "withdraw_marks", withdraw_nothing)


def ignore_losses(mp: Patch) -> None:
    """Do not look for a Service that lost an address of a withdrawn range."""

    async def find_none_in_need(*_: Any, **__: Any) -> None:
        return None

    mp.setattr(release_check, "find_service_in_need", find_none_in_need)


def restart_elapsed_waits(mp: Patch) -> None:
    """Restart a bounded wait that has elapsed at the next check."""
    start_or_check = BoundedWait.start_or_check

    def check_and_clear(
        self: BoundedWait, state: tuple[int, str, int], seconds: float, now: float
    ) -> bool:
        elapsed = start_or_check(self, state, seconds=seconds, now=now)
        if elapsed:
            self.clear()
        return elapsed

    mp.setattr(BoundedWait, "start_or_check", check_and_clear)


def keep_waits_across_states(mp: Patch) -> None:
    """Count a wait from the first time of its state, even if other states came in between."""
    start_of_wait: dict[tuple[int, tuple[int, str, int]], float] = {}

    def check_since_first(
        self: BoundedWait, state: tuple[int, str, int], seconds: float, now: float
    ) -> bool:
        return now - start_of_wait.setdefault((id(self), state), now) >= seconds

    mp.setattr(BoundedWait, "start_or_check", check_since_first)


def delete_at_any_version(mp: Patch) -> None:
    """Delete the tenant's pool whatever it has become."""
    delete = Server._delete

    def delete_without_precondition(
        self: Server, target: Any, options: Any, *, is_dry_run: bool
    ) -> Json:
        is_pool = target.kind.resource.plural == "ipaddresspools"
        return delete(self, target, {} if is_pool else options, is_dry_run=is_dry_run)

    mp.setattr(Server, "_delete", delete_without_precondition)
