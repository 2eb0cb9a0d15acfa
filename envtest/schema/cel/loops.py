"""Loops of expressions: what they have in common, and the macros over keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from envtest.schema.cel.functions import NO_OVERLOAD, CelError
from envtest.schema.cel.standard import comparable
from envtest.schema.cel.syntax import PairLoop

Frame = dict[str, Any]
Run = Callable[[Frame], Any]

# One evaluation gives up after this many turns of loops; the server's cost limit is as generous.
MAX_TURNS: Final = 1_000_000
TURNS: Final = "#turns"
EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


def count_turn(frame: Frame) -> None:
    """Count one turn of a loop.

    Raises:
        CelError: the evaluation has had too many.
    """
    frame[TURNS] += 1
    if frame[TURNS] > MAX_TURNS:
        raise CelError(EXCEEDED)


def settled(run: Run, frame: Frame, *, strict: bool = False) -> Any:
    """The value, or the error as a value: `&&`, `||` and loops decide later what it means."""
    if strict:
        return run(frame)
    try:
        return run(frame)
    except CelError as error:
        if str(error) == EXCEEDED:
            raise
        return error


def compile_pairs(node: PairLoop, ranged: Run, args: list[Run]) -> Run:
    """The function for a macro over keys (indices) and values.

    Args:
        node: the macro.
        ranged: what gives the container.
        args: what is evaluated in each turn.
    """
    fold = _FOLDS[node.function]

    def run(frame: Frame) -> Any:
        iterated = ranged(frame)
        if not isinstance(iterated, list | dict):
            raise CelError(NO_OVERLOAD)
        outer = {name: frame[name] for name in node.variables if name in frame}
        value = fold(_pairs(iterated, node.variables, frame), args, frame)
        frame.update(outer)
        return value

    return run


def _pairs(
    iterated: list[Any] | dict[Any, Any], names: tuple[str, str], frame: Frame
) -> Iterator[tuple[Any, Any]]:
    pairs = iterated.items() if isinstance(iterated, dict) else enumerate(iterated)
    for first, second in pairs:
        count_turn(frame)
        frame[names[0]], frame[names[1]] = first, second
        yield first, second


_Pairs = Iterator[tuple[Any, Any]]


def _all(pairs: _Pairs, args: list[Run], frame: Frame) -> bool:
    return _any_is(False, pairs, args, frame) is not True


def _exists(pairs: _Pairs, args: list[Run], frame: Frame) -> bool:
    return _any_is(True, pairs, args, frame)


def _any_is(wanted: bool, pairs: _Pairs, args: list[Run], frame: Frame) -> bool:
    failure: CelError | None = None
    for _ in pairs:
        value = settled(args[0], frame)
        if value is wanted:
            return True
        if isinstance(value, CelError):
            failure = value
    if failure is not None:
        raise failure
    return False


def _exists_one(pairs: _Pairs, args: list[Run], frame: Frame) -> bool:
    return sum(1 for _ in pairs if args[0](frame)) == 1


def _transform_list(pairs: _Pairs, args: list[Run], frame: Frame) -> list[Any]:
    return [args[-1](frame) for _ in pairs if _chosen(args, frame)]


def _transform_map(pairs: _Pairs, args: list[Run], frame: Frame) -> dict[Any, Any]:
    return {key: args[-1](frame) for key, _ in pairs if _chosen(args, frame)}


def _transform_entry(pairs: _Pairs, args: list[Run], frame: Frame) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for _ in pairs:
        if _chosen(args, frame):
            entry = args[-1](frame)
            for key in entry.keys() & made.keys():
                raise CelError(f"insert failed: key {key} already exists")
            made.update(entry)
    return made


def _chosen(args: list[Run], frame: Frame) -> bool:
    return len(args) == 1 or args[0](frame) is True


def _sort_by(pairs: _Pairs, args: list[Run], frame: Frame) -> list[Any]:
    keyed = [(args[0](frame), item) for _, item in pairs]
    for key, _ in keyed:
        comparable(keyed[0][0], key)
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0])]


_FOLDS: Final[dict[str, Callable[[_Pairs, list[Run], Frame], Any]]] = {
    "all": _all,
    "exists": _exists,
    "existsOne": _exists_one,
    "exists_one": _exists_one,
    "sortBy": _sort_by,
    "transformList": _transform_list,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entry,
}
