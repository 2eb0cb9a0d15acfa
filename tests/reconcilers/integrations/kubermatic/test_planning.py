"""The addresses that a pool of KKP grants to clusters, checked against sets of single addresses.

The *offset* of an address is its distance from the first address of NETWORK. A *span* is the
offsets of the first and the last address of a range.
"""

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
"""The number of ranges that the journal has room for."""

_offsets = st.integers(0, NETWORK.num_addresses - 1)
_spans = st.tuples(_offsets, st.integers(0, 9)).map(
    lambda span: (span[0], min(span[0] + span[1], NETWORK.num_addresses - 1))
)


def _make_cluster(name: str) -> KkpCluster:
    """Return a cluster of datacenter DC; those of one test are equally old."""
    meta = ObjectMeta(name=name, uid=f"uid-{name}", resourceVersion="1")
    return KkpCluster(
        meta, KkpClusterSpec(CloudSpec(DC)), ClusterStatus(namespaceName=f"cluster-{name}")
    )


def _make_allocation(name: str, **spec: object) -> IPAMAllocation:
    """Return the allocation of a cluster, with fields of its spec."""
    meta = ObjectMeta(
        name=POOL, namespace=f"cluster-{name}", uid=f"allocation-{name}", resourceVersion="1"
    )
    return IPAMAllocation(meta, AllocationSpec(dc=DC, **spec))  # type: ignore[arg-type]


@dataclass(frozen=True)
class PlanResult:
    """What a pass over a pool with one datacenter grants and reports.

    Args:
        grants: the addresses that clusters get, in order.
        problem_of_cluster: what is reported to each cluster, by key; None if all is well.
        problem_of_allocation: the problems of allocations, by key.
    """

    grants: Sequence[ClusterGrant]
    problem_of_cluster: Mapping[Key, AllocationProblem | None]
    problem_of_allocation: Mapping[Key, AllocationProblem]

    @property
    def granted_texts(self) -> list[str]:
        """The first range of each grant, as text."""
        return [grant.ranges[0].text for grant in self.grants]

    @property
    def granted_clusters(self) -> list[str]:
        """The names of the clusters that get addresses."""
        return [grant.cluster.metadata.name for grant in self.grants]

    def get_problem(self, cluster: str) -> AllocationProblem:
        """Return the problem that is reported to a cluster, by name; there has to be one."""
        problem = self.problem_of_cluster[_make_cluster(cluster).metadata.key]
        assert problem is not None
        return problem


def _make_content(
    datacenter: Datacenter,
    allocations: Sequence[IPAMAllocation],
    clusters: Iterable[KkpCluster],
) -> PoolContent:
    """Return the content of a pool with one datacenter, as a pass reads it."""
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
) -> PlanResult:
    """Plan a pass over a pool with one datacenter.

    Args:
        datacenter: the settings of the datacenter.
        allocations: the allocations of the pool.
        clusters: the names of the clusters of the datacenter.
    """
    cluster_by_namespace = {cluster.namespace: cluster for cluster in map(_make_cluster, clusters)}
    find_cluster = cluster_by_namespace.get
    content = _make_content(datacenter, allocations, cluster_by_namespace.values())
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
    problem_of_cluster = {
        finding.cluster: finding.problem
        for finding in findings
        if finding.is_decided and finding.cluster is not None
    }
    return PlanResult(planned.grants, problem_of_cluster, content.problems)


def _list_offsets(address_ranges: Iterable[AddressRange]) -> list[int]:
    """Return the offsets of the addresses of some ranges."""
    base = int(NETWORK.network_address)
    return [
        address - base
        for address_range in address_ranges
        for address in range(address_range.first, address_range.last + 1)
    ]


def _render_range(first: int, last: int) -> str:
    """Return a range as it stands in a spec, by the offsets of its ends."""
    base = NETWORK.network_address
    return f"{base + first}-{base + last}"


@settings(deadline=None)
@given(
    count=st.integers(1, 20),
    held_ranges=st.lists(_spans, max_size=3),
    excluded=st.lists(_spans, max_size=3),
    waiting=st.integers(0, 5),
)
def test_clusters_get_the_lowest_free_addresses_in_their_order(
    count: int,
    held_ranges: list[tuple[int, int]],
    excluded: list[tuple[int, int]],
    waiting: int,
) -> None:
    """Each of `waiting` clusters needs `count` addresses; other allocations hold some ranges."""
    datacenter = Datacenter(
        RANGE,
        str(NETWORK),
        allocationRange=count,
        excludeRanges=tuple(_render_range(*bounds) for bounds in excluded),
    )
    others = [
        _make_allocation(f"other-{number}", type=RANGE, addresses=(_render_range(*held_range),))
        for number, held_range in enumerate(held_ranges)
    ]
    clusters = [f"c{number}" for number in range(waiting)]
    plan = _plan(datacenter, others, clusters)

    unusable = {
        offset for first, last in (*held_ranges, *excluded) for offset in range(first, last + 1)
    }
    free = [offset for offset in range(NETWORK.num_addresses) if offset not in unusable]
    granted = {grant.cluster.metadata.name: _list_offsets(grant.ranges) for grant in plan.grants}
    for name in clusters:
        if count <= len(free):
            assert granted.pop(name) == free[:count]
            del free[:count]
        else:
            assert plan.get_problem(name).reason == POOL_EXHAUSTED
    assert granted == {}


