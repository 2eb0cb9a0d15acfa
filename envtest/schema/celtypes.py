"""The types of a schema for the CEL library: the type of `self`, and values from decoded JSON.

A rule is type-checked when its CRD is created, by protocol buffer messages that are built from the
schema. So a rule with an unknown field, or one that compares a string with a number, is refused.
A rule is evaluated over plain maps and lists, because building a message of every object would
take longer than the rules.
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
_SIGNS: Final = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)
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


def escape_name(name: str) -> str | None:
    """Return the name of a field in CEL expressions; None if CEL cannot express the name."""
    if name in RESERVED:
        return f"__{name}__"
    if not _IDENTIFIER.fullmatch(name):
        return None
    for sign, word in _SIGNS:
        name = name.replace(sign, word)
    return name


def is_dynamic(schema: _Schema) -> bool:
    """Return whether the type of a value is not checked.

    Numbers are not checked, because Kubernetes allows comparing them with integers and the
    library's checker does not.
    """
    schema_type = schema.get("type")
    return bool(schema.get("x-kubernetes-int-or-string")) or schema_type == "number"


class CelTypes:
    """The CEL type of one schema node, and a pool with the messages that it consists of."""

    def __init__(self, schema: _Schema, *, root: bool) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(
            name="schema.proto",
            syntax="proto3",
            dependency=[package.DESCRIPTOR.name for package in _PACKAGES],
        )
        self._names: set[str] = set()
        self.type = self._build_variable_type(schema, "object", root=root)
        self.pool = descriptor_pool.DescriptorPool()
        for package in _PACKAGES:
            self.pool.AddSerializedFile(package.DESCRIPTOR.serialized_pb)
        self.pool.Add(self._file)

    def _build_variable_type(self, schema: object, path: str, *, root: bool) -> Any:
        """Return the type of a value as a CEL variable; None if the schema names no type.

        Args:
            schema: the schema of the value.
            path: the name for its message, if it is an object.
            root: whether it is a whole object, with apiVersion, kind and metadata.
        """
        if not isinstance(schema, Mapping):
            return None
        schema_type = schema.get("type")
        if schema_type == "array":
            item = self._build_variable_type(
                schema.get("items"), f"{path}_item", root=_is_embedded(schema)
            )
            return None if item is None else cel.Type.List(item)
        if schema_type == "object" and isinstance(schema.get("additionalProperties"), Mapping):
            value = schema["additionalProperties"]
            item = self._build_variable_type(value, f"{path}_value", root=_is_embedded(value))
            return None if item is None else cel.Type.Map(cel.Type.STRING, item)
        value_type, message = self._get_single_type(schema, path, root=root)
        if value_type == _Field.TYPE_MESSAGE:
            return cel.Type.DYN if message == _ANY else cel.Type(message.removeprefix("."))
        return _CEL.get(value_type)

    def _get_single_type(self, schema: _Schema, path: str, *, root: bool) -> tuple[int, str]:
        """Return the protocol buffer type of a value that is neither a list nor a map.

        Args:
            schema: the schema of the value.
            path: the name for its message, if it is an object.
            root: whether it is a whole object, with apiVersion, kind and metadata.

        Returns:
            The type (0 if the schema names none), and the name of the message if it is one.
        """
        schema_type, string_format = schema.get("type") or "", schema.get("format") or ""
        if is_dynamic(schema):
            return _Field.TYPE_MESSAGE, _ANY
        if schema_type == "object":
            return _Field.TYPE_MESSAGE, self._add_message(schema, path, root=root)
        if schema_type == "string" and string_format in _TIMES:
            return _Field.TYPE_MESSAGE, f".google.protobuf.{_TIMES[string_format].capitalize()}"
        if schema_type == "string" and string_format == "byte":
            return _Field.TYPE_BYTES, ""
        return _SCALARS.get(schema_type, 0), ""

    def _add_message(self, schema: _Schema, path: str, *, root: bool) -> str:
        """Add the message of an object's schema to the file; return its name."""
        message = self._file.message_type.add(name=self._reserve_name(path))
        fields = {}
        for name, child in (schema.get("properties") or {}).items():
            if (escaped := escape_name(name)) is not None:
                fields[escaped] = child
        if root:
            fields |= _VISIBLE_FIELDS
        for name, child in fields.items():
            self._add_field(message, name, schema=child, path=f"{path}_{name}")
        return f".{message.name}"

    def _reserve_name(self, name: str) -> str:
        """Return a message name that no other message has, and reserve it."""
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _add_field(self, message: Any, name: str, schema: _Schema, path: str) -> None:
        """Add a field to a message, unless the schema names no type for it.

        A list becomes a repeated field. A map becomes a repeated field of entries, each a message
        with a key and a value.
        """
        schema_type, additional = schema.get("type"), schema.get("additionalProperties")
        label = _Field.LABEL_OPTIONAL
        if schema_type == "array" and isinstance(schema.get("items"), Mapping):
            value_type, value_message = self._get_member_type(schema["items"], f"{path}_item")
            label = _Field.LABEL_REPEATED
        elif schema_type == "object" and isinstance(additional, Mapping):
            value_type, value_message = self._get_member_type(additional, f"{path}_value")
            if value_type:
                entry = _add_map_entry(
                    message, name, value_type=value_type, value_message=value_message
                )
                # Without a name for its entries, the map is one value without a type.
                value_type, value_message = _Field.TYPE_MESSAGE, entry or _ANY_MAP
                label = _Field.LABEL_REPEATED if entry else label
        else:
            value_type, value_message = self._get_single_type(
                schema, path, root=_is_embedded(schema)
            )
        if value_type:
            message.field.add(
                name=name,
                # The default JSON names of two fields may be equal, which the library refuses.
                json_name=f"field{len(message.field)}",
                number=len(message.field) + 1,
                type=value_type,
                label=label,
                type_name=value_message or None,
            )

    def _get_member_type(self, schema: _Schema, path: str) -> tuple[int, str]:
        """Return type and message name of the items of a list or the values of a map.

        Protocol buffers cannot nest lists and maps, so an inner list or map is untyped.
        """
        schema_type = schema.get("type")
        if schema_type == "array":
            return _Field.TYPE_MESSAGE, _ANY_LIST
        if schema_type == "object" and isinstance(schema.get("additionalProperties"), Mapping):
            return _Field.TYPE_MESSAGE, _ANY_MAP
        return self._get_single_type(schema, path, root=_is_embedded(schema))


