"""Which pools hand out the same addresses: against a comparison of each pool with each other."""

from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from allocator import AddressRange, Family
from controller.meta import Key
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.intervals import Interval, Intervals
from reconcilers.spaces.offers import PoolName, PoolOffer, Site, build_offers
from reconcilers.spaces.sharing import NAMED, Kinds
from tests.reconcilers.spaces.offers import offer

POOLS = st.builds(
    PoolName,
    st.sampled_from(["NetworkPool", "IPAMPool"]),
    st.builds(Key, st.sampled_from(["", "a", "b"]), st.sampled_from("pqrstuvw")),
)
SITES = st.builds(Site, st.sampled_from(["", "kkp", "viti"]), st.sampled_from(["", "x", "y"]))


@st.composite
def offers_of_pools(draw: st.DrawFn) -> dict[PoolName, tuple[PoolOffer, ...]]:
    """Draw pools, each with a part or two; the ranges of a part are disjoint."""
    pools = {}
    for pool in draw(st.lists(POOLS, unique=True, max_size=14)):
        offers: list[PoolOffer] = []
        for part in draw(st.sampled_from([[""], ["x"], ["x", "y"]])):
            site = draw(SITES)
            if part:
                site = Site("kkp", part)
            bounds = sorted(draw(st.lists(st.integers(0, 60), unique=True, max_size=6)))
            family: Family = draw(st.sampled_from([4, 6]))
            pairs = zip(bounds[::2], bounds[1::2], strict=False)
            blocks = [AddressRange(first, last, family) for first, last in pairs]
            offers += build_offers(pool, blocks, part=part, site=site)
        pools[pool] = tuple(offers)
    return pools


def numbers(offer: PoolOffer) -> set[tuple[int, int]]:
    return {
        (part.family, number)
        for part in offer.ranges
        for number in range(part.first, part.last + 1)
    }


def brute_force(
    offers: Sequence[PoolOffer], pools: dict[PoolName, tuple[PoolOffer, ...]]
) -> dict[tuple[PoolName, str], int]:
    """Return how many addresses other pools, with their parts, hand out of a pool's."""
    shared: dict[tuple[PoolName, str], int] = {}
    for own in offers:
        for others in pools.values():
            for other in others:
                count = len(numbers(own) & numbers(other)) if own.may_meet(other) else 0
                if count:
                    identity = other.pool, other.part
                    shared[identity] = shared.get(identity, 0) + count
    return shared


def check(index: SpaceIndex, pools: dict[PoolName, tuple[PoolOffer, ...]]) -> None:
    for pool, intervals in pools.items():
        expected = brute_force(intervals, pools)
        sharing = index.find_sharing(intervals)
        counts = {
            (share.pool, share.part): sum(share.by_family.values()) for share in sharing.pools
        }
        near = {
            identity: count
            for identity, count in expected.items()
            if identity[0].key.namespace in {"", pool.key.namespace}
        }
        if len(expected) <= NAMED:
            assert not sharing.has_more
            assert counts == expected
            ordered = [(pool.pool, pool.part) in near for pool in sharing.pools]
            assert ordered == sorted(ordered, reverse=True), "near pools are named first"
        else:
            assert sharing.has_more
            assert len(counts) == min(len(near), NAMED)
            assert counts.items() <= near.items()
        ranges = [part for offer in intervals for part in offer.ranges]
        touched = {
            other
            for other, offers in pools.items()
            if any(numbers(own) & numbers(theirs) for own in intervals for theirs in offers)
        }
        assert index.find_touching_pools(ranges) == touched


