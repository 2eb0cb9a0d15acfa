"""What the holders of one pool hold and wait for, kept from pass to pass.

A *holder* is an identity that uses or requests addresses. An *asker* is an object that waits for
an address. A *space* is a part of a pool that allocates by itself; a pool has one for each address
family, for example. A *row* of the queue has askers that would get the same answer.

A pass needs all holders of its pool: which ranges are held, which askers wait and in what order.
To read each object in each pass would make one release cost as much as the pool is large. So what
each holder means to the pool is kept as `Facts`, and a pass reads only holders that changed.

Several objects may speak of one holder: a claim and its IPAddress, a Cluster and its
IPAMAllocation. A function of the kind reads all of them and returns the facts of the holder, so a
range that several of its objects show is one range.

If an object changes, only the identities of its holders are noted. The next call of
`KeptHoldings.holdings` reads the noted holders from the caches. So the kept facts are never ahead
of or behind the caches. If that reading fails, the pass fails, and the next pass rereads all
holders. From time to time all holders are reread anyway and compared with the kept facts. A
difference is a bug: it is reported, and the reread facts replace the kept ones. Promises are not
kept here: a pass takes them from the pool object that it was given.

Thousands of askers may wait for a full pool, most of them for the same size. They are kept in rows
of equal askers, so that a pass need not try each of them (queue.py). Thousands may also be paused,
with their cluster for example. They have no place in the queue, so they cost a pass nothing.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from typing_extensions import override

from allocator import AddressRange, Layout, Space
from controller.cache import Cache, Change
from controller.clock import Clock
from controller.loggers import get_logger
from controller.meta import Object
from reconcilers.promises.identities import Find, Holder
from reconcilers.promises.journal import PromisedRange
from reconcilers.promises.queue import Row, Rows, Turns
from reconcilers.promises.statuswrites import StatusWrite
from reconcilers.spaces.intervals import Intervals

CHECK_SECONDS = 600.0
"""Between two checks of what is kept, where no setting says otherwise."""
_MOST_LOGGED = 20
"""The most differences that one log line names."""
_log = get_logger(__name__)


AskerT = TypeVar("AskerT")

Place = tuple[datetime, Holder]
"""A place in the queue: since when an address is requested, and the holder as tie-break."""


class Facts(NamedTuple):
    """What one holder means to its pool.

    Args:
        ranges: the ranges that the holder holds, each once, in the spaces of the pool.
        place: the place of the holder in the queue; None if it does not wait, or must not be
            served now, because it is paused, for example.
        row: the row of the holder in the queue. Askers have equal rows only if the pool would
            answer them equally, and their objects show equal refusals. None for a row of its own.
        uid: the uid of the holder's object; empty if its kind does not need it.
        is_in_use: whether the pool's figures count the holder as one that uses addresses.
        outside: identifies the addresses that the holder has outside of what the pool may hand
            out; None if it has none.
        foreign: the last write of the holder's status by another controller; None if there was
            none.
    """

    ranges: tuple[PromisedRange, ...] = ()
    place: Place | None = None
    row: Row | None = None
    uid: str = ""
    is_in_use: bool = False
    outside: Hashable | None = None
    foreign: StatusWrite | None = None


NOTHING = Facts()
Layouts = Mapping[str, Layout]
"""What a pool may hand out, by the name of each space."""
NO_LAYOUTS: Layouts = MappingProxyType({})


class _Span(NamedTuple):
    """The first and the last address of a range, as numbers."""

    first: int
    last: int


class _RangeIndex:
    """The holders of each range of one space, to find the holders of an address."""

    def __init__(self) -> None:
        self.holders: dict[AddressRange, dict[Holder, None]] = {}
        """By range: its holders, in a dict because that keeps their order."""
        self._intervals: dict[int, Intervals[_Span]] = {}
        """By family: the intervals of all keys of `holders`, each once."""

    def add(self, addresses: AddressRange, holder: Holder) -> None:
        """Add a range that a holder has."""
        holders = self.holders.get(addresses)
        if holders is None:
            holders = self.holders[addresses] = {}
            intervals = self._intervals.setdefault(addresses.family, Intervals())
            intervals.add(_Span(addresses.first, addresses.last))
        holders[holder] = None

    def remove(self, addresses: AddressRange, holder: Holder) -> None:
        """Remove a range that a holder has."""
        holders = self.holders[addresses]
        del holders[holder]
        if not holders:
            del self.holders[addresses]
            intervals = self._intervals[addresses.family]
            intervals.remove(_Span(addresses.first, addresses.last))

    def find_touching(self, addresses: AddressRange) -> Iterator[Holder]:
        """Yield the holders of ranges that have some of these addresses."""
        intervals = self._intervals.get(addresses.family)
        if intervals is None:  # no range of this family was ever added
            return
        for first, last in intervals.find_touching(addresses.first, addresses.last):
            yield from self.holders[AddressRange(first, last, addresses.family)]


class Holdings:
    """The facts of the holders of one pool, and counts, spaces and indexes derived from them.

    The free addresses of a space, and the index of its ranges, are computed when they are first
    needed. From then on each change of the facts changes them as well.

    Args:
        layouts: what the pool may hand out.
        facts: the facts of each holder.
    """

    def __init__(
        self, layouts: Layouts = NO_LAYOUTS, facts: Iterable[tuple[Holder, Facts]] = ()
    ) -> None:
        self.layouts: Layouts = layouts
        self._facts: dict[Holder, Facts] = {}
        self.queue = Rows[Place]()
        """The askers that wait; the iterators of `turns` cannot be used after a change."""
        self.waiting_count = 0
        """How many askers wait."""
        self.in_use_count = 0
        """How many holders the pool's figures count."""
        self.holder_count = 0
        """How many holders hold a range."""
        self.claimed_size = 0
        """The sizes of all ranges that are held, added up."""
        self._outside: Counter[Hashable] = Counter()
        """By `Facts.outside`: how many holders have it."""
        self._foreign: list[tuple[StatusWrite, Holder]] = []
        """The status writes of other controllers, sorted by time."""
        self._spaces: dict[str, Space] = {}
        self._indexes: dict[str, _RangeIndex] = {}
        for holder, holder_facts in facts:
            self.put(holder, holder_facts)

    def put(self, holder: Holder, new: Facts) -> None:
        """Add a holder, or replace its facts, with all that is derived from them."""
        old = self._facts.get(holder)
        if old == new:  # most changes of objects do not change the facts
            return
        if old is not None:
            self._subtract(holder, old)
        self._facts[holder] = new
        if new.ranges:
            self.holder_count += 1
            for part in new.ranges:
                self.claimed_size += part.range.size
                if part.space in self._spaces:
                    self._spaces[part.space].hold(part.range)
                if part.space in self._indexes:
                    self._indexes[part.space].add(part.range, holder)
        self.in_use_count += new.is_in_use
        if new.place is not None:
            self.queue.add(_get_row(holder, new), new.place)
            self.waiting_count += 1
        if new.outside is not None:
            self._outside[new.outside] += 1
        if new.foreign is not None:
            insort(self._foreign, (new.foreign, holder))

    def remove(self, holder: Holder) -> None:
        """Forget a holder, if it is known."""
        old = self._facts.pop(holder, None)
        if old is not None:
            self._subtract(holder, old)

    def _subtract(self, holder: Holder, old: Facts) -> None:
        """Remove the facts of a holder from the counts, the queue, the spaces and the indexes."""
        if old.ranges:
            self.holder_count -= 1
            for part in old.ranges:
                self.claimed_size -= part.range.size
                if part.space in self._spaces:
                    self._spaces[part.space].release(part.range)
                if part.space in self._indexes:
                    self._indexes[part.space].remove(part.range, holder)
        self.in_use_count -= old.is_in_use
        if old.place is not None:
            self.queue.remove(_get_row(holder, old), old.place)
            self.waiting_count -= 1
        if old.outside is not None:
            self._outside[old.outside] -= 1
            if not self._outside[old.outside]:  # `outside_count` counts the keys
                del self._outside[old.outside]
        if old.foreign is not None:
            del self._foreign[bisect_left(self._foreign, (old.foreign, holder))]

    def replace_layouts(self, layouts: Layouts) -> None:
        """Replace the layouts of the pool; only spaces whose layout changed are computed again."""
        if layouts == self.layouts:
            return
        self._spaces = {
            name: space
            for name, space in self._spaces.items()
            if layouts.get(name) == space.layout
        }
        self.layouts = layouts

    def get_space(self, name: str = "") -> Space:
        """Return a space of the pool, in which each held range is taken."""
        space = self._spaces.get(name)
        if space is None:
            space = self._spaces[name] = Space(self.layouts[name], self._list_ranges(name))
        return space

    @contextmanager
    def roll_back_at_exit(self) -> Iterator[None]:
        """Release at the end of this context each range that was taken in it."""
        with ExitStack() as trials:
            for name in self.layouts:
                trials.enter_context(self.get_space(name).roll_back_at_exit())
            yield

    def _list_ranges(self, space: str) -> Iterator[AddressRange]:
        """Yield the ranges that are held of one space, each as often as it has holders.

        A Space counts the holders of a range: the range is free once each of them released it.
        """
        for facts in self._facts.values():
            for part in facts.ranges:
                if part.space == space:
                    yield part.range

    def _index(self, space: str) -> _RangeIndex:
        """Return the index of the ranges that holders have of one space."""
        index = self._indexes.get(space)
        if index is None:
            index = self._indexes[space] = _RangeIndex()
            for holder, facts in self._facts.items():
                for part in facts.ranges:
                    if part.space == space:
                        index.add(part.range, holder)
        return index

    def list_held_ranges(self, space: str = "") -> Collection[AddressRange]:
        """Return the held ranges of one space, each once."""
        return self._index(space).holders.keys()

    def find_other_holder(
        self, addresses: AddressRange, excluded: Holder | None = None, space: str = ""
    ) -> Holder | None:
        """Return a holder of some of the addresses that is not `excluded`; None if none exists.

        Args:
            addresses: addresses of one space.
            excluded: the holder that is never returned; None if every holder may be returned.
            space: the name of the space.
        """
        holders = self.list_holders_of(addresses, space)
        return next((holder for holder in holders if holder != excluded), None)

    def list_holders_of(self, addresses: AddressRange, space: str = "") -> Iterator[Holder]:
        """Yield the holders that hold some of the addresses of one space.

        A holder of several ranges with such addresses is yielded once for each range.
        """
        return self._index(space).find_touching(addresses)

    def iterate_turns(self) -> Turns[Place]:
        """Return an iterator over the askers that wait, the oldest first; a change ends it."""
        return Turns(self.queue)

    def find_uninformed(
        self, kind: str, find: Find[AskerT], shows: Callable[[AskerT], bool]
    ) -> Iterator[AskerT]:
        """Yield the askers of one kind that do not show an answer yet; of each row oldest first.

        All askers of a row show the same answer. So if the oldest asker of a row shows it, the
        others are not examined.

        Args:
            kind: the kind of the askers, by its full name.
            find: returns the asker of a holder; None to leave it out.
            shows: returns whether an asker shows the answer already.
        """
        for places in self.queue.values():
            _, first_holder = places[0]
            if first_holder.kind != kind:  # a row has askers of one kind
                continue
            for _, holder in places:
                asker = find(holder)
                if asker is None:
                    continue
                if shows(asker):
                    break
                yield asker

    @property
    def oldest_wait(self) -> datetime | None:
        """Since when the oldest asker has waited; None if none waits."""
        # The first place of a row is its oldest, and a place begins with its time.
        return min((places[0][0] for places in self.queue.values()), default=None)

    @property
    def outside_count(self) -> int:
        """How many different values of `Facts.outside` the holders have."""
        return len(self._outside)

    @property
    def holders(self) -> list[Holder]:
        """All holders that have facts, sorted, also holders that hold nothing."""
        return sorted(self._facts)

    def list_facts_of_kind(self, kind: str) -> Iterator[tuple[Holder, Facts]]:
        """Yield the holders of one kind, by its full name, with their facts."""
        return ((holder, facts) for holder, facts in self._facts.items() if holder.kind == kind)

    def get_facts(self, holder: Holder) -> Facts:
        """Return the facts of a holder; NOTHING if it has none."""
        return self._facts.get(holder, NOTHING)

    @property
    def last_foreign_write(self) -> StatusWrite | None:
        """The last write of a holder's status by another controller; None if there was none."""
        return self._foreign[-1][0] if self._foreign else None

    @property
    def derived(self) -> tuple[Collection[str], Collection[str]]:
        """The names of the spaces that are computed, and of the spaces that have an index."""
        return tuple(self._spaces), tuple(self._indexes)

    def copy_state(
        self, derived: tuple[Collection[str], Collection[str]] | None = None
    ) -> dict[str, Any]:
        """Return the facts of all holders and all that is derived from them, for a comparison.

        Args:
            derived: the names of the spaces to include, and of the spaces whose indexes to
                include, as `Holdings.derived` of the other side of the comparison names them. None
                for the spaces and indexes that are computed here.
        """
        spaces, indexed = self.derived if derived is None else derived
        state: dict[str, Any] = {"facts": self._facts}
        state["queue"] = self.queue
        state["writes by others"] = self._foreign
        state["counts"] = (
            self.waiting_count,
            self.in_use_count,
            self.holder_count,
            self.claimed_size,
            self._outside,
        )
        state["space"] = {name: self.get_space(name).copy_state() for name in spaces}
        state["ranges"] = {name: self._index(name).holders for name in indexed}
        return state


