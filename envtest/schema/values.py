"""Validation of values by an OpenAPI schema, with the API server's errors.

Every schema node is compiled once to a `ValueSchema`. Its `add_errors` walks a value and the
schema together, and appends errors to one list.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from controller.managedfields.gotext import encode_json, format_number, quote
from envtest.schema import formats
from envtest.schema.correlation import Pair
from envtest.schema.errors import (
    NO_FIELD,
    FieldError,
    build_invalid_error,
    build_not_supported_error,
    build_required_error,
    build_too_long_error,
    build_too_many_error,
)
from envtest.schema.formats import InvalidPattern, build_matcher

_JSON_TYPES: dict[type, tuple[str, str]] = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    dict: ("object", ""),
    list: ("array", ""),
}
_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LARGEST_EXACT: Final = 2.0**53 - 1
_FLOAT32_MAX: Final = 3.4028235677973366e38
# As in go-openapi's swag.IsFloat64AJSONInteger.
_QUOTIENT_TOLERANCE: Final = 1e-9


class ValueSchema:
    """A compiled schema node with all nodes below it.

    Args:
        schema: an OpenAPI v3 schema of a CRD, or a branch of one.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._types = list_types(schema)
        single = self._types[0] if len(self._types) == 1 else ""
        self._nullable = bool(schema.get("nullable"))
        self._format = find_supported_format(schema, single)
        self._enum = _Enum(schema["enum"]) if schema.get("enum") else None
        self._branches = _Branches.compile(schema)
        self._number = _Number(schema, single, self._format)
        self._compile_strings(schema)
        self._compile_lists(schema)
        self._compile_objects(schema)
        # Whether every string is valid. Most schemas of strings are so, and need no check.
        self.plain_text = (
            self._types == ("string",)
            and not self._format
            and (self._enum, self._branches, self._min_length, self._max_length) == (None,) * 4
            and self._matches is None
        )

    def _compile_strings(self, schema: Mapping[str, Any]) -> None:
        """Set the constraints on strings."""
        self._min_length: int | None = schema.get("minLength")
        self._max_length: int | None = schema.get("maxLength")
        self._pattern: str = schema.get("pattern") or ""
        self._matches = _build_pattern_check(self._pattern)
        self._format_check = formats.find_check(self._format)

    def _compile_lists(self, schema: Mapping[str, Any]) -> None:
        """Set the constraints on lists, and compile the schema of their items."""
        items = schema.get("items")
        self._items = ValueSchema(items) if isinstance(items, Mapping) else None
        self._min_items: int | None = schema.get("minItems")
        self._max_items: int | None = schema.get("maxItems")

    def _compile_objects(self, schema: Mapping[str, Any]) -> None:
        """Set the constraints on objects, and compile the schemas of their fields."""
        properties = schema.get("properties") or {}
        self._properties = {name: ValueSchema(child) for name, child in properties.items()}
        additional = schema.get("additionalProperties")
        self._additional = ValueSchema(additional) if isinstance(additional, Mapping) else None
        self._allows_no_additional = additional is False
        self._required: Sequence[str] = tuple(schema.get("required") or ())
        self._min_properties: int | None = schema.get("minProperties")
        self._max_properties: int | None = schema.get("maxProperties")

    def add_errors(
        self, value: Any, path: str, out: list[FieldError], pair: Pair | None = None
    ) -> None:
        """Append the errors of a value to `out`; an unchanged value has none (ratcheting).

        Args:
            path: its path, empty for the root.
            out: errors are appended to it.
            pair: the value with its counterpart in the old object; None if it has none.
        """
        # Equal values are compared in full only if Python's faster comparison finds no difference.
        if pair is not None and (value is pair.old or value == pair.old) and pair.is_unchanged():
            return
        old_count = len(out)
        self._add_constraint_errors(value, path, out=out, pair=pair)
        # Values that Python calls different may be unchanged in the sense of `Pair`.
        if len(out) > old_count and pair is not None and pair.is_unchanged():
            del out[old_count:]

    def _add_constraint_errors(
        self, value: Any, path: str, out: list[FieldError], pair: Pair | None
    ) -> None:
        """Append the errors of a value, in the server's order.

        By `pair`, the checks of lists and objects skip items and fields that are unchanged.
        """
        if value is None:
            self._add_null_errors(path, out)
            return
        value_type = type(value)
        if self._types or self._format:
            self._add_type_error(value, value_type, path=path, out=out)
        if self._branches is not None:
            self._branches.add_errors(value, path, out)
        if value_type is str:
            self._add_string_errors(value, path, out)
        elif value_type is list:
            self._add_list_errors(value, path, out=out, pair=pair)
        elif value_type in {int, float}:
            self._number.add_errors(value, path, out)
        if self._enum is not None:
            self._enum.add_errors(value, path, out)
        if value_type is dict:
            self._add_object_errors(value, path, out=out, pair=pair)

    def _add_null_errors(self, path: str, out: list[FieldError]) -> None:
        """Append the errors of a null, to which no other constraint applies."""
        if self._types and not self._nullable:
            out.append(_build_type_error(path, ",".join(self._types), "null"))
        if self._enum is not None:
            self._enum.add_errors(None, path, out)

    def _add_type_error(
        self, value: Any, value_type: type, path: str, out: list[FieldError]
    ) -> None:
        """Append an error if a value has none of the schema's types, nor its format."""
        json_type, json_format = _JSON_TYPES[value_type]
        types = self._types
        has_allowed_type = (
            json_type in types
            or (value_type is int and "number" in types)
            or (value_type is float and "integer" in types and _is_integer(value))
        )
        if has_allowed_type:
            return
        # From here on as go-openapi/validate does (typeValidator.Validate): a format counts as a
        # type. For strings and lists it is left to the check of the format, unless the schema is
        # of numbers.
        is_text_or_list = value_type is str or value_type is list
        allows_numbers = "number" in types or "integer" in types
        if self._format and not is_text_or_list and self._format != json_format:
            out.append(_build_type_error(path, self._format, json_format))
            return
        if self._format and is_text_or_list and not allows_numbers:
            return
        out.append(_build_type_error(path, ",".join(types), json_type))

    def _add_string_errors(self, value: str, path: str, out: list[FieldError]) -> None:
        """Append the first error of length and pattern, and the error of the format."""
        if self._max_length is not None and len(value) > self._max_length:
            out.append(build_too_long_error(path, self._max_length))
        elif self._min_length is not None and len(value) < self._min_length:
            detail = f"{path} in body should be at least {self._min_length} chars long"
            out.append(build_invalid_error(path, value, detail))
        elif self._matches is not None and not self._matches(value):
            out.append(
                build_invalid_error(path, value, f"{path} in body should match '{self._pattern}'")
            )
        if self._format_check is not None and not self._format_check(value):
            out.append(_build_type_error(path, self._format, value))

    def _add_list_errors(
        self, value: list[Any], path: str, out: list[FieldError], pair: Pair | None
    ) -> None:
        """Append the errors of a list's items, then of its size."""
        items = self._items
        # Without counterparts of items, no time is spent on looking for them.
        if pair is not None and not pair.can_pair_items:
            pair = None
        if items is not None:
            for index, item in enumerate(value):
                # The schema of the items allows every string.
                if type(item) is str and items.plain_text:
                    continue
                item_pair = None if pair is None else pair.pair_item(item)
                items.add_errors(item, f"{path}[{index}]", out=out, pair=item_pair)
        size = len(value)
        if self._min_items is not None and size < self._min_items:
            detail = f"{path} in body should have at least {self._min_items} items"
            out.append(build_invalid_error(path, size, detail))
        if self._max_items is not None and size > self._max_items:
            out.append(build_too_many_error(path, size, self._max_items))

    def _add_object_errors(
        self, value: dict[str, Any], path: str, out: list[FieldError], pair: Pair | None
    ) -> None:
        """Append the errors of an object's size, fields and required fields."""
        self._add_size_errors(len(value), path, out)
        if self._allows_no_additional:
            for name in value.keys() - self._properties.keys():
                detail = f"{path}.{name} in body is a forbidden property"
                out.append(build_invalid_error(path, name, detail))
        properties, additional = self._properties, self._additional
        old = pair.old if pair is not None and type(pair.old) is dict else None
        prefix = f"{path}." if path else ""
        for name, item in value.items():
            child = properties.get(name, additional)
            # A field without a schema; pruning decides whether it stays.
            if child is None:
                continue
            # A shortcut for strings, which are a large part of an object: no pair is created for a
            # string that is valid or unchanged.
            is_unchanged = old is not None and old.get(name) == item
            if type(item) is str and (child.plain_text or is_unchanged):
                continue
            item_pair = None if pair is None else pair.pair_member(name, item)
            child.add_errors(item, prefix + name, out=out, pair=item_pair)
        out += [
            build_required_error(prefix + name) for name in self._required if name not in value
        ]

    def _add_size_errors(self, size: int, path: str, out: list[FieldError]) -> None:
        """Append the errors of the number of an object's properties."""
        if self._min_properties is not None and size < self._min_properties:
            detail = f"{path} in body should have at least {self._min_properties} properties"
            out.append(build_invalid_error(path, size, detail))
        if self._max_properties is not None and size > self._max_properties:
            out.append(build_too_many_error(path, size, self._max_properties))


