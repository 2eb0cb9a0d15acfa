"""The types of a schema for the CEL library: the type of `self`, and how JSON becomes its values.

A rule is checked against messages of protocol buffers that are made of the schema, so a field
that does not exist and a comparison of a text with a number are refused where the rule is made.
It is evaluated over plain maps and lists: to make messages of every object would cost more than
the rules.
"""

import base64
import binascii
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from cel_expr_python import cel
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
)

_Schema = Mapping[str, Any]
Convert = Callable[[Any], Any]
# Words that CEL reserves: as the name of a field they are written __word__.
RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"}
    | {"if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_SIGNS: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"))
_Field = descriptor_pb2.FieldDescriptorProto
_ANY: Final = ".google.protobuf.Value"
_ANY_LIST: Final = ".google.protobuf.ListValue"
_ANY_MAP: Final = ".google.protobuf.Struct"
_SCALARS: Final = {
    "boolean": _Field.TYPE_BOOL,
    "integer": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
}
_CEL: Final = {
    _Field.TYPE_BOOL: cel.Type.BOOL,
    _Field.TYPE_BYTES: cel.Type.BYTES,
    _Field.TYPE_INT64: cel.Type.INT,
    _Field.TYPE_STRING: cel.Type.STRING,
}
_TIMES: Final = {
    "date": "timestamp",
    "date-time": "timestamp",
    "duration": "duration",
}
_PACKAGES: Final = (struct_pb2, timestamp_pb2, duration_pb2)


def escape(name: str) -> str | None:
    """Return the name of a field inside expressions; None where it cannot be written at all."""
    if name in RESERVED:
        return f"__{name}__"
    if not _IDENTIFIER.fullmatch(name):
        return None
    for sign, word in (*_SIGNS, ("/", "__slash__")):
        name = name.replace(sign, word)
    return name


def is_dynamic(schema: _Schema) -> bool:
    """Return whether a value has no type that can be checked.

    A number is among them, as Kubernetes lets one be compared with integers and the library's
    checker does not.
    """
    kind = schema.get("type")
    return bool(schema.get("x-kubernetes-int-or-string")) or kind == "number"


class Types:
    """The types of one schema node and of all below it."""

    def __init__(self, schema: _Schema, *, root: bool) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(
            name="schema.proto",
            syntax="proto3",
            dependency=[package.DESCRIPTOR.name for package in _PACKAGES],
        )
        self._names: set[str] = set()
        self.type = self._variable(schema, "object", root=root)
        self.pool = descriptor_pool.DescriptorPool()
        for package in _PACKAGES:
            self.pool.AddSerializedFile(package.DESCRIPTOR.serialized_pb)
        self.pool.Add(self._file)

    def _variable(self, schema: object, path: str, *, root: bool) -> Any:
        """Return the type that a value has as a variable; None where the schema has none."""
        if not isinstance(schema, Mapping):
            return None
        kind = schema.get("type")
        if kind == "array":
            item = self._variable(schema.get("items"), f"{path}_item", root=_embeds(schema))
            return None if item is None else cel.Type.List(item)
        if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
            value = schema["additionalProperties"]
            item = self._variable(value, f"{path}_value", root=_embeds(value))
            return None if item is None else cel.Type.Map(cel.Type.STRING, item)
        value_type, message = self._describe_single(schema, path, root=root)
        if value_type == _Field.TYPE_MESSAGE:
            return cel.Type.DYN if message == _ANY else cel.Type(message.removeprefix("."))
        return _CEL.get(value_type)

    def _describe_single(self, schema: _Schema, path: str, *, root: bool) -> tuple[int, str]:
        """Return the type of a value that is neither a list nor a map.

        Args:
            schema: of the value.
            path: the name of its message, if it is an object.
            root: whether it is a whole object, with apiVersion, kind and metadata.

        Returns:
            The type in protocol buffers (0 if the schema names none), and of a message its name.
        """
        kind, form = schema.get("type") or "", schema.get("format") or ""
        if is_dynamic(schema):
            return _Field.TYPE_MESSAGE, _ANY
        if kind == "object":
            return _Field.TYPE_MESSAGE, self._add_message(schema, path, root=root)
        if kind == "string" and form in _TIMES:
            return _Field.TYPE_MESSAGE, f".google.protobuf.{_TIMES[form].capitalize()}"
        if kind == "string" and form == "byte":
            return _Field.TYPE_BYTES, ""
        return _SCALARS.get(kind, 0), ""

    def _add_message(self, schema: _Schema, path: str, *, root: bool) -> str:
        """Add the message of an object's schema to the file; return its name."""
        message = self._file.message_type.add(name=self._take_unused_name(path))
        fields = {}
        for name, child in (schema.get("properties") or {}).items():
            if (written := escape(name)) is not None:
                fields[written] = child
        if root:
            fields |= _VISIBLE
        for name, child in fields.items():
            self._add_field(message, name, schema=child, path=f"{path}_{name}")
        return f".{message.name}"

    def _take_unused_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _add_field(self, message: Any, name: str, schema: _Schema, path: str) -> None:
        """Add a field to a message; none if the schema has no type for it.

        A list is a repeated field. So is a map, of messages that each have a key and a value.
        """
        kind, additional = schema.get("type"), schema.get("additionalProperties")
        label = _Field.LABEL_OPTIONAL
        if kind == "array" and isinstance(schema.get("items"), Mapping):
            value_type, value_message = self._describe_member(schema["items"], f"{path}_item")
            label = _Field.LABEL_REPEATED
        elif kind == "object" and isinstance(additional, Mapping):
            value_type, value_message = self._describe_member(additional, f"{path}_value")
            if value_type:
                entry = _add_map_entry(
                    message, name, value_type=value_type, value_message=value_message
                )
                value_type, value_message = _Field.TYPE_MESSAGE, entry or _ANY_MAP
                label = _Field.LABEL_REPEATED if entry else label
        else:
            value_type, value_message = self._describe_single(schema, path, root=_embeds(schema))
        if value_type:
            message.field.add(
                name=name,
                json_name=f"field{len(message.field)}",
                number=len(message.field) + 1,
                type=value_type,
                label=label,
                type_name=value_message or None,
            )

    def _describe_member(self, schema: _Schema, path: str) -> tuple[int, str]:
        """Return the type of a list's items or a map's values, as `_describe_single` does.

        A list or a map in a list or map is untyped: protocol buffers cannot nest them.
        """
        kind = schema.get("type")
        if kind == "array":
            return _Field.TYPE_MESSAGE, _ANY_LIST
        if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
            return _Field.TYPE_MESSAGE, _ANY_MAP
        return self._describe_single(schema, path, root=_embeds(schema))


