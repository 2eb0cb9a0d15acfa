"""Announces pools that need a pass because the offers of another pool have changed.

A *look* at a pool computes the addresses that it shares with others, and compares the result with
that of its last look. A *turn* looks at all pools that the gathered changes concern. Changes that
arrive during a turn are gathered for the next turn. So a thousand pools
that are created at once cost about a thousand looks, not a million. The looks are done in slices,
so that no other task waits for all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import anyio

from allocator import AddressRange, Family
from allocator.addresses import Span, union
from controller.clock import Clock
from controller.informer import Registration
from controller.meta import Key
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, PoolOffer
from reconcilers.spaces.sharing import NOTHING_SHARED, PoolSharing

SLICE = 50
"""The number of looks before other tasks get a turn."""
REST_SECONDS = 0.002
"""The pause after a turn, for each of its looks, in which changes are gathered."""

Handler = Callable[[Key], None]
Shares = tuple[PoolSharing, ...]
"""The sharing of each part of a pool, without the parts that share nothing."""


@dataclass(frozen=True, slots=True)
class PoolsOfKind:
    """The announcements of the pools of one kind.

    Args:
        announcer: announces the pools of all kinds.
    """

    announcer: "OverlapAnnouncer"
    kind: str

    def add_handler(self, handler: Handler) -> Registration:
        """Call `handler` with the key of each pool of the kind that is announced from now on."""
        return self.announcer.add_handler(self.kind, handler)


@dataclass(slots=True)
class _Change:
    """The changes of the offers of one pool since the last turn.

    Args:
        ranges: the ranges of all offers that were added or removed.
        count: the number of changes.
    """

    ranges: list[AddressRange] = field(default_factory=list)
    count: int = 0

    @property
    def may_have_missed_offers(self) -> bool:
        """Whether the pool may have had offers, between two changes, that no look has seen."""
        return self.count > 1


class OverlapAnnouncer:
    """Announces each pool whose condition Overlapping may have changed.

    A pool whose own offers changed is announced as well, and so is a deleted pool.

    Args:
        spaces: the index of all offers.
    """

    def __init__(self, spaces: SpaceIndex, clock: Clock) -> None:
        self._spaces = spaces
        self._clock = clock
        self._handlers: dict[str, list[Handler]] = {}
        """By kind of pool: the handlers that are called for its announced pools."""
        self._last_shares: dict[PoolName, Shares] = {}
        """The result of the last look at each pool; a pool that shared nothing has no entry."""
        self._changes: dict[PoolName, _Change] = {}
        """By pool: the changes of its offers since the last turn."""
        self._any_changed = False
        """Whether the index reported a change without the offers that it concerns."""
        self._event = anyio.Event()
        """Set if offers have changed since the last turn began."""
        spaces.listen(self._note_offers)

    def get_pools_of_kind(self, kind: str) -> PoolsOfKind:
        """Return the announcements of the pools of one kind."""
        return PoolsOfKind(self, kind)

    def add_handler(self, kind: str, handler: Handler) -> Registration:
        """Call `handler` with the key of each pool of a kind that is announced from now on.

        The registration replays the pools that share addresses with others.
        """
        handlers = self._handlers.setdefault(kind, [])
        handlers.append(handler)

        def replay() -> Iterator[None]:
            """Call the handler for each pool that shares addresses, one at each step."""
            for pool in sorted(self._last_shares):
                if pool.kind == kind:
                    handler(pool.key)
                    yield

        return Registration(lambda: handlers.remove(handler), replay)

    async def run(self) -> None:
        """Announce pools, until cancelled."""
        while True:
            await self._event.wait()
            self._event = anyio.Event()
            look_count = await self._announce()
            await self._clock.sleep(look_count * REST_SECONDS)

    def _note_offers(self, offers: Sequence[PoolOffer] | None) -> None:
        """Note added and removed offers for the next turn; None if any offer may have changed."""
        if offers is None:
            self._any_changed = True
        else:
            for offer in offers:
                self._changes.setdefault(offer.pool, _Change()).ranges.extend(offer.ranges)
            for pool in {offer.pool for offer in offers}:
                self._changes[pool].count += 1
                # The last look was at other offers of the pool.
                self._last_shares.pop(pool, None)
        self._event.set()

    async def _announce(self) -> int:
        """Announce pools whose condition may have changed; return the number of looks.

        A pool whose sharing is the same as at its last look is not announced, with two exceptions.
        A pass over a pool reads the sharing of its own moment, between two looks, and may have
        written that. This is possible if the pool itself has changed, or if a pool that touches it
        has changed more than once. So such a pool, in `unsure_pools`, is announced in any case.
        """
        has_any_changed, self._any_changed = self._any_changed, False
        changes, self._changes = self._changes, {}
        spaces = self._spaces
        unsure_pools = {
            *changes,
            *self._list_touched_pools(
                change for change in changes.values() if change.may_have_missed_offers
            ),
        }
        if has_any_changed:
            pools = {*spaces.list_names(), *self._last_shares, *unsure_pools}
        else:
            pools = {*self._list_touched_pools(changes.values()), *unsure_pools}
        for number, pool in enumerate(sorted(pools), 1):
            shares = self._look(pool)
            if (
                has_any_changed
                or pool in unsure_pools
                or shares != self._last_shares.get(pool, ())
            ):
                self._call_handlers(pool)
            if shares:
                self._last_shares[pool] = shares
            else:
                self._last_shares.pop(pool, None)
            if number % SLICE == 0:
                await anyio.lowlevel.checkpoint()
        return len(pools)

    def _list_touched_pools(self, changes: Iterable[_Change]) -> set[PoolName]:
        """Return the pools that hand out addresses of the ranges in these changes."""
        return self._spaces.find_touching_pools(
            merge_ranges([part for change in changes for part in change.ranges])
        )

    def _look(self, pool: PoolName) -> Shares:
        """Return the sharing of each part of a pool at this moment."""
        by_part = (self._spaces.find_sharing([offer]) for offer in self._spaces.get_offers(pool))
        return tuple(sharing for sharing in by_part if sharing != NOTHING_SHARED)

    def _call_handlers(self, pool: PoolName) -> None:
        """Call the handlers of the pool's kind."""
        for handler in self._handlers.get(pool.kind, ()):
            handler(pool.key)


def merge_ranges(ranges: Sequence[AddressRange]) -> Iterator[AddressRange]:
    """Yield ranges that cover the same addresses, each address once."""
    by_family: dict[Family, list[Span]] = {}
    for part in ranges:
        by_family.setdefault(part.family, []).append((part.first, part.last))
    for family, spans in by_family.items():
        for first, last in union(sorted(spans)):
            yield AddressRange(first, last, family)
