"""Evaluation with a meter: what an expression costs while it runs, and an end when it is too much.

Slower than evaluation without one, and only needed where the estimate does not rule out that a
limit is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from envtest.schema.cel.callcosts import LIST_CREATION, MAP_CREATION
from envtest.schema.cel.charges import charge
from envtest.schema.cel.checker import Checked
from envtest.schema.cel.evaluator import Compiler
from envtest.schema.cel.functions import CelError
from envtest.schema.cel.loops import EXCEEDED, TURNS, Frame, Run
from envtest.schema.cel.syntax import (
    Call,
    Const,
    Ident,
    ListLiteral,
    MapLiteral,
    Node,
    PairLoop,
    Select,
)

_COST: Final = "#cost"
_LIMIT: Final = "#limit"
# Conversions of literals are done before anything runs.
_FOLDED: Final = frozenset(
    {"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"}
)
_FREE: Final = frozenset({"_&&_", "_||_", "or", "orValue"})
_PAIR_TURNS: Final[Mapping[str, int]] = {
    "all": 3,
    "exists": 4,
    "transformList": LIST_CREATION + 2,
    "transformMap": 3,
    "transformMapEntry": 2,
}


class MeteredProgram:
    """A compiled expression that counts what it costs."""

    __slots__ = ("_run",)

    def __init__(self, checked: Checked) -> None:
        self._run = _Metered(checked).compile(checked.root)

    def evaluate(self, variables: Mapping[str, Any], limit: int) -> tuple[Any, int]:
        """The value, or the error in its place, and the cost.

        Args:
            variables: values by name; `self` and the like already converted to their type.
            limit: the most that it may cost.
        """
        frame: Frame = {**variables, TURNS: 0, _COST: 0, _LIMIT: limit}
        try:
            value = self._run(frame)
        except CelError as error:
            value = error
        except RecursionError:
            value = CelError(EXCEEDED)
        return value, frame[_COST]


def _charge(frame: Frame, cost: int) -> None:
    frame[_COST] += cost
    if frame[_COST] > frame[_LIMIT]:
        raise CelError(EXCEEDED)


def _charging(run: Run, cost: int) -> Run:
    """The same with a fixed cost."""
    if cost == 0:
        return run

    def metered(frame: Frame) -> Any:
        value = run(frame)
        _charge(frame, cost)
        return value

    return metered


class _Metered(Compiler):
    @override
    def compile(self, node: Node) -> Run:
        run = super().compile(node)
        match node:
            case Ident():
                return _charging(run, 0 if self.is_type_name(node) else 1)
            case Select(test=False):
                return _charging(run, 1 if _is_attribute(node.operand) else 2)
            case ListLiteral() | MapLiteral() if not _is_literal(node):
                return _charging(
                    run, LIST_CREATION if isinstance(node, ListLiteral) else MAP_CREATION
                )
        return run

    @override
    def call(self, node: Call) -> Run:
        name = self.checked.names.get(id(node), node.function)
        if name == "_?_:_":
            return self._metered_ternary(node)
        if name in _FOLDED and all(map(_is_folded, node.args)):
            return Compiler(self.checked).compile(node)
        fixed = _fixed_cost(node, name)
        return (
            self._metered_call(node, name)
            if fixed is None
            else _charging(super().call(node), fixed)
        )

    def _metered_call(self, node: Call, name: str) -> Run:
        args = [self.compile(arg) for arg in node.args]
        if node.target is not None and id(node) not in self.checked.names:
            args.insert(0, self.compile(node.target))
        function = self.function(node)

        def run(frame: Frame) -> Any:
            values = [arg(frame) for arg in args]
            value = function(*values)
            _charge(frame, charge(name, values, value))
            return value

        return run

    def _metered_ternary(self, node: Call) -> Run:
        """A chosen side that is a variable or part of one counts one less."""
        inner = super().call(node)
        sides = [_is_attribute(side) for side in node.args[1:]]
        if not any(sides):
            return inner
        test, yes, no = (self.compile(arg) for arg in node.args)

        def run(frame: Frame) -> Any:
            chosen = test(frame)
            if not isinstance(chosen, bool):
                return inner(frame)
            side = sides[0 if chosen else 1]
            if side:
                frame[_COST] -= 1
            return yes(frame) if chosen else no(frame)

        return run

    @override
    def pair_loop(self, node: PairLoop) -> Run:
        """The loop, with what it costs besides its turns."""
        if node.function == "sortBy":
            return self._sort_by(node)
        fixed = 2 if node.function in {"existsOne", "exists_one"} else 1
        return _charging(super().pair_loop(node), fixed)

    def _sort_by(self, node: PairLoop) -> Run:
        inner = super().pair_loop(node)

        def run(frame: Frame) -> Any:
            items = inner(frame)
            _charge(frame, 3 + charge("@sortByAssociatedKeys", [items], items))
            return items

        return run

    @override
    def loop_part(self, node: PairLoop, index: int) -> Run:
        """One of the expressions of a loop over pairs, with what each turn costs besides."""
        run = self.compile(node.args[index])
        if node.function in {"existsOne", "exists_one"}:
            return _counting(run)
        if node.function == "sortBy":
            return _charging(run, LIST_CREATION + 2)
        if len(node.args) > 1 and index == 0:
            return run
        return _charging(run, _PAIR_TURNS[node.function])


def _counting(run: Run) -> Run:
    """A test of which each success is counted, which costs something."""

    def metered(frame: Frame) -> Any:
        value = run(frame)
        if value is True:
            _charge(frame, 2)
        return value

    return metered


def _is_literal(node: Node) -> bool:
    """Whether a part is known before anything runs."""
    if isinstance(node, ListLiteral):
        return all(map(_is_literal, node.items))
    if isinstance(node, MapLiteral):
        return all(_is_literal(key) and _is_literal(value) for key, value, _ in node.entries)
    return isinstance(node, Const)


def _fixed_cost(node: Call, name: str) -> int | None:
    """What a call costs whatever its arguments are; None where these decide."""
    if name in {"_[_]", "_[?_]", "_?._"}:
        return 1 if _is_attribute(node.args[0]) else 2
    among = node.args[1] if name == "@in" else None
    if name in _FREE or (isinstance(among, ListLiteral) and _is_literal(among)):
        return 0
    return 1 if name == "@not_strictly_false" else None


def _is_folded(node: Node) -> bool:
    """Whether a part is a literal, or made of one by a conversion."""
    is_conversion = isinstance(node, Call) and node.function in _FOLDED and node.target is None
    if is_conversion and isinstance(node, Call):
        return all(map(_is_folded, node.args))
    return _is_literal(node)


def _is_attribute(node: Node) -> bool:
    """Whether a part is a variable, or something in one that is reached by names and indices."""
    if isinstance(node, Select):
        return not node.test
    if isinstance(node, Call):
        return node.function in {"_[_]", "_[?_]", "_?._", "_?_:_"}
    return isinstance(node, Ident)
