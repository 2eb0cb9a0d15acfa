"""String formats and patterns of schemas.

A format is one of three. It is checked as the API server does (`_CHECKS`: date-time, ipv4, uuid).
It is known, but any string passes (`_UNCHECKED`: host names, card numbers, colours), although a
real server checks it. Or it is unknown, and creating the CRD gives a warning (`is_unrecognized`).

Patterns are matched by RE2, whose time is linear in the input. Go's regexp has the same syntax.
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
    """A pattern that RE2 cannot compile."""


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern for RE2.

    Raises:
        InvalidPattern: it cannot be compiled.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        [reason] = error.args
        message = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"error parsing regexp: {message}") from error


def build_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a string contains a match of the pattern.

    Raises:
        InvalidPattern: the pattern cannot be compiled.
    """
    # Called for its error; `_matches_pattern` takes the compiled pattern from the cache.
    compile_pattern(pattern)
    return lambda value: _matches_pattern(value, pattern)


# Cached because a call of the engine is slow, and the same names, types and reasons recur.
@remember_results(4096)
def _matches_pattern(value: str, pattern: str) -> bool:
    """Return whether a string contains a match of a pattern."""
    return compile_pattern(pattern).search(value) is not None


_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|[+-]\d{2}:\d{2})", re.ASCII)
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+([0-9]+)(?=\.|\Z)")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_date(date: str) -> bool:
    """Return whether a string is a calendar date such as 2006-01-02."""
    if not _DATE.fullmatch(date):
        return False
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        return False
    return True


# Cached because the same few times occur in many objects.
@remember_results(1024)
def is_date_time(timestamp: str) -> bool:
    """Return whether a string is an RFC 3339 time; a leap second is not accepted."""
    day, _, time_part = timestamp.lower().partition("t")
    parts = _TIME.fullmatch(time_part)
    if parts is None or not is_date(day):
        return False
    # Hour, minute and second have two digits each, so they compare as strings.
    return parts[1] <= "23" and parts[2] <= "59" and parts[3] <= "59"


def is_ip(address: str) -> bool:
    """Return whether a string is an IP address without zone; IPv4 may have leading zeros."""
    if "%" in address:
        return False
    try:
        ipaddress.ip_address(_LEADING_ZEROS.sub(r"\1", address))
    except ValueError:
        return False
    return True


def is_cidr(network: str) -> bool:
    """Return whether a string is an IPv4 or IPv6 network; host bits may be set."""
    address, slash, length = network.partition("/")
    # Leading zeros are accepted, up to six digits in all, so that no long text is made a number.
    if not slash or not re.fullmatch(r"[0-9]{1,6}", length) or not is_ip(address):
        return False
    return int(length) <= (128 if ":" in address else 32)


def _is_byte(encoded: str) -> bool:
    """Return whether a string is base64 of at least one byte."""
    try:
        return bool(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_uri(uri: str) -> bool:
    """Return whether a string is a URI with a scheme, or an absolute path."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return bool(parts.scheme) or uri.startswith("/")


def _is_subdomain(name: str) -> bool:
    """Return whether a string is a DNS subdomain of up to 253 characters."""
    return len(name) <= 253 and all(_DNS_LABEL.fullmatch(label) for label in name.split("."))


def _build_pattern_check(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """Return a function that says whether a whole string matches a pattern."""
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
    "uuid": _build_pattern_check(_UUID),
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


def find_check(name: Any) -> Callable[[str], bool] | None:
    """Return the check of a format; None if the format is not checked.

    As in the server, hyphens in the name do not matter.
    """
    return _CHECKS.get(name.replace("-", "")) if isinstance(name, str) else None


def is_unrecognized(name: str, schema_type: str) -> bool:
    """Return whether the server does not know a format for a schema type, and warns about it.

    An empty name is no format, so nothing is unknown.
    """
    known_formats = _NUMBER_FORMATS.get(schema_type, _UNCHECKED | _CHECKS.keys())
    return bool(name) and name.replace("-", "") not in known_formats
