"""Ownership of the number of replicas, as it looks from the object and from its scale subresource.

The scale object stores nothing: who owns `spec.replicas` of it owns the path that stands for it
in the object. So entries are translated on the way in and on the way out.
"""

import functools
from collections.abc import Mapping
from typing import Any

from envtest.patching import entries, fieldset
from envtest.patching.entries import Managed, Owned
from envtest.patching.fieldmodel import FieldModel
from envtest.patching.fieldset import Fields

SCALE_VERSION = "autoscaling/v1"
_REPLICAS: Fields = {"f:spec": {"f:replicas": {}}}
_NUMBER = {"type": "integer", "format": "int32"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"replicas": _NUMBER}},
        "status": {
            "type": "object",
            "properties": {"replicas": _NUMBER, "selector": {"type": "string"}},
        },
    },
}


@functools.cache
def scale_model() -> FieldModel:
    """Return the model of autoscaling/v1 Scale, which all scale subresources speak."""
    root = FieldModel.from_schema(_SCHEMA).root
    return FieldModel(root, {"metadata": {}, "spec": {}, "status": {"replicas": 0}})


def to_scale(parent: list[dict[str, Any]], paths: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the entries of a scale object.

    Args:
        parent: the entries of the object.
        paths: by apiVersion of the object, where its replicas are, such as `.spec.replicas`.
    """
    found: Managed = {}
    for who, owned in entries.trusted(parent).items():
        path = _path(paths.get(owned.api_version))
        if path and fieldset.has(owned.fields, path):
            found[who] = Owned(_REPLICAS, SCALE_VERSION, owned.time)
    return entries.encoded(found)


def from_scale(
    parent: list[dict[str, Any]],
    scale: list[dict[str, Any]],
    api_version: str,
    paths: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return the entries of an object after a write to its scale.

    Args:
        parent: the entries of the object before.
        scale: the entries of the scale object after.
        api_version: the version of the object that the request was for.
        paths: by apiVersion of the object, where its replicas are.
    """
    before, after = entries.trusted(parent), entries.trusted(scale)
    kept: Managed = {}
    for who, owned in before.items():
        if owned.api_version not in paths:
            continue
        path = _path(paths[owned.api_version])
        owns = bool(path) and fieldset.has(owned.fields, path)
        if not owns or after.pop(who, None) is not None:
            kept[who] = owned
        else:
            left = fieldset.difference(owned.fields, _single(path))
            if left:
                kept[who] = Owned(left, owned.api_version, owned.time)
    for who, owned in after.items():
        if fieldset.has(owned.fields, ("f:spec", "f:replicas")):
            # Such entries bear no time: the real server looks it up under another name.
            old = before.get(who)
            fields = _single(_path(paths.get(api_version)))
            kept[who] = Owned(fields, api_version, old.time if old else None)
    return entries.encoded(kept)


def _path(text: str | None) -> tuple[str, ...]:
    """Return the path elements of a simple JSONPath, none for None."""
    return tuple(f"f:{name}" for name in (text or "").split(".") if name)


def _single(path: tuple[str, ...]) -> Fields:
    """Return the set that holds one path."""
    fields: Fields = {}
    for element in reversed(path):
        fields = {element: fields}
    return fields