def _get_row(holder: Holder, facts: Facts) -> Row:
    """Return the row of a waiting holder; without a row in its facts, it has a row of its own."""
    return holder if facts.row is None else facts.row


def list_differences(kept: Holdings, read: Holdings) -> list[str]:
    """Return the parts in which the kept holdings differ from the reread ones, sorted.

    A part is the name of a holder, or the name of something derived, such as "queue".
    """
    # A pass may have laid out the kept holdings by the pool's spec. Spaces can be compared only if
    # both sides have the same layouts.
    read.replace_layouts(kept.layouts)
    kept_state, reread_state = kept.copy_state(), read.copy_state(kept.derived)
    parts = [
        part for part in kept_state if part != "facts" and kept_state[part] != reread_state[part]
    ]
    kept_facts, reread_facts = kept_state["facts"], reread_state["facts"]
    if kept_facts != reread_facts:
        parts += [
            f"{holder.kind} {holder.key}"
            for holder in {**kept_facts, **reread_facts}
            if kept_facts.get(holder) != reread_facts.get(holder)
        ]
    return sorted(parts)


def log_differences(pool: Hashable, parts: Sequence[str]) -> None:
    """Log that the kept holdings of a pool differ from its objects: a bug."""
    _log.error("pool cache inconsistent", pool=str(pool), parts=list(parts[:_MOST_LOGGED]))


