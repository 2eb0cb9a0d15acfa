"""What passes keep of an IPAMPool's clusters is what an examination of all of them finds."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import AddressRange
from controller.cache import Cache
from controller.client import Client
from controller.codec import Deleted, Modified, Unreadable
from controller.events import Recorder
from controller.meta import Key, ObjectMeta, OwnerReference
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.kubermatic import planning
from reconcilers.integrations.kubermatic.allocations import make_promise
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    JOURNALS,
    POOLS,
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
from reconcilers.integrations.kubermatic.facts import make_holder
from reconcilers.integrations.kubermatic.findings import Examination, IPAMPoolDecision, StoredPool
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING, AllocationProblem
from reconcilers.integrations.kubermatic.planning import POOL_EXHAUSTED
from reconcilers.integrations.kubermatic.pools import Pools
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    POOL_INDEX,
    POOL_INDEXES,
    KkpReader,
    KkpView,
    KubermaticCaches,
    check_readable,
)
from reconcilers.integrations.kubermatic.reports import RECONCILING_ERROR, Reports
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.shares import Limits, Shares, tenant_of_namespace
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, UnreadableHolders
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName
from reconcilers.spaces.sharing import Kinds
from tests.clock import VirtualClock
from tests.reconcilers import make
from tests.reconcilers.lab import Recorded
from tests.reconcilers.spaces.offers import offer

POOL = "p"
NAMES = "abcdefgh"
DATACENTERS = st.sampled_from("xxxxyz")
_X = Datacenter(RANGE, "10.0.0.0/29", allocationRange=2)
_Y = Datacenter(PREFIX, "10.0.0.0/29", allocationPrefix=31)
SPECS = st.sampled_from(
    [
        {"x": _X},
        {"x": _X, "y": _Y},
        {"x": replace(_X, allocationRange=1)},
        {"x": replace(_X, excludeRanges=("10.0.0.1-10.0.0.6",)), "y": _Y},
        {"x": replace(_X, poolCidr="odd"), "y": replace(_Y, allocationPrefix=32)},
    ]
)
ADDRESSES = st.integers(0, 9).flatmap(
    lambda first: st.integers(0, 2).map(lambda size: f"10.0.0.{first}-10.0.0.{first + size}")
)
SPANS = st.one_of(st.just(()), st.lists(ADDRESSES, min_size=1, max_size=2).map(tuple))
OWNER = OwnerReference("kubermatic.k8c.io/v1", POOLS.kind, POOL, "uid-p")
AGES = [None, make.EPOCH, make.EPOCH + timedelta(seconds=1)]
OTHERS = PoolName("NetworkPool", Key("a", "other"))


def _fail(pool: str, parts: Sequence[str]) -> None:
    pytest.fail(f"what is kept of {pool} differs in {parts}")


class _Replica:
    """What passes over the pool find and report, without their writes."""

    def __init__(self, caches: KubermaticCaches, clock: VirtualClock, spaces: SpaceIndex) -> None:
        client = Client.__new__(Client)  # no request is sent
        self.events, self.caches = Recorded(), caches
        self.reports = Reports(cast("Recorder", self.events))
        reader, options = (
            KkpReader(client, caches.allocations, clock, patience=1.0),
            PoolSettings(batch=2),
        )
        self.pools = Pools(
            client,
            caches,
            reader=reader,
            reports=self.reports,
            clock=clock,
            settings=options,
            spaces=spaces,
        )
        self.pools._findings._on_difference = _fail
        self.check_in_each_pass(is_checked=False)

    def check_in_each_pass(self, *, is_checked: bool) -> None:
        """Check what is kept in each pass from now on, or in none."""
        cast("Any", self.pools._findings)._is_check_due = lambda _: is_checked

    def list_reports(self) -> dict[str, Any]:
        """Return the reports about all clusters, by name."""
        return {
            name: dict(problems)
            for name in NAMES
            if (problems := self.reports.list_for_cluster(Key("", name)))
        }

    def new_events(self) -> list[tuple[Any, ...]]:
        """Return the events since the last call, in any order."""
        new = sorted(zip(self.events.events, self.events.subjects, strict=True))
        self.events.events.clear()
        self.events.subjects.clear()
        return new


class _World:
    """Objects of KKP that change, a replica that keeps, and one that examines all in each pass."""

    def __init__(self) -> None:
        self.revision = 10
        self.clock, self.spaces = VirtualClock(), SpaceIndex()
        self.caches = KubermaticCaches(
            Cache(POOLS, indexes=POOL_INDEXES),
            Cache(ALLOCATIONS, indexes=ALLOCATION_INDEXES),
            Cache(CLUSTERS, indexes=CLUSTER_INDEXES),
        )
        for cache in (self.caches.pools, self.caches.allocations, self.caches.clusters):
            cast("Cache[Any]", cache).replace([], self.revision)
        self.spec = KkpPoolSpec({"x": _X, "y": _Y})
        self.journal, self.shares = Journal({JOURNALS.kind: 0}), Shares(10.0)
        self.keeping = _Replica(self.caches, self.clock, self.spaces)
        self.whole = _Replica(self.caches, self.clock, self.spaces)

    def ask(self, name: str) -> None:
        """Make a cluster that is served."""
        self.revision += 1
        meta = ObjectMeta(name, "", f"first{name}", str(self.revision))
        spec, status = KkpClusterSpec(CloudSpec("x")), ClusterStatus(f"cluster-{name}")
        self.caches.clusters.apply(Modified(KkpCluster(meta, spec, status)))

    def hold(self, name: str, addresses: str, **meta: Any) -> IPAMAllocation:
        """Make the allocation of a cluster, or change its addresses."""
        self.revision += 1
        namespace = f"cluster-{name}"
        of = ObjectMeta(POOL, namespace, namespace, str(self.revision), ownerReferences=(OWNER,))
        spec = AllocationSpec(RANGE, "x", cidr="", addresses=(addresses,))
        allocation = IPAMAllocation(replace(of, **meta), spec)
        self.caches.allocations.apply(Modified(allocation))
        return allocation

    def garble(self, cache: Cache[Any], key: Key) -> None:
        """Have an object be one that cannot be decoded."""
        self.revision += 1
        cache.apply(Unreadable(key, self.revision, "odd"))

    def release(self, name: str) -> None:
        """Delete the allocation of a cluster."""
        allocation = self.caches.allocations.get(Key(f"cluster-{name}", POOL))
        assert allocation is not None
        self.revision += 1
        meta = replace(allocation.metadata, resourceVersion=str(self.revision))
        self.caches.allocations.apply(Deleted(replace(allocation, metadata=meta)))

    def hold_all(self) -> None:
        """Have an allocation hold all addresses of the pool, or no longer."""
        if self.caches.allocations.get(Key("cluster-by-hand", POOL)) is None:
            self.hold("by-hand", "10.0.0.0-10.0.0.7")
        else:
            self.release("by-hand")

    def wait(self) -> None:
        self.clock.skip(6)

    def keep_promises(self) -> None:
        """Write the promises to their allocations, where these are as the promises name them."""
        for promise in self.journal.promises:
            allocation = self.caches.allocations.get(promise.key)
            if allocation is None or (
                allocation.metadata.uid,
                allocation.metadata.resourceVersion,
            ) != (promise.identity):
                continue
            self.revision += 1
            space = promise.ranges[0].space
            added = [f"{part.range.start_text}-{part.range.end_text}" for part in promise.ranges]
            meta = replace(allocation.metadata, resourceVersion=str(self.revision))
            spec = AllocationSpec(
                RANGE, space, cidr="", addresses=(*allocation.spec.addresses, *added)
            )
            self.caches.allocations.apply(Modified(IPAMAllocation(meta, spec)))

    async def pass_over_pool(
        self,
        fails: Callable[[str], bool] = lambda _: False,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Examination | None:
        """Decide and report with both replicas, which have to agree.

        Args:
            fails: returns whether the allocation of a cluster cannot be created.
            is_stopped: returns whether the pass does not come to its end.

        Returns:
            What the keeping replica examined; None if allocations cannot be decoded.
        """
        pool = IPAMPool(ObjectMeta(POOL, uid="uid-p"), self.spec)
        allocations = self.caches.allocations
        self.whole.pools._findings.forget(POOL)
        try:
            check_readable(POOL, allocations.unreadable)
        except UnreadableHolders as unreadable:
            for replica in (self.keeping, self.whole):
                await replica.pools.report_unreadable(pool, unreadable)
            self.compare()
            return None
        view = KkpView(
            allocations.position,
            partial(allocations.list_by_index, POOL_INDEX, POOL),
            find=find_by_key(JOURNALS.kind, allocations.get),
            unreadable=allocations.unreadable.keys(),
        )
        decided, of_whole = self.decide(pool, view)
        failed = {
            make_holder(grant.cluster.namespace, POOL): (
                grant.cluster.metadata.key,
                AllocationProblem(RECONCILING_ERROR, "no"),
            )
            for grant in decided.grants
            if grant.allocation is None and fails(grant.cluster.metadata.name)
        }
        if failed:  # their addresses are for others
            decided, of_whole = self.decide(pool, view, failed)
        if is_stopped():
            return decided.examination
        for key in {key for key, _ in failed.values()}:
            self.defer(key)
        self.promise(decided)
        for replica, choice in ((self.keeping, decided), (self.whole, of_whole)):
            replica.pools._findings.commit(
                pool, view, examination=choice.examination, failed=failed
            )
            replica.reports.record_pool(pool, choice.problems)
        self.compare()
        return decided.examination

    def decide(
        self, pool: IPAMPool, view: KkpView, omitted: Collection[Holder] = ()
    ) -> tuple[IPAMPoolDecision, IPAMPoolDecision]:
        """Decide with both replicas; what they are to do has to be the same."""
        decided, of_whole = (
            replica.pools._decide(pool, self.journal, view, limits=self.limits(), omitted=omitted)
            for replica in (self.keeping, self.whole)
        )
        assert decided.grants == of_whole.grants
        assert decided.problems == of_whole.problems
        assert _list_work(decided) == _list_work(of_whole)
        return decided, of_whole

    def limits(self) -> Limits:
        now = self.clock.monotonic()
        return Limits(
            lambda promises: self.shares.eligibility(
                promises, tenant_of_namespace, capacity=400, now=now
            ),
            tenant_of_namespace,
        )

    def defer(self, key: Key) -> None:
        """Defer a cluster whose allocation cannot be created."""
        cluster = self.caches.clusters.get(key)
        if cluster is not None:
            self.shares.defer(cluster.metadata, self.clock.monotonic())

    def promise(self, decided: IPAMPoolDecision) -> None:
        """Promise what is granted, to allocations that are created if they are missing."""
        granted = []
        for grant in decided.grants:
            allocation = grant.allocation
            if allocation is None:
                self.revision += 1
                namespace, revision = grant.cluster.namespace, str(self.revision)
                meta = ObjectMeta(POOL, namespace, f"made-{namespace}", revision)
                meta = replace(meta, ownerReferences=(OWNER,))
                allocation = IPAMAllocation(meta, AllocationSpec(RANGE, grant.datacenter))
                self.caches.allocations.apply(Modified(allocation))
            granted.append(make_promise(grant, allocation))
        self.journal = decided.journal.with_promises(granted)

    def compare(self) -> None:
        assert self.keeping.list_reports() == self.whole.list_reports()
        assert self.keeping.new_events() == self.whole.new_events()


class _DrawnWorld(_World):
    """A world to which anything may happen."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__()
        self.data = data

    def meta(self, name: str, namespace: str = "", **more: Any) -> ObjectMeta:
        self.revision += 1
        gone = self.data.draw(st.sampled_from([*[None] * 9, make.EPOCH]))
        uid = self.data.draw(st.sampled_from(["first", "first", "second"])) + name + namespace
        age = self.data.draw(st.sampled_from(AGES))
        meta = ObjectMeta(name, namespace, uid, str(self.revision), creationTimestamp=age, **more)
        return replace(meta, deletionTimestamp=gone)

    def crowd(self) -> None:
        """Make clusters that ask for the same."""
        for name in NAMES[: self.data.draw(st.integers(3, len(NAMES)))]:
            self.ask(name)

    def cluster(self) -> None:
        draw, name = self.data.draw, self.data.draw(st.sampled_from(NAMES))
        pause = draw(st.sampled_from([False, False, False, True]))
        spec = KkpClusterSpec(CloudSpec(draw(DATACENTERS)), pause)
        status = ClusterStatus(draw(st.sampled_from([f"cluster-{name}"] * 3 + [""])))
        self.caches.clusters.apply(Modified(KkpCluster(self.meta(name), spec, status)))

    def allocation(self) -> None:
        draw, name = self.data.draw, self.data.draw(st.sampled_from(NAMES))
        addresses = draw(SPANS)
        if draw(st.integers(0, 9)) == 0:
            addresses = ("odd",)
        cidr = draw(st.sampled_from(["", "", "10.0.0.2/31", "fd00::/64"]))
        kind = draw(st.sampled_from([RANGE, PREFIX]))
        spec = AllocationSpec(
            kind, draw(DATACENTERS), cidr="" if addresses else cidr, addresses=addresses
        )
        owners = draw(st.sampled_from([(OWNER,), (OWNER,), (OWNER,), ()]))
        meta = self.meta(POOL, f"cluster-{name}", ownerReferences=owners)
        self.caches.allocations.apply(Modified(IPAMAllocation(meta, spec)))

    def deletion(self) -> None:
        cache: Cache[Any] = self.data.draw(
            st.sampled_from([self.caches.clusters, self.caches.allocations])
        )
        objects = sorted(cache, key=lambda obj: obj.metadata.key)
        if objects:
            self.revision += 1
            obj = self.data.draw(st.sampled_from(objects))
            meta = replace(obj.metadata, resourceVersion=str(self.revision))
            cache.apply(Deleted(replace(obj, metadata=meta)))

    def unreadable(self) -> None:
        name = self.data.draw(st.sampled_from(NAMES))
        if self.data.draw(st.booleans()):
            self.garble(self.caches.clusters, Key("", name))
        else:
            self.garble(self.caches.allocations, Key(f"cluster-{name}", POOL))

    def edit(self) -> None:
        self.spec = KkpPoolSpec(self.data.draw(SPECS))

    def share(self) -> None:
        spans = self.data.draw(st.sampled_from([(), ("10.0.0.0-10.0.0.3",)]))
        self.spaces.put(OTHERS, [offer("a/other", *spans)] if spans else [])

    def doubt(self) -> None:
        """Have it unknown whether NetworkPools share addresses, or known again."""
        spaces = self.spaces
        (spaces.expect if spaces.is_known else spaces.settle)(Kinds.NETWORK_POOLS)

    async def pass_over_pool_somehow(self) -> None:
        """Pass over the pool; some allocations cannot be created, some passes are stopped."""
        draw = self.data.draw
        self.keeping.check_in_each_pass(is_checked=draw(st.integers(0, 2)) == 0)
        await self.pass_over_pool(
            lambda _: draw(st.integers(0, 3)) == 0, lambda: draw(st.integers(0, 4)) == 0
        )


