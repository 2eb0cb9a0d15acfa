"""Errors between this process and an API server, and who may retry after each.

ControllerError
├── ApiError                the server answered with a Status other than success
│   ├── BadRequest          400  never with the same request; the pass with back-off
│   ├── Unauthorized        401  after the credentials were read again
│   ├── Forbidden           403  with back-off: a role may be granted later
│   ├── NotFound            404  the caller decides what absence means
│   ├── Conflict            409  never with the same choice: read again, decide again
│   │   └── AlreadyExists   409  on create: end the pass, the cache will show the object
│   ├── FieldManagerConflict 409 on apply without force: another manager owns a field, so no retry
│   │                            helps before a person or the other manager gives it up
│   ├── Expired             410  after another list
│   ├── Invalid             422  never with the same content; the pass with back-off, because a
│   │                            schema, a policy or another object may have changed by then
│   ├── TooManyRequests     429  after retry_after seconds
│   └── ServerFailure       5xx  with back-off
├── NoAnswer                no response came: the request may have run, may still run, or never ran
│   └── SilentWatch         a watch sent nothing for too long: watch again
├── MalformedAnswer         the response is not from Kubernetes (a proxy's page): with back-off
│   └── NotReached          a page with 5xx, of a proxy that cannot reach the server: with back-off
├── DiscoveryIncomplete     discovery lacks a kind that its definition serves: with back-off
├── SourceError             list or watch of a kind failed: the informer retries with back-off
├── CacheLagging            an informer's `last_error`, never raised: the watch has not delivered
│                            our own writes for too long, so the process is not ready
├── OwnedByAnother          a child has another controlling owner: with back-off, it may be deleted
├── ConfigurationError      a kubeconfig, flag or variable cannot be used: not before it changes
├── UnexpectedEnd           a part of this process ended by itself: the process has to exit
└── TerminalError           raised by a reconciler: not before the object changes
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

LONGEST_RETRY_SECONDS = 1000.0
"""No server makes us wait longer: a mistake there, or malice, must not stop a key for good."""
MESSAGE_BYTES = 200
"""Bytes of a plain text response that become the error's message."""


class ControllerError(Exception):
    """Base class of all errors that this package raises on purpose."""

    request: str = ""
    """The request of a Client that failed: `patch widgets.example.com/status team/a`; else empty.

    Not a part of the message: an API server names kind and object in most of its messages. It is a
    note of the error, so a traceback shows it."""
    hint: str = ""
    """What the caller may have forgotten; else empty. A note of the error, too."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of a Status' `details.causes`: which field, which reason, a message."""

    field: str
    reason: str
    message: str


class ApiError(ControllerError):
    """The server answered with a failure.

    Args:
        status: the HTTP status code.
        reason: the Status' machine-readable reason, for example `AlreadyExists`; may be empty.
        message: the Status' message.
        causes: the fields that were rejected, if the server named them.
        retry_after: seconds to wait, if the server asked for that; from a response at most
            `LONGEST_RETRY_SECONDS`.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        causes: Sequence[Cause] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request is wrong."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted, or no longer."""


class Forbidden(ApiError):
    """403: the credentials do not allow this request."""


class NotFound(ApiError):
    """404: there is no such object, or the kind is not served."""


class Conflict(ApiError):
    """409: the object is not at the version that the write was made for."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name exists."""


class FieldManagerConflict(ApiError):
    """409 on apply without force: other managers own fields; `causes` names managers and fields.

    It is no Conflict: reading the object again changes nothing.
    """


class Expired(ApiError):
    """410: the requested resourceVersion or continue token is too old."""


class Invalid(ApiError):
    """422: the server understood the content and rejects it."""


class TooManyRequests(ApiError):
    """429: wait `retry_after` seconds before the next request."""


class ServerFailure(ApiError):
    """5xx: the server failed."""


class NoAnswer(ControllerError):
    """No response came; the request may have run, may still run, or never ran."""


class SilentWatch(NoAnswer):
    """A watch sent nothing, not even a bookmark, for longer than its deadline."""


class MalformedAnswer(ControllerError):
    """A response came that is not one of Kubernetes."""


class NotReached(MalformedAnswer):
    """A response that is not one of Kubernetes says with 5xx that the server is away."""


class DiscoveryIncomplete(ControllerError):
    """The discovery documents lack a kind that may be served all the same.

    Either its CustomResourceDefinition serves it. Or definitions may not be listed, and too few
    answers lacked the kind. An API server that has just started lacks kinds for some seconds.
    """


class SourceError(ControllerError):
    """A list or watch failed; the caches of that kind may be out of date.

    Args:
        verb: what failed: `list` or `watch`.
        resource: the kind's full name, for example `networkpools.example.com`.
        cause: the error; also set as `__cause__`.
    """

    def __init__(self, verb: str, resource: str, cause: ControllerError) -> None:
        hint = ""
        if isinstance(cause, Forbidden):
            hint = "not allowed, a role has to grant it: "
        elif isinstance(cause, NotFound):
            hint = "not served, is its CustomResourceDefinition installed? "
        super().__init__(f"{verb} {resource}: {hint}{cause}")
        self.verb = verb
        self.resource = resource
        self.__cause__ = cause


