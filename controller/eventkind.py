"""The Event kind of events.k8s.io/v1: what is sent, and what of the answer is kept."""

import socket
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from controller.conditions import rfc3339_micro
from controller.meta import Object, ObjectMeta
from controller.resource import Resource

T = TypeVar("T", bound=Object)

NOTE_BYTES = 1024
INSTANCE_LENGTH = 128
NAME_LENGTH = 230  # leaves room for the suffix within the 253 that a name may have
NAMESPACE_OF_CLUSTER_SCOPED = "default"


@dataclass(frozen=True, slots=True)
class Event:
    """An Event as the server answers with it; only its version is of interest to us."""

    metadata: ObjectMeta


EVENTS = Resource("events.k8s.io", "v1", "Event", "events", Event)


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that an event is about, or that it concerns besides."""

    apiVersion: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def to(cls, resource: Resource[T], obj: T) -> "Reference":
        """Return the reference to `obj`, which is of the kind `resource`."""
        meta = obj.metadata
        return cls(resource.api_version, resource.kind, meta.namespace, meta.name, meta.uid)

    @property
    def event_namespace(self) -> str:
        """Where events about it live."""
        return self.namespace or NAMESPACE_OF_CLUSTER_SCOPED

    @property
    def body(self) -> dict[str, str]:
        """The ObjectReference, without what is empty."""
        fields = ("apiVersion", "kind", "namespace", "name", "uid")
        return {field: value for field in fields if (value := getattr(self, field))}


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """What makes two events the same: all but the note and the time (client-go's rule).

    Reporting controller and instance belong to it too; they are the recorder's own.
    """

    regarding: Reference
    type: str
    reason: str
    action: str
    related: Reference | None = None


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports.

    Args:
        controller: a qualified name, for example `butler-controller/ipam`.
        instance: this process, at most 128 characters.
    """

    controller: str
    instance: str

    @classmethod
    def here(cls, controller: str) -> "Reporter":
        """Return the reporter `controller` on this host."""
        instance = f"{controller}-{socket.gethostname()}"
        return cls(controller, instance[:INSTANCE_LENGTH])


def event_body(
    key: SeriesKey, note: str, reporter: Reporter, at: datetime, stamp: int
) -> dict[str, Any]:
    """Return the Event to be created.

    Args:
        key: what happened to what.
        note: a sentence for people; cut to 1024 bytes, the most that the server accepts.
        reporter: who reports.
        at: when it happened.
        stamp: a number that no other event of this object has.
    """
    regarding, related = key.regarding, key.related
    stem = regarding.name[:NAME_LENGTH].rstrip("-.")
    return {
        "metadata": {"name": f"{stem}.{stamp:x}", "namespace": regarding.event_namespace},
        "eventTime": rfc3339_micro(at),
        "type": key.type,
        "reason": key.reason,
        "action": key.action,
        "note": shortened(note),
        "regarding": regarding.body,
        **({"related": related.body} if related is not None else {}),
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance,
    }


def series_patch(count: int, last: datetime) -> dict[str, Any]:
    """Return the patch that says how often the event has happened by now.

    It cannot bring a newer note: events.k8s.io/v1 holds everything immutable but the series and
    the metadata ("field is immutable", 422). Patching the message through core/v1, which does
    allow it, was rejected: the note would no longer fit the time that the event bears.
    """
    return {"series": {"count": count, "lastObservedTime": rfc3339_micro(last)}}


def shortened(note: str, limit: int = NOTE_BYTES) -> str:
    """Return `note` in at most `limit` bytes of UTF-8, with an ellipsis where it was cut."""
    data = note.encode()
    if len(data) <= limit:
        return note
    return data[: limit - 3].decode(errors="ignore") + "…"
