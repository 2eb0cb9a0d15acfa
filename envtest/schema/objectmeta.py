"""ObjectMeta: reading it from JSON as the server's typed decoder does, and validating it.

Custom resources carry it at their root and wherever a schema says
`x-kubernetes-embedded-resource`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from envtest.memo import remember_results
from envtest.schema import names
from envtest.schema.errors import FieldError, invalid, too_long

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
_LISTED = {
    "managedFields": ("ManagedFieldsEntry", _MANAGER),
    "ownerReferences": ("OwnerReference", _OWNER),
}
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ABSENT: Final = object()
_EMPTY: tuple[Any, ...] = ("", 0, [], {})
_KINDS = {
    bool: "bool",
    str: "string",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
}
_TEXTUAL = frozenset({_STRING, "types.UID", "v1.ManagedFieldsOperationType"})
_TEXTS = frozenset(name for name, kind in _META.items() if kind in _TEXTUAL)
_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII
)


class MalformedMetadata(ValueError):
    """Metadata of the wrong shape; the text is what Go's JSON decoder says."""


def coerce(metadata: Any, path: str, old: Mapping[str, Any] = _NOTHING) -> list[str]:
    """Drop unknown fields, nulls and what is empty from `metadata`, in place.

    Args:
        metadata: what was decoded.
        path: where it stands.
        old: metadata that has been through this; values that are the very same are left out.

    Returns:
        The paths of the dropped unknown fields (`metadata.foo`), sorted.

    Raises:
        MalformedMetadata: it is no object, or a field has another type than ObjectMeta gives it.
    """
    unknown: list[str] = []
    if not isinstance(metadata, dict):
        kind = _KINDS.get(type(metadata), "null")
        message = f"json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta"
        raise MalformedMetadata(message)
    # Nothing is to be done about a text that is one, as most of what changes is.
    changed = [
        name
        for name, value in metadata.items()
        if old.get(name, _ABSENT) is not value
        and not (type(value) is str and value and name in _TEXTS)
    ]
    if not changed:
        return []
    _coerce_struct(
        metadata, "ObjectMeta", fields=_META, path=path, unknown=unknown, members=changed
    )
    # A Go struct writes none of its empty fields back, but for what is a pointer.
    for name in changed:
        if metadata.get(name, _ABSENT) in _EMPTY and name != "deletionGracePeriodSeconds":
            del metadata[name]
    return sorted(unknown)


def _coerce_struct(  # one struct, and how to speak of it
    value: dict[str, Any],
    struct: str,
    fields: Mapping[str, str],
    path: str,
    unknown: list[str],
    members: Iterable[str],
) -> None:
    prefix = (
        "ObjectMeta"
        if struct == "ObjectMeta"
        else f"{struct}.{path.rpartition('.')[2].split('[')[0]}"
    )
    for name in sorted(members):
        kind = fields.get(name)
        if kind is None:
            unknown.append(f"{path}.{name}")
            del value[name]
        elif value[name] is None:
            del value[name]
        else:
            _coerce_field(value, name, kind=kind, prefix=prefix)
            _coerce_items(value, name, path=path, unknown=unknown)


def _coerce_items(value: dict[str, Any], name: str, path: str, unknown: list[str]) -> None:
    if name not in _LISTED:
        return
    struct, fields = _LISTED[name]
    for index, item in enumerate(value[name]):
        if item is None:
            item = value[name][index] = {}  # noqa: PLW2901  # as Go reads null
        if not isinstance(item, dict):
            raise _mismatch(item, f"ObjectMeta.{name}", f"v1.{struct}")
        _coerce_struct(
            item,
            struct,
            fields=fields,
            path=f"{path}.{name}[{index}]",
            unknown=unknown,
            members=list(item),
        )


def _coerce_field(value: dict[str, Any], name: str, kind: str, prefix: str) -> None:
    """Convert one metadata field in place; raise MalformedMetadata for a wrong type."""
    item = value[name]
    where = f"{prefix}.{name}"
    if kind in _TEXTUAL and not isinstance(item, str):
        raise _mismatch(item, where, kind)
    if kind == "bool" and not isinstance(item, bool):
        raise _mismatch(item, where, kind)
    if kind == "int64" and (isinstance(item, bool) or not isinstance(item, int)):
        raise _mismatch(item, where, kind, shows_value=isinstance(item, float))
    if kind == "time":
        value[name] = _time(item, where)
    elif kind == _MAP:
        _coerce_map(item, where)
    elif kind.startswith("[]"):
        _coerce_list(item, where, kind)


