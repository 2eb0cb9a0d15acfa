"""The requests of the client, and the objects and errors that it makes of the answers."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from typing_extensions import override

from controller.client import Client
from controller.discovery import ABSENCE_SECONDS, AbsenceCounter
from controller.errors import (
    Conflict,
    DiscoveryIncomplete,
    Expired,
    Forbidden,
    MalformedAnswer,
    NoAnswer,
    NotFound,
)
from controller.meta import Key, MetadataOnly, Object, Version
from controller.resource import Resource
from controller.transport import NO_QUERY
from tests.clock import VirtualClock
from tests.controller.scripted import ScriptedTransport
from tests.controller.widgets import WIDGETS, Widget, build_list, build_widget, encode_widget

A = Key("default", "a")
COLLECTION = "/apis/example.com/v1/namespaces/default/widgets"
VERSION_OF_A = Version("default", "a", uid="uid-a", resourceVersion="7")


class SentRequest(NamedTuple):
    """A request as the transport got it, with its body decoded."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str


class RecordingTransport(ScriptedTransport):
    """Answers from a script, and keeps the requests in `sent`."""

    def __init__(self, answers: Sequence[bytes | Exception]) -> None:
        super().__init__(answers)
        self.sent: list[SentRequest] = []

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        decoded = json.loads(body) if body is not None else None
        self.sent.append(
            SentRequest(method, path, query=dict(query), body=decoded, content_type=content_type)
        )
        return await super().request(method, path, query=query)


def create_answering_client(*answers: object) -> tuple[Client, RecordingTransport]:
    """Return a client whose requests get these answers in order, and its transport."""
    server = RecordingTransport(
        [answer if isinstance(answer, bytes | Exception) else encode(answer) for answer in answers]
    )
    return Client(server), server


def encode(answer: object) -> bytes:
    """Return the JSON of a widget or of plain data."""
    return json.dumps(encode_widget(answer) if isinstance(answer, Widget) else answer).encode()


async def test_get_reads_one_object() -> None:
    client, server = create_answering_client(build_widget("a", 7))
    assert await client.get(WIDGETS, A) == build_widget("a", 7)
    assert server.sent == [("GET", f"{COLLECTION}/a", {}, None, "application/json")]


async def test_a_list_reads_the_newest_state_in_pages_with_its_selectors() -> None:
    client, server = create_answering_client(
        build_list(9, build_widget("a", 1), continuation="more"),
        build_list(9, build_widget("b", 2)),
    )
    page = await client.list(WIDGETS, namespace="default", labels="x=y", fields="metadata.name=a")
    assert (page.items, page.revision) == ((build_widget("a", 1), build_widget("b", 2)), 9)
    first = {"limit": "500", "labelSelector": "x=y", "fieldSelector": "metadata.name=a"}
    assert [request.query for request in server.sent] == [first, first | {"continue": "more"}]
    assert {request.path for request in server.sent} == {COLLECTION}


async def test_a_list_whose_continue_token_expires_is_still_complete() -> None:
    client, server = create_answering_client(
        build_list(9, build_widget("a", 1), continuation="more"),
        Expired(410, "Expired", "token"),
        build_list(12, build_widget("a", 1), build_widget("b", 11)),
    )
    page = await client.list(WIDGETS)
    assert [item.metadata.name for item in page.items] == ["a", "b"]
    assert page.revision == 12
    assert server.sent[2].query == {}


async def test_a_list_whose_first_page_is_expired_raises() -> None:
    client, _ = create_answering_client(Expired(410, "Expired", "odd"))
    with pytest.raises(Expired):
        await client.list(WIDGETS)


async def test_create_adds_api_version_kind_and_namespace() -> None:
    client, server = create_answering_client(build_widget("a", 1))
    body = {"metadata": {"name": "a"}, "spec": {"color": "red"}}
    await client.create(WIDGETS, "default", body, field_manager="me")
    assert server.sent == [
        (
            "POST",
            COLLECTION,
            {"fieldManager": "me"},
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"color": "red"},
            },
            "application/json",
        )
    ]
    assert body == {"metadata": {"name": "a"}, "spec": {"color": "red"}}


async def test_a_patch_carries_version_and_uid_and_does_not_change_the_argument() -> None:
    client, server = create_answering_client(build_widget("a", 8), build_widget("a", 9))
    patch = {"metadata": {"labels": {"x": "y"}}}
    await client.patch(WIDGETS, VERSION_OF_A, patch)
    await client.patch(WIDGETS, VERSION_OF_A, {"status": {"phase": "On"}}, subresource="status")
    assert [request[1:] for request in server.sent] == [
        (
            f"{COLLECTION}/a",
            {},
            {"metadata": {"labels": {"x": "y"}, "resourceVersion": "7", "uid": "uid-a"}},
            "application/merge-patch+json",
        ),
        (
            f"{COLLECTION}/a/status",
            {},
            {"metadata": {"resourceVersion": "7"}, "status": {"phase": "On"}},
            "application/merge-patch+json",
        ),
    ]
    assert patch == {"metadata": {"labels": {"x": "y"}}}


async def test_a_replacement_carries_version_and_uid() -> None:
    client, server = create_answering_client(build_widget("a", 8))
    await client.replace(WIDGETS, VERSION_OF_A, {"spec": {"size": 3}})
    request = server.sent[0]
    assert (request.method, request.path) == ("PUT", f"{COLLECTION}/a")
    assert request.body["metadata"] == {
        "name": "a",
        "namespace": "default",
        "resourceVersion": "7",
        "uid": "uid-a",
    }


@pytest.mark.parametrize(
    "blank",
    [
        Version("default", "a", uid="", resourceVersion="7"),
        Version("", "a", uid="u", resourceVersion=""),
    ],
)
async def test_no_write_is_sent_without_a_version_as_precondition(blank: Version) -> None:
    client, server = create_answering_client()
    with pytest.raises(MalformedAnswer, match="to be a precondition"):
        await client.patch(WIDGETS, blank, {})
    with pytest.raises(MalformedAnswer, match="to be a precondition"):
        await client.replace(WIDGETS, blank, {})
    with pytest.raises(MalformedAnswer, match="to be a precondition"):
        await client.delete(WIDGETS, blank)
    assert server.sent == []


def build_terminating_widget(**meta: object) -> dict[str, Any]:
    """Return a widget that is being deleted, with further metadata."""
    obj = encode_widget(build_widget("a", 8))
    obj["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} | meta
    return obj


@pytest.mark.parametrize(
    ("answer", "still_exists"),
    [
        ({"kind": "Status", "status": "Success", "metadata": {}}, False),
        (build_terminating_widget(), False),
        (encode_widget(build_widget("a", 8)), False),
        (build_terminating_widget(finalizers=["x/y"]), True),
        (build_terminating_widget(deletionGracePeriodSeconds=30), True),
    ],
    ids=["status", "last state", "last state of old servers", "finalizer", "grace period"],
)
async def test_a_deletion_returns_the_object_if_it_still_exists(
    answer: dict[str, Any], still_exists: bool
) -> None:
    seen: list[Object] = []
    server = RecordingTransport([encode(answer)])
    client = Client(server, on_object=lambda _, obj: seen.append(obj))
    result = await client.delete(WIDGETS, VERSION_OF_A, propagation="Background")
    assert (result is not None, len(seen)) == (still_exists, int(still_exists))
    assert server.sent[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "uid-a", "resourceVersion": "7"},
        "propagationPolicy": "Background",
    }


async def test_apply_sends_its_field_manager_and_version() -> None:
    client, server = create_answering_client(build_widget("a", 8))
    await client.apply(WIDGETS, A, {"spec": {"size": 3}}, manager="me", force=True, version="7")
    assert server.sent == [
        (
            "PATCH",
            f"{COLLECTION}/a",
            {"fieldManager": "me", "force": "true"},
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a", "namespace": "default", "resourceVersion": "7"},
                "spec": {"size": 3},
            },
            "application/apply-patch+yaml",
        )
    ]


async def test_on_object_gets_the_object_of_each_response_but_no_error() -> None:
    seen: list[tuple[str, Object]] = []
    server = RecordingTransport(
        [
            encode(build_widget("a", 7)),
            Conflict(409, "Conflict", "no"),
            encode(build_widget("a", 8)),
        ]
    )
    client = Client(server, on_object=lambda resource, obj: seen.append((resource.kind, obj)))
    await client.get(WIDGETS, A)
    with pytest.raises(Conflict):
        await client.patch(WIDGETS, VERSION_OF_A, {})
    await client.patch(WIDGETS, VERSION_OF_A, {})
    assert seen == [("Widget", build_widget("a", 7)), ("Widget", build_widget("a", 8))]


@pytest.mark.parametrize(
    "answer", [b"<html>", b"[]", b"{}", b'{"metadata": {}}', b'{"metadata": {"name": 3}}']
)
async def test_a_response_that_is_no_object_of_the_kind_is_malformed(answer: bytes) -> None:
    client, _ = create_answering_client(answer)
    with pytest.raises(MalformedAnswer, match="the answer is not a Widget"):
        await client.get(WIDGETS, A)


