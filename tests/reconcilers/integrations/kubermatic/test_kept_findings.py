"""What a replica keeps about an IPAMPool's clusters is what an examination of all of them finds.

A pass examines only the clusters of which something changed, and keeps the findings about the
others. A *row* is the clusters that need the same addresses; if the first of a row is refused, the
pass does not try the others, and all of them show the same refusal.
"""

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
from reconcilers.promises.shares import Limits, Shares, get_namespace_as_tenant
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
OTHER_POOL = PoolName("NetworkPool", Key("a", "other"))
"""A pool that may share addresses with the IPAMPool."""


def _fail(pool: str, parts: Sequence[str]) -> None:
    """Fail the test: what a replica keeps about a pool differs from what it computes."""
    pytest.fail(f"what is kept of {pool} differs in {parts}")


class _Replica:
    """Decides and reports in passes over the pool, and writes nothing."""

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
        """Compare what is kept with what is computed, in each pass from now on or in none."""
        cast("Any", self.pools._findings)._is_check_due = lambda _: is_checked

    def list_reports(self) -> dict[str, Any]:
        """Return the reports about clusters, by cluster and pool.

        A report is a problem, or None for a cluster that has its addresses.
        """
        return {
            name: dict(problems)
            for name in NAMES
            if (problems := self.reports.list_for_cluster(Key("", name)))
        }

    def take_events(self) -> list[tuple[Any, ...]]:
        """Return the events since the last call, and their objects, sorted."""
        events = sorted(zip(self.events.events, self.events.subjects, strict=True))
        self.events.events.clear()
        self.events.subjects.clear()
        return events


