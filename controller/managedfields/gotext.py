"""How values look in the API server's messages: quoted texts, numbers, JSON."""

from __future__ import annotations

import json
from typing import Any, Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
# Go makes these escapes for the sake of HTML.
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def quote(value: str) -> str:
    """Return a text in double quotes, with quotes and control characters escaped."""
    return _ENCODER.encode(value)


def format_number(value: float) -> str:
    """Return a number with the fewest digits that identify it."""
    return repr(value)


def encode_json(value: Any) -> str:
    """Return compact JSON with sorted keys, and with the escapes that Go makes."""
    return _ENCODER.encode(value).translate(_ESCAPES)


def name_json_type(value: Any) -> str:
    """Return the JSON type of a value as Go's decoder names it in error messages."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "null"