class _Number:
    """The constraints of one schema node on numbers."""

    def __init__(self, schema: Mapping[str, Any], schema_type: str, number_format: str) -> None:
        self._schema_type = schema_type
        self._format = number_format
        self._low, self._high = schema.get("minimum"), schema.get("maximum")
        self._excludes_low = bool(schema.get("exclusiveMinimum"))
        self._excludes_high = bool(schema.get("exclusiveMaximum"))
        self._factor = schema.get("multipleOf")

    def add_errors(self, value: float, path: str, out: list[FieldError]) -> None:
        """Append the errors of a number to `out`."""
        if not self._has_type_and_range(value):
            shape = f"with format {self._format}" if self._format else "(default format)"
            detail = f"Checked value must be of type {self._schema_type} {shape} in {path}"
            out.append(build_invalid_error(NO_FIELD, "", detail))
        if self._factor is not None and not _is_multiple(value, self._factor):
            out.append(
                _build_bound_error(path, value, relation="a multiple of", bound=self._factor)
            )
        low, high = self._low, self._high
        if low is not None and (value < low or (self._excludes_low and value == low)):
            relation = "greater than" if self._excludes_low else "greater than or equal to"
            out.append(_build_bound_error(path, value, relation=relation, bound=low))
        if high is not None and (value > high or (self._excludes_high and value == high)):
            relation = "less than" if self._excludes_high else "less than or equal to"
            out.append(_build_bound_error(path, value, relation=relation, bound=high))

    def _has_type_and_range(self, value: float) -> bool:
        """Return whether a number has the type and the range of the format."""
        if self._schema_type == "integer":
            low, high = _RANGES.get(self._format, _RANGES["int64"])
            return (type(value) is int or value.is_integer()) and low <= value <= high
        return self._format != "float" or abs(value) < _FLOAT32_MAX


