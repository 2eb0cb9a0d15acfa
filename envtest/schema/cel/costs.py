"""How much an expression may cost at worst, from what the schema says of sizes.

The rules are cel-go's, down to where they are generous: an item of a literal list counts as the
rule's own value. Whether a CRD is accepted hangs on these numbers, so they are not improved upon.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from envtest.schema.cel.callcosts import (
    LIST_CREATION,
    MAP_CREATION,
    Applied,
    Estimate,
    Operand,
    estimate,
    sorting,
)
from envtest.schema.cel.checker import Checked
from envtest.schema.cel.functions import Overload
from envtest.schema.cel.spans import LARGEST, NOTHING, ONE, UNKNOWN, Span, exactly
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

_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_ACCUMULATORS: Final = frozenset({"@result", "__result__"})


class _Entry(NamedTuple):
    """Sizes of the keys and values of a container that an expression makes."""

    key: Span
    value: Span


class _Lost:
    """Where a part of the schema would be that the schema does not have."""


_LOST: Final = _Lost()
# The part of the schema that an expression reads: None for none at all.
_Place = CelType | _Lost | None


class _Local(NamedTuple):
    place: _Place
    size: Span | None
    entry: _Entry | None


def worst_cost(checked: Checked, root: CelType) -> int:
    """The most that evaluating an expression may cost.

    Args:
        checked: the expression.
        root: the type of `self`, with the sizes that its schema gives.
    """
    return _Coster(checked, root).cost(checked.root).high


class _Coster:
    def __init__(self, checked: Checked, root: CelType) -> None:
        self._checked = checked
        self._root = root
        self._sizes: dict[int, Span] = {}
        self._entries: dict[int, _Entry] = {}
        self._places: dict[int, _Place] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Span:
        """The cost of a part; notes its size and place on the way."""
        match node:
            case Const():
                found = NOTHING
            case Ident():
                local = self._local(node.name)
                self._places[id(node)] = self._root if local is None else local.place
                found = ONE
            case Select():
                found = self._select(node)
            case Call():
                found = self._call(node)
            case ListLiteral() | MapLiteral():
                found = self._literal(node)
            case PairLoop():
                found = self._pair_loop(node)
            case Comprehension() if _is_bind(node):
                found = self._bind(node)
            case _:
                assert isinstance(node, Comprehension)
                found = self._comprehension(node)
        return found

    def _select(self, node: Select) -> Span:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        kind = self._type(node.operand)
        if kind.fields is not None or kind.name == "map":
            cost = cost.plus(ONE)
        self._places[id(node)] = self._below(node.operand, node.field)
        return cost

    def _literal(self, node: ListLiteral | MapLiteral) -> Span:
        if isinstance(node, ListLiteral):
            keys: list[Node] = []
            values = list(node.items)
            total = exactly(LIST_CREATION)
        else:
            keys = [key for key, _, _ in node.entries]
            values = [value for _, value, _ in node.entries]
            total = exactly(MAP_CREATION)
        for part in (*keys, *values):
            total = total.plus(self.cost(part))
        key_size = self._widest(keys) if isinstance(node, MapLiteral) else ONE
        self._entries[id(node)] = _Entry(key_size, self._widest(values))
        return total

    def _widest(self, nodes: list[Node]) -> Span:
        widest = Span(LARGEST if nodes else 0, 0)
        for node in nodes:
            widest = widest.union(self._bound(node))
        return widest

    def _bind(self, node: Comprehension) -> Span:
        cost = self.cost(node.range).plus(self.cost(node.start))
        held = _Local(self._place(node.start), self._size(node.start), self._entry(node.start))
        self._push(node.accumulator, held)
        cost = cost.plus(self.cost(node.result))
        self._copy(node, node.result)
        self._locals[node.accumulator].pop()
        return cost

    def _comprehension(self, node: Comprehension) -> Span:
        cost = self.cost(node.range).plus(self.cost(node.start))
        held = _Local(self._place(node.start), self._size(node.start), self._entry(node.start))
        self._push(node.accumulator, held)
        self._push(node.variable, self._item(node.range))
        turn = self.cost(node.condition).plus(self.cost(node.step))
        self._locals[node.variable].pop()
        cost = cost.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        turns = self._bound(node.range)
        if isinstance(node.start, ListLiteral | MapLiteral):
            self._sizes[id(node)] = turns
            entry = self._entry(node.step)
            if entry is not None:
                self._entries[id(node)] = entry
        elif isinstance(node.start, Const):
            self._sizes[id(node)] = ONE
        return cost.plus(turns.times(turn))

    def _item(self, iterated: Node, *, key: bool = False) -> _Local:
        """What a loop's variable stands for."""
        entry, is_list = self._entry(iterated), self._type(iterated).name == "list"
        if key or not is_list:
            step = "@indices" if is_list else "@keys"
            return _Local(self._below(iterated, step), entry.key if entry else None, None)
        return _Local(self._below(iterated, "@items"), entry.value if entry else None, None)

    def _pair_loop(self, node: PairLoop) -> Span:
        """The loops over keys and values, which the library's parser does not take apart."""
        if node.function == "sortBy":
            return self._sort_by(node)
        is_map = self._type(node.range).name == "map"
        cost = self.cost(node.range)
        self._push(node.variables[0], self._item(node.range, key=True))
        value = self._item(node.range)
        if is_map:
            entry = self._entry(node.range)
            place = self._below(node.range, "@values")
            value = _Local(place, entry.value if entry else None, None)
        self._push(node.variables[1], value)
        parts = [self.cost(arg) for arg in node.args]
        fixed, turn, result = _pair_costs(node.function, parts)
        for name in node.variables:
            self._locals[name].pop()
        turns = self._bound(node.range)
        if node.function.startswith("transform"):
            self._sizes[id(node)] = turns
        else:
            self._sizes[id(node)] = ONE
        return cost.plus(fixed).plus(result).plus(turns.times(turn))

    def _sort_by(self, node: PairLoop) -> Span:
        """`list.sortBy(x, key)`: a binding of the list, a `map` for the keys, and the sorting."""
        cost = self.cost(node.range)
        self._push(node.variables[1], self._item(node.range))
        key = self.cost(node.args[0])
        self._locals[node.variables[1]].pop()
        turns = self._bound(node.range)
        step = exactly(LIST_CREATION).plus(key).plus(exactly(2))
        keys = turns.times(step).plus(exactly(LIST_CREATION + 2))
        ordering = sorting(turns, self._type(node.args[0]))
        self._sizes[id(node)] = turns.times(turns)
        bound = cost.plus(exactly(LIST_CREATION)).plus(ONE)
        return bound.plus(keys).plus(ordering.cost)

    def _call(self, node: Call) -> Span:
        if node.function == "dyn" and node.args:
            cost = self.cost(node.args[0]).plus(ONE)
            self._copy(node, node.args[0])
            return cost
        costs = [self.cost(arg) for arg in node.args]
        name = self._checked.names.get(id(node), node.function)
        target = node.target if id(node) not in self._checked.names else None
        total = NOTHING if target is None else self.cost(target)
        if name in {"_&&_", "_||_"}:
            return total.plus(Span(costs[0].low, costs[0].plus(costs[1]).high))
        if name == "_?_:_":
            return self._ternary(node, costs)
        for cost in costs:
            total = total.plus(cost)
        overloads = self._checked.overloads.get(id(node), ())
        found = [self._estimate(node, name, target, one) for one in overloads] or [Estimate(ONE)]
        whole = Span(LARGEST, 0)
        size: Span | None = None
        for one in found:
            whole = whole.union(one.cost)
            if one.size is not None:
                size = one.size if size is None else size.union(one.size)
        if name == "_[_]":
            size = self._index(node, size)
        if name == "_+_":
            self._add_entries(node)
        size = self._size(node) if size is None else size
        if size is not None:
            self._sizes[id(node)] = size
        return total.plus(whole)

    def _estimate(
        self, node: Call, name: str, target: Node | None, overload: Overload
    ) -> Estimate:
        subject = None if target is None else self._operand(target)
        params = tuple(param.name for param in overload.params)
        if name == "sort" and overload.params[0].params:
            params = (overload.params[0].params[0].name,)
        args = [self._operand(arg) for arg in node.args]
        return estimate(Applied(name, params, subject, args))

    def _operand(self, node: Node) -> Operand:
        place = self._place(node)
        item: Span | None = None
        if place is not None:
            item = _size_at(_below(place, "@items"))
        return Operand(node, self._type(node), self._size(node), item)

    def _index(self, node: Call, size: Span | None) -> Span | None:
        held = self._type(node.args[0])
        if held.name not in {"list", "map"}:
            return size
        entry = self._entry(node.args[0])
        step = "@items" if held.name == "list" else "@values"
        self._places[id(node)] = self._below(node.args[0], step)
        return entry.value if entry else None

    def _ternary(self, node: Call, costs: list[Span]) -> Span:
        yes, no = node.args[1:]
        self._sizes[id(node)] = self._bound(yes).union(self._bound(no))
        self._add_entries(node, yes, no)
        return costs[0].plus(costs[1].union(costs[2]))

    def _add_entries(self, node: Call, *sides: Node) -> None:
        first, second = map(self._entry, sides or node.args[:2])
        if first and second:
            key, value = first.key.union(second.key), first.value.union(second.value)
            self._entries[id(node)] = _Entry(key, value)

    def _copy(self, node: Node, source: Node) -> None:
        size, entry = self._size(source), self._entry(source)
        if size is not None:
            self._sizes[id(node)] = size
        if entry is not None:
            self._entries[id(node)] = entry

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _local(self, name: str) -> _Local | None:
        held = self._locals.get(name)
        return held[-1] if held else None

    def _type(self, node: Node) -> CelType:
        return self._checked.types[id(node)]

    def _place(self, node: Node) -> _Place:
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.place
        return self._places.get(id(node))

    def _below(self, node: Node, step: str) -> _Place:
        """A part of a value; a part of what is not in the schema counts as the rule's value."""
        place = self._place(node)
        return self._root if place is None else _below(place, step)

    def _bound(self, node: Node) -> Span:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _size(self, node: Node) -> Span | None:
        if id(node) in self._sizes:
            return self._sizes[id(node)]
        found = _literal_size(node)
        if found is None:
            found = _size_at(self._place(node))
        if found is not None:
            return found
        if _is_scalar(self._type(node)):
            return ONE
        local = self._local(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.size

    def _entry(self, node: Node) -> _Entry | None:
        if id(node) in self._entries:
            return self._entries[id(node)]
        local = self._local(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.entry


def _is_bind(node: Comprehension) -> bool:
    """Whether a loop is none, but a name for a value, as `optMap` needs it."""
    never = isinstance(node.condition, Const) and node.condition.value is False
    return never and node.accumulator not in _ACCUMULATORS


def _pair_costs(function: str, parts: list[Span]) -> tuple[Span, Span, Span]:
    """What a loop over pairs costs before, in each turn and after."""
    two = exactly(2)
    if function == "all":
        return NOTHING, two.plus(ONE).plus(Span(0, parts[0].high)), ONE
    if function == "exists":
        return NOTHING, exactly(3).plus(ONE).plus(Span(0, parts[0].high)), ONE
    if function in {"existsOne", "exists_one"}:
        return NOTHING, parts[0].plus(Span(1, 2)), two
    test = parts[0] if len(parts) > 1 else NOTHING
    if function == "transformList":
        step = parts[-1].plus(exactly(LIST_CREATION + 2))
        before = exactly(LIST_CREATION)
    else:
        # With a key of its own, that key's variable is read, too.
        step = parts[-1].plus(exactly(3) if function == "transformMap" else two)
        before = exactly(MAP_CREATION)
    if len(parts) > 1:
        step = test.plus(step.union(ONE))
    return before, step, ONE


def _literal_size(node: Node) -> Span | None:
    if isinstance(node, Const):
        return exactly(len(node.value)) if isinstance(node.value, str | bytes) else ONE
    if isinstance(node, ListLiteral):
        return exactly(len(node.items))
    if isinstance(node, MapLiteral):
        return exactly(len(node.entries))
    return None


def _is_scalar(kind: CelType) -> bool:
    if kind.name == "optional_type":
        return _is_scalar(kind.params[0])
    return kind.name in _SCALARS


def _size_at(place: _Place) -> Span | None:
    return Span(0, place.size) if isinstance(place, CelType) else None


def _below(place: CelType | _Lost, step: str) -> CelType | _Lost:
    if isinstance(place, _Lost):
        return place
    if step in {"@items", "@values"}:
        return place.params[-1] if place.name in {"list", "map"} else _LOST
    if step == "@keys":
        return place.params[0] if place.name == "map" else _LOST
    return (place.fields or {}).get(step, _LOST)
