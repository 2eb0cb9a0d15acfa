"""Looking for a pattern in a text, in time that a hostile pattern cannot blow up.

Python's `re` backtracks: a repeated group that itself repeats can take time exponential in the
text. The server's engine never does. Patterns of that shape are given to RE2, which the CEL
library brings along, where the text is long enough to matter; all others stay with `re`, which is
faster.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final

from cel_expr_python import cel

from envtest.schema.patterns import compile_pattern

# Up to this length even the worst pattern is done in a moment.
_SHORT: Final = 20
# The longest text whose answers are remembered.
_NAME: Final = 316
_CLASS: Final = r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
_TOKEN: Final = re.compile(rf"\\.|{_CLASS}|[()|*+?]|\{{\d+(?:,\d*)?\}}", re.DOTALL)


def matcher(pattern: str) -> Callable[[str], object]:
    """A function whose answer is true where the pattern is found in a text.

    Raises:
        InvalidPattern: Go would not compile the pattern.
    """
    search = compile_pattern(pattern).search
    if not may_explode(pattern):
        return search

    def found(text: str) -> object:
        # The library cuts a text at a zero byte.
        if len(text) <= _SHORT or "\0" in text:
            return search(text)
        return (_remembered if len(text) <= _NAME else _found_by_re2)(pattern, text)

    return found


def _found_by_re2(pattern: str, text: str) -> bool:
    return bool(_re2().eval(data={"text": text, "pattern": pattern}).value())


# RE2 is slow to be asked, and the same names and types of conditions come again and again.
_remembered: Final = functools.lru_cache(maxsize=1024)(_found_by_re2)


@functools.lru_cache(maxsize=4096)
def may_explode(pattern: str) -> bool:
    """Whether a repeated group in the pattern repeats or branches inside."""
    inside = [False]
    closed = False
    for part in _TOKEN.findall(pattern):
        if part == "(":
            inside.append(False)
            closed = False
        elif part == ")":
            closed = inside.pop() if len(inside) > 1 else False
            inside[-1] |= closed
            continue
        elif part[0] in "*+{":
            if closed:
                return True
            inside[-1] = True
        elif part == "|":
            inside[-1] = True
        closed = False
    return False


@functools.cache
def _re2() -> Any:
    variables = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(variables=variables).compile("text.matches(pattern)")