def _is_multiple(value: float, factor: float) -> bool:
    """Return whether a number is a multiple of a factor; floats are compared with a tolerance."""
    if type(value) is int and type(factor) is int:
        return value % factor == 0
    quotient = value / factor
    return math.isclose(quotient, round(quotient), rel_tol=_QUOTIENT_TOLERANCE)


def _build_bound_error(path: str, value: float, relation: str, bound: float) -> FieldError:
    """Return the error of a number that is not, for example, `greater than` a bound."""
    return build_invalid_error(
        path, value, f"{path} in body should be {relation} {format_number(bound)}"
    )


class _Enum:
    """The allowed values of a node: numbers compare by value, others by type and value."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._listed_values = [
            value if isinstance(value, str) else encode_json(value) for value in values
        ]
        self._allowed_keys = {self._build_key(value) for value in values if value is not None}

    @staticmethod
    def _build_key(value: Any) -> object:
        """Return a hashable key that equal JSON values have in common; 1 and true differ."""
        if isinstance(value, dict | list):
            return json.dumps(value, sort_keys=True)
        return (isinstance(value, bool), value)

    def add_errors(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append an error for a value that is not allowed; null never is."""
        if value is None or self._build_key(value) not in self._allowed_keys:
            out.append(build_not_supported_error(path, value, self._listed_values))


