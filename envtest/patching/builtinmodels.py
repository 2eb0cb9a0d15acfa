"""The field models of built-in kinds, built from the schemas in the catalogue."""

import functools
from collections.abc import Mapping
from typing import Any

from controller.managedfields.fieldmodel import FieldModel, SchemaDefinitions
from controller.managedfields.fieldset import Fields
from envtest.kinds import catalogue

# Fields that Go encodes although they are unset, because they have no omitempty: those of every
# kind that has them, and those of kinds whose managedFields matter to tests and products.
_ALWAYS_WRITTEN = ("metadata", "spec", "status")
_UNSET: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("", "Event"): {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    ("events.k8s.io", "Event"): {
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    ("", "Service"): {"status": {"loadBalancer": {}}},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        },
    },
    ("rbac.authorization.k8s.io", "ClusterRole"): {"rules": None},
    ("rbac.authorization.k8s.io", "Role"): {"rules": None},
}
# Subresource (empty for the object itself) -> fields that the server ignores in a write to it.
_IGNORED: Mapping[str, Fields] = {
    "": {"f:status": {}},
    "status": {"f:spec": {}},
    "finalize": {"f:status": {}},
}


def load_builtin_model(group: str, version: str, kind: str) -> FieldModel:
    """Return the field model of a built-in kind.

    Raises:
        KeyError: there is no such kind.
    """
    name = catalogue.build_schema_name(group, version, kind)
    fields = catalogue.get_schema(name).get("properties", {})
    unset: dict[str, Any] = {name: {} for name in _ALWAYS_WRITTEN if name in fields}
    ignored = _IGNORED if "status" in fields else {}
    return FieldModel(
        _load_definitions().get_node(name), {**unset, **_UNSET.get((group, kind), {})}, ignored
    )


@functools.cache
def _load_definitions() -> SchemaDefinitions:
    """Return the built-in definitions, whose nodes are built on first use."""
    return SchemaDefinitions(catalogue.get_schemas())