async def test_writes_have_the_client_s_field_manager() -> None:
    server = RecordingTransport([encode(build_widget("a", 8))] * 2)
    client = Client(server, field_manager="us")
    await client.patch(WIDGETS, VERSION_OF_A, {})
    await client.create(WIDGETS, "default", {"metadata": {"name": "a"}})
    assert [request.query for request in server.sent] == [{"fieldManager": "us"}] * 2


GROUPS = {
    "kind": "APIGroupList",
    "groups": [{"name": "example.com", "versions": [{"groupVersion": "example.com/v1"}]}],
}
KINDS = {"kind": "APIResourceList", "resources": [{"name": "widgets"}, {"name": "widgets/status"}]}


async def test_a_kind_is_served_when_discovery_lists_it() -> None:
    client, _ = create_answering_client(GROUPS, KINDS)
    assert await client.is_served(WIDGETS)


LACKS_WIDGETS = pytest.mark.parametrize(
    "answers",
    [
        [{"kind": "APIGroupList", "groups": []}],
        [{"kind": "APIGroupList", "groups": [{"name": "example.com", "versions": []}]}],
        [GROUPS, {"kind": "APIResourceList", "resources": [{"name": "gadgets"}]}],
    ],
    ids=["no group", "no version", "no kind"],
)


def build_definition_list(
    *, version: str = "v1", is_served: bool = True, established: str = "True"
) -> dict[str, Any]:
    """Return a list with the CustomResourceDefinition of the widgets."""
    return {
        "kind": "CustomResourceDefinitionList",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "items": [
            {
                "metadata": {"name": WIDGETS.full_name, "uid": "u", "resourceVersion": "5"},
                "spec": {"versions": [{"name": version, "served": is_served, "storage": True}]},
                "status": {"conditions": [{"type": "Established", "status": established}]},
            }
        ],
    }


@LACKS_WIDGETS
async def test_a_kind_is_absent_when_discovery_lacks_it_and_no_definition_serves_it(
    answers: list[object],
) -> None:
    for listed in (
        {**build_definition_list(), "items": []},
        build_definition_list(version="v2"),
        build_definition_list(is_served=False),
        build_definition_list(established="False"),
    ):
        client, server = create_answering_client(*answers, listed)
        assert not await client.is_served(WIDGETS)
        last = server.sent[-1]
        assert last.path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert last.query == {"fieldSelector": f"metadata.name={WIDGETS.full_name}"}


@LACKS_WIDGETS
async def test_discovery_is_incomplete_if_it_lacks_a_kind_that_a_definition_serves(
    answers: list[object],
) -> None:
    client, _ = create_answering_client(*answers, build_definition_list())
    with pytest.raises(DiscoveryIncomplete, match="the API server may have just started"):
        await client.is_served(WIDGETS)


@LACKS_WIDGETS
async def test_without_access_to_definitions_discovery_decides_whether_a_kind_is_served(
    answers: list[object],
) -> None:
    client, _ = create_answering_client(*answers, Forbidden(403, "Forbidden", "no role"))
    assert not await client.is_served(WIDGETS)


@LACKS_WIDGETS
async def test_without_access_to_definitions_a_kind_is_absent_only_after_repeated_answers(
    answers: list[object],
) -> None:
    clock = VirtualClock()
    forbidden = Forbidden(403, "Forbidden", "no role")
    counter = AbsenceCounter(clock)

    async def is_served(*answers_now: object) -> bool:
        _, server = create_answering_client(*answers_now)
        return (
            await Client(server, absence_counter=counter)
            .with_field_manager("x")
            .is_served(WIDGETS)
        )

    for _ in range(2):
        for _ in range(2):
            for _ in range(3):  # answers in a row count once
                with pytest.raises(DiscoveryIncomplete, match="grant list and watch of custom"):
                    await is_served(*answers, forbidden)
            await clock.advance(ABSENCE_SECONDS)
        assert not await is_served(*answers, forbidden)
        assert not await is_served(*answers, forbidden)
        with pytest.raises(NoAnswer):  # the server may restart, so the count begins anew
            await is_served(NoAnswer("away"))
    assert await is_served(GROUPS, KINDS)
    with pytest.raises(DiscoveryIncomplete):
        await is_served(*answers, forbidden)


