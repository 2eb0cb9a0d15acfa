"""Mistakes of users are named: the argument, the function or the request that is wrong."""

import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from controller import (
    SETTLED,
    Client,
    Key,
    Manager,
    NamespaceSet,
    NotFound,
    ObjectMeta,
    Outcome,
    Owner,
    Resource,
    Version,
    Watch,
    ensure,
    to_self,
)
from controller.errors import create_api_error
from controller.testing import FakeApi
from tests.clock import VirtualClock
from tests.controller.widgets import WIDGETS, Widget

SECRETS = Resource("", "v1", "Secret", "secrets", Widget)
NO_STATUS = Resource("example.com", "v1", "Plain", "plains", Widget)


async def reconcile(_: Key) -> Outcome:
    return SETTLED


@pytest.fixture
def api() -> FakeApi:
    """Return a fake API that serves widgets, and a kind without a status subresource."""
    api = FakeApi(VirtualClock())
    api.serve(WIDGETS)
    api.serve(NO_STATUS, status=False)
    return api


@pytest.fixture
def manager(api: FakeApi) -> Manager:
    """Return a manager of the fake API; it does not run."""
    return Manager(api, clock=VirtualClock())


async def test_an_object_in_place_of_its_version_is_named(api: FakeApi) -> None:
    client: Any = Client(api)
    widget = await client.create(WIDGETS, "default", {"metadata": {"name": "a"}})
    for call in (client.patch, client.replace):
        with pytest.raises(TypeError, match=r"widgets\.example\.com needs the Version .* Widget"):
            await call(WIDGETS, widget, {})
    with pytest.raises(TypeError, match=r"delete widgets.* Version\.from_object\(obj\)"):
        await client.delete(WIDGETS, widget)
    with pytest.raises(TypeError, match=r"patch_status widgets.* needs the object as it was read"):
        await client.patch_status(WIDGETS, Version.from_object(widget), {})


async def test_arguments_of_client_methods_of_the_wrong_type_are_named(api: FakeApi) -> None:
    client: Any = Client(api)
    with pytest.raises(TypeError, match=r"get widgets.* needs controller\.Key\(.*not 'a'"):
        await client.get(WIDGETS, "a")
    with pytest.raises(TypeError, match=r"apply widgets.* not \('default', 'a'\)"):
        await client.apply(WIDGETS, ("default", "a"), {}, manager="x")
    with pytest.raises(TypeError, match=r"create widgets.* needs the namespace as text"):
        await client.create(WIDGETS, {"metadata": {"name": "a"}}, {})
    with pytest.raises(TypeError, match=r"list widgets.* needs the namespace as text"):
        await client.list(WIDGETS, namespace=None)
    with pytest.raises(TypeError, match=r"Client\.get needs a controller\.Resource.*is the type"):
        await client.get(Widget, Key("default", "a"))
    assert [request.method for request in api.requests] == []


def test_an_informer_or_anything_else_in_place_of_a_watch_is_named(manager: Manager) -> None:
    informer: Any = manager.get_informer(WIDGETS)
    with pytest.raises(TypeError, match=r"controller a: watches has the informer of widgets\.ex"):
        manager.add_controller("a", reconcile, watches=[informer])
    with pytest.raises(TypeError, match=r"controller a: watches has .*which is not a Watch"):
        manager.add_controller("a", reconcile, watches=[WIDGETS])  # type: ignore[list-item]
    watch: Any = Watch(informer, to_self)
    with pytest.raises(TypeError, match=r"controller a: watches must be a list: write \["):
        manager.add_controller("a", reconcile, watches=watch)
    with pytest.raises(TypeError, match="controller a: watches must be a list of Watch, not None"):
        manager.add_controller("a", reconcile, watches=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="controller a watches nothing"):
        manager.add_controller("a", reconcile, watches=[])


def test_a_resource_in_place_of_its_informer_is_named() -> None:
    informer: Any = WIDGETS
    with pytest.raises(
        TypeError, match=r"a Watch needs an informer: Manager\.get_informer\(WIDGETS\)"
    ):
        Watch(informer, to_self)


def test_an_informer_of_no_resource_is_named(manager: Manager) -> None:
    no_resource: Any = Widget
    with pytest.raises(TypeError, match=r"Manager\.get_informer needs .* Widget is the type"):
        manager.get_informer(no_resource)
    no_resource = manager.get_informer(WIDGETS)
    with pytest.raises(TypeError, match="pass the Resource of this Informer"):
        manager.get_informer(no_resource)


def test_a_forgotten_await_before_the_transport_is_named() -> None:
    async def open_transport() -> FakeApi:
        return FakeApi(VirtualClock())

    coroutine: Any = open_transport()
    with pytest.raises(TypeError, match=r"write Manager\(await connect\(\)\)"):
        Manager(coroutine)
    coroutine.close()


def test_a_reconciler_that_yields_is_named(manager: Manager) -> None:
    async def stream(_: Key) -> AsyncIterator[Outcome]:
        yield SETTLED

    def generate(_: Key) -> Iterator[Outcome]:
        yield SETTLED

    watches = [Watch(manager.get_informer(WIDGETS), to_self)]
    for function in (stream, generate):
        reconciler: Any = function
        name = function.__name__
        with pytest.raises(TypeError, match=rf"the reconciler of a, .*{name}, .* it yields"):
            manager.add_controller("a", reconciler, watches=watches)