PoolT = TypeVar("PoolT", bound=Hashable)
OfferT = TypeVar("OfferT")
OfferT_contra = TypeVar("OfferT_contra", contravariant=True)
ObjectT = TypeVar("ObjectT", bound=Object)


class HolderSource(Protocol[PoolT, OfferT_contra]):
    """Objects of one kind from which holders are found, whatever their type.

    An *offer* is the part of a pool's spec on which the facts of its holders depend.
    """

    def list_holders(self, pool: PoolT, offer: OfferT_contra) -> Iterable[Holder]:
        """Return the holders of a pool with this offer, as the objects show them."""
        ...

    def subscribe(self, note: Callable[[PoolT, Holder], None]) -> Callable[[], None]:
        """Call `note` with each pool and holder that a change concerns, from now on.

        Returns:
            A function that ends the subscription.
        """
        ...


@dataclass(frozen=True, slots=True)
class CachedSource(HolderSource[PoolT, OfferT], Generic[PoolT, OfferT, ObjectT]):
    """The objects of one cache, from which holders are found.

    Args:
        objects: returns the objects that concern a pool with this offer.
        pools: returns the pools that an object concerns.
        holder: returns the holder that an object stands for in a pool.
    """

    cache: Cache[ObjectT]
    objects: Callable[[PoolT, OfferT], Iterable[ObjectT]]
    pools: Callable[[ObjectT], Iterable[PoolT]]
    holder: Callable[[ObjectT, PoolT], Holder]

    @override
    def list_holders(self, pool: PoolT, offer: OfferT) -> Iterable[Holder]:
        """Return the holder of each object that concerns a pool with this offer."""
        return (self.holder(obj, pool) for obj in self.objects(pool, offer))

    @override
    def subscribe(self, note: Callable[[PoolT, Holder], None]) -> Callable[[], None]:
        """Call `note` for each change of the cache; return a function that ends that."""

        def note_change(change: Change[ObjectT]) -> None:
            # Both versions: an object may have moved to another pool or holder.
            for version in (change.old, change.new):
                if version is not None:
                    for pool in self.pools(version):
                        note(pool, self.holder(version, pool))

        self.cache.subscribe(note_change)
        return partial(self.cache.unsubscribe, note_change)


