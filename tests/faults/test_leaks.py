"""Controllers leave no resources behind; watches and requests share a connection pool."""

import asyncio
import gc
import os

import aiohttp
import anyio
import pytest

from controller import SETTLED, Client, Key, NoAnswer, Outcome, Version, Watch, to_self
from controller.cache import Cache
from controller.codec import Added, Deleted, Modified
from controller.informer import Informer
from controller.metrics import Metrics
from controller.queueorder import KeyBackoff
from controller.runner import Controller
from controller.workqueue import WorkQueue
from envtest.faults import End, StopAfter
from tests.clock import VirtualClock
from tests.controller.scripted import ScriptedTransport
from tests.controller.widgets import WIDGETS, Widget, build_widget
from tests.envtest.samples import build_gauge
from tests.faults.proxied import GAUGES, WATCH, Gauge, open_transport, run_proxied_plane
from tests.polling import make_awaitable, until

CYCLES = 100
"""How often a controller is started and stopped."""
CHURN = 20_000
"""The number of changes of objects in a cache."""
INFORMERS, CUTS = 10, 40
"""How many informers there are, and how often the watch of each is cut."""
WATCHES, REQUESTS = 150, 20
"""How many are open and sent at the same time."""


def count_sessions() -> int:
    """Return how many HTTP sessions are open in this process."""
    return sum(
        isinstance(obj, aiohttp.ClientSession) and not obj.closed for obj in gc.get_objects()
    )


def count_files() -> int:
    """Return how many files and sockets are open in this process."""
    return len(os.listdir("/proc/self/fd"))


class RepeatedController:
    """Starts and stops a controller on a shared informer, any number of times."""

    def __init__(self, informer: Informer[Widget], clock: VirtualClock, metrics: Metrics) -> None:
        self.informer = informer
        self.clock = clock
        self.metrics = metrics
        self.backoff = KeyBackoff[Key]()
        self.pass_count = 0

    async def reconcile(self, key: Key) -> Outcome:
        """Fail once for each key, so that the back-off has entries, then succeed."""
        self.pass_count += 1
        if self.backoff.count_failures(key) == 0:
            raise NoAnswer("the first time")
        return SETTLED

    async def run_once(self) -> None:
        """Start a controller, let it reconcile each object, and stop it."""
        observer = self.metrics.create_queue_metrics("cycled")
        queue = WorkQueue[Key](self.clock, observer=observer, backoff=self.backoff)
        observer.set_gauge_functions(queue.get_statistics)
        controller = Controller(
            "cycled",
            self.reconcile,
            queue=queue,
            metrics=self.metrics.create_reconcile_metrics("cycled", 1),
        )
        registration = Watch(self.informer, to_self).connect(queue)
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run)
            await self.clock.advance(0.01)
            controller.stop()
        registration.close()


def count_series(metrics: Metrics) -> int:
    """Return the number of series of all metrics."""
    return sum(len(family.samples) for family in metrics.registry.collect())


@pytest.mark.slow
async def test_controllers_that_come_and_go_leave_nothing_on_what_they_shared() -> None:
    clock, metrics = VirtualClock(), Metrics()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    informer.cache.replace([build_widget("a", 1), build_widget("b", 2)], 5)
    counted = RepeatedController(informer, clock, metrics)
    await counted.run_once()
    before = (len(asyncio.all_tasks()), count_files(), count_series(metrics), clock.waiting)
    handlers = len(informer.cache._subscribers)
    for _ in range(CYCLES):
        await counted.run_once()
    assert counted.pass_count == 4 * (CYCLES + 1)
    assert len(counted.backoff) == 0
    assert len(informer.cache._subscribers) == handlers == 0
    assert (
        len(asyncio.all_tasks()),
        count_files(),
        count_series(metrics),
        clock.waiting,
    ) == before


