"""How Go prints JSON values, because messages of the real server contain such prints."""

import json
from typing import Any

_INT64 = 1 << 63


def type_name(value: Any) -> str:
    """Return what the verb %T prints."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "map[string]interface {}"
    return "[]interface {}" if isinstance(value, list) else "<nil>"


def json_kind(value: Any) -> str:
    """Return how Go's JSON decoder calls a value that does not fit."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "null"


def number(value: float, *, low: int = -4, high: int = 6) -> str:
    """Return a float as %v prints it.

    Args:
        value: the number; -0 never survives the way through YAML and is printed as 0.
        low: the lowest power of ten that is written without an exponent.
        high: the first power of ten that is written with one.
    """
    if value == 0:
        return "0"
    digits, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = digits.partition(".")
    figures = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(figures)
    point = len(whole) - leading + (int(exponent) if exponent else 0)
    figures = figures.rstrip("0")
    sign = "-" if value < 0 else ""
    if low <= point - 1 < high:
        return sign + _plain(figures, point)
    mantissa = figures[0] + ("." + figures[1:] if len(figures) > 1 else "")
    return f"{sign}{mantissa}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"


def _plain(figures: str, point: int) -> str:
    """Write significant figures with the decimal point after the given number of them."""
    if point <= 0:
        return "0." + "0" * -point + figures
    if point >= len(figures):
        return figures + "0" * (point - len(figures))
    return f"{figures[:point]}.{figures[point:]}"


def plain(value: Any) -> str:
    """Return what the verb %v prints."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(plain, value)) + "]"
    return str(value)


def syntax(value: Any) -> str:
    """Return what the verb %#v prints."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{quoted(key)}:{syntax(value[key])}" for key in sorted(value))
        return "map[string]interface {}{" + inner + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(syntax, value)) + "}"
    return plain(value)


_SHORT = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}


def quoted(text: str) -> str:
    """Return what the verb %q prints."""
    return '"' + "".join(map(_quoted_rune, text)) + '"'


def _quoted_rune(rune: str) -> str:
    """Escape one character the way %q does."""
    if rune in {'"', "\\"}:
        return "\\" + rune
    if rune in _SHORT:
        return _SHORT[rune]
    if is_print(rune):
        return rune
    code = ord(rune)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_print(rune: str) -> bool:
    """Tell whether Go counts a character as printable: as Python does."""
    return rune.isprintable()


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def json_text(value: Any) -> str:
    """Return the compact JSON of a value, with the escapes that Go makes for HTML's sake."""
    if isinstance(value, float):
        return _json_number(value)
    return _COMPACT.encode(value).translate(_ESCAPES)


def _json_number(value: float) -> str:
    """Return a float as Go writes it in JSON: whole numbers have no fraction."""
    return number(value, low=-6, high=21).replace("e-0", "e-")
