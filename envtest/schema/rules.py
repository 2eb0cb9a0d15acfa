"""Rules of a schema (`x-kubernetes-validations`), compiled once and evaluated over objects.

A rule sees the value of its own node as `self`. Rules that read `oldSelf` run only where an old
value corresponds to the new one: under the same property, map key or, in lists of type map, the
same key fields.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from envtest.schema.cel import CelError, Program, reads_old, with_optional_old
from envtest.schema.celtypes import converter
from envtest.schema.correlation import Pair
from envtest.schema.errors import NO_FIELD, OMITTED, FieldError, duplicate, forbidden, invalid
from envtest.schema.errors import build_required_error as required_error
from envtest.schema.maplists import MapKeys, keys_of

_MISSING = object()
_LONGEST_MESSAGE = 5 * 1024
# How many values are remembered at one node, and how long their JSON may be.
_MOST_PASSED = 1024
_LONGEST_PASSED = 4096
_encode = msgspec.json.Encoder().encode
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPED = re.compile(r"\\(.)")


def normalized_path(path: str, schema: Mapping[str, Any]) -> str | None:
    """Return a rule's `fieldPath` as it is added to the node's own path.

    Args:
        path: `.spec.size` or `.labels['a.b']`.
        schema: the node's schema.

    Returns:
        The path, "" for an empty one, None where it leads to no field of the schema.
    """
    at, parts = 0, ""
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return None
        at = match.end()
        name = match[1] if match[1] is not None else _ESCAPED.sub(r"\1", match[2])
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            if name not in properties:
                return None
            parts, schema = f"{parts}.{name}" if parts else name, properties[name]
        elif isinstance(additional, Mapping):
            parts, schema = f"{parts}[{name}]", additional
        else:
            return None
    return parts


class ValidationRule:
    """One entry of `x-kubernetes-validations`, ready to be evaluated.

    Attributes:
        message: the fixed message; the rule's own text where it has none.
        transition: whether it compares with the old value.
        optional_old: whether it is evaluated without an old value too.
    """

    def __init__(self, rule: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
        expression = (rule.get("rule") or "").strip()
        message = (rule.get("message") or "").strip()
        self.message = message or f"failed rule: {expression}"
        self.reason = rule.get("reason") or "FieldValueInvalid"
        self.field_path = normalized_path(rule.get("fieldPath") or "", schema) or ""
        self.transition = reads_old(expression)
        self.optional_old = bool(rule.get("optionalOldSelf"))
        self._named = message or expression
        self._program, self._failure = self._compile_expression(expression)
        said = rule.get("messageExpression")
        self._said = self._compile_expression(said)[0] if said else None

    def _compile_expression(self, expression: str) -> tuple[Program | None, str]:
        try:
            return Program(with_optional_old(expression) if self.optional_old else expression), ""
        except CelError as error:
            return None, f"rule compile error: {error}"

    def variables(self, value: Any, old: Any) -> dict[str, Any]:
        """Return the variables of the rule by their names."""
        if self.optional_old:
            return {"self": value, "old": {} if old is _MISSING else {"self": old}}
        return {"self": value} if old is _MISSING else {"self": value, "oldSelf": old}

    def broken(self, variables: Mapping[str, Any]) -> str:
        """Return the message of a rule that does not hold, or ""."""
        if self._program is None:
            return self._failure
        if self._program.evaluate(variables) is True:
            return ""
        if self._said is not None:
            try:
                message = str(self._said.evaluate(variables)).strip()
            except CelError:
                message = ""
            if message and "\n" not in message and len(message.encode()) <= _LONGEST_MESSAGE:
                return message
        return self.message

    def describe_failure(self, error: CelError) -> str:
        """Describe the error of a rule that could not be evaluated."""
        return f"{error} evaluating rule: {self._named}"


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

    def below(self, value: Any, path: str, old: Any, pair: Pair | None) -> "_Place":
        """Return the place of a part of this value."""
        return _Place(value, path, old=old, pair=pair, nearest=pair or self.nearest)

    def is_unchanged(self) -> bool:
        """Return whether a rule that only looks at the new value may be broken here."""
        return self.nearest is not None and self.nearest.is_unchanged()


@dataclass(frozen=True, slots=True)
class _Findings:
    """What the rules of one object found."""

    errors: list[FieldError]
    warnings: list[str]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.errors) + len(self.warnings)


class RuleTree:
    """The rules at and below one schema node; built only where there are any."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool) -> None:
        entries = schema.get("x-kubernetes-validations") or ()
        self._rules = [ValidationRule(entry, schema) for entry in entries]
        self._kind: str = schema.get("type") or ""
        self._convert = converter(schema, root=root) if entries else None
        self._atomic = schema.get("x-kubernetes-map-type") == "atomic"
        is_map = schema.get("x-kubernetes-list-type") == "map"
        self._map_keys: MapKeys | None = keys_of(schema) if is_map else None
        # The JSON of values that an update left alone and that break no rule.
        self._passed: set[bytes] = set()
        below = {
            name: self.compile(child) for name, child in (schema.get("properties") or {}).items()
        }
        self._properties = {name: child for name, child in below.items() if child is not None}
        self._additional = self.compile(schema.get("additionalProperties"))
        self._items = self.compile(schema.get("items"))

    @classmethod
    def compile(cls, schema: object, *, root: bool = False) -> Self | None:
        """Return the rules of `schema`, or None where it has none at any depth.

        Args:
            schema: a structural schema.
            root: whether it is a whole object's, so that apiVersion, kind and names are visible.
        """
        if not isinstance(schema, Mapping):
            return None
        root = root or bool(schema.get("x-kubernetes-embedded-resource"))
        tree = cls(schema, root=root)
        below = tree._properties or tree._additional is not None or tree._items is not None
        return tree if tree._rules or below else None

    def check(self, obj: Any, pair: Pair | None, warnings: list[str]) -> list[FieldError]:
        """Evaluate all rules.

        Args:
            obj: the object.
            pair: the object with what it replaces, or None.
            warnings: receives the messages of rules that an unchanged part breaks.
        """
        old = _MISSING if pair is None else pair.old
        findings = _Findings([], warnings)
        self.visit(_Place(obj, "", old=old, pair=pair, nearest=pair), findings)
        return findings.errors

    def visit(self, place: _Place, findings: _Findings) -> None:
        """Evaluate the rules of one value and of its parts.

        Of a value that is the very one of the old object, as a patch leaves what it does not
        touch, it is remembered that its rules hold: a status is written far more often than the
        spec next to it, whose rules are the slow ones.
        """
        value = place.value
        if value is None:
            return
        if value is not place.old or type(value) is not dict:
            self._visit_afresh(place, findings)
            return
        key = _encode(value)
        if key in self._passed:
            return
        before = findings.count
        self._visit_afresh(place, findings)
        if findings.count == before and len(key) <= _LONGEST_PASSED:
            if len(self._passed) >= _MOST_PASSED:
                self._passed.clear()
            self._passed.add(key)

    def _visit_afresh(self, place: _Place, findings: _Findings) -> None:
        """Evaluate the rules of a value and of all below it."""
        value = place.value
        if self._rules:
            self._evaluate(place, findings)
        if isinstance(value, dict):
            self._check_members(place, findings)
        elif isinstance(value, list) and self._items is not None:
            old = place.old if isinstance(place.old, list) else []
            before = None if self._map_keys is None else self._map_keys.index(old)
            for index, item in enumerate(value):
                was = _MISSING if before is None else before.get(item, _MISSING)
                pair = None if place.pair is None else place.pair.item(item)
                inner = place.below(item, f"{place.path}[{index}]", old=was, pair=pair)
                self._items.visit(inner, findings)

    def _check_members(self, place: _Place, findings: _Findings) -> None:
        """Visit the fields of an object that have a schema."""
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
            pair = None if place.pair is None else place.pair.member(name, item)
            child.visit(place.below(item, path, old=was.get(name, _MISSING), pair=pair), findings)

    def _evaluate(self, place: _Place, findings: _Findings) -> None:
        """Evaluate the rules of one node; an unchanged broken value is a warning only."""
        new, old = place.value, _MISSING if place.old is None else place.old
        if self._convert is not None:
            new = self._convert(new)
            old = old if old is _MISSING else self._convert(old)
        for rule in self._rules:
            if rule.transition and old is _MISSING and not rule.optional_old:
                continue
            try:
                said = rule.broken(rule.variables(new, old))
            except CelError as error:
                path = place.path or NO_FIELD
                findings.errors.append(invalid(path, self._kind, rule.describe_failure(error)))
                continue
            if not said:
                continue
            refused = _refusal(rule, place, said)
            if not rule.transition and place.is_unchanged():
                findings.warnings.append(refused.message)
            else:
                findings.errors.append(refused)


def _refusal(rule: ValidationRule, place: _Place, detail: str) -> FieldError:
    """Return the error of a broken rule, by the reason that the rule names."""
    path = place.path
    if rule.field_path:
        path = f"{path}.{rule.field_path}" if path else rule.field_path
    path = path or NO_FIELD
    value = OMITTED if isinstance(place.value, dict | list) else place.value
    if rule.reason == "FieldValueForbidden":
        return forbidden(path, detail)
    if rule.reason == "FieldValueRequired":
        return required_error(path, detail)
    if rule.reason == "FieldValueDuplicate":
        return duplicate(path, value)
    return invalid(path, value, detail)
