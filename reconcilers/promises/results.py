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

        A webhook that does not answer refuses every write until a person mends it: that of an
        in-cluster provider which was stopped, and whose webhook configurations were left behind.
        """
        if isinstance(error, Conflict | NotFound):
            return cls.SETTLED
        if isinstance(error, ServerFailure) and "webhook" in str(error):
            return cls.REFUSED
        retryable = isinstance(error, Unauthorized | TooManyRequests | ServerFailure | Expired)
        if retryable or not isinstance(error, ApiError):
            return cls.UNKNOWN
        return cls.REFUSED
