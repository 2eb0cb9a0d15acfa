"""The kinds of these cases, and objects of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from controller import Client, ObjectMeta, Resource, Version
from tests.envtest.samples import GROUP, build_definition

HOLD = "lab.example.com/hold"
"""A finalizer."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A custom object, of any kind of this module but ConfigMap."""

    metadata: ObjectMeta
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap with its data."""

    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict)


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_BOARD = {"type": "object", "properties": {"name": _TEXT, "width": {"type": "integer"}}}
_CONDITION = {"type": "object", "properties": {"type": _TEXT, "status": _TEXT}}
SHELF_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "place": _TEXT,
                "rows": {**_TEXTS, "x-kubernetes-list-type": "atomic"},
                "tags": {**_TEXTS, "x-kubernetes-list-type": "set"},
                "boards": {
                    "type": "array",
                    "items": {**_BOARD, "required": ["name"]},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "items": {**_CONDITION, "required": ["type"]},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
            },
        },
    },
}
SHELF_CRD = build_definition(
    {"plural": "shelves", "singular": "shelf", "kind": "Shelf"},
    SHELF_SCHEMA,
    subresources={"status": {}},
)
PLAIN_CRD = build_definition(
    {"plural": "plains", "singular": "plain", "kind": "Plain"}, SHELF_SCHEMA
)
GAUGES = Resource(GROUP, "v1", "Gauge", "gauges", Gauge)
SHELVES = Resource(GROUP, "v1", "Shelf", "shelves", Gauge)
PLAINS = Resource(GROUP, "v1", "Plain", "plains", Gauge)
"""A custom kind whose definition has no subresource `status`."""
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
SCALES = Resource(GROUP, "v1", "Scale", "gauges", Gauge)
MISSING = Resource(GROUP, "v1", "Missing", "missing", Gauge)


def make_gauge_body(
    name: str = "a", *, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a body for the creation of a Gauge; `spec` overrides the fields of its spec."""
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"count": 1, "place": "hall", **spec},
    }


async def create_gauge(client: Client, name: str = "a", **spec: Any) -> Gauge:
    """Create a Gauge in namespace `default`; `spec` overrides the fields of its spec."""
    return await client.create(GAUGES, "default", make_gauge_body(name, **spec))


def get_version(obj: Gauge | ConfigMap) -> Version:
    """Return the version of an object, as the precondition of a write to it."""
    return Version.from_object(obj)


def list_names(gauges: Sequence[Gauge]) -> list[str]:
    """Return the names of gauges, in their order."""
    return [gauge.metadata.name for gauge in gauges]
