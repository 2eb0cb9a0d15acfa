"""String formats: what the API server accepts as `date-time`, `ipv4`, `uuid` and the rest.

A format outside `STRING_FORMATS` is not checked; creating a CRD with one gives a warning
(`unrecognized`).
"""

from __future__ import annotations

import datetime
import functools
import ipaddress
import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from envtest.schema.gourl import parse_request_uri

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LONGEST_TIME: Final = 40
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|[+-]\d{2}:\d{2})", re.ASCII)
_GO_DURATION = re.compile(
    r"[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII
)
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+([0-9]+)(?=\.|\Z)")
_LOOSE_DURATION = re.compile(r"(\d+)[\t\n\f\r ]*([A-Za-zµ]+)", re.ASCII)
# For each unit the words taken as they are; the last one also stands for every word that begins
# with it.
_UNITS = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_date(text: str) -> bool:
    """A calendar date, `2006-01-02`."""
    if not _DATE.fullmatch(text):
        return False
    try:
        # Go knows a year zero, Python does not; both are leap years.
        datetime.date.fromisoformat("0004" + text[4:] if text.startswith("0000") else text)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """An RFC 3339 time; the offset's range is not checked, nor a leap second accepted."""
    return _remembered_time(text) if len(text) <= _LONGEST_TIME else _is_date_time(text)


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    found = _TIME.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


# The same few times stand in object after object.
_remembered_time: Final = functools.lru_cache(maxsize=1024)(_is_date_time)


def is_duration(text: str) -> bool:
    """A Go duration (`1h30m`) or words such as `3 weeks`."""
    if _GO_DURATION.fullmatch(text):
        return True
    return any(_is_unit(unit.lower()) for _, unit in _LOOSE_DURATION.findall(text))


def _is_unit(word: str) -> bool:
    return any(word in names or word.startswith(names[-1]) for names in _UNITS)


def is_ip(text: str) -> bool:
    """An IP address of either family without zone.

    Leading zeros in IPv4 are let pass, as decimal.
    """
    if "%" in text:
        return False
    try:
        ipaddress.ip_address(_LEADING_ZEROS.sub(r"\1", text))
    except ValueError:
        return False
    return True


def is_ipv4(text: str) -> bool:
    """An IPv4 address; an IPv4-mapped one in dotted form counts."""
    return "." in text and is_ip(text)


def is_ipv6(text: str) -> bool:
    """An IPv6 address."""
    return ":" in text and is_ip(text)


def is_cidr(text: str) -> bool:
    """A network of either family; host bits may be set."""
    address, slash, length = text.partition("/")
    if not slash or not re.fullmatch(r"[0-9]{1,6}", length) or not is_ip(address):
        return False
    return int(length) <= (128 if ":" in address else 32)


def is_mac(text: str) -> bool:
    """A MAC address of 6, 8 or 20 bytes with colons, hyphens, dots or nothing between them."""
    if re.fullmatch(r"[0-9a-fA-F]{12}|[0-9a-fA-F]{16}|[0-9a-fA-F]{40}", text):
        return True
    if "." in text:
        groups = text.split(".")
        return len(groups) in {3, 4, 10} and all(
            re.fullmatch(r"[0-9a-fA-F]{4}", group) for group in groups
        )
    groups = text.split(text[2] if len(text) > 2 and text[2] in ":-" else ":")
    return len(groups) in {6, 8, 20} and all(
        re.fullmatch(r"[0-9a-fA-F]{2}", group) for group in groups
    )


def is_hostname(text: str) -> bool:
    """A host name; symbols and letters of any script count, 255 bytes in all, 63 per label."""
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in text.split(".")):
        return False
    return _HOSTNAME.fullmatch("".join(map(_host_class, text))) is not None


# Over classes of characters: l letter, s digit or symbol.
_HOSTNAME = re.compile(r"[ls](?:-?[ls]{0,62})?|(?:[ls](?:[ls-]{0,61}[ls])?\.)+l{2,63}")


