"""What a webhook answered: which answers count, and the words for those that do not."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from envtest.schema import MalformedJSON, strict_json
from envtest.schema.gotext import quote
from envtest.wire.gotexts import base64_fault

# What stands in front of most failures.
FAILED: Final = "failed to call webhook: "
_ENVELOPE: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME: Final = 'in scheme "pkg/runtime/scheme.go:111"'
# HTTP codes whose meaning client-go puts in words of its own.
_MEANINGS: Final[Mapping[int, str]] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}
# Codes for which the answer's own text is passed on.
_TOLD: Final = frozenset({403, 406, 415})
# Fields of an AdmissionResponse: the Go type that refusals name, and whether a value has it.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "uid": ("types.UID", lambda value: isinstance(value, str)),
    "allowed": ("bool", lambda value: isinstance(value, bool)),
    "status": ("v1.Status", lambda value: isinstance(value, dict)),
    "patch": ("[]uint8", lambda value: isinstance(value, str)),
    "patchType": ("v1.PatchType", lambda value: isinstance(value, str)),
    "auditAnnotations": ("map[string]string", lambda value: isinstance(value, dict)),
    "warnings": ("[]string", lambda value: isinstance(value, list)),
}
_STATUS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "status": ("string", lambda value: isinstance(value, str)),
    "message": ("string", lambda value: isinstance(value, str)),
    "reason": ("v1.StatusReason", lambda value: isinstance(value, str)),
    "details": ("v1.StatusDetails", lambda value: isinstance(value, dict)),
    "code": ("int32", lambda value: isinstance(value, int) and not isinstance(value, bool)),
}


class CallFailed(Exception):
    """A webhook could not be asked, or its answer makes no sense; the failure policy decides."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    code: int
    content_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """The part of an AdmissionReview that says what shall be; `patch` is decoded."""

    allowed: bool
    status: Mapping[str, Any]
    warnings: list[str]
    patch: bytes
    patch_type: str


def read_response(answer: Answer, review: Mapping[str, Any], *, mutating: bool) -> Response:
    """Return what an answer says.

    Args:
        answer: the HTTP answer.
        review: what was asked.
        mutating: whether patches are welcome.

    Raises:
        CallFailed: it says nothing that counts.
    """
    response = read_review(answer, review).get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    _check_types(response)
    wanted, got = review["request"]["uid"], response.get("uid") or ""
    if got != wanted:
        raise _invalid(f"expected response.uid={quote(wanted)}, got {quote(got)}")
    patch, patch_type = response.get("patch") or "", response.get("patchType")
    if review["apiVersion"].endswith("beta1") and patch and patch_type is None:
        # The old version had no other type.
        patch_type = "JSONPatch"
    _check_patch(patch, patch_type, mutating=mutating)
    return Response(
        allowed=bool(response.get("allowed")),
        status=response.get("status") or {},
        warnings=[str(one) for one in response.get("warnings") or ()],
        patch=base64.b64decode(patch),
        patch_type=patch_type or "",
    )


def read_review(answer: Answer, review: Mapping[str, Any]) -> dict[str, Any]:
    """Return the review in an answer.

    Raises:
        CallFailed: there is none of the kind that was sent.
    """
    if not 200 <= answer.code <= 206:
        raise CallFailed(f"failed to call webhook: {_refusal(answer)}")
    if not answer.data:
        raise CallFailed(
            f"failed to call webhook: 0-length response with status code: {answer.code} and "
            f"content type: {answer.content_type}"
        )
    try:
        body = _object(answer.data)
    except MalformedJSON as error:
        raise CallFailed(f"failed to call webhook: {error}") from None
    group, _, version = review["apiVersion"].partition("/")
    given = body.get("apiVersion") or review["apiVersion"]
    kind = body.get("kind") or review["kind"]
    if given == "v1" and kind == "Status":
        text = f"converting (v1.Status) to ({version}.{review['kind']}): unknown conversion"
        raise CallFailed(f"failed to call webhook: {text}")
    if kind != review["kind"] or given not in {f"{group}/v1", f"{group}/v1beta1"}:
        text = f'no kind "{kind}" is registered for version "{given}" {_SCHEME}'
        raise CallFailed(f"failed to call webhook: {text}")
    if given != review["apiVersion"]:
        held = given.partition("/")[2]
        text = f"converting ({held}.{kind}) to ({version}.{kind}): unknown conversion"
        raise CallFailed(f"failed to call webhook: {text}")
    response = body.get("response")
    if response is not None and not isinstance(response, dict):
        named = str(review["kind"])
        response_kind = f"{version}.{named.replace('Review', 'Response')}"
        raise _misfit(response, f"{named}.response", response_kind)
    return body


