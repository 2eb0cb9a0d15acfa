"""`enum`: the allowed values, compared as the server compares them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from envtest.schema.errors import FieldError, not_supported
from envtest.schema.gotext import json_text


class Enum:
    """The allowed values; numbers are compared by value, everything else by type and value."""

    __slots__ = ("_known", "_shown")

    def __init__(self, values: Sequence[Any]) -> None:
        self._shown = [value if isinstance(value, str) else json_text(value) for value in values]
        self._known = {_enum_key(value) for value in values if value is not None}

    def check(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append the refusal of `value`, which null always gets."""
        known = self._known
        if value is None or (_enum_key(value) not in known and not _converts(value, known)):
            out.append(not_supported(path, value, self._shown))


def _enum_key(value: Any) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True)
    return (isinstance(value, bool), value)


def _converts(value: Any, known: set[object]) -> bool:
    """Whether a number equals an allowed value after Go's conversion to that value's type.

    A float loses its fraction on the way to an integer, and an integer becomes the character of
    that number: 1.5 passes for 1, and 97 for "a". Odd, but that is what the server does.
    """
    if isinstance(value, float):
        return abs(value) < 2**63 and (False, math.trunc(value)) in known
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 0 <= value < sys.maxunicode and (False, chr(value)) in known
