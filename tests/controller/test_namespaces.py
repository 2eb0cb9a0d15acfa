"""Informers over a set of namespaces that changes, and in which some cannot be listed."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from controller.cache import Change
from controller.errors import ControllerError, Forbidden, ServerFailure
from controller.health import Failing
from controller.leases import LEASES
from controller.manager import Manager
from controller.meta import Key, Version
from controller.namespaces import NamespaceSet
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.resource import Resource
from controller.testing import FakeApi
from controller.transport import NO_QUERY
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", Widget, namespaced=False)
GADGETS = Resource("example.com", "v1", "Gadget", "gadgets", Widget)
FORBIDDEN = Forbidden(403, "Forbidden", "widgets is forbidden in the namespace")


class NamespaceRefusingTransport(StoreTransport):
    """Fails lists in `refused_namespaces` and of paths that contain one of `refused_paths`."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.refused_namespaces: dict[str, ControllerError] = {}
        self.refused_paths: tuple[str, ...] = ()

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **options: Any
    ) -> bytes:
        for namespace, error in self.refused_namespaces.items():
            if query and f"/namespaces/{namespace}/" in path:
                raise error
        if query and any(refused in path for refused in self.refused_paths):
            raise FORBIDDEN
        return await super().request(method, path, query=query, **options)


class NamespacesHarness:
    """A manager with one controller for the widgets of the namespaces a and b.

    Args:
        refused: the errors with which lists fail, by namespace.
    """

    def __init__(self, **refused: ControllerError) -> None:
        self.clock, self.store = VirtualClock(), Store()
        self.transport = NamespaceRefusingTransport(self.store)
        self.transport.refused_namespaces = refused
        self.manager = Manager(self.transport, clock=self.clock)
        self.namespaces = NamespaceSet(["a", "b"])
        self.widgets = self.manager.get_informer(
            WIDGETS,
            namespaces=self.namespaces,
            indexes={"name": lambda widget: [widget.metadata.name]},
        )
        self.reconciled: list[str] = []
        self.manager.add_controller(
            "widget", self.reconcile, watches=[Watch(self.widgets, to_self)]
        )

    async def reconcile(self, key: Key) -> Outcome:
        self.reconciled.append(str(key))
        return SETTLED

    def put(self, namespace: str, name: str, plural: str = "widgets") -> None:
        path = f"/apis/example.com/v1/namespaces/{namespace}/{plural}/{name}"
        self.store.put(path, {"metadata": {"name": name, "namespace": namespace}})

    def find_failure(self) -> Failing | None:
        return self.widgets.create_check().run()

    def count_unlisted(self) -> float | None:
        return self.manager.metrics.registry.get_sample_value(
            "controller_informers_not_listed", {"resource": "widgets.example.com"}
        )


@pytest.mark.parametrize("error", [FORBIDDEN, ServerFailure(500, "InternalError", "no")])
async def test_a_namespace_that_cannot_be_listed_does_not_delay_the_others(
    error: ControllerError,
) -> None:
    harness = NamespacesHarness(b=error)
    harness.put("a", "one")
    harness.put("b", "two")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(10)
        assert harness.reconciled == ["a/one"]
        assert harness.count_unlisted() == 1
        assert harness.widgets.failures.keys() == {"b"}
        (line,) = [line for line in lines if "A namespace cannot be listed" in line["event"]]
        assert (line["resource"], line["unserved"]) == ("widgets.example.com", "b")
        assert str(error) in line["error"]
        harness.put("a", "three")
        await harness.clock.advance(1)
        assert harness.reconciled == ["a/one", "a/three"]
        harness.transport.refused_namespaces.clear()
        await harness.clock.advance(120)
        assert harness.reconciled == ["a/one", "a/three", "b/two"]
        assert harness.count_unlisted() == 0
        harness.put("b", "four")
        await harness.clock.advance(1)
        assert harness.reconciled[-1] == "b/four"
        harness.manager.stop()


