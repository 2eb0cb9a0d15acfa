"""Evaluation: a checked expression becomes a function over the variables' values.

Values are decoded JSON as it is; what a schema makes more of (times, durations, bytes, numbers
that were written without a fraction) is converted where the expression reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from envtest.schema.cel import conversion, loops
from envtest.schema.cel.checker import Checked
from envtest.schema.cel.functions import NO_OVERLOAD, CelError, dispatcher
from envtest.schema.cel.loops import EXCEEDED, TURNS, Frame, Run, count_turn, settled
from envtest.schema.cel.optionals import NONE, Optional, some
from envtest.schema.cel.standard import equal
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
)
from envtest.schema.cel.types import CelType


class Program:
    """A compiled expression."""

    __slots__ = ("_run",)

    def __init__(self, checked: Checked) -> None:
        self._run = Compiler(checked).compile(checked.root)

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value of the expression.

        Args:
            variables: values by name; `self` and the like already converted to their type.

        Raises:
            CelError: it has none.
        """
        frame: Frame = {**variables, TURNS: 0}
        try:
            return self._run(frame)
        except RecursionError as error:
            raise CelError(EXCEEDED) from error


class Compiler:
    """Makes functions of the parts of an expression."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked

    def compile(self, node: Node) -> Run:
        """The function for a part."""
        if isinstance(node, Const):
            value = node.value
            return lambda _frame: value
        if isinstance(node, Ident):
            return self._ident(node)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self.call(node)
        return self._aggregate(node)

    def _aggregate(self, node: Node) -> Run:
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, PairLoop):
            return self.pair_loop(node)
        assert isinstance(node, Comprehension)
        return self._comprehension(node)

    def pair_loop(self, node: PairLoop) -> Run:
        """The function for a loop over keys and values."""
        args = [self.loop_part(node, index) for index in range(len(node.args))]
        return loops.compile_pairs(node, self.compile(node.range), args)

    def loop_part(self, node: PairLoop, index: int) -> Run:
        """The function for one of the expressions of such a loop."""
        return self.compile(node.args[index])

    def is_type_name(self, node: Ident) -> bool:
        """Whether a name is that of a type, as in `type(x) == int`."""
        return self._type(node).name == "type"

    def _type(self, node: Node) -> CelType:
        return self.checked.types[id(node)]

    def _ident(self, node: Ident) -> Run:
        name, kind = node.name, self._type(node)
        if kind.name == "type":
            held = CelType(kind.params[0].name)
            return lambda frame: frame.get(name, held)
        return lambda frame: _read(frame[name])

    def _select(self, node: Select) -> Run:
        operand = self.compile(node.operand)
        kind = self._type(node.operand)
        name = (kind.names or {}).get(node.field, node.field)
        if node.test:
            return _tester(operand, _Field(name, node.field, kind), kind)
        convert = conversion.converter(self._type(node))
        if kind.name == "optional_type":
            inner = kind.params[0]
            name = (inner.names or {}).get(node.field, node.field)
            return _optional_selector(operand, _Field(name, node.field, inner), convert)
        return _selector(operand, _Field(name, node.field, kind), convert)

    def _list(self, node: ListLiteral) -> Run:
        items = [(self.compile(item), i in node.optional) for i, item in enumerate(node.items)]

        def run(frame: Frame) -> list[Any]:
            made: list[Any] = []
            for item, optional in items:
                value = item(frame)
                if not optional:
                    made.append(value)
                elif value.present:
                    made.append(value.value)
            return made

        return run

    def _map(self, node: MapLiteral) -> Run:
        entries = [(self.compile(k), self.compile(v), maybe) for k, v, maybe in node.entries]

        def run(frame: Frame) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key, value, optional in entries:
                held = value(frame)
                if not optional:
                    made[key(frame)] = held
                elif held.present:
                    made[key(frame)] = held.value
            return made

        return run

    def _comprehension(self, node: Comprehension) -> Run:
        ranged, start = self.compile(node.range), self.compile(node.start)
        condition, step = self.compile(node.condition), self.compile(node.step)
        result, names = self.compile(node.result), (node.variable, node.accumulator)
        always = isinstance(node.condition, Const)

        def run(frame: Frame) -> Any:
            iterated = ranged(frame)
            if not isinstance(iterated, list | dict):
                raise CelError(NO_OVERLOAD)
            outer = {name: frame[name] for name in names if name in frame}
            frame[names[1]] = start(frame)
            for item in iterated:
                count_turn(frame)
                if not always and condition(frame) is not True:
                    break
                frame[names[0]] = item
                frame[names[1]] = settled(step, frame, strict=always)
            value = result(frame)
            frame.update(outer)
            if isinstance(value, CelError):
                raise value
            return value

        return run

    def call(self, node: Call) -> Run:
        """The function for a call."""
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        args = [self.compile(arg) for arg in node.args]
        if node.target is not None and id(node) not in self.checked.names:
            args.insert(0, self.compile(node.target))
        return _applied(dispatcher(self.checked.overloads[id(node)]), args)

    def and_(self, node: Call) -> Run:
        """`&&`: false wins over an error on the other side."""
        return _logic(self.compile(node.args[0]), self.compile(node.args[1]), decides=False)

    def or_(self, node: Call) -> Run:
        """`||`: true wins over an error on the other side."""
        return _logic(self.compile(node.args[0]), self.compile(node.args[1]), decides=True)

    def ternary(self, node: Call) -> Run:
        """`c ? a : b`: only the chosen side is evaluated."""
        test, yes, no = (self.compile(arg) for arg in node.args)

        def run(frame: Frame) -> Any:
            chosen = test(frame)
            if not isinstance(chosen, bool):
                raise CelError(NO_OVERLOAD)
            return yes(frame) if chosen else no(frame)

        return run

    def not_strictly_false(self, node: Call) -> Run:
        """The loop condition of `all` and `exists`: an error so far does not end the loop."""
        inner = self.compile(node.args[0])
        return lambda frame: _not_false(inner, frame)

    def optional_select(self, node: Call) -> Run:
        """`a.?b`."""
        operand, name = self.compile(node.args[0]), node.args[1]
        assert isinstance(name, Const)
        kind = self._type(node.args[0])
        if kind.name == "optional_type":
            kind = kind.params[0]
        key = (kind.names or {}).get(name.value, name.value)
        found = self._type(node)
        inner = found.params[0] if found.name == "optional_type" else found
        return _optional_selector(operand, _Field(key, "", kind), conversion.converter(inner))

    def equality(self, node: Call) -> Run:
        """`==` and `!=`: the order of sets and of map lists does not count."""
        return _applied(self._comparison(node), [self.compile(arg) for arg in node.args])

    def _comparison(self, node: Call) -> Callable[[Any, Any], bool]:
        sort = conversion.sorter(self._type(node.args[0])) or conversion.sorter(
            self._type(node.args[1])
        )
        wanted = node.function == "_==_"
        if sort is None:
            return lambda left, right: equal(left, right) is wanted
        return lambda left, right: equal(sort(left), sort(right)) is wanted

    def addition(self, node: Call) -> Run:
        """`+`: sets and map lists are united, everything else is added or joined."""
        return _applied(self._union(node), [self.compile(arg) for arg in node.args])

    def _union(self, node: Call) -> Callable[..., Any]:
        keys = self._type(node.args[0]).keys
        if keys is None:
            return dispatcher(self.checked.overloads[id(node)])
        return lambda left, right: conversion.united(left, right, keys)

    def either(self, node: Call) -> Run:
        """`a.or(b)` and `a.orValue(b)`: b is evaluated only where a is none."""
        assert node.target is not None
        first, second = self.compile(node.target), self.compile(node.args[0])
        wants_value = node.function == "orValue"

        def run(frame: Frame) -> Any:
            held = first(frame)
            if not isinstance(held, Optional):
                raise CelError(NO_OVERLOAD)
            if not held.present:
                return second(frame)
            return held.value if wants_value else held

        return run

    def function(self, node: Call) -> Callable[..., Any]:
        """What a call does with the values of its arguments."""
        if node.function in {"_==_", "_!=_"}:
            return self._comparison(node)
        if node.function == "_+_" and len(node.args) == 2:
            return self._union(node)
        return dispatcher(self.checked.overloads[id(node)])


_SPECIAL: Final[Mapping[str, Callable[[Compiler, Call], Run]]] = {
    "_&&_": Compiler.and_,
    "_||_": Compiler.or_,
    "_?_:_": Compiler.ternary,
    "_?._": Compiler.optional_select,
    "_==_": Compiler.equality,
    "_!=_": Compiler.equality,
    "_+_": Compiler.addition,
    "or": Compiler.either,
    "orValue": Compiler.either,
    "@not_strictly_false": Compiler.not_strictly_false,
}


def _read(value: Any) -> Any:
    """A variable's value; data that its type cannot hold is an error where it is read."""
    if isinstance(value, CelError):
        raise value
    return value


def _applied(call: Callable[..., Any], args: list[Run]) -> Run:
    if len(args) == 1:
        only = args[0]
        return lambda frame: call(only(frame))
    if len(args) == 2:
        left, right = args
        return lambda frame: call(left(frame), right(frame))
    return lambda frame: call(*[arg(frame) for arg in args])


class _Field:
    """A part of a value: its name in JSON and in the expression.

    A null in a field that the schema names counts as no field; the value of a map may be null.
    """

    __slots__ = ("name", "nulls", "written")

    def __init__(self, name: str, written: str, kind: CelType) -> None:
        self.name = name
        self.written = written
        self.nulls = kind.fields is None

    def is_in(self, value: Any) -> bool:
        """Whether a value has the part."""
        return self.name in value and (self.nulls or value[self.name] is not None)


def _selector(operand: Run, field: _Field, convert: Callable[[Any], Any] | None) -> Run:
    name = field.name

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if value is None:
            raise CelError(f"no such key: {field.written}")
        if not isinstance(value, dict):
            raise CelError(NO_OVERLOAD)
        if not field.is_in(value):
            raise CelError(f"no such key: {field.written}")
        return value[name] if convert is None else convert(value[name])

    return run


def _tester(operand: Run, field: _Field, kind: CelType) -> Run:
    name = field.name
    # The server looks at the value too: data that cannot be of its type is an error even here.
    part = kind.params[1] if kind.name == "map" else (kind.fields or {}).get(name, kind)
    convert = conversion.converter(part)

    def run(frame: Frame) -> bool:
        value: Any = operand(frame)
        if isinstance(value, Optional):
            return bool(value.present and field.is_in(value.value))
        if value is None:
            return False
        if not isinstance(value, dict):
            raise CelError(NO_OVERLOAD)
        if not field.is_in(value):
            return False
        if convert is not None:
            convert(value[name])
        return True

    return run


def _optional_selector(operand: Run, field: _Field, convert: Callable[[Any], Any] | None) -> Run:
    name = field.name

    def run(frame: Frame) -> Optional:
        value = operand(frame)
        if isinstance(value, Optional):
            if not value.present:
                return NONE
            value = value.value
        if not isinstance(value, dict):
            raise CelError(NO_OVERLOAD)
        if not field.is_in(value):
            return NONE
        return some(value[name] if convert is None else convert(value[name]))

    return run


def _logic(left: Run, right: Run, *, decides: bool) -> Run:
    def run(frame: Frame) -> Any:
        first = settled(left, frame)
        second = None if first is decides else settled(right, frame)
        if first is decides or second is decides:
            return decides
        for value in (first, second):
            if isinstance(value, CelError):
                raise value
            if not isinstance(value, bool):
                raise CelError(NO_OVERLOAD)
        return not decides

    return run


def _not_false(run: Run, frame: Frame) -> bool:
    value: Any = settled(run, frame)
    return value is not False
