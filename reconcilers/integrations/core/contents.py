"""Holders and waiting requests of an address space, updated incrementally between passes.

They are read from two kinds of objects: the requests themselves, and what answers them (or was
made by hand, or by another controller). Several objects may hold the same addresses; those of one
name speak of one request, so the IPAddress of a claim and the record in the claim's status are one
holder.

A change notes a key, nothing else; the next call of `contents` reads the noted objects from the
caches. So what is kept is never ahead of or behind them, and a pass costs what has
changed, not what the space holds. What cannot be parsed or lies outside holds nothing that could
be handed out, and blocks no request.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from allocator import AddressRange, Layout, Space
from controller.cache import Cache, Change
from controller.meta import Key, Object
from reconcilers.promises.queue import Row, Rows, Turns

Place = tuple[datetime, Key]
"""A place in the queue: since when an address is requested, and the key as tie-break."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one object means to a space.

    Args:
        blocks: what it holds, in blocks of the space; None for nothing.
        place: its place in the queue; None if it does not wait.
        row: its row in the queue; None for a row of its own.
        counted: whether it is one of the objects that the space's `used` counts.
        outside: what it holds outside of what the space may hand out; None for nothing.
    """

    blocks: AddressRange | None = None
    place: Place | None = None
    row: Row | None = None
    counted: bool = False
    outside: Hashable | None = None


NOTHING = Holding()


class Contents:
    """The holdings of one space, and what is made of them.

    Args:
        layout: what may be handed out, in blocks.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.space = Space(layout)
        self.used = 0
        """How many objects are counted."""
        self._outside: Counter[Hashable] = Counter()
        self._holdings: dict[tuple[str, Key], Holding] = {}
        self._holders: dict[AddressRange, dict[Key, int]] = {}
        self._large = 0
        self._sources: set[str] = set()
        self._rows = Rows[Place]()
        self._queued: dict[Key, tuple[Row, Place]] = {}
        """Row and place of each key that waits."""

    @property
    def outside(self) -> int:
        """How many different things are held outside of what may be handed out."""
        return len(self._outside)

    def turns(self) -> Turns[Place]:
        """Return a walk along the requests that wait, the oldest first; it ends at any change."""
        return Turns(self._rows)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._queued)

    @property
    def oldest(self) -> datetime | None:
        """Since when the oldest request has waited; None if none waits."""
        return min((places[0][0] for places in self._rows.values()), default=None)

    def held(self) -> Iterable[AddressRange]:
        """Return the ranges of blocks that are held."""
        return self._holders.keys()

    def has_holder(self, blocks: AddressRange) -> bool:
        """Return whether an object holds exactly these blocks."""
        return blocks in self._holders

    def put(self, source: str, key: Key, new: Holding) -> None:
        """Replace what an object holds and requests by its present state.

        Args:
            source: its kind.
            key: its key.
            new: NOTHING if it is gone.
        """
        old = self._holdings.get((source, key), NOTHING)
        if old == new:
            return
        self._sources.add(source)
        self._holdings[source, key] = new
        if new == NOTHING:
            del self._holdings[source, key]
        self._queue(key)
        self.used += new.counted - old.counted
        if old.blocks != new.blocks:
            self._hold(key, new.blocks)
            self._release(key, old.blocks)
        if new.outside is not None:
            self._outside[new.outside] += 1
        if old.outside is not None:
            self._outside[old.outside] -= 1
            self._outside += Counter()  # drops what is zero

    def other_holder(self, blocks: AddressRange, key: Key) -> Key | None:
        """Return another holder than `key` of some of `blocks`; None if there is none."""
        if self._large or blocks.size > 1:  # few spaces have any
            found = (k for held, ks in self._holders.items() if held.overlaps(blocks) for k in ks)
        else:
            found = (k for k in self._holders.get(blocks, {}))
        return next((one for one in found if one != key), None)

    def _queue(self, key: Key) -> None:
        """Put a request into its row: one of its own, if other objects of its name say more."""
        stored = (self._holdings.get((source, key)) for source in self._sources)
        holdings = [holding for holding in stored if holding is not None]
        new: tuple[Row, Place] | None = None
        for holding in holdings:
            if holding.place is not None:
                is_alone = len(holdings) > 1 or holding.row is None
                new = (key if is_alone else holding.row, holding.place)
        old = self._queued.get(key)
        if old == new:
            return
        if old is not None:
            self._rows.remove(*old)
            del self._queued[key]
        if new is not None:
            self._rows.add(*new)
            self._queued[key] = new

    def _hold(self, key: Key, blocks: AddressRange | None) -> None:
        """Note a holder; in the space, what several hold is held once."""
        if blocks is None:
            return
        holders = self._holders.get(blocks)
        if holders is None:
            holders = self._holders[blocks] = {}
            self.space.hold(blocks)
            self._large += blocks.size > 1
        holders[key] = holders.get(key, 0) + 1

    def _release(self, key: Key, blocks: AddressRange | None) -> None:
        if blocks is None:
            return
        holders = self._holders[blocks]
        holders[key] -= 1
        if not holders[key]:
            del holders[key]
        if not holders:
            del self._holders[blocks]
            self.space.release(blocks)
            self._large -= blocks.size > 1