async def test_keys_of_a_namespace_are_reconciled_once_all_watched_kinds_are_listed_in_it() -> (
    None
):
    harness = NamespacesHarness()
    gadgets = harness.manager.get_informer(GADGETS, namespaces=harness.namespaces)
    passes: list[tuple[str, int]] = []

    async def reconcile(key: Key) -> Outcome:
        of_namespace = [obj for obj in gadgets.cache if obj.metadata.namespace == key.namespace]
        passes.append((str(key), len(of_namespace)))
        return SETTLED

    watches: list[Watch[Any]] = [Watch(harness.widgets, to_self), Watch(gadgets, to_self)]
    harness.manager.add_controller("gadget", reconcile, watches=watches)
    harness.transport.refused_paths = ("/namespaces/b/gadgets",)
    for namespace in "ab":
        harness.put(namespace, "one")
        harness.put(namespace, "one", plural="gadgets")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(10)
        assert passes == [("a/one", 1)], (
            "the gadgets of b are not listed, so no key of b is reconciled"
        )
        [line] = [line for line in lines if "A namespace cannot be listed" in line["event"]]
        assert line["resource"] == "gadgets.example.com"
        harness.transport.refused_paths = ()
        await harness.clock.advance(120)
        assert set(passes) == {("a/one", 1), ("b/one", 1)}
        harness.manager.stop()


async def test_a_controller_does_not_start_while_none_of_its_namespaces_can_be_listed() -> None:
    harness = NamespacesHarness(a=FORBIDDEN, b=FORBIDDEN)
    harness.put("b", "two")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(10)
        assert "Starting workers" not in [line["event"] for line in lines]
        del harness.transport.refused_namespaces["b"]
        await harness.clock.advance(120)
        assert harness.reconciled == ["b/two"]
        harness.manager.stop()


async def test_a_manager_can_be_stopped_while_a_namespace_cannot_be_listed() -> None:
    harness = NamespacesHarness(b=FORBIDDEN)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(harness.manager.run)
            await harness.clock.advance(10)
            harness.manager.stop()


async def test_namespaces_that_can_be_listed_are_all_listed_before_the_first_pass() -> None:
    harness = NamespacesHarness()
    harness.put("a", "one")
    harness.put("b", "two")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(1)
        assert sorted(harness.reconciled) == ["a/one", "b/two"]
        assert "error" not in [line["log_level"] for line in lines]
        harness.manager.stop()


async def test_unreadable_objects_are_counted_by_kind() -> None:
    harness = NamespacesHarness()
    path = "/apis/example.com/v1/namespaces/a/widgets/odd"
    body: dict[str, Any] = {"metadata": {"name": "odd", "namespace": "a"}}
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        harness.store.put(path, {**body, "spec": {"size": "no number"}})
        await harness.clock.advance(1)

        def count_unreadable() -> float | None:
            return harness.manager.metrics.registry.get_sample_value(
                "controller_cache_unreadable_objects", {"resource": "widgets.example.com"}
            )

        assert count_unreadable() == 1
        harness.store.put(path, {**body, "spec": {"size": 3}})
        await harness.clock.advance(1)
        assert count_unreadable() == 0
        harness.manager.stop()


