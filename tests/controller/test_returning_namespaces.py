"""Namespaces that are removed from a set and added again."""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from controller.cache import Change
from controller.manager import Manager
from controller.meta import Key
from controller.namespaces import NamespaceSet
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.redelivery import REDELIVER_SECONDS
from controller.transport import NO_QUERY
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.test_namespaces import GADGETS, NamespacesHarness
from tests.controller.widgets import WIDGETS, Widget


class StaleListTransport(StoreTransport):
    """Answers lists at resourceVersion 0 with the state at the last `freeze`."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.old: dict[str, Any] | None = None

    def freeze(self, path: str) -> None:
        """Keep the present list of a collection as the answer to later lists at 0."""
        self.old = self._list(path)

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **options: Any
    ) -> bytes:
        if self.old is not None and method == "GET" and query.get("resourceVersion") == "0":
            return msgspec.json.encode(self.old)
        return await super().request(method, path, query=query, **options)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_namespace_that_is_added_again_shows_own_writes_though_lists_are_stale(
    streams: bool,
) -> None:
    clock, store = VirtualClock(), Store()
    transport = StaleListTransport(store)
    manager = Manager(transport, clock=clock, options=ManagerOptions(stream_lists=streams))
    namespaces = NamespaceSet(["a"])
    widgets = manager.get_informer(WIDGETS, namespaces=namespaces)
    path = "/apis/example.com/v1/namespaces/a/widgets"
    store.put(f"{path}/one", {"metadata": {"name": "one", "namespace": "a"}})
    seen: list[Any] = []

    async def reconcile(key: Key) -> Outcome:
        obj = widgets.cache.get(key)
        seen.append((str(key), None if obj is None else obj.metadata.revision))
        return SETTLED

    manager.add_controller("widget", reconcile, watches=[Watch(widgets, to_self)])
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await clock.advance(1)
        transport.freeze(path)
        await manager.client.create(WIDGETS, "a", {"metadata": {"name": "two", "namespace": "a"}})
        await clock.advance(1)
        assert widgets.cache.get(Key("a", "two")) is not None
        namespaces.remove("a")
        await clock.advance(1)
        transport.watches_stalled = True
        namespaces.add("a")
        await clock.advance(1)
        assert widgets.cache.get(Key("a", "two")) is not None
        manager.stop()


async def test_a_namespace_added_while_an_informer_removes_it_is_watched_by_all() -> None:
    harness = NamespacesHarness()
    gadgets = harness.manager.get_informer(GADGETS, namespaces=harness.namespaces)
    seen: list[str] = []

    async def reconcile(key: Key) -> Outcome:
        seen.append(str(key))
        return SETTLED

    watches: list[Watch[Any]] = [Watch(harness.widgets, to_self), Watch(gadgets, to_self)]
    harness.manager.add_controller("gadget", reconcile, watches=watches)
    for namespace in "ab":
        harness.put(namespace, "one")
        harness.put(namespace, "one", plural="gadgets")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(10)
        # A third task adds the namespace between the turns of the two informers.
        harness.namespaces.remove("a")
        member = harness.widgets._members["a"]

        scope = _ScopeThatAddsNamespace(member.watch_scope, harness.namespaces)
        object.__setattr__(member, "watch_scope", scope)
        await harness.clock.advance(10)
        assert list(harness.namespaces) == ["a", "b"]
        seen.clear()
        harness.put("a", "later")
        await harness.clock.advance(1)
        assert seen == ["a/later"]
        harness.manager.stop()


class _ScopeThatAddsNamespace:
    """A cancel scope that adds the namespace `a` to the set as soon as it is cancelled."""

    def __init__(self, scope: Any, namespaces: NamespaceSet) -> None:
        self.scope, self.namespaces = scope, namespaces

    @property
    def cancel_called(self) -> bool:
        return bool(self.scope.cancel_called)

    def cancel(self) -> None:
        self.scope.cancel()
        self.namespaces.add("a")


@pytest.mark.survives_bugs
async def test_a_deletion_for_which_a_handler_raised_is_delivered_again() -> None:
    harness = NamespacesHarness()
    harness.put("a", "one")
    deleted: list[str] = []
    has_raised = False

    def raise_once(change: Change[Widget]) -> None:
        nonlocal has_raised
        if change.new is None and change.old is not None:
            if not has_raised:
                has_raised = True
                raise LookupError("not yet")
            deleted.append(str(change.old.metadata.key))

    harness.widgets.add_handler(raise_once)
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        harness.namespaces.remove("a")
        await harness.clock.advance(1)
        harness.store.remove("/apis/example.com/v1/namespaces/a/widgets/one")
        harness.namespaces.add("a")
        await harness.clock.advance(1)
        await harness.clock.advance(REDELIVER_SECONDS)
        assert deleted == ["a/one"]
        harness.manager.stop()


@pytest.mark.survives_bugs
async def test_a_handler_that_always_raises_does_not_keep_a_namespace_that_has_left() -> None:
    harness = NamespacesHarness()
    harness.put("a", "one")

    def fail_at_deletions(change: Change[Widget]) -> None:
        if change.new is None:
            raise LookupError("not today")

    harness.widgets.add_handler(fail_at_deletions)
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        harness.namespaces.remove("a")
        with capture_logs() as lines:
            await harness.clock.advance(600)
        assert "a" not in harness.widgets._members
        missed = [entry for entry in lines if entry["event"] == "event handlers missed deletions"]
        assert [entry["deliveries"] for entry in missed] == [1]
        harness.namespaces.add("a")
        await harness.clock.advance(1)
        assert harness.widgets.find_listed("a") is not None
        harness.manager.stop()
