"""Pools that may hand out the same addresses are found, from either side."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache import Cache
from controller.codec import Added, Deleted, Modified
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.clusterapi.addresses import ip_space, prefix_space
from reconcilers.integrations.clusterapi.api import (
    IN_CLUSTER_IP_POOL,
    InClusterIPPool,
    IPPoolSpec,
    PrefixPoolSpec,
)
from reconcilers.integrations.clusterapi.overlaps import (
    Offer,
    Offers,
    Overlap,
    finding,
    overlapping,
)

IP = "InClusterIPPool"
SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)), min_size=1, max_size=6)


def offer(name: str, *addresses: str, prefix: int = 0) -> Offer:
    return Offer.from_space(IP, Key("a", name), ip_space(IPPoolSpec(addresses, prefix)))


@given(SPANS, SPANS)
def test_the_shared_addresses_are_counted_the_same_from_either_side(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    def texts(spans: list[tuple[int, int]]) -> list[str]:
        return [f"10.0.0.{first}-10.0.0.{first + size}" for first, size in spans]

    def numbers(spans: list[tuple[int, int]]) -> set[int]:
        return {n for first, size in spans for n in range(first, first + size + 1)}

    mine, theirs = offer("mine", *texts(one)), offer("theirs", *texts(other))
    shared = len(numbers(one) & numbers(other))
    there = [Overlap(IP, theirs.key, shared)] if shared else []
    back = [Overlap(IP, mine.key, shared)] if shared else []
    assert overlapping(mine, [mine, theirs]) == there
    assert overlapping(theirs, [mine, theirs]) == back


def test_prefixes_overlap_addresses_and_other_prefixes() -> None:
    spec = PrefixPoolSpec(("2001:db8::/56",))
    prefixes = Offer.from_space("InClusterPrefixPool", Key("a", "p"), prefix_space(spec))
    inside = offer("inside", "2001:db8:0:3::1-2001:db8:0:3::9", prefix=64)
    outside = offer("outside", "2001:db8:1::1", prefix=64)
    assert overlapping(prefixes, [inside, outside, prefixes]) == [Overlap(IP, inside.key, 9)]


def test_pools_of_one_name_in_two_kinds_are_two_pools() -> None:
    mine = offer("same", "10.0.0.1")
    other = Offer("GlobalInClusterIPPool", mine.key, mine.family, mine.spans)
    assert overlapping(mine, [mine, other]) == [Overlap(other.kind, mine.key, 1)]


def test_pools_of_ones_own_namespace_and_of_the_whole_cluster_are_named_first() -> None:
    mine = offer("mine", "10.0.0.1")
    keys = [Key("0", "far"), Key("a", "near"), Key("", "wide")]
    others = [Offer(IP, key, mine.family, mine.spans) for key in keys]
    assert [one.key for one in overlapping(mine, others)] == [keys[2], keys[1], keys[0]]


KEYS = st.builds(Key, st.sampled_from("abcdefgh"), st.sampled_from("pq"))
ADDRESSES = st.sampled_from(["", "10.0.0.1", "10.0.0.1", "10.0.0.1-10.0.0.9"])


@pytest.mark.slow
@given(st.lists(st.tuples(KEYS, ADDRESSES), max_size=40))
def test_a_pool_concerns_those_whose_condition_reads_otherwise_for_it(
    steps: list[tuple[Key, str]],
) -> None:
    cache: Cache[InClusterIPPool] = Cache(IN_CLUSTER_IP_POOL)
    offers = Offers({IP: cache}, lambda _, pool: ip_space(pool.spec))
    for revision, (key, addresses) in enumerate(steps, 1):
        told = {
            pool.metadata.key: finding(pool.metadata.key, offers.sharing(IP, pool))
            for pool in cache
        }
        meta = ObjectMeta(key.name, key.namespace, uid=f"{key}", resourceVersion=str(revision))
        new = InClusterIPPool(meta, IPPoolSpec((addresses,), 0))
        old = cache.get(meta.key)
        if addresses:
            cache.apply(Modified(new) if old else Added(new))
        elif old is not None:
            cache.apply(Deleted(replace(old, metadata=meta)))
        every = [Offer.from_space(IP, one.metadata.key, ip_space(one.spec)) for one in cache]
        states = [one for one in (old, new if addresses else None) if one is not None]
        concerned = {key for one in states for key in offers.concerned(IP, one, IP)}
        for mine in every:
            pool = cache.get(mine.key)
            said = finding(mine.key, overlapping(mine, every))
            assert finding(mine.key, offers.sharing(IP, pool)) == said
            assert mine.key in {*concerned, meta.key} or told[mine.key] == said


def test_one_more_of_many_equal_pools_concerns_none_whose_condition_stays() -> None:
    cache: Cache[InClusterIPPool] = Cache(IN_CLUSTER_IP_POOL)
    offers = Offers({IP: cache}, lambda _, pool: ip_space(pool.spec))
    pools = [
        InClusterIPPool(
            ObjectMeta("p", f"n{number:02}", uid=f"{number}", resourceVersion=f"{number + 1}"),
            IPPoolSpec(("10.0.0.1",), 0),
        )
        for number in range(20)
    ]
    for pool in pools:
        cache.apply(Added(pool))
    for pool in (pools[0], pools[-1]):
        assert offers.concerned(IP, pool, IP) == []
    assert len(offers.sharing(IP, pools[-1])) == 7


def test_what_pools_share_is_known_as_they_come_change_and_go() -> None:
    cache: Cache[InClusterIPPool] = Cache(IN_CLUSTER_IP_POOL)

    def put(name: str, revision: int, *addresses: str) -> InClusterIPPool:
        meta = ObjectMeta(name, "a", uid=name, resourceVersion=str(revision))
        pool = InClusterIPPool(meta, IPPoolSpec(addresses, 0))
        cache.apply(Added(pool) if revision < 3 else Modified(pool))
        return pool

    one = put("one", 1, "10.0.0.1-10.0.0.9")
    offers = Offers({IP: cache}, lambda _, pool: ip_space(pool.spec))
    assert offers.sharing(IP, one) == []
    two = put("two", 2, "10.0.0.9")
    assert offers.sharing(IP, one) == [Overlap(IP, two.metadata.key, 1)]
    put("two", 3, "garbage")
    assert offers.sharing(IP, one) == []
    two = put("two", 4, "10.0.0.8-10.0.0.20")
    assert offers.sharing(IP, one) == [Overlap(IP, two.metadata.key, 2)]
    assert offers.sharing(IP, two) == [Overlap(IP, one.metadata.key, 2)]
    cache.apply(Deleted(replace(two, metadata=replace(two.metadata, resourceVersion="5"))))
    assert offers.sharing(IP, one) == []


def test_the_condition_names_five_pools_and_of_more_those_that_are_near() -> None:
    me = Key("a", "me")
    assert finding(me, []).reason == "NoOverlap"
    few = [Overlap(IP, Key("b", f"p{number}"), 3) for number in range(5)]
    said = finding(me, few)
    assert (said.type, said.status, said.reason) == ("Overlapping", True, "PoolsOverlap")
    assert said.message.startswith("addresses are also handed out by InClusterIPPool b/p0 (3), ")
    assert said.message.endswith("InClusterIPPool b/p4 (3)")
    many = [*few, Overlap(IP, Key("c", "p"), 3)]
    said = finding(me, many)
    assert said.message.endswith(" by more than 5 pools of other namespaces")
    near = Overlap(IP, Key("a", "p"), 3)
    said = finding(me, [near, *many])
    assert said.message.endswith(" by InClusterIPPool a/p (3) and others")
