"""The manager: the order of its starts and stops, and failures that stop nothing else."""

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
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"
WITH_ELECTION = ManagerOptions(
    leader_elect=True, lease_namespace="system", lease_name="leader", identity="a"
)


def build_path(name: str, plural: str = "widgets") -> str:
    return f"/apis/example.com/v1/namespaces/default/{plural}/{name}"


class ManagerHarness:
    """A manager over a store, with one controller of widgets.

    Attributes:
        steps: the begin and the end of each call of the reconciler, in order.
        reconcile_seconds: how long the reconciler takes for a key.
        failure: the error with which the manager ended.
    """

    def __init__(self, options: ManagerOptions | None = None) -> None:
        self.clock = VirtualClock()
        self.store = Store()
        self.transport = StoreTransport(self.store)
        self.manager = Manager(self.transport, clock=self.clock, options=options)
        self.widgets = self.manager.get_informer(WIDGETS)
        self.steps: list[str] = []
        self.failure: ControllerError | None = None
        self._ended = anyio.Event()
        self.reconcile_seconds = 0.0
        self.manager.add_controller(
            "widget", self.reconcile, watches=[Watch(self.widgets, to_self)]
        )

    def put_widget(self, name: str, plural: str = "widgets") -> None:
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {}}
        self.store.put(build_path(name, plural), body)

    async def reconcile(self, key: Key) -> Outcome:
        self.steps.append(f"begin {key.name}")
        await self.clock.sleep(self.reconcile_seconds)
        self.steps.append(f"end {key.name}")
        return SETTLED

    async def run(self) -> None:
        try:
            await self.manager.run()
        except ControllerError as error:
            self.failure = error
        finally:
            self._ended.set()

    def has_ended(self) -> bool:
        """Return whether the manager has returned or raised."""
        return self._ended.is_set()


@asynccontextmanager
async def run_harness(harness: ManagerHarness) -> AsyncIterator[None]:
    """Run the manager, and cancel it at the end of the context."""
    async with anyio.create_task_group() as group:
        group.start_soon(harness.run)
        await harness.clock.advance(0)
        yield
        group.cancel_scope.cancel()


async def test_an_event_makes_the_controller_reconcile_its_key() -> None:
    harness = ManagerHarness()
    harness.put_widget("there-before")
    async with run_harness(harness):
        assert harness.steps == ["begin there-before", "end there-before"]
        harness.put_widget("new")
        await harness.clock.advance(0)
        assert harness.steps[2:] == ["begin new", "end new"]


async def test_own_writes_are_in_the_cache_before_the_watch_delivers_them() -> None:
    harness = ManagerHarness()
    harness.put_widget("a")
    async with run_harness(harness):
        harness.transport.watches_stalled = True
        cached = harness.widgets.cache.get(Key("default", "a"))
        assert cached is not None
        patched = await harness.manager.client.patch(
            WIDGETS, Version.from_object(cached), {"spec": {"color": "blue"}}
        )
        assert harness.widgets.cache.get(Key("default", "a")) is patched
        assert patched.spec.color == "blue"
        await harness.clock.advance(0)
        before = len(harness.steps)
        harness.transport.watches_stalled = False
        harness.put_widget("b")
        await harness.clock.advance(0)
        assert harness.widgets.cache.get(Key("default", "a")) == patched
        assert harness.steps[before:] == ["begin b", "end b"]


async def test_a_kind_that_cannot_be_listed_stops_only_the_controllers_that_need_it() -> None:
    harness = ManagerHarness()
    gadgets = harness.manager.get_informer(GADGETS)
    reconciled_gadgets: list[Key] = []

    async def reconcile(key: Key) -> Outcome:
        reconciled_gadgets.append(key)
        return SETTLED

    harness.manager.add_controller("gadget", reconcile, watches=[Watch(gadgets, to_self)])
    harness.transport.errors_by_plural["gadgets"] = Forbidden(
        403, "Forbidden", "gadgets is forbidden"
    )
    harness.put_widget("a")
    harness.put_widget("g", "gadgets")
    async with run_harness(harness):
        await harness.clock.advance(60)
        assert harness.steps == ["begin a", "end a"]
        assert reconciled_gadgets == []
        harness.transport.errors_by_plural.clear()
        await harness.clock.advance(61)
        assert reconciled_gadgets == [Key("default", "g")]


