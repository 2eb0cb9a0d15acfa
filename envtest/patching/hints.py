"""How strategic merge patch treats the fields of built-in kinds: what it merges, by which key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from controller.managedfields.errors import internal
from envtest.kinds import catalogue

Schema = Mapping[str, Any]
RETAIN_KEYS = "retainKeys"


class Hint(NamedTuple):
    """What is known of one field.

    Attributes:
        below: the hints for what is inside it: of a list, for its items.
        strategy: `merge`, `replace` or empty, which merges maps and replaces lists.
        merge_key: the field by which items of a list are the same; empty in lists of scalars.
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
    def builtin(cls, group: str, version: str, kind: str) -> Self:
        """Return the hints of a kind that every server has.

        Raises:
            KeyError: there is no such kind.
        """
        name = catalogue.schema_name(group, version, kind)
        return cls(catalogue.schema(name), name, catalogue.schema)

    @property
    def kind(self) -> str:
        """What Go calls the kind of this type."""
        form = self.schema.get("type", "")
        if form == "object":
            return "map" if "additionalProperties" in self.schema else "struct"
        return {"array": "slice", "": "struct"}.get(form, str(form))

    def member(self, field: str) -> Hint:
        """Return the hint for a map in this struct.

        Raises:
            PatchError: 500 if there is no such field.
        """
        property_schema = self._field(field)
        return self._hint(property_schema, property_schema)

    def items(self, field: str) -> Hint:
        """Return the hint for a list in this struct.

        Raises:
            PatchError: 500 if there is no such field.
        """
        property_schema = self._field(field)
        return self._hint(property_schema, property_schema.get("items", {}))

    def _field(self, field: str) -> Schema:
        """Return the schema of a field, with the extensions that stand where it is declared."""
        if self.kind != "struct":
            raise internal(
                f"merging an object in json but data type is not struct, instead is: {self.kind}"
            )
        property_schema: Schema | None = self.schema.get("properties", {}).get(field)
        if property_schema is None:
            type_name = self.name.rpartition(".")[2]
            raise internal(
                f'unable to find api field in struct {type_name} for the json field "{field}"'
            )
        return property_schema

    def _hint(self, field: Schema, below: Schema) -> Hint:
        """Return the hint of a field whose inside has the given schema."""
        strategies = str(field.get("x-kubernetes-patch-strategy", "")).split(",")
        strategy = next((name for name in strategies if name != RETAIN_KEYS), "")
        merge_key = str(field.get("x-kubernetes-patch-merge-key", ""))
        return Hint(self._inside(below), strategy, merge_key)

    def _inside(self, schema: Schema) -> "PatchHints":
        """Return the hints of a schema, which may be a reference."""
        wrapped = schema.get("allOf", ())
        place = schema.get("$ref") or (wrapped[0].get("$ref") if wrapped else None)
        if not place:
            return PatchHints(schema, "", self.resolve)
        name = str(place).rpartition("/")[2]
        return PatchHints(self.resolve(name), name, self.resolve)
