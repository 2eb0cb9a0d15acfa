"""Regular expressions of Go, found by the same engine: RE2, whose time no pattern blows up."""

import functools
from collections.abc import Callable
from typing import Any

import re2

from envtest.memo import remembered


class InvalidPattern(ValueError):
    """The pattern is no RE2 expression."""


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern.

    Raises:
        InvalidPattern: it is none.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        [reason] = error.args
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"error parsing regexp: {said}") from error


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether the pattern is found in a text.

    Raises:
        InvalidPattern: the pattern is none.
    """
    compile_pattern(pattern)
    return lambda text: _found(text, pattern)


# The engine is slow to be asked, and the same names, types and reasons come again and again.
@remembered(4096)
def _found(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(text) is not None
