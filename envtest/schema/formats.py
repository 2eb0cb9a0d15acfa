"""String formats and patterns.

Formats are what the API server accepts as `date-time`, `ipv4`, `uuid` and the like.

Others that a real server checks (host names, card numbers, colours) are known and let pass.
An unknown format gives a warning when the CRD is created (`is_unrecognized`). Patterns are matched
by RE2, the engine of the server: its time is linear in the input for every pattern.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import functools
import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import re2

from envtest.memo import remember_results


class InvalidPattern(ValueError):
    """The pattern is no RE2 expression."""


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern.

    Raises:
        InvalidPattern: it is none.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        [reason] = error.args
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"error parsing regexp: {said}") from error


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether the pattern is found in a text.

    Raises:
        InvalidPattern: the pattern is none.
    """
    compile_pattern(pattern)
    return lambda value: _matches_pattern(value, pattern)


# The engine is slow to be asked, and the same names, types and reasons come again and again.
@remember_results(4096)
def _matches_pattern(value: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(value) is not None


_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|[+-]\d{2}:\d{2})", re.ASCII)
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+([0-9]+)(?=\.|\Z)")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_date(date: str) -> bool:
    """Return whether a text is a calendar date, `2006-01-02`."""
    if not _DATE.fullmatch(date):
        return False
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        return False
    return True


# The same few times stand in object after object.
@remember_results(1024)
def is_date_time(timestamp: str) -> bool:
    """Return whether a text is an RFC 3339 time; a leap second is not accepted."""
    day, time_part = timestamp.lower().partition("t")[::2]
    parts = _TIME.fullmatch(time_part)
    if parts is None or not is_date(day):
        return False
    return parts[1] <= "23" and parts[2] <= "59" and parts[3] <= "59"


def is_ip(address: str) -> bool:
    """Return whether a text is an IP address without zone; leading zeros in IPv4 are let pass."""
    if "%" in address:
        return False
    try:
        ipaddress.ip_address(_LEADING_ZEROS.sub(r"\1", address))
    except ValueError:
        return False
    return True


def is_cidr(network: str) -> bool:
    """Return whether a text is a network of either family; host bits may be set."""
    address, slash, length = network.partition("/")
    if not slash or not re.fullmatch(r"[0-9]{1,6}", length) or not is_ip(address):
        return False
    return int(length) <= (128 if ":" in address else 32)


def _is_byte(encoded: str) -> bool:
    try:
        return bool(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_uri(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return bool(parts.scheme) or uri.startswith("/")


def _is_subdomain(name: str) -> bool:
    return len(name) <= 253 and all(_DNS_LABEL.fullmatch(label) for label in name.split("."))


def _form(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": _is_byte,
    "cidr": is_cidr,
    "date": is_date,
    "datetime": is_date_time,
    "ipv4": lambda address: "." in address and is_ip(address),
    "ipv6": lambda address: ":" in address and is_ip(address),
    "k8slongname": _is_subdomain,
    "k8sshortname": lambda name: "." not in name and len(name) <= 63 and _is_subdomain(name),
    "uri": _is_uri,
    "uuid": _form(_UUID),
}
_UNCHECKED: Final = frozenset(
    {
        "bsonobjectid",
        "creditcard",
        "duration",
        "email",
        "hexcolor",
        "hostname",
        "isbn",
        "isbn10",
        "isbn13",
    }
    | {"mac", "password", "rgbcolor", "ssn", "uuid3", "uuid4", "uuid5"}
)
_NUMBER_FORMATS: Final = {
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}


def check_of(name: Any) -> Callable[[str], bool] | None:
    """Return the check behind a format's name, in which hyphens do not matter; None for none."""
    return _CHECKS.get(name.replace("-", "")) if isinstance(name, str) else None


def is_unrecognized(name: str, kind: str) -> bool:
    """Return whether creating a CRD that gives a `kind` this format earns a warning."""
    known = _NUMBER_FORMATS.get(kind, _UNCHECKED | _CHECKS.keys())
    return bool(name) and name.replace("-", "") not in known