def _add_map_entry(message: Any, field: str, *, value_type: int, value_message: str) -> str:
    """Add the message that the entries of a map are.

    Args:
        message: has the map as a field.
        field: the name of that field.
        value_type: the type of the map's values.
        value_message: the name of their message; empty if they are none.

    Returns:
        The name of the added message; empty if another field's entries have that name.
    """
    # The name is the one that protoc would give it; the library insists on it.
    parts = [part[:1].upper() + part[1:] for part in field.split("_")]
    name = f"{''.join(parts)}Entry"
    if any(nested.name == name for nested in message.nested_type):
        return ""
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    label = _Field.LABEL_OPTIONAL
    entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=label)
    entry.field.add(
        name="value", number=2, type=value_type, label=label, type_name=value_message or None
    )
    return f".{message.name}.{name}"


_TEXT: Final = {"type": "string"}
# What rules see of every whole object, whatever its schema says.
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_VISIBLE: Final[Mapping[str, _Schema]] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": _METADATA,
}


def _embeds(schema: _Schema) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def converter(schema: object, *, root: bool) -> Convert | None:
    """Return a function that turns decoded JSON into values for rules; None where JSON will do."""
    if not isinstance(schema, Mapping):
        return None
    kind = schema.get("type")
    if kind == "number":
        return lambda value: float(value) if type(value) is int else value
    if kind == "string":
        return _text_converter(schema.get("format") or "")
    if kind == "array":
        return _member_converter(converter(schema.get("items"), root=False))
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return _member_converter(converter(additional, root=False))
    return _object_converter(schema, root=root or _embeds(schema))


def _object_converter(schema: _Schema, *, root: bool) -> Convert | None:
    """Return a function that escapes field names for CEL; None if there is none to escape."""
    fields = {**(schema.get("properties") or {}), **(_VISIBLE if root else {})}
    parts = {
        name: (escape(name), _names if child is _METADATA else converter(child, root=False))
        for name, child in fields.items()
    }
    if not root and all(part == (name, None) for name, part in parts.items()):
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        out = {}
        for name, item in value.items():
            written, inner = parts.get(name, (None, None))
            if written is not None:
                out[written] = item if inner is None else inner(item)
        return out

    return convert


def _names(metadata: Any) -> Any:
    """Return the part of an object's metadata that rules see."""
    visible = _METADATA["properties"]
    return {name: metadata[name] for name in visible if name in metadata}


def _member_converter(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None

    def convert_members(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: convert(item) for name, item in value.items()}
        return [convert(item) for item in value] if isinstance(value, list) else value

    return convert_members


def _text_converter(form: str) -> Convert | None:
    if form == "byte":
        return _bytes
    return {"timestamp": _timestamp, "duration": _duration}.get(_TIMES.get(form, ""))


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return value


# Inside of maps the library takes times as messages only. What is no time stays a text, and a rule
# that reads it as one fails.


def _timestamp(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    timestamp = timestamp_pb2.Timestamp()
    try:
        timestamp.FromJsonString(value if "T" in value else f"{value}T00:00:00Z")
    except ValueError:
        return value
    return timestamp


def _duration(value: Any) -> Any:
    result = _read_duration().eval(data={"text": value}) if isinstance(value, str) else None
    if result is None or result.type() == cel.Type.ERROR:
        return value
    duration = duration_pb2.Duration()
    duration.FromTimedelta(result.value())
    return duration


@functools.cache
def _read_duration() -> Any:
    """Return the library's own reader of durations, which takes them as Go writes them."""
    return cel.NewEnv(variables={"text": cel.Type.STRING}).compile("duration(text)")