@settings(deadline=None)
@given(
    length=st.integers(26, 32),
    held_ranges=st.lists(_spans, max_size=3),
    excluded=st.lists(st.tuples(_offsets, st.integers(26, 32)), max_size=3),
    waiting=st.integers(0, 5),
)
def test_each_cluster_gets_the_lowest_subnet_without_held_or_excluded_addresses(
    length: int,
    held_ranges: list[tuple[int, int]],
    excluded: list[tuple[int, int]],
    waiting: int,
) -> None:
    """Subnets have the prefix length `length`; an exclusion is an offset and a prefix length."""
    base = NETWORK.network_address
    holes = [f"{base + offset}/{bits}" for offset, bits in excluded]  # with host bits, too
    datacenter = Datacenter(
        PREFIX, str(NETWORK), allocationPrefix=length, excludePrefixes=tuple(holes)
    )
    others = [
        _make_allocation(f"other-{number}", type=RANGE, addresses=(_render_range(*held_range),))
        for number, held_range in enumerate(held_ranges)
    ]
    plan = _plan(datacenter, others, [f"c{number}" for number in range(waiting)])

    unusable = {offset for first, last in held_ranges for offset in range(first, last + 1)}
    for hole in holes:
        unusable |= {int(ip) - int(base) for ip in ipaddress.ip_network(hole, strict=False)}
    free = [
        subnet
        for subnet in NETWORK.subnets(new_prefix=length)
        if not unusable & {int(ip) - int(base) for ip in subnet}
    ]
    assert plan.granted_texts == [str(subnet) for subnet in free[:waiting]]


@settings(deadline=None)
@given(held_span=_spans, count=st.integers(1, 20))
def test_a_cluster_gets_the_addresses_that_it_lacks_and_loses_none(
    held_span: tuple[int, int], count: int
) -> None:
    """Its allocation holds one range, and the datacenter grants `count` addresses."""
    datacenter = Datacenter(RANGE, str(NETWORK), allocationRange=count)
    allocation = _make_allocation("a", type=RANGE, addresses=(_render_range(*held_span),))
    plan = _plan(datacenter, [allocation], ["a"])
    held_offsets = set(range(held_span[0], held_span[1] + 1))
    free = [offset for offset in range(NETWORK.num_addresses) if offset not in held_offsets]
    added = [offset for grant in plan.grants for offset in _list_offsets(grant.ranges)]
    assert added == free[: max(0, count - len(held_offsets))]


def test_exclusions_may_be_written_in_upper_case_in_full_or_with_host_bits() -> None:
    datacenter = Datacenter(
        PREFIX,
        "fd00::/62",
        allocationPrefix=64,
        excludePrefixes=("FD00:0:0:0:0:0:0:1/64", "fd00:0:0:1::/65"),
    )
    plan = _plan(datacenter, [], ["a", "b", "c"])
    assert plan.granted_texts == ["fd00:0:0:2::/64", "fd00:0:0:3::/64"]


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
    assert plan.granted_texts == [expected]
    allocation = _make_allocation("other", type=RANGE, addresses=(excluded,))
    plan = _plan(Datacenter(RANGE, "10.0.0.0/28", allocationRange=1), [allocation], ["a"])
    assert plan.granted_texts == [expected]
    assert not plan.problem_of_allocation


def test_a_pool_written_as_ipv6_hands_out_ipv4_as_kkp_does() -> None:
    pool = "::ffff:a00:0/120"
    plan = _plan(Datacenter(RANGE, pool, allocationRange=2), [], ["a"])
    assert plan.granted_texts == ["10.0.0.0/31"]
    allocation = _make_allocation("a", type=PREFIX, cidr="10.0.0.0/28")
    plan = _plan(Datacenter(PREFIX, pool, allocationPrefix=124), [allocation], ["a", "b"])
    assert plan.granted_texts == ["10.0.0.16/28"]


def test_a_range_with_addresses_that_were_excluded_later_grows_and_is_reported() -> None:
    datacenter = Datacenter(RANGE, "10.0.0.0/28", allocationRange=4, excludeRanges=("10.0.0.1",))
    allocation = _make_allocation("a", type=RANGE, addresses=("10.0.0.0-10.0.0.1",))
    plan = _plan(datacenter, [allocation], ["a"])
    assert plan.granted_texts == ["10.0.0.2/31"]
    problem = plan.get_problem("a")
    assert (problem.reason, problem.is_harmless) == ("OutOfPool", True)
    assert allocation.metadata.key in plan.problem_of_allocation