async def test_the_traceback_of_a_failed_request_names_the_request(api: FakeApi) -> None:
    with pytest.raises(NotFound) as raised:
        await Client(api).get(WIDGETS, Key("default", "a"))
    assert raised.value.request == "get widgets.example.com default/a"
    formatted = "".join(traceback.format_exception(raised.value))
    assert "request: get widgets.example.com default/a" in formatted
    assert raised.value.hint == ""


async def test_a_404_of_a_status_patch_hints_at_a_missing_status_subresource(api: FakeApi) -> None:
    client = Client(api)
    plain = await client.create(NO_STATUS, "default", {"metadata": {"name": "a"}})
    with pytest.raises(NotFound) as raised:
        await client.patch_status(NO_STATUS, plain, {"color": "red"})
    assert raised.value.request == "patch plains.example.com/status default/a"
    assert "needs `subresources: {status: {}}` in version v1" in raised.value.hint
    assert f"hint: {raised.value.hint}" in raised.value.__notes__


async def test_a_404_of_the_status_patch_of_a_deleted_object_has_a_hint_too(api: FakeApi) -> None:
    client = Client(api)
    widget = await client.create(WIDGETS, "default", {"metadata": {"name": "a"}})
    await client.delete(WIDGETS, Version.from_object(widget))
    with pytest.raises(NotFound) as raised:
        await client.patch_status(WIDGETS, widget, {"color": "red"})
    assert raised.value.hint.startswith("the object is gone, or widgets.example.com has no")


def test_a_404_of_another_request_has_no_hint() -> None:
    error = create_api_error(404, {"reason": "NotFound", "message": 'widgets "a" not found'})
    assert error.hint == ""


def test_a_set_of_namespaces_in_the_wrong_place_is_named(manager: Manager) -> None:
    namespaces = NamespaceSet(["a"])
    with pytest.raises(TypeError, match=r"a Watch needs an informer, as Manager\.get_informer"):
        Watch(namespaces, to_self)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"namespace must be text.* pass a NamespaceSet as names"):
        manager.get_informer(WIDGETS, namespace=namespaces)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"NamespaceSet\.follow needs an informer of namespaces"):
        namespaces.follow(WIDGETS)  # type: ignore[arg-type]


def test_a_selector_in_object_form_is_named(manager: Manager) -> None:
    with pytest.raises(TypeError, match=r"labels must be text, not \{'a': 'b'\}; write_selector"):
        manager.get_informer(WIDGETS, labels={"a": "b"})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"fields must be text, .*, as in metadata\.name=web"):
        manager.get_informer(WIDGETS, fields={"a": "b"})  # type: ignore[call-overload]


async def test_an_informer_in_place_of_the_kind_of_a_child_is_named(manager: Manager) -> None:
    informer: Any = manager.get_informer(WIDGETS)
    with pytest.raises(TypeError, match=r"ensure needs a controller\.Resource, not"):
        await ensure(manager.client, informer, None, {"metadata": {"name": "a"}})


BODY: dict[str, Any] = {"metadata": {"name": "a", "namespace": "default"}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a", r"ensure secrets: the body must be a dictionary, not 'a'"),
        ([], r"ensure secrets: the body must be a dictionary, not \[\]"),
        ({"metadata": "a"}, r"ensure secrets: metadata must be a dictionary, .*name.*, not \'a\'"),
        ({"metadata": {"name": 5}}, r"a Secret: metadata\.name must be text, not 5"),
        ({**BODY, "stringData": "a=b"}, "Secret a: stringData must be a dictionary of texts"),
        ({**BODY, "stringData": {"port": 5}}, r"a: stringData\['port'\] must be text, not 5"),
        (Widget(ObjectMeta("a")), r"ensure secrets: the body .* not the object .*Widget.* write"),
    ],
)
async def test_a_body_of_the_wrong_type_is_named(
    manager: Manager, body: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        await ensure(manager.client, SECRETS, None, body, manager="me")


@pytest.mark.parametrize(("field", "value"), [("kind", "ConfigMap"), ("apiVersion", "v2")])
async def test_a_body_of_another_kind_than_its_resource_is_named(
    manager: Manager, field: str, value: str
) -> None:
    with pytest.raises(ValueError, match=rf"the body has {field} '{value}' and the Resource"):
        await ensure(manager.client, SECRETS, None, {**BODY, field: value}, manager="me")


async def test_other_arguments_of_ensure_of_the_wrong_type_are_named(manager: Manager) -> None:
    mistaken: Any = manager
    with pytest.raises(TypeError, match=r"ensure: client must be a Client, such as Manager\.cl"):
        await ensure(mistaken, SECRETS, None, BODY, manager="me")
    with pytest.raises(TypeError, match="ensure: manager must be the name of the field manager"):
        await ensure(manager.client, SECRETS, None, BODY, manager=mistaken)


def test_an_owner_with_its_arguments_swapped_is_named() -> None:
    mistaken: Any = Owner
    widget = Widget(ObjectMeta("a", namespace="default"))
    with pytest.raises(TypeError, match=r"Owner\(object, KIND\) needs a controller\.Resource"):
        mistaken(WIDGETS, widget)
    with pytest.raises(TypeError, match="Widget is the type of the objects"):
        mistaken(widget, Widget)
    with pytest.raises(
        TypeError, match=r"Owner of widgets.* needs the object as it was read, not K"
    ):
        mistaken(Key("default", "a"), WIDGETS)


@pytest.mark.parametrize("component", ["", "not qualified!", "a/b/c", "Example.com/x", "x/"])
def test_a_recorder_whose_component_is_no_qualified_name_is_refused(
    manager: Manager, component: str
) -> None:
    with pytest.raises(ValueError, match="a recorder needs a qualified name as component"):
        manager.add_recorder(component)