async def test_namespaces_are_added_and_removed_while_the_manager_runs() -> None:
    harness = NamespacesHarness()
    deleted: list[str] = []

    def note_deletion(change: Change[Widget]) -> None:
        if change.new is None and change.old is not None:
            assert change.final_state_unknown, "the object may exist, and is not watched any more"
            deleted.append(str(change.old.metadata.key))

    harness.widgets.add_handler(note_deletion)
    for namespace in "abc":
        harness.put(namespace, "one")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        assert sorted(harness.reconciled) == ["a/one", "b/one"]
        harness.namespaces.add("c")
        await harness.clock.advance(1)
        assert harness.reconciled[2:] == ["c/one"]
        assert [
            str(widget.metadata.key)
            for widget in harness.widgets.cache.list_by_index("name", "one")
        ] == [
            "a/one",
            "b/one",
            "c/one",
        ]
        harness.namespaces.remove("a")
        await harness.clock.advance(1)
        assert harness.reconciled[3:] == ["a/one"], "the pass finds no object in the cache"
        assert deleted == ["a/one"]
        assert harness.widgets.cache.get(Key("a", "one")) is None
        assert Key("a", "one") not in harness.widgets.cache
        assert len(harness.widgets.cache) == 2
        harness.put("a", "two")
        await harness.clock.advance(1)
        assert harness.reconciled[4:] == [], "the namespace is not watched any more"
        harness.namespaces.add("a")
        await harness.clock.advance(1)
        assert sorted(harness.reconciled[4:]) == ["a/one", "a/two"]
        harness.put("a", "three")
        await harness.clock.advance(1)
        assert harness.reconciled[-1] == "a/three"
        assert harness.count_unlisted() == 0
        harness.manager.stop()


async def test_a_namespace_that_is_removed_and_added_at_once_is_listed_again() -> None:
    harness = NamespacesHarness()
    harness.put("a", "one")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        harness.namespaces.remove("a")
        await anyio.lowlevel.checkpoint()
        harness.namespaces.add("a")
        await harness.clock.advance(1)
        assert harness.widgets.cache.get(Key("a", "one")) is not None
        harness.put("a", "two")
        await harness.clock.advance(1)
        assert harness.reconciled[-1] == "a/two"
        harness.manager.stop()


async def test_a_process_that_may_not_list_in_a_single_namespace_is_ready() -> None:
    harness = NamespacesHarness(b=FORBIDDEN)
    assert harness.find_failure() == Failing(
        "widgets.example.com not listed yet", "in namespace a"
    )
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(10)
        assert harness.find_failure() is None
        assert str(FORBIDDEN) in str(harness.widgets.failures["b"])
        harness.manager.stop()


async def test_a_process_whose_namespaces_are_all_refused_is_not_ready_and_names_them() -> None:
    harness = NamespacesHarness(a=FORBIDDEN, b=FORBIDDEN)
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(10)
        failing = harness.find_failure()
        assert failing is not None
        assert failing.problem == "cannot list widgets.example.com in any namespace"
        assert "in namespace a:" in failing.why
        assert "in namespace b:" in failing.why
        harness.namespaces.replace([])
        await harness.clock.advance(1)
        assert harness.find_failure() is None, "nothing is to be listed"
        harness.manager.stop()


async def test_a_namespace_with_another_failure_than_forbidden_makes_the_process_unready() -> None:
    harness = NamespacesHarness(b=ServerFailure(500, "InternalError", "etcd is away"))
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(10)
        failing = harness.find_failure()
        assert failing is not None
        assert (failing.problem, failing.why.partition(":")[0]) == (
            "cannot list widgets.example.com",
            "in namespace b",
        )
        harness.manager.stop()


async def test_an_empty_set_is_ready_and_can_get_namespaces_later() -> None:
    harness = NamespacesHarness()
    harness.namespaces.replace([])
    harness.put("a", "one")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        assert harness.find_failure() is None
        harness.namespaces.replace(["a"])
        assert harness.find_failure() is not None, "the first namespaces are waited for"
        await harness.clock.advance(1)
        assert (harness.find_failure(), harness.reconciled) == (None, ["a/one"])
        harness.namespaces.add("b")
        assert harness.find_failure() is None, (
            "a namespace that is added later does not make the process unready"
        )
        harness.manager.stop()


async def test_the_set_follows_an_informer_of_namespaces() -> None:
    harness = NamespacesHarness()
    harness.namespaces.replace([])
    harness.namespaces.follow(harness.manager.get_informer(NAMESPACES))
    harness.put("a", "one")
    path = "/api/v1/namespaces/a"
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        harness.store.put(path, {"metadata": {"name": "a"}})
        await harness.clock.advance(1)
        assert harness.reconciled == ["a/one"]
        harness.store.remove(path)
        await harness.clock.advance(1)
        assert list(harness.namespaces) == []
        assert harness.reconciled == ["a/one", "a/one"]
        harness.manager.stop()
    with pytest.raises(ValueError, match=r"informer of namespaces, not of widgets\.example\.com"):
        harness.namespaces.follow(Manager(harness.transport).get_informer(WIDGETS))


