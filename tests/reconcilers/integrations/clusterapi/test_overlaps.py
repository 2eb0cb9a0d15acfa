"""Pools that may hand out the same addresses are found, from either side."""

from dataclasses import replace

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


def test_the_condition_names_five_pools_and_counts_the_others() -> None:
    assert finding([]).reason == "NoOverlap"
    found = [Overlap(IP, Key("a", f"p{number}"), 3) for number in range(7)]
    said = finding(found)
    assert (said.type, said.status, said.reason) == ("Overlapping", True, "PoolsOverlap")
    assert said.message.startswith("addresses are also handed out by InClusterIPPool a/p0 (3), ")
    assert said.message.endswith("InClusterIPPool a/p4 (3) and 2 more")
