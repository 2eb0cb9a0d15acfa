"""The scale that a client wants: read from what replaces or patches the present one."""

from typing import Any

from envtest.kinds.typed import TypedError, decode, named
from envtest.patching import SCALE_VERSION, PatchError, json_patch, merge_patch
from envtest.schema import MalformedJSON, read_json
from envtest.schema.errors import invalid
from envtest.server.bodies import media_type, read_as
from envtest.server.call import Call
from envtest.server.failures import (
    StatusError,
    bad_request,
    invalid_object,
    refused_patch,
    unprocessable,
    unsupported_media_type,
)
from envtest.server.options import WriteOptions
from envtest.server.patched import shown_struct
from envtest.server.patches import JSON_PATCH, accepted

_SCHEMA = "io.k8s.api.autoscaling.v1.Scale"
_NOT_TOLD = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'


def wanted_scale(call: Call, present: dict[str, Any], options: WriteOptions) -> dict[str, Any]:
    """Return the scale that the client wants."""
    kind = media_type(call.content_type)
    if call.info.verb == "patch":
        content = _fitting(call, _patched(call, present, kind), options)
    else:
        # Of built-in and of custom resources alike: a scale is a built-in kind.
        content = _replacing(call, kind, options)
    if not isinstance(content, dict):
        raise bad_request("the scale is no object")
    for part in ("metadata", "spec"):
        content[part] = {} if content.get(part) is None else content[part]
        if not isinstance(content[part], dict):
            raise bad_request(f"{part} of the scale is no object")
    return content


def _replacing(call: Call, kind: str, options: WriteOptions) -> dict[str, Any]:
    """Read a scale that replaces another.

    Raises:
        StatusError: 400 or 415; where custom resources are served, nobody can say what of a scale
            does not fit.
    """
    unknown: list[str] = []
    custom = call.resource.rules.custom
    try:
        content = read_as(call.data, kind, _SCHEMA, "Scale", unknown)
    except StatusError as error:
        if error.code != 400 or not custom:
            raise
        raise bad_request(_NOT_TOLD) from None
    strict = options.field_validation == "Strict"
    given = content.get("kind", "Scale"), content.get("apiVersion", SCALE_VERSION)
    if custom and (given != ("Scale", SCALE_VERSION) or (unknown and strict)):
        raise bad_request(_NOT_TOLD)
    if options.field_validation != "Ignore":
        call.warnings += [f'unknown field "{path}"' for path in unknown]
    return content


def _fitting(call: Call, content: Any, options: WriteOptions) -> Any:
    """Decode a patched scale as Go's struct; what does not fit is the patch's fault.

    Raises:
        StatusError: 422.
    """
    if not isinstance(content, dict):
        raise unprocessable()
    shown = shown_struct(content)
    try:
        unknown = decode(content, named(_SCHEMA))
    except TypedError as error:
        raise _unfit(shown, str(error)) from None
    told = [f'unknown field "{path}"' for path in unknown]
    if told and options.field_validation == "Strict":
        raise _unfit(shown, f"strict decoding error: {', '.join(told)}")
    if options.field_validation != "Ignore":
        call.warnings += told
    return content


def _unfit(shown: str, why: str) -> StatusError:
    return invalid_object("", "", "", [invalid("patch", shown, why)])


def _patched(call: Call, present: dict[str, Any], kind: str) -> Any:
    """Return what a patch makes of the scale."""
    try:
        content, _ = read_json(call.data)
    except MalformedJSON as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if kind not in accepted(call.resource):
        raise unsupported_media_type(accepted(call.resource))
    patch = json_patch if kind == JSON_PATCH else merge_patch
    try:
        return patch(present, content)
    except PatchError as error:
        raise refused_patch(error) from error
