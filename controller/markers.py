"""Markers in types for JSON schemas: limits, CEL rules, list types. pydantic reads them.

A marker is an object in `Annotated[...]`, or an attribute of a class, that adds to the schema.

pydantic's own `Field` and `with_config` would do, but they load pydantic, which costs a command
that only reads objects a tenth of its CPU. With these markers only code that generates a schema
loads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

T = TypeVar("T")

Config = Mapping[str, Any]
"""The configuration of a model: pydantic's ConfigDict."""
Extra = dict[str, Any] | Callable[[dict[str, Any]], None]
"""An addition to a schema, or a function that changes the schema in place."""

LIMITS = "x-controller-limits"
"""The key of a field's limits in a JSON schema; the generator of structural schemas removes it."""
LIMIT_KEYWORDS = {
    "ge": ("minimum",),
    "le": ("maximum",),
    "min_length": ("minLength", "minItems", "minProperties"),
    "max_length": ("maxLength", "maxItems", "maxProperties"),
    "pattern": ("pattern",),
}
"""By attribute of FieldSchema, the keywords of JSON schema; the field's type decides which."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldSchema:
    """The limits of a field beyond its type, for its schema; goes into Annotated.

    The attributes have the names and meanings of the parameters of pydantic's Field.
    """

    ge: int | None = None
    le: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    json_schema_extra: Extra | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> "CoreSchema":
        """Return the schema of the field's type with these limits; called by pydantic."""
        from pydantic import Field  # noqa: PLC0415 - pydantic calls this, so it is loaded

        schema: CoreSchema = handler.generate_schema(
            Annotated[
                source,
                Field(
                    ge=self.ge,
                    le=self.le,
                    min_length=self.min_length,
                    max_length=self.max_length,
                    pattern=self.pattern,
                    json_schema_extra=self.json_schema_extra,
                ),
            ]
        )
        return schema

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: Any) -> dict[str, Any]:
        """Return the JSON schema of the field with its limits under LIMITS; called by pydantic.

        pydantic drops a limit that JSON schema cannot express for the type. The generator of
        structural schemas needs each limit: it adds the limit, or reports the field.
        """
        schema: dict[str, Any] = handler(core)
        limits = {name: getattr(self, name) for name in LIMIT_KEYWORDS}
        schema[LIMITS] = {name: limit for name, limit in limits.items() if limit is not None}
        return schema


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """Gives a field of plain JSON the schema of another type; goes into Annotated.

    For parts of objects that only other controllers read. The API server validates them by the
    type's schema. Objects are decoded without that type, so a value that the type does not know
    makes no object unreadable, and only code that generates a schema loads the module.

    Args:
        module: the full name of the module with the type.
        name: the name of the type.
    """

    module: str
    name: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> "CoreSchema":
        """Return a schema that validates by the other type and keeps the JSON; for pydantic."""
        from pydantic_core import core_schema  # noqa: PLC0415 - pydantic calls this: it is loaded

        def keep_valid(value: Any, validate: Callable[[Any], Any]) -> Any:
            """Raise for a value that the type rejects; return the value as it is, undecoded."""
            validate(value)
            return value

        type_schema = handler.generate_schema(getattr(import_module(self.module), self.name))
        return core_schema.no_info_wrap_validator_function(keep_valid, type_schema)


class ApiType(msgspec.Struct, frozen=True):
    """The base class of a kind's type and its parts: a frozen Struct with a dataclass' schema.

    Python makes a Struct's class in a twentieth of a dataclass' time, which counts where a short
    program has dozens of them. The schema comes from the types of the fields, FieldSchema,
    with_rules, and the docstrings below fields. msgspec.Meta was rejected, because the decoder
    would enforce its limits: an object that another version of the schema let in must stay
    readable.

    `msgspec.structs.replace` returns a changed copy; `dataclasses.replace` raises TypeError.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> "CoreSchema":
        """Return the schema of a dataclass with the fields of this Struct; called by pydantic.

        pydantic knows dataclasses and not Structs. A value that it validates becomes a Struct.
        """
        from pydantic_core import core_schema  # noqa: PLC0415 - it is loaded: pydantic called

        # With the names of the Struct's source, pydantic finds the docstrings below its fields.
        twin = make_dataclass(
            cls.__name__,
            [
                (part.name, part.type, _create_dataclass_field(part))
                for part in msgspec.structs.fields(cls)
            ],
            namespace={name: value for name, value in vars(cls).items() if name in _SOURCE_NAMES},
        )

        def to_struct(value: Any) -> Any:
            """Return the Struct with the fields of a validated dataclass."""
            return cls(**{name: getattr(value, name) for name in cls.__struct_fields__})

        return core_schema.no_info_after_validator_function(
            to_struct, handler.generate_schema(twin)
        )


_SOURCE_NAMES = {
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__pydantic_config__",
    "__qualname__",
}
"""Attributes of a class that say how it is described, and where its source is."""


def _create_dataclass_field(part: msgspec.structs.FieldInfo) -> Any:
    """Return the field of a dataclass with the default of a Struct's field, if it has one.

    A default that is a Struct becomes a factory: pydantic cannot write it into a JSON schema, and
    a structural schema has no such default.
    """
    if isinstance(part.default, msgspec.Struct):
        return field(default_factory=lambda: part.default)
    if part.default is not msgspec.NODEFAULT:
        return field(default=part.default)
    if part.default_factory is not msgspec.NODEFAULT:
        return field(default_factory=part.default_factory)
    return field()


class Rule(NamedTuple):
    """A CEL rule, as the schema carries it.

    Args:
        cel: the rule.
        message: what is wrong if the rule does not hold.
        at: the field of `self` that is wrong, for example `.poolRefs`; empty for all of `self`.
        reason: the reason in the server's Status; empty for the server's default.
        expression: CEL that computes a message with the value in it; empty for `message`.
    """

    cel: str
    message: str
    at: str = ""
    reason: str = ""
    expression: str = ""

    def to_schema(self) -> dict[str, str]:
        """Return the rule as an entry of x-kubernetes-validations."""
        entry = {"rule": self.cel, "message": self.message}
        extra = {
            "messageExpression": self.expression,
            "fieldPath": self.at,
            "reason": self.reason,
        }
        return entry | {name: value for name, value in extra.items() if value}


def rules(*cel: Rule) -> dict[str, Any]:
    """Return the schema extension for CEL rules.

    The API server rejects a rule that it estimates as costly. The estimate takes every list and
    text to be as long as the schema allows, so the lists and texts of a rule need maxItems and
    maxLength.
    """
    return {"x-kubernetes-validations": [rule.to_schema() for rule in cel]}


def list_map(*keys: str) -> dict[str, Any]:
    """Return the schema extension for a list whose entries are identified by `keys`.

    Server-side apply merges such a list entry by entry. Without the extension one manager owns the
    whole list.
    """
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def with_config(config: Config) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that gives a class its configuration for pydantic."""

    def set_config(model: type[T]) -> type[T]:
        """Set the configuration on a class; return the class."""
        model.__pydantic_config__ = config  # type: ignore[attr-defined] # pydantic's protocol
        return model

    return set_config


def with_rules(*cel: Rule) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that gives a class CEL rules, and descriptions to its fields.

    The description of a field is the docstring below it.
    """
    return with_config({"use_attribute_docstrings": True, "json_schema_extra": rules(*cel)})
