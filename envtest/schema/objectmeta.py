"""ObjectMeta of custom resources: conversion and validation.

The server decodes the metadata of an object, and of each embedded resource, into Go's struct and
encodes it again. `coerce_metadata` has the same effect on decoded JSON.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from envtest.memo import remember_results
from envtest.schema import names
from envtest.schema.errors import FieldError, build_invalid_error, build_too_long_error

_ANNOTATIONS_MAX: Final = 256 * 1024
_STRING = "string"
_MAP = "map[string]string"
_OWNER = {
    "apiVersion": _STRING,
    "blockOwnerDeletion": "bool",
    "controller": "bool",
    "kind": _STRING,
    "name": _STRING,
    "uid": "types.UID",
}
_MANAGER = {
    "apiVersion": _STRING,
    "fieldsType": _STRING,
    "fieldsV1": "any",
    "manager": _STRING,
    "operation": "v1.ManagedFieldsOperationType",
    "subresource": _STRING,
    "time": "time",
}
_META: Mapping[str, str] = {
    "annotations": _MAP,
    "creationTimestamp": "time",
    "deletionGracePeriodSeconds": "int64",
    "deletionTimestamp": "time",
    "finalizers": "[]string",
    "generateName": _STRING,
    "generation": "int64",
    "labels": _MAP,
    "managedFields": "[]v1.ManagedFieldsEntry",
    "name": _STRING,
    "namespace": _STRING,
    "ownerReferences": "[]v1.OwnerReference",
    "resourceVersion": _STRING,
    "selfLink": _STRING,
    "uid": "types.UID",
}
_STRUCT_LISTS = {
    "managedFields": ("ManagedFieldsEntry", _MANAGER),
    "ownerReferences": ("OwnerReference", _OWNER),
}
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ABSENT: Final = object()
_EMPTY: tuple[Any, ...] = ("", 0, [], {})
_JSON_TYPES = {
    bool: "bool",
    str: "string",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
}
_STRING_TYPES = frozenset({_STRING, "types.UID", "v1.ManagedFieldsOperationType"})
_STRING_FIELDS = frozenset(name for name, go_type in _META.items() if go_type in _STRING_TYPES)
_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII
)


class MalformedMetadata(ValueError):
    """Metadata of the wrong shape; the message is that of Go's JSON decoder."""


def coerce_metadata(metadata: Any, path: str, old: Mapping[str, Any] = _NOTHING) -> list[str]:
    """Drop unknown, null and empty fields from `metadata`, and normalize the others, in place.

    Args:
        metadata: the decoded value.
        old: metadata that was coerced before; fields that are the same Python object there are
            skipped.

    Returns:
        The paths of the dropped unknown fields (`metadata.foo`), sorted.

    Raises:
        MalformedMetadata: it is no object, or a field does not have its type of ObjectMeta.
    """
    unknown: list[str] = []
    if not isinstance(metadata, dict):
        go_type = _JSON_TYPES.get(type(metadata), "null")
        message = f"json: cannot unmarshal {go_type} into Go value of type v1.ObjectMeta"
        raise MalformedMetadata(message)
    # Most changed fields are non-empty strings of a string field, which need no conversion.
    changed = [
        name
        for name, value in metadata.items()
        if old.get(name, _ABSENT) is not value
        and not (type(value) is str and value and name in _STRING_FIELDS)
    ]
    if not changed:
        return []
    _coerce_struct(
        metadata, "ObjectMeta", fields=_META, path=path, unknown=unknown, members=changed
    )
    # Go omits empty fields when it encodes the struct. A pointer to 0 is not empty.
    for name in changed:
        if metadata.get(name, _ABSENT) in _EMPTY and name != "deletionGracePeriodSeconds":
            del metadata[name]
    return sorted(unknown)