def _list_work(decided: IPAMPoolDecision) -> tuple[Any, ...]:
    """Return the allocations to delete and to repair."""
    examination = decided.examination
    return examination.surplus, examination.moved, examination.list_repairs(())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_pass_that_examines_what_changed_reports_and_deletes_as_if_it_examined_all(
    data: st.DataObject,
) -> None:
    world = _DrawnWorld(data)
    happens: list[Callable[[], None]] = [
        *(world.cluster, world.allocation, world.deletion, world.crowd, world.unreadable),
        *(world.hold_all, world.hold_all, world.edit, world.share, world.doubt, world.wait),
    ]

    async def play() -> None:
        if data.draw(st.booleans()):
            world.crowd()
        for _ in range(data.draw(st.integers(1, 14))):
            for happening in data.draw(st.lists(st.sampled_from(happens), max_size=2)):
                happening()
            await world.pass_over_pool_somehow()
            if data.draw(st.integers(0, 3)):
                world.keep_promises()

    anyio.run(play)


async def test_a_cluster_that_joins_a_row_which_is_not_tried_shows_its_refusal_later() -> None:
    world = _World()
    world.hold_all()
    for name in "abc":
        world.ask(name)
    await world.pass_over_pool()
    assert world.keeping.list_reports().keys() == {*"abc"}
    world.hold_all()
    world.ask("h")
    await world.pass_over_pool()
    assert "h" not in world.keeping.list_reports(), "the batch is full before its row is refused"
    world.hold_all()
    await world.pass_over_pool()
    assert world.keeping.list_reports()["h"] == world.keeping.list_reports()["c"]


