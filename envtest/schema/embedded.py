"""Objects inside objects (`x-kubernetes-embedded-resource`).

Their apiVersion, kind and metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from envtest.schema import names, objectmeta
from envtest.schema.errors import FieldError, build_required_error, invalid


class MalformedObject(ValueError):
    """An embedded object whose apiVersion, kind or metadata has the wrong type.

    The text is the server's.
    """

    def __init__(self, error: FieldError) -> None:
        super().__init__(error.message)
        self.error = error


class EmbeddedNode:
    """The way to embedded objects below one schema node; built only where there are any."""

    __slots__ = ("_additional", "_here", "_items", "_properties")

    def __init__(
        self,
        here: bool,
        properties: Mapping[str, Self],
        additional: Self | None,
        items: Self | None,
    ) -> None:
        self._here = here
        self._properties = properties
        self._additional = additional
        self._items = items

    @classmethod
    def compile(cls, schema: object) -> Self | None:
        """Return the node for `schema`; None where no embedded object is at or below it."""
        if not isinstance(schema, Mapping):
            return None
        here = bool(schema.get("x-kubernetes-embedded-resource"))
        compiled = {
            name: cls.compile(child) for name, child in (schema.get("properties") or {}).items()
        }
        properties = {name: node for name, node in compiled.items() if node is not None}
        additional = cls.compile(schema.get("additionalProperties"))
        items = cls.compile(schema.get("items"))
        if not here and not properties and additional is None and items is None:
            return None
        return cls(here, properties, additional=additional, items=items)

    def coerce(self, value: Any, path: str, unknown: list[str]) -> None:
        """Bring type and metadata of embedded objects into shape, in place.

        Raises:
            MalformedObject: one of them has a field of the wrong type.
        """
        if self._here and isinstance(value, dict):
            _coerce_object(value, path, unknown)
        for child, item, inner in self._below(value, path):
            child.coerce(item, inner, unknown)

    def check(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append the errors of type and metadata of embedded objects."""
        if self._here and isinstance(value, dict):
            _check_object(value, path, out)
        for child, item, inner in self._below(value, path):
            child.check(item, inner, out)

    def _below(self, value: Any, path: str) -> list[tuple[Self, Any, str]]:
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
    """Convert an embedded object's metadata in place, and append its unknown fields.

    Raises:
        MalformedObject: apiVersion, kind or metadata has a wrong type.
    """
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            raise MalformedObject(invalid(f"{path}.{name}", value[name], "must be a string"))
    if "metadata" not in value:
        return
    if value["metadata"] is None:
        value["metadata"] = {}
    metadata = value["metadata"]
    try:
        unknown += objectmeta.coerce(metadata, f"{path}.metadata")
    except objectmeta.MalformedMetadata as error:
        raise MalformedObject(invalid(f"{path}.metadata", metadata, str(error))) from error


def _check_object(value: Mapping[str, Any], path: str, out: list[FieldError]) -> None:
    _check_api_version(value.get("apiVersion"), f"{path}.apiVersion", out)
    _check_kind(value.get("kind"), f"{path}.kind", out)
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        out += objectmeta.validate(metadata, f"{path}.metadata")


def _check_api_version(version: Any, path: str, out: list[FieldError]) -> None:
    if version is None:
        out.append(build_required_error(path))
    elif not version:
        out.append(invalid(path, version, "must not be empty"))
    elif version.count("/") > 1:
        out.append(invalid(path, version, f"unexpected GroupVersion string: {version}"))


def _check_kind(kind: Any, path: str, out: list[FieldError]) -> None:
    if kind is None:
        out.append(build_required_error(path))
    elif not kind:
        out.append(invalid(path, kind, "must not be empty"))
    else:
        errors = names.label_1035_errors(kind.lower())
        if errors:
            detail = "may have mixed case, but should otherwise match: " + ",".join(errors)
            out.append(invalid(path, kind, detail))
