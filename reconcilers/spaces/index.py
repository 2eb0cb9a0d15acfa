"""An index over the offers of all pools, to find the pools that share addresses with a pool.

An offer is the ranges that a pool, or a part of it, hands out at a site. The cost of a question
grows with the pools in its answer, not with the number of pools. For that, the ranges of offers
lie in sorted intervals, one group of intervals for each family, platform, site and namespace. A
question reads only the groups whose addresses may meet those of the offer.
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
    make_overlapping_finding,
)


class _Group(NamedTuple):
    """The key of a group of intervals. None stands for all sites, or all namespaces."""

    family: Family
    platform: str
    site: str | None
    namespace: str | None


class SpaceIndex:
    """The offers of all pools, by pool and by address.

    Each kind of pools is in one of three states: expected (its pools are still to be read),
    compared (they were read) or forbidden (they may not be read). While a kind is expected, an
    overlap with its pools may be missed, so `make_overlap_finding` returns None.
    """

    def __init__(self) -> None:
        self._offers: dict[PoolName, tuple[PoolOffer, ...]] = {}
        self._groups: dict[_Group, Intervals[Interval]] = {}
        self._offer_counts: dict[str, int] = {}
        """The number of offers of each platform; a platform without offers has no entry."""
        self._expected_kinds: set[Kinds] = set()
        self._compared_kinds: set[Kinds] = set()
        self._forbidden_kinds: set[Kinds] = set()
        """Kinds that the API server does not let us read; nothing is compared with them."""
        self._undecodable_pools: set[PoolName] = set()
        self._listeners: list[Callable[[Sequence[PoolOffer] | None], None]] = []
        """Called with the added and removed offers; with None if any offer may have changed."""

    def expect(self, kinds: Kinds) -> None:
        """Note that the pools of these kinds are still to be read."""
        self._compared_kinds.discard(kinds)
        self._forbidden_kinds.discard(kinds)
        self._expected_kinds.add(kinds)

    def settle(self, kinds: Kinds, *, compared: bool = True) -> None:
        """Note that all pools of these kinds were read, or that they may not be read.

        Args:
            compared: False if the API server does not let us read them.
        """
        self._expected_kinds.discard(kinds)
        self._compared_kinds.discard(kinds)
        self._forbidden_kinds.discard(kinds)
        (self._compared_kinds if compared else self._forbidden_kinds).add(kinds)
        # The condition names the kinds that were compared, so it changes for every pool.
        self._notify(None)

    @property
    def is_known(self) -> bool:
        """Whether the pools of all kinds that are expected have been read."""
        return not self._expected_kinds

    @property
    def is_complete(self) -> bool:
        """Whether all pools of the kinds that were settled could be read and decoded."""
        return not self._forbidden_kinds and not self._undecodable_pools

    def listen(self, listener: Callable[[Sequence[PoolOffer] | None], None]) -> None:
        """Call `listener` at each change.

        It is called with the added and removed offers, or with None if any offer may have changed.
        """
        self._listeners.append(listener)

    def put(self, pool: PoolName, offers: Sequence[PoolOffer]) -> None:
        """Replace the offers of a pool; the new sequence is empty if it hands out nothing."""
        before, after = self._offers.get(pool, ()), tuple(offers)
        self._offers[pool] = after
        self._replace(before, after)

    def drop(self, pool: PoolName) -> None:
        """Remove a deleted pool and its offers."""
        self._replace(self._offers.pop(pool, ()), ())

    def note_unreadable(self, pool: PoolName, *, unreadable: bool) -> None:
        """Note whether a pool cannot be decoded, so that its current offers are unknown."""
        if unreadable == (pool in self._undecodable_pools):
            return  # nothing changed, so no listener needs to know
        if unreadable:
            self._undecodable_pools.add(pool)
        else:
            self._undecodable_pools.discard(pool)
        self._notify(None)

    def _replace(self, before: Sequence[PoolOffer], after: Sequence[PoolOffer]) -> None:
        """Replace the offers of a pool in the groups; notify listeners if some offers differ."""
        gone = [offer for offer in before if offer not in after]
        new = [offer for offer in after if offer not in before]
        for offer in gone:
            self._remove(offer)
        for offer in new:
            self._add(offer)
        if gone or new:
            self._notify([*gone, *new])

    def get_offers(self, pool: PoolName) -> tuple[PoolOffer, ...]:
        """Return the offers of a pool: the ranges that it hands out, by part."""
        return self._offers.get(pool, ())

    def list_names(self) -> list[PoolName]:
        """Return all pools, also those that hand out nothing."""
        return list(self._offers)

    def make_overlap_finding(self, offers: Iterable[PoolOffer]) -> ConditionFinding | None:
        """Return condition Overlapping of a pool; None while a kind of pools is not read yet.

        Args:
            offers: the pool's offers, which may be newer than those in the index.
        """
        if not self.is_known:
            return None
        parts = tuple(offers)
        # If the pool itself cannot be decoded, another of its conditions reports that.
        others_undecodable = self._undecodable_pools - {part.pool for part in parts}
        return make_overlapping_finding(
            self.find_sharing(parts), self._compared_kinds, others_undecodable
        )

    def find_sharing(self, offers: Iterable[PoolOffer]) -> PoolSharing:
        """Return the other pools that hand out addresses of a pool.

        A pool is near if it lies in the same namespace or in none. Up to NAMED pools are all
        named, the near pools first. If there are more, only near pools are named, in the order of
        their first addresses. A message that named all pools would be written again whenever one
        of them is created or deleted.

        Args:
            offers: the pool's offers, which may be newer than those in the index.
        """
        parts = tuple(offers)
        if not parts:
            return NOTHING_SHARED  # the pool hands out nothing
        near_namespaces = {"", parts[0].pool.key.namespace}
        # One more than a message names shows whether there are more.
        others = self._find_other_parts(parts, (None,), limit=NAMED + 1)
        if len(others) > NAMED:
            near = self._find_other_parts(parts, sorted(near_namespaces), limit=NAMED)
            return PoolSharing(
                tuple(self._count_shared_addresses(parts, other) for other in near), has_more=True
            )
        others.sort(key=lambda other: (other[0].key.namespace not in near_namespaces, other))
        return PoolSharing(tuple(self._count_shared_addresses(parts, other) for other in others))

    def find_touching_pools(self, ranges: Iterable[AddressRange]) -> set[PoolName]:
        """Return all pools that hand out some of these addresses, whatever their sites."""
        return {
            interval.pool
            for part in ranges
            for platform in self._offer_counts
            for interval in self._find_intervals(part, platform, site=None, namespace=None)
        }

    def _find_other_parts(
        self, parts: Iterable[PoolOffer], namespaces: Sequence[str | None], limit: int
    ) -> list[tuple[PoolName, str]]:
        """Return name and part of other pools that hand out addresses of a pool's parts.

        Args:
            parts: what the pool hands out.
            namespaces: of the other pools; None for all.
            limit: the search ends when this number of parts is found.
        """
        others: dict[tuple[PoolName, str], None] = {}
        for offer in parts:
            groups = [*product(self._list_meeting_sites(offer.site), namespaces)]
            for part in offer.ranges:
                touching = (
                    self._find_intervals(part, platform, site=site, namespace=namespace)
                    for (platform, site), namespace in groups
                )
                # In the order of addresses, so that the limit does not depend on the groups.
                for interval in merge(*touching):
                    if interval.pool != offer.pool:
                        others[interval.pool, interval.part] = None
                    if len(others) == limit:
                        return list(others)
        return list(others)

    def _count_shared_addresses(
        self, parts: Iterable[PoolOffer], other: tuple[PoolName, str]
    ) -> SharingPool:
        """Return another pool with the number of addresses that it shares with a pool's parts.

        Args:
            other: name and part of the other pool.
        """
        by_family: dict[Family, int] = {}
        pool, name = other
        for part, offer in product(parts, self._offers[pool]):
            if offer.part == name and part.may_meet(offer):
                for family, count in count_shared(part, offer).items():
                    by_family[family] = by_family.get(family, 0) + count
        return SharingPool(pool, name, by_family)

    def _list_meeting_sites(self, site: Site) -> Iterator[tuple[str, str | None]]:
        """Yield the sites, with their platforms, whose addresses may meet those of a site.

        Two named sites of one platform are separate networks. A pool without site may be at any
        site of its platform, so it meets all of them. Sites of different platforms meet, because
        their names say nothing about each other.
        """
        for platform in self._offer_counts:
            if platform != site.platform or not site.name:
                yield platform, None  # all sites of the platform
        if site.name:
            yield site.platform, site.name
            yield site.platform, ""  # pools that do not name their site

    def _find_intervals(
        self, part: AddressRange, platform: str, site: str | None, namespace: str | None
    ) -> Iterator[Interval]:
        """Yield the intervals of a group, see `_Group`, that share addresses with a range."""
        intervals = self._groups.get(_Group(part.family, platform, site=site, namespace=namespace))
        return (
            intervals.find_touching(part.first, part.last) if intervals is not None else iter(())
        )

    def _add(self, offer: PoolOffer) -> None:
        """Add an offer to its groups, and count it for its platform."""
        for group, interval in _list_group_intervals(offer):
            self._groups.setdefault(group, Intervals()).add(interval)
        platform = offer.site.platform
        self._offer_counts[platform] = self._offer_counts.get(platform, 0) + 1

    def _remove(self, offer: PoolOffer) -> None:
        """Remove an offer from its groups and from the count of its platform."""
        for group, interval in _list_group_intervals(offer):
            self._groups[group].remove(interval)
            if not self._groups[group]:
                del self._groups[group]
        self._offer_counts[offer.site.platform] -= 1
        if not self._offer_counts[offer.site.platform]:
            del self._offer_counts[offer.site.platform]

    def _notify(self, changed: Sequence[PoolOffer] | None) -> None:
        """Call the listeners with the changed offers; None if any offer may have changed."""
        for listener in self._listeners:
            listener(changed)


def _list_group_intervals(offer: PoolOffer) -> Iterator[tuple[_Group, Interval]]:
    """Yield each interval of an offer with each of its groups.

    An interval is in four groups: of its site or of all sites, and there of its namespace or of
    all namespaces.
    """
    site, namespace = offer.site, offer.pool.key.namespace
    for part in offer.ranges:
        interval = Interval(part.first, part.last, pool=offer.pool, part=offer.part)
        for group_site, group_namespace in product((site.name, None), (namespace, None)):
            group = _Group(part.family, site.platform, site=group_site, namespace=group_namespace)
            yield group, interval
