"""A wrong argument raises an error that names it, at the call or the registration."""

from functools import partial
from typing import Any

import pytest

from controller import (
    SETTLED,
    Check,
    Client,
    ClusterWatch,
    Key,
    Manager,
    NamespaceSet,
    ObjectMeta,
    Outcome,
    Resource,
    Retries,
    Version,
    Watch,
    configure_logs,
    connect,
    run_until_signal,
    to_owner,
    to_self,
)
from controller.testing import FakeApi
from controller.webhooks import Webhook
from tests.clock import VirtualClock
from tests.controller.widgets import WIDGETS, Widget

WIDGET = Widget(ObjectMeta("a", namespace="default"))


@pytest.fixture
def api() -> FakeApi:
    """Return a fake API that serves widgets."""
    api = FakeApi(VirtualClock())
    api.serve(WIDGETS)
    return api


@pytest.fixture
def manager(api: FakeApi) -> Manager:
    """Return a manager of the fake API; it does not run."""
    return Manager(api, clock=VirtualClock())


async def reconcile(_: Key) -> Outcome:
    return SETTLED


async def reconcile_object(key: Key, obj: Widget) -> Outcome:
    return SETTLED


async def reconcile_nothing() -> Outcome:
    return SETTLED


class Reconciler:
    """A class whose method can be a reconciler."""

    async def reconcile(self, key: Key) -> Outcome:
        return SETTLED


def map_pair(first: Any, second: Any) -> list[Key]:
    return []


def map_nothing() -> list[Key]:
    return []


async def test_a_kubeconfig_that_is_text_is_named() -> None:
    mistaken: Any = "/etc/kubeconfig"
    with pytest.raises(
        TypeError, match=r"connect: kubeconfig must be a pathlib\.Path or None, not '/etc"
    ):
        await connect(mistaken)


def test_a_client_or_a_manager_in_place_of_the_transport_is_named(api: FakeApi) -> None:
    mistaken: Any = Client(api)
    with pytest.raises(TypeError, match=r"Manager needs a transport, as `await connect\(\)` .*Cl"):
        Manager(mistaken)
    mistaken = Manager(api)
    with pytest.raises(TypeError, match=r"Client needs a transport, as `await connect\(\)` .*Man"):
        Client(mistaken)


async def test_a_client_in_place_of_the_manager_is_named(api: FakeApi) -> None:
    mistaken: Any = Client(api)
    with pytest.raises(TypeError, match=r"run_until_signal: manager must be a Manager, not"):
        await run_until_signal(mistaken)


def test_options_that_are_a_dictionary_are_named(api: FakeApi) -> None:
    mistaken: Any = {"leader_elect": True}
    with pytest.raises(TypeError, match=r"Manager: options must be a ManagerOptions or None, not"):
        Manager(api, options=mistaken)


def test_retries_that_are_a_number_are_named(manager: Manager) -> None:
    mistaken: Any = 5
    watches = [Watch(manager.get_informer(WIDGETS), to_self)]
    message = r"controller a: retries must be a Retries, such as Retries\(most_tries=5\).* not 5"
    for owner in (manager, manager.create_extension()):
        with pytest.raises(TypeError, match=message):
            owner.add_controller("a", reconcile, watches=watches, retries=mistaken)
    manager.add_controller("a", reconcile, watches=watches, retries=Retries(most_tries=5))


def test_a_function_in_place_of_a_check_is_named(manager: Manager) -> None:
    mistaken: Any = lambda: None  # noqa: E731
    for add in (manager.add_readiness_check, manager.add_liveness_check):
        with pytest.raises(TypeError, match=r'check must be Check\("name", function\), not'):
            add(mistaken)


async def test_swapped_arguments_of_an_event_are_named(manager: Manager) -> None:
    recorder: Any = manager.add_recorder("example.com/widgets")
    with pytest.raises(TypeError, match=r"Recorder\.record needs a controller\.Resource, not"):
        recorder.record(WIDGET, WIDGETS, "Normal", "Grown", "It grew.", action="Grow")
    with pytest.raises(
        TypeError, match=r"record widgets.* needs the object as it was read, not K"
    ):
        recorder.record(WIDGETS, Key("default", "a"), "Normal", "Grown", "It grew.", action="Grow")
    with pytest.raises(ValueError, match=r"type must be Normal or Warning, not 'Grown'; the"):
        recorder.record(WIDGETS, WIDGET, "Grown", "Normal", "It grew.", action="Grow")


@pytest.mark.parametrize("body", [WIDGET, "a", None, [], {"metadata": "a"}])
async def test_a_body_that_is_no_dictionary_is_named(api: FakeApi, body: Any) -> None:
    client = Client(api)
    with pytest.raises(TypeError, match=r"create widgets\..*: (the body|metadata) must be a dict"):
        await client.create(WIDGETS, "default", body)
    key = Key("default", "a")
    with pytest.raises(TypeError, match=r"apply widgets\..*: (the body|metadata) must be a dict"):
        await client.apply(WIDGETS, key, body, manager="me")
    assert api.requests == []