class _TwoReplicas:
    """Two replicas of which only one keeps findings, over caches that a test changes.

    Attributes:
        revision: the resourceVersion of the last change.
        spec: the spec of pool `p`.
        journal: the open promises of pool `p`.
        keeping: examines what changed since its last pass.
        forgetting: examines all clusters in each pass.
    """

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
        self.keeper = _Replica(self.caches, self.clock, self.spaces)
        self.forgetter = _Replica(self.caches, self.clock, self.spaces)

    def create_cluster(self, name: str) -> None:
        """Create a cluster of datacenter `x`."""
        self.revision += 1
        meta = ObjectMeta(name, "", f"first{name}", str(self.revision))
        spec, status = KkpClusterSpec(CloudSpec("x")), ClusterStatus(f"cluster-{name}")
        self.caches.clusters.apply(Modified(KkpCluster(meta, spec, status)))

    def put_allocation(self, name: str, addresses: str, **metadata: Any) -> IPAMAllocation:
        """Create the allocation of a cluster, or replace it.

        Args:
            name: the name of the cluster.
            addresses: the range that the allocation has.
            **metadata: fields that its metadata has beside the usual ones.
        """
        self.revision += 1
        namespace = f"cluster-{name}"
        meta = ObjectMeta(
            POOL,
            namespace,
            uid=namespace,
            resourceVersion=str(self.revision),
            ownerReferences=(OWNER,),
        )
        spec = AllocationSpec(RANGE, "x", cidr="", addresses=(addresses,))
        allocation = IPAMAllocation(replace(meta, **metadata), spec)
        self.caches.allocations.apply(Modified(allocation))
        return allocation

    def make_unreadable(self, cache: Cache[Any], key: Key) -> None:
        """Put an object that cannot be decoded into a cache."""
        self.revision += 1
        cache.apply(Unreadable(key, self.revision, "odd"))

    def delete_allocation(self, name: str) -> None:
        """Delete the allocation of a cluster."""
        allocation = self.caches.allocations.get(Key(f"cluster-{name}", POOL))
        assert allocation is not None
        self.revision += 1
        meta = replace(allocation.metadata, resourceVersion=str(self.revision))
        self.caches.allocations.apply(Deleted(replace(allocation, metadata=meta)))

    def toggle_full(self) -> None:
        """Create an allocation that holds all addresses of the pool, or delete it if it exists."""
        if self.caches.allocations.get(Key("cluster-by-hand", POOL)) is None:
            self.put_allocation("by-hand", "10.0.0.0-10.0.0.7")
        else:
            self.delete_allocation("by-hand")

    def skip_time(self) -> None:
        """Let six seconds pass, after which a deferred cluster may be tried again."""
        self.clock.skip(6)

    def keep_promises(self) -> None:
        """Write each promised range to its allocation, if that is at the promised version."""
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
        is_creation_refused: Callable[[str], bool] = lambda _: False,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> Examination | None:
        """Decide and report with both replicas; assert that they agree.

        Args:
            is_creation_refused: returns whether the allocation of a cluster cannot be created.
            is_interrupted: returns whether the pass ends before it promises anything.

        Returns:
            What the keeping replica examined; None if an allocation cannot be decoded.
        """
        pool = IPAMPool(ObjectMeta(POOL, uid="uid-p"), self.spec)
        allocations = self.caches.allocations
        self.forgetter.pools._findings.forget(POOL)
        try:
            check_readable(POOL, allocations.unreadable)
        except UnreadableHolders as unreadable:
            for replica in (self.keeper, self.forgetter):
                await replica.pools.report_unreadable(pool, unreadable)
            self.assert_same_reports()
            return None
        view = KkpView(
            allocations.position,
            partial(allocations.list_by_index, POOL_INDEX, POOL),
            find=find_by_key(JOURNALS.kind, allocations.get),
            unreadable=allocations.unreadable.keys(),
        )
        decided, decided_afresh = self.decide(pool, view)
        failed = {
            make_holder(grant.cluster.namespace, POOL): (
                grant.cluster.metadata.key,
                AllocationProblem(RECONCILING_ERROR, "no"),
            )
            for grant in decided.grants
            if grant.allocation is None and is_creation_refused(grant.cluster.metadata.name)
        }
        if failed:  # other clusters may get the addresses of these
            decided, decided_afresh = self.decide(pool, view, failed)
        if is_interrupted():
            return decided.examination
        for key in {key for key, _ in failed.values()}:
            self.defer(key)
        self.promise(decided)
        for replica, choice in ((self.keeper, decided), (self.forgetter, decided_afresh)):
            replica.pools._findings.commit(
                pool, view, examination=choice.examination, failed=failed
            )
            replica.reports.record_pool(pool, choice.problems)
        self.assert_same_reports()
        return decided.examination

    def decide(
        self, pool: IPAMPool, view: KkpView, omitted: Collection[Holder] = ()
    ) -> tuple[IPAMPoolDecision, IPAMPoolDecision]:
        """Decide with both replicas; assert that they decide the same.

        Args:
            pool: pool `p` with the current spec.
            view: the allocations of the pool.
            omitted: the allocations that cannot be created in this pass.

        Returns:
            The decision of the keeping replica, then that of the forgetting one.
        """
        decided, decided_afresh = (
            replica.pools._decide(
                pool, self.journal, view, limits=self.make_limits(), omitted=omitted
            )
            for replica in (self.keeper, self.forgetter)
        )
        assert decided.grants == decided_afresh.grants
        assert decided.problems == decided_afresh.problems
        assert _list_work(decided) == _list_work(decided_afresh)
        return decided, decided_afresh

    def make_limits(self) -> Limits:
        """Return the limits that tenants have on open promises now."""
        now = self.clock.monotonic()
        return Limits(
            lambda promises: self.shares.build_eligibility(
                promises, get_namespace_as_tenant, capacity=400, now=now
            ),
            get_namespace_as_tenant,
        )

    def defer(self, key: Key) -> None:
        """Let a cluster whose allocation cannot be created wait before it is tried again."""
        cluster = self.caches.clusters.get(key)
        if cluster is not None:
            self.shares.defer(cluster.metadata, self.clock.monotonic())

    def promise(self, decided: IPAMPoolDecision) -> None:
        """Promise each grant to the allocation of its cluster, which is created if missing."""
        promises = []
        for grant in decided.grants:
            allocation = grant.allocation
            if allocation is None:
                self.revision += 1
                namespace, revision = grant.cluster.namespace, str(self.revision)
                meta = ObjectMeta(POOL, namespace, f"made-{namespace}", revision)
                meta = replace(meta, ownerReferences=(OWNER,))
                allocation = IPAMAllocation(meta, AllocationSpec(RANGE, grant.datacenter))
                self.caches.allocations.apply(Modified(allocation))
            promises.append(make_promise(grant, allocation))
        self.journal = decided.journal.with_promises(promises)

    def assert_same_reports(self) -> None:
        """Assert that both replicas report the same problems and recorded the same events."""
        assert self.keeper.list_reports() == self.forgetter.list_reports()
        assert self.keeper.take_events() == self.forgetter.take_events()