def _add_map_entry(message: Any, field: str, *, value_type: int, value_message: str) -> str:
    """Add the message for the entries of a map.

    Args:
        message: the message that has the map as a field.
        field: the name of that field.
        value_type: the type of the map's values.
        value_message: the name of their message; empty if they are no messages.

    Returns:
        The name of the added message; empty if another field's entries have that name.
    """
    # The library accepts only the name that protoc gives to such a message.
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
# The fields of every whole object that rules see, whatever its schema says.
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_VISIBLE_FIELDS: Final[Mapping[str, _Schema]] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": _METADATA,
}


def _is_embedded(schema: _Schema) -> bool:
    """Return whether a schema describes an embedded object."""
    return bool(schema.get("x-kubernetes-embedded-resource"))


def build_converter(schema: object, *, root: bool) -> Convert | None:
    """Return a function that converts decoded JSON to values for rules.

    None if decoded JSON needs no conversion.

    Args:
        schema: the schema of the values.
        root: whether they are whole objects, with apiVersion, kind and metadata.
    """
    if not isinstance(schema, Mapping):
        return None
    schema_type = schema.get("type")
    if schema_type == "number":
        # JSON has one type for numbers, and CEL has two; bool is a subclass of int.
        return lambda value: float(value) if type(value) is int else value
    if schema_type == "string":
        return _build_text_converter(schema.get("format") or "")
    if schema_type == "array":
        return _build_member_converter(build_converter(schema.get("items"), root=False))
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return _build_member_converter(build_converter(additional, root=False))
    return _build_object_converter(schema, root=root or _is_embedded(schema))


def _build_object_converter(schema: _Schema, *, root: bool) -> Convert | None:
    """Return a function that converts an object: it escapes names and converts fields.

    Fields that are not in the schema, and those that CEL cannot name, are left out. None if no
    field needs conversion.
    """
    fields = {**(schema.get("properties") or {}), **(_VISIBLE_FIELDS if root else {})}
    parts = {
        name: (
            escape_name(name),
            _select_visible_metadata if child is _METADATA else build_converter(child, root=False),
        )
        for name, child in fields.items()
    }
    if not root and all(part == (name, None) for name, part in parts.items()):
        return None

    def convert(value: Any) -> Any:
        """Return an object with escaped names and converted fields; other values unchanged."""
        if not isinstance(value, dict):
            return value
        out = {}
        for name, item in value.items():
            escaped, convert_field = parts.get(name, (None, None))
            if escaped is not None:
                out[escaped] = item if convert_field is None else convert_field(item)
        return out

    return convert


def _select_visible_metadata(metadata: Any) -> Any:
    """Return metadata reduced to the fields that rules see."""
    visible = _METADATA["properties"]
    return {name: metadata[name] for name in visible if name in metadata}


def _build_member_converter(convert: Convert | None) -> Convert | None:
    """Return a function that converts all items of a list or values of a map.

    None if they need no conversion, so `convert` is None.
    """
    if convert is None:
        return None

    def convert_members(value: Any) -> Any:
        """Return a list or map with converted members; other values unchanged."""
        if isinstance(value, dict):
            return {name: convert(item) for name, item in value.items()}
        return [convert(item) for item in value] if isinstance(value, list) else value

    return convert_members


def _build_text_converter(string_format: str) -> Convert | None:
    """Return a function that converts strings of a format to bytes or times; None for others."""
    if string_format == "byte":
        return _to_bytes
    return {"timestamp": _to_timestamp, "duration": _to_duration}.get(
        _TIMES.get(string_format, "")
    )


def _to_bytes(value: Any) -> Any:
    """Decode base64; return anything else unchanged, which a rule then cannot use as bytes."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return value


# In maps the library accepts times only as messages. A value that is no time stays a string, and a
# rule that uses it as a time fails.


def _to_timestamp(value: Any) -> Any:
    """Convert a date or time to a message; return anything else unchanged."""
    if not isinstance(value, str):
        return value
    timestamp = timestamp_pb2.Timestamp()
    try:
        # A date means the beginning of that day in UTC.
        timestamp.FromJsonString(value if "T" in value else f"{value}T00:00:00Z")
    except ValueError:
        return value
    return timestamp


def _to_duration(value: Any) -> Any:
    """Convert a duration to a message; return anything else unchanged."""
    result = (
        _compile_duration_reader().eval(data={"text": value}) if isinstance(value, str) else None
    )
    if result is None or result.type() == cel.Type.ERROR:
        return value
    duration = duration_pb2.Duration()
    duration.FromTimedelta(result.value())
    return duration


@functools.cache
def _compile_duration_reader() -> Any:
    """Compile an expression that parses durations in Go's notation, such as 1h30m."""
    return cel.NewEnv(variables={"text": cel.Type.STRING}).compile("duration(text)")
