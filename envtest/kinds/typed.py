"""Decoding into a built-in kind, as Go decodes into its struct.

A struct has no place for unknown fields, nulls vanish, times and base64 must parse. The custom
resources' metadata goes the same way, because there too ObjectMeta is a struct.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from envtest.kinds.catalogue import schema
from envtest.wire.texts import find_base64_fault, find_time_fault, normalize_time

_INT32_MAX = 2**31 - 1

Shape = Literal["struct", "map", "array", "string", "integer", "number", "boolean", "any"]


class TypedError(Exception):
    """A value that does not fit into its field; the message is Go's."""


@dataclass(slots=True)
class TypedNode:
    """One schema, ready for walking."""

    name: str
    shape: Shape
    go: str
    format: str = ""
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    element: Mapping[str, Any] | None = None
    children: dict[str, "TypedNode"] = field(default_factory=dict)

    def child(self, name: str) -> "TypedNode | None":
        """Return the node of a property, built on first use because schemas are recursive."""
        node = self.children.get(name)
        if node is None and name in self.properties:
            node = self.children[name] = build(self.properties[name])
        return node

    def item(self) -> "TypedNode":
        """Return the node of a map's values or an array's items."""
        node = self.children.get("[]")
        if node is None:
            node = self.children["[]"] = build(self.element or {})
        return node


@cache
def load_node(name: str) -> TypedNode:
    """Return the node of a schema of the catalogue, such as `io.k8s.api.core.v1.Service`."""
    body = schema(name)
    short = name.rpartition(".")[2]
    if body.get("type") == "object":
        if "properties" in body:
            return TypedNode(short, "struct", _go_name(name), properties=body["properties"])
        return TypedNode(short, "any", "map[string]interface {}")
    if body.get("type") == "string":
        return TypedNode(
            short,
            "string",
            go=_go_name(name),
            format=short if short in {"Time", "MicroTime"} else "",
        )
    return TypedNode(short, "any", _go_name(name))


def build(body: Mapping[str, Any]) -> TypedNode:
    """Return the node of an inline schema or of the one it refers to."""
    reference = body.get("$ref") or next(
        (part["$ref"] for part in body.get("allOf", ()) if "$ref" in part), None
    )
    if reference:
        return load_node(reference.rpartition("/")[2])
    kind = body.get("type")
    if kind == "array":
        inner = build(body["items"])
        return TypedNode("", "array", f"[]{inner.go}", element=body["items"])
    if kind == "object" and "additionalProperties" in body:
        inner = build(body["additionalProperties"])
        return TypedNode("", "map", f"map[string]{inner.go}", element=body["additionalProperties"])
    if kind in {"string", "integer", "number", "boolean"}:
        go = {"integer": body.get("format", "int64"), "number": "float64", "boolean": "bool"}
        form = body.get("format", "")
        return TypedNode(
            "", kind, go=go.get(kind, "[]uint8" if form == "byte" else "string"), format=form
        )
    return TypedNode("", "any", "interface {}")


# Keys of maps belong to the paths of unknown fields, but not to those in errors.
_KEY = "\0"
_KEYS = re.compile("\0([^\0]*)\0")


def decode(body: dict[str, Any], node: TypedNode, *, root: str = "") -> list[str]:
    """Drop unknown fields from a body and check its types; return the paths of unknown fields.

    Args:
        body: the object, changed in place.
        node: its shape.
        root: path of the body within its object, for the reported paths.

    Raises:
        TypedError: a value does not fit.
    """
    unknown: list[str] = []
    _struct(body, node, path=root, unknown=unknown)
    return unknown


def _struct(body: dict[str, Any], node: TypedNode, path: str, unknown: list[str]) -> None:
    """Decode the fields of a struct in place; remove unknown, null and empty ones."""
    for name in list(body):
        child = node.child(name)
        where = f"{path}.{name}" if path else name
        if child is None:
            unknown.append(_KEYS.sub(r".\1", where) if _KEY in where else where)
            del body[name]
        elif body[name] is None:
            del body[name]
        else:
            body[name] = _value(body[name], child, path=where, struct=node.name, unknown=unknown)
            # An empty list of managers is no omission: it says that no field has an owner.
            if child.shape in {"array", "map"} and not body[name] and name != "managedFields":
                del body[name]


def _value(value: Any, node: TypedNode, path: str, struct: str, unknown: list[str]) -> Any:
    """Check one value and return what the struct holds of it."""
    match node.shape, value:
        case "any", _:
            return value
        case "struct", dict():
            _struct(value, node, path=path, unknown=unknown)
            return value
        case ("map", dict()) | ("array", list()):
            return _members(value, node, path=path, struct=struct, unknown=unknown)
        case "string", str():
            return _check_text(value, node)
        case _:
            number = _scalar(value, node)
    if number is not None:
        return number
    plain = "".join(part.partition("[")[0] for part in _KEYS.sub("", path).split("]"))
    raise TypedError(
        f"json: cannot unmarshal {_json_type(value)} into Go struct field "
        f"{struct}.{plain} of type {node.go}"
    )


def _members(
    value: dict[str, Any] | list[Any], node: TypedNode, path: str, struct: str, unknown: list[str]
) -> Any:
    """Check the members of a map or array; nulls become zero values."""
    inner = node.item()
    blank = _zero(inner)
    if isinstance(value, dict):
        return {
            key: _value(
                blank if member is None else member,
                inner,
                path=f"{path}{_KEY}{key}{_KEY}",
                struct=struct,
                unknown=unknown,
            )
            for key, member in value.items()
        }
    return [
        _value(
            blank if member is None else member,
            inner,
            path=f"{path}[{at}]",
            struct=struct,
            unknown=unknown,
        )
        for at, member in enumerate(value)
    ]


def _scalar(value: Any, node: TypedNode) -> bool | float | None:
    """Return a truth value or number that fits, or None."""
    shape = node.shape
    if isinstance(value, bool):
        return value if shape == "boolean" else None
    if isinstance(value, int):
        largest = 2 ** (31 if node.format == "int32" else 63) - 1
        fits = shape == "number" or (shape == "integer" and -largest - 1 <= value <= largest)
        return value if fits else None
    return value if isinstance(value, float) and shape == "number" else None


def _check_text(value: str, node: TypedNode) -> str:
    """Check a string that has a format."""
    if node.format == "byte":
        fault = find_base64_fault(value)
        if fault:
            raise TypedError(fault)
    elif node.format in {"Time", "MicroTime"}:
        fault = find_time_fault(value)
        if fault:
            raise TypedError(fault)
        return normalize_time(value, micro=node.format == "MicroTime")
    return value


def _zero(node: TypedNode) -> Any:
    """Return the value that replaces a null inside a list or map."""
    zeros = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}
    return zeros.get(node.shape, {} if node.shape in {"struct", "map"} else None)


def _json_type(value: object) -> str:
    """Return Go's name of the JSON type of a value."""
    if isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) > _INT32_MAX
    ):
        return f"number {value}"
    names = {bool: "bool", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


def _go_name(name: str) -> str:
    """Return `v1.ServiceSpec` for `io.k8s.api.core.v1.ServiceSpec`."""
    return ".".join(name.split(".")[-2:])
