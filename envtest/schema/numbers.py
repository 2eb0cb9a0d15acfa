"""Bounds and multiples of numbers, with the server's ways of comparing integers and floats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from envtest.schema.errors import NO_FIELD, FieldError, invalid
from envtest.schema.gotext import number as show

_INT_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)
_FLOAT32_MAX = 3.4028235677973366e38
_JSON_INTEGER_MAX = 2.0**53 - 1


def integer_range(number_format: str) -> tuple[int, int]:
    """The least and the greatest integer of a format; of 64 bits where it is none or unknown."""
    return _INT_RANGES.get(number_format, _INT64)


class NumberRule:
    """What one schema demands of numbers.

    Args:
        schema: the JSON schema; `minimum`, `maximum`, `exclusive…`, `multipleOf` are read.
        kind: its single type, or "" where it has none or several.
        number_format: `int32`, `int64`, `float`, `double` or "".
    """

    __slots__ = (
        "_factor",
        "_format",
        "_high",
        "_high_open",
        "_kind",
        "_low",
        "_low_open",
        "_trivial",
    )

    def __init__(self, schema: Mapping[str, Any], kind: str, number_format: str) -> None:
        self._kind = kind
        self._format = number_format
        self._low = schema.get("minimum")
        self._high = schema.get("maximum")
        self._low_open = bool(schema.get("exclusiveMinimum"))
        self._high_open = bool(schema.get("exclusiveMaximum"))
        self._factor = schema.get("multipleOf")
        bounds = (self._low, self._high, self._factor)
        self._trivial = all(bound is None for bound in bounds) and number_format in {
            "",
            "double",
            "int64",
        }

    def check(self, value: float, path: str, out: list[FieldError]) -> None:
        """Append to `out` what is wrong with `value`, in the server's order."""
        if self._trivial and isinstance(value, int):
            return
        self._range("Checked", value, path, out)
        if self._factor is not None:
            fits = self._range("MultipleOf", float(self._factor), path, out)
            self._multiple(value, fits, path, out)
        if self._low is not None:
            fits = self._range("Minimum boundary", float(self._low), path, out)
            self._minimum(value, fits, path, out)
        if self._high is not None:
            fits = self._range("Maximum boundary", float(self._high), path, out)
            self._maximum(value, fits, path, out)

    def _range(self, what: str, value: float, path: str, out: list[FieldError]) -> bool:
        if self._fits(value):
            return True
        shape = f"with format {self._format}" if self._format else "(default format)"
        detail = f"{what} value must be of type {self._kind} {shape} in {path}"
        out.append(invalid(NO_FIELD, "", detail))
        return False

    def _fits(self, value: float) -> bool:
        if self._kind == "integer":
            low, high = integer_range(self._format)
            return (isinstance(value, int) or value.is_integer()) and low <= int(value) <= high
        return self._format != "float" or abs(value) < _FLOAT32_MAX

    def _minimum(self, value: float, fits: bool, path: str, out: list[FieldError]) -> None:
        data, bound = _operands(value, self._low, fits)
        if data < bound or (self._low_open and data == bound):
            words = "greater than" if self._low_open else "greater than or equal to"
            out.append(invalid(path, data, f"{path} in body should be {words} {show(bound)}"))

    def _maximum(self, value: float, fits: bool, path: str, out: list[FieldError]) -> None:
        data, bound = _operands(value, self._high, fits)
        if data > bound or (self._high_open and data == bound):
            words = "less than" if self._high_open else "less than or equal to"
            out.append(invalid(path, data, f"{path} in body should be {words} {show(bound)}"))

    def _multiple(self, value: float, fits: bool, path: str, out: list[FieldError]) -> None:
        data, factor = _operands(value, self._factor, fits)
        if factor <= 0:
            detail = f"factor MultipleOf declared for {path} must be positive: {show(factor)}"
            out.append(invalid(path, factor, detail))
        elif not _divides(data, factor):
            out.append(
                invalid(path, data, f"{path} in body should be a multiple of {show(factor)}")
            )


def _operands(value: float, bound: Any, fits: bool) -> tuple[float, float]:
    """Value and bound as the server compares them: integers if the bound suits, else floats.

    An integer is compared with the bound cut to 64 bits, whatever the bound was.
    """
    if not (fits and isinstance(value, int)):
        return float(value), float(bound)
    low, high = _INT64
    cut = math.trunc(bound)
    return value, (cut if low <= cut <= high else low)


def _divides(data: float, factor: float) -> bool:
    if isinstance(data, int) and isinstance(factor, int):
        return data % factor == 0
    return is_json_integer(1 / factor * data if factor < 1 else data / factor)


def is_json_integer(value: float) -> bool:
    """Whether a float counts as an integer.

    Within 2**53, and off by a billionth of itself at most.
    """
    if math.isnan(value) or abs(value) > _JSON_INTEGER_MAX:
        return False
    if value.is_integer():
        return True
    whole = float(math.trunc(value)) if value > 0 else 0.0
    if whole == 0:
        return False
    return abs(value - whole) / (abs(value) + whole) < 1e-9