async def test_kinds_are_looked_up_together_and_only_versions_that_are_served_are_asked() -> None:
    gadgets = Resource("example.com", "v1", "Gadget", "gadgets", MetadataOnly)
    other = Resource("other.example", "v1", "Other", "others", MetadataOnly)
    client, server = create_answering_client(GROUPS, KINDS)
    assert await client.list_served([WIDGETS, gadgets, other]) == {WIDGETS}
    assert [request.path for request in server.sent] == ["/apis", "/apis/example.com/v1"]


async def test_an_object_that_does_not_exist_is_not_found_and_another_404_raises() -> None:
    client, _ = create_answering_client(
        encode_widget(build_widget("a", 1)),
        NotFound(404, "NotFound", 'widgets "a" not found'),
        NotFound(404, "", "404 page not found"),
    )
    first = await client.find(WIDGETS, A)
    assert first is not None
    assert first.metadata.name == "a"
    assert await client.find(WIDGETS, A) is None
    with pytest.raises(NotFound, match="page not found"):
        await client.find(WIDGETS, A)


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([NotFound(404, "", "404 page not found")], NotFound),
        ([GROUPS, NotFound(404, "", "404 page not found")], NotFound),
        ([{"kind": "Status"}], MalformedAnswer),
        ([{"groups": []}], MalformedAnswer),
        ([b"[]"], MalformedAnswer),
        ([{"kind": "APIGroupList"}], MalformedAnswer),
    ],
)
async def test_failed_discovery_raises_instead_of_returning_false(
    answers: list[object], error: type[Exception]
) -> None:
    client, _ = create_answering_client(*answers)
    with pytest.raises(error):
        await client.is_served(WIDGETS)


@pytest.mark.parametrize(
    "group",
    [
        {"name": "example.com", "versions": 5},
        {"name": "example.com", "versions": ["example.com/v1"]},
        {"name": "example.com", "versions": [{"groupVersion": "example.com/v1"}, None]},
        {"name": 5},
        None,
    ],
    ids=str,
)
async def test_discovery_raises_if_a_group_is_malformed(group: object) -> None:
    """The server of a group may be a tenant's own aggregated API."""
    client, _ = create_answering_client({"kind": "APIGroupList", "groups": [group]}, KINDS)
    with pytest.raises(MalformedAnswer):
        await client.is_served(WIDGETS)


@pytest.mark.parametrize("kind", [5, {"name": ["widgets"]}, {"name": "widgets", "kind": {}}, None])
async def test_discovery_raises_if_a_kind_is_malformed(kind: object) -> None:
    client, _ = create_answering_client(GROUPS, {"kind": "APIResourceList", "resources": [kind]})
    with pytest.raises(MalformedAnswer):
        await client.is_served(WIDGETS)


async def test_the_core_group_is_discovered_under_api() -> None:
    core = Resource("", "v1", "Widget", "widgets", Widget)
    client, server = create_answering_client(KINDS)
    assert await client.is_served(core)
    assert server.sent[0].path == "/api/v1"


@pytest.mark.parametrize(
    ("send", "request_name"),
    [
        (lambda client: client.get(WIDGETS, A), "get widgets.example.com default/a"),
        (
            lambda client: client.get(WIDGETS, A, subresource="scale"),
            "get widgets.example.com/scale default/a",
        ),
        (
            lambda client: client.list(WIDGETS, namespace="default"),
            "list widgets.example.com default",
        ),
        (lambda client: client.list(WIDGETS), "list widgets.example.com"),
        (
            lambda client: client.create(WIDGETS, "default", {"metadata": {"name": "a"}}),
            "create widgets.example.com default/a",
        ),
        (
            lambda client: client.patch_status(WIDGETS, build_widget("a", 1), {}),
            "patch widgets.example.com/status default/a",
        ),
        (
            lambda client: client.replace(WIDGETS, Version.from_object(build_widget("a", 1)), {}),
            "update widgets.example.com default/a",
        ),
        (
            lambda client: client.delete(WIDGETS, Version.from_object(build_widget("a", 1))),
            "delete widgets.example.com default/a",
        ),
        (
            lambda client: client.apply(WIDGETS, A, {}, manager="m"),
            "apply widgets.example.com default/a",
        ),
    ],
)
async def test_an_error_says_which_request_failed(
    send: Callable[[Client], Awaitable[object]], request_name: str
) -> None:
    for failure in (Forbidden(403, "Forbidden", "no"), NoAnswer("cut"), NotFound(404)):
        client = Client(ScriptedTransport([failure]))
        with pytest.raises(type(failure)) as raised:
            await send(client)
        assert raised.value.request == request_name
        assert str(raised.value) == str(failure)