async def test_shards_get_the_keys_of_namespaces_that_are_added() -> None:
    clock, reconciled = VirtualClock(), list[str]()
    api = FakeApi(clock)
    api.serve(WIDGETS)
    api.serve(LEASES)
    api.put_object(WIDGETS, {"metadata": {"name": "one", "namespace": "c"}})
    options = ManagerOptions(shards=2, lease_name="w", lease_namespace="home", leader_elect=True)
    manager = Manager(api, clock=clock, options=options)
    namespaces = NamespaceSet()
    widgets = manager.get_informer(WIDGETS, namespaces=namespaces)

    async def reconcile(key: Key) -> Outcome:
        reconciled.append(str(key))
        return SETTLED

    manager.add_controller("widget", reconcile, watches=[Watch(widgets, to_self)])
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await clock.advance(60)
        namespaces.add("c")
        await clock.advance(1)
        assert reconciled == ["c/one"]
        namespaces.remove("c")
        await clock.advance(1)
        assert reconciled == ["c/one", "c/one"]
        manager.stop()


async def test_own_writes_are_shown_at_once_in_the_cache_of_all_namespaces() -> None:
    harness = NamespacesHarness()
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        created = await harness.manager.client.create(WIDGETS, "a", {"metadata": {"name": "own"}})
        assert harness.widgets.cache.get(Key("a", "own")) == created
        harness.widgets.mark_deleted(Version.from_object(created))
        assert harness.widgets.cache.get(Key("a", "own")) is None
        harness.manager.stop()


@pytest.mark.survives_bugs
async def test_a_handler_that_raises_gets_the_deletions_of_a_namespace_again() -> None:
    harness = NamespacesHarness()
    harness.put("a", "one")
    deleted: list[str] = []
    failures = 1

    def note_deletion(change: Change[Widget]) -> None:
        nonlocal failures
        if change.new is None and change.old is not None:
            failures -= 1
            if failures >= 0:
                raise LookupError("not yet")
            deleted.append(str(change.old.metadata.key))

    harness.widgets.add_handler(note_deletion)
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        harness.namespaces.remove("a")
        await harness.clock.advance(1)
        assert deleted == []
        await harness.clock.advance(60)
        assert deleted == ["a/one"]
        harness.manager.stop()


def test_a_set_refuses_a_value_that_is_no_namespace_and_names_it() -> None:
    with pytest.raises(TypeError, match=r"write NamespaceSet\(\['blue'\]\)"):
        NamespaceSet("blue")
    with pytest.raises(TypeError, match="names of namespaces, not Key"):
        NamespaceSet().add(Key("", "blue"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a namespace has a name"):
        NamespaceSet([""])


def test_a_kind_that_cannot_be_watched_in_a_set_is_refused_and_named() -> None:
    manager = NamespacesHarness().manager
    with pytest.raises(TypeError, match="namespaces must be a NamespaceSet, not"):
        manager.get_informer(WIDGETS, namespaces=["a"])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="namespaces are cluster-scoped"):
        manager.get_informer(NAMESPACES, namespaces=NamespaceSet(["a"]))
    with pytest.raises(ValueError, match="pass one of them"):
        manager.get_informer(WIDGETS, namespace="a", namespaces=NamespaceSet())  # type: ignore[call-overload]

    async def index_async(_: Widget) -> list[str]:
        return []

    with pytest.raises(TypeError, match="the function of index 'odd'"):
        manager.get_informer(GADGETS, namespaces=NamespaceSet(), indexes={"odd": index_async})  # type: ignore[dict-item]
    with pytest.raises(KeyError):
        NamespacesHarness().widgets.cache.list_by_index("other", "a")
