"""Refusals as Kubernetes words them: one exception that is a `Status` object.

Each function returns such an exception and does not raise it. The functions are the error
constructors of apimachinery's api/errors, with the same message, reason, code and details.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.managedfields import FieldCause, PatchError
from controller.managedfields.gotext import quote
from envtest.schema.errors import OMITTED, FieldError, join_messages

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
        # The metadata of the Status, where the refusal of an expired page has a continue token.
        self.metadata: dict[str, str] = {}

    def build_status(self) -> dict[str, Any]:
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


def qualify_name(name: str, group: str) -> str:
    """Return `widgets.lab.example.com` for a group, or just `pods` for the core group."""
    return f"{name}.{group}" if group else name


def build_not_found(resource: str, group: str, name: str) -> StatusError:
    """Return 404 NotFound: there is no object of that name; `resource` is the plural."""
    return StatusError(
        404,
        f"{qualify_name(resource, group)} {quote(name)} not found",
        "NotFound",
        details={"name": name, "group": group, "kind": resource},
    )


def build_already_exists(
    resource: str, group: str, name: str, *, deleting: bool = False
) -> StatusError:
    """Return 409 AlreadyExists; `deleting` if the existing object waits for its finalizers."""
    prefix = "object is being deleted: " if deleting else ""
    return StatusError(
        409,
        f"{prefix}{qualify_name(resource, group)} {quote(name)} already exists",
        "AlreadyExists",
        details={"name": name, "group": group, "kind": resource},
    )


def build_conflict(
    resource_or_kind: str, group: str, name: str, why: str = MODIFIED
) -> StatusError:
    """Return 409 for a failed precondition.

    As in kube-apiserver, updates name the resource (plural), and deletions name the kind.
    """
    return StatusError(
        409,
        f"Operation cannot be fulfilled on {qualify_name(resource_or_kind, group)} "
        f"{quote(name)}: {why}",
        "Conflict",
        details={"name": name, "group": group, "kind": resource_or_kind},
    )


def build_invalid_object(
    kind: str, group: str, name: str, problems: Sequence[FieldError]
) -> StatusError:
    """Return 422 Invalid, with a cause for each of `problems`."""
    return StatusError(
        422,
        f"{qualify_name(kind, group)} {quote(name)} is invalid: {join_messages(problems)}",
        "Invalid",
        details={
            "name": name,
            "group": group,
            "kind": kind,
            "causes": [problem.build_cause() for problem in problems],
        },
    )


def to_field_error(cause: FieldCause) -> FieldError:
    """Convert an error of `controller.managedfields` to one that `build_invalid_object` takes."""
    # The reason is such as FieldValueInvalid, and the message such as "Invalid value: too long".
    error_type, detail = cause.reason.removeprefix("FieldValue"), cause.message.partition(": ")[2]
    return FieldError(error_type, cause.field, value=OMITTED, detail=detail)


def build_patch_error(error: PatchError) -> StatusError:
    """Return the answer to a patch that `controller.managedfields` cannot apply."""
    return StatusError(error.status, str(error), error.reason, details=error.details)


def build_unprocessable() -> StatusError:
    """Return 422 without causes, for a JSON patch that cannot be applied."""
    return StatusError(
        422,
        "the server rejected our request due to an error in our request",
        "Invalid",
        details={},
    )


def build_bad_request(message: str) -> StatusError:
    """Return 400 BadRequest."""
    return StatusError(400, message, "BadRequest")


def build_forbidden(resource: str, group: str, name: str, why: str) -> StatusError:
    """Return 403 Forbidden; an empty name means the collection."""
    subject = (
        f"{qualify_name(resource, group)} {quote(name)}" if name else qualify_name(resource, group)
    )
    return StatusError(
        403,
        f"{subject} is forbidden: {why}",
        "Forbidden",
        details={"name": name, "group": group, "kind": resource},
    )


def build_unauthorized() -> StatusError:
    """Return 401 Unauthorized: the credentials are not known."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def build_terminating_definition_error(plural: str, group: str, name: str) -> StatusError:
    """Return 403 for a creation while the kind's definition is terminating."""
    why = "create not allowed while custom resource definition is terminating"
    return build_forbidden(plural, group, name=name, why=why)


def build_method_not_supported(action: str, resource: str, group: str) -> StatusError:
    """Return 405 for a verb that this kind does not have."""
    return StatusError(
        405,
        f'{action} is not supported on resources of kind "{qualify_name(resource, group)}"',
        "MethodNotAllowed",
        details={"group": group, "kind": resource},
    )


def build_method_not_allowed() -> StatusError:
    """Return 405 for a method that no route has for this path."""
    return StatusError(
        405,
        "the server does not allow this method on the requested resource",
        "MethodNotAllowed",
        details={},
    )


def build_unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """Return 415: the body is in a format that is not read."""
    return StatusError(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
        "UnsupportedMediaType",
    )


def build_not_acceptable(accepted: Sequence[str]) -> StatusError:
    """Return 406: the client accepts no format that the server writes."""
    return StatusError(
        406,
        f"only the following media types are accepted: {', '.join(accepted)}",
        "NotAcceptable",
    )


def build_expired(message: str) -> StatusError:
    """Return 410 Expired: the requested history is compacted."""
    return StatusError(410, message, "Expired")


def build_too_large(limit: int) -> StatusError:
    """Return 413: the body has more than `limit` bytes."""
    return StatusError(413, f"Request entity too large: limit is {limit}", "RequestEntityTooLarge")


def build_unclassified_error(message: str) -> StatusError:
    """Return 500 without a reason, as the real server answers a failure in its own parts."""
    return StatusError(500, message)


def build_internal_error(message: str) -> StatusError:
    """Return 500 with the reason InternalError: a request that the server could not complete."""
    return StatusError(
        500,
        f"Internal error occurred: {message}",
        "InternalError",
        details={"causes": [{"message": message}]},
    )