def test_a_huge_pool_of_prefixes_is_planned_without_walking_through_it() -> None:
    datacenter = Datacenter(PREFIX, "fd00::/16", allocationPrefix=128)
    plan = _plan(datacenter, [], ["a", "b"])
    assert plan.granted_texts == ["fd00::/128", "fd00::1/128"]


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
def test_invalid_settings_of_a_datacenter_are_refused(datacenter: Datacenter) -> None:
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
def test_all_clusters_that_wait_for_a_full_datacenter_are_refused_after_one_attempt(
    datacenter: Datacenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The datacenter has room for two of a thousand clusters."""
    take_lowest, attempts = Space.take_lowest, []

    def note_attempt(space: Space, count: int) -> tuple[AddressRange, ...]:
        attempts.append(count)
        return take_lowest(space, count)

    monkeypatch.setattr(Space, "take_lowest", note_attempt)
    names = [f"c{number:04}" for number in range(1_000)]
    plan = _plan(datacenter, [], names)
    assert len(attempts) == 2 + 1
    assert plan.granted_clusters == names[:2]
    assert {plan.get_problem(name).reason for name in names[2:]} == {POOL_EXHAUSTED}


def test_a_cluster_that_lacks_one_address_is_served_although_others_lack_too_many() -> None:
    datacenter = Datacenter(RANGE, "10.0.0.0/29", allocationRange=4)
    allocation = _make_allocation("z", type=RANGE, addresses=("10.0.0.0-10.0.0.2",))
    other = _make_allocation("other", type=RANGE, addresses=("10.0.0.3-10.0.0.6",))
    plan = _plan(datacenter, [allocation, other], ["a", "b", "z"])
    assert plan.granted_clusters == ["z"]
    assert plan.granted_texts == ["10.0.0.7/32"]


def test_a_cluster_refused_for_its_many_parts_does_not_stop_clusters_that_need_as_many() -> None:
    """Cluster `b` takes the lowest free address, after which cluster `c` needs fewer parts."""
    datacenter = Datacenter(RANGE, "10.0.0.0/22", allocationRange=201)
    every_second = tuple(f"10.0.{number >> 7}.{(number & 127) * 2}" for number in range(201))
    other = _make_allocation("other", type=RANGE, addresses=every_second)
    lacks_one = _make_allocation("b", type=RANGE, addresses=("10.0.3.0-10.0.3.199",))
    plan = _plan(datacenter, [other, lacks_one], ["a", "b", "c"])
    assert plan.granted_clusters == ["b", "c"]
    assert len(plan.grants[1].ranges) == 200
    assert "more than 200" in plan.get_problem("a").message


def test_a_cluster_refused_for_its_many_parts_leaves_all_addresses_to_the_next_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MOST_PARTS", 4)
    single = tuple(_render_range(number, number) for number in range(1, 20, 2))
    datacenter = Datacenter(RANGE, str(NETWORK), allocationRange=10, excludeRanges=single)
    others = (
        _make_allocation("other", type=RANGE, addresses=(_render_range(20, 55),)),
        _make_allocation("young", type=RANGE, addresses=(_render_range(56, 63),)),
    )
    plan = _plan(datacenter, others, ["old", "young"])
    [grant] = plan.grants
    assert grant.cluster.metadata.name == "young"
    assert _list_offsets(grant.ranges) == [0, 2]
    message = plan.get_problem("old").message
    assert message == "10 addresses would be split into 10 ranges, more than 4"


def test_promises_of_many_ranges_never_exceed_the_room_of_the_journal() -> None:
    single = tuple(_render_range(number, number) for number in range(1, 64, 2))
    datacenter = Datacenter(RANGE, str(NETWORK), allocationRange=3, excludeRanges=single)
    clusters = {cluster.namespace: cluster for cluster in map(_make_cluster, ["a", "b", "c"])}
    planned = plan(_make_content(datacenter, [], clusters.values()), 5)
    assert [len(grant.ranges) for grant in planned.grants] == [3]
    assert planned.more, "the next pass may serve the others"
    [grant] = plan(_make_content(datacenter, [], clusters.values()), 200, batch=1).grants
    assert len(grant.ranges) == 3, "a batch counts promises, not ranges"


async def test_a_prefix_of_a_wrong_length_is_replaced_at_a_cost_independent_of_other_holders() -> (
    None
):
    """The cost is counted in calls."""
    calls = {}
    for count in (8, 200):
        names = [f"{number:03}" for number in range(count)]
        allocations = [
            _make_allocation(name, type=PREFIX, cidr=f"10.0.0.{number + 1}/32")
            for number, name in enumerate(names)
        ]
        allocations[0] = _make_allocation(names[0], type=PREFIX, cidr="10.0.0.0/31")
        datacenter = Datacenter(PREFIX, "10.0.0.0/24", allocationPrefix=32)
        content = _make_content(datacenter, allocations, map(_make_cluster, names))
        content.holdings.get_space(DC)  # as an earlier pass has left it

        async def plan_pool(content: PoolContent = content) -> None:
            [grant] = plan(content, ROOM).grants
            assert [span.text for span in grant.ranges] == ["10.0.0.0/32"]

        calls[count] = await calls_of(plan_pool)
    assert calls[200] <= 1.1 * calls[8], calls
