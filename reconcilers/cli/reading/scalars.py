"""What an unquoted YAML word means to Kubernetes.

kubectl reads YAML 1.1 the Go way, which is not Python's: `y` and `n` are booleans, a leading zero
means octal, `0o17` too, `1e3` is a number; times of day, dates and sexagesimals stay text. The
table in the tests was taken from kubectl 1.32.
"""

import re

Scalar = str | int | float | bool | None

_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_FIRST = frozenset("0123456789+-.")
_INTEGERS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"[-+]?0b[01]+"), 2),
    (re.compile(r"[-+]?0x[0-9a-fA-F]+"), 16),
    (re.compile(r"[-+]?0o[0-7]+"), 8),
    (re.compile(r"[-+]?0[0-7]+"), 8),
    (re.compile(r"[-+]?[0-9]+"), 10),
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 400


class NotJson(ValueError):
    """A number that JSON, and so Kubernetes, has no word for."""


def resolve(word: str) -> Scalar:
    """Return the value of an unquoted word.

    Raises:
        NotJson: it is infinity or not-a-number.
    """
    if word in _NULL:
        return None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    if word[0] in _FIRST and len(word) <= _LONGEST_NUMBER:
        return _number(word)
    return word


def _number(word: str) -> Scalar:
    if _SPECIAL.fullmatch(word):
        raise NotJson(f"{word} is no number that JSON can carry; quote it if it is a text")
    plain = word.replace("_", "") if word[0] != "_" else word
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(plain):
            return int(plain, base) if base != 8 else int(plain.replace("o", "", 1), 8)
    if not _FLOAT.fullmatch(plain):
        return word
    value = float(plain)
    return value if abs(value) != float("inf") else word