class CacheLagging(ControllerError):
    """A cache is too old: the watch has not delivered a write of this process.

    Args:
        resource: the kind's full name.
        seconds: how long ago the write was answered.
    """

    def __init__(self, resource: str, seconds: float) -> None:
        super().__init__(
            f"watch {resource}: a write that this process made {seconds:.0f} s ago has not been"
            " delivered yet, so later writes of others may be missing too"
        )
        self.resource = resource
        self.seconds = seconds


class OwnedByAnother(ControllerError):
    """An object that should become a child has another controlling owner."""


class ConfigurationError(ControllerError):
    """A kubeconfig, flag or variable cannot be used; the message says which and how to fix it."""


class UnexpectedEnd(ControllerError):
    """A part of this process that must not end has ended; the process has to exit."""


class TerminalError(ControllerError):
    """Raised by a reconciler: a retry cannot help before the object changes."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


class _StatusCause(msgspec.Struct):
    """A Cause as the API has it (metav1.StatusCause)."""

    field: str = ""
    reason: str = ""
    message: str = ""


class _StatusDetails(msgspec.Struct):
    """The fields of metav1.StatusDetails that errors use."""

    causes: list[_StatusCause] | None = None
    retryAfterSeconds: int | None = None


class _Status(msgspec.Struct):
    """The fields of metav1.Status that errors use."""

    kind: Literal["Status"]
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _StatusDetails | None = None


_status_decoder = msgspec.json.Decoder(_Status)


def decode_status(data: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """Return the Status object in `data`; None if `data` is no Status.

    An untrusted server may send anything in a Status. So the type of every field is checked, and
    fields that errors do not use are dropped.
    """
    try:
        status = _status_decoder.decode(data)
    except (ValueError, RecursionError):
        return None
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain


def create_api_error(
    status: int, body: Mapping[str, Any], retry_after: float | None = None
) -> ApiError:
    """Return the error for a Status object, of the subclass that fits its code and reason.

    Args:
        status: the HTTP status code; a Status inside a watch carries it as `code`.
        body: the decoded Status; anything else gives an error with an empty reason.
        retry_after: seconds from the Retry-After header, if it was sent. It comes before the
            Status' own `retryAfterSeconds`.
    """
    reason = str(body.get("reason") or "")
    error_class = _BY_STATUS.get(status, ServerFailure if status >= 500 else ApiError)
    if status == 409 and reason == "AlreadyExists":
        error_class = AlreadyExists
    details = body.get("details") or {}
    causes = [
        Cause(str(c.get("field", "")), str(c.get("reason", "")), str(c.get("message", "")))
        for c in details.get("causes") or ()
    ]
    if status == 409 and any(cause.reason == "FieldManagerConflict" for cause in causes):
        error_class = FieldManagerConflict
    if retry_after is None:
        retry_after = details.get("retryAfterSeconds") or None  # 0 means that it is not set
    if retry_after is not None:
        retry_after = float(min(max(retry_after, 0), LONGEST_RETRY_SECONDS))
    return error_class(
        status, reason, str(body.get("message") or ""), causes=causes, retry_after=retry_after
    )


def create_error_from_response(
    code: int, content_type: str, headers: Mapping[str, str], data: bytes, request: str
) -> ControllerError:
    """Return the error for an HTTP response other than 2xx.

    API servers answer with a Status, or with plain text for unknown paths and when overloaded.
    Plain text gives an ApiError with an empty reason, as something in between may have sent it.
    Any other body (a proxy's HTML page, for example) gives MalformedAnswer, with 5xx NotReached.
    The code 429 gives TooManyRequests with any body, so that its Retry-After header counts.

    Args:
        code: the HTTP status code.
        content_type: the response's media type.
        headers: the response's headers.
        data: the response's body.
        request: method and URL, for the message.
    """
    status = decode_status(data)
    if status is None:
        if data.startswith(b"Client sent an HTTP request to an HTTPS server"):  # Go's net/http
            return MalformedAnswer(
                f"{request}: the server speaks HTTPS: write https:// in its URL"
            )
        if content_type != "text/plain" and code != 429:
            error_class = NotReached if code >= 500 else MalformedAnswer
            return error_class(
                f"{request}: HTTP {code} with {content_type or 'no content type'} where a"
                " Kubernetes Status was expected: is something else answering at this address?"
            )
        message = data[:MESSAGE_BYTES].decode(errors="replace").strip()
        status = {"message": message}
    return create_api_error(code, status, _parse_retry_after(headers))


def is_expired(error: ControllerError) -> bool:
    """Return whether a requested resourceVersion is before the server's history or after it.

    A server answers 410 before it, and 504 with the cause ResourceVersionTooLarge after it.
    """
    return isinstance(error, Expired) or (
        isinstance(error, ApiError)
        and any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
    )


def _parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in the Retry-After header; None if it is missing or cannot be parsed.

    A date there is compared with the Date header, because our clock may differ from the server's.
    """
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few servers send a date

        try:
            duration = parsedate_to_datetime(value) - parsedate_to_datetime(headers["Date"])
        except (ValueError, TypeError, KeyError):
            return None
        seconds = duration.total_seconds()
    return seconds if math.isfinite(seconds) else None
