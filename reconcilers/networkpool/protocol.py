"""The rules by which two ranges never overlap, as pure functions of what was read.

    settle   which promises are kept open, and how far a later reader must have read
    taken    what may not be handed out
    Waiting  which allocations wait for a range, oldest first
    choose   which of them gets what: best fit, lowest address on ties
    decide   all four, for one pass
    blockers what a pool's deletion waits for

A promise (an assignment in the pool's status) takes effect at most once: it may be written only
to the very version of the allocation that it names. It is settled for good when that object has
moved on or is gone.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain, product

from typing_extensions import override

from allocator import (
    AddressRange,
    AllocatorError,
    Capacity,
    InvalidRequest,
    Layout,
    OutOfRange,
    PinnedRangeConflict,
    PoolExhausted,
    Space,
)
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import MAX_ASSIGNMENTS, Assignment, NetworkPool
from reconcilers.networkpool.contents import P, shown_refusal
from reconcilers.networkpool.view import Named, View


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of the promises in a pool's status.

    Args:
        open: the promises that may still take effect.
        revision: the highest resourceVersion of the objects that settled others; never lowered.
    """

    open: tuple[Assignment, ...]
    revision: int


def memory(pool: NetworkPool) -> int | None:
    """Return the pool's allocationsRevision; None if it has none, or one that is no number."""
    text = pool.status.allocationsRevision
    return int(text) if text.isdecimal() else None


class MemoryDropped(Exception):
    """The server stored a pool without the memory that was written: its schema has no such field.

    Attributes:
        pool: as the server stored it.
    """

    def __init__(self, pool: NetworkPool) -> None:
        super().__init__(f"{pool.metadata.key}: the server keeps no status.allocationsRevision")
        self.pool = pool


def with_memory_kept(written: NetworkPool) -> NetworkPool:
    """Return a pool as the server answered the write of its memory.

    Raises:
        MemoryDropped: it has none. What was promised with the same write is not stored either, so
            no range may be handed out: another leader would not know of it.
    """
    if memory(written) is None:
        raise MemoryDropped(written)
    return written


def settle(pool: NetworkPool, view: View) -> Settlement:
    """Sort the pool's promises by what the view shows of their allocations.

    A promise is settled when its uid is seen at a higher resourceVersion, in whatever state, or
    when the view has read as far as the promise's version and the uid is not there. An allocation
    that cannot be decoded is there: its promise stays open. Only an allocation that is seen at a
    higher resourceVersion raises the revision: a position is a bookmark's or a list's number, and
    a reader that has seen the objects need not have seen those.
    """
    revision = memory(pool) or 0
    still_open = []
    for promise in pool.status.assignments:
        if not promise.resourceVersion.isdecimal() or not ranges.promised(promise):
            continue  # edited by hand into something that cannot be written
        version = int(promise.resourceVersion)
        seen = view.current(promise.name, promise.uid)
        if seen is not None and seen.metadata.revision > version:
            revision = max(revision, seen.metadata.revision)
        elif seen is not None or view.position < version or promise.name in view.unreadable:
            still_open.append(promise)
    return Settlement(tuple(still_open), revision)


@contextmanager
def taken(
    view: View, promises: Iterable[Assignment], geometry: Sequence[Layout]
) -> Iterator[Sequence[Space]]:
    """Give the pool's addresses, by family, with everything taken that may not be handed out.

    That is every range in a status, and every open promise. The phase does not matter: an
    allocation that is being deleted, or whose phase was wiped, holds its range until it is gone.
    Ranges may overlap each other where others made that so.

    What is taken in addition while the context lasts is free again afterwards: the view's contents
    are what is held, not what is chosen.
    """
    spaces = view.contents.spaces(tuple(geometry))
    with ExitStack() as trials:
        for space in spaces:
            trials.enter_context(space.trial())
        for found in chain.from_iterable(map(ranges.promised, promises)):
            for space in spaces:
                space.hold(found)
        yield spaces


