"""Request bodies: the formats that are read, and the fields that a kind does not have.

Texts follow kube-apiserver, which decodes bodies of built-in kinds into Go types, and bodies of
custom resources into untyped maps.
"""

from dataclasses import dataclass, field
from typing import Any

from controller.managedfields.gotext import name_json_type
from envtest.kinds.catalogue import build_schema_name, get_schemas, list_resources
from envtest.kinds.typed import TypedError, decode_object, load_node
from envtest.schema import (
    MalformedJSON,
    MalformedMetadata,
    MalformedObject,
    MalformedYAML,
    cut_snippet,
    read_json,
    read_yaml,
)
from envtest.server.failures import StatusError, build_bad_request, build_unsupported_media_type
from envtest.server.resource import StoredResource
from envtest.wire.protobuf import ProtobufError, read_protobuf

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
READABLE_TYPES = (JSON, YAML, PROTOBUF)
# The real server's limit for one request.
BODY_LIMIT = 3 * 1024 * 1024

# Content-Type headers of nearly all requests; these need no parsing.
_USUAL = frozenset(
    {
        "",
        *READABLE_TYPES,
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    }
)
_ENVELOPE = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
_ENVELOPE += 'Kind string "json:\\"kind,omitempty\\"" }'


@dataclass(slots=True)
class DecodedBody:
    """A decoded body, and complaints about its unknown and duplicate fields."""

    body: dict[str, Any]
    complaints: list[str] = field(default_factory=list)


def parse_media_type(header: str) -> str:
    """Return the media type of a Content-Type header without its parameters."""
    return header if header in _USUAL else header.partition(";")[0].strip().lower()


def read_object(data: bytes, content_type: str, resource: StoredResource) -> DecodedBody:
    """Read the body of a create or update.

    Args:
        data: the body.
        content_type: its media type; an empty one means JSON.
        resource: the resource that the body should be an object of.

    Raises:
        StatusError: 415 for a format that is not read, 400 for a body that is no object.
    """
    kind = resource.kind
    # Custom resources have no protobuf encoding: _decode_text refuses that media type for them.
    if content_type == PROTOBUF and not resource.rules.is_custom:
        name = build_schema_name(resource.group, resource.version, kind)
        return DecodedBody(_decode_protobuf(data, name, kind))
    decoded = _decode_text(data, content_type, kind)
    if resource.rules.is_custom:
        _require_kind(decoded.body, kind, data)
        # `fit_to_resource` fills in an apiVersion that is absent. An empty one is kept, so that
        # `check_version` refuses a body with null as it refuses one with "".
        decoded.body["apiVersion"] = decoded.body.get("apiVersion") or ""
    return decoded


def read_subresource_body(
    data: bytes, content_type: str, name: str, kind: str, unknown: list[str] | None = None
) -> dict[str, Any]:
    """Read a body of a kind that is not its resource's: a TokenRequest, Scale or DeleteOptions.

    Args:
        data: the body.
        content_type: its media type.
        name: the OpenAPI name of the kind; its schema decodes the body.
        kind: the kind, for the refusals.
        unknown: a list to which the paths of unknown fields are added; None drops them.

    Raises:
        StatusError: 415 for a format that is not read, 400 for a body that is no object.
    """
    if content_type == PROTOBUF:
        return _decode_protobuf(data, name, kind)
    # Such as v1 of io.k8s.api.authentication.v1.TokenRequest.
    version = name.split(".")[-2]
    body = _decode_text(data, content_type, kind).body
    # The catalogue has no schema of some kinds; their bodies stay as they are.
    if name in get_schemas():
        try:
            dropped = decode_object(body, load_node(name))
        except TypedError as error:
            raise _build_unfit_error(kind, version, str(error)) from None
        if unknown is not None:
            unknown += dropped
    return body


def _decode_text(data: bytes, content_type: str, kind: str) -> DecodedBody:
    """Decode a JSON or YAML body to an object whose apiVersion and kind are strings or absent.

    Raises:
        StatusError: 415 for another media type, 400 for a body that cannot be read.
    """
    if content_type not in {"", JSON, YAML, "application/x-yaml"}:
        raise build_unsupported_media_type(READABLE_TYPES)
    try:
        value, duplicates = read_json(data) if content_type in {"", JSON} else read_yaml(data)
    except MalformedJSON as error:
        raise _build_unrecognized_error(kind, f"json parse error: {error}", data) from None
    except MalformedYAML as error:
        raise build_bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"{error} ({cut_snippet(data)})"
        ) from None
    # Go's decoder leaves an object empty when it reads null.
    value = {} if value is None else value
    fault = find_envelope_fault(value)
    if fault:
        message = f"json parse error: json: cannot unmarshal {fault}"
        raise _build_unrecognized_error(kind, message, data)
    return DecodedBody(value, duplicates)


