"""Hints for strategic merge patch: how each field of a built-in kind is merged, and by which key.

They come from the extensions x-kubernetes-patch-strategy and x-kubernetes-patch-merge-key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from controller.managedfields.errors import create_unclassified_error
from envtest.kinds import catalogue

Schema = Mapping[str, Any]
RETAIN_KEYS = "retainKeys"


class Hint(NamedTuple):
    """How a patch treats one field.

    Attributes:
        below: the hints for the fields in it, or for the items if it is a list.
        strategy: `merge`, `replace` or empty. Empty merges maps and replaces lists.
        merge_key: the field that identifies an item of a list; empty for lists of scalars.
    """

    below: "PatchHints"
    strategy: str
    merge_key: str


@dataclass(frozen=True, slots=True)
class PatchHints:
    """The patch strategies of a type, read from its OpenAPI extensions."""

    schema: Schema
    name: str
    resolve: Callable[[str], Schema]

    @classmethod
    def for_builtin_kind(cls, group: str, version: str, kind: str) -> Self:
        """Return the hints of a built-in kind.

        Raises:
            KeyError: there is no such kind.
        """
        name = catalogue.build_schema_name(group, version, kind)
        return cls(catalogue.get_schema(name), name, catalogue.get_schema)

    @property
    def kind(self) -> str:
        """The kind of this type in Go's reflection, which error messages name."""
        schema_type = self.schema.get("type", "")
        if schema_type == "object":
            return "map" if "additionalProperties" in self.schema else "struct"
        return {"array": "slice", "": "struct"}.get(schema_type, str(schema_type))

    def get_map_hint(self, field: str) -> Hint:
        """Return the hint for a field with a map.

        Raises:
            PatchError: 500 if there is no such field.
        """
        property_schema = self._find_field(field)
        return self._build_hint(property_schema, property_schema)

    def get_list_hint(self, field: str) -> Hint:
        """Return the hint for a field with a list.

        Raises:
            PatchError: 500 if there is no such field.
        """
        property_schema = self._find_field(field)
        return self._build_hint(property_schema, property_schema.get("items", {}))

    def _find_field(self, field: str) -> Schema:
        """Return the schema of a field of this type, with its extensions.

        Raises:
            PatchError: 500 if this type has no fields, or not this one.
        """
        if self.kind != "struct":
            raise create_unclassified_error(
                f"merging an object in json but data type is not struct, instead is: {self.kind}"
            )
        property_schema: Schema | None = self.schema.get("properties", {}).get(field)
        if property_schema is None:
            type_name = self.name.rpartition(".")[2]
            raise create_unclassified_error(
                f'unable to find api field in struct {type_name} for the json field "{field}"'
            )
        return property_schema

    def _build_hint(self, field: Schema, below: Schema) -> Hint:
        """Return the hint of a field; `below` is the schema of its content or its items."""
        strategies = str(field.get("x-kubernetes-patch-strategy", "")).split(",")
        strategy = next((name for name in strategies if name != RETAIN_KEYS), "")
        merge_key = str(field.get("x-kubernetes-patch-merge-key", ""))
        return Hint(self._resolve_reference(below), strategy, merge_key)

    def _resolve_reference(self, schema: Schema) -> "PatchHints":
        """Return the hints of a schema; a reference is resolved."""
        all_of = schema.get("allOf", ())
        reference = schema.get("$ref") or (all_of[0].get("$ref") if all_of else None)
        if not reference:
            return PatchHints(schema, "", self.resolve)
        name = str(reference).rpartition("/")[2]
        return PatchHints(self.resolve(name), name, self.resolve)
