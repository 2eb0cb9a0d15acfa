"""Embedded objects (`x-kubernetes-embedded-resource`): their apiVersion, kind and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from envtest.schema import names, objectmeta
from envtest.schema.errors import FieldError, build_invalid_error, build_required_error


class MalformedObject(ValueError):
    """An embedded object whose apiVersion, kind or metadata has the wrong type."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(error.message)
        self.error = error


class EmbeddedNode:
    """A schema node at or below which there is an embedded object; `compile` skips other nodes."""

    __slots__ = ("_additional", "_is_embedded", "_items", "_properties")

    def __init__(
        self,
        is_embedded: bool,
        properties: Mapping[str, Self],
        additional: Self | None,
        items: Self | None,
    ) -> None:
        self._is_embedded = is_embedded
        self._properties = properties
        self._additional = additional
        self._items = items

    @classmethod
    def compile(cls, schema: object) -> Self | None:
        """Return the node of a schema; None if no embedded object is at or below it."""
        if not isinstance(schema, Mapping):
            return None
        is_embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        compiled = {
            name: cls.compile(child) for name, child in (schema.get("properties") or {}).items()
        }
        properties = {name: node for name, node in compiled.items() if node is not None}
        additional = cls.compile(schema.get("additionalProperties"))
        items = cls.compile(schema.get("items"))
        if not is_embedded and not properties and additional is None and items is None:
            return None
        return cls(is_embedded, properties, additional=additional, items=items)

    def coerce_objects(self, value: Any, path: str, unknown: list[str]) -> None:
        """Normalize type and metadata of embedded objects, in place.

        Args:
            value: the value at this node.
            unknown: a list to which the paths of dropped fields are added.

        Raises:
            MalformedObject: an embedded object has a field of the wrong type.
        """
        if self._is_embedded and isinstance(value, dict):
            _coerce_object(value, path, unknown)
        for child, item, inner in self._list_children(value, path):
            child.coerce_objects(item, inner, unknown)

    def add_errors(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append the errors of apiVersion, kind and metadata of embedded objects."""
        if self._is_embedded and isinstance(value, dict):
            _add_object_errors(value, path, out)
        for child, item, inner in self._list_children(value, path):
            child.add_errors(item, inner, out)

    def _list_children(self, value: Any, path: str) -> list[tuple[Self, Any, str]]:
        """Return the nodes one level below, each with its value and path."""
        if isinstance(value, list):
            if self._items is None:
                return []
            return [(self._items, item, f"{path}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return []
        prefix = f"{path}." if path else ""
        children: list[tuple[Self, Any, str]] = []
        for name, item in value.items():
            if name in self._properties:
                children.append((self._properties[name], item, prefix + name))
            elif self._additional is not None:
                children.append((self._additional, item, f"{path}[{name}]"))
        return children


def _coerce_object(value: dict[str, Any], path: str, unknown: list[str]) -> None:
    """Normalize an embedded object's metadata in place, and append its unknown fields.

    Raises:
        MalformedObject: apiVersion, kind or metadata has a wrong type.
    """
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            raise MalformedObject(
                build_invalid_error(f"{path}.{name}", value[name], "must be a string")
            )
    if "metadata" not in value:
        return
    # Go's decoder reads null as an empty struct.
    if value["metadata"] is None:
        value["metadata"] = {}
    metadata = value["metadata"]
    try:
        unknown += objectmeta.coerce_metadata(metadata, f"{path}.metadata")
    except objectmeta.MalformedMetadata as error:
        raise MalformedObject(
            build_invalid_error(f"{path}.metadata", metadata, str(error))
        ) from error


def _add_object_errors(value: Mapping[str, Any], path: str, out: list[FieldError]) -> None:
    """Append the errors of one embedded object's apiVersion, kind and metadata."""
    _add_api_version_errors(value.get("apiVersion"), f"{path}.apiVersion", out)
    _add_kind_errors(value.get("kind"), f"{path}.kind", out)
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        out += objectmeta.find_embedded_metadata_errors(metadata, f"{path}.metadata")


def _add_api_version_errors(version: Any, path: str, out: list[FieldError]) -> None:
    """Append the error of an apiVersion that is missing or is no group and version."""
    if version is None:
        out.append(build_required_error(path))
    elif not version:
        out.append(build_invalid_error(path, version, "must not be empty"))
    elif version.count("/") > 1:
        out.append(
            build_invalid_error(path, version, f"unexpected GroupVersion string: {version}")
        )


def _add_kind_errors(kind: Any, path: str, out: list[FieldError]) -> None:
    """Append the error of a kind that is missing or is no DNS-1035 label in lower case."""
    if kind is None:
        out.append(build_required_error(path))
    elif not kind:
        out.append(build_invalid_error(path, kind, "must not be empty"))
    else:
        errors = names.find_label_1035_errors(kind.lower())
        if errors:
            detail = "may have mixed case, but should otherwise match: " + ",".join(errors)
            out.append(build_invalid_error(path, kind, detail))
