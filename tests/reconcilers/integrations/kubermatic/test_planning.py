"""Who gets what of a pool of KKP, against sets of single addresses and of subnets."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import AddressRange, InvalidPool, Space
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.kubermatic import planning
from reconcilers.integrations.kubermatic.allocationproblems import find_problems
from reconcilers.integrations.kubermatic.api import (
    PREFIX,
    RANGE,
    AllocationSpec,
    CloudSpec,
    ClusterStatus,
    Datacenter,
    IPAMAllocation,
    IPAMPool,
    KkpCluster,
    KkpClusterSpec,
    KkpPoolSpec,
)
from reconcilers.integrations.kubermatic.examining import Examiner, Situation
from reconcilers.integrations.kubermatic.facts import compute_holdings, make_holder
from reconcilers.integrations.kubermatic.holdings import AllocationProblem
from reconcilers.integrations.kubermatic.planning import (
    POOL_EXHAUSTED,
    ClusterGrant,
    DatacenterContent,
    PoolContent,
    plan,
)
from reconcilers.integrations.kubermatic.spaces import parse_space
from reconcilers.promises.shares import NO_LIMITS
from tests.calls import calls_of

POOL, DC = "metallb", "dc"
NETWORK = ipaddress.ip_network("10.0.0.0/26")
ROOM = 400

_offsets = st.integers(0, NETWORK.num_addresses - 1)
_spans = st.tuples(_offsets, st.integers(0, 9)).map(
    lambda span: (span[0], min(span[0] + span[1], NETWORK.num_addresses - 1))
)


def _cluster(name: str) -> KkpCluster:
    meta = ObjectMeta(name=name, uid=f"uid-{name}", resourceVersion="1")
    return KkpCluster(
        meta, KkpClusterSpec(CloudSpec(DC)), ClusterStatus(namespaceName=f"cluster-{name}")
    )


def _allocation(name: str, **spec: object) -> IPAMAllocation:
    meta = ObjectMeta(
        name=POOL, namespace=f"cluster-{name}", uid=f"allocation-{name}", resourceVersion="1"
    )
    return IPAMAllocation(meta, AllocationSpec(dc=DC, **spec))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Plan:
    """What is planned for one datacenter.

    Args:
        grants: what clusters get.
        by_cluster: the problem of each cluster for which something is reported.
        problems: why allocations are refused, by their keys.
    """

    grants: Sequence[ClusterGrant]
    by_cluster: Mapping[Key, AllocationProblem | None]
    problems: Mapping[Key, AllocationProblem]


def _content(
    datacenter: Datacenter,
    allocations: Sequence[IPAMAllocation],
    clusters: Iterable[KkpCluster],
) -> PoolContent:
    """Return the content of a pool with one datacenter."""
    find = {
        make_holder(allocation.metadata.namespace, POOL): allocation for allocation in allocations
    }.get
    space = parse_space(datacenter)
    cluster_by_namespace = {cluster.namespace: cluster for cluster in clusters}
    holdings = compute_holdings(
        POOL,
        {DC: space},
        allocations=allocations,
        find_cluster=cluster_by_namespace.get,
        namespaces=cluster_by_namespace,
    )
    return PoolContent(
        POOL,
        {DC: DatacenterContent(space)},
        holdings=holdings,
        find=find,
        find_cluster=cluster_by_namespace.get,
        problems=find_problems(allocations, space),
    )


def _plan(
    datacenter: Datacenter, allocations: Sequence[IPAMAllocation], clusters: Iterable[str]
) -> Plan:
    cluster_by_namespace = {cluster.namespace: cluster for cluster in map(_cluster, clusters)}
    find_cluster = cluster_by_namespace.get
    content = _content(datacenter, allocations, cluster_by_namespace.values())
    planned = plan(content, ROOM)
    situation = Situation(
        IPAMPool(ObjectMeta(POOL), KkpPoolSpec({DC: datacenter})),
        content,
        planned=planned,
        limits=NO_LIMITS,
        invalid={},
        shared={},
        find_served=find_cluster,
        has_unreadable_clusters=False,
        omitted=(),
    )
    examine = Examiner(situation).examine
    findings = [examine(make_holder(namespace, POOL)) for namespace in cluster_by_namespace]
    by_cluster = {
        finding.cluster: finding.problem
        for finding in findings
        if finding.is_decided and finding.cluster is not None
    }
    return Plan(planned.grants, by_cluster, content.problems)


def _numbers(address_ranges: Iterable[AddressRange]) -> list[int]:
    base = int(NETWORK.network_address)
    return [
        number - base for span in address_ranges for number in range(span.first, span.last + 1)
    ]


def _text(first: int, last: int) -> str:
    base = NETWORK.network_address
    return f"{base + first}-{base + last}"


@settings(deadline=None)
@given(
    expected=st.integers(1, 20),
    held_ranges=st.lists(_spans, max_size=3),
    excluded=st.lists(_spans, max_size=3),
    waiting=st.integers(0, 5),
)
def test_each_cluster_gets_the_lowest_free_addresses_in_the_order_of_their_age(
    expected: int,
    held_ranges: list[tuple[int, int]],
    excluded: list[tuple[int, int]],
    waiting: int,
) -> None:
    datacenter = Datacenter(
        RANGE,
        str(NETWORK),
        allocationRange=expected,
        excludeRanges=tuple(_text(*bounds) for bounds in excluded),
    )
    others = [
        _allocation(f"other-{number}", type=RANGE, addresses=(_text(*held_range),))
        for number, held_range in enumerate(held_ranges)
    ]
    clusters = [f"c{number}" for number in range(waiting)]
    plan = _plan(datacenter, others, clusters)

    closed = {
        number for first, last in (*held_ranges, *excluded) for number in range(first, last + 1)
    }
    free = [number for number in range(NETWORK.num_addresses) if number not in closed]
    got = {grant.cluster.metadata.name: _numbers(grant.ranges) for grant in plan.grants}
    for name in clusters:
        if expected <= len(free):
            assert got.pop(name) == free[:expected]
            del free[:expected]
        else:
            problem = plan.by_cluster[_cluster(name).metadata.key]
            assert problem is not None
            assert problem.reason == POOL_EXHAUSTED
    assert got == {}


@settings(deadline=None)
@given(
    length=st.integers(26, 32),
    held_ranges=st.lists(_spans, max_size=3),
    excluded=st.lists(st.tuples(_offsets, st.integers(26, 32)), max_size=3),
    waiting=st.integers(0, 5),
)
def test_each_cluster_gets_the_lowest_subnet_that_touches_nothing(
    length: int,
    held_ranges: list[tuple[int, int]],
    excluded: list[tuple[int, int]],
    waiting: int,
) -> None:
    base = NETWORK.network_address
    holes = [f"{base + offset}/{bits}" for offset, bits in excluded]  # with host bits, too
    datacenter = Datacenter(
        PREFIX, str(NETWORK), allocationPrefix=length, excludePrefixes=tuple(holes)
    )
    others = [
        _allocation(f"other-{number}", type=RANGE, addresses=(_text(*held_range),))
        for number, held_range in enumerate(held_ranges)
    ]
    plan = _plan(datacenter, others, [f"c{number}" for number in range(waiting)])

    closed = {number for first, last in held_ranges for number in range(first, last + 1)}
    for hole in holes:
        closed |= {int(ip) - int(base) for ip in ipaddress.ip_network(hole, strict=False)}
    free = [
        subnet
        for subnet in NETWORK.subnets(new_prefix=length)
        if not closed & {int(ip) - int(base) for ip in subnet}
    ]
    got = [grant.ranges[0].text for grant in plan.grants]
    assert got == [str(subnet) for subnet in free[:waiting]]


@settings(deadline=None)
@given(held_ranges=_spans, expected=st.integers(1, 20))
def test_growth_is_added_and_nothing_is_taken_back(
    held_ranges: tuple[int, int], expected: int
) -> None:
    datacenter = Datacenter(RANGE, str(NETWORK), allocationRange=expected)
    allocation = _allocation("a", type=RANGE, addresses=(_text(*held_ranges),))
    plan = _plan(datacenter, [allocation], ["a"])
    has = set(range(held_ranges[0], held_ranges[1] + 1))
    free = [number for number in range(NETWORK.num_addresses) if number not in has]
    added = [number for grant in plan.grants for number in _numbers(grant.ranges)]
    assert added == free[: max(0, expected - len(has))]


def test_an_exclusion_in_any_spelling_excludes_what_it_means() -> None:
    datacenter = Datacenter(
        PREFIX,
        "fd00::/62",
        allocationPrefix=64,
        excludePrefixes=("FD00:0:0:0:0:0:0:1/64", "fd00:0:0:1::/65"),
    )
    plan = _plan(datacenter, [], ["a", "b", "c"])
    assert [grant.ranges[0].text for grant in plan.grants] == [
        "fd00:0:0:2::/64",
        "fd00:0:0:3::/64",
    ]


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        ("::ffff:10.0.0.0", "10.0.0.1/32"),
        ("10.0.0.0-::ffff:10.0.0.1", "10.0.0.2/32"),
        ("::FFFF:0a00:0-10.0.0.2", "10.0.0.3/32"),
    ],
)
def test_ipv4_addresses_may_be_written_as_ipv6_in_exclusions_and_allocations(
    excluded: str, expected: str
) -> None:
    datacenter = Datacenter(RANGE, "10.0.0.0/28", allocationRange=1, excludeRanges=(excluded,))
    plan = _plan(datacenter, [], ["a"])
    assert [grant.ranges[0].text for grant in plan.grants] == [expected]
    allocation = _allocation("other", type=RANGE, addresses=(excluded,))
    plan = _plan(Datacenter(RANGE, "10.0.0.0/28", allocationRange=1), [allocation], ["a"])
    assert [grant.ranges[0].text for grant in plan.grants] == [expected]
    assert not plan.problems


def test_a_pool_written_as_ipv6_hands_out_ipv4_as_kkp_does() -> None:
    pool = "::ffff:a00:0/120"
    plan = _plan(Datacenter(RANGE, pool, allocationRange=2), [], ["a"])
    assert [grant.ranges[0].text for grant in plan.grants] == ["10.0.0.0/31"]
    allocation = _allocation("a", type=PREFIX, cidr="10.0.0.0/28")
    plan = _plan(Datacenter(PREFIX, pool, allocationPrefix=124), [allocation], ["a", "b"])
    assert [grant.ranges[0].text for grant in plan.grants] == ["10.0.0.16/28"]


def test_a_range_with_addresses_that_were_excluded_later_grows_and_is_reported() -> None:
    datacenter = Datacenter(RANGE, "10.0.0.0/28", allocationRange=4, excludeRanges=("10.0.0.1",))
    allocation = _allocation("a", type=RANGE, addresses=("10.0.0.0-10.0.0.1",))
    plan = _plan(datacenter, [allocation], ["a"])
    assert [grant.ranges[0].text for grant in plan.grants] == ["10.0.0.2/31"]
    problem = plan.by_cluster[_cluster("a").metadata.key]
    assert problem is not None
    assert (problem.reason, problem.is_harmless) == ("OutOfPool", True)
    assert allocation.metadata.key in plan.problems


def test_a_huge_pool_of_prefixes_is_planned_without_walking_through_it() -> None:
    datacenter = Datacenter(PREFIX, "fd00::/16", allocationPrefix=128)
    plan = _plan(datacenter, [], ["a", "b"])
    assert [grant.ranges[0].text for grant in plan.grants] == ["fd00::/128", "fd00::1/128"]


@pytest.mark.parametrize(
    "datacenter",
    [
        Datacenter(RANGE, "10.0.0.0/33", allocationRange=1),
        Datacenter(RANGE, "10.0.0.0/24"),
        Datacenter(RANGE, "10.0.0.0/24", allocationRange=1, excludeRanges=("x",)),
        Datacenter(PREFIX, "10.0.0.0/24", allocationPrefix=23),
        Datacenter(PREFIX, "10.0.0.0/24", allocationPrefix=33),
        Datacenter("other", "10.0.0.0/24"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_served_are_named(datacenter: Datacenter) -> None:
    with pytest.raises(InvalidPool):
        parse_space(datacenter)


@pytest.mark.parametrize(
    "datacenter",
    [
        Datacenter(RANGE, "10.0.0.0/30", allocationRange=2),
        Datacenter(PREFIX, "10.0.0.0/30", allocationPrefix=31),
    ],
    ids=["range", "prefix"],
)
def test_clusters_that_wait_for_a_full_datacenter_cost_one_attempt_and_all_hear_why(
    datacenter: Datacenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_lowest, attempts = Space.take_lowest, []

    def noting(space: Space, count: int) -> tuple[AddressRange, ...]:
        attempts.append(count)
        return take_lowest(space, count)

    monkeypatch.setattr(Space, "take_lowest", noting)
    names = [f"c{number:04}" for number in range(1_000)]
    plan = _plan(datacenter, [], names)
    assert len(attempts) == 2 + 1
    assert [grant.cluster.metadata.name for grant in plan.grants] == names[:2]
    refusals = [plan.by_cluster[_cluster(name).metadata.key] for name in names[2:]]
    assert {refusal.reason for refusal in refusals if refusal is not None} == {POOL_EXHAUSTED}


def test_a_cluster_that_lacks_less_than_others_gets_it_when_they_cannot_be_served() -> None:
    datacenter = Datacenter(RANGE, "10.0.0.0/29", allocationRange=4)
    allocation = _allocation("z", type=RANGE, addresses=("10.0.0.0-10.0.0.2",))
    other = _allocation("other", type=RANGE, addresses=("10.0.0.3-10.0.0.6",))
    plan = _plan(datacenter, [allocation, other], ["a", "b", "z"])
    assert [grant.cluster.metadata.name for grant in plan.grants] == ["z"]
    assert [grant.ranges[0].text for grant in plan.grants] == ["10.0.0.7/32"]


def test_a_cluster_that_needs_too_many_parts_does_not_stand_for_the_others_of_its_row() -> None:
    """Once another took some of the parts, the lowest free addresses may be in fewer parts."""
    datacenter = Datacenter(RANGE, "10.0.0.0/22", allocationRange=201)
    every_second = tuple(f"10.0.{number >> 7}.{(number & 127) * 2}" for number in range(201))
    other = _allocation("other", type=RANGE, addresses=every_second)
    lacks_one = _allocation("b", type=RANGE, addresses=("10.0.3.0-10.0.3.199",))
    plan = _plan(datacenter, [other, lacks_one], ["a", "b", "c"])
    assert [grant.cluster.metadata.name for grant in plan.grants] == ["b", "c"]
    assert len(plan.grants[1].ranges) == 200
    refused = plan.by_cluster[_cluster("a").metadata.key]
    assert refused is not None
    assert "more than 200" in refused.message


def test_a_cluster_refused_for_its_many_parts_leaves_all_addresses_to_younger_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MOST_PARTS", 4)
    single = tuple(_text(number, number) for number in range(1, 20, 2))
    datacenter = Datacenter(RANGE, str(NETWORK), allocationRange=10, excludeRanges=single)
    others = (
        _allocation("other", type=RANGE, addresses=(_text(20, 55),)),
        _allocation("young", type=RANGE, addresses=(_text(56, 63),)),
    )
    plan = _plan(datacenter, others, ["old", "young"])
    [grant] = plan.grants
    assert grant.cluster.metadata.name == "young"
    assert _numbers(grant.ranges) == [0, 2]
    problem = plan.by_cluster[_cluster("old").metadata.key]
    assert problem is not None
    assert problem.message == "10 addresses would be split into 10 ranges, more than 4"


def test_promises_of_many_ranges_never_exceed_the_room_of_the_journal() -> None:
    single = tuple(_text(number, number) for number in range(1, 64, 2))
    datacenter = Datacenter(RANGE, str(NETWORK), allocationRange=3, excludeRanges=single)
    clusters = {cluster.namespace: cluster for cluster in map(_cluster, ["a", "b", "c"])}
    planned = plan(_content(datacenter, [], clusters.values()), 5)
    assert [len(grant.ranges) for grant in planned.grants] == [3]
    assert planned.more, "the next pass may serve the others"
    [grant] = plan(_content(datacenter, [], clusters.values()), 200, batch=1).grants
    assert len(grant.ranges) == 3, "a batch counts promises, not ranges"


async def test_a_prefix_of_another_length_is_replaced_without_a_look_at_each_holder() -> None:
    calls = {}
    for count in (8, 200):
        names = [f"{number:03}" for number in range(count)]
        allocations = [
            _allocation(name, type=PREFIX, cidr=f"10.0.0.{number + 1}/32")
            for number, name in enumerate(names)
        ]
        allocations[0] = _allocation(names[0], type=PREFIX, cidr="10.0.0.0/31")
        datacenter = Datacenter(PREFIX, "10.0.0.0/24", allocationPrefix=32)
        content = _content(datacenter, allocations, map(_cluster, names))
        content.holdings.space(DC)  # as an earlier pass has left it

        async def plan_pool(content: PoolContent = content) -> None:
            [grant] = plan(content, ROOM).grants
            assert [span.text for span in grant.ranges] == ["10.0.0.0/32"]

        calls[count] = await calls_of(plan_pool)
    assert calls[200] <= 1.1 * calls[8], calls