def _coerce_struct(
    value: dict[str, Any],
    struct: str,
    fields: Mapping[str, str],
    path: str,
    unknown: list[str],
    members: Iterable[str],
) -> None:
    """Convert some fields of a Go struct in place; append the paths of unknown fields.

    Args:
        value: the decoded struct.
        struct: its name in Go.
        fields: its fields, with their Go types.
        unknown: the list of unknown fields.
        members: the fields of `value` to convert.
    """
    # Go names fields after the outer struct, such as ObjectMeta.name,
    # OwnerReference.ownerReferences.
    prefix = (
        "ObjectMeta"
        if struct == "ObjectMeta"
        else f"{struct}.{path.rpartition('.')[2].split('[')[0]}"
    )
    for name in sorted(members):
        go_type = fields.get(name)
        if go_type is None:
            unknown.append(f"{path}.{name}")
            del value[name]
        elif value[name] is None:
            del value[name]
        else:
            _coerce_field(value, name, go_type=go_type, prefix=prefix)
            _coerce_items(value, name, path=path, unknown=unknown)


def _coerce_items(value: dict[str, Any], name: str, path: str, unknown: list[str]) -> None:
    """Convert the items of managedFields or ownerReferences in place; leave other fields."""
    if name not in _STRUCT_LISTS:
        return
    struct, fields = _STRUCT_LISTS[name]
    for index, item in enumerate(value[name]):
        if item is None:
            # Go's decoder reads null as an empty struct.
            item = value[name][index] = {}  # noqa: PLW2901
        if not isinstance(item, dict):
            raise _build_mismatch(item, f"ObjectMeta.{name}", f"v1.{struct}")
        _coerce_struct(
            item,
            struct,
            fields=fields,
            path=f"{path}.{name}[{index}]",
            unknown=unknown,
            members=list(item),
        )


def _coerce_field(value: dict[str, Any], name: str, go_type: str, prefix: str) -> None:
    """Convert one metadata field in place; raise MalformedMetadata for a wrong type."""
    item = value[name]
    location = f"{prefix}.{name}"
    if go_type in _STRING_TYPES and not isinstance(item, str):
        raise _build_mismatch(item, location, go_type)
    if go_type == "bool" and not isinstance(item, bool):
        raise _build_mismatch(item, location, go_type)
    # Of the wrong values, Go's message quotes only a number with a fraction.
    if go_type == "int64" and (isinstance(item, bool) or not isinstance(item, int)):
        raise _build_mismatch(item, location, go_type, shows_value=isinstance(item, float))
    if go_type == "time":
        value[name] = _convert_time(item, location)
    elif go_type == _MAP:
        _coerce_map(item, location)
    elif go_type.startswith("[]"):
        _coerce_list(item, location, go_type)


def _coerce_map(value: Any, location: str) -> None:
    """Convert a map of strings in place; Go's decoder reads null as an empty string."""
    if not isinstance(value, dict):
        raise _build_mismatch(value, location, _MAP)
    for key, item in sorted(value.items()):
        if item is None:
            value[key] = ""
        elif not isinstance(item, str):
            raise _build_mismatch(item, location, _STRING)


def _coerce_list(value: Any, location: str, go_type: str) -> None:
    """Convert a list in place; `_coerce_items` converts the structs in it."""
    if not isinstance(value, list):
        raise _build_mismatch(value, location, go_type)
    if go_type == "[]string":
        for index, item in enumerate(value):
            if item is None:
                value[index] = ""
            elif not isinstance(item, str):
                raise _build_mismatch(item, location, _STRING)


def _build_mismatch(
    value: Any, location: str, go_type: str, *, shows_value: bool = False
) -> MalformedMetadata:
    """Return Go's error for a value of the wrong type.

    Args:
        location: the field, as Go names it.
        go_type: the type of the field.
        shows_value: whether Go's message has the value: for a number that is no integer.
    """
    actual = _JSON_TYPES.get(type(value), "null") + (f" {value}" if shows_value else "")
    return MalformedMetadata(
        f"json: cannot unmarshal {actual} into Go struct field {location} of type {go_type}"
    )


