"""Switches for the rules by which no address of KKP's pools is given twice.

Each function switches one rule off. Its docstring says what the code does without the rule.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from controller.errors import ControllerError
from reconcilers.integrations.core.owners import make_owner_reference
from reconcilers.integrations.kubermatic import allocations, planning, pools, reading
from reconcilers.integrations.kubermatic.allocations import Allocations
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    JOURNALS,
    POOLS,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.findings import IPAMPoolDecision
from reconcilers.integrations.kubermatic.planning import ClusterGrant, PoolContent
from reconcilers.integrations.kubermatic.pools import Pools
from reconcilers.integrations.kubermatic.reading import KkpReader, KkpView
from reconcilers.promises.fence import Fence
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.journal import Journal
from reconcilers.promises.shares import Limits
from tests.reconcilers.simulation import journalrules
from tests.reconcilers.simulation.journalrules import (
    forget_promises_in,
    patch_field_at_any_version,
)
from tests.reconcilers.simulation.model import KKP_ALLOCATIONS, KKP_POOLS
from tests.reconcilers.simulation.wire import Flight

Patch = pytest.MonkeyPatch


def ignore_promises(mp: Patch) -> None:
    """Let promised addresses be chosen again."""
    plan = planning.plan

    def plan_without_promises(
        content: PoolContent, room: int, limits: Limits, *, batch: int
    ) -> Any:
        datacenters = {
            name: replace(datacenter, promised=())
            for name, datacenter in content.datacenters.items()
        }
        return plan(replace(content, datacenters=datacenters), room, limits, batch=batch)

    mp.setattr(pools, "plan", plan_without_promises)


def forget_promises_at_once(mp: Patch) -> None:
    """Drop all promises at the next write of the journal."""
    forget_promises_in(mp, pools)


def decide_again_by_first_view(mp: Patch) -> None:
    """Let the second decision of a pass use what the pass read at its start."""
    read_up_to = KkpReader.read_up_to

    async def read_and_keep(self: KkpReader, pool: str, revision: int) -> KkpView:
        view = await read_up_to(self, pool, revision)
        allocations = view.list_allocations()
        return replace(view, list_allocations=lambda: allocations)

    async def decide_by_first_view(
        self: Pools, pool: IPAMPool, stored: Journal, view: KkpView, limits: Limits, omitted: Any
    ) -> tuple[KkpView, IPAMPoolDecision]:
        first_view = replace(view, is_listed=True)  # kept holdings are of now
        return view, self._decide(pool, stored, view=first_view, limits=limits, omitted=omitted)

    mp.setattr(KkpReader, "read_up_to", read_and_keep)
    mp.setattr(Pools, "_decide_again", decide_by_first_view)


def keep_revision(mp: Patch) -> None:
    """Do not record in the journal how far other replicas have to read."""
    journalrules.keep_revision(mp, pools)


def write_requests_at_any_version(mp: Patch) -> None:
    """Write the addresses of an IPAMAllocation whatever it has become since the promise."""
    patch_field_at_any_version(mp, KKP_ALLOCATIONS, "spec")


def write_pools_at_any_version(mp: Patch) -> None:
    """Write a journal whatever the pool has become meanwhile."""
    patch_field_at_any_version(mp, KKP_POOLS, "metadata")


def fence_only_empty_allocations(mp: Patch) -> None:
    """Do not void the earlier promises to allocations that have some addresses already."""
    void_earlier = Fence.void_earlier

    async def void_empty(self: Fence[Any], listed: Sequence[Any]) -> list[Any]:
        nonempty = [allocation for allocation in listed if not allocation.is_empty]
        return [
            *nonempty,
            *await void_earlier(
                self, [allocation for allocation in listed if allocation.is_empty]
            ),
        ]

    mp.setattr(Fence, "void_earlier", void_empty)


def count_own_answers_as_read(mp: Patch) -> None:
    """Let a replica believe that it has read up to its own writes."""
    read_up_to = KkpReader.read_up_to

    async def read_up_to_own_writes(self: KkpReader, pool: str, revision: int) -> KkpView:
        highest = self._allocations.highest_revision
        if highest < revision:
            return await read_up_to(self, pool, revision)
        indexed = partial(self._allocations.list_by_index, "pool", pool)
        return KkpView(highest, indexed, find_by_key(JOURNALS.kind, self._allocations.get))

    mp.setattr(KkpReader, "read_up_to", read_up_to_own_writes)


def create_allocations_with_addresses(mp: Patch) -> None:
    """Create an IPAMAllocation with its addresses at once, before they are promised."""
    create_missing = Allocations.create_missing

    async def create_with_addresses(
        self: Allocations, grants: Sequence[ClusterGrant], pool: IPAMPool
    ) -> tuple[
        list[tuple[ClusterGrant, IPAMAllocation]], list[tuple[ClusterGrant, ControllerError]]
    ]:
        for grant in grants:
            if grant.allocation is None:
                empty = IPAMAllocation(grant.cluster.metadata)
                settings = pool.spec.datacenters[grant.datacenter]
                spec = allocations.render_content(
                    empty, grant.datacenter, datacenter=settings, ranges=grant.ranges
                )
                body = {
                    "metadata": {
                        "name": pool.metadata.name,
                        "ownerReferences": [make_owner_reference(pool, POOLS)],
                    },
                    "spec": {key: value for key, value in spec.items() if value is not None},
                }
                await self._client.create(ALLOCATIONS, grant.cluster.namespace, body)
        return await create_missing(
            self, [grant for grant in grants if grant.allocation is not None], pool
        )

    mp.setattr(Allocations, "create_missing", create_with_addresses)


def keep_empty_allocations(mp: Patch) -> None:
    """Keep an IPAMAllocation for which the pool has no addresses left."""
    delete = Pools._delete_leftovers

    async def delete_without_surplus(self: Pools, pool: Any, decided: IPAMPoolDecision) -> None:
        examination = decided.examination
        findings = [
            finding if finding.cluster is None else replace(finding, surplus=None)
            for finding in examination.findings
        ]
        examination_without_surplus = replace(examination, findings=findings)
        await delete(self, pool, replace(decided, examination=examination_without_surplus))

    mp.setattr(Pools, "_delete_leftovers", delete_without_surplus)


def delete_by_cache(mp: Patch) -> None:
    """Delete allocations of other datacenters by what the caches show, without a live read."""

    async def confirm_all(self: Pools, pool: Any, candidates: Any) -> Any:
        del self, pool
        return [allocation for allocation, _ in candidates]

    mp.setattr(Pools, "_confirm_moved", confirm_all)


def replace_existing_addresses(mp: Patch) -> None:
    """Replace the addresses of an allocation by the promised ones instead of adding to them."""
    render_content = allocations.render_content

    def render_without_existing(
        ipam_allocation: IPAMAllocation, *arguments: Any, **keywords: Any
    ) -> Any:
        without_addresses = replace(ipam_allocation.spec, addresses=())
        return render_content(
            replace(ipam_allocation, spec=without_addresses), *arguments, **keywords
        )

    mp.setattr(allocations, "render_content", render_without_existing)


def delete_at_any_version(mp: Patch) -> None:
    """Delete an empty allocation whatever it has become meanwhile."""
    run = Flight.run

    def run_without_precondition(self: Flight) -> None:
        if (self.method, self.plural) == ("DELETE", KKP_ALLOCATIONS):
            self.body = {}
        run(self)

    mp.setattr(Flight, "run", run_without_precondition)


def write_for_cached_datacenter(mp: Patch) -> None:
    """Write promised addresses for the datacenter in which the cache shows the cluster."""
    keep = Pools.keep

    async def keep_in_cached_datacenter(
        self: Pools, pool: IPAMPool, reading: KkpView, granted: Any
    ) -> Any:
        moved = []
        for promise, allocation in granted:
            cluster = self._caches.find_cluster(allocation.metadata.namespace)
            assert cluster is not None
            ranges = (part._replace(space=cluster.datacenter) for part in promise.ranges)
            moved.append((replace(promise, ranges=tuple(ranges)), allocation))
        return await keep(self, pool, reading, granted=moved)

    mp.setattr(Pools, "keep", keep_in_cached_datacenter)


def ignore_unreadable_objects(mp: Patch) -> None:
    """Treat an allocation that cannot be decoded as one that does not exist."""
    mp.setattr(reading, "check_readable", lambda pool, unreadable: None)
