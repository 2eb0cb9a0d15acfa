"""Switches for the rules of "two ranges never overlap": each function switches one rule off.

The docstrings say what the code does without the rule. The numbers are those of
docs/design/no-overlap.md: 1 read, 2 taken, 3 choose, 4 promise, 5 write, 6 drop, 7 fence, 8 own
answers.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from allocator import AddressRange
from controller.cache import Cache, Change
from controller.client import Client
from controller.errors import Conflict
from controller.meta import Object, Version
from reconcilers.addressing import familychoice, statusranges
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool import (
    facts,
    livelists,
    pending_promises,
    protocol,
    statusjournal,
)
from reconcilers.networkpool.allocationkind import AllocationKind
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.livelists import ListedAllocations, LiveLists
from reconcilers.networkpool.poolkind import NetworkPoolChoice, NetworkPoolKind
from reconcilers.networkpool.reading import PoolReader
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, StatusJournal, compute_seal
from reconcilers.networkpool.view import AllocationsView, NetworkPoolReading
from reconcilers.promises import choosing
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.passes import PoolWrite
from tests.reconcilers.simulation.journalrules import (
    ignore_promises_in,
    patch_at_any_version,
)
from tests.reconcilers.simulation.model import POOLS

Patch = pytest.MonkeyPatch


# 1. Read.


def believe_any_position(mp: Patch) -> None:
    """Let a pass believe that it has read as far as the journal says."""

    async def read_up_to(
        self: PoolReader,
        pool: NetworkPool,
        journal: Journal,
        fenced_allocations: AllocationsView | None = None,
    ) -> AllocationsView:
        view, revision = self.read_cached(pool.metadata.key), journal.revisions.get(KIND)
        if fenced_allocations is not None or revision is None:
            return await read_honestly(
                self, pool, journal=journal, fenced_allocations=fenced_allocations
            )
        return replace(view, position=max(view.position, revision))

    read_honestly = PoolReader.read_up_to
    mp.setattr(PoolReader, "read_up_to", read_up_to)


def answer_lists_from_cache(mp: Patch) -> None:
    """Let a LIST show what the cache shows, at a revision above all others."""

    async def read_shared(self: PoolReader, pool: NetworkPool) -> AllocationsView:
        return replace(self.read_cached(pool.metadata.key), position=10**9)

    mp.setattr(PoolReader, "read_shared", read_shared)


def join_running_lists(mp: Patch) -> None:
    """Let a LIST also serve the pools that asked for one while it was running."""
    read = LiveLists.read

    async def read_for_all(self: LiveLists, pool: NetworkPool) -> ListedAllocations | None:
        listed = await read(self, pool)
        self._waiting |= self._asking
        return listed

    mp.setattr(LiveLists, "read", read_for_all)


def reuse_lists_of_earlier_versions(mp: Patch) -> None:
    """Let a LIST that is kept for a pool serve all later versions of that pool."""
    mp.setattr(livelists, "_get_version", lambda pool: (pool.metadata.uid, ""))


def move_position_by_own_answers(mp: Patch) -> None:
    """Let the answers to a replica's own writes move the position of its cache."""
    apply_own_write = Cache.apply_own_write

    def apply_and_move(self: Cache[Any], obj: Object) -> bool:
        own_keys = apply_own_write(self, obj)
        self.position = max(self.position, obj.metadata.revision)
        return own_keys

    mp.setattr(Cache, "apply_own_write", apply_and_move)


# 2. Taken.


def count_ranges_in_phase_allocated_only(mp: Patch) -> None:
    """Count the range of an allocation as held only while its phase is Allocated."""
    find_range = statusranges.find_held_range

    def find_allocated_range(allocation: IPAllocation) -> AddressRange | None:
        return find_range(allocation) if allocation.status.phase == ALLOCATED else None

    mp.setattr(statusranges, "find_held_range", find_allocated_range)


def ignore_promises(mp: Patch) -> None:
    """Let promised addresses be chosen again."""
    ignore_promises_in(mp, protocol)