SPACE_INDEX = "space"
"""The index by which caches find the objects of a space."""

G = TypeVar("G", bound="Geometry")


class Geometry(Protocol):
    """What of an address space may be handed out; equal ones are of equal value."""

    @property
    def layout(self) -> Layout:
        """The blocks that may be handed out."""
        ...


@dataclass(frozen=True, slots=True)
class Source(Generic[G]):
    """One kind of objects that hold something of spaces, or wait for some of it.

    Args:
        name: of the kind.
        cache: its objects, with SPACE_INDEX.
        holding: what one means to a space of that geometry.
    """

    name: str
    cache: Cache[Any]
    holding: Callable[[Any, G], Holding]


class KeptContents(Generic[G]):
    """The contents of spaces as caches show them.

    Args:
        sources: the kinds that say what is held.
        space_of: the index function of SPACE_INDEX: from an object to the spaces that it concerns.
    """

    def __init__(
        self, sources: Sequence[Source[G]], space_of: Callable[[Any], Iterable[str]]
    ) -> None:
        self._sources = {source.name: source for source in sources}
        self._space_of = space_of
        self._kept: dict[str, tuple[G, Contents]] = {}
        self._changed: dict[str, set[tuple[str, Key]]] = {}
        for source in sources:
            source.cache.subscribe(partial(self._note, source.name))

    def contents(self, space: str, geometry: G) -> Contents:
        """Return what is held of a space now; valid until the next call.

        Args:
            space: its value in SPACE_INDEX.
            geometry: what of it may be handed out.
        """
        changed = self._changed.pop(space, set())
        kept = self._kept.get(space)
        if kept is None or kept[0] != geometry:
            read = contents_of(
                geometry,
                (
                    (source, source.cache.by_index(SPACE_INDEX, space))
                    for source in self._sources.values()
                ),
            )
            self._kept[space] = geometry, read
            return read
        for name, key in changed:
            self._read(space, geometry, kept[1], self._sources[name], key)
        return kept[1]

    def forget(self, space: str) -> None:
        """Forget a space that is gone."""
        self._kept.pop(space, None)
        self._changed.pop(space, None)

    def _read(
        self, space: str, geometry: G, contents: Contents, source: Source[G], key: Key
    ) -> None:
        found = source.cache.get(key)
        mine = found is not None and space in self._space_of(found)
        contents.put(source.name, key, source.holding(found, geometry) if mine else NOTHING)

    def _note(self, source: str, change: Change[Any]) -> None:
        for state in (change.old, change.new):
            if state is not None:
                for space in self._space_of(state):
                    if space in self._kept:
                        self._changed.setdefault(space, set()).add((source, state.metadata.key))


def contents_of(geometry: G, objects: Iterable[tuple[Source[G], Iterable[Object]]]) -> Contents:
    """Return the contents of a space of which these are all objects."""
    contents = Contents(geometry.layout)
    for source, found in objects:
        for one in found:
            contents.put(source.name, one.metadata.key, source.holding(one, geometry))
    return contents
