"""Refusals as Kubernetes words them: one exception that is a `Status` object.

Message, reason, code and details belong together; each function here is one of the error
constructors of apimachinery's api/errors, with the resource or kind it speaks about.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from envtest.patching import Cause, PatchError
from envtest.schema.errors import OMITTED, FieldError, aggregate_message
from envtest.schema.gotext import quote

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """An answer that is a `Status` with status Failure."""

    def __init__(
        self,
        code: int,
        message: str,
        reason: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.details = details
        self.headers = dict(headers or {})
        # Of the Status itself; an expired page has its continue token here.
        self.metadata: dict[str, str] = {}

    def body(self) -> dict[str, Any]:
        """Return the Status object; fields without a value are left out."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = {key: value for key, value in self.details.items() if value}
        return {**body, "code": self.code}


def qualified(name: str, group: str) -> str:
    """Return `widgets.lab.example.com`, or the bare name in the core group."""
    return f"{name}.{group}" if group else name


def not_found(resource: str, group: str, name: str) -> StatusError:
    """No object of that name."""
    return StatusError(
        404,
        f"{qualified(resource, group)} {quote(name)} not found",
        "NotFound",
        details={"name": name, "group": group, "kind": resource},
    )


def already_exists(resource: str, group: str, name: str, *, deleting: bool = False) -> StatusError:
    """Another object holds the name, perhaps one that waits for its finalizers."""
    prefix = "object is being deleted: " if deleting else ""
    return StatusError(
        409,
        f"{prefix}{qualified(resource, group)} {quote(name)} already exists",
        "AlreadyExists",
        details={"name": name, "group": group, "kind": resource},
    )


def conflict(what: str, group: str, name: str, why: str = MODIFIED) -> StatusError:
    """A precondition does not hold; `what` is a resource or, for deletions, a kind."""
    return StatusError(
        409,
        f"Operation cannot be fulfilled on {qualified(what, group)} {quote(name)}: {why}",
        "Conflict",
        details={"name": name, "group": group, "kind": what},
    )


def invalid_object(
    kind: str, group: str, name: str, problems: Sequence[FieldError]
) -> StatusError:
    """The object breaks rules; every one of them is a cause."""
    return StatusError(
        422,
        f"{qualified(kind, group)} {quote(name)} is invalid: {aggregate_message(problems)}",
        "Invalid",
        details={
            "name": name,
            "group": group,
            "kind": kind,
            "causes": [one.cause() for one in problems],
        },
    )


def as_error(cause: Cause) -> FieldError:
    """Return what is wrong with a manager or its entry as an error like the others."""
    kind, detail = cause.reason.removeprefix("FieldValue"), cause.message.partition(": ")[2]
    return FieldError(kind, cause.field, OMITTED, detail)


def refused_patch(error: PatchError) -> StatusError:
    """A patch that cannot be applied, in the words of what tried."""
    return StatusError(error.status, str(error), error.reason, details=error.details)


def unprocessable() -> StatusError:
    """A JSON patch that cannot be applied; the server does not say why."""
    return StatusError(
        422,
        "the server rejected our request due to an error in our request",
        "Invalid",
        details={},
    )


def bad_request(message: str) -> StatusError:
    """The request itself makes no sense."""
    return StatusError(400, message, "BadRequest")


def forbidden(resource: str, group: str, name: str, why: str) -> StatusError:
    """The user is known, but not allowed."""
    about = f"{qualified(resource, group)} {quote(name)}" if name else qualified(resource, group)
    return StatusError(
        403,
        f"{about} is forbidden: {why}",
        "Forbidden",
        details={"name": name, "group": group, "kind": resource},
    )


def unauthorized() -> StatusError:
    """Credentials were given and are not known."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def creation_while_ending(plural: str, group: str, name: str) -> StatusError:
    """The definition of the kind is terminating: no new objects."""
    why = "create not allowed while custom resource definition is terminating"
    return forbidden(plural, group, name, why)


def method_not_supported(action: str, resource: str, group: str) -> StatusError:
    """A verb that this kind does not have."""
    return StatusError(
        405,
        f'{action} is not supported on resources of kind "{qualified(resource, group)}"',
        "MethodNotAllowed",
        details={"group": group, "kind": resource},
    )


def method_not_allowed() -> StatusError:
    """A method that no route has for this path."""
    return StatusError(
        405,
        "the server does not allow this method on the requested resource",
        "MethodNotAllowed",
        details={},
    )


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """The body is in a format that is not read."""
    return StatusError(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
        "UnsupportedMediaType",
    )


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    """The client takes no format that the server writes."""
    return StatusError(
        406,
        f"only the following media types are accepted: {', '.join(accepted)}",
        "NotAcceptable",
    )


def expired(message: str) -> StatusError:
    """The history that was asked for is compacted."""
    return StatusError(410, message, "Expired")


def too_large(limit: int) -> StatusError:
    """The body is above the limit of bytes."""
    return StatusError(413, f"Request entity too large: limit is {limit}", "RequestEntityTooLarge")


def internal(message: str) -> StatusError:
    """An error that the real server passes on without a reason."""
    return StatusError(500, message)