async def test_a_controller_that_still_waits_for_its_kind_does_not_delay_the_stop() -> None:
    harness = ManagerHarness()
    harness.transport.errors_by_method["LIST"] = Forbidden(403)
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(0)
        assert harness.has_ended()
        assert harness.failure is None


async def test_a_stopped_manager_finishes_the_running_key_and_takes_no_other() -> None:
    harness = ManagerHarness()
    harness.reconcile_seconds = 10
    for name in ("a", "b"):
        harness.put_widget(name)
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(9)
        assert not harness.has_ended()
        await harness.clock.advance(1)
        assert harness.has_ended()
    assert harness.steps == ["begin a", "end a"]


async def test_work_that_does_not_end_within_the_grace_period_is_cancelled() -> None:
    harness = ManagerHarness(ManagerOptions(grace_seconds=5))
    harness.reconcile_seconds = 1000
    harness.put_widget("a")
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(5)
        assert harness.has_ended()
    assert harness.steps == ["begin a"]
    assert harness.failure is None


async def test_a_standby_keeps_its_caches_current_and_reconciles_nothing() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    harness.put_widget("a")
    harness.store.put(LEASE_PATH, build_lease("other"))
    async with run_harness(harness):
        await harness.clock.advance(10)
        assert len(harness.widgets.cache) == 1
        assert harness.steps == []
        harness.store.put(LEASE_PATH, build_lease(""))
        await harness.clock.advance(5)
        assert harness.steps == ["begin a", "end a"]