async def test_a_cluster_whose_allocation_was_refused_shows_later_that_the_pool_is_full() -> None:
    world = _World()
    world.hold_all()
    for name in "bcd":
        world.ask(name)
    await world.pass_over_pool()
    world.hold_all()
    await world.pass_over_pool(lambda name: name == "c")
    [failure] = world.keeping.list_reports()["c"].values()
    assert failure.reason == RECONCILING_ERROR
    world.keep_promises()
    world.hold_all()
    world.ask("a")
    for _ in range(2):
        world.wait()
    await world.pass_over_pool()
    assert world.keeping.list_reports()["c"] == world.keeping.list_reports()["a"]


async def test_a_waiting_cluster_shows_its_overlap_until_its_row_is_refused_again() -> None:
    world = _World()
    world.hold_all()
    for name in "abgh":
        world.ask(name)
    for name, address in {"g": "10.0.0.0", "h": "10.0.0.1"}.items():
        world.hold(name, address)
    world.hold("a-thief", "10.0.0.0-10.0.0.1")
    await world.pass_over_pool()
    [refusal] = world.keeping.list_reports()["h"].values()
    assert refusal.reason == POOL_EXHAUSTED
    world.hold_all()
    await world.pass_over_pool()
    [overlap] = world.keeping.list_reports()["h"].values()
    assert overlap.reason == OVERLAPPING, "the batch is full before its row is tried"
    world.hold_all()
    await world.pass_over_pool()
    assert world.keeping.list_reports()["h"] == {POOL: refusal}


