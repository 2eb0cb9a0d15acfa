"""Kept holdings of a pool equal those that are rebuilt from all its allocations, at any time."""

from dataclasses import replace
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from allocator import AddressRange, Layout
from controller.cache import Cache
from controller.codec import Deleted, Modified, Unreadable
from controller.meta import Version
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, index_by_pool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.configuration.settings import PoolSettings
from reconcilers.networkpool.facts import KIND, compute_facts, make_holder
from reconcilers.networkpool.poolkind import NetworkPoolKind
from reconcilers.networkpool.protocol import count_blockers
from reconcilers.networkpool.reading import keep_holdings
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.promises.holdings import Holdings, list_differences
from reconcilers.promises.identities import Holder
from tests.clock import VirtualClock
from tests.reconcilers import make
from tests.reconcilers.checked import Differences
from tests.reconcilers.lab import Lab

LAYOUTS = {"IPv4": Layout.parse("10.40.0.0/26")}
OURS = "butler-ipam"
NAMES = st.sampled_from("abcde")
POOLS = st.sampled_from(["lab", "lab", "lab", "other"])
ENDS = st.integers(0, 80)  # the pool has 64 addresses: some ranges leave it


@st.composite
def _objects(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw arguments of `make.allocation`; ranges may overlap, or lie outside the pool."""
    first, size = draw(ENDS), draw(st.integers(1, 12))
    held_range = (f"10.40.0.{first}", f"10.40.0.{first + size - 1}")
    writers = [
        {"manager": manager, "subresource": "status", "time": f"2026-01-01T00:00:0{second}Z"}
        for manager, second in draw(
            st.lists(st.tuples(st.sampled_from(["manager", OURS]), st.integers(0, 9)), max_size=2)
        )
    ]
    return {
        "of": draw(POOLS),
        "held_range": draw(st.sampled_from([None, held_range])),
        "phase": draw(st.sampled_from([None, "Pending", "Allocated", "Failed", "Released"])),
        "age": float(draw(st.integers(0, 3))),
        "finalizers": draw(st.sampled_from([[], ["butler.butlerlabs.dev/ipallocation"]])),
        "deletionTimestamp": draw(st.sampled_from([None, make.EPOCH.isoformat()])),
        "managedFields": writers,
        "uid": draw(st.sampled_from(["first", "second"])) + name,
    }


class _PoolCaches:
    """A cache of allocations, each event that can change it, and the holdings kept of it."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.revision = 10
        self.cache = Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool})
        self.reported: Differences = []
        self.kept = keep_holdings(
            self.cache,
            OURS,
            clock=VirtualClock(),
            check_interval=0.0,
            on_difference=lambda *report: self.reported.append(report),
        )
        self.cache.replace([], self.revision)

    def draw_allocation(self) -> IPAllocation:
        name = self.data.draw(NAMES)
        self.revision += 1
        drawn = self.data.draw(_objects(name))
        return make.allocation(name, resourceVersion=str(self.revision), **drawn)

    def apply_event(self) -> None:
        self.cache.apply(Modified(self.draw_allocation()))

    def apply_own_write_of_allocation(self) -> None:
        self.cache.apply_own_write(self.draw_allocation())

    def apply_deletion(self) -> None:
        self.cache.apply(Deleted(self.draw_allocation()))

    def mark_deleted(self) -> None:
        self.cache.mark_deleted(Version.from_object(self.draw_allocation()))

    def apply_unreadable(self) -> None:
        odd = self.draw_allocation()
        self.cache.apply(Unreadable(odd.metadata.key, odd.metadata.revision, "odd"))

    def bookmark(self) -> None:
        self.cache.apply_bookmark(self.revision)

    def unconfirm_history(self) -> None:
        self.cache.unconfirm_history()

    def relist(self) -> None:
        listed = {allocation.metadata.name: allocation for allocation in self._draw_allocations()}
        self.cache.replace(listed.values(), self.revision)

    def restore_server(self) -> None:
        listed = {allocation.metadata.name: allocation for allocation in self._draw_allocations()}
        old = {n: structs.replace(o, metadata=_with_revision(o, 5)) for n, o in listed.items()}
        self.revision = max(1, self.revision - 5)
        self.cache.replace(old.values(), self.revision, replaced=True)

    def _draw_allocations(self) -> list[IPAllocation]:
        return [self.draw_allocation() for _ in range(self.data.draw(st.integers(0, 3)))]

    def compare_holdings(self, pool: str) -> None:
        """Read the kept holdings of a pool, as a pass does, and compare them with rebuilt ones."""
        key = make.key(pool)
        kept = self.kept.get_holdings(key, None)
        kept.replace_layouts(LAYOUTS)
        kept.get_space("IPv4")
        kept.find_other_holder(AddressRange.parse("10.40.0.0", "10.40.0.0"), space="IPv4")
        rebuilt = Holdings(LAYOUTS)
        for allocation in self.cache.list_by_index(POOL_INDEX, str(key)):
            rebuilt.put(make_holder(allocation), compute_facts(allocation, OURS))
        assert list_differences(kept, rebuilt) == []
        assert kept.copy_state() == rebuilt.copy_state(kept.derived)


