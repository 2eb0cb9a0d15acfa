"""Decoding of objects as a built-in kind, with the results of Go's decoder for its struct.

Unknown fields and nulls are dropped, and times and base64 are validated.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from envtest.kinds.catalogue import get_schema
from envtest.wire.texts import find_base64_fault, find_time_fault, normalize_time

_INT32_MAX = 2**31 - 1

Shape = Literal["struct", "map", "array", "string", "integer", "number", "boolean", "any"]


class TypedError(Exception):
    """A value has the wrong type for its field; the message is Go's."""


@dataclass(slots=True)
class TypedNode:
    """One schema node.

    Attributes:
        name: the name of the Go type, for structs.
        shape: the kind of value.
        go_type: the Go type, which error messages name.
        format: the OpenAPI format, or Time or MicroTime.
        properties: the schemas of a struct's fields.
        element: the schema of a map's values or an array's items.
        children: the nodes of fields and items that were built so far.
    """

    name: str
    shape: Shape
    go_type: str
    format: str = ""
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    element: Mapping[str, Any] | None = None
    children: dict[str, "TypedNode"] = field(default_factory=dict)

    def get_field_node(self, name: str) -> "TypedNode | None":
        """Return the node of a field; None if there is no such field.

        Nodes are built on first use, because schemas are recursive.
        """
        node = self.children.get(name)
        if node is None and name in self.properties:
            node = self.children[name] = build_node(self.properties[name])
        return node

    def get_item_node(self) -> "TypedNode":
        """Return the node of a map's values or an array's items."""
        node = self.children.get("[]")
        if node is None:
            node = self.children["[]"] = build_node(self.element or {})
        return node


@cache
def load_node(name: str) -> TypedNode:
    """Return the node of a schema, such as `io.k8s.api.core.v1.Service`.

    A node has the parts of an OpenAPI schema that decoding needs: the shape of values, and the Go
    type that error messages name. The catalogue has the schemas of the built-in kinds.
    """
    body = get_schema(name)
    type_name = name.rpartition(".")[2]
    if body.get("type") == "object":
        if "properties" in body:
            return TypedNode(
                type_name, "struct", _format_go_name(name), properties=body["properties"]
            )
        return TypedNode(type_name, "any", "map[string]interface {}")
    if body.get("type") == "string":
        # Of the named string types, only these two are normalized when they are decoded.
        string_format = type_name if type_name in {"Time", "MicroTime"} else ""
        return TypedNode(type_name, "string", go_type=_format_go_name(name), format=string_format)
    return TypedNode(type_name, "any", _format_go_name(name))


def build_node(body: Mapping[str, Any]) -> TypedNode:
    """Return the node of an inline schema; a reference is resolved."""
    reference = body.get("$ref") or next(
        (part["$ref"] for part in body.get("allOf", ()) if "$ref" in part), None
    )
    if reference:
        return load_node(reference.rpartition("/")[2])
    schema_type = body.get("type")
    if schema_type == "array":
        element_node = build_node(body["items"])
        return TypedNode("", "array", f"[]{element_node.go_type}", element=body["items"])
    if schema_type == "object" and "additionalProperties" in body:
        element_node = build_node(body["additionalProperties"])
        return TypedNode(
            "", "map", f"map[string]{element_node.go_type}", element=body["additionalProperties"]
        )
    if schema_type in {"string", "integer", "number", "boolean"}:
        value_format = body.get("format", "")
        go_types = {
            "string": "[]uint8" if value_format == "byte" else "string",
            "integer": value_format or "int64",
            "number": "float64",
            "boolean": "bool",
        }
        return TypedNode("", schema_type, go_type=go_types[schema_type], format=value_format)
    return TypedNode("", "any", "interface {}")


# Marks the keys of maps in paths. They are part of the paths of unknown fields, but not of those
# in errors.
_KEY = "\0"
_KEYS = re.compile("\0([^\0]*)\0")
_INDEXES = re.compile(r"\[\d+\]")


def decode_object(body: dict[str, Any], node: TypedNode) -> list[str]:
    """Decode an object in place: drop unknown fields and nulls, and normalize times.

    Args:
        body: the object.
        node: the node of its schema.

    Returns:
        The paths of unknown fields.

    Raises:
        TypedError: a value has the wrong type.
    """
    unknown: list[str] = []
    _decode_struct(body, node, path="", unknown=unknown)
    return unknown


