"""Checks of the functions that users register, and of the results of these functions.

Reconcilers, mappings, predicates, delays, index functions, groups and handlers are called by the
framework, often far from the line that registered them. A result of the wrong type raises a
TypeError that names the function, where the caller of the function catches errors.

An `async def` where a plain function is expected is refused when it is registered. A plain
function may still return a coroutine. That coroutine is closed, so that Python prints no warning
later.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeVar, cast

from controller.meta import Key

R = TypeVar("R")


class UnexpectedError(RuntimeError):
    """User code raised a BaseException that is no Exception, such as its own CancelledError."""


def name_function(function: object) -> str:
    """Return the module and the qualified name of a function, for messages.

    A partial has the name of its function, and an object with `__call__` that of its type.

    Args:
        function: a function, a method, a partial of one, or an object with `__call__`.
    """
    while isinstance(function, partial):
        function = function.func
    target: Any = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(target, "__module__", None)
    return f"{module}.{target.__qualname__}" if module else str(target.__qualname__)


def check_plain(function: object, role: str, *arguments: str) -> None:
    """Raise TypeError for a function that cannot be called as a plain one.

    Args:
        function: as the user registered it.
        role: what the function is, for the message: `the mapping of a Watch`.
        *arguments: the names of the positional arguments that it is called with.

    Raises:
        TypeError: the function is async, cannot be called, or takes other arguments.
    """
    if not callable(function):
        raise TypeError(f"{role} must be a function, not {safe_repr(function)}")
    if _is_async(function):
        raise TypeError(
            f"{role}, {name_function(function)}, must be a plain function, not an `async def`:"
            " nothing awaits the function. Read caches in it, and make requests in the reconciler"
        )
    _check_signature(function, role, arguments)


def check_callable(function: object, role: str, *arguments: str) -> None:
    """Raise TypeError for an object that cannot be called, where an `async def` is expected.

    A plain function that returns a coroutine is accepted: only its result shows what it is.

    Args:
        function: as the user registered it.
        role: what the function is, for the message: `the reconciler of widgets`.
        *arguments: the names of the positional arguments that it is called with.

    Raises:
        TypeError: the object cannot be called, is a generator function, or takes other arguments.
    """
    if not callable(function):
        raise TypeError(f"{role} must be an `async def`, not {safe_repr(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{role}, {name_function(function)}, must be an `async def` that returns: it yields,"
            " so calling it gives a generator, which nothing awaits"
        )
    _check_signature(function, role, arguments)


def _check_signature(function: Callable[..., object], role: str, arguments: Sequence[str]) -> None:
    """Raise TypeError for a function that does not take the arguments that it is called with."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a function written in C may have no signature; its first call shows a mistake
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{role}, {name_function(function)}, is called with ({', '.join(arguments)}) and takes"
            f" ({', '.join(signature.parameters)}): {error}"
        ) from None


def require_awaitable(function: object, result: Awaitable[R]) -> Awaitable[R]:
    """Return the result of a function; raise TypeError if the result cannot be awaited.

    Args:
        function: a service or the handler of a webhook, for example.
        result: the function's result.

    Raises:
        TypeError: the result cannot be awaited, so the function is not async.
    """
    if not isinstance(result, Awaitable):
        raise TypeError(
            f"{name_function(function)} must be an `async def`: it returned {safe_repr(result)},"
            " which cannot be awaited"
        )
    return result


