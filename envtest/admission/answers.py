"""What a webhook answered: which answers count, and the words for those that do not.

Refusals and warnings that come of them are here too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from typing_extensions import override

from envtest.schema import MalformedJSON, read_json
from envtest.schema.gotext import quote
from envtest.server.failures import StatusError, bad_request

# What stands in front of most failures.
FAILED: Final = "failed to call webhook: "
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


class CallFailed(Exception):
    """A webhook could not be asked, or its answer makes no sense; the failure policy decides."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    code: int
    content_type: str
    data: bytes


class _Status(msgspec.Struct):
    """The part of a Status that has to have the right types."""

    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: dict[str, Any] | None = None
    code: int | None = None


class _Response(msgspec.Struct):
    """An AdmissionResponse; `patch` is base64 in JSON."""

    uid: str | None = None
    allowed: bool | None = None
    status: _Status | None = None
    patch: bytes | None = None
    patchType: str | None = None  # as in the API
    warnings: list[str] | None = None


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
    held = read_review(answer, review).get("response")
    if held is None:
        raise _invalid("webhook response was absent")
    try:
        response = msgspec.convert(held, _Response)
    except msgspec.ValidationError as error:
        raise CallFailed(f"{FAILED}the response does not fit: {error}") from None
    wanted, got = review["request"]["uid"], response.uid or ""
    if got != wanted:
        raise _invalid(f"expected response.uid={quote(wanted)}, got {quote(got)}")
    patch, patch_type = response.patch or b"", response.patchType
    if review["apiVersion"].endswith("beta1") and patch and patch_type is None:
        # The old version had no other type.
        patch_type = "JSONPatch"
    _check_patch(patch, patch_type, mutating=mutating)
    return Response(
        allowed=bool(response.allowed),
        status=held.get("status") or {},
        warnings=response.warnings or [],
        patch=patch,
        patch_type=patch_type or "",
    )


def read_review(answer: Answer, review: Mapping[str, Any]) -> dict[str, Any]:
    """Return the review in an answer.

    Raises:
        CallFailed: there is none of the kind and version that were sent.
    """
    if not 200 <= answer.code <= 206:
        raise CallFailed(f"{FAILED}{_refusal(answer)}")
    if not answer.data:
        raise CallFailed(
            f"{FAILED}0-length response with status code: {answer.code} and "
            f"content type: {answer.content_type}"
        )
    try:
        body, _ = read_json(answer.data)
    except MalformedJSON as error:
        raise CallFailed(f"{FAILED}couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(body, dict):
        raise CallFailed(f"{FAILED}the answer is no {review['kind']}")
    for name in ("apiVersion", "kind"):
        if body.get(name) and body[name] != review[name]:
            text = f"the answer has {name} {body[name]}, expected {review[name]}"
            raise CallFailed(f"{FAILED}{text}")
    if not isinstance(body.get("response"), dict | None):
        raise CallFailed(f"{FAILED}the response of the answer is no object")
    return body


def _refusal(answer: Answer) -> str:
    """Return what an answer with an error code says: a Status, or what the code means."""
    try:
        status, _ = read_json(answer.data)
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


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool) -> None:
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


_LIST_META: Final = ("selfLink", "resourceVersion", "continue", "remainingItemCount")


def denial(name: str, status: Mapping[str, Any]) -> StatusError:
    """Return the refusal that a webhook asks for, in the form that counts as one."""
    message, reason = status.get("message") or "", status.get("reason") or ""
    told = message or reason
    text = f"admission webhook {quote(name)} denied the request"
    text += f": {told}" if told else " without explanation"
    # Nothing below 400 is a refusal.
    code = max(status.get("code") or 0, 400)
    return _Denial(code, text, reason, status)


class _Denial(StatusError):
    """A refusal in a webhook's own terms, the metadata of its Status included."""

    def __init__(self, code: int, message: str, reason: str, status: Mapping[str, Any]) -> None:
        super().__init__(code, message, reason, details=status.get("details"))
        self._metadata = status.get("metadata") or {}

    @override
    def body(self) -> dict[str, Any]:
        known = {name: self._metadata[name] for name in _LIST_META if name in self._metadata}
        return {**super().body(), "metadata": known}


def no_dry_run(name: str) -> StatusError:
    """Return the refusal of a dry run by a webhook that would not know it from a real one."""
    return bad_request(f"admission webhook {quote(name)} does not support dry run")


def failure(text: str) -> StatusError:
    """Return the real server's InternalError."""
    return StatusError(
        500,
        f"Internal error occurred: {text}",
        "InternalError",
        details={"causes": [{"message": text}]},
    )


_TOTAL: Final = 4 * 1024
_EACH: Final = 256


def add_warnings(warnings: list[str], texts: Iterable[str]) -> None:
    """Add sentences to those that an answer carries already.

    What is empty or has control characters is dropped: it cannot stand in a header.

    Args:
        warnings: the sentences so far, changed in place.
        texts: what is added.
    """
    warnings += [text for text in texts if text and not any(map(_is_control, text))]
    whole = list(dict.fromkeys(warnings))
    if sum(map(len, whole)) <= _TOTAL:
        return
    kept: list[str] = []
    size = 0
    for text in whole:
        if size >= _TOTAL:
            break
        kept.append(text[:_EACH])
        size += len(kept[-1])
    warnings[:] = kept


def _is_control(rune: str) -> bool:
    return rune < " " or rune == "\x7f"
