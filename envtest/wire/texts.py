"""Texts that stand for something else: numbers, times, bytes."""

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

from controller.managedfields.gotext import quote

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)")


def base64_fault(text: str) -> str | None:
    """Return what keeps a text from being base64, None for nothing."""
    try:
        base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        return f"illegal base64 data: {error}"
    return None


def time_fault(text: str) -> str | None:
    """Return what keeps a text from being an RFC 3339 time, None for nothing."""
    try:
        if _TIME.fullmatch(text):
            datetime.fromisoformat(text)
            return None
    except ValueError as error:
        return f"parsing time {quote(text)}: {error}"
    return f'parsing time {quote(text)} as "2006-01-02T15:04:05Z07:00": cannot parse it'


def normal_time(text: str, *, micro: bool = False) -> str:
    """Return a good RFC 3339 time as the server writes it: UTC, whole or micro seconds."""
    moment = datetime.fromisoformat(text).astimezone(UTC)
    # Not strftime, which writes years before 1000 with fewer digits.
    return moment.isoformat(timespec="microseconds" if micro else "seconds").replace("+00:00", "Z")


def number_fault(text: str, *, function: str = "ParseUint") -> str | None:
    """Return strconv's complaint about a number in a query, or None for a good one."""
    sign = "" if function == "ParseUint" else "[+-]?"
    if not re.fullmatch(sign + r"[0-9]+", text):
        return f"strconv.{function}: parsing {quote(text)}: invalid syntax"
    largest = 2 ** (64 if function == "ParseUint" else 63) - 1
    if len(text) > 20 or abs(int(text)) > largest:
        return f"strconv.{function}: parsing {quote(text)}: value out of range"
    return None