def ignore_second_promised_ranges(mp: Patch) -> None:
    """Let the second family's range of a promise be chosen again."""
    exclude_ranges = choosing.exclude_ranges

    def exclude_first_family(
        holdings: Holdings, promised: Iterable[PromisedRange], also_held: Iterable[PromisedRange]
    ) -> Any:
        first = next(iter(holdings.layouts))
        return exclude_ranges(
            holdings, [part for part in promised if part.space == first], also_held
        )

    mp.setattr(protocol, "exclude_ranges", exclude_first_family)


def ignore_second_held_ranges(mp: Patch) -> None:
    """Let the second family's range of an allocation be chosen again."""
    all_held = statusranges.list_held_ranges
    mp.setattr(statusranges, "list_held_ranges", lambda allocation: all_held(allocation)[:1])


# 3. Choose.


def serve_one_of_two_required_families(mp: Patch) -> None:
    """Give an allocation that requires both families the first alone if the second is full."""
    expected = familychoice.choose_families
    mp.setattr(
        familychoice,
        "choose_families",
        lambda *asked: replace(expected(*asked), second_required=False),
    )


def serve_without_finalizer(mp: Patch) -> None:
    """Serve every allocation, with or without a finalizer."""

    def waits_without_finalizer(allocation: IPAllocation) -> bool:
        return (
            not allocation.metadata.is_terminating
            and statusranges.find_held_range(allocation) is None
        )

    mp.setattr(facts, "is_unserved", waits_without_finalizer)


def serve_while_terminating(mp: Patch) -> None:
    """Serve every allocation, even while it is being deleted."""

    def waits_while_terminating(allocation: IPAllocation) -> bool:
        return (
            bool(allocation.metadata.finalizers)
            and statusranges.find_held_range(allocation) is None
        )

    mp.setattr(facts, "is_unserved", waits_while_terminating)
    mp.setattr(AllocationsView, "find_promised_request", _find_at_version_though_terminating)


def _find_at_version_though_terminating(
    self: AllocationsView, promise: Promise
) -> IPAllocation | None:
    """Return the allocation of a promise at the promised version, even if it is being deleted."""
    current = self.find_current(promise.key, promise.uid)
    same = current is not None and current.metadata.resourceVersion == promise.resourceVersion
    return current if same else None


def promise_twice(mp: Patch) -> None:
    """Make another promise to an allocation that has an open one."""
    choose = choosing.choose

    def choose_without_promises(holdings: Any, takers: Any, _: Any, *rest: Any, **how: Any) -> Any:
        return choose(holdings, takers, (), *rest, **how)

    mp.setattr(protocol, "choose", choose_without_promises)


# 4. Promise.


def _patch_pools_at_any_version(mp: Patch, concerns: Any) -> None:
    """Store the patches of pools whose bodies `concerns` picks, whatever the pool's version."""
    patch_at_any_version(mp, lambda plural, body: plural == POOLS and concerns(body))


def write_pools_at_any_version(mp: Patch) -> None:
    """Write the status of a pool whatever the pool has become meanwhile."""
    _patch_pools_at_any_version(mp, lambda body: "status" in body)


def resend_choice_after_conflict(mp: Patch) -> None:
    """Send the same choice again after a conflict, to the version that the pool has now."""
    patch = Client.patch

    async def patch_live_version(
        self: Client, resource: Any, at: Any, body: Any, *, subresource: str = ""
    ) -> Any:
        try:
            return await patch(self, resource, at, body, subresource=subresource)
        except Conflict:
            if resource.plural != POOLS or "status" not in body:
                raise
        live = await self.get(resource, at.key)
        return await patch(self, resource, Version.from_object(live), body, subresource="status")

    mp.setattr(Client, "patch", patch_live_version)


def refuse_without_writing_the_pool(mp: Patch) -> None:
    """Write a refusal to an allocation though no write of the pool succeeded."""
    describe = NetworkPoolKind.describe_write

    def describe_as_written(
        self: NetworkPoolKind,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        choice: NetworkPoolChoice,
    ) -> PoolWrite:
        return replace(describe(self, pool, reading=reading, choice=choice), is_due=False)

    mp.setattr(NetworkPoolKind, "describe_write", describe_as_written)