@pytest.mark.slow
def test_objects_that_come_and_go_leave_no_index_keys_and_nothing_else() -> None:
    indexes = {
        "color": lambda gauge: (gauge.spec.color,),
        "uid": lambda gauge: (gauge.metadata.uid,),
    }
    cache = Cache(WIDGETS, indexes=indexes)
    cache.replace([], 1)
    revision = 1
    for number in range(CHURN // 4):
        name, color = f"w{number % 100}", f"c{number}"
        cache.apply(Added(build_widget(name, revision + 1, uid=str(number), color=color)))
        cache.apply_own_write(
            build_widget(name, revision + 2, uid=str(number), color=f"{color}-ours")
        )
        cache.apply(
            Modified(build_widget(name, revision + 2, uid=str(number), color=f"{color}-ours"))
        )
        cache.apply(Deleted(build_widget(name, revision + 3, uid=str(number))))
        revision += 3
    assert len(cache) == cache.tombstones == 0
    for index in indexes:
        assert not cache._indexes._keys[index]
    assert cache._delivered == {}
    assert len(cache._own_writes) == 0


async def test_informers_and_clients_that_come_and_go_leave_no_connection() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")

        async def run_informer() -> None:
            async with open_transport(proxied.plane) as transport:
                informer = Informer(GAUGES, transport, proxied.clock)
                async with anyio.create_task_group() as group:
                    group.start_soon(informer.run)
                    await informer.wait_synced()
                    group.cancel_scope.cancel()

        await run_informer()
        before = count_sessions(), len(asyncio.all_tasks())
        for _ in range(5):
            await run_informer()
        # The server ends its tasks for a connection once it has noticed its end.
        for _ in range(1000):
            if len(asyncio.all_tasks()) <= before[1]:
                break
            await anyio.lowlevel.checkpoint()
        assert count_sessions() == before[0]
        assert proxied.clock.waiting == 0


@pytest.mark.slow
async def test_hundreds_of_reconnects_leave_no_connection_no_task_and_no_event_unseen() -> None:
    async with run_proxied_plane() as proxied:
        busy = await proxied.create("busy")
        informers = [Informer(GAUGES, proxied.transport, proxied.clock) for _ in range(INFORMERS)]

        async def change(count: int) -> None:
            """Change the gauge; each informer's watch delivers that and is cut."""
            nonlocal busy
            patch = {"metadata": {"labels": {"changed": str(count)}}}
            busy = await proxied.direct.patch(GAUGES, Version.from_object(busy), patch)
            await until(make_awaitable(list_seen), lambda labels: labels == {str(count)})
            opened = INFORMERS * (count + 1)
            await proxied.proxy.calls.wait(opened, lambda call: call.verb == "watch")

        def list_seen() -> set[str | None]:
            caches = [informer.cache.get(busy.metadata.key) for informer in informers]
            return {gauge.metadata.labels.get("changed") for gauge in caches if gauge is not None}

        def count_resources() -> tuple[int, int, int]:
            """Return the numbers of HTTP sessions, tasks and files."""
            gc.collect()
            return count_sessions(), len(asyncio.all_tasks()), count_files()

        async with anyio.create_task_group() as group:
            with proxied.proxy.inject(StopAfter(1, End.RESET), WATCH):
                for informer in informers:
                    group.start_soon(informer.run)
                for informer in informers:
                    await informer.wait_synced()
                await proxied.proxy.calls.wait(INFORMERS, lambda call: call.verb == "watch")
                for count in range(1, 6):
                    await change(count)
                before = count_resources()
                for count in range(6, CUTS + 1):
                    await change(count)
                # A watch that is just being opened or closed has a few more or fewer of them. If
                # each reconnect left one behind, there would be nine times as many.
                tolerance = 4 * INFORMERS
                await until(
                    make_awaitable(count_resources),
                    lambda now: all(
                        new <= old + tolerance for new, old in zip(now, before, strict=True)
                    ),
                )
            group.cancel_scope.cancel()
        assert len(proxied.list_calls("watch")) >= INFORMERS * CUTS


@pytest.mark.slow
async def test_many_watches_and_many_requests_do_not_starve_each_other() -> None:
    async with run_proxied_plane() as proxied, open_transport(proxied.plane) as transport:
        client = Client(transport)
        informers = [Informer(GAUGES, transport, proxied.clock) for _ in range(WATCHES)]
        names = [f"g{number}" for number in range(REQUESTS)]

        async def create_and_get(name: str) -> None:
            await client.create(GAUGES, "default", build_gauge(name))
            await client.get(GAUGES, Key("default", name))

        async with anyio.create_task_group() as group:
            for informer in informers:
                group.start_soon(informer.run)
            for informer in informers:
                await informer.wait_synced()
            # With all the watches open, on the same transport:
            async with anyio.create_task_group() as requests:
                for name in names:
                    requests.start_soon(create_and_get, name)
            for informer in informers:
                await wait_for_objects(informer, len(names))
            group.cancel_scope.cancel()
        for informer in informers:
            assert {gauge.metadata.name for gauge in informer.cache} == set(names)


async def wait_for_objects(informer: Informer[Gauge], count: int) -> None:
    """Wait until an informer's cache has `count` objects."""
    reached = anyio.Event()

    def check(_: object = None) -> None:
        if len(informer.cache) >= count:
            reached.set()

    registration = informer.add_handler(check)
    check()
    await reached.wait()
    registration.close()
