"""Types of every part of an expression, and the errors that cel-go's checker reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from envtest.schema.cel import types
from envtest.schema.cel.functions import NO_OVERLOAD, CelError, Overload, dispatcher
from envtest.schema.cel.library import FUNCTIONS, NAMESPACES
from envtest.schema.cel.standard import to_duration, to_timestamp
from envtest.schema.cel.syntax import (
    Call,
    Comprehension,
    Const,
    Ident,
    ListLiteral,
    MapLiteral,
    Node,
    PairLoop,
    Select,
    StructLiteral,
    Uint,
)
from envtest.schema.cel.templates import misfit
from envtest.schema.cel.types import BOOL, DYN, ERROR, OPEN, CelType, list_of, map_of, optional_of
from envtest.schema.cel.unify import fits, substitute
from envtest.schema.patterns import InvalidPattern, compile_pattern

_LITERALS: Final[Mapping[type, CelType]] = {
    bool: BOOL,
    bytes: types.BYTES,
    float: types.DOUBLE,
    int: types.INT,
    str: types.STRING,
    type(None): types.NULL,
    Uint: types.UINT,
}
_TYPE_NAMES: Final = {
    "bool": BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "int": types.INT,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": types.NULL,
    "optional_type": optional_of(DYN),
    "string": types.STRING,
    "type": types.type_of(DYN),
    "uint": types.UINT,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
}
_LITERAL_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "duration": to_duration,
    "find": compile_pattern,
    "findAll": compile_pattern,
    "matches": compile_pattern,
    "timestamp": to_timestamp,
}
# What can be put in order.
_ORDERED: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"}
    | {ERROR.name, OPEN.name}
)
_PAIR_TESTS: Final = frozenset({"all", "exists", "existsOne", "exists_one"})
_CONVERSIONS: Final = frozenset({"bool", "double", "int", "uint"})
_LOGIC: Final = frozenset({"_&&_", "_||_", "@not_strictly_false"})


class NotInstantiable(ValueError):
    """The expression is right, but a literal in it is refused when it is made ready to run."""


class CheckFailed(ValueError):
    """The expression does not fit the schema; the text is cel-go's, one entry per error."""