def promise_families_one_by_one(mp: Patch) -> None:
    """Promise each family by itself, the second one when the first is written."""
    build_patch_fields, grant = StatusJournal.build_patch_fields, pending_promises._render_granted

    def render_first_ranges(
        self: StatusJournal, pool: NetworkPool, journal: Journal
    ) -> dict[str, Any]:
        promises = tuple(map(_keep_first_range, journal.promises))
        return build_patch_fields(self, pool, replace(journal, promises=promises))

    def make_grant(promise: Promise, *rest: Any, **keywords: Any) -> dict[str, Any]:
        return grant(_keep_first_range(promise), *rest, **keywords)

    mp.setattr(StatusJournal, "build_patch_fields", render_first_ranges)
    mp.setattr(StatusJournal, "is_stored", lambda self, answer, journal: True)
    mp.setattr(pending_promises, "_render_granted", make_grant)


def _keep_first_range(promise: Promise) -> Promise:
    """Return a promise with the range of its first family only."""
    return replace(promise, ranges=promise.ranges[:1])


# 5. Write.


def keep_promises_at_any_version(mp: Patch) -> None:
    """Write a promised range whatever the allocation has become since the promise."""

    def settle(journal: Journal, view: AllocationsView) -> Journal:
        return _settle(journal, view, lambda seen, _: seen.status.phase == ALLOCATED)

    def find_unserved(self: AllocationsView, promise: Promise) -> IPAllocation | None:
        current_allocation = self.find_current(promise.key, promise.uid)
        if (
            current_allocation is None
            or current_allocation.metadata.is_terminating
            or statusranges.find_held_range(current_allocation) is not None
        ):
            return None
        return current_allocation

    _replace_settling(mp, settle)
    mp.setattr(AllocationsView, "find_promised_request", find_unserved)


# 6. Drop.


def _settle(journal: Journal, view: AllocationsView, done: Any) -> Journal:
    """Settle a journal; `done` decides about the promises to existing allocations.

    Args:
        journal: the journal before the write.
        view: the allocations that the pass has read.
        done: returns whether a promise is over, from its allocation and the promise.
    """
    revision = journal.revisions.get(KIND, 0)
    kept = []
    for promise in journal.promises:
        seen = view.find_current(promise.key, promise.uid)
        if seen is not None and done(seen, promise):
            revision = max(revision, seen.metadata.revision)
        elif seen is not None or view.position < promise.revision:
            kept.append(promise)
    return Journal({KIND: revision}, tuple(kept))


def _replace_settling(mp: Patch, settle: Any) -> None:
    """Let passes settle journals by another function than `settle_journal`."""
    mp.setattr(protocol, "settle_journal", settle)


HIGHEST_POSITION = 10**9
"""Above every revision of a simulation: the cache seems to have read everything."""
_settle_by_the_rule = statusjournal.settle_journal


def forget_promises_at_once(mp: Patch) -> None:
    """Drop all promises at the next write of the journal, settled or not."""
    _replace_settling(mp, lambda journal, _: Journal({KIND: journal.revisions.get(KIND, 0)}))


def keep_promises_until_fulfilled(mp: Patch) -> None:
    """Keep the promise to a version that is gone until the allocation holds the range."""
    _replace_settling(
        mp,
        lambda journal, view: _settle(
            journal, view, lambda seen, _: statusranges.find_held_range(seen) is not None
        ),
    )


def drop_promises_to_absent_allocations(mp: Patch) -> None:
    """Drop the promise to an allocation that the cache lacks, however far the cache has read."""

    def settle(journal: Journal, view: AllocationsView) -> Journal:
        return _settle_by_the_rule(journal, replace(view, position=HIGHEST_POSITION))

    _replace_settling(mp, settle)


def keep_revision(mp: Patch) -> None:
    """Do not record in the journal how far other replicas have to read."""
    _replace_settling(
        mp,
        lambda journal, view: replace(
            _settle_by_the_rule(journal, view), revisions=journal.revisions
        ),
    )


