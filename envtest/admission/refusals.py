"""Refusals: what a client is told when a webhook does not allow a write, or cannot be asked."""

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from envtest.schema.gotext import quote
from envtest.server.failures import StatusError, bad_request

_LIST_META: Final = ("selfLink", "resourceVersion", "continue", "remainingItemCount")


def denial(name: str, status: Mapping[str, Any]) -> StatusError:
    """Return the refusal that a webhook asks for, in the form that counts as one."""
    message, reason = status.get("message") or "", status.get("reason") or ""
    told = message or reason
    text = f"admission webhook {quote(name)} denied the request"
    text += f": {told}" if told else " without explanation"
    # Nothing below 400 is a refusal.
    code = max(status.get("code") or 0, 400)
    return _Denial(code, text, reason, status)


class _Denial(StatusError):
    """A refusal in a webhook's own terms, the metadata of its Status included."""

    def __init__(self, code: int, message: str, reason: str, status: Mapping[str, Any]) -> None:
        super().__init__(code, message, reason, details=status.get("details"))
        self._metadata = status.get("metadata") or {}

    @override
    def body(self) -> dict[str, Any]:
        known = {name: self._metadata[name] for name in _LIST_META if name in self._metadata}
        return {**super().body(), "metadata": known}


def no_dry_run(name: str) -> StatusError:
    """Return the refusal of a dry run by a webhook that would not know it from a real one."""
    return bad_request(f"admission webhook {quote(name)} does not support dry run")


def failure(text: str) -> StatusError:
    """Return the real server's InternalError."""
    return StatusError(
        500,
        f"Internal error occurred: {text}",
        "InternalError",
        details={"causes": [{"message": text}]},
    )
