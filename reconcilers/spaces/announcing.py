"""Which pools need a pass because another pool hands out something else now.

Changes are gathered while the last ones are worked through, and pools are looked at in slices, so
that a thousand pools that come at once cost a thousand looks, and no other task waits for them.
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
"""So many pools are looked at before other tasks have their turn."""
REST_SECONDS = 0.002
"""For each pool that was looked at, until changes are looked at again."""

Handler = Callable[[Key], None]
Shares = tuple[PoolSharing, ...]
"""What a pool shares, part by part, without parts that share nothing."""


@dataclass(frozen=True, slots=True)
class PoolsOfKind:
    """Announces the pools of one kind.

    Args:
        announcer: all announcements.
    """

    announcer: "OverlapAnnouncer"
    kind: str

    def add_handler(self, handler: Handler) -> Registration:
        """Call `handler` with the key of each pool of the kind that is announced from now on."""
        return self.announcer.add_handler(self.kind, handler)


@dataclass(slots=True)
class _Change:
    """What has changed of the offers of one pool since the last look.

    Args:
        ranges: what it handed out before or after a change.
        count: how often it changed.
    """

    ranges: list[AddressRange] = field(default_factory=list)
    count: int = 0

    @property
    def has_come_and_gone(self) -> bool:
        """Whether it handed out something in between that neither of two looks saw."""
        return self.count > 1


class OverlapAnnouncer:
    """Announces the pools whose condition Overlapping may read otherwise than before.

    A pool whose own offers changed is announced, too, also one that is gone.

    Args:
        spaces: what all pools hand out.
        clock: the time.
    """

    def __init__(self, spaces: SpaceIndex, clock: Clock) -> None:
        self._spaces = spaces
        self._clock = clock
        self._handlers: dict[str, list[Handler]] = {}
        self._said: dict[PoolName, Shares] = {}
        """What each pool shared at the last look; pools that shared nothing are absent."""
        self._changes: dict[PoolName, _Change] = {}
        """By pool: what has changed of its offers since the last look."""
        self._any_changed = False
        self._event = anyio.Event()
        spaces.listen(self._note)

    def of_kind(self, kind: str) -> PoolsOfKind:
        """Return the announcements of the pools of one kind."""
        return PoolsOfKind(self, kind)

    def add_handler(self, kind: str, handler: Handler) -> Registration:
        """Call `handler` with the key of each pool of a kind that is announced from now on.

        The registration replays the pools that share addresses with others.
        """
        handlers = self._handlers.setdefault(kind, [])
        handlers.append(handler)

        def replay() -> Iterator[None]:
            for pool in sorted(self._said):
                if pool.kind == kind:
                    handler(pool.key)
                    yield

        return Registration(lambda: handlers.remove(handler), replay)

    async def run(self) -> None:
        """Announce pools, until cancelled."""
        while True:
            await self._event.wait()
            self._event = anyio.Event()
            seen = await self._announce()
            await self._clock.sleep(seen * REST_SECONDS)

    def _note(self, offers: Sequence[PoolOffer] | None) -> None:
        if offers is None:
            self._any_changed = True
        else:
            for offer in offers:
                self._changes.setdefault(offer.pool, _Change()).ranges.extend(offer.ranges)
            for pool in {offer.pool for offer in offers}:
                self._changes[pool].count += 1
                self._said.pop(pool, None)
        self._event.set()

    async def _announce(self) -> int:
        """Announce pools whose condition may read otherwise; return how many were looked at.

        A pass over a pool reads what is shared at that moment, which no look need have seen. So it
        proves nothing that a pool shares the same as at the last look if the pool itself, or a
        pool that touches it more than once, has changed since. These are announced all the same.
        """
        everything, self._any_changed = self._any_changed, False
        changes, self._changes = self._changes, {}
        spaces = self._spaces
        unsure = {
            *changes,
            *self._touching(change for change in changes.values() if change.has_come_and_gone),
        }
        if everything:
            pools = {*spaces.names(), *self._said, *unsure}
        else:
            pools = {*self._touching(changes.values()), *unsure}
        for number, pool in enumerate(sorted(pools), 1):
            shares = self._shares(pool)
            if everything or pool in unsure or shares != self._said.get(pool, ()):
                self._call(pool)
            if shares:
                self._said[pool] = shares
            else:
                self._said.pop(pool, None)
            if number % SLICE == 0:
                await anyio.lowlevel.checkpoint()
        return len(pools)

    def _touching(self, changes: Iterable[_Change]) -> set[PoolName]:
        """Return the pools that hand out addresses which other pools began or ceased to."""
        return self._spaces.touching(
            merge_ranges([part for change in changes for part in change.ranges])
        )

    def _shares(self, pool: PoolName) -> Shares:
        by_part = (self._spaces.sharing([offer]) for offer in self._spaces.offers(pool))
        return tuple(sharing for sharing in by_part if sharing != NOTHING_SHARED)

    def _call(self, pool: PoolName) -> None:
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
