"""What objects can be decoded to: dataclasses, Structs, pydantic models, plain JSON."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec
import pydantic
import pytest

from controller import Client, Key, MalformedAnswer, Manager, ObjectMeta, Resource, Untyped
from controller.codec import Added, Unreadable, decode_event, decode_object, decode_page
from controller.testing import FakeApi, VirtualClock
from controller.webhooks import AdmissionRequest, Allowed, Answer, Webhook
from tests.controller.widgets import build_event_line, build_list, build_widget, encode_widget


@dataclass(frozen=True, slots=True)
class WidgetDataclass:
    metadata: ObjectMeta
    spec: dict[str, Any] = field(default_factory=dict)


class WidgetStruct(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: dict[str, Any] = {}


class WidgetModelSpec(pydantic.BaseModel, frozen=True):
    color: str = ""
    size: pydantic.NonNegativeInt = 0


class WidgetModel(pydantic.BaseModel, frozen=True):
    metadata: ObjectMeta
    spec: WidgetModelSpec = WidgetModelSpec()


TYPES: list[type[Any]] = [WidgetDataclass, WidgetStruct, WidgetModel, Untyped]


def create_resource(kind: type[Any]) -> Resource[Any]:
    return Resource("example.com", "v1", "Widget", "widgets", kind)


def get_color(obj: Any) -> str:
    if isinstance(obj, WidgetModel):
        return obj.spec.color
    spec = obj.body["spec"] if isinstance(obj, Untyped) else obj.spec
    return str(spec["color"])


@pytest.mark.parametrize("kind", TYPES)
def test_an_object_is_decoded_to_dataclasses_structs_models_and_untyped_objects(
    kind: type[Any],
) -> None:
    body = encode_widget(build_widget("a", 5, color="blue"))
    reference = {"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "u"}
    body["metadata"] |= {
        "labels": {"x": "y"},
        "finalizers": ["example.com/hold"],
        "ownerReferences": [reference],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    as_dataclass = decode_object(create_resource(WidgetDataclass), msgspec.json.encode(body))
    decoded = decode_object(create_resource(kind), msgspec.json.encode(body))
    assert type(decoded) is kind
    assert get_color(decoded) == "blue"
    assert decoded.metadata == as_dataclass.metadata
    assert isinstance(decoded.metadata.labels, MappingProxyType)


@pytest.mark.parametrize("kind", TYPES)
def test_lists_and_events_are_decoded_to_all_sorts_of_types(kind: type[Any]) -> None:
    page = decode_page(
        create_resource(kind), build_list(9, build_widget("a", 5), build_widget("b", 6))
    )
    assert [get_color(obj) for obj in page.items] == ["red", "red"]
    event = decode_event(
        create_resource(kind), build_event_line("ADDED", build_widget("a", 5, color="blue"))
    )
    assert isinstance(event, Added)
    assert get_color(event.object) == "blue"


def test_an_object_that_a_model_rejects_is_named_and_harms_no_other_object() -> None:
    rejected = build_widget("bad", 5)
    body = encode_widget(rejected)
    body["spec"]["size"] = -1
    with pytest.raises(MalformedAnswer, match="greater than or equal to 0"):
        decode_object(create_resource(WidgetModel), msgspec.json.encode(body))
    event = decode_event(create_resource(WidgetModel), build_event_line("MODIFIED", body))
    assert isinstance(event, Unreadable)
    assert event.key == rejected.metadata.key
    assert "spec.size" in event.reason


def test_the_first_level_of_an_untyped_object_cannot_be_changed() -> None:
    decoded = decode_object(
        create_resource(Untyped), msgspec.json.encode(encode_widget(build_widget("a", 5)))
    )
    with pytest.raises(TypeError):
        decoded.body["spec"] = {}


@pytest.mark.parametrize("kind", [WidgetModel, Untyped])
async def test_a_cache_indexes_models_and_untyped_objects(kind: type[Any]) -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    api.serve(create_resource(kind))
    manager = Manager(api, clock=clock)
    informer = manager.get_informer(
        create_resource(kind), indexes={"color": lambda obj: [get_color(obj)]}
    )
    import anyio

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await Client(api).create(
            create_resource(kind),
            "default",
            {"metadata": {"name": "a"}, "spec": {"color": "blue"}},
        )
        await clock.advance(1)
        assert [obj.metadata.key for obj in informer.cache.list_by_index("color", "blue")] == [
            Key("default", "a")
        ]
        manager.stop()


async def test_a_webhook_gets_a_pydantic_model_and_refuses_objects_that_the_model_rejects() -> (
    None
):
    judged: list[WidgetModel] = []

    async def judge(request: AdmissionRequest[WidgetModel]) -> Answer:
        assert request.object is not None
        judged.append(request.object)
        return Allowed()

    def build_review_of_size(size: int) -> bytes:
        body = encode_widget(build_widget("a", 5, color="blue"))
        body["spec"]["size"] = size
        return msgspec.json.encode(
            {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": {
                    "uid": "1",
                    "kind": {"group": "example.com", "version": "v1", "kind": "Widget"},
                    "resource": {"group": "example.com", "version": "v1", "resource": "widgets"},
                    "operation": "CREATE",
                    "object": body,
                },
            }
        )

    webhook = Webhook("/judge", judge, WidgetModel)
    allowed, _ = await webhook.answer(build_review_of_size(1), VirtualClock(), 10)
    refused, _ = await webhook.answer(build_review_of_size(-1), VirtualClock(), 10)
    assert [obj.spec.size for obj in judged] == [1]
    assert msgspec.json.decode(allowed)["response"]["allowed"]
    response = msgspec.json.decode(refused)["response"]
    assert not response["allowed"]
    assert "greater than or equal to 0" in response["status"]["message"]