def _with_revision(allocation: IPAllocation, revision: int) -> Any:
    """Return the metadata of an allocation, with this revision."""
    return replace(allocation.metadata, resourceVersion=str(revision))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_kept_holdings_never_differ_from_rebuilt_ones(data: st.DataObject) -> None:
    caches = _PoolCaches(data)
    changes = [
        *(caches.apply_event, caches.apply_event, caches.apply_event),
        *(caches.apply_own_write_of_allocation, caches.apply_deletion, caches.mark_deleted),
        *(caches.apply_unreadable, caches.bookmark, caches.unconfirm_history, caches.relist),
        caches.restore_server,
    ]
    for _ in range(data.draw(st.integers(1, 8))):
        for change in data.draw(st.lists(st.sampled_from(changes), max_size=3)):
            change()
        caches.compare_holdings("lab")
        caches.compare_holdings("other")
    assert caches.reported == []


A, B = (Holder(KIND, make.key(name)) for name in "ab")
HELD = Holder(KIND, make.key("held"))


def _make_lab() -> Lab:
    """Return a lab whose pool has an allocation `held` with eight addresses."""
    lab = Lab()
    lab.settings = replace(lab.settings, pool=PoolSettings(contents_check=600.0))
    lab.server.add("networkpools", make.pool())
    allocation = make.allocation("held", held_range=("10.40.0.0", "10.40.0.7"))
    lab.server.add("ipallocations", allocation)
    return lab


def _get_kind(lab: Lab) -> NetworkPoolKind:
    """Return the functions by which the passes of a lab know NetworkPools."""
    kind = lab.pools._kind
    assert isinstance(kind, NetworkPoolKind)
    return kind


async def test_holdings_that_are_wrong_are_reported_and_replaced(
    contents_differences: Differences,
) -> None:
    lab = _make_lab()
    await lab.run_pool_pass()
    reader = _get_kind(lab)._allocations._reader
    assert reader._kept is not None
    kept = reader._kept._pools[make.key("lab")].holdings
    kept.remove(HELD)
    lab.server.add("ipallocations", make.allocation("a"))
    with structlog.testing.capture_logs() as logs:
        await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["cidr"] == "10.40.0.8/29", (
        "the range of `held` is not allocated again"
    )
    [wrong] = [line for line in logs if line["log_level"] == "error"]
    assert wrong["event"] == "pool cache inconsistent"
    assert wrong["parts"] == ["counts", f"{KIND} {HELD.key}", "space"]
    registry = _get_kind(lab)._events._metrics._contents
    assert registry.labels("lab", make.NAMESPACE)._value.get() == 1
    assert contents_differences == [(make.key("lab"), wrong["parts"])]
    contents_differences.clear()
    await lab.run_pool_pass()
    assert contents_differences == []


def test_a_check_is_made_once_per_interval(contents_differences: Differences) -> None:
    cache, clock, reported = (
        Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool}),
        VirtualClock(),
        [],
    )
    kept = keep_holdings(
        cache,
        OURS,
        clock=clock,
        check_interval=600.0,
        on_difference=lambda *report: reported.append(report),
    )
    kept._check_interval = 600.0  # the fixture `contents_differences` has set it to 0
    cache.replace([make.allocation("a")], 2000)
    kept.get_holdings(make.key("lab"), None).remove(A)
    assert kept.get_holdings(make.key("lab"), None).holders == []
    clock.skip(600)
    assert kept.get_holdings(make.key("lab"), None).holders == [A]
    assert len(reported) == 1
    clock.skip(599)
    kept.get_holdings(make.key("lab"), None)
    assert len(reported) == 1
    assert contents_differences == reported
    contents_differences.clear()


def test_holdings_are_rebuilt_after_a_failed_update(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool})
    kept = keep_holdings(
        cache, OURS, clock=VirtualClock(), check_interval=600.0, on_difference=lambda *_: None
    )
    cache.replace([make.allocation("a")], 2000)
    kept.get_holdings(make.key("lab"), None)
    cache.replace([make.allocation("a"), make.allocation("b")], 3000)
    put = Holdings.put
    with monkeypatch.context() as mp:
        mp.setattr(Holdings, "put", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            kept.get_holdings(make.key("lab"), None)
    assert Holdings.put is put
    assert kept.get_holdings(make.key("lab"), None).holders == [A, B]


def test_a_deletion_counts_a_promise_to_another_object_with_the_name_of_a_holder() -> None:
    allocation = make.allocation("a", held_range=("10.40.0.0", "10.40.0.7"))
    recreated = make.allocation("a", uid="another")
    for promised_to, count in ((recreated, 2), (allocation, 1)):
        promise = make.promise(promised_to, "10.40.0.8", "10.40.0.15", version="9999")
        pool = make.pool(status={"assignments": [make.render_promise(promise)]})
        assert (
            count_blockers(STATUS_JOURNALS.read(pool), make.view(allocation, position=10)) == count
        )


def test_the_holdings_of_a_forgotten_pool_are_dropped() -> None:
    cache = Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool})
    kept = keep_holdings(
        cache, OURS, clock=VirtualClock(), check_interval=600.0, on_difference=lambda *_: None
    )
    kept.get_holdings(make.key("lab"), None)
    kept.forget(make.key("lab"))
    assert kept._pools == {}
