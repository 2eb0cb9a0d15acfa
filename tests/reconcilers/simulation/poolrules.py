"""How each rule of "two ranges never overlap" is switched off, one by one.

The letters follow the numbers in docs/design/no-overlap.md: 1 read, 2 taken, 3 choose, 4 promise,
5 write, 6 drop, 7 fence, 8 own answers.
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
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, StatusJournal, seal
from reconcilers.networkpool.view import AllocationsView, NetworkPoolReading
from reconcilers.promises import choosing
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.passes import PoolWrite
from tests.reconcilers.simulation.journalrules import (
    patch_at_any_version,
    promises_not_taken_by,
)
from tests.reconcilers.simulation.model import POOLS

Patch = pytest.MonkeyPatch


# 1. Read.


def any_position(mp: Patch) -> None:
    """A pass believes to have read what its cache has not."""

    async def read_up_to(
        self: PoolReader, pool: NetworkPool, journal: Journal, seen: AllocationsView | None = None
    ) -> AllocationsView:
        view, revision = self.read_cached(pool.metadata.key), journal.revisions.get(KIND)
        if seen is not None or revision is None:
            return await honest(self, pool, journal=journal, seen=seen)
        return replace(view, position=max(view.position, revision))

    honest = PoolReader.read_up_to
    mp.setattr(PoolReader, "read_up_to", read_up_to)


def stale_lists(mp: Patch) -> None:
    """A LIST shows what the cache does, under the newest revision."""

    async def read_shared(self: PoolReader, pool: NetworkPool) -> AllocationsView:
        return replace(self.read_cached(pool.metadata.key), position=10**9)

    mp.setattr(PoolReader, "read_shared", read_shared)


def late_for_a_list(mp: Patch) -> None:
    """A LIST serves the pools that asked while it was under way, too."""
    read = LiveLists.read

    async def join(self: LiveLists, pool: NetworkPool) -> ListedAllocations | None:
        listed = await read(self, pool)
        self._waiting |= self._asking
        return listed

    mp.setattr(LiveLists, "read", join)


def lists_of_earlier_versions(mp: Patch) -> None:
    """A LIST that is kept for a pool serves it at any version that it has later."""
    mp.setattr(livelists, "_version", lambda pool: (pool.metadata.uid, ""))


def position_of_own_answers(mp: Patch) -> None:
    """Own answers move the position."""
    own = Cache.apply_own_write

    def remember(self: Cache[Any], obj: Object) -> bool:
        own_keys = own(self, obj)
        self.position = max(self.position, obj.metadata.revision)
        return own_keys

    mp.setattr(Cache, "apply_own_write", remember)


# 2. Taken.


def held_in_phase_allocated_only(mp: Patch) -> None:
    """A range counts only while the phase is Allocated."""
    find_range = statusranges.find_held_range

    def lax(allocation: IPAllocation) -> AddressRange | None:
        return find_range(allocation) if allocation.status.phase == ALLOCATED else None

    mp.setattr(statusranges, "find_held_range", lax)


def promises_not_taken(mp: Patch) -> None:
    """What is promised may be chosen again."""
    promises_not_taken_by(mp, protocol)


def second_promised_not_taken(mp: Patch) -> None:
    """Of what is promised, the range of the first family alone is taken."""
    exclude_ranges = choosing.exclude_ranges

    def lax(
        holdings: Holdings, promised: Iterable[PromisedRange], also_held: Iterable[PromisedRange]
    ) -> Any:
        first = next(iter(holdings.layouts))
        return exclude_ranges(
            holdings, [part for part in promised if part.space == first], also_held
        )

    mp.setattr(protocol, "exclude_ranges", lax)


def second_held_not_taken(mp: Patch) -> None:
    """Of what an allocation holds, the range of the first family alone is taken."""
    all_held = statusranges.list_held_ranges
    mp.setattr(statusranges, "list_held_ranges", lambda allocation: all_held(allocation)[:1])


# 3. Choose.


def one_of_two_suffices(mp: Patch) -> None:
    """Who requires both families gets the first alone where the second is full."""
    expected = familychoice.choose_families
    mp.setattr(
        familychoice,
        "choose_families",
        lambda *asked: replace(expected(*asked), second_required=False),
    )


def without_finalizer(mp: Patch) -> None:
    """Every allocation is served, with or without a finalizer."""

    def asks(allocation: IPAllocation) -> bool:
        return (
            not allocation.metadata.terminating
            and statusranges.find_held_range(allocation) is None
        )

    mp.setattr(facts, "is_unserved", asks)


def while_terminating(mp: Patch) -> None:
    """Every allocation is served, deleted or not."""

    def asks(allocation: IPAllocation) -> bool:
        return (
            bool(allocation.metadata.finalizers)
            and statusranges.find_held_range(allocation) is None
        )

    mp.setattr(facts, "is_unserved", asks)
    mp.setattr(AllocationsView, "at_version", _at_version_though_terminating)


def _at_version_though_terminating(self: AllocationsView, promise: Promise) -> IPAllocation | None:
    current = self.find_current(promise.key, promise.uid)
    same = current is not None and current.metadata.resourceVersion == promise.resourceVersion
    return current if same else None


def promised_twice(mp: Patch) -> None:
    """An allocation with an open promise is served once more."""
    choose = choosing.choose

    def careless(holdings: Any, takers: Any, _: Any, *rest: Any, **how: Any) -> Any:
        return choose(holdings, takers, (), *rest, **how)

    mp.setattr(protocol, "choose", careless)


# 4. Promise.


def _patch_without_precondition(mp: Patch, concerns: Any) -> None:
    """Let the writes of pools that `concerns` picks take effect whatever the version."""
    patch_at_any_version(mp, lambda plural, body: plural == POOLS and concerns(body))


def pools_written_blindly(mp: Patch) -> None:
    """A pool's status is written whatever it has become meanwhile."""
    _patch_without_precondition(mp, lambda body: "status" in body)


