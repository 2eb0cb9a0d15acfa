"""What becomes of one write to a request."""

from enum import Enum, auto

from controller.errors import (
    ApiError,
    Conflict,
    ControllerError,
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
        """Return the result of a write that failed with this error."""
        if isinstance(error, Conflict | NotFound):
            return cls.SETTLED
        retryable = isinstance(error, Unauthorized | TooManyRequests | ServerFailure)
        if retryable or not isinstance(error, ApiError):
            return cls.UNKNOWN
        return cls.REFUSED
