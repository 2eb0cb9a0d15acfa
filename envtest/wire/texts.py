"""Strings that encode numbers, times and bytes: their validation, with Go's error messages."""

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

from controller.managedfields.gotext import quote

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)")


def find_base64_fault(encoded: str) -> str | None:
    """Return why a string is not base64; None if it is. Line breaks are allowed, as in Go."""
    try:
        base64.b64decode(encoded.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        return f"illegal base64 data: {error}"
    return None


def find_time_fault(timestamp: str) -> str | None:
    """Return why a string is not an RFC 3339 time; None if it is."""
    try:
        if _TIME.fullmatch(timestamp):
            datetime.fromisoformat(timestamp)
            return None
    except ValueError as error:
        return f"parsing time {quote(timestamp)}: {error}"
    return f'parsing time {quote(timestamp)} as "2006-01-02T15:04:05Z07:00": cannot parse it'


def normalize_time(timestamp: str, *, micro: bool = False) -> str:
    """Return a valid RFC 3339 time as the server writes it: in UTC, in seconds or microseconds."""
    moment = datetime.fromisoformat(timestamp).astimezone(UTC)
    # Not strftime, which writes years before 1000 with fewer digits.
    return moment.isoformat(timespec="microseconds" if micro else "seconds").replace("+00:00", "Z")


def find_number_fault(number: str, *, function: str = "ParseUint") -> str | None:
    """Return why a string is no number, as Go's strconv says; None if it is a number.

    Args:
        function: ParseUint for an unsigned number, ParseInt for a signed one.
    """
    sign = "" if function == "ParseUint" else "[+-]?"
    if not re.fullmatch(sign + r"[0-9]+", number):
        return f"strconv.{function}: parsing {quote(number)}: invalid syntax"
    largest = 2 ** (64 if function == "ParseUint" else 63) - 1
    # 20 characters are enough for 64 bits, and int() takes quadratic time for long strings.
    if len(number) > 20 or abs(int(number)) > largest:
        return f"strconv.{function}: parsing {quote(number)}: value out of range"
    return None
