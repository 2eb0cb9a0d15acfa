"""Refusals of a patch, in the words and with the codes that clients of kube-apiserver know."""

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
        """Return the entry as it stands in a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class PatchError(Exception):
    """A patch that the server refuses; the fields are those of the Status it answers with.

    Attributes:
        status: the HTTP code.
        reason: the machine-readable reason; empty where the real server gives none (code 500).
        message: the sentence for the person.
        causes: what is wrong field by field.
        details: the whole `details` of the Status, None where it has none.
    """

    def __init__(
        self, status: int, reason: str, message: str, causes: list[FieldCause] | None = None
    ) -> None:
        """Take the parts of the Status; causes are repeated in its details."""
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
    """A value has not the shape that it must have; the text is the real server's."""


class ModelError(Exception):
    """A value does not fit the field model; `problems` are lines of `path: what is wrong`."""

    def __init__(self, problems: list[str]) -> None:
        """Take at least one line."""
        super().__init__(
            problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
        )
        self.problems = problems


def bad_request(message: str) -> PatchError:
    """Return the refusal of a body that cannot be understood."""
    return PatchError(400, "BadRequest", message)


def unprocessable() -> PatchError:
    """Return the refusal of a patch that does not apply: it never says which operation failed."""
    error = PatchError(422, "Invalid", REJECTED)
    error.details = {}
    return error


def internal(message: str) -> PatchError:
    """Return an error that the real server did not classify: code 500 and no reason."""
    return PatchError(500, "", message)