class _Branches:
    """`anyOf`, `oneOf`, `allOf` and `not` of one schema node.

    Branches get no old values, because the node around them drops the errors of unchanged values.
    If no branch of anyOf or oneOf matches, the errors of the branch with the fewest are reported.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._any_of, self._one_of, self._all_of = (
            [ValueSchema(part) for part in schema.get(name) or ()]
            for name in ("anyOf", "oneOf", "allOf")
        )
        negated = schema.get("not")
        self._not = None if negated is None else ValueSchema(negated)

    @classmethod
    def compile(cls, schema: Mapping[str, Any]) -> Self | None:
        """Return the branches of a schema node; None if it has none."""
        lists = any(schema.get(name) for name in ("anyOf", "oneOf", "allOf"))
        return cls(schema) if lists or schema.get("not") is not None else None

    def add_errors(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append the errors of a value by the branches to `out`."""
        quoted_path = quote(path)
        if self._any_of:
            branch_errors = [_find_errors(branch, value, path) for branch in self._any_of]
            if all(branch_errors):
                out.append(
                    _build_branch_error(f"{quoted_path} must validate at least one schema (anyOf)")
                )
                out += _find_fewest_errors(branch_errors)
        if self._one_of:
            branch_errors = [_find_errors(branch, value, path) for branch in self._one_of]
            matching = branch_errors.count([])
            if matching != 1:
                match_count = (
                    f"Found {matching} valid alternatives" if matching else "Found none valid"
                )
                relation = "must validate one and only one schema (oneOf)"
                out.append(_build_branch_error(f"{quoted_path} {relation}. {match_count}"))
                out += _find_fewest_errors(branch_errors)
        if self._all_of:
            self._add_all_of_errors(value, path, out)
        if self._not is not None and not _find_errors(self._not, value, path):
            out.append(_build_branch_error(f"{quoted_path} must not validate the schema (not)"))

    def _add_all_of_errors(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append the errors of all branches of allOf, and one that summarizes them."""
        branch_errors = [_find_errors(branch, value, path) for branch in self._all_of]
        out += [error for errors in branch_errors for error in errors]
        if any(branch_errors):
            suffix = ". None validated" if all(branch_errors) else ""
            relation = "must validate all the schemas (allOf)"
            out.append(_build_branch_error(f"{quote(path)} {relation}{suffix}"))


def _find_errors(branch: ValueSchema, value: Any, path: str) -> list[FieldError]:
    """Return the errors of a value by one branch."""
    out: list[FieldError] = []
    branch.add_errors(value, path, out)
    return out


def _find_fewest_errors(branch_errors: list[list[FieldError]]) -> list[FieldError]:
    """Return the list with the fewest errors; of equally short lists, the first."""
    fewest = min(len(errors) for errors in branch_errors)
    return next(errors for errors in branch_errors if len(errors) == fewest)


def _build_branch_error(detail: str) -> FieldError:
    """Return the error of a value that does not match its branches; it belongs to no field."""
    return build_invalid_error(NO_FIELD, "", detail)


def _is_integer(value: float) -> bool:
    """Return whether a float is a whole number that it represents exactly."""
    return value.is_integer() and abs(value) <= _LARGEST_EXACT


def list_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types that a node allows; empty if it allows every type."""
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    schema_type = schema.get("type")
    return (schema_type,) if schema_type else ()


def find_supported_format(schema: Mapping[str, Any], schema_type: str) -> str:
    """Return the format of a node of this type; empty if the server does not know it."""
    name = schema.get("format") or ""
    return "" if formats.is_unrecognized(name, schema_type) else name


def _build_type_error(path: str, expected: str, actual: str) -> FieldError:
    """Return the error of a value of the wrong type or format."""
    return FieldError(
        "TypeInvalid",
        path,
        value=actual,
        detail=f"{path} in body must be of type {expected}: {quote(actual)}",
    )


def _build_pattern_check(pattern: str) -> Callable[[str], bool] | None:
    """Return a function that checks a string against a pattern; None if there is no pattern."""
    try:
        return build_matcher(pattern) if pattern else None
    except InvalidPattern:
        # A CRD with an invalid pattern is refused, except in a branch, where patterns are not
        # validated. There the server ignores the pattern.
        return None
