"""Errors that reject a patch, with the messages and codes of kube-apiserver."""

from dataclasses import dataclass
from typing import Any

REJECTED = "the server rejected our request due to an error in our request"


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One entry of `details.causes` in a Status: what is wrong with which field."""

    reason: str
    message: str
    field: str

    def as_dict(self) -> dict[str, str]:
        """Return the entry as JSON for a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class PatchError(Exception):
    """The server rejects a patch; the attributes are the fields of the Status in its answer.

    Attributes:
        status: the HTTP code.
        reason: the machine-readable reason; empty where the real server gives none (code 500).
        message: the sentence for the user.
        causes: what is wrong field by field.
        details: the `details` of the Status; None if the Status has no such field.
    """

    def __init__(
        self, status: int, reason: str, message: str, causes: list[FieldCause] | None = None
    ) -> None:
        """Keep the parts of the Status, and build its details from the causes."""
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes or []
        self.details: dict[str, Any] | None = None
        if self.causes:
            self.details = {"causes": [cause.as_dict() for cause in self.causes]}


class ApplyConflict(PatchError):
    """Server-side apply would change fields that others own, and `force` was not set."""

    def __init__(self, message: str, causes: list[FieldCause]) -> None:
        """Take the sentence and one cause for each field of each other owner."""
        super().__init__(409, "Conflict", message, causes)


class TypeMismatchError(ValueError):
    """A value does not have the required JSON type; the message is the real server's."""


class ModelError(Exception):
    """A value does not fit the field model; `problems` are lines of `path: what is wrong`."""

    def __init__(self, problems: list[str]) -> None:
        """Join the problems, at least one, as the real server does.

        One problem is the message; several become a list below "errors:".
        """
        super().__init__(
            problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
        )
        self.problems = problems


def create_bad_request(message: str) -> PatchError:
    """Return the error for a body that cannot be parsed: code 400."""
    return PatchError(400, "BadRequest", message)


def create_unprocessable_error() -> PatchError:
    """Return the error for a patch that does not apply: code 422.

    Like the real server's, its message does not name the failed operation, and its details are
    an empty object.
    """
    error = PatchError(422, "Invalid", REJECTED)
    error.details = {}
    return error


def create_unclassified_error(message: str) -> PatchError:
    """Return an error that the real server did not classify: code 500 and no reason."""
    return PatchError(500, "", message)