def call_plain(function: Callable[..., R], *arguments: object) -> R:
    """Call a function that is not async, and return its result.

    Args:
        function: a handler, for example.
        *arguments: the arguments of the function.

    Raises:
        TypeError: the function returned an awaitable.
        UnexpectedError: the function raised a BaseException that is no Exception. Its
            CancelledError is for no task of the framework, because a plain function never waits.
        SystemExit, KeyboardInterrupt: the function asks for the end of the process.
    """
    try:
        result = function(*arguments)
    except (Exception, SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _wrap_base_exception(function, error) from error
    if type(result) in _PLAIN:
        return result  # a shortcut: most results have one of these types
    if isinstance(result, Awaitable) or inspect.isasyncgen(result):
        raise TypeError(
            f"{name_function(function)} returned {discard_result(result)}, which nothing awaits:"
            " the function must be a plain one that returns its result"
        )
    return result


_PLAIN: AbstractSet[type] = frozenset(
    {type(None), bool, int, float, str, tuple, list, set, frozenset, dict, Key}
)
"""Types whose values are no awaitables. Most results have one of them, and the check for the
abstract class Awaitable takes longer than most of the called functions."""


def call_for_keys(function: Callable[..., object], *arguments: object) -> tuple[Key, ...]:
    """Call a mapping, and return its keys as a tuple, so a generator runs to its end here.

    Raises:
        TypeError: the result is no iterable, or an entry is no Key.
        Exception: what the mapping raises; see `call_plain`.
    """
    result = call_plain(function, *arguments)
    if isinstance(result, Key):  # a Key is a tuple, so its texts would be taken for keys
        raise TypeError(
            f"{name_function(function)} returned the single key {result}: return a collection of"
            " keys, for example a list with this key in it"
        )
    keys = _collect(function, result, "keys, which is empty for none")
    for key in keys:
        if not is_key(key):
            raise TypeError(
                f"{name_function(function)} returned {safe_repr(key)} among its keys: each must be"
                " a controller.Key of two texts, namespace and name"
            )
    return keys


def call_for_key(function: Callable[..., object], *arguments: object) -> Key | None:
    """Call a function that returns a key or None, and return the result.

    Raises:
        TypeError: the result is neither a Key nor None.
        Exception: what the function raises; see `call_plain`.
    """
    result = call_plain(function, *arguments)
    if result is None:
        return None
    if not is_key(result):
        raise TypeError(
            f"{name_function(function)} returned {safe_repr(result)}: return a controller.Key of"
            " two texts, or None"
        )
    assert isinstance(result, Key)  # for the type checker
    return result


def call_for_flag(function: Callable[..., object], *arguments: object) -> bool:
    """Call a predicate, and return its result: True or False.

    Raises:
        TypeError: the result is neither True nor False. A forgotten `return` would drop all
            changes.
        Exception: what the predicate raises; see `call_plain`.
    """
    result = call_plain(function, *arguments)
    if not isinstance(result, bool):
        raise TypeError(
            f"{name_function(function)} returned {safe_repr(result)}: return True or False"
        )
    return result


def call_for_seconds(function: Callable[..., object], *arguments: object) -> float:
    """Call a function that returns a delay, and return the delay in seconds.

    Raises:
        TypeError: the result is no number.
        ValueError: the number is negative, infinite or NaN.
        Exception: what the function raises; see `call_plain`.
    """
    result = call_plain(function, *arguments)
    if not isinstance(result, int | float) or isinstance(result, bool):
        raise TypeError(
            f"{name_function(function)} returned {safe_repr(result)}: return seconds, a number"
        )
    if not math.isfinite(result) or result < 0:
        raise ValueError(
            f"{name_function(function)} returned {safe_repr(result)}: return seconds from 0 on"
        )
    return result


def call_for_texts(function: Callable[..., object], *arguments: object) -> AbstractSet[str]:
    """Call an index function, and return its values.

    Raises:
        TypeError: the result is no collection of texts.
        Exception: what the function raises; see `call_plain`.
    """
    values = _collect(function, call_plain(function, *arguments), "texts")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(
                f"{name_function(function)} returned {safe_repr(value)} among its values:"
                " each must be a text"
            )
    return frozenset(values)


def safe_repr(value: object) -> str:
    """Return the representation of a value of a user; if that raises, the type of the value."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the message is about the value, not about its __repr__
        return f"an object of type {name_function(type(value))}"


def discard_result(result: object) -> str:
    """Return the representation of a wrong result, for a message; close it if it is a coroutine.

    Python would warn of a coroutine that is neither awaited nor closed.
    """
    representation = safe_repr(result)
    if inspect.iscoroutine(result):
        result.close()
    return representation


def is_key(value: object) -> bool:
    """Return whether a value can be used as the key of an object: a Key of two texts."""
    if not isinstance(value, Key):
        return False
    namespace, name = cast("tuple[object, object]", value)
    return isinstance(namespace, str) and isinstance(name, str)


def _run_guarded(function: object, call: Callable[..., R], *arguments: object) -> R:
    """Call code of a user; raise UnexpectedError in place of a BaseException.

    The framework's tasks handle each Exception. A CancelledError of the user's code would end
    them. SystemExit and KeyboardInterrupt are raised as they are: they end the process.

    Args:
        function: the function that the user registered, for the message.
        call: the code to call, which may be a part of `function`'s work only.
        *arguments: the arguments of `call`.
    """
    try:
        return call(*arguments)
    except (Exception, SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _wrap_base_exception(function, error) from error


def _wrap_base_exception(function: object, error: BaseException) -> UnexpectedError:
    """Return the UnexpectedError to raise in place of a function's BaseException."""
    return UnexpectedError(
        f"{name_function(function)} raised {safe_repr(error)}, which is not an Exception"
    )


_COLLECTIONS: AbstractSet[type] = frozenset({tuple, list, set, frozenset})
"""The types of most collections that functions return."""


def _collect(function: object, result: object, expected: str) -> tuple[Any, ...]:
    """Return the entries of a collection that a function returned.

    Args:
        function: the function that the user registered, for the message.
        result: the function's result.
        expected: what the entries should be, for the message.

    Raises:
        TypeError: the result is no collection, or is a text or a mapping. Their entries are
            characters and keys, so returning one is a mistake.
    """
    if type(result) in _COLLECTIONS:  # a shortcut: to iterate over these runs no code of the user
        return tuple(cast("Iterable[Any]", result))
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable):
        raise TypeError(
            f"{name_function(function)} returned {safe_repr(result)}: return a collection of"
            f" {expected}"
        )
    return _run_guarded(function, lambda: tuple(result))  # a generator is code of the user


def _is_async(function: object) -> bool:
    """Return whether calling the function gives a coroutine or an async generator."""
    while isinstance(function, partial):
        function = function.func
    target: object = function
    if not inspect.isroutine(function) and not inspect.isclass(function):
        # An object with `__call__`; inspect looks only at functions.
        target = getattr(type(function), "__call__", function)  # noqa: B004 - its code is read
    return inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
