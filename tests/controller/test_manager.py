"""The manager: what starts and stops in which order, and which failures stop nothing else."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from controller.errors import ControllerError, Forbidden
from controller.leases import LeaderLost
from controller.manager import Manager
from controller.meta import Key, Version
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.resource import Resource
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock, settle
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget

GADGETS = Resource("example.com", "v1", "Gadget", "gadgets", Widget)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"
ELECTING = ManagerOptions(
    leader_elect=True, lease_namespace="system", lease_name="leader", identity="a"
)


def build_path(name: str, plural: str = "widgets") -> str:
    return f"/apis/example.com/v1/namespaces/default/{plural}/{name}"


class Harness:
    """A manager over a store, with one controller that notes what it sees."""

    def __init__(self, options: ManagerOptions | None = None) -> None:
        self.clock = VirtualClock()
        self.store = Store()
        self.transport = StoreTransport(self.store)
        self.manager = Manager(self.transport, clock=self.clock, options=options)
        self.widgets = self.manager.get_informer(WIDGETS)
        self.seen: list[str] = []
        self.failure: ControllerError | None = None
        self._ended = anyio.Event()
        self.pause = 0.0
        self.manager.add_controller(
            "widget", self.reconcile, watches=[Watch(self.widgets, to_self)]
        )

    def widget(self, name: str, plural: str = "widgets") -> None:
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {}}
        self.store.put(build_path(name, plural), body)

    async def reconcile(self, key: Key) -> Outcome:
        self.seen.append(f"begin {key.name}")
        await self.clock.sleep(self.pause)
        self.seen.append(f"end {key.name}")
        return SETTLED

    async def run(self) -> None:
        try:
            await self.manager.run()
        except ControllerError as error:
            self.failure = error
        finally:
            self._ended.set()

    def has_ended(self) -> bool:
        """Whether the manager has returned or raised."""
        return self._ended.is_set()


@asynccontextmanager
async def run_harness(harness: Harness) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(harness.run)
        await harness.clock.advance(0)
        yield
        group.cancel_scope.cancel()


async def test_an_event_makes_the_controller_reconcile_its_key() -> None:
    harness = Harness()
    harness.widget("there-before")
    async with run_harness(harness):
        assert harness.seen == ["begin there-before", "end there-before"]
        harness.widget("new")
        await harness.clock.advance(0)
        assert harness.seen[2:] == ["begin new", "end new"]


async def test_own_writes_are_in_the_cache_before_the_watch_delivers_them() -> None:
    harness = Harness()
    harness.widget("a")
    async with run_harness(harness):
        harness.transport.watches_stalled = True
        seen = harness.widgets.cache.get(Key("default", "a"))
        assert seen is not None
        patched = await harness.manager.client.patch(
            WIDGETS, Version.from_object(seen), {"spec": {"color": "blue"}}
        )
        assert harness.widgets.cache.get(Key("default", "a")) is patched
        assert patched.spec.color == "blue"
        await harness.clock.advance(0)
        before = len(harness.seen)
        harness.transport.watches_stalled = False
        harness.widget("b")
        await harness.clock.advance(0)
        assert harness.widgets.cache.get(Key("default", "a")) == patched
        assert harness.seen[before:] == ["begin b", "end b"]


async def test_a_kind_that_cannot_be_listed_stops_only_the_controllers_that_need_it() -> None:
    harness = Harness()
    gadgets = harness.manager.get_informer(GADGETS)
    looked: list[Key] = []

    async def reconcile(key: Key) -> Outcome:
        looked.append(key)
        return SETTLED

    harness.manager.add_controller("gadget", reconcile, watches=[Watch(gadgets, to_self)])
    harness.transport.forbidden["gadgets"] = Forbidden(403, "Forbidden", "gadgets is forbidden")
    harness.widget("a")
    harness.widget("g", "gadgets")
    async with run_harness(harness):
        await harness.clock.advance(60)
        assert harness.seen == ["begin a", "end a"]
        assert looked == []
        harness.transport.forbidden.clear()
        await harness.clock.advance(61)
        assert looked == [Key("default", "g")]


async def test_a_controller_that_still_waits_for_its_kind_does_not_delay_the_stop() -> None:
    harness = Harness()
    harness.transport.refused["LIST"] = Forbidden(403)
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(0)
        assert harness.has_ended()
        assert harness.failure is None


async def test_stopping_lets_running_work_end_and_begins_no_more() -> None:
    harness = Harness()
    harness.pause = 10
    for name in ("a", "b"):
        harness.widget(name)
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(9)
        assert not harness.has_ended()
        await harness.clock.advance(1)
        assert harness.has_ended()
    assert harness.seen == ["begin a", "end a"]


async def test_work_that_does_not_end_within_the_grace_period_is_cancelled() -> None:
    harness = Harness(ManagerOptions(grace_seconds=5))
    harness.pause = 1000
    harness.widget("a")
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(5)
        assert harness.has_ended()
    assert harness.seen == ["begin a"]
    assert harness.failure is None


async def test_a_standby_keeps_its_caches_current_and_reconciles_nothing() -> None:
    harness = Harness(ELECTING)
    harness.widget("a")
    harness.store.put(LEASE, build_held_lease("other"))
    async with run_harness(harness):
        await harness.clock.advance(10)
        assert len(harness.widgets.cache) == 1
        assert harness.seen == []
        harness.store.put(LEASE, build_held_lease(""))
        await harness.clock.advance(5)
        assert harness.seen == ["begin a", "end a"]


def build_held_lease(holder: str) -> dict[str, object]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    return {"metadata": {"name": "leader", "namespace": "system"}, "spec": spec}


async def test_a_standby_can_be_stopped_while_it_waits() -> None:
    harness = Harness(ELECTING)
    harness.store.put(LEASE, build_held_lease("other"))
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(0)
        assert harness.has_ended()
    assert harness.store.objects[LEASE]["spec"]["holderIdentity"] == "other"


async def test_the_lease_is_held_until_the_last_work_has_ended_and_then_released() -> None:
    harness = Harness(ELECTING)
    harness.pause = 20
    harness.widget("a")
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(19)
        assert harness.store.objects[LEASE]["spec"]["holderIdentity"] == "a"
        await harness.clock.advance(1)
        assert harness.has_ended()
    assert harness.seen == ["begin a", "end a"]
    assert harness.store.objects[LEASE]["spec"]["holderIdentity"] == ""


async def test_a_cancelled_manager_releases_its_lease() -> None:
    harness = Harness(ELECTING)
    async with run_harness(harness):
        assert harness.store.objects[LEASE]["spec"]["holderIdentity"] == "a"
    assert harness.store.objects[LEASE]["spec"]["holderIdentity"] == ""


async def test_a_metric_says_who_leads() -> None:
    harness = Harness(ELECTING)
    registry = harness.manager.metrics.registry

    def read_leader_metric() -> float | None:
        name = "leader_election_master_status"
        return registry.get_sample_value(name, {"name": "leader"})

    harness.store.put(LEASE, build_held_lease("other"))
    async with run_harness(harness):
        assert read_leader_metric() == 0
        harness.store.put(LEASE, build_held_lease(""))
        await harness.clock.advance(5)
        assert read_leader_metric() == 1
    assert read_leader_metric() == 0


async def test_a_metric_counts_the_failed_attempts_at_the_lease() -> None:
    harness = Harness(ELECTING)
    registry = harness.manager.metrics.registry

    def read_failure_metric() -> float | None:
        name = "leader_election_failed_attempts_total"
        return registry.get_sample_value(name, {"name": "leader"})

    harness.transport.refused = {"GET": Forbidden(403, "Forbidden", "no role")}
    async with run_harness(harness):
        assert read_failure_metric() == 1
        await harness.clock.advance(10)
        assert (counted := read_failure_metric() or 0) > 5
        harness.transport.refused = {}
        await harness.clock.advance(60)
        assert read_failure_metric() == counted


async def test_losing_the_lease_cancels_the_work_and_is_raised() -> None:
    harness = Harness(ELECTING)
    harness.pause = 1000
    harness.widget("a")
    async with run_harness(harness):
        harness.transport.hangs = True
        await harness.clock.advance(9.9)
        assert not harness.has_ended()
        await harness.clock.advance(0.1)
        assert harness.has_ended()
    assert isinstance(harness.failure, LeaderLost)
    assert harness.seen == ["begin a"]
    assert harness.store.objects[LEASE]["spec"]["holderIdentity"] == "a"


@pytest.mark.survives_bugs
async def test_services_run_in_every_replica_or_the_leader_and_are_restarted_when_they_raise() -> (
    None
):
    harness = Harness(ELECTING)
    ran: list[tuple[str, float]] = []

    def service(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            ran.append((name, harness.clock.monotonic()))
            raise ZeroDivisionError(name)

        return run

    harness.manager.add_service("everywhere", service("everywhere"), leader_only=False)
    harness.manager.add_service("leader", service("leader"))
    harness.store.put(LEASE, build_held_lease("other"))
    async with run_harness(harness):
        await harness.clock.advance(7)
        assert ran == [("everywhere", 0), ("everywhere", 1), ("everywhere", 3), ("everywhere", 7)]
        harness.store.put(LEASE, build_held_lease(""))
        await harness.clock.advance(7)
        assert "leader" in {name for name, _ in ran}
    assert harness.failure is None


@pytest.mark.survives_bugs
async def test_a_service_that_ran_for_long_is_restarted_after_the_first_delay() -> None:
    harness = Harness()
    begun: list[float] = []

    async def run() -> None:
        begun.append(harness.clock.monotonic())
        await harness.clock.sleep(1000 if len(begun) == 3 else 0)
        raise ZeroDivisionError

    harness.manager.add_service("job", run)
    async with run_harness(harness):
        await harness.clock.advance(1005)
    assert begun == [0, 1, 3, 1004]


@pytest.mark.slow
async def test_nothing_is_left_behind_after_many_starts_and_stops() -> None:
    def tasks() -> int:
        return len(anyio.get_running_tasks())

    before = tasks()
    for _ in range(100):
        harness = Harness(ELECTING)
        harness.widget("a")
        async with run_harness(harness):
            harness.manager.stop()
            await harness.clock.advance(1)
        assert harness.has_ended()
        assert harness.failure is None
        assert harness.clock.waiting == 0
        assert harness.widgets.cache._subscribers == []
    await settle()
    assert tasks() == before


async def test_nothing_is_added_to_a_running_manager() -> None:
    harness = Harness()
    async with run_harness(harness):
        with pytest.raises(RuntimeError, match="runs already"):
            harness.manager.get_informer(GADGETS)


@pytest.mark.parametrize("name", ["widget", "idle"])
def test_a_controller_needs_a_name_of_its_own_and_something_to_watch(name: str) -> None:
    harness = Harness()
    with pytest.raises(ValueError, match=name):
        harness.manager.add_controller(
            name,
            harness.reconcile,
            watches=[Watch(harness.widgets, to_self)] if name == "widget" else [],
        )