async def test_a_status_or_a_patch_that_is_no_dictionary_is_named(api: FakeApi) -> None:
    client: Any = Client(api)
    stored = await client.create(WIDGETS, "default", {"metadata": {"name": "a"}})
    with pytest.raises(TypeError, match=r"patch_status widgets.*: status must be a dict"):
        await client.patch_status(WIDGETS, stored, "Ready")
    for patch in (None, "a", WIDGET):
        with pytest.raises(TypeError, match=r"the patch must be a dictionary, or a list of op"):
            await client.patch(WIDGETS, Version.from_object(stored), patch)


def test_an_unknown_format_of_logs_is_named() -> None:
    mistaken: Any = "text"
    with pytest.raises(ValueError, match="log format 'text' is unknown: use json or console"):
        configure_logs(mistaken)


def test_to_owner_itself_in_place_of_its_mapping_is_named(manager: Manager) -> None:
    mistaken: Any = to_owner
    with pytest.raises(TypeError, match=r"to_owner itself, .*: write to_owner\(KIND\)"):
        Watch(manager.get_informer(WIDGETS), mistaken)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            reconcile_object,
            r"reconcile_object, is called with \(key\) and takes \(key, obj\): missing .*'obj'",
        ),
        (reconcile_nothing, r"is called with \(key\) and takes \(\): too many positional arg"),
        (Reconciler.reconcile, r"Reconciler\.reconcile, .* takes \(self, key\): missing .* 'key'"),
    ],
)
def test_a_reconciler_that_takes_other_arguments_is_named(
    manager: Manager, function: Any, message: str
) -> None:
    watches = [Watch(manager.get_informer(WIDGETS), to_self)]
    with pytest.raises(TypeError, match=message):
        manager.add_controller("a", function, watches=watches)
    manager.add_controller("b", Reconciler().reconcile, watches=watches)
    manager.add_controller("c", partial(reconcile_object, obj=WIDGET), watches=watches)


def test_callbacks_that_take_other_arguments_are_named_with_their_role(manager: Manager) -> None:
    informer = manager.get_informer(WIDGETS)
    takes_pair: Any = map_pair
    takes_nothing: Any = map_nothing
    kind: Any = None  # a ClusterWatch uses its kind only when it is connected
    watches = [Watch(informer, to_self)]
    with pytest.raises(TypeError, match=r"mapping of a Watch, .* called with \(object\)"):
        Watch(informer, takes_pair)
    with pytest.raises(TypeError, match=r"mapping of a Watch, .* called with \(cluster, object\)"):
        ClusterWatch(kind, takes_nothing)
    with pytest.raises(TypeError, match=r"predicate of a Watch, .* called with \(change\)"):
        Watch(informer, to_self, predicate=takes_pair)
    with pytest.raises(TypeError, match=r"delay of a Watch, .* called with \(change\)"):
        Watch(informer, to_self, delay=takes_nothing)
    with pytest.raises(TypeError, match=r"unreadable objects of a Watch, .* called with \(key\)"):
        Watch(informer, to_self, unreadable=takes_nothing)
    with pytest.raises(TypeError, match=r"handler of an informer, .* called with \(change\)"):
        informer.add_handler(takes_pair)
    with pytest.raises(TypeError, match=r"index 'pair', .* called with \(object\)"):
        manager.get_informer(WIDGETS, namespace="other", indexes={"pair": takes_pair})
    with pytest.raises(TypeError, match=r"service s, .* called with \(\) and takes \(_\)"):
        manager.add_service("s", reconcile)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"webhook /a, .* called with \(request\)"):
        Webhook("/a", takes_nothing, Widget)
    with pytest.raises(TypeError, match=r"the check c, .* called with \(\)"):
        Check("c", takes_pair)
    for setting in ("group", "shard_by", "forget"):
        for owner in (manager, manager.create_extension()):
            functions: Any = {setting: takes_pair}
            with pytest.raises(TypeError, match=rf"{setting} of controller a, .* with \(key\)"):
                owner.add_controller("a", reconcile, watches=watches, **functions)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            ("example.com/v1", "Widget", "Widget", "widgets", Widget),
            ValueError,
            r"group 'example\.com/v1' has a version in it: write Resource\('example\.com', 'v1'",
        ),
        (
            ("example.com", "v1", "widgets", "Widget", Widget),
            ValueError,
            "order is group",
        ),
        (("example.com", "v1", "Widget", "widgets", "Widget"), TypeError, "type must be a class"),
        (
            ("example.com", 1, "Widget", "widgets", Widget),
            TypeError,
            "version must be text",
        ),
    ],
)
def test_a_resource_with_misplaced_arguments_is_named(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Resource(*arguments)


@pytest.mark.parametrize("no_key", ["default/a", WIDGET, None])
def test_a_cache_refuses_a_lookup_by_a_value_that_is_no_key(manager: Manager, no_key: Any) -> None:
    cluster_cache = manager.get_informer(WIDGETS).cache
    namespaced_cache = manager.get_informer(WIDGETS, namespaces=NamespaceSet(["default"])).cache
    caches: Any = (cluster_cache, namespaced_cache)
    for cache in caches:
        with pytest.raises(TypeError, match=r"Cache\.get of widgets.* must be a controller\.Key"):
            cache.get(no_key)
        assert cache.get(Key("default", "a")) is None
