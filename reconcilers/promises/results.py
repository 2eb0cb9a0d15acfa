"""What becomes of one write to a request.

A request *has moved on* if it has another resourceVersion than the one that a write has as its
precondition. Then that write can never take effect.
"""

from enum import Enum, auto

from controller.errors import (
    ApiError,
    Conflict,
    ControllerError,
    Expired,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
)

_DENIALS = ("denied the request", "denied request")
"""Words that distinguish the answers of admission webhooks and policies from other answers.

The status code does not tell: webhooks and policies choose it themselves.
"""


class WriteResult(Enum):
    """The result of one write."""

    WRITTEN = auto()
    """The object has the written fields."""
    SETTLED = auto()
    """The object has moved on or is gone; the write can never take effect."""
    UNKNOWN = auto()
    """No answer, or one that says to try again: it may or may not have taken effect."""
    REFUSED = auto()
    """Refused for good: sending it again does not help."""
    PAUSED = auto()
    """Not sent, because the object is paused; it is sent after the pause."""

    @classmethod
    def from_error(cls, error: ControllerError) -> "WriteResult":
        """Return the result of a write that failed with this error; the first rule that applies.

        1. Denied by an admission webhook or a policy: REFUSED.
        2. Conflict or NotFound: SETTLED.
        3. A webhook that does not answer: REFUSED.
        4. No answer of the API server, or an answer that asks for a retry: UNKNOWN.
        5. Every other answer of the API server: REFUSED.
        """
        # Before Conflict: a webhook may deny with the status code of a conflict, and a policy with
        # that of a missing login. The object stays at its version, so that settles nothing.
        if isinstance(error, ApiError) and any(words in str(error) for words in _DENIALS):
            return cls.REFUSED
        if isinstance(error, Conflict | NotFound):
            return cls.SETTLED
        # A person has to repair it: an in-cluster provider may have been removed, but not its
        # webhook configurations.
        if isinstance(error, ServerFailure) and "webhook" in str(error):
            return cls.REFUSED
        is_retryable = isinstance(error, Unauthorized | TooManyRequests | ServerFailure | Expired)
        if is_retryable or not isinstance(error, ApiError):
            return cls.UNKNOWN
        return cls.REFUSED


def raise_unless_voided(error: ControllerError) -> None:
    """Raise the error of a voiding write, unless it shows that the promise is void anyway.

    The promise is void if its request has moved on or is gone. Otherwise the request still has
    the promised version, and the promise may still be written to it.

    Args:
        error: of a write that was to void a promise.

    Raises:
        ControllerError: the promise is not known to be void. It is never a Conflict or NotFound,
            because a pass that meets one of these starts over at once.
    """
    if WriteResult.from_error(error) is WriteResult.SETTLED:
        return
    # A webhook denied the write with one of these status codes. The error itself would make the
    # pass start over at once, and be denied again.
    if isinstance(error, Conflict | NotFound):
        not_voided = ControllerError(f"a promise was not voided: {error}")
        not_voided.request = error.request
        raise not_voided from error
    raise error
