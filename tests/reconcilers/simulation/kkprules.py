"""How each rule by which no address of KKP's pools is given twice is switched off, one by one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from controller.errors import ControllerError
from reconcilers.integrations.core.owners import owner_reference
from reconcilers.integrations.kubermatic import allocations, planning, pools, reading
from reconcilers.integrations.kubermatic.allocations import Allocations
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    JOURNALS,
    POOLS,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.findings import Decided
from reconcilers.integrations.kubermatic.planning import ClusterGrant, PoolContent
from reconcilers.integrations.kubermatic.pools import Pools
from reconcilers.integrations.kubermatic.reading import KkpReader, KkpView
from reconcilers.promises.fence import Fence
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.journal import Journal
from reconcilers.promises.shares import Limits
from tests.reconcilers.simulation import journalrules
from tests.reconcilers.simulation.journalrules import (
    promises_dropped_at_once,
    without_precondition,
)
from tests.reconcilers.simulation.model import KKP_ALLOCATIONS, KKP_POOLS
from tests.reconcilers.simulation.wire import Flight

Patch = pytest.MonkeyPatch


def promises_not_taken(mp: Patch) -> None:
    """What is promised may be chosen again."""
    plan = planning.plan

    def careless(content: PoolContent, room: int, limits: Limits, *, batch: int) -> Any:
        datacenters = {
            name: replace(datacenter, promised=())
            for name, datacenter in content.datacenters.items()
        }
        return plan(replace(content, datacenters=datacenters), room, limits, batch=batch)

    mp.setattr(pools, "plan", careless)


def dropped_at_once(mp: Patch) -> None:
    """The next write of the journal forgets what was promised before."""
    promises_dropped_at_once(mp, pools)


def decided_again_by_the_first_view(mp: Patch) -> None:
    """Who decides again in a pass goes by what was read when it began."""
    read_up_to = KkpReader.read_up_to

    async def noting(self: KkpReader, pool: str, revision: int) -> KkpView:
        view = await read_up_to(self, pool, revision)
        allocations = view.list_allocations()
        return replace(view, list_allocations=lambda: allocations)

    async def careless(
        self: Pools, pool: IPAMPool, stored: Journal, view: KkpView, limits: Limits, omitted: Any
    ) -> tuple[KkpView, Decided]:
        of_then = replace(view, is_listed=True)  # kept holdings are of now
        return view, self._decide(pool, stored, view=of_then, limits=limits, omitted=omitted)

    mp.setattr(KkpReader, "read_up_to", noting)
    mp.setattr(Pools, "_decide_again", careless)


def revision_not_raised(mp: Patch) -> None:
    """The journal does not say how far one has to have read."""
    journalrules.revision_not_raised(mp, pools)


def written_at_any_version(mp: Patch) -> None:
    """An IPAMAllocation is given its addresses whatever it has become meanwhile."""
    without_precondition(mp, KKP_ALLOCATIONS, "spec")


def pools_written_blindly(mp: Patch) -> None:
    """A journal is written whatever the pool has become meanwhile."""
    without_precondition(mp, KKP_POOLS, "metadata")


def fence_voids_only_the_empty(mp: Patch) -> None:
    """A pool without memory does not void what was promised to who has some addresses."""
    void_earlier = Fence.void_earlier

    async def void_empty(self: Fence[Any], listed: Sequence[Any]) -> list[Any]:
        others = [allocation for allocation in listed if not allocation.empty]
        return [
            *others,
            *await void_earlier(self, [allocation for allocation in listed if allocation.empty]),
        ]

    mp.setattr(Fence, "void_earlier", void_empty)


def own_answers_count_as_read(mp: Patch) -> None:
    """A replica believes to have read up to what it has written."""
    read_up_to = KkpReader.read_up_to

    async def further(self: KkpReader, pool: str, revision: int) -> KkpView:
        highest = self._allocations.highest_revision
        if highest < revision:
            return await read_up_to(self, pool, revision)
        indexed = partial(self._allocations.by_index, "pool", pool)
        return KkpView(highest, indexed, find_by_key(JOURNALS.kind, self._allocations.get))

    mp.setattr(KkpReader, "read_up_to", further)


def made_with_addresses(mp: Patch) -> None:
    """An IPAMAllocation is made with its addresses at once, before they are promised."""
    make = Allocations.create_missing

    async def hasty(
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
                        "ownerReferences": [owner_reference(pool, POOLS)],
                    },
                    "spec": {key: value for key, value in spec.items() if value is not None},
                }
                await self._client.create(ALLOCATIONS, grant.cluster.namespace, body)
        return await make(self, [grant for grant in grants if grant.allocation is not None], pool)

    mp.setattr(Allocations, "create_missing", hasty)


def left_without_addresses(mp: Patch) -> None:
    """An IPAMAllocation for which there are no addresses any more stays."""
    delete = Pools._delete_leftovers

    async def some(self: Pools, pool: Any, decided: Decided) -> None:
        examination = decided.examination
        findings = [
            finding if finding.cluster is None else replace(finding, surplus=None)
            for finding in examination.findings
        ]
        without = replace(examination, findings=findings)
        await delete(self, pool, replace(decided, examination=without))

    mp.setattr(Pools, "_delete_leftovers", some)


def deleted_by_cache(mp: Patch) -> None:
    """Allocations of other datacenters are deleted by what the caches show."""

    async def believe(self: Pools, pool: Any, candidates: Any) -> Any:
        del self, pool
        return [allocation for allocation, _ in candidates]

    mp.setattr(Pools, "_confirm_moved", believe)


def rewritten_from_the_start(mp: Patch) -> None:
    """What is promised takes the place of what the allocation has."""
    content = allocations.render_content

    def anew(ipam_allocation: IPAMAllocation, *arguments: Any, **keywords: Any) -> Any:
        without_addresses = replace(ipam_allocation.spec, addresses=())
        return content(replace(ipam_allocation, spec=without_addresses), *arguments, **keywords)

    mp.setattr(allocations, "render_content", anew)


def leftovers_deleted_blindly(mp: Patch) -> None:
    """A leftover is deleted whatever it has become meanwhile."""
    run = Flight.run

    def blind(self: Flight) -> None:
        if (self.method, self.plural) == ("DELETE", KKP_ALLOCATIONS):
            self.body = {}
        run(self)

    mp.setattr(Flight, "run", blind)


def written_for_where_the_cluster_is(mp: Patch) -> None:
    """What is promised is written for the datacenter in which the cache shows the cluster."""
    keep = Pools.keep

    async def elsewhere(self: Pools, pool: IPAMPool, reading: KkpView, granted: Any) -> Any:
        moved = []
        for promise, allocation in granted:
            cluster = self._caches.find_cluster(allocation.metadata.namespace)
            assert cluster is not None
            ranges = (part._replace(space=cluster.datacenter) for part in promise.ranges)
            moved.append((replace(promise, ranges=tuple(ranges)), allocation))
        return await keep(self, pool, reading, granted=moved)

    mp.setattr(Pools, "keep", elsewhere)


def unreadable_objects_hold_nothing(mp: Patch) -> None:
    """An allocation that cannot be decoded counts as one that is not there."""
    mp.setattr(reading, "check_readable", lambda pool, unreadable: None)