class _RandomReplicas(_TwoReplicas):
    """Two replicas, and changes that Hypothesis draws."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__()
        self.data = data

    def draw_metadata(self, name: str, namespace: str = "", **more: Any) -> ObjectMeta:
        """Draw the metadata of an object: its UID, its age, and rarely a deletion."""
        self.revision += 1
        deletion = self.data.draw(st.sampled_from([*[None] * 9, make.EPOCH]))
        uid = self.data.draw(st.sampled_from(["first", "first", "second"])) + name + namespace
        age = self.data.draw(st.sampled_from(AGES))
        meta = ObjectMeta(name, namespace, uid, str(self.revision), creationTimestamp=age, **more)
        return replace(meta, deletionTimestamp=deletion)

    def create_row(self) -> None:
        """Create three or more clusters that need the same addresses."""
        for name in NAMES[: self.data.draw(st.integers(3, len(NAMES)))]:
            self.create_cluster(name)

    def put_random_cluster(self) -> None:
        """Create or replace a cluster."""
        draw, name = self.data.draw, self.data.draw(st.sampled_from(NAMES))
        is_paused = draw(st.sampled_from([False, False, False, True]))
        spec = KkpClusterSpec(CloudSpec(draw(DATACENTERS)), is_paused)
        status = ClusterStatus(draw(st.sampled_from([f"cluster-{name}"] * 3 + [""])))
        self.caches.clusters.apply(Modified(KkpCluster(self.draw_metadata(name), spec, status)))

    def put_random_allocation(self) -> None:
        """Create or replace the allocation of a cluster."""
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
        meta = self.draw_metadata(POOL, f"cluster-{name}", ownerReferences=owners)
        self.caches.allocations.apply(Modified(IPAMAllocation(meta, spec)))

    def delete_random_object(self) -> None:
        """Delete a cluster or an allocation, if there is one."""
        cache: Cache[Any] = self.data.draw(
            st.sampled_from([self.caches.clusters, self.caches.allocations])
        )
        objects = sorted(cache, key=lambda obj: obj.metadata.key)
        if objects:
            self.revision += 1
            obj = self.data.draw(st.sampled_from(objects))
            meta = replace(obj.metadata, resourceVersion=str(self.revision))
            cache.apply(Deleted(replace(obj, metadata=meta)))

    def make_random_object_unreadable(self) -> None:
        """Make a cluster or an allocation one that cannot be decoded."""
        name = self.data.draw(st.sampled_from(NAMES))
        if self.data.draw(st.booleans()):
            self.make_unreadable(self.caches.clusters, Key("", name))
        else:
            self.make_unreadable(self.caches.allocations, Key(f"cluster-{name}", POOL))

    def edit_pool(self) -> None:
        """Replace the spec of the pool."""
        self.spec = KkpPoolSpec(self.data.draw(SPECS))

    def edit_other_pool(self) -> None:
        """Let another pool hand out addresses of this one, or no longer."""
        spans = self.data.draw(st.sampled_from([(), ("10.0.0.0-10.0.0.3",)]))
        self.spaces.put(OTHER_POOL, [offer("a/other", *spans)] if spans else [])

    def toggle_other_pools_known(self) -> None:
        """Make it unknown whether NetworkPools share addresses, or known again."""
        spaces = self.spaces
        (spaces.expect if spaces.is_known else spaces.settle)(Kinds.NETWORK_POOLS)

    async def pass_over_pool_with_failures(self) -> None:
        """Pass over the pool; some allocations cannot be created, some passes are interrupted."""
        draw = self.data.draw
        self.keeper.check_in_each_pass(is_checked=draw(st.integers(0, 2)) == 0)
        await self.pass_over_pool(
            lambda _: draw(st.integers(0, 3)) == 0, lambda: draw(st.integers(0, 4)) == 0
        )


def _list_work(decided: IPAMPoolDecision) -> tuple[Any, ...]:
    """Return the allocations that a pass deletes, replaces and repairs."""
    examination = decided.examination
    return examination.surplus, examination.moved, examination.list_repairs(())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_pass_that_examines_what_changed_decides_and_reports_as_if_it_examined_all(
    data: st.DataObject,
) -> None:
    """`pass_over_pool` asserts it after each pass."""
    replicas = _RandomReplicas(data)
    changes: list[Callable[[], None]] = [
        replicas.put_random_cluster,
        replicas.put_random_allocation,
        replicas.delete_random_object,
        replicas.create_row,
        replicas.make_random_object_unreadable,
        replicas.toggle_full,
        replicas.toggle_full,
        replicas.edit_pool,
        replicas.edit_other_pool,
        replicas.toggle_other_pools_known,
        replicas.skip_time,
    ]

    async def play() -> None:
        if data.draw(st.booleans()):
            replicas.create_row()
        for _ in range(data.draw(st.integers(1, 14))):
            for change in data.draw(st.lists(st.sampled_from(changes), max_size=2)):
                change()
            await replicas.pass_over_pool_with_failures()
            if data.draw(st.integers(0, 3)):
                replicas.keep_promises()

    anyio.run(play)


async def test_a_cluster_that_joins_a_full_row_shows_the_refusal_once_the_row_is_tried_again() -> (
    None
):
    """Batches are of two promises, so a pass that serves `a` and `b` does not try the row."""
    replicas = _TwoReplicas()
    replicas.toggle_full()
    for name in "abc":
        replicas.create_cluster(name)
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports().keys() == {*"abc"}
    replicas.toggle_full()
    replicas.create_cluster("h")
    await replicas.pass_over_pool()
    assert "h" not in replicas.keeper.list_reports(), "the batch is full before its row is refused"
    replicas.toggle_full()
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports()["h"] == replicas.keeper.list_reports()["c"]


async def test_a_cluster_shows_that_its_allocation_failed_and_later_that_the_pool_is_full() -> (
    None
):
    replicas = _TwoReplicas()
    replicas.toggle_full()
    for name in "bcd":
        replicas.create_cluster(name)
    await replicas.pass_over_pool()
    replicas.toggle_full()
    await replicas.pass_over_pool(lambda name: name == "c")
    [failure] = replicas.keeper.list_reports()["c"].values()
    assert failure.reason == RECONCILING_ERROR
    replicas.keep_promises()
    replicas.toggle_full()
    replicas.create_cluster("a")
    for _ in range(2):
        replicas.skip_time()
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports()["c"] == replicas.keeper.list_reports()["a"]


async def test_a_waiting_cluster_shows_its_overlap_until_its_row_is_refused_again() -> None:
    replicas = _TwoReplicas()
    replicas.toggle_full()
    for name in "abgh":
        replicas.create_cluster(name)
    for name, address in {"g": "10.0.0.0", "h": "10.0.0.1"}.items():
        replicas.put_allocation(name, address)
    replicas.put_allocation("a-thief", "10.0.0.0-10.0.0.1")
    await replicas.pass_over_pool()
    [refusal] = replicas.keeper.list_reports()["h"].values()
    assert refusal.reason == POOL_EXHAUSTED
    replicas.toggle_full()
    await replicas.pass_over_pool()
    [overlap] = replicas.keeper.list_reports()["h"].values()
    assert overlap.reason == OVERLAPPING, "the batch is full before its row is tried"
    replicas.toggle_full()
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports()["h"] == {POOL: refusal}


async def test_clusters_of_a_full_row_show_later_that_their_addresses_would_be_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MOST_PARTS", 1)
    replicas = _TwoReplicas()
    replicas.toggle_full()
    for name in "ab":
        replicas.create_cluster(name)
    await replicas.pass_over_pool()
    replicas.put_allocation("even", "10.0.0.0")
    for number in (2, 4, 6):
        replicas.put_allocation(f"even-{number}", f"10.0.0.{number}")
    replicas.toggle_full()
    await replicas.pass_over_pool()
    for name in "ab":
        [refusal] = replicas.keeper.list_reports()[name].values()
        assert "would be split into 2 ranges" in refusal.message


async def test_all_clusters_are_examined_once_when_another_pool_starts_or_stops_to_overlap() -> (
    None
):
    replicas = _TwoReplicas()
    for name in "abc":
        replicas.create_cluster(name)
    while replicas.journal.promises or not replicas.caches.allocations.get(Key("cluster-c", POOL)):
        await replicas.pass_over_pool()
        replicas.keep_promises()
    for is_shared in (True, False):
        replicas.spaces.put(
            OTHER_POOL, [offer("a/other", "10.0.0.0-10.0.0.3")] if is_shared else []
        )
        examinations = [await replicas.pass_over_pool() for _ in range(3)]
        assert [len(passed.findings) for passed in examinations if passed is not None] == [3, 0, 0]
        reports = replicas.keeper.list_reports()
        assert {name: bool(report[POOL]) for name, report in reports.items()} == dict.fromkeys(
            "abc", is_shared
        )


async def test_a_cluster_that_is_created_while_an_allocation_is_unreadable_reports_it() -> None:
    replicas = _TwoReplicas()
    replicas.create_cluster("a")
    replicas.make_unreadable(replicas.caches.allocations, Key("cluster-odd", POOL))
    await replicas.pass_over_pool()
    replicas.create_cluster("b")
    replicas.put_allocation("c", "10.0.0.0-10.0.0.1")
    replicas.create_cluster("c")
    await replicas.pass_over_pool()
    reports = replicas.keeper.list_reports()
    assert [report[POOL].reason for report in reports.values()] == [HOLDERS_UNKNOWN] * 2
    assert reports.keys() == {*"ab"}, "c has its addresses"
    replicas.delete_allocation("c")
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports().keys() == {*"abc"}


async def test_a_check_finds_no_difference_for_a_cluster_whose_allocation_cannot_be_created() -> (
    None
):
    replicas = _TwoReplicas()
    for name in "abc":
        replicas.create_cluster(name)
    await replicas.pass_over_pool()
    replicas.keeper.check_in_each_pass(is_checked=True)
    replicas.keep_promises()
    await replicas.pass_over_pool(lambda name: name == "c")
    [failure] = replicas.keeper.list_reports()["c"].values()
    assert failure.reason == RECONCILING_ERROR


async def test_a_cluster_reports_other_unreadable_allocations_once_its_own_is_deleted() -> None:
    replicas = _TwoReplicas()
    allocations = replicas.caches.allocations
    replicas.create_cluster("h")
    for name in [*map(str, range(20)), "h"]:  # more than a message names
        replicas.make_unreadable(allocations, Key(f"cluster-{name}", POOL))
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports() == {}, "h may have its addresses"
    replicas.make_unreadable(allocations, Key("cluster-g", POOL))
    replicas.revision += 1
    meta = ObjectMeta(POOL, "cluster-h", resourceVersion=str(replicas.revision))
    allocations.apply(Deleted(IPAMAllocation(meta)))
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports()["h"][POOL].reason == HOLDERS_UNKNOWN


async def test_nothing_is_reported_about_a_cluster_that_cannot_be_decoded() -> None:
    replicas = _TwoReplicas()
    replicas.create_cluster("a")
    replicas.put_allocation("a", "10.0.0.0-10.0.0.1")
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports() == {"a": {POOL: None}}
    replicas.make_unreadable(replicas.caches.clusters, Key("", "a"))
    await replicas.pass_over_pool()
    assert replicas.keeper.list_reports() == {}


async def test_an_allocation_is_repaired_once_no_promise_to_it_is_open() -> None:
    """The allocation lacks its owner; its datacenter becomes invalid while a promise is open."""
    replicas = _TwoReplicas()
    replicas.create_cluster("a")
    allocation = replicas.put_allocation("a", "10.0.0.0", ownerReferences=())
    meta = allocation.metadata
    ranges = (PromisedRange(AddressRange.parse("10.0.0.1", "10.0.0.1"), "x"),)
    promise = Promise(
        JOURNALS.kind,
        meta.key,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
        ranges=ranges,
    )
    replicas.journal = replicas.journal.with_promises([promise])
    await replicas.pass_over_pool()
    replicas.spec = KkpPoolSpec({"x": replace(_X, poolCidr="odd")})
    await replicas.pass_over_pool()
    replicas.journal = Journal(replicas.journal.revisions)
    examination = await replicas.pass_over_pool()
    assert examination is not None
    assert examination.list_repairs(()) == [(allocation, RANGE)]


async def test_a_check_replaces_a_wrong_kept_problem_and_names_the_difference() -> None:
    replicas = _TwoReplicas()
    replicas.create_cluster("a")
    allocation = replicas.put_allocation("a", "10.0.0.0-10.0.0.1")
    await replicas.pass_over_pool()
    differences: list[list[str]] = []
    findings = replicas.keeper.pools._findings
    findings._on_difference = lambda _, parts: differences.append(parts)
    kept = findings._pools[POOL]
    assert isinstance(kept, StoredPool)
    kept.problems.by_key[allocation.metadata.key] = AllocationProblem("OutOfPool", "wrong")
    replicas.keeper.check_in_each_pass(is_checked=True)
    for _ in range(2):  # the second pass finds no difference any more
        await replicas.pass_over_pool()
        assert replicas.keeper.list_reports() == {"a": {POOL: None}}
    assert differences == [["problem of cluster-a/p"]]