def raise_revision_to_position(mp: Patch) -> None:
    """Raise the journal's revision to the reader's position, even that of a LIST."""

    def settle(journal: Journal, view: AllocationsView) -> Journal:
        settled = _settle_by_the_rule(journal, view)
        raised = max(settled.revisions.get(KIND, 0), view.position)
        return replace(settled, revisions={KIND: raised})

    _replace_settling(mp, settle)
    describe = NetworkPoolKind.describe_write

    def describe_raised(
        self: NetworkPoolKind,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        choice: NetworkPoolChoice,
    ) -> PoolWrite:
        write, stored = (
            describe(self, pool, reading=reading, choice=choice),
            STATUS_JOURNALS.read(pool),
        )
        is_raised = choice.journal.revisions != stored.revisions
        return replace(write, is_due=write.is_due or is_raised)

    mp.setattr(NetworkPoolKind, "describe_write", describe_raised)


# 7. Fence.


def skip_fence(mp: Patch) -> None:
    """Let a pool without memory hand out what looks free."""
    read = StatusJournal.read

    def read_with_zero(self: StatusJournal, pool: NetworkPool) -> Journal:
        journal = read(self, pool)
        return replace(journal, revisions={KIND: 0, **journal.revisions})

    mp.setattr(StatusJournal, "read", read_with_zero)


def believe_foreign_memory(mp: Patch) -> None:
    """Believe a journal whose revision is above that of every LIST."""

    def needs_fence(
        self: AllocationKind, pool: NetworkPool, journal: Journal, *_: Any, **__: Any
    ) -> bool:
        return KIND not in journal.revisions

    mp.setattr(AllocationKind, "needs_fence", needs_fence)


def believe_copied_journals(mp: Patch) -> None:
    """Believe a journal that was written for another object."""
    read = StatusJournal.read

    def read_as_own(self: StatusJournal, pool: NetworkPool) -> Journal:
        status = pool.status
        own = compute_seal(pool.metadata.uid, status.revisions, status.assignments)
        return read(self, structs.replace(pool, status=structs.replace(status, journalOf=own)))

    mp.setattr(StatusJournal, "read", read_as_own)


def serve_from_terminating_pools(mp: Patch) -> None:
    """Let a pool that is being deleted hand out ranges."""

    async def serve(self: NetworkPoolKind, pool: NetworkPool) -> tuple[NetworkPool, None]:
        return pool, None

    mp.setattr(NetworkPoolKind, "_reconcile_deleted", serve)


def serve_from_pools_without_finalizer(mp: Patch) -> None:
    """Let a pool without our finalizer hand out ranges."""

    async def keep_pool(self: NetworkPoolKind, pool: NetworkPool) -> NetworkPool:
        return pool

    mp.setattr(NetworkPoolKind, "_add_finalizer", keep_pool)


def release_pools_by_cache(mp: Patch) -> None:
    """Let a deleted pool go when the cache shows no allocation of it, without a LIST."""

    async def count_by_cache(
        self: NetworkPoolKind, pool: NetworkPool, journal: Journal
    ) -> tuple[int, AllocationsView]:
        view = self._allocations.read_cached(pool.metadata.key)
        return protocol.count_blockers(journal, view), view

    mp.setattr(NetworkPoolKind, "_count_blockers", count_by_cache)


# 8. Own answers.


def show_deleted_objects_again(mp: Patch) -> None:
    """Show the answer to an own write though the cached object was deleted."""

    def apply_newer(self: Cache[Any], obj: Object) -> bool:
        """Put a newer object into the cache, also if the cache has none; report it as applied."""
        cached = self.get(obj.metadata.key)
        if cached is None or cached.metadata.revision < obj.metadata.revision:
            self._set_object(obj.metadata.key, obj)
            self._notify([Change(cached, obj)])
        return True

    mp.setattr(Cache, "apply_own_write", apply_newer)
    # The client hands on what its last finalizer left, as if it were still there.
    mp.setattr("controller.client.still_exists", lambda _: True)
