"""A kind for tests, and the bytes of its objects, events and lists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.meta import ObjectMeta
from controller.resource import Resource


@dataclass(frozen=True, slots=True)
class WidgetSpec:
    """Fields by which tests tell widgets apart."""

    color: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Widget:
    """A kind that exists only in tests."""

    metadata: ObjectMeta
    spec: WidgetSpec = field(default_factory=WidgetSpec)


WIDGETS = Resource("example.com", "v1", "Widget", "widgets", Widget)


def build_widget(name: str, revision: int, *, uid: str = "", color: str = "red") -> Widget:
    """Return a widget in namespace `default`; its uid is its name by default."""
    meta = ObjectMeta(
        name=name, namespace="default", uid=uid or name, resourceVersion=str(revision)
    )
    return Widget(meta, WidgetSpec(color))


def encode_widget(obj: Widget) -> dict[str, Any]:
    """Return `obj` as the server would write it."""
    meta = obj.metadata
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resourceVersion,
            "managedFields": [{"manager": "test"}],
        },
        "spec": {"color": obj.spec.color, "size": obj.spec.size},
    }


def build_event_line(kind: str, obj: Mapping[str, Any] | Widget) -> bytes:
    """Return the line of a watch event of the type `kind` about an object."""
    body = encode_widget(obj) if isinstance(obj, Widget) else obj
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


def build_bookmark_line(revision: int) -> bytes:
    """Return the line of a bookmark at a revision."""
    return build_event_line(
        "BOOKMARK", {"kind": "Widget", "metadata": {"resourceVersion": str(revision)}}
    )


def build_error_line(code: int, reason: str = "") -> bytes:
    """Return the line of an ERROR event with a Status of this HTTP code."""
    status = {"kind": "Status", "status": "Failure", "code": code, "message": "as sent"}
    return build_event_line("ERROR", status | ({"reason": reason} if reason else {}))


def build_list(revision: int, *items: Widget, continuation: str = "") -> bytes:
    """Return the JSON of a WidgetList; `continuation` is its continue token."""
    meta = {"resourceVersion": str(revision), "continue": continuation}
    return msgspec.json.encode(
        {"kind": "WidgetList", "metadata": meta, "items": [encode_widget(item) for item in items]}
    )
