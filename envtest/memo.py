"""A cache for results of pure functions of strings, with limits on entries and on string length.

A limit on entries alone does not limit memory, because clients choose the length of strings: a
thousand labels of a mebibyte each would stay in memory.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Names, headers and times are shorter. Results for longer strings are not cached.
LONGEST = 512


def remember_results(
    size: int, longest: int = LONGEST
) -> Callable[[Callable[Concatenate[str, _P], _T]], Callable[Concatenate[str, _P], _T]]:
    """Return a decorator that caches results of a pure function, by its first argument, a string.

    Args:
        size: the number of cached results; the least recently used are dropped first.
        longest: the longest string, in characters, whose results are cached.
    """

    def decorate(
        function: Callable[Concatenate[str, _P], _T],
    ) -> Callable[Concatenate[str, _P], _T]:
        """Return the function with a cache of its results."""
        cached = lru_cache(maxsize=size)(function)

        @wraps(function)
        def call_cached(argument: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
            """Return the cached result; call the function if there is none."""
            # Clients choose long strings; their results must not fill the memory.
            if len(argument) > longest:
                return function(argument, *args, **kwargs)
            result: _T = cached(argument, *args, **kwargs)  # type: ignore[arg-type]  # hashable ones
            return result

        return call_cached

    return decorate
