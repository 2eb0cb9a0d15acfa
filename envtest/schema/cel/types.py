"""Types of CEL expressions, and the type that a schema gives to `self`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
        size: the most characters or items that a value described by a schema can have.
        least: the fewest bytes that such a value takes in JSON.
    """

    name: str
    params: tuple[CelType, ...] = ()
    fields: Mapping[str, CelType] | None = field(default=None, compare=False, repr=False)
    names: Mapping[str, str] | None = field(default=None, compare=False, repr=False)
    keys: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    size: int = field(default=0, compare=False, repr=False)
    least: int = field(default=0, compare=False, repr=False)

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


# A request has at most this many bytes; what has no limit of its own has this one.
REQUEST_SIZE: Final = 3 * 1024 * 1024
_SCALARS: Final = {
    "boolean": replace(BOOL, least=4),
    "integer": replace(INT, least=1),
    "number": replace(DOUBLE, least=1),
}
_TEXT_SIZE: Final = REQUEST_SIZE - 2
_FORMATS: Final = {
    "byte": replace(BYTES, size=_TEXT_SIZE, least=2),
    "date": replace(TIMESTAMP, size=12, least=12),
    "date-time": replace(TIMESTAMP, size=32, least=21),
    "duration": replace(DURATION, size=32, least=3),
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
        return replace(DYN, size=_longest(schema, 4), least=1)
    kind = schema.get("type")
    if kind == "array":
        item = _nested(schema.get("items"), f"{name}.@idx")
        if item is None:
            return None
        size = _limit(schema, "maxItems", (REQUEST_SIZE - 2) // (item.least + 1))
        return CelType("list", (item,), keys=_list_keys(schema), size=size, least=2)
    if kind == "object":
        return _object_type(schema, name, root=root)
    return _text_type(schema) if kind == "string" else _SCALARS.get(kind or "")


def _text_type(schema: Mapping[str, Any]) -> CelType:
    found = _FORMATS.get(schema.get("format") or "")
    if found is not None:
        return replace(found, size=_longest(schema, 1)) if found.name == "bytes" else found
    if schema.get("maxLength") is None and schema.get("enum"):
        texts = [len(item.encode()) for item in schema["enum"] if isinstance(item, str)]
        return replace(STRING, size=max(texts, default=0), least=2)
    return replace(STRING, size=_longest(schema, 4), least=2)


def _longest(schema: Mapping[str, Any], each: int) -> int:
    """The most bytes of a text; a character may have as many as `each`."""
    limit = schema.get("maxLength")
    return _TEXT_SIZE if limit is None else max(int(limit), 0) * each


def _limit(schema: Mapping[str, Any], name: str, otherwise: int) -> int:
    limit = schema.get(name)
    return otherwise if limit is None else max(int(limit), 0)


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
        if value is None:
            return None
        size = _limit(schema, "maxProperties", (REQUEST_SIZE - 2) // (value.least + 6))
        return replace(map_of(STRING, value), size=size, least=2)
    fields: dict[str, CelType] = {}
    names: dict[str, str] = {}
    least, required = 2, set(schema.get("required") or ())
    for prop, child in (schema.get("properties") or {}).items():
        escaped = escape(prop)
        kind = _nested(child, f"{name}.{prop}")
        if kind is not None and prop in required and child.get("default") is None:
            least += len(prop.encode()) + kind.least + 4
        if escaped is not None and kind is not None:
            for written in {escaped, prop}:
                fields[written] = kind
                names[written] = prop
    if root:
        text = replace(STRING, size=_TEXT_SIZE, least=2)
        visible = {"name": text, "generateName": text}
        metadata = CelType(f"{name}.metadata", (), visible, {key: key for key in visible})
        fields |= {"apiVersion": text, "kind": text, "metadata": metadata}
        names |= {key: key for key in ("apiVersion", "kind", "metadata")}
    return CelType(name, (), fields, names, least=least)
