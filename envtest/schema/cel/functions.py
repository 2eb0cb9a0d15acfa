"""The table of functions: signatures for the checker, implementations for the evaluator."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from envtest.schema.cel.syntax import Uint
from envtest.schema.cel.types import CelType

_Run = TypeVar("_Run", bound=Callable[..., Any])


class CelError(Exception):
    """An evaluation that gave no value; the text is cel-go's."""


NO_OVERLOAD: Final = "no such overload"


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    Attributes:
        member: whether it is called as a method, on its first parameter.
        params: types of the parameters.
        result: type of the result; may use the type variables of the parameters.
        run: the implementation; takes the arguments' values.
    """

    member: bool
    params: tuple[CelType, ...]
    result: CelType
    run: Callable[..., Any]


Table = Mapping[str, tuple[Overload, ...]]
_WORD = re.compile(r"\s*([\w.]+|[(),])")
_SHAPE = re.compile(r"(?:(?P<target>.+?)\.)?\((?P<args>.*)\)\s+(?P<result>\S.*)")


class Library:
    """Collects functions; use `define` as a decorator."""

    def __init__(self) -> None:
        self._overloads: dict[str, list[Overload]] = {}

    def define(self, name: str, *signatures: str) -> Callable[[_Run], _Run]:
        """Declare `name` with signatures such as `string.(string, int) bool`."""

        def register(run: _Run) -> _Run:
            self._overloads.setdefault(name, []).extend(overload(text, run) for text in signatures)
            return run

        return register

    def table(self) -> dict[str, tuple[Overload, ...]]:
        """Everything declared so far."""
        return {name: tuple(overloads) for name, overloads in self._overloads.items()}


def merged(libraries: Iterable[Library]) -> Table:
    """One table of several libraries; a name may have overloads in more than one."""
    together: dict[str, tuple[Overload, ...]] = {}
    for library in libraries:
        for name, overloads in library.table().items():
            together[name] = together.get(name, ()) + overloads
    return together


def overload(signature: str, run: Callable[..., Any]) -> Overload:
    """Read a signature: `[target.](arguments) result`."""
    found = _SHAPE.fullmatch(signature)
    assert found is not None, signature
    target = found["target"]
    params = _types(found["args"])
    if target is not None:
        params = (_types(target)[0], *params)
    return Overload(target is not None, params, _types(found["result"])[0], run)


def _types(text: str) -> tuple[CelType, ...]:
    words = [word for word in _WORD.findall(text) if word != ","]
    found: list[CelType] = []
    while words:
        found.append(_type(words))
    return tuple(found)


def _type(words: list[str]) -> CelType:
    name = words.pop(0)
    if not words or words[0] != "(":
        return CelType(name)
    words.pop(0)
    params: list[CelType] = []
    while words[0] != ")":
        params.append(_type(words))
    words.pop(0)
    return CelType(name, tuple(params))


_PYTHON_TYPES: Final[Mapping[type, str]] = {
    bool: "bool",
    bytes: "bytes",
    datetime.datetime: "timestamp",
    datetime.timedelta: "duration",
    dict: "map",
    float: "double",
    int: "int",
    list: "list",
    str: "string",
    type(None): "null",
    Uint: "uint",
}


def kind_of(value: Any) -> str:
    """The name of the CEL type of a value."""
    return _PYTHON_TYPES.get(type(value)) or str(getattr(type(value), "cel_type", "dyn"))


def accepts(kind: CelType, value: Any) -> bool:
    """Whether a parameter of type `kind` takes `value` at run time."""
    name = kind.name
    return name == "dyn" or (len(name) == 1 and name.isupper()) or kind_of(value) == name


def dispatcher(overloads: tuple[Overload, ...]) -> Callable[..., Any]:
    """A function that finds the overload for the values at hand.

    Raises (when called):
        CelError: no overload takes them.
    """
    if len(overloads) == 1 and all(len(kind.name) == 1 for kind in overloads[0].params):
        return overloads[0].run

    def call(*args: Any) -> Any:
        for candidate in overloads:
            if all(map(accepts, candidate.params, args)):
                return candidate.run(*args)
        raise CelError(NO_OVERLOAD)

    return call
