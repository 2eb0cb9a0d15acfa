"""Objects made up from what is known of the messages of built-in kinds."""

import base64
from typing import Any

from hypothesis import strategies as st

from envtest.kinds.catalogue import resources
from envtest.server.protobuf import message_name
from envtest.wire.messages import Field, is_list, message

# (apiVersion, kind) of everything that is served.
KINDS = sorted(
    {
        (group_version, entry["kind"])
        for group_version, entries in resources().items()
        for entry in entries
        if "group" not in entry
    }
)
_DEEPEST = 6
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_wholes = st.integers(-(2**63), 2**63 - 1)
_json = st.one_of(st.booleans(), _wholes, _texts, st.lists(_texts, max_size=2)) | st.dictionaries(
    _texts, st.none() | _wholes, max_size=2
)
_times = st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds"))


_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _schema() -> st.SearchStrategy[Any]:
    return bodies(_SCHEMA, _DEEPEST)


_schemas = st.deferred(_schema)
# Types whose JSON is not that of their fields.
_SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "Time": _times.map(lambda time: f"{time}Z"),
    "MicroTime": st.tuples(_times, st.integers(0, 999_999)).map(
        lambda parts: f"{parts[0]}.{parts[1]:06d}Z"
    ),
    "Quantity": st.sampled_from(["0", "1", "100m", "2Gi", "-3"]),
    "IntOrString": st.integers(-(2**31), 2**31 - 1) | _texts,
    "RawExtension": _json,
    "FieldsV1": _json,
    "JSON": _json,
    "JSONSchemaPropsOrBool": st.booleans() | _schemas,
    "JSONSchemaPropsOrArray": _schemas | st.lists(_schemas, min_size=1, max_size=2),
    "JSONSchemaPropsOrStringArray": _schemas | st.lists(_texts, min_size=1, max_size=2),
}
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "string": _texts,
    "bytes": st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode()),
    "double": _wholes.filter(lambda value: abs(value) < 2**53)
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda value: not value.is_integer()
    ),
    "bool": st.booleans(),
    "int": _wholes,
}


def _values(field: Field, depth: int) -> st.SearchStrategy[Any]:
    """Return what may stand in a field, or be an element of its list or map."""
    special = _SPECIAL.get(field.inner.rpartition(".")[2])
    if field.kind != "message":
        return _PLAIN[field.kind]
    if special is not None:
        return special
    if is_list(message(field.inner) or {}):
        return st.lists(_texts, max_size=2)
    return bodies(field.inner, depth + 1)


def _always(field: Field) -> bool:
    """Tell whether Go's JSON always has a field."""
    short = field.inner.rpartition(".")[2]
    if field.shape not in {"value", "shown"} or short in {"Time", "MicroTime", "RawExtension"}:
        return False
    return field.kind == "message" or field.shape == "shown"


@st.composite
def bodies(draw: st.DrawFn, name: str, depth: int = 0) -> dict[str, Any]:
    """Return an object of a message as Go's JSON has it, with a few of the fields that may be."""
    body: dict[str, Any] = {}
    known = list((message(name) or {}).values())
    free = [field for field in known if not _always(field) and field.shape != "inline"]
    limit = 3 if depth < _DEEPEST else 0
    chosen = draw(st.sets(st.sampled_from(free), max_size=limit)) if free else set()
    for field in known:
        if field.shape == "inline":
            body.update(draw(bodies(field.inner, depth + 1)))
        elif _always(field) or field in chosen:
            value = _draw_field(draw, field, depth)
            # Of these the empty value is left out, and an empty text of bytes is none.
            left_out = field.shape == "value" or field.kind == "bytes"
            if left_out and field.kind != "message" and value in ("", 0):
                continue
            body[field.name] = value
    return body


def _draw_field(draw: st.DrawFn, field: Field, depth: int) -> Any:
    values = _values(field, depth)
    if field.shape == "list":
        return draw(st.lists(values, min_size=1, max_size=2))
    if field.shape == "map":
        return draw(st.dictionaries(_texts, values, min_size=1, max_size=2))
    return draw(values)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """Return an object of any built-in kind."""
    api_version, kind = draw(st.sampled_from(KINDS))
    body = draw(bodies(message_name(api_version, kind)))
    return {"apiVersion": api_version, "kind": kind, **body}