async def test_clusters_of_a_full_row_show_later_that_their_addresses_would_be_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MOST_PARTS", 1)
    world = _World()
    world.hold_all()
    for name in "ab":
        world.ask(name)
    await world.pass_over_pool()
    world.hold("even", "10.0.0.0")
    for number in (2, 4, 6):
        world.hold(f"even-{number}", f"10.0.0.{number}")
    world.hold_all()
    await world.pass_over_pool()
    for name in "ab":
        [refusal] = world.keeping.list_reports()[name].values()
        assert "would be split into 2 ranges" in refusal.message


async def test_all_clusters_are_examined_in_one_pass_once_other_addresses_are_shared() -> None:
    world = _World()
    for name in "abc":
        world.ask(name)
    while world.journal.promises or not world.caches.allocations.get(Key("cluster-c", POOL)):
        await world.pass_over_pool()
        world.keep_promises()
    for is_shared in (True, False):
        world.spaces.put(OTHERS, [offer("a/other", "10.0.0.0-10.0.0.3")] if is_shared else [])
        examinations = [await world.pass_over_pool() for _ in range(3)]
        assert [len(of.findings) for of in examinations if of is not None] == [3, 0, 0]
        reports = world.keeping.list_reports()
        assert {name: bool(report[POOL]) for name, report in reports.items()} == dict.fromkeys(
            "abc", is_shared
        )


