"""Warnings that webhooks give: which are passed on, and how much of them.

The limits are those of the real server's warning recorder: as long as all fit together they stay
whole, else each is cut, so that the headers do not grow beyond what clients accept.
"""

from collections.abc import Iterable
from typing import Final

_TOTAL: Final = 4 * 1024
_EACH: Final = 256


def add_warnings(warnings: list[str], texts: Iterable[str]) -> None:
    """Add sentences to those that an answer carries already.

    What is empty or has control characters is dropped: it cannot stand in a header.

    Args:
        warnings: the sentences so far, changed in place.
        texts: what is added.
    """
    warnings += [text for text in texts if text and not any(map(_is_control, text))]
    whole = list(dict.fromkeys(warnings))
    if sum(map(len, whole)) <= _TOTAL:
        return
    kept: list[str] = []
    size = 0
    for text in whole:
        if size >= _TOTAL:
            break
        kept.append(text[:_EACH])
        size += len(kept[-1])
    warnings[:] = kept


def _is_control(rune: str) -> bool:
    return rune < " " or rune == "\x7f"
