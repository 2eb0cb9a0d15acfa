"""A cache for results of pure functions of text, bounded in entries and text length.

A limit on entries alone bounds no memory while clients choose how long a text is: a thousand
labels of a mebibyte each would stay for good.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Names, headers and times are shorter; what is longer is worked out each time.
LONGEST = 512


def remember_results(
    size: int, longest: int = LONGEST
) -> Callable[[Callable[Concatenate[str, _P], _T]], Callable[Concatenate[str, _P], _T]]:
    """Return a decorator that caches the results of a pure function of a short string.

    Args:
        size: how many answers; those not asked for longest go first.
        longest: how many characters a text has at the most that is remembered.
    """

    def decorate(
        function: Callable[Concatenate[str, _P], _T],
    ) -> Callable[Concatenate[str, _P], _T]:
        known = lru_cache(maxsize=size)(function)

        @wraps(function)
        def ask(argument: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
            if len(argument) > longest:
                return function(argument, *args, **kwargs)
            result: _T = known(argument, *args, **kwargs)  # type: ignore[arg-type]  # hashable ones
            return result

        return ask

    return decorate
