"""The field models of built-in kinds, made of the schemas that every server has."""

import functools
from collections.abc import Mapping
from typing import Any

from controller.managedfields.fieldmodel import FieldModel, SchemaDefinitions
from controller.managedfields.fieldset import Fields
from envtest.kinds import catalogue

# What Go writes of every object that has it, though it is unset; and what it writes beyond
# that of the kinds whose ownership tests and products look at.
_ALWAYS = ("metadata", "spec", "status")
_ZERO: Mapping[tuple[str, str], Mapping[str, Any]] = {
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
# What is thrown away when it is sent to an object, or to a subresource of it.
_RESET: Mapping[str, Fields] = {
    "": {"f:status": {}},
    "status": {"f:spec": {}},
    "finalize": {"f:status": {}},
}


def builtin_model(group: str, version: str, kind: str) -> FieldModel:
    """Return the model of a kind that every server has.

    Raises:
        KeyError: there is no such kind.
    """
    name = catalogue.schema_name(group, version, kind)
    fields = catalogue.schema(name).get("properties", {})
    zero: dict[str, Any] = {name: {} for name in _ALWAYS if name in fields}
    reset = _RESET if "status" in fields else {}
    return FieldModel(_definitions().node(name), {**zero, **_ZERO.get((group, kind), {})}, reset)


@functools.cache
def _definitions() -> SchemaDefinitions:
    """Return the built-in definitions, made into nodes as they are asked for."""
    return SchemaDefinitions(catalogue.schemas())