class Turns(Iterator[P]):
    """A walk along the places of all rows in order, in which the rest of a row can be left out.

    Args:
        rows: the places of each row, in order; they do not change meanwhile.
    """

    def __init__(self, rows: Iterable[list[P]]) -> None:
        self._heads = [(places[0], 0, places) for places in rows]
        heapify(self._heads)
        self._last: tuple[P, int, list[P]] | None = None
        self._left_out: list[list[P]] = []

    @override
    def __next__(self) -> P:
        """Return the next place."""
        if self._last is not None:
            _, at, places = self._last
            self._resume(places, at + 1)
        self._last = heappop(self._heads) if self._heads else None
        if self._last is None:
            raise StopIteration
        return self._last[0]

    def leave_out(self, *, until_granted: bool = False) -> None:
        """Leave out the rest of the last one's row; or only until `granted` is called."""
        assert self._last is not None, "one of the row was tried"
        if until_granted:
            self._left_out.append(self._last[2])
        self._last = None

    def granted(self) -> None:
        """Take up the rows that were left out until now, behind the last one."""
        assert self._last is not None, "it was tried"
        for places in self._left_out:
            self._resume(places, bisect_right(places, self._last[0]))
        self._left_out.clear()

    def _resume(self, places: list[P], at: int) -> None:
        if at < len(places):
            heappush(self._heads, (places[at], at, places))


class Waiting(Iterator[IPAllocation]):
    """The allocations that wait for a range, oldest request first, name as tie-break.

    Args:
        view: the pool's allocations.
        promises: who is promised a range does not wait.
    """

    def __init__(self, view: View, promises: Iterable[Assignment]) -> None:
        self.turns = Turns(view.contents.queue.values())
        self._find = view.find
        self._promised = {promise.uid for promise in promises}

    @override
    def __next__(self) -> IPAllocation:
        """Return the next one."""
        for _, name in self.turns:
            found = self._find(name)
            if found is not None and found.metadata.uid not in self._promised:
                return found
        raise StopIteration


@dataclass(frozen=True, slots=True)
class Grant:
    """The ranges chosen for one allocation at the version that was read.

    Args:
        allocation: the allocation.
        ranges: one, or one of each family, in its order.
        promise: the promise as the pool's status carries it.
    """

    allocation: IPAllocation
    ranges: tuple[AddressRange, ...]
    promise: Assignment

    @classmethod
    def from_choice(cls, allocation: IPAllocation, chosen: tuple[AddressRange, ...]) -> "Grant":
        """Return the grant of what was chosen for an allocation."""
        meta = allocation.metadata
        first, *others = chosen
        second = others[0] if others else None
        promise = Assignment(
            name=meta.name,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
            startAddress=first.start_text,
            endAddress=first.end_text,
            secondaryStartAddress=second.start_text if second else None,
            secondaryEndAddress=second.end_text if second else None,
        )
        return cls(allocation, chosen, promise)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an allocation gets nothing: a reason for its Ready condition, and a sentence."""

    allocation: IPAllocation
    reason: str
    message: str

    @property
    def is_new(self) -> bool:
        """Whether the allocation's status does not show it yet."""
        return shown_refusal(self.allocation) != (self.reason, self.message)


@dataclass(frozen=True, slots=True)
class Choice:
    """What one pass hands out.

    Args:
        grants: at most a batch.
        refusals: which cannot be served now; of those that ask for the same, and whose statuses
            say so already, the first one.
        more: whether a full batch left others for the next pass.
    """

    grants: tuple[Grant, ...]
    refusals: tuple[Refusal, ...]
    more: bool


_REASONS: dict[type[AllocatorError], str] = {
    PoolExhausted: "PoolExhausted",
    PinnedRangeConflict: "PinnedRangeConflict",
    OutOfRange: "OutOfRange",
    InvalidRequest: "InvalidRequest",
    ranges.PoolNotDualStack: "PoolNotDualStack",
    ranges.FamilyNotConfigured: "FamilyNotConfigured",
}


