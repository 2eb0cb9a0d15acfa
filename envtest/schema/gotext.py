"""How Go prints strings, numbers and JSON inside the API server's messages.

Messages quote the offending value, and clients compare them, so a value has to look here as Go's
`%q`, `%v` and `encoding/json` would print it.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
_PLAIN = re.compile(r"[ !#-%'-;=?-\[\]-~]*").fullmatch
_JSON_ESCAPES = {
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    '"': '\\"',
    "\\": "\\\\",
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def quote(text: str) -> str:
    """Quote `text` as Go's `%q` verb does."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quoted_rune(rune) for rune in text) + '"'


def _quoted_rune(rune: str) -> str:
    if rune in _ESCAPES:
        return _ESCAPES[rune]
    if rune.isprintable():
        return rune
    code = ord(rune)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """Print a number as Go's `%v` verb does.

    Shortest digits, exponent from 1e21 on and below 1e-4.
    """
    if isinstance(value, int):
        return str(value)
    return _float(value, low=1e-4, trim=False)


def _float(value: float, *, low: float, trim: bool) -> str:
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if low <= abs(value) < 1e21:
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = _scientific(value)
    digits = f"{abs(exponent)}" if trim else f"{abs(exponent):02d}"
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{digits}"


def _scientific(value: float) -> tuple[str, int]:
    sign, figures, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, figures))
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return ("-" if sign else "") + mantissa, exponent + len(text) - 1


def json_text(value: Any) -> str:
    """Encode a JSON value as Go's `json.Marshal` does.

    Sorted keys, no spaces, `<`, `>` and `&` escaped.
    """
    if value is None:
        return "null"
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, int | float):
        return _json_number(value)
    if isinstance(value, dict):
        members = (f"{json_string(key)}:{json_text(value[key])}" for key in sorted(value))
        return "{" + ",".join(members) + "}"
    return "[" + ",".join(json_text(item) for item in value) + "]"


def _json_number(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _float(value, low=1e-6, trim=True)


def json_string(text: str) -> str:
    """Encode one string as Go's `json.Marshal` does."""
    if _PLAIN(text):
        return f'"{text}"'
    return '"' + "".join(_json_rune(rune) for rune in text) + '"'


def _json_rune(rune: str) -> str:
    escaped = _JSON_ESCAPES.get(rune)
    if escaped is not None:
        return escaped
    return f"\\u{ord(rune):04x}" if rune < " " else rune
