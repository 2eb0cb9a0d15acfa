"""What a server means by an answer other than success: Kubernetes' Status, read with suspicion."""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import msgspec

from controller.errors import ControllerError, MalformedAnswer, api_error


class _Cause(msgspec.Struct):
    field: str = ""
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None
    retryAfterSeconds: int | None = None


class _Status(msgspec.Struct):
    kind: Literal["Status"]
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _Details | None = None


_statuses = msgspec.json.Decoder(_Status)


def decode_status(data: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """Return the Status that `data` holds, checked field by field; None if it holds none.

    What an untrusted server calls a Status goes no further unless it is one.
    """
    try:
        status = _statuses.decode(data)
    except (ValueError, RecursionError):
        return None
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain


def refusal(
    code: int, content_type: str, headers: Mapping[str, str], data: bytes, where: str
) -> ControllerError:
    """Return the error for an answer other than 2xx.

    A Status says what it means. Plain text, which an API server sends for paths that it does not
    know and when it is overloaded, gives an error without a reason: its code alone could as
    well come from something in between. A page for people certainly does.

    Args:
        code: the HTTP status code.
        content_type: of the answer.
        headers: of the answer.
        data: its body.
        where: what was asked, for the message.
    """
    status = decode_status(data)
    if status is None:
        if content_type != "text/plain" and code != 429:
            return MalformedAnswer(
                f"{where}: HTTP {code} with {content_type or 'no type'} where a"
                " Kubernetes Status was expected: is something else answering at this address?"
            )
        status = {"message": data[:200].decode(errors="replace").strip()}
    return api_error(code, status, _retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that Retry-After asks for; a date is measured from the answer's own."""
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value) - parsedate_to_datetime(headers["Date"])
        except (ValueError, TypeError, KeyError):
            return None
        seconds = until.total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