def _coerce_map(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise _mismatch(value, where, _MAP)
    for key, item in sorted(value.items()):
        if item is None:
            value[key] = ""
        elif not isinstance(item, str):
            raise _mismatch(item, where, _STRING)


def _coerce_list(value: Any, where: str, kind: str) -> None:
    if not isinstance(value, list):
        raise _mismatch(value, where, kind)
    if kind == "[]string":
        for index, item in enumerate(value):
            if item is None:
                value[index] = ""
            elif not isinstance(item, str):
                raise _mismatch(item, where, _STRING)


def _mismatch(
    value: Any, where: str, kind: str, *, shows_value: bool = False
) -> MalformedMetadata:
    actual = _KINDS.get(type(value), "null") + (f" {value}" if shows_value else "")
    return MalformedMetadata(
        f"json: cannot unmarshal {actual} into Go struct field {where} of type {kind}"
    )


def _time(value: Any, where: str) -> str:
    """Return an RFC 3339 time as the server prints it: UTC, whole seconds."""
    if not isinstance(value, str):
        raise _mismatch(value, where, _STRING)
    return _instant(value)


@remember_results(1024)
def _instant(value: str) -> str:
    """Return the server's text of a time; the same few times stand in object after object."""
    if not _RFC3339.fullmatch(value):
        layout = "2006-01-02T15:04:05Z07:00"
        raise MalformedMetadata(f'parsing time "{value}" as "{layout}": cannot parse it')
    try:
        moment = datetime.datetime.fromisoformat(value).astimezone(datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError) as error:
        raise MalformedMetadata(f'parsing time "{value}": {error}') from error


def validate(metadata: Mapping[str, Any], path: str) -> list[FieldError]:
    """Validate labels, annotations, owner references and finalizers.

    The caller validates names.
    """
    out: list[FieldError] = []
    check_owners(metadata.get("ownerReferences") or [], f"{path}.ownerReferences", out)
    for finalizer in metadata.get("finalizers") or []:
        out += [
            invalid(f"{path}.finalizers", finalizer, problem)
            for problem in names.qualified_name_errors(finalizer)
        ]
    check_labels(metadata.get("labels") or {}, f"{path}.labels", out)
    check_annotations(metadata.get("annotations") or {}, f"{path}.annotations", out)
    return out


def check_labels(labels: Mapping[str, str], path: str, out: list[FieldError]) -> None:
    """Append the errors of label keys and values."""
    for key, value in sorted(labels.items()):
        out += [invalid(path, key, problem) for problem in names.qualified_name_errors(key)]
        out += [invalid(path, value, problem) for problem in names.label_value_errors(value)]


def check_annotations(annotations: Mapping[str, str], path: str, out: list[FieldError]) -> None:
    """Append the errors of annotation keys, and of their size together (256 KiB)."""
    for key in sorted(annotations):
        # Keys are validated without regard to case.
        out += [
            invalid(path, key, problem) for problem in names.qualified_name_errors(key.lower())
        ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_MAX:
        out.append(too_long(path, _ANNOTATIONS_MAX))


def check_owners(owners: list[dict[str, Any]], path: str, out: list[FieldError]) -> None:
    """Append the errors of owner references: incomplete ones, a second controller."""
    controller: dict[str, Any] | None = None
    for owner in owners:
        _check_owner(owner, path, out)
        if owner.get("controller") is not True:
            continue
        if controller is not None:
            pair = f"{controller.get('kind', '')}/{controller.get('name', '')} and "
            pair += f"{owner.get('kind', '')}/{owner.get('name', '')}"
            detail = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {pair}'
            )
            out.append(invalid(path, owners, detail))
        else:
            controller = owner


def _check_owner(owner: dict[str, Any], path: str, out: list[FieldError]) -> None:
    """Append the errors of one owner reference."""
    version = str(owner.get("apiVersion", ""))
    group, _, short = version.rpartition("/")
    if not short or version.count("/") > 1:
        out.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
    for name in ("kind", "name", "uid"):
        if owner.get(name):
            continue
        out.append(invalid(f"{path}.{name}", "", "must not be empty"))
    if owner.get("kind") == "Event" and short == "v1" and group in {"", "events.k8s.io"}:
        detail = f"{group}/{short}, Kind=Event is disallowed from being an owner"
        out.append(invalid(path, owner, detail))
