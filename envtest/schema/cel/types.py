"""Types of CEL expressions, and the type that a schema gives to `self`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class CelType:
    """A type: a name with parameters; types that come from an object's schema have fields too.

    Attributes:
        name: `int`, `list`, `kubernetes.Quantity`, …; one capital letter is a type variable.
        params: element types of list, map, optional_type and type.
        fields: for objects, the type of each field that rules can see, by escaped name; else None.
        names: for objects, the JSON name behind each escaped name.
        keys: for lists whose order does not matter: the key fields (list type map), or none (set).
    """

    name: str
    params: tuple[CelType, ...] = ()
    fields: Mapping[str, CelType] | None = field(default=None, compare=False, repr=False)
    names: Mapping[str, str] | None = field(default=None, compare=False, repr=False)
    keys: tuple[str, ...] | None = field(default=None, compare=False, repr=False)

    @override
    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
BOOL: Final = CelType("bool")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
NULL: Final = CelType("null")
DYN: Final = CelType("dyn")
ERROR: Final = CelType("!error!")
# The item type of an empty list literal, until something tells.
OPEN: Final = CelType("_var0")
TIMESTAMP: Final = CelType("timestamp")
DURATION: Final = CelType("duration")


def list_of(item: CelType) -> CelType:
    """A list."""
    return CelType("list", (item,))


def map_of(key: CelType, value: CelType) -> CelType:
    """A map."""
    return CelType("map", (key, value))


def optional_of(value: CelType) -> CelType:
    """A value that may be missing."""
    return CelType("optional_type", (value,))


def type_of(value: CelType) -> CelType:
    """The type of a type."""
    return CelType("type", (value,))


_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_FORMATS: Final = {
    "byte": BYTES,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
    "duration": DURATION,
}
# Words that cannot stand as a field name in an expression; CEL wants them escaped.
_RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"}
    | {"if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


def escape(name: str) -> str | None:
    """The name of a field inside expressions; None where it cannot be written at all.

    The name as it is works too where the parser lets it stand.
    """
    if name in _RESERVED:
        return f"__{name}__"
    if not _IDENTIFIER.fullmatch(name):
        return None
    escaped = name.replace("__", "__underscores__")
    for sign, word in ((".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        escaped = escaped.replace(sign, word)
    return escaped


def type_from_schema(schema: Mapping[str, Any], name: str, *, root: bool) -> CelType | None:
    """The type of values of `schema`.

    Args:
        schema: a structural schema node.
        name: how messages call the type if it is an object.
        root: whether apiVersion, kind and the names in metadata are visible whatever it says.

    Returns:
        The type, or None where the schema says too little: rules cannot see such fields.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = schema.get("type")
    if kind == "array":
        item = _nested(schema.get("items"), f"{name}.@idx")
        return None if item is None else CelType("list", (item,), keys=_list_keys(schema))
    if kind == "object":
        return _object_type(schema, name, root=root)
    if kind == "string":
        return _FORMATS.get(schema.get("format") or "", STRING)
    return _SCALARS.get(kind or "")


def _list_keys(schema: Mapping[str, Any]) -> tuple[str, ...] | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return () if kind == "set" else None


def _nested(schema: object, name: str) -> CelType | None:
    if not isinstance(schema, Mapping):
        return None
    return type_from_schema(schema, name, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _object_type(schema: Mapping[str, Any], name: str, *, root: bool) -> CelType | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        value = _nested(additional, f"{name}.@prop")
        return None if value is None else map_of(STRING, value)
    fields: dict[str, CelType] = {}
    names: dict[str, str] = {}
    for prop, child in (schema.get("properties") or {}).items():
        escaped = escape(prop)
        kind = _nested(child, f"{name}.{prop}")
        if escaped is not None and kind is not None:
            for written in {escaped, prop}:
                fields[written] = kind
                names[written] = prop
    if root:
        visible = {"name": STRING, "generateName": STRING}
        metadata = CelType(f"{name}.metadata", (), visible, {key: key for key in visible})
        fields |= {"apiVersion": STRING, "kind": STRING, "metadata": metadata}
        names |= {key: key for key in ("apiVersion", "kind", "metadata")}
    return CelType(name, (), fields, names)
