"""What becomes of one write to a request."""

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
"""In the answers of admission webhooks and policies, which choose the status code themselves."""


class WriteResult(Enum):
    """The result of one write."""

    WRITTEN = auto()
    """The object carries it."""
    SETTLED = auto()
    """The object has moved on or is gone; the write can never take effect."""
    UNKNOWN = auto()
    """No answer, or one that says to try again: it may or may not have taken effect."""
    REFUSED = auto()
    """Refused for good: sending it again does not help."""

    @classmethod
    def of_error(cls, error: ControllerError) -> "WriteResult":
        """Return the result of a write that failed with this error.

        An admission webhook may deny a write with the status code of a conflict, and a policy with
        that of a missing login. The object stays at its version, so such a write settles nothing.
        A webhook that does not answer refuses every write until a person mends it: that of an
        in-cluster provider which was stopped, and whose webhook configurations were left behind.
        """
        if isinstance(error, ApiError) and any(words in str(error) for words in _DENIALS):
            return cls.REFUSED
        if isinstance(error, Conflict | NotFound):
            return cls.SETTLED
        if isinstance(error, ServerFailure) and "webhook" in str(error):
            return cls.REFUSED
        retryable = isinstance(error, Unauthorized | TooManyRequests | ServerFailure | Expired)
        if retryable or not isinstance(error, ApiError):
            return cls.UNKNOWN
        return cls.REFUSED


def check_voided(error: ControllerError) -> None:
    """Raise if a voiding write failed, unless its request has moved on or is gone.

    A request that is still at its version may be written by the promise that was to be voided.

    Args:
        error: of the voiding write.

    Raises:
        ControllerError: the write failed otherwise. It is no Conflict or NotFound: a pass that
            meets one of these begins again at once.
    """
    if WriteResult.of_error(error) is WriteResult.SETTLED:
        return
    if isinstance(error, Conflict | NotFound):
        not_voided = ControllerError(f"a promise was not voided: {error}")
        not_voided.request = error.request
        raise not_voided from error
    raise error
