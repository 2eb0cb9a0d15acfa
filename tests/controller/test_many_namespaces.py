"""The cost of a change in a set of namespaces does not depend on the number of namespaces."""

from collections.abc import Mapping
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from typing_extensions import override

from controller.manager import Manager
from controller.meta import Key
from controller.namespaces import NamespaceSet
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.transport import NO_QUERY
from controller.triggers import Watch, to_self
from tests.calls import calls_of
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.test_namespaces import NamespacesHarness
from tests.controller.widgets import WIDGETS


class GatedLists(StoreTransport):
    """Answers the list of a namespace once the test has set its gate."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.gates: dict[str, anyio.Event] = {}

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **options: Any
    ) -> bytes:
        if query and method == "GET":
            await self.gates[path.split("/")[-2]].wait()
        return await super().request(method, path, query=query, **options)


async def count_calls_for_each_list(count: int) -> float:
    """Return the number of function calls per namespace when `count` namespaces are listed."""
    transport = GatedLists(Store())
    names = [f"team-{number:04}" for number in range(count)]
    transport.gates = {name: anyio.Event() for name in names}
    options = ManagerOptions(stream_lists=False)
    manager = Manager(transport, clock=VirtualClock(), options=options)
    widgets = manager.get_informer(WIDGETS, namespaces=NamespaceSet(names))

    async def reconcile(_: Key) -> Outcome:
        return SETTLED

    manager.add_controller("widget", reconcile, watches=[Watch(widgets, to_self)])

    async def list_one_by_one() -> None:
        for name in names:
            transport.gates[name].set()
            while widgets.find_listed(name) is None:
                await checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await anyio.wait_all_tasks_blocked()
        calls = await calls_of(list_one_by_one)
        await widgets.wait_synced()
        manager.stop()
    return calls / count


async def test_the_list_of_a_namespace_costs_the_same_among_few_and_among_many() -> None:
    few, many = await count_calls_for_each_list(20), await count_calls_for_each_list(200)
    assert many < 1.5 * few


async def test_the_history_of_a_namespace_set_is_confirmed_only_if_that_of_each_namespace_is() -> (
    None
):
    harness = NamespacesHarness()
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        before = harness.widgets.cache.is_history_confirmed
        listed = harness.widgets.find_listed("b")
        assert listed is not None
        listed.cache.is_history_confirmed = False
        assert (before, harness.widgets.cache.is_history_confirmed) == (True, False)
        harness.manager.stop()