def choice_sent_again(mp: Patch) -> None:
    """After a conflict the same choice is sent again, to the version that is there now."""
    patch = Client.patch

    async def stubborn(
        self: Client, resource: Any, at: Any, body: Any, *, subresource: str = ""
    ) -> Any:
        try:
            return await patch(self, resource, at, body, subresource=subresource)
        except Conflict:
            if resource.plural != POOLS or "status" not in body:
                raise
        live = await self.get(resource, at.key)
        return await patch(self, resource, Version.from_object(live), body, subresource="status")

    mp.setattr(Client, "patch", stubborn)


def refused_without_proof(mp: Patch) -> None:
    """A refusal is written though no write of the pool succeeded."""
    describe = NetworkPoolKind.describe_write

    def lax(
        self: NetworkPoolKind,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        choice: NetworkPoolChoice,
    ) -> PoolWrite:
        return replace(describe(self, pool, reading=reading, choice=choice), is_due=False)

    mp.setattr(NetworkPoolKind, "describe_write", lax)


def one_family_at_a_time(mp: Patch) -> None:
    """Each family is promised by itself, the second one when the first is written."""
    fields, grant = StatusJournal.fields, pending_promises._render_granted

    def apart(self: StatusJournal, pool: NetworkPool, journal: Journal) -> dict[str, Any]:
        promises = tuple(map(_first_of, journal.promises))
        return fields(self, pool, replace(journal, promises=promises))

    def make_grant(promise: Promise, *rest: Any, **keywords: Any) -> dict[str, Any]:
        return grant(_first_of(promise), *rest, **keywords)

    mp.setattr(StatusJournal, "fields", apart)
    mp.setattr(StatusJournal, "is_stored", lambda self, answer, journal: True)
    mp.setattr(pending_promises, "_render_granted", make_grant)


def _first_of(promise: Promise) -> Promise:
    return replace(promise, ranges=promise.ranges[:1])


# 5. Write.


def unbound_promises(mp: Patch) -> None:
    """A promise is kept to whatever the allocation has become, until it is seen to be kept."""

    def settle(journal: Journal, view: AllocationsView) -> Journal:
        return _settle(journal, view, lambda seen, _: seen.status.phase == ALLOCATED)

    def current(self: AllocationsView, promise: Promise) -> IPAllocation | None:
        current_allocation = self.find_current(promise.key, promise.uid)
        if (
            current_allocation is None
            or current_allocation.metadata.terminating
            or statusranges.find_held_range(current_allocation) is not None
        ):
            return None
        return current_allocation

    _settling(mp, settle)
    mp.setattr(AllocationsView, "at_version", current)


# 6. Drop.


def _settle(journal: Journal, view: AllocationsView, done: Any) -> Journal:
    """Settle as the rule does, except that `done` says of a promise to one that is there."""
    revision = journal.revisions.get(KIND, 0)
    kept = []
    for promise in journal.promises:
        seen = view.find_current(promise.key, promise.uid)
        if seen is not None and done(seen, promise):
            revision = max(revision, seen.metadata.revision)
        elif seen is not None or view.position < promise.revision:
            kept.append(promise)
    return Journal({KIND: revision}, tuple(kept))


