"""A kind with three versions, and ConversionReviews as an API server sends them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controller import ObjectMeta, Resource
from controller.clock import Clock
from controller.webhooks import Conversion, Spoke
from tests.clock import VirtualClock

UID = "705ab4f5-6393-11e8-b7cc-42010a800003"
GROUP = "example.com"


@dataclass(frozen=True, slots=True)
class OldSpec:
    """Version v1: one size as a text, with its unit."""

    size: str = "0cm"
    color: str | None = None


@dataclass(frozen=True, slots=True)
class OldGizmo:
    """A Gizmo of v1."""

    metadata: ObjectMeta
    spec: OldSpec = OldSpec()


@dataclass(frozen=True, slots=True)
class GizmoSpec:
    """Version v2, the hub: numbers."""

    centimetres: int = 0
    color: str | None = None


@dataclass(frozen=True, slots=True)
class Gizmo:
    """A Gizmo of v2."""

    metadata: ObjectMeta
    spec: GizmoSpec = GizmoSpec()


GIZMOS = Resource(GROUP, "v2", "Gizmo", "gizmos", Gizmo)


def to_v2(old: OldGizmo) -> Gizmo:
    """Convert from v1: read the number of centimetres from the text."""
    return Gizmo(old.metadata, GizmoSpec(int(old.spec.size.removesuffix("cm")), old.spec.color))


def to_v1(new: Gizmo) -> OldGizmo:
    """Convert to v1: write the number of centimetres with its unit."""
    return OldGizmo(new.metadata, OldSpec(f"{new.spec.centimetres}cm", new.spec.color))


class NewestSpec(msgspec.Struct):
    """Version v3: millimetres."""

    millimetres: int = 0
    color: str | None = None


class NewestGizmo(msgspec.Struct):
    """A Gizmo of v3, whose type does not name the metadata."""

    spec: NewestSpec = msgspec.field(default_factory=NewestSpec)


def from_v3(newest: NewestGizmo) -> Gizmo:
    """Convert from v3, by division; the type of v3 does not name the metadata, which is kept."""
    return Gizmo(ObjectMeta(), GizmoSpec(newest.spec.millimetres // 10, newest.spec.color))


def to_v3(new: Gizmo) -> NewestGizmo:
    """Convert to v3, by multiplication."""
    return NewestGizmo(NewestSpec(new.spec.centimetres * 10, new.spec.color))


def create_gizmo_conversion() -> Conversion[Gizmo]:
    """Return the conversion between the three versions of Gizmo; v2 is the hub."""
    old = Spoke("v1", OldGizmo, to_hub=to_v2, from_hub=to_v1)
    return Conversion(
        "/convert-gizmo",
        GIZMOS,
        Gizmo,
        old,
        Spoke("v3", NewestGizmo, to_hub=from_v3, from_hub=to_v3),
    )


def build_gizmo(
    version: str, spec: Mapping[str, Any], name: str = "a", **meta: Any
) -> dict[str, Any]:
    """Return a Gizmo as an API server sends it; `meta` overrides its metadata."""
    own = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    traced = {"managedFields": [{"manager": "kubectl", "apiVersion": f"{GROUP}/{version}"}]}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gizmo",
        "metadata": {**own, "creationTimestamp": "2026-01-01T00:00:00Z", **traced, **meta},
        "spec": dict(spec),
    }


def build_review(desired: str, *objects: Mapping[str, Any], version: str = "v1") -> bytes:
    """Return the request to convert `objects` to version `desired`."""
    request = {"uid": UID, "desiredAPIVersion": f"{GROUP}/{desired}", "objects": list(objects)}
    return msgspec.json.encode(
        {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{version}",
            "request": request,
        }
    )


async def ask(
    conversion: Conversion[Any], body: bytes, clock: Clock | None = None
) -> tuple[dict[str, Any], bool]:
    """Return the whole review that `conversion` answers with, and whether it counts as a bug."""
    answer, failed = await conversion.answer(body, clock or VirtualClock(), 10)
    return msgspec.json.decode(answer), failed


async def convert_objects(
    conversion: Conversion[Any], desired: str, *objects: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the converted objects of an answer that has to be a success."""
    answer, _ = await ask(conversion, build_review(desired, *objects))
    response = answer["response"]
    assert response["result"] == {"status": "Success"}, response
    assert response["uid"] == UID
    objects_converted: list[dict[str, Any]] = response["convertedObjects"]
    return objects_converted


async def read_failure(
    conversion: Conversion[Any], desired: str, *objects: Mapping[str, Any]
) -> tuple[str, bool]:
    """Return the message of an answer that has to be a failure, and whether it counts as a bug."""
    answer, failed = await ask(conversion, build_review(desired, *objects))
    response = answer["response"]
    assert (response["uid"], response["convertedObjects"]) == (UID, [])
    assert response["result"]["status"] == "Failure"
    return response["result"]["message"], failed
