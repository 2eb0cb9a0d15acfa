"""Annotations of an object whose write is reviewed: in its JSON, and in the language CEL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.codec import DECODE_ERRORS


@dataclass(frozen=True, slots=True)
class _AnnotatedMeta:
    """The metadata of an object, of which only the annotations are decoded."""

    annotations: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _AnnotatedObject:
    """An object of which only the annotations are decoded."""

    metadata: _AnnotatedMeta = field(default_factory=_AnnotatedMeta)


_decode = msgspec.json.Decoder(_AnnotatedObject).decode


def decode_annotations(body: bytes) -> Mapping[str, Any]:
    """Return the annotations of an object in JSON.

    Empty if the object has none, if there is no object (as before a creation), or if its metadata
    cannot be read: the API server stores no such metadata.
    """
    if not body:
        return {}
    try:
        return _decode(body).metadata.annotations or {}
    except DECODE_ERRORS:
        return {}


def build_has_annotation(variable: str, annotation: str) -> str:
    """Return the CEL expression of whether the object in a variable has an annotation."""
    path = f"{variable}.metadata.annotations"
    return f"has({path}) && '{annotation}' in {path}"