async def test_clusters_that_come_while_an_allocation_is_unreadable_are_told_of_it() -> None:
    world = _World()
    world.ask("a")
    world.garble(world.caches.allocations, Key("cluster-odd", POOL))
    await world.pass_over_pool()
    world.ask("b")
    world.hold("c", "10.0.0.0-10.0.0.1")
    world.ask("c")
    await world.pass_over_pool()
    reports = world.keeping.list_reports()
    assert [report[POOL].reason for report in reports.values()] == [HOLDERS_UNKNOWN] * 2
    assert reports.keys() == {*"ab"}, "c has its addresses"
    world.release("c")
    await world.pass_over_pool()
    assert world.keeping.list_reports().keys() == {*"abc"}


async def test_a_check_calls_a_cluster_no_difference_for_which_nothing_could_be_created() -> None:
    world = _World()
    for name in "abc":
        world.ask(name)
    await world.pass_over_pool()
    world.keeping.check_in_each_pass(is_checked=True)
    world.keep_promises()
    await world.pass_over_pool(lambda name: name == "c")
    [failure] = world.keeping.list_reports()["c"].values()
    assert failure.reason == RECONCILING_ERROR


async def test_a_cluster_is_told_of_others_once_its_own_unreadable_allocation_is_gone() -> None:
    world = _World()
    allocations = world.caches.allocations
    world.ask("h")
    for name in [*map(str, range(20)), "h"]:  # more than a message names
        world.garble(allocations, Key(f"cluster-{name}", POOL))
    await world.pass_over_pool()
    assert world.keeping.list_reports() == {}, "h may have its addresses"
    world.garble(allocations, Key("cluster-g", POOL))
    world.revision += 1
    meta = ObjectMeta(POOL, "cluster-h", resourceVersion=str(world.revision))
    allocations.apply(Deleted(IPAMAllocation(meta)))
    await world.pass_over_pool()
    assert world.keeping.list_reports()["h"][POOL].reason == HOLDERS_UNKNOWN


