"""Checks functions that users register, and what these functions return.

Reconcilers, mappings, predicates, delays, index functions, groups and handlers are called by the
framework, often far from the line that registered them. A result of the wrong type raises a
TypeError that names the function, where the caller of the function catches errors. An `async def`
where a plain function is expected is refused when it is registered; a coroutine that a plain
function returns all the same is closed, so Python prints no warning at a later time.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeVar

from controller.meta import Key

R = TypeVar("R")


def function_name(function: object) -> str:
    """Return the module and the qualified name of a function, for messages.

    Args:
        function: a function, a method, a partial of one, or an object with `__call__`.
    """
    while isinstance(function, partial):
        function = function.func
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if module else str(named.__qualname__)


def check_plain(function: object, role: str) -> None:
    """Raise for a function that cannot be called as a plain one.

    Args:
        function: as the user registered it.
        role: what the function is, for the message: `the mapping of a Watch`.

    Raises:
        TypeError: the function is async or cannot be called.
    """
    if not callable(function):
        raise TypeError(f"{role} must be a function, not {function!r}")
    if _is_async(function):
        raise TypeError(
            f"{role}, {function_name(function)}, must be a plain function, not an `async def`:"
            " nothing awaits the function. Read caches in it, and make requests in the reconciler"
        )


def check_not_awaitable(function: object, result: object) -> None:
    """Close what a plain function returned if it has to be awaited, and raise.

    Args:
        function: the function that returned `result`.
        result: what it returned.

    Raises:
        TypeError: the result is a coroutine, another awaitable, or an async generator.
    """
    if isinstance(result, Awaitable) or inspect.isasyncgen(result):
        shown = repr(result)
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            f"{function_name(function)} returned {shown}, which nothing awaits: the function must"
            " be a plain one that returns its result"
        )


def checked_awaitable(function: object, result: Awaitable[R]) -> Awaitable[R]:
    """Return what a function returned that has to be async.

    Args:
        function: a service or the handler of a webhook, for example.
        result: what it returned.

    Raises:
        TypeError: the result cannot be awaited.
    """
    if not isinstance(result, Awaitable):
        raise TypeError(
            f"{function_name(function)} must be an `async def`: it returned {result!r}, which"
            " cannot be awaited"
        )
    return result


def call_plain(function: Callable[..., object], *arguments: object) -> None:
    """Call a function that returns nothing.

    Args:
        function: a handler, for example.
        *arguments: what the function gets.

    Raises:
        TypeError: the function returned what has to be awaited.
    """
    check_not_awaitable(function, function(*arguments))


def checked_keys(function: object, result: object) -> tuple[Key, ...]:
    """Return the keys that a mapping returned.

    Args:
        function: the mapping.
        result: what it returned: an iterable of keys. A generator runs here.

    Raises:
        TypeError: the result is no iterable, or an entry is no Key.
    """
    check_not_awaitable(function, result)
    if isinstance(result, Key):
        raise TypeError(
            f"{function_name(function)} returned the single key {result}: return a collection of"
            " keys, for example a list with this key in it"
        )
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable):
        raise TypeError(
            f"{function_name(function)} returned {result!r}: return a collection of keys, which is"
            " empty for none"
        )
    keys = tuple(result)
    for key in keys:
        if not is_key(key):
            raise TypeError(
                f"{function_name(function)} returned {key!r} among its keys: each must be a"
                " controller.Key of two texts, namespace and name"
            )
    return keys


def checked_key_or_none(function: object, result: object) -> Key | None:
    """Return the key, or None, that a function returned.

    Raises:
        TypeError: the result is neither.
    """
    check_not_awaitable(function, result)
    if result is None:
        return None
    if not is_key(result):
        raise TypeError(
            f"{function_name(function)} returned {result!r}: return a controller.Key of two texts,"
            " or None"
        )
    assert isinstance(result, Key)
    return result


def checked_flag(function: object, result: object) -> bool:
    """Return what a predicate returned.

    Raises:
        TypeError: the result is neither True nor False. A forgotten `return` would drop all
            changes, and a coroutine would pass all.
    """
    check_not_awaitable(function, result)
    if not isinstance(result, bool):
        raise TypeError(f"{function_name(function)} returned {result!r}: return True or False")
    return result


def checked_delay(function: object, result: object) -> float:
    """Return the seconds that a delay function returned.

    Raises:
        TypeError: the result is no number.
        ValueError: it is negative, infinite or NaN.
    """
    check_not_awaitable(function, result)
    if not isinstance(result, int | float) or isinstance(result, bool):
        raise TypeError(f"{function_name(function)} returned {result!r}: return seconds, a number")
    if not math.isfinite(result) or result < 0:
        raise ValueError(
            f"{function_name(function)} returned {result!r}: return seconds from 0 on"
        )
    return result


def checked_texts(function: object, result: object) -> AbstractSet[str]:
    """Return the values that an index function returned.

    Raises:
        TypeError: the result is no collection of texts.
    """
    check_not_awaitable(function, result)
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable):
        raise TypeError(
            f"{function_name(function)} returned {result!r}: return a collection of texts"
        )
    values = frozenset(result)
    for value in values:
        if not isinstance(value, str):
            raise TypeError(
                f"{function_name(function)} returned {value!r} among its values: each must be a"
                " text"
            )
    return values


def is_key(value: object) -> bool:
    """Return whether a value can be used as the key of an object: a Key of two texts."""
    return isinstance(value, Key) and all(isinstance(part, str) for part in tuple(value))


def _is_async(function: object) -> bool:
    """Return whether calling the function gives a coroutine or an async generator."""
    while isinstance(function, partial):
        function = function.func
    called: object = function
    if not inspect.isroutine(function) and not inspect.isclass(function):
        called = getattr(type(function), "__call__", function)  # noqa: B004 - its code is read
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
