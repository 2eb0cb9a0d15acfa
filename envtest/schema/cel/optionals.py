"""Values that may be missing: `optional.of`, `orValue`, `?.` and `[?]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from envtest.schema.cel.functions import CelError, Library

OPTIONALS: Final = Library()
_define = OPTIONALS.define


@dataclass(frozen=True, slots=True)
class Optional:
    """A value, or none."""

    cel_type: ClassVar[str] = "optional_type"
    present: bool
    value: Any = None


NONE: Final = Optional(present=False)


def some(value: Any) -> Optional:
    """An optional that holds `value`."""
    return Optional(present=True, value=value)


_define("optional.of", "(A) optional_type(A)")(some)
_define("optional.none", "() optional_type(A)")(lambda: NONE)
_define("hasValue", "optional_type(A).() bool")(lambda held: held.present)


@_define("optional.ofNonZeroValue", "(A) optional_type(A)")
def _non_zero(value: Any) -> Optional:
    return some(value) if value else NONE


@_define("value", "optional_type(A).() A")
def _value(held: Optional) -> Any:
    if held.present:
        return held.value
    raise CelError("optional.none() dereference")


@_define("or", "optional_type(A).(optional_type(A)) optional_type(A)")
def _or(held: Optional, other: Optional) -> Optional:
    return held if held.present else other


@_define("orValue", "optional_type(A).(A) A")
def _or_value(held: Optional, other: Any) -> Any:
    return held.value if held.present else other


@_define(
    "_[?_]",
    "(list(A), int) optional_type(A)",
    "(map(A, B), A) optional_type(B)",
    "(optional_type(list(A)), int) optional_type(A)",
    "(optional_type(map(A, B)), A) optional_type(B)",
)
def _maybe_item(held: Any, key: Any) -> Optional:
    if isinstance(held, Optional):
        return _maybe_item(held.value, key) if held.present else NONE
    if isinstance(held, list):
        return some(held[key]) if 0 <= key < len(held) else NONE
    return some(held[key]) if key in held else NONE


@_define(
    "_[_]",
    "(optional_type(list(A)), int) optional_type(A)",
    "(optional_type(map(A, B)), A) optional_type(B)",
)
def _item_of_optional(held: Optional, key: Any) -> Optional:
    return _maybe_item(held, key)


@_define("first", "list(A).() optional_type(A)")
def _first(items: list[Any]) -> Optional:
    return some(items[0]) if items else NONE


@_define("last", "list(A).() optional_type(A)")
def _last(items: list[Any]) -> Optional:
    return some(items[-1]) if items else NONE


@_define("optional.unwrap", "(list(optional_type(A))) list(A)")
@_define("unwrapOpt", "list(optional_type(A)).() list(A)")
def _unwrapped(items: list[Any]) -> list[Any]:
    return [item.value for item in items if item.present]
