"""The schema of metadata as servers publish it: it says how labels, finalizers, owners are owned.

It is part of the OpenAPI document of Kubernetes; a test compares it with `envtest/kinds`.
"""

from collections.abc import Mapping
from typing import Any, Final

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META: Final = f"{_META}ObjectMeta"

_STRING: Final = {"type": "string"}
_TEXT: Final = {"default": "", "type": "string"}
_INT64: Final = {"format": "int64", "type": "integer"}
_TEXTS_BY_NAME: Final = {"additionalProperties": _TEXT, "type": "object"}


def _make_reference(name: str) -> dict[str, Any]:
    """Return a reference to another schema of this module, as kube-apiserver writes it."""
    return {"allOf": [{"$ref": f"#/components/schemas/{_META}{name}"}]}


SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    OBJECT_META: {
        "type": "object",
        "properties": {
            "annotations": _TEXTS_BY_NAME,
            "creationTimestamp": _make_reference("Time"),
            "deletionGracePeriodSeconds": _INT64,
            "deletionTimestamp": _make_reference("Time"),
            "finalizers": {
                "type": "array",
                "items": _TEXT,
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": _STRING,
            "generation": _INT64,
            "labels": _TEXTS_BY_NAME,
            "managedFields": {
                "type": "array",
                "items": _make_reference("ManagedFieldsEntry"),
                "x-kubernetes-list-type": "atomic",
            },
            "name": _STRING,
            "namespace": _STRING,
            "ownerReferences": {
                "type": "array",
                "items": _make_reference("OwnerReference"),
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "uid",
                "x-kubernetes-patch-strategy": "merge",
            },
            "resourceVersion": _STRING,
            "selfLink": _STRING,
            "uid": _STRING,
        },
    },
    f"{_META}Time": {"format": "date-time", "type": "string"},
    f"{_META}FieldsV1": {"type": "object"},
    f"{_META}ManagedFieldsEntry": {
        "type": "object",
        "properties": {
            "apiVersion": _STRING,
            "fieldsType": _STRING,
            "fieldsV1": _make_reference("FieldsV1"),
            "manager": _STRING,
            "operation": _STRING,
            "subresource": _STRING,
            "time": _make_reference("Time"),
        },
    },
    f"{_META}OwnerReference": {
        "type": "object",
        "properties": {
            "apiVersion": _TEXT,
            "blockOwnerDeletion": {"type": "boolean"},
            "controller": {"type": "boolean"},
            "kind": _TEXT,
            "name": _TEXT,
            "uid": _TEXT,
        },
        "required": ["apiVersion", "kind", "name", "uid"],
        "x-kubernetes-map-type": "atomic",
    },
}
