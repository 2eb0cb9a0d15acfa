"""Failures of a tenant, as reasons and sentences of conditions."""

import re
from datetime import datetime

from controller.errors import ControllerError, ServerFailure

UNREACHABLE = "TenantUnreachable"
"""The tenant's API server does not answer."""
UNAUTHORIZED = "Unauthorized"
"""The tenant rejects our credentials, perhaps because they were rotated."""
WEBHOOK_FAILED = "TenantWebhookFailed"
"""The tenant's API server answers that a webhook in the tenant does not answer."""
WEBHOOK_RETRY = 5.0
"""Seconds until a request that a failing webhook rejected is retried."""
_WEBHOOK = re.compile(
    r'failed calling webhook "(?P<admission>[^"]{1,253})"'
    r"|conversion webhook for (?P<conversion>[^,]{1,253}), Kind="
)
_LOCAL_END = re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}->")
"""The local address in Go's message about a connection that broke:
`read tcp 10.0.0.1:43210->10.0.0.2:2379`."""


class TenantUnavailable(ControllerError):
    """The tenant has no usable kubeconfig, does not answer, or rejects a request.

    Args:
        reason: CamelCase word for a condition.
        message: a sentence for people.
        absent: whether live reads showed that no kubeconfig Secret exists; False if there is one
            that is unusable.
        failed_at: when the last request failed, if the tenant is paused and was not asked now;
            None if it was asked now.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        absent: bool = False,
        failed_at: datetime | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.absent = absent
        self.failed_at = failed_at


def find_failed_webhook(error: ControllerError) -> str:
    """Return the name of the webhook that an API server reports as failed; empty if none failed.

    The rest of the server's message is dropped. It has ports that change with each try, so a
    condition with them would be written after each try.
    """
    match = _WEBHOOK.search(str(error)) if isinstance(error, ServerFailure) else None
    if match is None:
        return ""
    if match["admission"]:
        return f"admission webhook {match['admission']}"
    return f"conversion webhook for {match['conversion']}"


def describe_without_port(error: ControllerError) -> str:
    """Return type and message of an error, without the local address of a connection.

    The local port changes with each try, so a condition with it would be written after each try.
    """
    return f"{type(error).__name__}: {_LOCAL_END.sub('', str(error))}"
