"""The rules of a schema, evaluated over an object.

A rule sees the value of its own node as `self`. Rules that read `oldSelf` run only where an old
value corresponds to the new one: under the same property, map key or, in lists of type map, the
same key fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Self

import msgspec

from envtest.schema.cel import conversion
from envtest.schema.cel.compiling import Rule, compile_rule
from envtest.schema.cel.functions import CelError
from envtest.schema.cel.loops import EXCEEDED
from envtest.schema.cel.optionals import NONE, some
from envtest.schema.cel.types import CelType, type_from_schema
from envtest.schema.correlation import Pair
from envtest.schema.errors import NO_FIELD, OMITTED, FieldError, duplicate, forbidden, invalid
from envtest.schema.errors import required as required_error
from envtest.schema.gotext import quote
from envtest.schema.maplists import MapKeys, keys_of

_MISSING = object()
_NO_OLD = CelError("no such attribute(s): oldSelf")
_LONGEST_MESSAGE = 5 * 1024
# How many values are remembered at one node, and how long their JSON may be.
_MOST_PASSED = 1024
_LONGEST_PASSED = 4096
_encode = msgspec.json.Encoder().encode
# What one evaluation of a rule may cost, and all of an object's rules together.
CALL_LIMIT: Final = 1_000_000
OBJECT_LIMIT: Final = 10_000_000
_SPENT: Final = "failed due to running out of cost budget, no further validation rules will be run"


# Not frozen: a frozen one takes three times as long to make, and every value has one.
@dataclass(slots=True)
class _Place:
    """A value with its path and what corresponds to it in the old object.

    Attributes:
        value: the new value.
        path: where it stands.
        old: the value that rules compare with, or _MISSING.
        pair: the value with the old one, where they correspond.
        nearest: the innermost pair at or above this place; rules may be broken while it is
            unchanged.
    """

    value: Any
    path: str
    old: Any
    pair: Pair | None
    nearest: Pair | None

    def below(self, value: Any, path: str, old: Any, pair: Pair | None) -> _Place:
        """The place of a part of this value."""
        return _Place(value, path, old, pair, pair or self.nearest)

    def is_unchanged(self) -> bool:
        """Whether a rule that only looks at the new value may be broken here."""
        return self.nearest is not None and self.nearest.unchanged()


class _Spent(Exception):
    """Nothing more may be evaluated."""


class _Findings:
    """What the rules of one object found, and what is left of their budget."""

    __slots__ = ("errors", "exact", "exhausted", "left", "warnings")

    def __init__(self, *, exact: bool) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self.left = OBJECT_LIMIT
        # Whether true costs are subtracted; else bounds are, which are cheaper to have.
        self.exact = exact
        self.exhausted = False


class RuleTree:
    """The rules at and below one schema node; built only where there are any."""

    __slots__ = (
        "_additional",
        "_atomic",
        "_compares",
        "_convert",
        "_items",
        "_kind",
        "_map_keys",
        "_passed",
        "_properties",
        "_rules",
    )

    def __init__(self, schema: Mapping[str, Any], kind: CelType, rules: list[Rule]) -> None:
        self._rules = rules
        # Where no rule reads the old value, expressions for messages cannot read it either.
        self._compares = any(rule.transition for rule in rules)
        self._kind: str = schema.get("type") or ""
        self._convert = conversion.converter(kind) or (lambda value: value)
        self._atomic = schema.get("x-kubernetes-map-type") == "atomic"
        is_map = schema.get("x-kubernetes-list-type") == "map"
        self._map_keys: MapKeys | None = keys_of(schema) if is_map else None
        # What it cost to find nothing wrong, by the JSON of values that an update left alone.
        self._passed: dict[bytes, int] = {}
        self._properties: dict[str, Self] = {}
        self._additional: Self | None = None
        self._items: Self | None = None

    @classmethod
    def compile(cls, schema: object, *, root: bool = True) -> Self | None:
        """The rules of `schema`, or None where it has none at any depth.

        Args:
            schema: a structural schema.
            root: whether it is a whole object's, so that apiVersion, kind and names are visible.
        """
        if not isinstance(schema, Mapping):
            return None
        entries = schema.get("x-kubernetes-validations") or ()
        kind = type_from_schema(schema, "selfType", root=root) if entries else None
        rules = [] if kind is None else [compile_rule(entry, kind, schema) for entry in entries]
        tree = cls(schema, kind or CelType("dyn"), rules)
        children = {
            name: cls._below(child) for name, child in (schema.get("properties") or {}).items()
        }
        tree._properties = {name: child for name, child in children.items() if child is not None}
        tree._additional = cls._below(schema.get("additionalProperties"))
        tree._items = cls._below(schema.get("items"))
        if rules or tree._properties or tree._additional is not None or tree._items is not None:
            return tree
        return None

    @classmethod
    def _below(cls, schema: object) -> Self | None:
        embedded = isinstance(schema, Mapping) and bool(
            schema.get("x-kubernetes-embedded-resource")
        )
        return cls.compile(schema, root=embedded)

    def check(self, obj: Any, pair: Pair | None, warnings: list[str]) -> list[FieldError]:
        """Evaluate all rules.

        Args:
            obj: the object.
            pair: the object with what it replaces, or None.
            warnings: receives the messages of rules that an unchanged part breaks.
        """
        old = _MISSING if pair is None else pair.old
        place = _Place(obj, "", old, pair, pair)
        found = self._within(place, _Findings(exact=False))
        if found.exhausted:
            # The bound says that the budget may be spent; only the true costs tell if it is.
            found = self._within(place, _Findings(exact=True))
        warnings += found.warnings
        return found.errors

    def _within(self, place: _Place, found: _Findings) -> _Findings:
        try:
            self.visit(place, found)
        except _Spent:
            # What was found until then counts.
            return found
        return found

    def visit(self, place: _Place, found: _Findings) -> None:
        """Evaluate the rules of one value and of its parts.

        Raises:
            _Spent: nothing more may be evaluated.
        """
        value, old = place.value, place.old
        if value is None or self.spares(value, old, found):
            return
        if value is old and type(value) is dict and not found.exact:
            self._visit_same(place, found)
        else:
            self._visit_afresh(place, found)

    def _visit_same(self, place: _Place, found: _Findings) -> None:
        """Visit a value that is the very one of the old object, as a patch leaves what it spares.

        Rules see nothing but the value and the old one, so where they found nothing wrong they
        never will; only what that costs counts again. A status is written far more often than the
        spec beside it, whose rules are the ones that are worth sparing.
        """
        left, told = found.left, len(found.errors) + len(found.warnings)
        self._visit_afresh(place, found)
        key = _encode(place.value)
        if len(key) > _LONGEST_PASSED or len(found.errors) + len(found.warnings) > told:
            return
        if len(self._passed) >= _MOST_PASSED:
            self._passed.clear()
        self._passed[key] = left - found.left

    def spares(self, value: Any, old: Any, found: _Findings) -> bool:
        """Whether a value is the old object's own and known to be right; what it costs counts."""
        if value is not old or type(value) is not dict or found.exact:
            return False
        cost = self._passed.get(_encode(value))
        if cost is None or cost >= found.left:
            return False
        found.left -= cost
        return True

    def _visit_afresh(self, place: _Place, found: _Findings) -> None:
        value = place.value
        if self._rules:
            self._evaluate(place, found)
        if isinstance(value, dict):
            self._check_members(place, found)
        elif isinstance(value, list) and self._items is not None:
            old = place.old if isinstance(place.old, list) else []
            before = None if self._map_keys is None else self._map_keys.index(old)
            for index, item in enumerate(value):
                was = _MISSING if before is None else before.get(item, _MISSING)
                pair = None if place.pair is None else place.pair.item(item)
                inner = place.below(item, f"{place.path}[{index}]", was, pair)
                self._items.visit(inner, found)

    def _check_members(self, place: _Place, found: _Findings) -> None:
        was = place.old if isinstance(place.old, dict) and not self._atomic else {}
        prefix = f"{place.path}." if place.path else ""
        for name, item in place.value.items():
            child = self._properties.get(name)
            if child is not None:
                path = prefix + name
            elif self._additional is not None:
                child, path = self._additional, f"{place.path}[{name}]"
            else:
                continue
            before = was.get(name, _MISSING)
            if child.spares(item, before, found):
                continue
            pair = None if place.pair is None else place.pair.member(name, item)
            child.visit(place.below(item, path, before, pair), found)

    def _evaluate(self, place: _Place, found: _Findings) -> None:
        if found.left <= 0:
            self._give_up(place, found)
        new = self._value(place.value)
        old = _MISSING if place.old is _MISSING or place.old is None else self._value(place.old)
        for rule in self._rules:
            if rule.transition and old is _MISSING and not rule.optional_old:
                continue
            held = old if self._compares else _NO_OLD
            if rule.optional_old:
                held = NONE if old is _MISSING else some(old)
            error, forgivable = self._broken(rule, place, {"self": new, "oldSelf": held}, found)
            if error is None:
                continue
            if forgivable and not rule.transition and place.is_unchanged():
                found.warnings.append(error.message)
            else:
                found.errors.append(error)

    def _give_up(self, place: _Place, found: _Findings) -> NoReturn:
        found.errors.append(invalid(place.path or NO_FIELD, self._kind, f"validation {_SPENT}"))
        found.exhausted = True
        raise _Spent

    def _value(self, value: Any) -> Any:
        try:
            return self._convert(value)
        except CelError as error:
            return error

    def _broken(
        self, rule: Rule, place: _Place, variables: dict[str, Any], found: _Findings
    ) -> tuple[FieldError | None, bool]:
        """The error of a rule, and whether an unchanged value would be forgiven it.

        Raises:
            _Spent: it was one too many.
        """
        path = place.path or NO_FIELD
        if rule.expression is None:
            return invalid(path, self._kind, f"rule compile error: {rule.failure}"), False
        result, cost = rule.expression.evaluate(variables, CALL_LIMIT, exact=found.exact)
        if cost > found.left:
            self._give_up(place, found)
        found.left -= cost
        if isinstance(result, CelError):
            error = invalid(path, self._kind, _failed(str(result), rule))
            if str(result) == EXCEEDED:
                found.errors.append(error)
                raise _Spent
            return error, False
        if result is True:
            return None, False
        said = self._message(rule, place, variables, found)
        detail = said or rule.message or f"failed rule: {rule.text}"
        return _refusal(rule, place, detail), True

    def _message(
        self, rule: Rule, place: _Place, variables: dict[str, Any], found: _Findings
    ) -> str:
        """What the message expression gives; "" where it gives nothing fit to be shown.

        Raises:
            _Spent: it costs too much.
        """
        if rule.message_expression is None:
            return ""
        text, cost = rule.message_expression.evaluate(variables, CALL_LIMIT, exact=found.exact)
        if cost > found.left:
            found.exhausted = True
            self._end(rule, place, f"messageExpression evaluation {_SPENT}", found)
        found.left -= cost
        if isinstance(text, CelError) and str(text) == EXCEEDED:
            limit = "no further validation rules will be run due to call cost exceeds limit for"
            self._end(rule, place, f"{limit} messageExpression: {quote(rule.said)}", found)
        if not isinstance(text, str):
            return ""
        text = text.strip()
        return "" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text

    def _end(self, rule: Rule, place: _Place, detail: str, found: _Findings) -> NoReturn:
        error = invalid(_path_of(rule, place), self._kind, detail)
        if not rule.transition and place.is_unchanged():
            found.warnings.append(error.message)
        else:
            found.errors.append(error)
        raise _Spent


def _failed(error: str, rule: Rule) -> str:
    if error.startswith("no such overload"):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.named}"
        )
    if error == EXCEEDED:
        return (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {rule.named}"
        )
    return f"{error} evaluating rule: {rule.named}"


def _path_of(rule: Rule, place: _Place) -> str:
    """Where the error of a rule is reported."""
    path = place.path
    if rule.field_path:
        path = f"{path}.{rule.field_path}" if path else rule.field_path
    return path or NO_FIELD


def _refusal(rule: Rule, place: _Place, detail: str) -> FieldError:
    path = _path_of(rule, place)
    value = OMITTED if isinstance(place.value, dict | list) else place.value
    if rule.reason == "Forbidden":
        return forbidden(path, detail)
    if rule.reason == "Required":
        return required_error(path, detail)
    if rule.reason == "Duplicate":
        return duplicate(path, value)
    return invalid(path, value, detail)