def _object(data: bytes) -> dict[str, Any]:
    """Return the object in a text; null counts as an empty one, as in Go.

    Raises:
        MalformedJSON: there is none.
    """
    prefix = "couldn't get version/kind; json parse error: "
    try:
        body, _ = strict_json(data)
    except MalformedJSON as error:
        if data.lstrip()[:1] == b"{":
            raise MalformedJSON(f"{prefix}{error}") from None
        # Not even the beginning of JSON: the real server takes it for YAML, which is a string.
        body = ""
    if body is None:
        return {}
    if not isinstance(body, dict):
        text = f"json: cannot unmarshal {_shape(body)} into Go value of type {_ENVELOPE}"
        raise MalformedJSON(f"{prefix}{text}")
    return body


def _refusal(answer: Answer) -> str:
    """Return what an answer with an error code says: a Status, or what the code means."""
    try:
        status, _ = strict_json(answer.data)
    except MalformedJSON:
        status = None
    is_status = isinstance(status, dict) and status.get("kind", "Status") == "Status"
    if is_status and status.get("status") == "Failure":
        return str(status.get("message") or "")
    media = answer.content_type.partition(";")[0]
    is_text = not media or media.startswith("text/")
    told = answer.data.decode("utf-8", "replace").strip() if is_text else "unknown"
    if answer.code in _TOLD:
        return told
    if answer.code in _MEANINGS:
        return _MEANINGS[answer.code]
    if answer.code >= 500:
        return f"an error on the server ({quote(told)}) has prevented the request from succeeding"
    return (
        f"the server responded with the status code {answer.code} but did not return more "
        "information"
    )


def _check_types(response: Mapping[str, Any]) -> None:
    """Refuse fields of other types than Go's struct has."""
    for name, (kind, fits) in _FIELDS.items():
        if response.get(name) is not None and not fits(response[name]):
            raise _misfit(response[name], f"AdmissionResponse.response.{name}", kind)
    for name, (kind, fits) in _STATUS.items():
        value = (response.get("status") or {}).get(name)
        if value is not None and not fits(value):
            raise _misfit(value, f"Status.response.status.{name}", kind)
    for one in response.get("warnings") or ():
        if not isinstance(one, str):
            raise _misfit(one, "AdmissionResponse.response.warnings", "string")
    fault = base64_fault(response.get("patch") or "")
    if fault is not None:
        raise CallFailed(f"failed to call webhook: illegal base64 data at input byte {fault}")


def _check_patch(patch: str, patch_type: str | None, *, mutating: bool) -> None:
    """Hold a patch and its type against each other, and both against who gave them."""
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif patch and not patch_type:
        raise _invalid('webhook returned invalid response.patchType of ""')


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")


def _misfit(value: Any, field: str, kind: str) -> CallFailed:
    return CallFailed(
        f"failed to call webhook: json: cannot unmarshal {_shape(value)} into Go struct field "
        f"{field} of type {kind}"
    )


def _shape(value: Any) -> str:
    shapes = {dict: "object", list: "array", str: "string", bool: "bool"}
    return shapes.get(type(value), "number")
