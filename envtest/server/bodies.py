"""Request bodies: which formats are read, and what becomes of what a kind does not know."""

from dataclasses import dataclass, field
from typing import Any

from controller.managedfields.gotext import json_kind
from envtest.kinds.catalogue import resources, schema_name, schemas
from envtest.kinds.typed import TypedError, decode, load_node
from envtest.schema import (
    MalformedJSON,
    MalformedMetadata,
    MalformedObject,
    MalformedYAML,
    read_json,
    read_yaml,
    snippet,
)
from envtest.server.failures import StatusError, bad_request, unsupported_media_type
from envtest.server.resource import StoredResource
from envtest.wire.protobuf import ProtobufError, read_protobuf

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
READ = (JSON, YAML, PROTOBUF)
# The real server's limit for one request.
BODY_LIMIT = 3 * 1024 * 1024

# What nearly every request says, as it is written there.
_USUAL = frozenset(
    {
        "",
        *READ,
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    }
)
_ENVELOPE = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
_ENVELOPE += 'Kind string "json:\\"kind,omitempty\\"" }'


@dataclass(slots=True)
class Decoded:
    """A body and what was noticed while reading it."""

    body: dict[str, Any]
    complaints: list[str] = field(default_factory=list)


def media_type(header: str) -> str:
    """Return the media type of a Content-Type header without its parameters."""
    return header if header in _USUAL else header.partition(";")[0].strip().lower()


def read_object(data: bytes, content_type: str, resource: StoredResource) -> Decoded:
    """Read the body of a create or update.

    Args:
        data: the body.
        content_type: its media type; nothing means JSON.
        resource: what is expected.

    Raises:
        StatusError: 415 for another format, 400 for a text that is no object.
    """
    kind = resource.kind
    if content_type == PROTOBUF and not resource.rules.custom:
        name = schema_name(resource.group, resource.version, kind)
        return Decoded(_from_protobuf(data, name, kind))
    decoded = _from_text(data, content_type, kind)
    if resource.rules.custom:
        _require_kind(decoded.body, kind, data)
    return decoded


def read_as(
    data: bytes, content_type: str, name: str, kind: str, unknown: list[str] | None = None
) -> dict[str, Any]:
    """Read a body that is of another kind than its resource, such as a TokenRequest.

    Args:
        data: the body.
        content_type: its media type.
        name: the OpenAPI name of the kind, for protobuf.
        kind: the kind, for the refusals.
        unknown: receives the paths of fields that the kind has not.

    Raises:
        StatusError: 415 for another format, 400 for a text that is no object.
    """
    if content_type == PROTOBUF:
        return _from_protobuf(data, name, kind)
    version = name.split(".")[-2]
    body = _from_text(data, content_type, kind).body
    if name in schemas():
        try:
            dropped = decode(body, load_node(name))
        except TypedError as error:
            raise _unfit(kind, version, str(error)) from None
        if unknown is not None:
            unknown += dropped
    return body


def _from_text(data: bytes, content_type: str, kind: str) -> Decoded:
    """Return a JSON or YAML body, decoded.

    Raises:
        StatusError: 415 for another type, 400 for a body that cannot be read.
    """
    if content_type not in {"", JSON, YAML, "application/x-yaml"}:
        raise unsupported_media_type(READ)
    try:
        value, duplicates = read_json(data) if content_type in {"", JSON} else read_yaml(data)
    except MalformedJSON as error:
        raise _refuse_unrecognized(kind, f"json parse error: {error}", data) from None
    except MalformedYAML as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"{error} ({snippet(data)})"
        ) from None
    value = {} if value is None else value
    fault = envelope_fault(value)
    if fault:
        message = f"json parse error: json: cannot unmarshal {fault}"
        raise _refuse_unrecognized(kind, message, data)
    return Decoded(value, duplicates)


