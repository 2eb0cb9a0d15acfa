"""Rules of a schema (`x-kubernetes-validations`), compiled once and evaluated over objects.

A rule reads the value of its own node as `self`. A rule that reads `oldSelf` is evaluated only if
an old value corresponds to the new one: it has the same property, the same map key or, in lists of
type map, the same key fields.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from envtest.schema.cel import CelError, Program, reads_old_self, rewrite_optional_old
from envtest.schema.celtypes import build_converter
from envtest.schema.correlation import Pair
from envtest.schema.errors import (
    NO_FIELD,
    OMITTED,
    FieldError,
    build_duplicate_error,
    build_forbidden_error,
    build_invalid_error,
    build_required_error,
)
from envtest.schema.maplists import MapKeys, read_map_keys

_MISSING = object()
_LONGEST_MESSAGE = 5 * 1024
# The number of values that a node remembers as breaking no rule, and their longest JSON.
_MOST_KNOWN_GOOD = 1024
_LONGEST_KNOWN_GOOD = 4096
_encode = msgspec.json.Encoder().encode
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPED = re.compile(r"\\(.)")


def normalize_field_path(path: str, schema: Mapping[str, Any]) -> str | None:
    """Return a rule's `fieldPath` in the form in which messages append it to the node's path.

    Args:
        path: the fieldPath, such as `.spec.size` or `.labels['a.b']`.
        schema: the schema of the node.

    Returns:
        The path such as `spec.size` or `labels[a.b]`; None if the schema has no such field.
    """
    position, parts = 0, ""
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return None
        position = match.end()
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
    """One entry of `x-kubernetes-validations`, compiled.

    Attributes:
        message: the fixed message; if the entry has none, one that quotes the rule.
        reads_old: whether the rule reads oldSelf.
        optional_old: whether a rule that reads oldSelf is also evaluated without an old value.
    """

    def __init__(self, rule: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
        expression = (rule.get("rule") or "").strip()
        message = (rule.get("message") or "").strip()
        self.message = message or f"failed rule: {expression}"
        self.reason = rule.get("reason") or "FieldValueInvalid"
        self.field_path = normalize_field_path(rule.get("fieldPath") or "", schema) or ""
        self.reads_old = reads_old_self(expression)
        self.optional_old = bool(rule.get("optionalOldSelf"))
        self._quoted_rule = message or expression
        self._program, self._failure = self._compile_expression(expression)
        message_expression = rule.get("messageExpression")
        # An expression that does not compile is ignored, so the fixed message is used.
        self._message_program = (
            self._compile_expression(message_expression)[0] if message_expression else None
        )

    def _compile_expression(self, expression: str) -> tuple[Program | None, str]:
        """Return the compiled expression, or None and why it does not compile."""
        try:
            return Program(
                rewrite_optional_old(expression) if self.optional_old else expression
            ), ""
        except CelError as error:
            return None, f"rule compile error: {error}"

    def build_variables(self, value: Any, old: Any) -> dict[str, Any]:
        """Return the variables of the rule: `self`, and `oldSelf` if there is an old value.

        Instead of an optional `oldSelf` there is a map `old`, as `rewrite_optional_old` says.
        """
        if self.optional_old:
            return {"self": value, "old": {} if old is _MISSING else {"self": old}}
        return {"self": value} if old is _MISSING else {"self": value, "oldSelf": old}

    def find_failure(self, variables: Mapping[str, Any]) -> str:
        """Return the message of a rule that does not hold; empty if it holds.

        Raises:
            CelError: the rule cannot be evaluated.
        """
        # Every object breaks a rule that does not compile; the message is the compile error.
        if self._program is None:
            return self._failure
        if self._program.evaluate(variables) is True:
            return ""
        if self._message_program is not None:
            try:
                message = str(self._message_program.evaluate(variables)).strip()
            except CelError:
                # As in kube-apiserver, the fixed message is used.
                message = ""
            if message and "\n" not in message and len(message.encode()) <= _LONGEST_MESSAGE:
                return message
        return self.message

    def describe_failure(self, error: CelError) -> str:
        """Return the message for a rule that could not be evaluated."""
        return f"{error} evaluating rule: {self._quoted_rule}"


# Not frozen, because creating a frozen instance takes three times as long, and each value has one.
@dataclass(slots=True)
class _RuleValue:
    """A value with its path and its counterpart in the old object.

    Attributes:
        value: the new value.
        path: its path.
        old: the value that rules read as oldSelf; _MISSING if there is none.
        pair: the value with its counterpart; None if it has none.
        nearest: the innermost pair at or above this value. While that pair is unchanged, a broken
            rule is only a warning.
    """

    value: Any
    path: str
    old: Any
    pair: Pair | None
    nearest: Pair | None

    def build_part(self, value: Any, path: str, old: Any, pair: Pair | None) -> "_RuleValue":
        """Return a part of this value."""
        return _RuleValue(value, path, old=old, pair=pair, nearest=pair or self.nearest)

    def is_unchanged(self) -> bool:
        """Return whether the value, or the part around it that has a counterpart, is unchanged."""
        return self.nearest is not None and self.nearest.is_unchanged()


@dataclass(frozen=True, slots=True)
class _RuleResults:
    """The errors and warnings of the rules of one object."""

    errors: list[FieldError]
    warnings: list[str]

    @property
    def count(self) -> int:
        """The number of errors and warnings."""
        return len(self.errors) + len(self.warnings)


class RuleTree:
    """A schema node at or below which there are rules; `compile` returns None for other nodes.

    Args:
        root: whether it describes a whole object, whose apiVersion, kind and names rules see.
    """

    def __init__(self, schema: Mapping[str, Any], *, root: bool) -> None:
        entries = schema.get("x-kubernetes-validations") or ()
        self._rules = [ValidationRule(entry, schema) for entry in entries]
        self._schema_type: str = schema.get("type") or ""
        self._convert = build_converter(schema, root=root) if entries else None
        self._atomic = schema.get("x-kubernetes-map-type") == "atomic"
        is_map = schema.get("x-kubernetes-list-type") == "map"
        self._map_keys: MapKeys | None = read_map_keys(schema) if is_map else None
        # The JSON of values that break no rule, kept for updates that leave the value unchanged.
        self._known_good: set[bytes] = set()
        children = {
            name: self.compile(child) for name, child in (schema.get("properties") or {}).items()
        }
        self._properties = {name: child for name, child in children.items() if child is not None}
        self._additional = self.compile(schema.get("additionalProperties"))
        self._items = self.compile(schema.get("items"))

    @classmethod
    def compile(cls, schema: object, *, root: bool = False) -> Self | None:
        """Return the rules of a schema; None if it has none at any depth.

        Args:
            schema: a structural schema.
            root: whether it describes a whole object, whose apiVersion, kind and names rules see.
        """
        if not isinstance(schema, Mapping):
            return None
        root = root or bool(schema.get("x-kubernetes-embedded-resource"))
        tree = cls(schema, root=root)
        has_rules_below = (
            tree._properties or tree._additional is not None or tree._items is not None
        )
        return tree if tree._rules or has_rules_below else None

    def evaluate_rules(self, obj: Any, pair: Pair | None, warnings: list[str]) -> list[FieldError]:
        """Evaluate all rules; return the errors.

        Args:
            obj: the object.
            pair: the object with the stored one that it replaces; None for a new object.
            warnings: a list; the messages of rules that an unchanged part breaks are added to it.
        """
        old = _MISSING if pair is None else pair.old
        results = _RuleResults([], warnings)
        self.evaluate_value(_RuleValue(obj, "", old=old, pair=pair, nearest=pair), results)
        return results.errors

    def evaluate_value(self, rule_value: _RuleValue, results: _RuleResults) -> None:
        """Evaluate the rules of a value and of all its parts, unless the result is known.

        A value that is the same Python object as the old one, as after a merge patch, is
        remembered if it breaks no rule. A status is written far more often than the spec beside
        it, and most slow rules are those of the spec.
        """
        value = rule_value.value
        # Rules are not evaluated for null.
        if value is None:
            return
        if value is not rule_value.old or type(value) is not dict:
            self._evaluate_all(rule_value, results)
            return
        key = _encode(value)
        if key in self._known_good:
            return
        count_before = results.count
        self._evaluate_all(rule_value, results)
        if results.count == count_before and len(key) <= _LONGEST_KNOWN_GOOD:
            if len(self._known_good) >= _MOST_KNOWN_GOOD:
                self._known_good.clear()
            self._known_good.add(key)

    def _evaluate_all(self, rule_value: _RuleValue, results: _RuleResults) -> None:
        """Evaluate the rules of a value and of all its parts."""
        value = rule_value.value
        if self._rules:
            self._evaluate_node_rules(rule_value, results)
        if isinstance(value, dict):
            self._evaluate_fields(rule_value, results)
        elif isinstance(value, list) and self._items is not None:
            old = rule_value.old if isinstance(rule_value.old, list) else []
            old_items = None if self._map_keys is None else self._map_keys.build_index(old)
            for index, item in enumerate(value):
                old_item = _MISSING if old_items is None else old_items.get(item, _MISSING)
                pair = None if rule_value.pair is None else rule_value.pair.pair_item(item)
                inner = rule_value.build_part(
                    item, f"{rule_value.path}[{index}]", old=old_item, pair=pair
                )
                self._items.evaluate_value(inner, results)

    def _evaluate_fields(self, rule_value: _RuleValue, results: _RuleResults) -> None:
        """Evaluate the rules of the fields of an object.

        The fields of an atomic map have no old values, because it is replaced as a whole.
        """
        old_value = rule_value.old if isinstance(rule_value.old, dict) and not self._atomic else {}
        prefix = f"{rule_value.path}." if rule_value.path else ""
        for name, item in rule_value.value.items():
            child = self._properties.get(name)
            if child is not None:
                path = prefix + name
            elif self._additional is not None:
                child, path = self._additional, f"{rule_value.path}[{name}]"
            else:
                # There are no rules at or below this field.
                continue
            pair = None if rule_value.pair is None else rule_value.pair.pair_member(name, item)
            child.evaluate_value(
                rule_value.build_part(item, path, old=old_value.get(name, _MISSING), pair=pair),
                results,
            )

    def _evaluate_node_rules(self, rule_value: _RuleValue, results: _RuleResults) -> None:
        """Evaluate the rules of one node.

        A broken rule is only a warning if the value is unchanged and the rule reads no oldSelf.
        """
        new, old = rule_value.value, _MISSING if rule_value.old is None else rule_value.old
        if self._convert is not None:
            new = self._convert(new)
            old = old if old is _MISSING else self._convert(old)
        for rule in self._rules:
            # Without an old value there is no oldSelf that the rule could read.
            if rule.reads_old and old is _MISSING and not rule.optional_old:
                continue
            try:
                message = rule.find_failure(rule.build_variables(new, old))
            except CelError as error:
                path = rule_value.path or NO_FIELD
                results.errors.append(
                    build_invalid_error(path, self._schema_type, rule.describe_failure(error))
                )
                continue
            if not message:
                # The rule holds.
                continue
            field_error = _build_error(rule, rule_value, message)
            if not rule.reads_old and rule_value.is_unchanged():
                results.warnings.append(field_error.message)
            else:
                results.errors.append(field_error)


def _build_error(rule: ValidationRule, rule_value: _RuleValue, detail: str) -> FieldError:
    """Return the error of a broken rule; its type follows from the rule's `reason`."""
    path = rule_value.path
    if rule.field_path:
        path = f"{path}.{rule.field_path}" if path else rule.field_path
    path = path or NO_FIELD
    # As in the real server, the message does not quote whole objects and lists.
    value = OMITTED if isinstance(rule_value.value, dict | list) else rule_value.value
    if rule.reason == "FieldValueForbidden":
        return build_forbidden_error(path, detail)
    if rule.reason == "FieldValueRequired":
        return build_required_error(path, detail)
    if rule.reason == "FieldValueDuplicate":
        return build_duplicate_error(path, value)
    return build_invalid_error(path, value, detail)
