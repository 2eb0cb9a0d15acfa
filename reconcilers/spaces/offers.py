"""What one pool hands out, in one form for pools of all kinds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from allocator import AddressRange, Family
from controller.meta import Key


class PoolName(NamedTuple):
    """Which pool is meant: its kind, and its namespace and name."""

    kind: str
    key: Key


class Site(NamedTuple):
    """Where the addresses of a pool are used.

    Two sites of one platform may use the same addresses. Names of sites of different platforms
    say nothing about each other.
    """

    platform: str = ""
    """Empty for kinds of pools that know no sites."""
    name: str = ""
    """Empty if the pool does not name its site: it may be any site of the platform."""


ANYWHERE = Site()


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """The ranges that a pool hands out, or that a part of it with a space of its own hands out.

    Args:
        ranges: the addresses, ascending and disjoint, those of IPv4 first.
        part: the name of the part; empty for a whole pool.
        site: where the addresses are used.
    """

    pool: PoolName
    ranges: tuple[AddressRange, ...]
    part: str = ""
    site: Site = ANYWHERE

    def may_meet(self, other: "PoolOffer") -> bool:
        """Return whether the offers belong to different pools and may be used at one site.

        A pool that names no site may be at any site of its platform. Sites of different platforms
        may be the same place.
        """
        if self.pool == other.pool:
            return False
        own_site, other_site = self.site, other.site
        return (
            own_site.platform != other_site.platform
            or not own_site.name
            or not other_site.name
            or own_site.name == other_site.name
        )


def build_offers(
    pool: PoolName, blocks: Iterable[AddressRange], *, part: str = "", site: Site = ANYWHERE
) -> tuple[PoolOffer, ...]:
    """Return the one offer of a pool or of a part of it; empty if it has no blocks.

    Args:
        blocks: disjoint ranges in any order.
        part: the part of the pool that hands them out; empty for the whole pool.
        site: where the addresses are used.
    """
    ascending = tuple(sorted(blocks, key=lambda block: (block.family, block.first)))
    return (PoolOffer(pool, ascending, part=part, site=site),) if ascending else ()


def count_shared(first: PoolOffer, second: PoolOffer) -> Mapping[Family, int]:
    """Return how many addresses both offers have, by family; families without any are left out."""
    shared: dict[Family, int] = {}
    # Both offers are ascending, so the ranges of the second one are skipped only forwards.
    next_index = 0
    for part in first.ranges:
        start = (part.family, part.first)
        while next_index < len(second.ranges) and _get_end(second.ranges[next_index]) < start:
            next_index += 1
        # `next_index` stays, because the range there may also overlap the next part.
        ahead = next_index
        while ahead < len(second.ranges):
            common = part.intersection(second.ranges[ahead])
            if common is None:
                break
            shared[part.family] = shared.get(part.family, 0) + common.size
            ahead += 1
    return shared


def _get_end(part: AddressRange) -> tuple[Family, int]:
    """Return the family and the last address of a range, by which ranges are ordered."""
    return part.family, part.last
