"""What Go's standard parsers answer to bad input, word for word.

The real server passes these sentences on to its users, so a client that matches on them, or a
person who searches for them, must meet the same ones here.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal

from envtest.schema.gotext import quote

_STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE = _STANDARD[:-2] + "-_"
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_PIECES = (
    ("2006", re.compile(r"\d{4}")),
    ("-", re.compile("-")),
    ("01", re.compile(r"\d{2}")),
    ("-", re.compile("-")),
    ("02", re.compile(r"\d{2}")),
    ("T", re.compile("T")),
    ("15", re.compile(r"\d{2}")),
    (":", re.compile(":")),
    ("04", re.compile(r"\d{2}")),
    (":", re.compile(":")),
    ("05", re.compile(r"\d{2}(?:[.,]\d+)?")),
    ("Z07:00", re.compile(r"Z|[+-]\d{2}:\d{2}")),
)


# A number with its unit, as spans of time are made of.
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^.0-9]*)")
# Units in nanoseconds; there are two letters for micro.
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def base64_fault(text: str, *, url_safe: bool = False) -> int | None:
    """Return the offset that Go names for bad base64, or None when the text is good.

    Args:
        text: what should be base64.
        url_safe: the URL alphabet without padding, else the standard one with padding.
    """
    alphabet = _URL_SAFE if url_safe else _STANDARD
    plain = [at for at, char in enumerate(text) if char not in "\r\n"]
    body = [at for at in plain if text[at] != "="] if not url_safe else plain
    for at in plain:
        if text[at] not in alphabet and (url_safe or text[at] != "="):
            return at
    padding = len(plain) - len(body)
    if url_safe:
        return plain[-1] if len(plain) % 4 == 1 else None
    if padding and (padding > 2 or len(plain) % 4 or plain[: len(body)] != body):
        return next(at for at in plain if text[at] == "=")
    left = len(body) % 4
    return body[-left] if left and not padding else None


def time_fault(text: str, *, micro: bool = False) -> str | None:
    """Return Go's complaint about a time that is not RFC 3339, or None for a good one."""
    at = 0
    layout = _MICRO_LAYOUT if micro else _LAYOUT
    for name, pattern in _PIECES:
        match = pattern.match(text, at)
        if match is None:
            rest = text[at:]
            return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{name}"'
        at = match.end()
    if at < len(text):
        return f'parsing time "{text}": extra text: "{text[at:]}"'
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return f'parsing time "{text}": day out of range'
    return None


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


def duration_fault(text: str) -> str | None:
    """Return time.ParseDuration's complaint about a span of time, or None for a good one."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return None
    sound, total = bool(rest), 0
    while sound and rest:
        match = _AMOUNT.match(rest)
        if match is None:
            sound = False
            break
        unit = match.group(2)
        if not unit:
            return f"time: missing unit in duration {quote(text)}"
        if unit not in _UNITS:
            return f"time: unknown unit {quote(unit)} in duration {quote(text)}"
        total += int(Decimal(match.group(1)) * _UNITS[unit])
        rest = rest[match.end() :]
    return None if sound and total < 1 << 63 else f"time: invalid duration {quote(text)}"