def find_envelope_fault(value: Any) -> str:
    """Return why Go cannot read apiVersion and kind from a body; empty if it can."""
    if not isinstance(value, dict):
        return f"{name_json_type(value)} into Go value of type {_ENVELOPE}"
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str | None):
            return f"{name_json_type(value[name])} into Go struct field .{name} of type string"
    return ""


def _require_kind(body: dict[str, Any], kind: str, data: bytes) -> None:
    """Refuse a custom resource without a kind; bodies of built-in kinds may leave it out.

    Args:
        body: the decoded body.
        kind: the kind of the resource.
        data: the body as it was sent, which the refusal quotes.

    Raises:
        StatusError: 400.
    """
    if not body.get("kind"):
        message = f"Object 'Kind' is missing in '{data.decode('utf-8', 'replace')}'"
        raise build_bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"{message} ({cut_snippet(data)})"
        )


def _decode_protobuf(data: bytes, name: str, kind: str) -> dict[str, Any]:
    """Decode a protobuf body by the OpenAPI name of its kind; refuse one that is malformed."""
    try:
        return read_protobuf(data, name)
    except ProtobufError as error:
        raise build_bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"{error} ({cut_snippet(data)})"
        ) from None


def _build_unrecognized_error(kind: str, why: str, data: bytes) -> StatusError:
    """Return 400 for a body whose apiVersion and kind cannot be read."""
    return build_bad_request(
        f"the object provided is unrecognized (must be of type {kind}): "
        f"couldn't get version/kind; {why} ({cut_snippet(data)})"
    )


def fit_to_resource(resource: StoredResource, decoded: DecodedBody) -> None:
    """Make a body an object of a resource, in place: check kind and types, drop unknown fields.

    The paths of unknown fields are added to `complaints`.

    Raises:
        StatusError: 400 when the body cannot be an object of this kind.
    """
    body = decoded.body
    # An empty apiVersion of a custom resource stays, so that `check_version` refuses it.
    body["apiVersion"] = body.get("apiVersion", resource.api_version)
    body["kind"] = body.get("kind") or resource.kind
    if not resource.rules.is_custom:
        body["apiVersion"] = body["apiVersion"] or resource.api_version
        _check_builtin_kind(resource, body)
    if body.get("metadata") is None:
        body["metadata"] = {}
    try:
        unknown = resource.rules.decode(body)
    except (TypedError, MalformedObject, MalformedMetadata) as error:
        raise _build_unfit_error(resource.kind, resource.version, str(error)) from None
    decoded.complaints += [f'unknown field "{path}"' for path in unknown]


def _check_builtin_kind(resource: StoredResource, body: dict[str, Any]) -> None:
    """Refuse a body of another kind, which the real server cannot decode into its Go type.

    Raises:
        StatusError: 400.
    """
    fault = find_kind_fault(resource, body)
    if fault:
        kind, version = body["kind"], body["apiVersion"].rpartition("/")[2]
        raise build_bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {fault}'
        )


def find_kind_fault(resource: StoredResource, body: dict[str, Any]) -> str:
    """Return why a body cannot become an object of a built-in kind; empty if it can.

    kube-apiserver fails in one of two places. A kind that its scheme has in this version decodes,
    and then does not convert to the resource's kind. Any other kind is unknown to the scheme.
    """
    api_version, kind = body["apiVersion"], body["kind"]
    if (api_version, kind) == (resource.api_version, resource.kind):
        return ""
    known_kinds = {entry["kind"] for entry in list_resources().get(api_version, ())}
    if api_version == resource.api_version and kind in known_kinds:
        internal = resource.group.partition(".")[0] or "core"
        return (
            f"converting ({resource.version}.{kind}) to ({internal}.{resource.kind}): "
            "unknown conversion"
        )
    return (
        f'no kind "{kind}" is registered for version "{api_version}" '
        'in scheme "pkg/runtime/scheme.go:111"'
    )


def _build_unfit_error(kind: str, version: str, why: str) -> StatusError:
    """Return 400 for a body that does not decode as its kind."""
    return build_bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def enforce_field_validation(
    resource: StoredResource, decoded: DecodedBody, validation: str, warnings: list[str]
) -> None:
    """Treat unknown and duplicate fields as the query parameter fieldValidation says.

    Strict refuses the body, Warn adds the complaints to `warnings`, and Ignore does nothing.

    Raises:
        StatusError: 400 under Strict.
    """
    if not decoded.complaints or validation == "Ignore":
        return
    if validation == "Strict":
        why = f"strict decoding error: {', '.join(decoded.complaints)}"
        raise _build_unfit_error(resource.kind, resource.version, why)
    warnings += decoded.complaints


def check_version(resource: StoredResource, body: dict[str, Any]) -> None:
    """Refuse an object of another version of this group.

    Raises:
        StatusError: 400.
    """
    if body["apiVersion"] != resource.api_version:
        raise build_bad_request(
            f"the API version in the data ({body['apiVersion']}) does not match the expected "
            f"API version ({resource.api_version})"
        )
