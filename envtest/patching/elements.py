"""The steps of a field path, in the spelling of fieldsV1: `f:name`, `k:{"key":"value"}`, `v:item`.

An element is kept as that string, because two elements are the same exactly if their spellings
are, and because the stored form then needs no translation. Elements that a client wrote are
brought into the one spelling by `normalised`.
"""

import functools
import json
from typing import Any

from envtest.patching.errors import MisfitError
from envtest.schema import gotext

SELF = "."
_ORDER = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def of_key(keys: dict[str, Any]) -> str:
    """Return the element of a list item that is known by the values of its key fields."""
    if len(keys) == 1:
        ((name, value),) = keys.items()
        if isinstance(value, str):
            return of_text_key(name, value)
    inner = ",".join(
        f"{gotext.json_text(name)}:{gotext.json_text(keys[name])}" for name in sorted(keys)
    )
    return f"k:{{{inner}}}"


@functools.lru_cache(maxsize=4096)
def of_text_key(name: str, value: str) -> str:
    """Return the element of an item with one key field that is a text, as most are."""
    return f"k:{{{gotext.json_text(name)}:{gotext.json_text(value)}}}"


def of_value(value: Any) -> str:
    """Return the element of a member of a set."""
    return "v:" + gotext.json_text(value)


def normalised(element: str) -> str | None:
    """Return an element in its one spelling, None for a type that is not known.

    Raises:
        ValueError: it is no path element.
    """
    if len(element) < 2:
        raise ValueError("key must be 2 characters long:")
    if element[1] != ":":
        raise ValueError(f"missing colon: {element}")
    kind, text = element[0], element[2:]
    if kind == "f":
        return element
    if kind == "i":
        return f"i:{int(text)}"
    if kind == "v":
        return of_value(json.loads(text))
    if kind == "k":
        keys = json.loads(text)
        if not isinstance(keys, dict):
            raise MisfitError(f"not an object: {text}")
        return of_key(keys)
    return None


@functools.lru_cache(maxsize=4096)
def sort_key(element: str) -> tuple[Any, ...]:
    """Return what fields are sorted by: names, then keys, then values, then indexes."""
    kind, text = element[0], element[2:]
    rank = _ORDER[kind]
    if kind == "k":
        keys: dict[str, Any] = json.loads(text)
        return (rank, *((name, *_value_key(keys[name])) for name in sorted(keys)))
    if kind == "v":
        return (rank, *_value_key(json.loads(text)))
    return (rank, int(text)) if kind == "i" else (rank, text)


def _value_key(value: Any) -> tuple[int, Any]:
    """Return what values are sorted by: numbers, strings, booleans, then whatever else."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, gotext.json_text(value))


@functools.lru_cache(maxsize=4096)
def shown(element: str) -> str:
    """Return the element as conflict messages print it."""
    kind, text = element[0], element[2:]
    if kind == "f":
        return "." + text
    if kind == "i":
        return f"[{text}]"
    value = json.loads(text)
    if kind == "v":
        return f"[={_shown_value(value)}]"
    return "[" + ",".join(f"{name}={_shown_value(value[name])}" for name in sorted(value)) + "]"


def _shown_value(value: Any) -> str:
    """Print one value of a key or set member."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_shown_value, value)) + "]"
    if isinstance(value, dict):
        return "".join(f"{name}={_shown_value(value[name])}" for name in sorted(value))
    return gotext.json_text(value)