async def test_a_cluster_is_not_served_while_it_cannot_be_decoded() -> None:
    world = _World()
    world.ask("a")
    world.hold("a", "10.0.0.0-10.0.0.1")
    await world.pass_over_pool()
    assert world.keeping.list_reports() == {"a": {POOL: None}}
    world.garble(world.caches.clusters, Key("", "a"))
    await world.pass_over_pool()
    assert world.keeping.list_reports() == {}


async def test_an_allocation_is_repaired_once_no_promise_of_an_invalid_datacenter_is_open() -> (
    None
):
    world = _World()
    world.ask("a")
    allocation = world.hold("a", "10.0.0.0", ownerReferences=())
    meta, ranges = (
        allocation.metadata,
        (PromisedRange(AddressRange.parse(*["10.0.0.1"] * 2), "x"),),
    )
    promise = Promise(
        JOURNALS.kind,
        meta.key,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
        ranges=ranges,
    )
    world.journal = world.journal.with_promises([promise])
    await world.pass_over_pool()
    world.spec = KkpPoolSpec({"x": replace(_X, poolCidr="odd")})
    await world.pass_over_pool()
    world.journal = Journal(world.journal.revisions)
    examination = await world.pass_over_pool()
    assert examination is not None
    assert examination.list_repairs(()) == [(allocation, RANGE)]


async def test_a_pass_that_finds_a_kept_problem_wrong_reports_the_right_one() -> None:
    world = _World()
    world.ask("a")
    allocation = world.hold("a", "10.0.0.0-10.0.0.1")
    await world.pass_over_pool()
    differences: list[list[str]] = []
    findings = world.keeping.pools._findings
    findings._on_difference = lambda _, parts: differences.append(parts)
    kept = findings._pools[POOL]
    assert isinstance(kept, StoredPool)
    kept.problems.by_key[allocation.metadata.key] = AllocationProblem("OutOfPool", "wrong")
    world.keeping.check_in_each_pass(is_checked=True)
    for _ in range(2):
        await world.pass_over_pool()
        assert world.keeping.list_reports() == {"a": {POOL: None}}
    assert differences == [["problem of cluster-a/p"]]
