"""Metadata as Go writes its struct, for texts that quote it: fields in the order of the type."""

from collections.abc import Mapping
from typing import Any

# The order in which Go writes the fields of ObjectMeta and of a managedFields entry.
_META_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_ENTRY_ORDER = (
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
    "subresource",
)


def as_struct(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with its fields, and those of its managers' entries, in Go's order."""
    shown = _ordered(meta, _META_ORDER)
    entries = shown.get("managedFields")
    if isinstance(entries, list):
        shown["managedFields"] = [_ordered(entry, _ENTRY_ORDER) for entry in entries]
    return shown


def _ordered(body: Mapping[str, Any], order: tuple[str, ...]) -> dict[str, Any]:
    rest = [name for name in body if name not in order]
    return {name: body[name] for name in (*order, *rest) if name in body}