def envelope_fault(value: Any) -> str:
    """Return why a body's apiVersion and kind cannot be read; nothing if they can."""
    if not isinstance(value, dict):
        return f"{json_kind(value)} into Go value of type {_ENVELOPE}"
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str | None):
            return f"{json_kind(value[name])} into Go struct field .{name} of type string"
    return ""


def _require_kind(body: dict[str, Any], kind: str, data: bytes) -> None:
    """Refuse a custom resource without apiVersion and kind; built-in kinds may leave them out.

    Raises:
        StatusError: 400.
    """
    if not body.get("kind"):
        message = f"Object 'Kind' is missing in '{data.decode('utf-8', 'replace')}'"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"{message} ({snippet(data)})"
        )
    body["apiVersion"] = body.get("apiVersion") or ""


def _from_protobuf(data: bytes, name: str, kind: str) -> dict[str, Any]:
    try:
        return read_protobuf(data, name)
    except ProtobufError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"{error} ({snippet(data)})"
        ) from None


def _refuse_unrecognized(kind: str, why: str, data: bytes) -> StatusError:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): "
        f"couldn't get version/kind; {why} ({snippet(data)})"
    )


def fit(resource: StoredResource, decoded: Decoded) -> None:
    """Make a body an object of a resource: check its kind and types, drop unknown fields.

    What is unknown is dropped and noted in `complaints`.

    Raises:
        StatusError: 400 when the body cannot be an object of this kind.
    """
    body = decoded.body
    body["apiVersion"] = body.get("apiVersion", resource.api_version)
    body["kind"] = body.get("kind") or resource.kind
    if not resource.rules.custom:
        body["apiVersion"] = body["apiVersion"] or resource.api_version
        _check_builtin(resource, body)
    if body.get("metadata") is None:
        body["metadata"] = {}
    try:
        unknown = resource.rules.decode(body)
    except (TypedError, MalformedObject, MalformedMetadata) as error:
        raise _unfit(resource.kind, resource.version, str(error)) from None
    decoded.complaints += [f'unknown field "{path}"' for path in unknown]


def _check_builtin(resource: StoredResource, body: dict[str, Any]) -> None:
    """Refuse another kind where the real server decodes into a Go type."""
    fault = kind_fault(resource, body)
    if fault:
        kind, version = body["kind"], body["apiVersion"].rpartition("/")[2]
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {fault}'
        )


def kind_fault(resource: StoredResource, body: dict[str, Any]) -> str:
    """Return why a body cannot become an object of a built-in kind; nothing if it can."""
    api_version, kind = body["apiVersion"], body["kind"]
    if (api_version, kind) == (resource.api_version, resource.kind):
        return ""
    known = {entry["kind"] for entry in resources().get(api_version, ())}
    if api_version == resource.api_version and kind in known:
        internal = resource.group.partition(".")[0] or "core"
        return (
            f"converting ({resource.version}.{kind}) to ({internal}.{resource.kind}): "
            "unknown conversion"
        )
    return (
        f'no kind "{kind}" is registered for version "{api_version}" '
        'in scheme "pkg/runtime/scheme.go:111"'
    )


def _unfit(kind: str, version: str, why: str) -> StatusError:
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def enforce_field_validation(
    resource: StoredResource, decoded: Decoded, validation: str, warnings: list[str]
) -> None:
    """Refuse, warn of or ignore unknown and duplicate fields, as fieldValidation says.

    Raises:
        StatusError: 400 under Strict.
    """
    if not decoded.complaints or validation == "Ignore":
        return
    if validation == "Strict":
        why = f"strict decoding error: {', '.join(decoded.complaints)}"
        raise _unfit(resource.kind, resource.version, why)
    warnings += decoded.complaints


def check_version(resource: StoredResource, body: dict[str, Any]) -> None:
    """Refuse an object of another version of this group.

    Raises:
        StatusError: 400.
    """
    if body["apiVersion"] != resource.api_version:
        raise bad_request(
            f"the API version in the data ({body['apiVersion']}) does not match the expected "
            f"API version ({resource.api_version})"
        )
