"""All offers, kept current: which other pools share addresses with an offer.

A question costs as much as its answer names, not as many pools as there are: offers lie in sorted
intervals, and what is not near, or of another site of the same platform, is not even looked at.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import product
from typing import NamedTuple

from allocator import AddressRange, Family
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.spaces.intervals import Interval, Intervals
from reconcilers.spaces.offers import PoolName, PoolOffer, Site, count_shared
from reconcilers.spaces.sharing import (
    NAMED,
    NOTHING_SHARED,
    Kinds,
    PoolSharing,
    SharingPool,
    overlapping_condition,
)


class _Group(NamedTuple):
    """Which intervals lie together. None stands for all sites, or all namespaces."""

    family: Family
    platform: str
    site: str | None
    namespace: str | None


class SpaceIndex:
    """What all pools hand out.

    Kinds of pools are expected before they are known: while the pools of one of them have not been
    read it is not known what is shared, and `finding` returns None.
    """

    def __init__(self) -> None:
        self._offers: dict[PoolName, tuple[PoolOffer, ...]] = {}
        self._groups: dict[_Group, Intervals[Interval]] = {}
        self._platforms: dict[str, int] = {}
        """How many offers there are of each platform."""
        self._unknown: set[Kinds] = set()
        self._compared: set[Kinds] = set()
        self._refused: set[Kinds] = set()
        """Kinds that may not be read, so that nothing is compared with them."""
        self._unreadable: set[PoolName] = set()
        self._listeners: list[Callable[[Sequence[PoolOffer] | None], None]] = []

    def expect(self, kinds: Kinds) -> None:
        """Note that pools of these kinds will be read, and are not known yet."""
        self._compared.discard(kinds)
        self._refused.discard(kinds)
        self._unknown.add(kinds)

    def settle(self, kinds: Kinds, *, compared: bool = True) -> None:
        """Note that all pools of these kinds are known.

        Args:
            compared: False if they may not be read, so that nothing is compared with them.
        """
        self._unknown.discard(kinds)
        self._compared.discard(kinds)
        self._refused.discard(kinds)
        (self._compared if compared else self._refused).add(kinds)
        self._notify(None)

    @property
    def is_known(self) -> bool:
        """Whether the pools of all kinds that are expected have been read."""
        return not self._unknown

    @property
    def is_complete(self) -> bool:
        """Whether all pools of the kinds that were settled could be read and decoded."""
        return not self._refused and not self._unreadable

    def listen(self, listener: Callable[[Sequence[PoolOffer] | None], None]) -> None:
        """Call `listener` with offers that came or went, or with None if any may have."""
        self._listeners.append(listener)

    def put(self, pool: PoolName, offers: Sequence[PoolOffer]) -> None:
        """Replace what a pool hands out; it may be nothing."""
        before, after = self._offers.get(pool, ()), tuple(offers)
        self._offers[pool] = after
        self._replace(before, after)

    def drop(self, pool: PoolName) -> None:
        """Forget a pool that is gone."""
        self._replace(self._offers.pop(pool, ()), ())

    def note_unreadable(self, pool: PoolName, *, unreadable: bool) -> None:
        """Note whether a pool cannot be decoded, so that it is unknown what it hands out."""
        if unreadable == (pool in self._unreadable):
            return
        if unreadable:
            self._unreadable.add(pool)
        else:
            self._unreadable.discard(pool)
        self._notify(None)

    def _replace(self, before: Sequence[PoolOffer], after: Sequence[PoolOffer]) -> None:
        gone = [offer for offer in before if offer not in after]
        new = [offer for offer in after if offer not in before]
        for offer in gone:
            self._remove(offer)
        for offer in new:
            self._add(offer)
        if gone or new:
            self._notify([*gone, *new])

    def offers(self, pool: PoolName) -> tuple[PoolOffer, ...]:
        """Return the offers of a pool: the ranges that it hands out, by part."""
        return self._offers.get(pool, ())

    def names(self) -> list[PoolName]:
        """Return all pools, also those that hand out nothing."""
        return list(self._offers)

    def finding(self, offers: Iterable[PoolOffer]) -> ConditionFinding | None:
        """Return the condition of a pool; None while it is not known what is shared.

        Args:
            offers: what the pool hands out, which need not be what the index has of it.
        """
        if not self.is_known:
            return None
        parts = tuple(offers)
        own = {part.pool for part in parts}
        return overlapping_condition(self.sharing(parts), self._compared, self._unreadable - own)

    def sharing(self, offers: Iterable[PoolOffer]) -> PoolSharing:
        """Return the other pools that hand out addresses of a pool.

        Up to NAMED pools are all named, those first that are near. Of more only the near ones are
        named, in the order in which their addresses begin.

        Args:
            offers: what the pool hands out, which need not be what the index has of it.
        """
        parts = tuple(offers)
        if not parts:
            return NOTHING_SHARED
        home = {"", parts[0].pool.key.namespace}
        others = self._others(parts, (None,), NAMED + 1)
        if len(others) > NAMED:
            near = self._others(parts, sorted(home), NAMED)
            return PoolSharing(
                tuple(self._count_shared_addresses(parts, other) for other in near), has_more=True
            )
        others.sort(key=lambda other: (other[0].key.namespace not in home, other))
        return PoolSharing(tuple(self._count_shared_addresses(parts, other) for other in others))

    def touching(self, ranges: Iterable[AddressRange]) -> set[PoolName]:
        """Return all pools that hand out some of these addresses, whatever their sites."""
        return {
            interval.pool
            for part in ranges
            for platform in self._platforms
            for interval in self._touching(part, platform, site=None, namespace=None)
        }

    def _others(
        self, parts: Iterable[PoolOffer], namespaces: Sequence[str | None], limit: int
    ) -> list[tuple[PoolName, str]]:
        """Return other pools, with their parts, that hand out addresses of a pool's parts.

        Args:
            parts: what the pool hands out.
            namespaces: of the other pools; None for all.
            limit: how many are enough.
        """
        others: dict[tuple[PoolName, str], None] = {}
        for offer in parts:
            groups = [*product(self._sites(offer.site), namespaces)]
            for part in offer.ranges:
                touching = (
                    self._touching(part, platform, site=site, namespace=namespace)
                    for (platform, site), namespace in groups
                )
                for interval in merge(*touching):
                    if interval.pool != offer.pool:
                        others[interval.pool, interval.part] = None
                    if len(others) == limit:
                        return list(others)
        return list(others)

    def _count_shared_addresses(
        self, parts: Iterable[PoolOffer], other: tuple[PoolName, str]
    ) -> SharingPool:
        """Return another pool with the number of addresses that it shares with a pool's parts."""
        by_family: dict[Family, int] = {}
        pool, name = other
        for part, offer in product(parts, self._offers[pool]):
            if offer.part == name and part.may_meet(offer):
                for family, count in count_shared(part, offer).items():
                    by_family[family] = by_family.get(family, 0) + count
        return SharingPool(pool, name, by_family)

    def _sites(self, site: Site) -> Iterator[tuple[str, str | None]]:
        """Yield the sites whose addresses may meet those of a site, by platform."""
        for platform in self._platforms:
            if platform != site.platform or not site.name:
                yield platform, None
        if site.name:
            yield site.platform, site.name
            yield site.platform, ""

    def _touching(
        self, part: AddressRange, platform: str, site: str | None, namespace: str | None
    ) -> Iterator[Interval]:
        intervals = self._groups.get(_Group(part.family, platform, site=site, namespace=namespace))
        return intervals.touching(part.first, part.last) if intervals is not None else iter(())

    def _add(self, offer: PoolOffer) -> None:
        for group, interval in _list_group_intervals(offer):
            self._groups.setdefault(group, Intervals()).add(interval)
        platform = offer.site.platform
        self._platforms[platform] = self._platforms.get(platform, 0) + 1

    def _remove(self, offer: PoolOffer) -> None:
        for group, interval in _list_group_intervals(offer):
            self._groups[group].remove(interval)
            if not self._groups[group]:
                del self._groups[group]
        self._platforms[offer.site.platform] -= 1
        if not self._platforms[offer.site.platform]:
            del self._platforms[offer.site.platform]

    def _notify(self, changed: Sequence[PoolOffer] | None) -> None:
        for listener in self._listeners:
            listener(changed)


def _list_group_intervals(offer: PoolOffer) -> Iterator[tuple[_Group, Interval]]:
    """Yield the intervals of an offer, each with every group in which it lies."""
    site, namespace = offer.site, offer.pool.key.namespace
    for part in offer.ranges:
        interval = Interval(part.first, part.last, pool=offer.pool, part=offer.part)
        for name, where in product((site.name, None), (namespace, None)):
            yield _Group(part.family, site.platform, site=name, namespace=where), interval