@dataclass(slots=True)
class Checked:
    """An expression with the type of each of its parts.

    Attributes:
        root: the expression.
        type: its type.
        types: type by node identity.
        overloads: for each call the signatures that may apply.
        names: for each call that is a function with a dot in its name, that name.
        uses: the variables it reads.
    """

    root: Node
    type: CelType = DYN
    types: dict[int, CelType] = field(default_factory=dict)
    overloads: dict[int, tuple[Overload, ...]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    uses: set[str] = field(default_factory=set)


def check(root: Node, source: str, variables: Mapping[str, CelType]) -> Checked:
    """Type an expression.

    Args:
        root: the parsed expression.
        source: its text, for the picture in messages.
        variables: the types of the variables it may read.

    Raises:
        CheckFailed: parts of it do not fit.
        NotInstantiable: a pattern in it is none.
    """
    checker = _Checker(root, source, variables)
    checker.checked.type = checker.visit(root)
    # What Kubernetes demands beyond the types is looked at only where the types are right.
    errors = checker.errors or checker.demands
    if errors:
        ordered = sorted(set(errors))
        raise CheckFailed("\n".join(_pictured(source, at, text) for at, text in ordered))
    if checker.unready:
        raise NotInstantiable(checker.unready[0])
    return checker.checked


def _pictured(source: str, at: int, text: str) -> str:
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    line = source[start : end if end >= 0 else len(source)]
    row, column = source.count("\n", 0, at) + 1, at - start
    dots = "".join("．" if ord(rune) > 0x2E7F else "." for rune in line[:column])
    return f"ERROR: <input>:{row}:{column + 1}: {text}\n | {line}\n | {dots}^"


class _Checker:
    def __init__(self, root: Node, source: str, variables: Mapping[str, CelType]) -> None:
        self.checked = Checked(root)
        self._source = source
        self.errors: list[tuple[int, str]] = []
        self.demands: list[tuple[int, str]] = []
        self.unready: list[str] = []
        self._scopes: list[Mapping[str, CelType]] = [variables]

    def visit(self, node: Node) -> CelType:
        kind = self._visit(node)
        self.checked.types[id(node)] = kind
        return kind

    def _visit(self, node: Node) -> CelType:
        if isinstance(node, Call | Comprehension | PairLoop | Select | Ident):
            return self._visit_reference(node)
        if isinstance(node, ListLiteral):
            return list_of(self._same(node.items, node.optional))
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, StructLiteral):
            return self._undeclared(node.at, node.name)
        assert isinstance(node, Const)
        return _LITERALS[type(node.value)]

    def _visit_reference(self, node: Call | Comprehension | PairLoop | Select | Ident) -> CelType:
        if isinstance(node, PairLoop):
            return self._pair_loop(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Comprehension):
            return self._comprehension(node)
        return self._select(node) if isinstance(node, Select) else self._ident(node)

    def _undeclared(self, at: int, name: str) -> CelType:
        return self._fail(at, f"undeclared reference to '{name}' (in container '')")

    def _fail(self, at: int, text: str) -> CelType:
        self.errors.append((at, text))
        return ERROR

    def _ident(self, node: Ident) -> CelType:
        for scope in reversed(self._scopes):
            if node.name in scope:
                self.checked.uses.add(node.name)
                return scope[node.name]
        if node.name in _TYPE_NAMES:
            return types.type_of(_TYPE_NAMES[node.name])
        return self._undeclared(node.at, node.name)

    def _declared(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _select(self, node: Select) -> CelType:
        # Names in backticks are a later invention of CEL; the parser reads them as any other.
        if not node.field.isidentifier() or self._source[node.at + 1 : node.at + 2] == "`":
            return self._fail(node.at + 1, "unsupported syntax: '`'")
        kind = self._field(self.visit(node.operand), node.field, node.at)
        return BOOL if node.test and kind != ERROR else kind

    def _field(self, operand: CelType, name: str, at: int) -> CelType:
        if operand.name == "optional_type":
            inner = self._field(operand.params[0], name, at)
            return inner if inner == ERROR else optional_of(inner)
        if operand.fields is not None:
            kind = operand.fields.get(name)
            return self._fail(at, f"undefined field '{name}'") if kind is None else kind
        if operand.name == "map":
            return operand.params[1]
        if operand in {DYN, ERROR}:
            return operand
        return self._fail(at, f"type '{operand}' does not support field selection")

    def _same(self, items: tuple[Node, ...], optional: frozenset[int]) -> CelType:
        """The type of all items of a literal; Kubernetes does not want them mixed."""
        common: CelType | None = None
        mixed = False
        for index, item in enumerate(items):
            kind = self.visit(item)
            if index in optional and kind.name == "optional_type":
                kind = kind.params[0]
            if common is None or common in {DYN, OPEN}:
                common = kind
            elif not fits(common, kind, {}) and not mixed:
                mixed = True
                self.demands.append((item.at, f"expected type '{common}' but found '{kind}'"))
        if mixed:
            return DYN
        return OPEN if common is None else common

    def _map(self, node: MapLiteral) -> CelType:
        keys = self._same(tuple(key for key, _, _ in node.entries), frozenset())
        optional = frozenset(index for index, entry in enumerate(node.entries) if entry[2])
        values = self._same(tuple(value for _, value, _ in node.entries), optional)
        return map_of(keys, values)

    def _comprehension(self, node: Comprehension) -> CelType:
        iterated = self.visit(node.range)
        start = self.visit(node.start)
        item = self._item(iterated, node.range.at)
        so_far = len(self.errors)
        step = self._loop(node, item, start)
        if start == list_of(OPEN):
            # An empty list takes its type from what the step adds to it: go through it again.
            del self.errors[so_far:]
            start = self._added(node.step)
            step = self._loop(node, item, start)
        self._scopes.append({node.accumulator: step if step != ERROR else start})
        result = self.visit(node.result)
        self._scopes.pop()
        return result

    def _loop(self, node: Comprehension, item: CelType, accumulator: CelType) -> CelType:
        self._scopes.append({node.variable: item, node.accumulator: accumulator})
        self.visit(node.condition)
        step = self.visit(node.step)
        self._scopes.pop()
        return step

    def _added(self, step: Node) -> CelType:
        """The type of the list that a step of `map` or `filter` makes."""
        assert isinstance(step, Call)
        addition = step if step.function == "_+_" else step.args[1]
        return self.checked.types[id(addition)]

    def _item(self, iterated: CelType, at: int) -> CelType:
        if iterated.name in {"list", "map"}:
            return iterated.params[0]
        if iterated in {DYN, ERROR}:
            return iterated
        return self._fail(
            at,
            f"expression of type '{iterated}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )

    def _call(self, node: Call) -> CelType:
        if node.function == "_?._":
            return self._optional_select(node)
        name = self._qualified(node)
        if name is not None:
            self.checked.names[id(node)] = name
            return self._resolve(node, name, False, [self.visit(arg) for arg in node.args])
        demanded = len(self.demands)
        args = [self.visit(arg) for arg in node.args]
        if node.function == "format":
            # What is to be formatted may be mixed.
            del self.demands[demanded:]
            self._check_format(node)
        if node.target is not None:
            args.insert(0, self.visit(node.target))
        return self._resolve(node, node.function, node.target is not None, args)

    def _qualified(self, node: Call) -> str | None:
        """The full name of a function such as `sets.contains`, which parses as a method."""
        target = node.target
        if not isinstance(target, Ident) or target.name not in NAMESPACES:
            return None
        name = f"{target.name}.{node.function}"
        return name if name in FUNCTIONS and not self._declared(target.name) else None

    def _optional_select(self, node: Call) -> CelType:
        name = node.args[1]
        assert isinstance(name, Const)
        self.visit(name)
        operand = self.visit(node.args[0])
        kind = self._field(operand, str(name.value), node.at)
        return kind if kind == ERROR or kind.name == "optional_type" else optional_of(kind)

    def _resolve(self, node: Call, name: str, member: bool, args: list[CelType]) -> CelType:
        if name in _LOGIC or name == "_?_:_":
            return self._operator(node, name, args)
        self._check_literal(node, name)
        overloads = FUNCTIONS.get(name)
        if overloads is None:
            return self._undeclared(node.at, name)
        found: list[Overload] = []
        results: list[CelType] = []
        for candidate in overloads:
            bound: dict[str, CelType] = {}
            if candidate.member != member or len(candidate.params) != len(args):
                continue
            if all(fits(p, a, bound) for p, a in zip(candidate.params, args, strict=True)):
                found.append(candidate)
                results.append(substitute(candidate.result, bound))
        if not found:
            return self._no_overload(node, name, member, args)
        self.checked.overloads[id(node)] = tuple(found)
        if name == "_+_" and args[0].keys is not None:
            return args[0]
        return results[0] if all(kind == results[0] for kind in results) else DYN

    def _check_literal(self, node: Call, name: str) -> None:
        """Literals that a function would refuse when it runs are refused here."""
        self._check_conversion(node, name)
        refuses = _LITERAL_CHECKS.get(name)
        literal = node.args[0 if node.target is not None else -1] if node.args else None
        if refuses is None or not isinstance(literal, Const) or not isinstance(literal.value, str):
            return
        try:
            refuses(literal.value)
        except (CelError, InvalidPattern) as error:
            if name in {"find", "findAll"}:
                self.unready.append(str(error))
            else:
                self.demands.append((literal.at, f"invalid {name} argument"))

    def _check_conversion(self, node: Call, name: str) -> None:
        """Conversions of literals are done when a rule is made ready to run."""
        literal = node.args[0] if len(node.args) == 1 and node.target is None else None
        if name not in _CONVERSIONS or not isinstance(literal, Const):
            return
        try:
            dispatcher(FUNCTIONS[name])(literal.value)
        except CelError as error:
            if str(error) != NO_OVERLOAD:
                self.unready.append(str(error))

    def _check_format(self, node: Call) -> None:
        """A literal template has to fit a literal list of arguments."""
        template, items = node.target, node.args[0] if node.args else None
        if not isinstance(template, Const) or not isinstance(items, ListLiteral):
            return
        found = misfit(str(template.value), [self.checked.types[id(item)] for item in items.items])
        if found is not None:
            at = node.at if found.argument is None else items.items[found.argument].at
            self.demands.append((at, found.text))

    def _pair_loop(self, node: PairLoop) -> CelType:
        iterated = self.visit(node.range)
        first = self._item(iterated, node.range.at)
        second = first
        if iterated.name == "list":
            first = types.INT
        elif iterated.name == "map":
            second = iterated.params[1]
        self._scopes.append({node.variables[0]: first, node.variables[1]: second})
        kinds = [self.visit(arg) for arg in node.args]
        self._scopes.pop()
        tests = kinds if node.function in _PAIR_TESTS else kinds[:-1]
        for part, kind in zip(node.args, tests, strict=False):
            if not fits(BOOL, kind, {}):
                self._fail(part.at, f"expected type 'bool' but found '{kind}'")
        if node.function == "sortBy" and kinds[-1].name not in _ORDERED:
            applied = f"{list_of(second)}.({list_of(kinds[-1])})"
            text = f"found no matching overload for '@sortByAssociatedKeys' applied to '{applied}'"
            return self._fail(node.at, text)
        return _pair_result(node.function, first, second, kinds[-1])

    def _operator(self, node: Call, name: str, args: list[CelType]) -> CelType:
        if name == "_?_:_":
            if fits(BOOL, args[0], {}) and fits(args[1], args[2], {}):
                return args[2] if args[1] in {DYN, ERROR, types.NULL} else args[1]
            return self._no_overload(node, name, False, args)
        for part, arg in zip(node.args, args, strict=True):
            if not fits(BOOL, arg, {}):
                self._fail(part.at, f"expected type 'bool' but found '{arg}'")
        return BOOL

    def _no_overload(self, node: Call, name: str, member: bool, args: list[CelType]) -> CelType:
        shown = [str(arg) for arg in args]
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return self._fail(
            node.at, f"found no matching overload for '{name}' applied to '{applied}'"
        )


def _pair_result(name: str, first: CelType, second: CelType, made: CelType) -> CelType:
    if name in _PAIR_TESTS:
        return BOOL
    if name == "sortBy":
        return list_of(second)
    if name == "transformList":
        return list_of(made)
    return map_of(first, made) if name == "transformMap" else made