def _settling(mp: Patch, settle: Any) -> None:
    mp.setattr(protocol, "settle_journal", settle)


_rule = statusjournal.settle_journal


def never_kept(mp: Patch) -> None:
    """Promises are forgotten with the next write, settled or not."""
    _settling(mp, lambda journal, _: Journal({KIND: journal.revisions.get(KIND, 0)}))


def kept_until_fulfilled(mp: Patch) -> None:
    """A promise to a version that is gone stays until the allocation holds the range."""
    _settling(
        mp,
        lambda journal, view: _settle(
            journal, view, lambda seen, _: statusranges.find_held_range(seen) is not None
        ),
    )


def dropped_when_absent(mp: Patch) -> None:
    """A promise to one that the cache does not show goes, however far the cache has read."""

    def settle(journal: Journal, view: AllocationsView) -> Journal:
        return _rule(journal, replace(view, position=10**9))

    _settling(mp, settle)


def revision_not_raised(mp: Patch) -> None:
    """What settled a promise need not have been read by others."""
    _settling(
        mp,
        lambda journal, view: replace(_rule(journal, view), revisions=journal.revisions),
    )


def revision_of_lists(mp: Patch) -> None:
    """The revision is raised to the reader's position, a LIST's number too."""

    def settle(journal: Journal, view: AllocationsView) -> Journal:
        settled = _rule(journal, view)
        raised = max(settled.revisions.get(KIND, 0), view.position)
        return replace(settled, revisions={KIND: raised})

    _settling(mp, settle)
    describe = NetworkPoolKind.describe_write

    def eager(
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

    mp.setattr(NetworkPoolKind, "describe_write", eager)


# 7. Fence.


def no_fence(mp: Patch) -> None:
    """A pool without memory hands out what looks free."""
    read = StatusJournal.read

    def lenient(self: StatusJournal, pool: NetworkPool) -> Journal:
        journal = read(self, pool)
        return replace(journal, revisions={KIND: 0, **journal.revisions})

    mp.setattr(StatusJournal, "read", lenient)


def memory_of_others_believed(mp: Patch) -> None:
    """A memory above every LIST is taken for one of our own."""

    def trusting(
        self: AllocationKind, pool: NetworkPool, journal: Journal, *_: Any, **__: Any
    ) -> bool:
        return KIND not in journal.revisions

    mp.setattr(AllocationKind, "needs_fence", trusting)


def journal_of_others_believed(mp: Patch) -> None:
    """A journal that was written for another object counts as the pool's own."""
    read = StatusJournal.read

    def credulous(self: StatusJournal, pool: NetworkPool) -> Journal:
        status = pool.status
        own = seal(pool.metadata.uid, status.revisions, status.assignments)
        return read(self, structs.replace(pool, status=structs.replace(status, journalOf=own)))

    mp.setattr(StatusJournal, "read", credulous)


def terminating_serves(mp: Patch) -> None:
    """A pool that is being deleted goes on handing out."""

    async def serve(self: NetworkPoolKind, pool: NetworkPool) -> tuple[NetworkPool, None]:
        return pool, None

    mp.setattr(NetworkPoolKind, "_reconcile_deleted", serve)


def serves_without_finalizer(mp: Patch) -> None:
    """A pool hands out though nothing keeps it from vanishing."""

    async def keep_pool(self: NetworkPoolKind, pool: NetworkPool) -> NetworkPool:
        return pool

    mp.setattr(NetworkPoolKind, "_add_finalizer", keep_pool)


def leaves_by_cache(mp: Patch) -> None:
    """A pool goes when the cache shows no allocation, without a LIST."""

    async def by_cache(
        self: NetworkPoolKind, pool: NetworkPool, journal: Journal
    ) -> tuple[int, AllocationsView]:
        view = self._allocations.read_cached(pool.metadata.key)
        return protocol.count_blockers(journal, view), view

    mp.setattr(NetworkPoolKind, "_count_blockers", by_cache)


# 8. Own answers.


def deleted_objects_return(mp: Patch) -> None:
    """An own answer is shown if it is newer than what is shown, wherever the position is."""

    def newer_wins(self: Cache[Any], obj: Object) -> bool:
        cached = self.get(obj.metadata.key)
        if cached is None or cached.metadata.revision < obj.metadata.revision:
            self._set(obj.metadata.key, obj)
            self._notify([Change(cached, obj)])
        return True

    mp.setattr(Cache, "apply_own_write", newer_wins)
    # The client hands on what its last finalizer left, as if it were still there.
    mp.setattr("controller.client.still_exists", lambda _: True)