def _convert_time(value: Any, location: str) -> str:
    """Return an RFC 3339 time as the server prints it; refuse other values."""
    if not isinstance(value, str):
        raise _build_mismatch(value, location, _STRING)
    return _format_time(value)


@remember_results(1024)
def _format_time(value: str) -> str:
    """Return a time in UTC with whole seconds; cached, because many objects have equal times."""
    if not _RFC3339.fullmatch(value):
        layout = "2006-01-02T15:04:05Z07:00"
        raise MalformedMetadata(f'parsing time "{value}" as "{layout}": cannot parse it')
    try:
        moment = datetime.datetime.fromisoformat(value).astimezone(datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError) as error:
        raise MalformedMetadata(f'parsing time "{value}": {error}') from error


def find_embedded_metadata_errors(metadata: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors of labels, annotations, owner references and finalizers.

    The caller validates names.
    """
    out: list[FieldError] = []
    add_owner_errors(metadata.get("ownerReferences") or [], f"{path}.ownerReferences", out)
    for finalizer in metadata.get("finalizers") or []:
        out += [
            build_invalid_error(f"{path}.finalizers", finalizer, problem)
            for problem in names.find_qualified_name_errors(finalizer)
        ]
    add_label_errors(metadata.get("labels") or {}, f"{path}.labels", out)
    add_annotation_errors(metadata.get("annotations") or {}, f"{path}.annotations", out)
    return out


def add_label_errors(labels: Mapping[str, str], path: str, out: list[FieldError]) -> None:
    """Append the errors of label keys and values."""
    for key, value in sorted(labels.items()):
        out += [
            build_invalid_error(path, key, problem)
            for problem in names.find_qualified_name_errors(key)
        ]
        out += [
            build_invalid_error(path, value, problem)
            for problem in names.find_label_value_errors(value)
        ]


def add_annotation_errors(
    annotations: Mapping[str, str], path: str, out: list[FieldError]
) -> None:
    """Append the errors of annotation keys, and of their size together (256 KiB)."""
    for key in sorted(annotations):
        # As in ValidateAnnotations, case does not matter.
        out += [
            build_invalid_error(path, key, problem)
            for problem in names.find_qualified_name_errors(key.lower())
        ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_MAX:
        out.append(build_too_long_error(path, _ANNOTATIONS_MAX))


def add_owner_errors(owners: list[dict[str, Any]], path: str, out: list[FieldError]) -> None:
    """Append the errors of owner references: missing fields, and a second controller."""
    controller: dict[str, Any] | None = None
    for owner in owners:
        _add_owner_error(owner, path, out)
        # Several owners are allowed, but only one controller.
        if owner.get("controller") is not True:
            continue
        if controller is not None:
            pair = f"{controller.get('kind', '')}/{controller.get('name', '')} and "
            pair += f"{owner.get('kind', '')}/{owner.get('name', '')}"
            detail = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {pair}'
            )
            out.append(build_invalid_error(path, owners, detail))
        else:
            controller = owner


def _add_owner_error(owner: dict[str, Any], path: str, out: list[FieldError]) -> None:
    """Append the errors of one owner reference."""
    version = str(owner.get("apiVersion", ""))
    group, _, version_name = version.rpartition("/")
    if not version_name or version.count("/") > 1:
        out.append(build_invalid_error(f"{path}.apiVersion", version, "version must not be empty"))
    out += [
        build_invalid_error(f"{path}.{name}", "", "must not be empty")
        for name in ("kind", "name", "uid")
        if not owner.get(name)
    ]
    # The only kind that may not be an owner (BannedOwners of apimachinery).
    if owner.get("kind") == "Event" and version_name == "v1" and group in {"", "events.k8s.io"}:
        detail = f"{group}/{version_name}, Kind=Event is disallowed from being an owner"
        out.append(build_invalid_error(path, owner, detail))
