"""A kind in two versions: in v1 the size of a gear is a text, in v2 an amount and a unit."""

import json
from typing import Any

GROUP = "parts.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/gears.{GROUP}"
V1 = f"/apis/{GROUP}/v1/namespaces/default/gears"
V2 = f"/apis/{GROUP}/v2/namespaces/default/gears"

_TEXT: dict[str, Any] = {"type": "string"}
_SIZES: dict[str, Any] = {
    "v1": _TEXT,
    "v2": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "unit": {**_TEXT, "default": "mm"}},
    },
}
# Not the same in both: kube-apiserver 1.36 takes those for fields of all versions, which it
# accepts only where all versions have one schema, too.
_SELECTABLE = {"v1": [".spec.maker"], "v2": [".spec.maker", ".status.turns"]}


def build_gear_definition(
    *, storage: str = "v1", conversion: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of gears; `storage` is the version that is stored."""
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": path} for path in _SELECTABLE[name]],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {"size": size, "maker": _TEXT},
                        },
                        "status": {"type": "object", "properties": {"turns": {"type": "integer"}}},
                    },
                }
            },
        }
        for name, size in _SIZES.items()
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gears.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": json.loads(json.dumps(versions)),
            "conversion": conversion or {"strategy": "None"},
        },
    }


def build_gear(name: str, size: Any = "3mm", version: str = "v1", **spec: Any) -> dict[str, Any]:
    """Return a gear with a size in the form of its version."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gear",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }
