"""What can go wrong between us and an API server, and who may retry.

ControllerError
├── ApiError                the server answered with a Status other than success
│   ├── BadRequest          400  never: the request itself is wrong
│   ├── Unauthorized        401  after the credentials were read again
│   ├── Forbidden           403  with back-off: somebody may grant it
│   ├── NotFound            404  the caller decides what absence means
│   ├── Conflict            409  never the same choice: read again, choose again
│   │   └── AlreadyExists   409  on create: end the pass, the cache will show the object
│   ├── Expired             410  list again
│   ├── Invalid             422  never: the server refused the content for good
│   ├── TooManyRequests     429  after retry_after
│   └── ServerFailure       5xx  with back-off
├── NoAnswer                no answer came: the request may have run, may still run, or never ran
├── MalformedAnswer         an answer that is no Kubernetes answer, a proxy's page say: back-off
├── ConfigurationError      a kubeconfig, flag or environment is unusable: not without a change
└── TerminalError           raised by a reconciler: do not retry until the object changes
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class ControllerError(Exception):
    """Root of everything this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of a Status' `details.causes`: which field, what kind of fault, in words."""

    field: str
    reason: str
    message: str


class ApiError(ControllerError):
    """The server answered with a failure.

    Args:
        status: the HTTP status code.
        reason: the Status' machine-readable reason, for example `AlreadyExists`; may be empty.
        message: the Status' message.
        causes: the fields at fault, where the server named them.
        retry_after: seconds that the server asked to wait, if it did.
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
    """400."""


class Unauthorized(ApiError):
    """401: the credentials are not, or no longer, accepted."""


class Forbidden(ApiError):
    """403: the credentials do not allow this."""


class NotFound(ApiError):
    """404: no such object, or no such kind served."""


class Conflict(ApiError):
    """409: the object is not at the version that the write was made for."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name is there."""


class Expired(ApiError):
    """410: the requested resourceVersion or continue token is too old."""


class Invalid(ApiError):
    """422: the server understood and refuses the content."""


class TooManyRequests(ApiError):
    """429: wait `retry_after` seconds."""


class ServerFailure(ApiError):
    """5xx."""


class NoAnswer(ControllerError):
    """No answer came; the request may have run, may still run, or never ran."""


class MalformedAnswer(ControllerError):
    """An answer came that is no Kubernetes answer."""


class ConfigurationError(ControllerError):
    """A kubeconfig, flag or variable is unusable; the message says which and how to mend it."""


class TerminalError(ControllerError):
    """Raised by a reconciler: retrying cannot help until the object changes."""


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


def api_error(status: int, body: Mapping[str, Any], retry_after: float | None = None) -> ApiError:
    """Return the error that a Status object with HTTP status `status` stands for.

    Args:
        status: the HTTP status code; a Status inside a watch carries it as `code`.
        body: the decoded Status; anything else gives an error with an empty reason.
        retry_after: seconds from the Retry-After header, if it was sent.
    """
    reason = str(body.get("reason") or "")
    kind = _BY_STATUS.get(status, ServerFailure if status >= 500 else ApiError)
    if status == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    details = body.get("details") or {}
    causes = [
        Cause(str(c.get("field", "")), str(c.get("reason", "")), str(c.get("message", "")))
        for c in details.get("causes") or ()
    ]
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(details["retryAfterSeconds"])
    return kind(
        status, reason, str(body.get("message") or ""), causes=causes, retry_after=retry_after
    )