def choose(pool: NetworkPool, asking: Waiting, spaces: Sequence[Space], room: int) -> Choice:
    """Serve `asking` in order from `spaces`, at most `room`; smaller ones may pass larger ones.

    Those that would be refused as their statuses say already, because one that asks for the same
    just was, are not tried. Free addresses only get fewer here, so none of them would fit.
    """
    grants: list[Grant] = []
    refusals: list[Refusal] = []
    for allocation in asking:
        if len(grants) == room:
            return Choice(tuple(grants), tuple(refusals), more=True)
        try:
            grants.append(Grant.from_choice(allocation, ranges.take(pool, allocation, spaces)))
        except AllocatorError as refused:
            refusal = _refusal(allocation, refused)
            refusals.append(refusal)
            if not refusal.is_new:
                # Of two families the other one may be the first to be full after the next grant.
                of_two = isinstance(refused, ranges.FamilyRefused)
                asking.turns.leave_out(until_granted=of_two)
        else:
            asking.turns.granted()
    return Choice(tuple(grants), tuple(refusals), more=False)


def _refusal(allocation: IPAllocation, refused: AllocatorError) -> Refusal:
    why = refused.refused if isinstance(refused, ranges.FamilyRefused) else refused
    reason = next(
        (word for kind, word in _REASONS.items() if isinstance(why, kind)), "InvalidRequest"
    )
    return Refusal(allocation, reason, str(refused))


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass found and chose.

    Args:
        settlement: the promises of earlier passes.
        choice: the new ones.
        layouts: what the pool may hand out of each family, its first one first.
        capacities: how full each is with everything that is held or promised.
        claimed: the sizes of all ranges that were held or promised before, added up.
        named: returns what allocations of other controllers hold, by their names.
    """

    settlement: Settlement
    choice: Choice
    layouts: tuple[Layout, ...]
    capacities: tuple[Capacity, ...]
    claimed: int
    named: Named = tuple

    @property
    def capacity(self) -> Capacity:
        """How full the pool's first family is."""
        return self.capacities[0]

    @property
    def promises(self) -> tuple[Assignment, ...]:
        """Everything that the pool's status has to carry: open promises, then new ones."""
        return (*self.settlement.open, *(grant.promise for grant in self.choice.grants))


def decide(
    pool: NetworkPool,
    view: View,
    geometry: Sequence[Layout],
    batch: int,
    also_held: Sequence[AddressRange] = (),
    named: Named = tuple,
) -> Decision:
    """Return what a pass over `pool` does, given what was read of its allocations.

    Args:
        pool: the pool.
        view: its allocations.
        geometry: what it may hand out of each family, its first one first.
        batch: the most to hand out.
        also_held: what others than allocations hold.
        named: returns that by name, where allocations may hold it as well.
    """
    settlement = settle(pool, view)
    promised = chain.from_iterable(map(ranges.promised, settlement.open))
    claimed = view.contents.claimed + sum(one.size for one in chain(promised, also_held))
    with taken(view, settlement.open, geometry) as spaces:
        for space, one in product(spaces, also_held):
            space.hold(one)
        room = min(batch, MAX_ASSIGNMENTS - len(settlement.open))
        choice = choose(pool, Waiting(view, settlement.open), spaces, room)
        capacities = tuple(space.capacity() for space in spaces)
        return Decision(settlement, choice, tuple(geometry), capacities, claimed, named)


def blockers(pool: NetworkPool, view: View) -> int:
    """Return how many allocations hold, or may still come to hold, a range of the pool."""
    promised = {promise.uid: promise.name for promise in settle(pool, view).open}
    only_promised = [uid for uid, name in promised.items() if not view.contents.holds(name, uid)]
    return view.contents.holding + len(only_promised)
