"""Why a tenant cannot be used, in the reasons and sentences of conditions."""

import re
from datetime import datetime

from controller.errors import ControllerError, ServerFailure

UNREACHABLE = "TenantUnreachable"
"""Reason of what cannot be done because the tenant's API server does not answer."""
UNAUTHORIZED = "Unauthorized"
"""The reason when a tenant does not take our credentials: they may have been rotated."""
WEBHOOK_FAILED = "TenantWebhookFailed"
"""The reason when a tenant's API server answers that a webhook of its own does not."""
WEBHOOK_RETRY = 5.0
"""Seconds after which what a failing webhook refused is tried again."""
_WEBHOOK = re.compile(
    r'failed calling webhook "(?P<admission>[^"]{1,253})"'
    r"|conversion webhook for (?P<conversion>[^,]{1,253}), Kind="
)
_LOCAL_END = re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}->")
"""Go's words for a connection that broke: `read tcp 10.0.0.1:43210->10.0.0.2:2379`."""


class TenantUnavailable(ControllerError):
    """The tenant cannot be reached, or refuses what is asked of it.

    Args:
        reason: CamelCase word for a condition.
        message: a sentence for people.
        absent: whether live reads showed that no Secret is there, as opposed to unusable.
        failed_at: when this process last tried it, if it did not try now; None if it did.
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


def failed_webhook(error: ControllerError) -> str:
    """Return the name of the webhook that an API server reports as failed; empty if none failed.

    The rest of its message is left out: it has ports that change with each try.
    """
    match = _WEBHOOK.search(str(error)) if isinstance(error, ServerFailure) else None
    if match is None:
        return ""
    if match["admission"]:
        return f"admission webhook {match['admission']}"
    return f"conversion webhook for {match['conversion']}"


def lasting_words(error: ControllerError) -> str:
    """Return type and message of an error, without the local end of a connection.

    Its port changes with each try, and a condition with it would be written each time.
    """
    return f"{type(error).__name__}: {_LOCAL_END.sub('', str(error))}"
