"""The JSON patch (RFC 6902) between two documents: small, and the same for the same two.

Objects are compared field by field, lists of one length entry by entry; a list that grew or
shrank is replaced whole. A minimal edit of lists was refused: it costs quadratic time,
and what mutating webhooks do to lists is mostly to append one entry.
"""

from collections.abc import Iterator
from typing import Any


def difference(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Yield the operations that turn `before` into `after`.

    Args:
        before: decoded JSON.
        after: decoded JSON.
        path: the JSON pointer (RFC 6901) of both.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from difference(old, new, f"{path}/{index}")
    elif not _same(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _fields(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[dict[str, Any]]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, new in after.items():
        pointer = f"{path}/{_escaped(name)}"
        if name in before:
            yield from difference(before[name], new, pointer)
        else:
            yield {"op": "add", "path": pointer, "value": new}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _same(before: Any, after: Any) -> bool:
    """Whether two values are the same JSON; to Python True is 1, to JSON it is not."""
    return type(before) is type(after) and before == after
