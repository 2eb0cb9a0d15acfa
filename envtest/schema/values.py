"""Value validation: an object against an OpenAPI schema, with the API server's errors.

Every schema node is compiled once into a `ValueSchema`; checking walks value and schema together
and appends errors to one list. Each check returns how many partial checks matched: of the branches
of an `anyOf` or `oneOf` that all fail, the server shows the errors of the one that matched most,
so the count has to be the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envtest.schema import formats
from envtest.schema.composites import Composites
from envtest.schema.correlation import Pair
from envtest.schema.enums import Enum
from envtest.schema.errors import FieldError, invalid, required, too_long, too_many
from envtest.schema.gotext import quote
from envtest.schema.matching import matcher
from envtest.schema.numbers import NumberRule, is_json_integer
from envtest.schema.patterns import InvalidPattern

_JSON_TYPES: dict[type, tuple[str, str]] = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    dict: ("object", ""),
    list: ("array", ""),
}
Children = dict[str, "ValueSchema"]
# What a string counts in `check_afresh` where its schema asks for a string and nothing else.
_PLAIN_TEXT_MATCHED = 7


class ValueSchema:
    """One compiled schema node; build the whole tree from the root schema.

    Args:
        schema: an OpenAPI v3 schema as it stands in a CRD (or in a branch of `allOf` and the
            like).
    """

    __slots__ = (
        "_additional",
        "_closed",
        "_composites",
        "_enum",
        "_format",
        "_format_check",
        "_items",
        "_max_items",
        "_max_length",
        "_max_properties",
        "_min_items",
        "_min_length",
        "_min_properties",
        "_nullable",
        "_number",
        "_pattern",
        "_pattern_matches",
        "_properties",
        "_required",
        "_types",
        "plain_text",
    )

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._types = types_of(schema)
        single = self._types[0] if len(self._types) == 1 else ""
        self._nullable = bool(schema.get("nullable"))
        self._format = supported_format(schema, single)
        self._format_check = formats.check_of(self._format)
        self._number = NumberRule(schema, single, self._format)
        self._enum = Enum(schema["enum"]) if schema.get("enum") else None
        self._composites = Composites.compile(schema, ValueSchema)
        self._compile_strings(schema)
        self._compile_lists(schema)
        self._compile_objects(schema)
        # Most strings are no more than that; they need not go through all the checks.
        self.plain_text = (
            self._types == ("string",)
            and not self._format
            and (self._enum, self._composites, self._min_length, self._max_length) == (None,) * 4
            and self._pattern_matches is None
        )

    def _compile_strings(self, schema: Mapping[str, Any]) -> None:
        self._min_length: int | None = schema.get("minLength")
        self._max_length: int | None = schema.get("maxLength")
        self._pattern: str = schema.get("pattern") or ""
        self._pattern_matches: Callable[[str], object] | None = None
        if self._pattern:
            self._pattern_matches = pattern_check(self._pattern)

    def _compile_lists(self, schema: Mapping[str, Any]) -> None:
        items = schema.get("items")
        self._items = ValueSchema(items) if isinstance(items, Mapping) else None
        self._min_items: int | None = schema.get("minItems")
        self._max_items: int | None = schema.get("maxItems")

    def _compile_objects(self, schema: Mapping[str, Any]) -> None:
        properties = schema.get("properties") or {}
        self._properties: Children = {
            name: ValueSchema(child) for name, child in properties.items()
        }
        additional = schema.get("additionalProperties")
        self._additional = ValueSchema(additional) if isinstance(additional, Mapping) else None
        self._closed = additional is False
        self._required: Sequence[str] = tuple(schema.get("required") or ())
        self._min_properties: int | None = schema.get("minProperties")
        self._max_properties: int | None = schema.get("maxProperties")

    def check(self, value: Any, path: str, out: list[FieldError], pair: Pair | None = None) -> int:
        """Append to `out` what is wrong with `value`; an unchanged value is forgiven everything.

        Args:
            value: the value at `path`.
            path: where it stands, "" for the root.
            out: where errors go.
            pair: the value with the old one that it corresponds to, if any.

        Returns:
            The server's match count.
        """
        if pair is not None and (value is pair.old or value == pair.old) and pair.unchanged():
            # Whatever is wrong would be forgiven; matches count in branches only, without pairs.
            return 0
        before = len(out)
        matched = self.check_afresh(value, path, out, pair)
        if len(out) > before and pair is not None and pair.unchanged():
            del out[before:]
        return matched

    def check_afresh(
        self, value: Any, path: str, out: list[FieldError], pair: Pair | None = None
    ) -> int:
        """As `check`, but an unchanged value is held to the schema all the same.

        Its parts are not.
        """
        if value is None:
            return self._check_null(path, out)
        kind = type(value)
        matched = 2
        if self._types or self._format:
            matched += 2 if self._check_type(value, kind, path, out) else 1
        if self._composites is None:
            matched += 2
        else:
            matched += 1 + self._composites.check(value, path, out)
        if kind is str:
            matched += self._check_string(value, path, out)
        elif kind is dict:
            pass
        elif kind is list:
            matched += 1 + self._check_list(value, path, out, pair)
        elif kind is not bool:
            self._number.check(value, path, out)
            matched += 2
        if self._enum is not None:
            self._enum.check(value, path, out)
        if kind is dict:
            matched += 1 + self._check_object(value, path, out, pair)
        return matched

    def _check_null(self, path: str, out: list[FieldError]) -> int:
        matched = 1
        if self._types and not self._nullable:
            out.append(_wrong_type(path, ",".join(self._types), "null"))
            matched = 0
        if self._enum is not None:
            self._enum.check(None, path, out)
        return matched

    def _check_type(self, value: Any, kind: type, path: str, out: list[FieldError]) -> bool:
        json_type, json_format = _JSON_TYPES[kind]
        types = self._types
        if json_type in types and not self._format:
            return True
        suits = (
            json_type in types
            or (kind is int and "number" in types)
            or (kind is float and "integer" in types and is_json_integer(value))
        )
        textual = kind is str or kind is list
        if not textual and self._format and not suits and self._format != json_format:
            out.append(_wrong_type(path, self._format, json_format))
            return False
        if textual and self._format and "number" not in types and "integer" not in types:
            return True
        if not suits:
            out.append(_wrong_type(path, ",".join(types), json_type))
        return suits

    def _check_string(self, value: str, path: str, out: list[FieldError]) -> int:
        self._check_text(value, path, out)
        if self._format_check is None:
            return 1
        if not self._format_check(value):
            out.append(_wrong_type(path, self._format, value))
        return 2

    def _check_text(self, value: str, path: str, out: list[FieldError]) -> None:
        if self._max_length is not None and len(value) > self._max_length:
            out.append(too_long(path, self._max_length))
        elif self._min_length is not None and len(value) < self._min_length:
            detail = f"{path} in body should be at least {self._min_length} chars long"
            out.append(invalid(path, value, detail))
        elif self._pattern_matches is not None and not self._pattern_matches(value):
            out.append(invalid(path, value, f"{path} in body should match '{self._pattern}'"))

    def _check_list(
        self, value: list[Any], path: str, out: list[FieldError], pair: Pair | None
    ) -> int:
        matched = 1
        items = self._items
        if pair is not None and not pair.has_items:
            pair = None
        if items is not None:
            for index, item in enumerate(value):
                if type(item) is str and items.plain_text:
                    matched += _PLAIN_TEXT_MATCHED
                    continue
                below = None if pair is None else pair.item(item)
                matched += items.check(item, f"{path}[{index}]", out, below)
        size = len(value)
        if self._min_items is not None and size < self._min_items:
            out.append(
                invalid(path, size, f"{path} in body should have at least {self._min_items} items")
            )
        if self._max_items is not None and size > self._max_items:
            out.append(too_many(path, size, self._max_items))
        return matched

    def _check_object(
        self, value: dict[str, Any], path: str, out: list[FieldError], pair: Pair | None
    ) -> int:
        self._check_size(len(value), path, out)
        if self._closed:
            for name in value.keys() - self._properties.keys():
                detail = f"{path}.{name} in body is a forbidden property"
                out.append(invalid(path, name, detail))
        matched = 0
        properties, additional = self._properties, self._additional
        before = pair.old if pair is not None and type(pair.old) is dict else None
        prefix = f"{path}." if path else ""
        for name, item in value.items():
            child = properties.get(name, additional)
            if child is None:
                continue
            if type(item) is str and child.plain_text:
                matched += _PLAIN_TEXT_MATCHED
                continue
            if before is not None and type(item) is str and before.get(name) == item:
                # As in `check`, without a pair: strings are a good part of an object.
                continue
            below = None if pair is None else pair.member(name, item)
            matched += child.check(item, prefix + name, out, below)
        out += [required(prefix + name) for name in self._required if name not in value]
        return matched

    def _check_size(self, size: int, path: str, out: list[FieldError]) -> None:
        if self._min_properties is not None and size < self._min_properties:
            detail = f"{path} in body should have at least {self._min_properties} properties"
            out.append(invalid(path, size, detail))
        if self._max_properties is not None and size > self._max_properties:
            out.append(too_many(path, size, self._max_properties))


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The types that a node allows; none where it does not say."""
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if kind else ()


def supported_format(schema: Mapping[str, Any], kind: str) -> str:
    """The format that is checked on a node of type `kind`; "" where none is."""
    name = schema.get("format") or ""
    return "" if formats.unrecognized(name, kind) else name


def _wrong_type(path: str, expected: str, found: str) -> FieldError:
    return FieldError(
        "TypeInvalid", path, found, f"{path} in body must be of type {expected}: {quote(found)}"
    )


def pattern_check(pattern: str) -> Callable[[str], object] | None:
    """What tells whether a text has a pattern; None where nothing has to match."""
    try:
        return matcher(pattern)
    except InvalidPattern:
        # A CRD with such a pattern is refused; inside a branch nobody checks it there is nothing
        # to match with.
        return None