def build_indexed_source(
    cache: Cache[ObjectT],
    index: str,
    pools: Callable[[ObjectT], Iterable[PoolT]],
    holder: Callable[[ObjectT], Holder],
) -> HolderSource[PoolT, OfferT]:
    """Return the source of a cache with an index of pools.

    Args:
        index: the name of the index.
        pools: returns the pools that an object concerns, as the index does.
        holder: returns the holder that an object stands for.
    """

    def list_objects(pool: PoolT, _: OfferT) -> Iterable[ObjectT]:
        return cache.list_by_index(index, str(pool))

    return CachedSource(cache, list_objects, pools=pools, holder=lambda obj, _: holder(obj))


@dataclass(slots=True)
class _StoredHoldings(Generic[OfferT]):
    """The stored holdings of one pool.

    Args:
        offer: the offer for which the holdings were read.
        checked_at: monotonic seconds of the last full reading.
        changed: the holders to reread before the next use.
    """

    holdings: Holdings
    offer: OfferT
    checked_at: float
    changed: set[Holder] = field(default_factory=set)


class KeptHoldings(Generic[PoolT, OfferT]):
    """The holdings of pools as caches show them, kept from the first time they are needed.

    Args:
        sources: all kinds of objects that show what a holder holds or requests.
        facts: returns the facts of a holder for a pool with this offer, as the caches show them;
            None if no object of the holder concerns the pool.
        layouts: returns what a pool with this offer may hand out.
        clock: the time.
        check_interval: seconds between two checks of the stored holdings.
        on_difference: called with the pool and the parts that a check found to differ.
    """

    def __init__(
        self,
        sources: Sequence[HolderSource[PoolT, OfferT]],
        facts: Callable[[PoolT, Holder, OfferT], Facts | None],
        layouts: Callable[[OfferT], Layouts],
        *,
        clock: Clock,
        check_interval: float = CHECK_SECONDS,
        on_difference: Callable[[PoolT, list[str]], None] = log_differences,
    ) -> None:
        self._sources = sources
        self._facts = facts
        self._layouts = layouts
        self._clock = clock
        self._check_interval = check_interval
        self._on_difference = on_difference
        self._pools: dict[PoolT, _StoredHoldings[OfferT]] = {}
        self._subscriptions = [source.subscribe(self._note) for source in sources]

    def close(self) -> None:
        """Unsubscribe from the caches and forget all pools, because other caches are used now."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._pools.clear()

    def get_holdings(self, pool: PoolT, offer: OfferT) -> Holdings:
        """Return the holdings of a pool as the caches show them now.

        The next call changes the same object, so use it before the next await.

        Args:
            offer: the part of the pool's spec on which the facts depend. If it differs from the
                offer of the last call, all holders are reread.
        """
        # Taken out of `_pools` until all facts are current. If a function raises, the entry is
        # missing, so the next call rereads all holders.
        kept = self._pools.pop(pool, None)
        if kept is None or kept.offer != offer:
            kept = self._read(pool, offer)
        for holder in kept.changed:
            facts = self._facts(pool, holder, offer)
            if facts is None:
                kept.holdings.remove(holder)
            else:
                kept.holdings.put(holder, facts)
        kept.changed.clear()
        kept = self._pools[pool] = self._check_kept(pool, kept)
        return kept.holdings

    def forget(self, pool: PoolT) -> None:
        """Forget the holdings of a pool."""
        self._pools.pop(pool, None)

    def list_offers(self) -> Iterable[tuple[PoolT, OfferT]]:
        """Return the pools whose holdings are kept, each with its offer."""
        return [(pool, kept.offer) for pool, kept in self._pools.items()]

    def _note(self, pool: PoolT, holder: Holder) -> None:
        """Note that a holder has to be reread."""
        kept = self._pools.get(pool)
        if kept is not None:  # otherwise the first use of the pool reads all holders
            kept.changed.add(holder)

    def _read(self, pool: PoolT, offer: OfferT) -> _StoredHoldings[OfferT]:
        """Return the holdings of a pool with this offer, read from the caches."""
        # Several objects may stand for one holder, which is read once.
        holders = dict.fromkeys(
            holder for source in self._sources for holder in source.list_holders(pool, offer)
        )
        facts = (
            (holder, holder_facts)
            for holder in holders
            if (holder_facts := self._facts(pool, holder, offer)) is not None
        )
        holdings = Holdings(self._layouts(offer), facts)
        return _StoredHoldings(holdings, offer, self._clock.monotonic())

    def _check_kept(self, pool: PoolT, kept: _StoredHoldings[OfferT]) -> _StoredHoldings[OfferT]:
        """Return the stored holdings, or reread ones if a check is due and finds a difference."""
        if self._clock.monotonic() - kept.checked_at < self._check_interval:
            return kept
        reread = self._read(pool, kept.offer)
        parts = list_differences(kept.holdings, reread.holdings)
        if not parts:
            # Kept, because their spaces and indexes are computed already.
            kept.checked_at = reread.checked_at
            return kept
        self._on_difference(pool, parts)
        return reread
