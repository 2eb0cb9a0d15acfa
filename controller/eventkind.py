"""The Event kind of events.k8s.io/v1, and the bodies of its create and patch requests."""

import socket
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from controller.conditions import format_rfc3339_micro
from controller.meta import Object, ObjectMeta
from controller.resource import Resource

T = TypeVar("T", bound=Object)

NOTE_BYTES = 1024
"""Bytes of the longest note that the server accepts."""
INSTANCE_LENGTH = 128
"""Characters of the longest reportingInstance that the server accepts."""
NAME_LENGTH = 230
"""Characters of the object's name in an event's name: with the suffix, a name may have 253."""
NAMESPACE_OF_CLUSTER_SCOPED = "default"
"""The namespace of events about cluster-scoped objects."""


@dataclass(frozen=True, slots=True)
class Event:
    """An Event in a response; only its version is used."""

    metadata: ObjectMeta


EVENTS = Resource("events.k8s.io", "v1", "Event", "events", Event)


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an event is about, or the related object."""

    apiVersion: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def from_object(cls, resource: Resource[T], obj: T) -> "Reference":
        """Return the reference to `obj`, which is of the kind `resource`."""
        meta = obj.metadata
        return cls(
            resource.api_version,
            resource.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
        )

    @property
    def event_namespace(self) -> str:
        """The namespace of events about the object, also if the object has none."""
        return self.namespace or NAMESPACE_OF_CLUSTER_SCOPED

    @property
    def body(self) -> dict[str, str]:
        """The ObjectReference as JSON, without empty fields."""
        fields = ("apiVersion", "kind", "namespace", "name", "uid")
        return {field: value for field in fields if (value := getattr(self, field))}


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """The fields that are equal in all events of a series: all but note and time, as in client-go.

    The reporting controller and instance are equal for all events of a recorder.
    """

    regarding: Reference
    type: str
    reason: str
    action: str
    related: Reference | None = None


@dataclass(frozen=True, slots=True)
class Reporter:
    """The component that reports events.

    Args:
        controller: a qualified name, for example `example.com/widgets`.
        instance: this process, at most 128 characters.
    """

    controller: str
    instance: str

    @classmethod
    def on_this_host(cls, controller: str) -> "Reporter":
        """Return the reporter for the component `controller` on this host."""
        instance = f"{controller}-{socket.gethostname()}"
        return cls(controller, instance[:INSTANCE_LENGTH])


def create_event_body(
    key: SeriesKey, note: str, reporter: Reporter, happened_at: datetime, stamp: int
) -> dict[str, Any]:
    """Return the body of the request that creates an Event.

    Args:
        key: the object, the related object, type, reason and action.
        note: a sentence for people; cut to 1024 bytes, the most that the server accepts.
        reporter: the reporting component.
        happened_at: when the event happened.
        stamp: a number, unique among the events of the object.
    """
    regarding, related = key.regarding, key.related
    # A cut may leave a `-` or `.` at the end, where a name must not have it.
    stem = regarding.name[:NAME_LENGTH].rstrip("-.")
    return {
        "metadata": {"name": f"{stem}.{stamp:x}", "namespace": regarding.event_namespace},
        "eventTime": format_rfc3339_micro(happened_at),
        "type": key.type,
        "reason": key.reason,
        "action": key.action,
        "note": shorten(note),
        "regarding": regarding.body,
        **({"related": related.body} if related is not None else {}),
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance,
    }


def create_series_patch(count: int, last_time: datetime) -> dict[str, Any]:
    """Return the patch that sets how often, and when last, the event has happened.

    A patch cannot change the note: in events.k8s.io/v1 all fields but series and metadata are
    immutable ("field is immutable", 422). Rejected: patching the message through core/v1, which
    allows that. The note would then be from another time than the event.
    """
    return {"series": {"count": count, "lastObservedTime": format_rfc3339_micro(last_time)}}


def shorten(note: str, limit: int = NOTE_BYTES) -> str:
    """Return `note`, cut to at most `limit` bytes of UTF-8 with an ellipsis at its end.

    A character that UTF-8 cannot encode becomes `?`: Python uses surrogates for the bytes of file
    names that it cannot decode.
    """
    data = note.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode(errors="ignore") + "…"  # the ellipsis takes three bytes
