"""Informers and controllers that come and go while their manager runs."""

import anyio

from controller.client import Client
from controller.manager import Manager
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from controller.testing import FakeApi
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.widgets import WIDGETS


def gauges(manager: Manager) -> dict[str, float]:
    """Return the gauges about widgets and their queue, the depths of all priorities added up."""
    found: dict[str, float] = {}
    for family in manager.metrics.registry.collect():
        for one in family.samples:
            about = {one.labels.get("resource"), one.labels.get("controller")}
            if family.type == "gauge" and about & {"widgets.example.com", "widgets"}:
                found[one.name] = found.get(one.name, 0) + one.value
    return found


async def test_the_gauges_of_an_extension_end_with_it() -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    api.serve(WIDGETS)
    manager = Manager(api, clock=clock)

    async def hang(_key: Key) -> Outcome:
        await anyio.sleep_forever()
        return SETTLED

    for _ in range(2):  # it is made anew when its kinds are served again
        extension = manager.extension()
        watches = [Watch(extension.informer(WIDGETS), to_self)]
        extension.controller("widgets", hang, watches=watches)
        async with anyio.create_task_group() as group:
            group.start_soon(extension.run)
            for _ in range(2):
                body = {"metadata": {"generateName": "w-"}}
                await Client(api).create(WIDGETS, "default", body)
            await clock.advance(7)
            before = gauges(manager)
            group.cancel_scope.cancel()
        assert before["controller_cache_objects"] > 0
        assert before["controller_watch_last_event_age_seconds"] == 7
        assert before["workqueue_depth"] > 0
        assert set(gauges(manager)) == {
            "controller_runtime_active_workers",
            "controller_runtime_max_concurrent_reconciles",
        }