@pytest.mark.slow
@given(st.lists(offers_of_pools(), min_size=1, max_size=4), st.data())
def test_the_index_finds_what_a_comparison_of_all_pools_finds_as_pools_come_change_and_go(
    states: list[dict[PoolName, tuple[PoolOffer, ...]]], data: st.DataObject
) -> None:
    index = SpaceIndex()
    before: Iterable[PoolName] = ()
    for pools in states:
        changes = [*pools, *(pool for pool in before if pool not in pools)]
        for pool in data.draw(st.permutations(changes)):
            if pool in pools:
                index.put(pool, pools[pool])
            else:
                index.drop(pool)
        check(index, pools)
        before = pools
    for pool in list(before):
        index.drop(pool)
    assert index.list_names() == []
    assert index.find_sharing([offer("a/p", "0.0.0.0-255.255.255.255")]).sentence == ""


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 500)), unique=True, max_size=600))
def test_intervals_are_found_in_order_over_many_blocks(spans: list[tuple[int, int]]) -> None:
    name = PoolName("NetworkPool", Key("a", "p"))
    all_intervals = [Interval(first, first + size, pool=name, part="") for first, size in spans]
    intervals = Intervals[Interval]()
    for interval in all_intervals:
        intervals.add(interval)
    for first, last in ((0, 5000), (100, 100), (1000, 1400)):
        touching = [
            interval
            for interval in all_intervals
            if interval.first <= last and interval.last >= first
        ]
        assert list(intervals.find_touching(first, last)) == sorted(touching)
    for interval in all_intervals[: len(all_intervals) // 2]:
        intervals.remove(interval)
    assert list(intervals.find_touching(0, 5000)) == sorted(
        all_intervals[len(all_intervals) // 2 :]
    )


def test_pools_of_one_name_in_two_kinds_are_two_pools() -> None:
    index, own_offer = SpaceIndex(), offer("a/same", "10.0.0.1-10.0.0.1")
    other = offer("a/same", "10.0.0.1-10.0.0.4", kind="InClusterIPPool")
    for pool_offer in (own_offer, other):
        index.put(pool_offer.pool, [pool_offer])
    assert index.find_sharing([own_offer]).sentence == (
        "addresses are also handed out by InClusterIPPool a/same (1 address)"
    )


def test_datacenters_of_one_platform_are_compared_only_with_the_same() -> None:
    index = SpaceIndex()
    here, there = Site("kubermatic", "here"), Site("kubermatic", "there")
    texts = "10.0.0.0-10.0.0.9"
    pool = offer("p", texts, part="here", site=here, kind="IPAMPool")
    away = offer("q", texts, part="there", site=there, kind="IPAMPool")
    network = offer("a/n", texts, site=Site("vitistack", "there"), kind="NetworkNamespace")
    for pool_offer in (pool, away, network):
        index.put(pool_offer.pool, [pool_offer])
    assert index.find_sharing([pool]).sentence == (
        "addresses are also handed out by NetworkNamespace a/n (10 addresses)"
    ), "the name of a site says nothing on another platform"
    assert index.find_sharing([network]).sentence == (
        "addresses are also handed out by IPAMPool p in datacenter here (10 addresses),"
        " IPAMPool q in datacenter there (10 addresses)"
    )


def test_one_more_of_many_equal_pools_changes_what_almost_none_of_them_says() -> None:
    index = SpaceIndex()
    pools = [offer(f"n{number:02}/p", "10.0.0.1-10.0.0.9") for number in range(40)]
    for pool_offer in pools[:-1]:
        index.put(pool_offer.pool, [pool_offer])
    said = {pool.pool: index.find_sharing([pool]) for pool in pools[:-1]}
    assert said[pools[0].pool].sentence == (
        "addresses are also handed out by more than 5 pools of other namespaces"
    )
    index.put(pools[-1].pool, [pools[-1]])
    assert {pool.pool: index.find_sharing([pool]) for pool in pools[:-1]} == said
    near = offer("n00/q", "10.0.0.9-10.0.0.10")
    index.put(near.pool, [near])
    assert index.find_sharing([pools[0]]).sentence == (
        "addresses are also handed out by NetworkPool n00/q (1 address), and others"
    )
    assert {pool.pool: index.find_sharing([pool]) for pool in pools[1:-1]} == {
        pool: sharing for pool, sharing in said.items() if pool != pools[0].pool
    }


def test_the_condition_is_unknown_while_another_pool_cannot_be_read_and_none_overlaps() -> None:
    index, own_offer = SpaceIndex(), offer("a/p", "10.0.0.0-10.0.0.9")
    index.put(own_offer.pool, [own_offer])
    index.settle(Kinds.NETWORK_POOLS)
    changes: list[object] = []
    index.listen(changes.append)
    for name in "abcdefg":
        index.note_unreadable(offer(f"x/{name}").pool, unreadable=True)
    index.note_unreadable(own_offer.pool, unreadable=True)
    assert changes == [None] * 8, "any pool's condition may change"
    finding = index.make_overlap_finding([own_offer])
    assert finding is not None
    assert finding.to_condition(1).status == "Unknown"
    assert finding.message == (
        "no other NetworkPool that can be read hands out these addresses; what these pools hand"
        " out is unknown, as they cannot be read: NetworkPool x/a, NetworkPool x/b,"
        " NetworkPool x/c, NetworkPool x/d, NetworkPool x/e, and 2 more; correct or delete them"
    )
    other = offer("a/other", "10.0.0.9-10.0.0.20")
    index.put(other.pool, [other])
    finding = index.make_overlap_finding([own_offer])
    assert finding is not None
    assert finding.status, "one that overlaps is known"
    index.drop(other.pool)
    for name in "abcdefg":
        index.note_unreadable(offer(f"x/{name}").pool, unreadable=False)
    finding = index.make_overlap_finding([own_offer])
    assert finding is not None
    assert finding.reason == "NoOverlap", "its own version is what the pass reads"


def test_the_condition_is_unknown_until_all_kinds_were_read_and_says_which_were_compared() -> None:
    index, own_offer = SpaceIndex(), offer("a/p", "10.0.0.0-10.0.0.9")
    index.put(own_offer.pool, [own_offer])
    index.settle(Kinds.NETWORK_POOLS)
    finding = index.make_overlap_finding([own_offer])
    assert finding is not None
    assert finding.message == "no other NetworkPool hands out these addresses"
    index.expect(Kinds.KUBERMATIC)
    index.expect(Kinds.CLUSTER_API)
    assert index.make_overlap_finding([own_offer]) is None
    index.settle(Kinds.CLUSTER_API)
    assert index.make_overlap_finding([own_offer]) is None
    index.settle(Kinds.KUBERMATIC, compared=False)
    finding = index.make_overlap_finding([own_offer])
    assert finding is not None
    assert (
        finding.message == "no other NetworkPool or pool of Cluster API hands out these addresses"
    )
    index.settle(Kinds.KUBERMATIC)
    finding = index.make_overlap_finding([own_offer])
    assert finding is not None
    assert (finding.type, finding.status, finding.reason) == ("Overlapping", False, "NoOverlap")
    assert finding.message == (
        "no other NetworkPool, pool of Cluster API or IPAMPool hands out these addresses"
    )


class CountedIntervals(Intervals[Interval]):
    """Counts the intervals that are looked at."""

    seen = 0

    @override
    def find_touching(self, first: int, last: int) -> Iterator[Interval]:
        for interval in super().find_touching(first, last):
            type(self).seen += 1
            yield interval


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "disjoint"])
def test_what_all_pools_share_is_found_without_looking_at_all_pairs(
    monkeypatch: pytest.MonkeyPatch, equal: bool
) -> None:
    monkeypatch.setattr("reconcilers.spaces.index.Intervals", CountedIntervals)
    index = SpaceIndex()
    count = 2_000
    pools = [
        offer(f"a/p{number:04}", "10.0.0.0-10.0.0.9")
        if equal
        else offer(
            f"a/p{number:04}",
            f"10.{number >> 8}.{number & 255}.0-10.{number >> 8}.{number & 255}.9",
        )
        for number in range(count)
    ]
    for pool in pools:
        index.put(pool.pool, [pool])
    CountedIntervals.seen = 0
    for pool in pools:
        assert index.find_sharing([pool]).has_more is equal
    assert CountedIntervals.seen <= 4 * (NAMED + 2) * count
