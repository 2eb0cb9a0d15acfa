"""A small CRD and an object of it, for tests that need some kind of their own."""

import copy
from collections.abc import Mapping
from typing import Any

GROUP = "lab.example.com"
PATH = f"/apis/{GROUP}/v1/namespaces/default/gauges"


def build_definition(
    names: Mapping[str, Any], schema: Mapping[str, Any], **version: Any
) -> dict[str, Any]:
    """Return the CRD of a namespaced kind that has one version.

    Args:
        names: as in the CRD's spec.
        schema: its OpenAPI v3 schema.
        version: what else the version has.
    """
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**v1, **version}],
        },
    }


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What is measured.",
            "properties": {
                "count": {"type": "integer", "default": 1, "minimum": 0},
                "place": {"type": "string", "description": "Where it hangs."},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "type": {"type": "string"},
                            "status": {"type": "string"},
                        },
                    },
                },
            },
        },
    },
}
_CRD = build_definition(
    {"plural": "gauges", "singular": "gauge", "kind": "Gauge", "shortNames": ["ga"]},
    _SCHEMA,
    subresources={
        "status": {},
        "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"},
    },
    selectableFields=[{"jsonPath": ".spec.place"}],
    additionalPrinterColumns=[{"name": "Count", "type": "integer", "jsonPath": ".spec.count"}],
)


def build_gauge_definition() -> dict[str, Any]:
    """Return a copy of the CRD of gauges, which a test may change."""
    return copy.deepcopy(_CRD)


def build_gauge(name: str, **spec: Any) -> dict[str, Any]:
    """Return a gauge with the fields of `spec`."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gauge",
        "metadata": {"name": name},
        "spec": spec,
    }