def _decode_struct(body: dict[str, Any], node: TypedNode, path: str, unknown: list[str]) -> None:
    """Decode the fields of a struct in place; remove unknown, null and empty ones."""
    for name in list(body):
        child = node.get_field_node(name)
        location = f"{path}.{name}" if path else name
        if child is None:
            unknown.append(_KEYS.sub(r".\1", location) if _KEY in location else location)
            del body[name]
        elif body[name] is None:
            del body[name]
        else:
            body[name] = _decode_value(
                body[name], child, path=location, struct=node.name, unknown=unknown
            )
            # Go omits empty lists and maps. An empty list of managers has a meaning, though: it
            # resets managedFields.
            if child.shape in {"array", "map"} and not body[name] and name != "managedFields":
                del body[name]


def _decode_value(value: Any, node: TypedNode, path: str, struct: str, unknown: list[str]) -> Any:
    """Return the decoded form of one value.

    Args:
        node: the node of its schema.
        path: its path, with keys of maps between marks.
        struct: the name of the struct around it, for the error.
        unknown: a list to which the paths of unknown fields are added.

    Raises:
        TypedError: the value has the wrong type.
    """
    match node.shape, value:
        case "any", _:
            return value
        case "struct", dict():
            _decode_struct(value, node, path=path, unknown=unknown)
            return value
        case ("map", dict()) | ("array", list()):
            return _decode_members(value, node, path=path, struct=struct, unknown=unknown)
        case "string", str():
            return _normalize_text(value, node)
        case _:
            scalar = _decode_scalar(value, node)
    if scalar is not None:
        return scalar
    # Go names the field without the keys of maps and the indexes of lists.
    field_path = _INDEXES.sub("", _KEYS.sub("", path))
    raise TypedError(
        f"json: cannot unmarshal {_name_json_type(value)} into Go struct field "
        f"{struct}.{field_path} of type {node.go_type}"
    )


def _decode_members(
    value: dict[str, Any] | list[Any], node: TypedNode, path: str, struct: str, unknown: list[str]
) -> Any:
    """Return the decoded values of a map or items of an array; nulls become zero values.

    Args:
        value: the map or array.
        node: the node of its schema.
        path: its path, with keys of maps between marks.
        struct: the name of the struct around it, for errors.
        unknown: a list to which the paths of unknown fields are added.

    Raises:
        TypedError: a value has the wrong type.
    """
    element_node = node.get_item_node()
    zero = _build_zero_value(element_node)
    if isinstance(value, dict):
        return {
            key: _decode_value(
                zero if member is None else member,
                element_node,
                path=f"{path}{_KEY}{key}{_KEY}",
                struct=struct,
                unknown=unknown,
            )
            for key, member in value.items()
        }
    return [
        _decode_value(
            zero if member is None else member,
            element_node,
            path=f"{path}[{index}]",
            struct=struct,
            unknown=unknown,
        )
        for index, member in enumerate(value)
    ]


def _decode_scalar(value: Any, node: TypedNode) -> bool | float | None:
    """Return a boolean or a number if it has the type and range of the node, else None."""
    shape = node.shape
    if isinstance(value, bool):
        return value if shape == "boolean" else None
    if isinstance(value, int):
        largest = 2 ** (31 if node.format == "int32" else 63) - 1
        is_in_range = shape == "number" or (
            shape == "integer" and -largest - 1 <= value <= largest
        )
        return value if is_in_range else None
    return value if isinstance(value, float) and shape == "number" else None


def _normalize_text(value: str, node: TypedNode) -> str:
    """Return a string, with a time normalized; refuse invalid base64 and times.

    Raises:
        TypedError: the string does not have its format.
    """
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


def _build_zero_value(node: TypedNode) -> Any:
    """Return the zero value of a node's Go type: Go stores it for null in a list or map."""
    zeros = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}
    return zeros.get(node.shape, {} if node.shape in {"struct", "map"} else None)


def _name_json_type(value: object) -> str:
    """Return Go's name of the JSON type of a value.

    Floats, and integers that do not fit into 32 bits, are printed with it.
    """
    if isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) > _INT32_MAX
    ):
        return f"number {value}"
    names = {bool: "bool", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


def _format_go_name(name: str) -> str:
    """Return `v1.ServiceSpec` for `io.k8s.api.core.v1.ServiceSpec`."""
    return ".".join(name.split(".")[-2:])