def build_lease(holder: str) -> dict[str, object]:
    """Return a Lease of a holder; an empty holder means that it was released."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    return {"metadata": {"name": "leader", "namespace": "system"}, "spec": spec}


async def test_a_standby_can_be_stopped_while_it_waits() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    harness.store.put(LEASE_PATH, build_lease("other"))
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(0)
        assert harness.has_ended()
    assert harness.store.objects[LEASE_PATH]["spec"]["holderIdentity"] == "other"


async def test_the_lease_is_held_until_the_last_work_has_ended_and_then_released() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    harness.reconcile_seconds = 20
    harness.put_widget("a")
    async with run_harness(harness):
        harness.manager.stop()
        await harness.clock.advance(19)
        assert harness.store.objects[LEASE_PATH]["spec"]["holderIdentity"] == "a"
        await harness.clock.advance(1)
        assert harness.has_ended()
    assert harness.steps == ["begin a", "end a"]
    assert harness.store.objects[LEASE_PATH]["spec"]["holderIdentity"] == ""


async def test_a_cancelled_manager_releases_its_lease() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    async with run_harness(harness):
        assert harness.store.objects[LEASE_PATH]["spec"]["holderIdentity"] == "a"
    assert harness.store.objects[LEASE_PATH]["spec"]["holderIdentity"] == ""


async def test_a_metric_says_whether_the_manager_leads() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    registry = harness.manager.metrics.registry

    def read_leader_metric() -> float | None:
        name = "leader_election_master_status"
        return registry.get_sample_value(name, {"name": "leader"})

    harness.store.put(LEASE_PATH, build_lease("other"))
    async with run_harness(harness):
        assert read_leader_metric() == 0
        harness.store.put(LEASE_PATH, build_lease(""))
        await harness.clock.advance(5)
        assert read_leader_metric() == 1
    assert read_leader_metric() == 0


async def test_a_metric_counts_the_failed_attempts_at_the_lease() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    registry = harness.manager.metrics.registry

    def read_failure_metric() -> float | None:
        name = "leader_election_failed_attempts_total"
        return registry.get_sample_value(name, {"name": "leader"})

    harness.transport.errors_by_method = {"GET": Forbidden(403, "Forbidden", "no role")}
    async with run_harness(harness):
        assert read_failure_metric() == 1
        await harness.clock.advance(10)
        assert (failure_count := read_failure_metric() or 0) > 5
        harness.transport.errors_by_method = {}
        await harness.clock.advance(60)
        assert read_failure_metric() == failure_count


async def test_losing_the_lease_cancels_reconcilers_and_ends_the_manager_with_an_error() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    harness.reconcile_seconds = 1000
    harness.put_widget("a")
    async with run_harness(harness):
        harness.transport.hangs = True
        await harness.clock.advance(9.9)  # the deadline is 10 s after the last renewal
        assert not harness.has_ended()
        await harness.clock.advance(0.1)
        assert harness.has_ended()
    assert isinstance(harness.failure, LeaderLost)
    assert harness.steps == ["begin a"]
    assert harness.store.objects[LEASE_PATH]["spec"]["holderIdentity"] == "a"


@pytest.mark.survives_bugs
async def test_services_of_every_replica_and_of_the_leader_are_restarted_when_they_raise() -> None:
    harness = ManagerHarness(WITH_ELECTION)
    starts: list[tuple[str, float]] = []

    def create_failing_service(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            starts.append((name, harness.clock.monotonic()))
            raise ZeroDivisionError(name)

        return run

    harness.manager.add_service(
        "everywhere", create_failing_service("everywhere"), leader_only=False
    )
    harness.manager.add_service("leader", create_failing_service("leader"))
    harness.store.put(LEASE_PATH, build_lease("other"))
    async with run_harness(harness):
        await harness.clock.advance(7)
        assert starts == [
            ("everywhere", 0),
            ("everywhere", 1),
            ("everywhere", 3),
            ("everywhere", 7),
        ]
        harness.store.put(LEASE_PATH, build_lease(""))
        await harness.clock.advance(7)
        assert "leader" in {name for name, _ in starts}
    assert harness.failure is None


@pytest.mark.survives_bugs
async def test_a_service_that_ran_for_long_is_restarted_after_the_first_delay() -> None:
    harness = ManagerHarness()
    start_times: list[float] = []

    async def run() -> None:
        start_times.append(harness.clock.monotonic())
        await harness.clock.sleep(1000 if len(start_times) == 3 else 0)
        raise ZeroDivisionError

    harness.manager.add_service("job", run)
    async with run_harness(harness):
        await harness.clock.advance(1005)
    assert start_times == [0, 1, 3, 1004]


@pytest.mark.slow
async def test_nothing_is_left_behind_after_many_starts_and_stops() -> None:
    def count_tasks() -> int:
        return len(anyio.get_running_tasks())

    before = count_tasks()
    for _ in range(100):
        harness = ManagerHarness(WITH_ELECTION)
        harness.put_widget("a")
        async with run_harness(harness):
            harness.manager.stop()
            await harness.clock.advance(1)
        assert harness.has_ended()
        assert harness.failure is None
        assert harness.clock.waiting == 0
        assert harness.widgets.cache._subscribers == []
    await settle()
    assert count_tasks() == before


async def test_adding_an_informer_to_a_running_manager_is_refused() -> None:
    harness = ManagerHarness()
    async with run_harness(harness):
        with pytest.raises(RuntimeError, match="runs already"):
            harness.manager.get_informer(GADGETS)


@pytest.mark.parametrize("name", ["widget", "idle"])
def test_a_controller_with_a_used_name_or_without_watches_is_refused(name: str) -> None:
    harness = ManagerHarness()
    with pytest.raises(ValueError, match=name):
        harness.manager.add_controller(
            name,
            harness.reconcile,
            watches=[Watch(harness.widgets, to_self)] if name == "widget" else [],
        )