def _host_class(rune: str) -> str:
    if rune in "-.":
        return rune
    category = unicodedata.category(rune)
    if category[0] == "L":
        return "l"
    return "s" if category[0] == "S" or "0" <= rune <= "9" else "!"


def is_email(text: str) -> bool:
    """An address as Go's `mail.ParseAddress` takes it.

    Bare, or with a display name and angle brackets.
    """
    address = text.strip(" \t")
    named = re.fullmatch(r"(?:[^<>\x00-\x1f]*)<([^<>]*)>", address)
    local, at, domain = (named.group(1) if named else address).rpartition("@")
    if not at or not domain or not local:
        return False
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010ffff]+"
    quoted = r'"(?:[^"\\\x00-\x08\x0a-\x1f]|\\[\x20-\x7e\t])*"'
    if not re.fullmatch(rf"(?:{atom}(?:\.{atom})*|{quoted})", local):
        return False
    return re.fullmatch(rf"{atom}(?:\.{atom})*|\[[^\[\]\\]*\]", domain) is not None


def is_isbn10(text: str) -> bool:
    """An ISBN of ten digits with its check digit."""
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    total = sum((place + 1) * int(digit) for place, digit in enumerate(digits[:9]))
    return (total + 10 * (10 if digits[9] == "X" else int(digits[9]))) % 11 == 0


def is_isbn13(text: str) -> bool:
    """An ISBN of thirteen digits with its check digit."""
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits[:12]))
    return (10 - total % 10) % 10 == int(digits[12])


def is_credit_card(text: str) -> bool:
    """A card number of a known issuer with its Luhn digit."""
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (
        int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits))
    )
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14}"
)


def is_dns_label(text: str) -> bool:
    """A DNS-1123 label of at most 63 characters."""
    return len(text) <= 63 and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """DNS-1123 labels joined by dots, 253 characters at most."""
    return len(text) <= 253 and all(_DNS_LABEL.fullmatch(label) for label in text.split("."))


def _pattern(expression: str) -> Callable[[str], bool]:
    compiled = re.compile(expression)
    return lambda text: compiled.fullmatch(text) is not None


_UUID = r"(?i:[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{}-?{}-?[0-9a-f]{{12}})"
_COLOUR = r"[\t\n\f\r ]*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])[\t\n\f\r ]*"
_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern(r"[0-9a-fA-F]{24}"),
    "byte": _pattern(
        r"(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{4})"
    ),
    "cidr": is_cidr,
    "creditcard": is_credit_card,
    "date": is_date,
    "datetime": is_date_time,
    "duration": is_duration,
    "email": is_email,
    "hexcolor": _pattern(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8slongname": is_dns_subdomain,
    "k8sshortname": is_dns_label,
    "mac": is_mac,
    "password": lambda _text: True,
    "rgbcolor": _pattern(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)"),
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": lambda text: parse_request_uri(text) is not None,
    "uuid": _pattern(_UUID.format("[0-9a-f]{4}", "[0-9a-f]{4}")),
    "uuid3": _pattern(_UUID.format("3[0-9a-f]{3}", "[0-9a-f]{4}")),
    "uuid4": _pattern(_UUID.format("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
    "uuid5": _pattern(_UUID.format("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
}
STRING_FORMATS: Final = frozenset(_CHECKS)
_NUMBER_FORMATS = {
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}


def check_of(name: Any) -> Callable[[str], bool] | None:
    """The check behind a format's name (hyphens do not matter).

    Or None where the format is unknown.
    """
    return _CHECKS.get(name.replace("-", "")) if isinstance(name, str) else None


def unrecognized(name: str, kind: str) -> bool:
    """Whether creating a CRD that gives a `kind` this format earns a warning."""
    known = _NUMBER_FORMATS.get(kind, STRING_FORMATS)
    return bool(name) and name.replace("-", "") not in known
