"""What the models say of their fields and of themselves, for pydantic to read on demand.

pydantic's own `Field` and `with_config` would do, but they load pydantic, which costs a command
that only reads objects a tenth of its CPU. Only who makes a schema loads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

T = TypeVar("T")

Config = Mapping[str, Any]
"""The configuration of a model: pydantic's ConfigDict."""
Extra = dict[str, Any] | Callable[[dict[str, Any]], None]
"""What is added to a schema, or what changes it."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldSchema:
    """What the schema says of a field beyond its type; goes into Annotated.

    The attributes are those of pydantic's Field of the same names.
    """

    ge: int | None = None
    le: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    json_schema_extra: Extra | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> "CoreSchema":
        """Return the schema of the field's type with these limits; called by pydantic."""
        from pydantic import Field  # noqa: PLC0415 - it is loaded: it called

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


def with_config(config: Config) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that gives a dataclass its configuration, as pydantic's does."""

    def set_config(model: type[T]) -> type[T]:
        model.__pydantic_config__ = config  # type: ignore[attr-defined] # pydantic's protocol
        return model

    return set_config
