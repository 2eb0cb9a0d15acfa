"""Path elements and sets of field paths, in the JSON encoding of managedFields' fieldsV1.

A node is a dict from path elements to nodes (in other modules, a Node is a part of the field
model). A path is in the set if its node is empty or has the member ".". The root stands for the
object itself, which has no owner, so an empty root is the empty set.

No function changes its arguments. Results share nodes with the arguments, so nodes must never be
changed in place once they are part of a set. Rejected: classes of nodes with membership flags.
Translating to and from JSON cost more than all set operations together.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any

from controller.managedfields import gotext
from controller.managedfields.errors import TypeMismatchError

SELF = "."
# The order of the types of path elements: the node itself, names, keys, values, indexes.
_ORDER = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def encode_key(keys: dict[str, Any]) -> str:
    """Return the path element of an item of a keyed list, from the values of its key fields."""
    if len(keys) == 1:
        ((name, value),) = keys.items()
        if isinstance(value, str):
            return encode_text_key(name, value)
    inner = ",".join(
        f"{gotext.encode_json(name)}:{gotext.encode_json(keys[name])}" for name in sorted(keys)
    )
    return f"k:{{{inner}}}"


@functools.lru_cache(maxsize=4096)
def encode_text_key(name: str, value: str) -> str:
    """Return the path element of an item with one key field that is a string; cached.

    Most items have such a key.
    """
    return f"k:{{{gotext.encode_json(name)}:{gotext.encode_json(value)}}}"


def encode_value(value: Any) -> str:
    """Return the path element of a member of a set."""
    return "v:" + gotext.encode_json(value)


def normalise_element(element: str) -> str | None:
    """Return a path element in its canonical spelling; None for an unknown element type.

    Clients may write the JSON in an element with spaces or with keys in another order.

    Raises:
        ValueError: the text is not a path element; the message is the real server's.
    """
    if len(element) < 2:
        raise ValueError("key must be 2 characters long:")
    if element[1] != ":":
        raise ValueError(f"missing colon: {element}")
    kind, name = element[0], element[2:]
    if kind == "f":
        return element
    if kind == "i":
        return f"i:{int(name)}"
    if kind == "v":
        return encode_value(json.loads(name))
    if kind == "k":
        keys = json.loads(name)
        if not isinstance(keys, dict):
            raise TypeMismatchError(f"not an object: {name}")
        return encode_key(keys)
    return None


@functools.lru_cache(maxsize=4096)
def make_sort_key(element: str) -> tuple[Any, ...]:
    """Return the sort key of a path element: ".", then names, keys, values, indexes."""
    kind, rest = element[0], element[2:]
    rank = _ORDER[kind]
    if kind == "k":
        keys: dict[str, Any] = json.loads(rest)
        return (rank, *((name, *_make_value_sort_key(keys[name])) for name in sorted(keys)))
    if kind == "v":
        return (rank, *_make_value_sort_key(json.loads(rest)))
    return (rank, int(rest)) if kind == "i" else (rank, rest)


def _make_value_sort_key(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value: numbers, strings, booleans, then all others."""
    if isinstance(value, bool):  # first, because Python's bool is a subclass of int
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, gotext.encode_json(value))


@functools.lru_cache(maxsize=4096)
def format_element(element: str) -> str:
    """Return a path element as conflict messages print it."""
    kind, rest = element[0], element[2:]
    if kind == "f":
        return "." + rest
    if kind == "i":
        return f"[{rest}]"
    value = json.loads(rest)
    if kind == "v":
        return f"[={_format_value(value)}]"
    return "[" + ",".join(f"{name}={_format_value(value[name])}" for name in sorted(value)) + "]"


def _format_value(value: Any) -> str:
    """Return a value of a key field or set member as conflict messages print it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_format_value, value)) + "]"
    if isinstance(value, dict):
        return "".join(f"{name}={_format_value(value[name])}" for name in sorted(value))
    return gotext.encode_json(value)


Fields = dict[str, Any]


def is_member(node: Fields) -> bool:
    """Return whether the path of this node, which is not the root, is in the set."""
    return not node or SELF in node


def union(first: Fields, second: Fields) -> Fields:
    """Return the paths that are in `first`, in `second` or in both."""
    if not first or not second:
        return first or second  # an empty root is the empty set
    return _join(first, second)


def _join(first: Fields, second: Fields) -> Fields:
    """Return the union of two nodes that have children."""
    out = dict(first)
    for element, node in second.items():
        first_node = out.get(element)
        out[element] = node if first_node is None else _union(first_node, node)
    return out


def _union(first: Fields, second: Fields) -> Fields:
    """Return the union of two nodes below the root, where an empty node is itself a path."""
    if first and second:
        return _join(first, second)
    # One node is empty, so the path itself is a member; SELF keeps it beside the children.
    children = first or second
    return children if not children or SELF in children else {SELF: {}, **children}


def difference(first: Fields, second: Fields) -> Fields:
    """Return the paths of `first` that are not in `second`.

    Removing a path keeps the paths below it. `first` itself is returned if it loses nothing, so
    that callers can compare by identity.
    """
    if not first or not second:
        return first  # an empty root is the empty set
    return _difference(first, second) or {}


def _difference(first: Fields, second: Fields) -> Fields | None:
    """Return `first` without the paths of `second`, for nodes below the root.

    None if no path is left; `first` itself if it loses nothing.
    """
    if not first:  # only the path itself is in the set
        return None if is_member(second) else first
    if not second:  # only the path itself is subtracted
        if SELF not in first:
            return first
        return _make_canonical(
            {element: node for element, node in first.items() if element != SELF}
        )
    out = first
    fewer = first if len(first) < len(second) else second  # only common elements lose paths
    for element in fewer:
        node, subtracted = first.get(element), second.get(element)
        if node is None or subtracted is None:
            continue
        rest = _difference(node, subtracted)
        if rest is node:
            continue
        if out is first:
            out = dict(first)  # copied at the first change, as nodes are shared
        if rest is None:
            del out[element]
        else:
            out[element] = rest
    return first if out is first else _make_canonical(out)


def covers(whole: Fields, part: Fields) -> bool:
    """Return whether all paths of `part` are in `whole`."""
    for element, node in part.items():
        whole_node = whole.get(element)
        if whole_node is None:
            return False
        if node:
            if not covers(whole_node, node):
                return False
        elif not is_member(whole_node):
            return False
    return True


def _make_canonical(node: Fields) -> Fields | None:
    """Return a node in canonical form: {} if it has only its own path, None if it has no path."""
    if not node:
        return None
    return {} if len(node) == 1 and SELF in node else node


def subtract_trees(first: Fields, second: Fields) -> Fields:
    """Return the paths of `first` that are neither in `second` nor below a path in `second`."""
    out = {}
    for element, node in first.items():
        removed = second.get(element)
        if removed is None:
            out[element] = node
        elif is_member(removed):
            continue  # the path is removed with all paths below it
        elif not node:
            out[element] = node  # the path itself, while `second` has only paths below it
        elif rest := subtract_trees(node, removed):
            # {} and {".": {}} mean the same; {} is the canonical form.
            out[element] = {} if len(rest) == 1 and SELF in rest else rest
    return out


def intersection(first: Fields, second: Fields) -> Fields:
    """Return the paths that are in both sets."""
    if not first or not second:
        return {}  # an empty root is the empty set
    return _intersection(first, second) or {}


def _intersection(first: Fields, second: Fields) -> Fields | None:
    """Return the paths in both nodes, for nodes below the root; None if they share no path."""
    if not first or not second:
        return {} if is_member(first) and is_member(second) else None
    fewer, more = (first, second) if len(first) < len(second) else (second, first)
    out = {}
    for element, node in fewer.items():
        other_node = more.get(element)
        if other_node is not None:
            common = _intersection(node, other_node)
            if common is not None:
                out[element] = common
    return _make_canonical(out)


def order_elements(node: Fields) -> Fields:
    """Return the set with its elements in the order that the server writes them."""
    if not node:
        return node
    names = sorted(node)
    # "." and the names ("f:…") are in order after the first sort; keys, values and indexes
    # ("k:…", "v:…", "i:…") need the sort key.
    if names[-1][0] > "f":
        names.sort(key=make_sort_key)
    return {name: order_elements(node[name]) for name in names}


def list_paths(fields: Fields, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of a set: of each node, the paths to its children before deeper paths.

    The real server has this order, too.
    """
    names = sorted((element for element in fields if element != SELF), key=make_sort_key)
    for element in names:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in names:
        yield from list_paths(fields[element], (*prefix, element))


def format_path(path: tuple[str, ...]) -> str:
    """Return a path as messages print it: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(format_element, path))


def contains_path(fields: Fields, path: tuple[str, ...]) -> bool:
    """Return whether a path is in the set."""
    node = fields
    for element in path:
        child = node.get(element)
        if child is None:
            return False
        node = child
    return bool(path) and is_member(node)  # the empty path is the root, which has no owner


def read_fields(raw: Any, *, depth: int = 0) -> Fields:
    """Return the fieldsV1 that a client wrote, in canonical spelling, without unknown elements.

    Args:
        depth: how many path elements lead to `raw`; 0 for the root.

    Raises:
        TypeMismatchError: `raw`, or a value below it, is not an object.
        ValueError: a name in it is not a path element.
    """
    if raw is None and depth == 0:
        return {}  # the server accepts an entry without fieldsV1 as one that owns nothing
    if not isinstance(raw, dict):
        raise TypeMismatchError("fields are objects in objects")
    out: Fields = {}
    for element, node in raw.items():
        if element == SELF:
            if depth:  # the root has no owner
                out[SELF] = {}
            continue
        spelled = normalise_element(element)
        if spelled is not None:
            out[spelled] = read_fields(node, depth=depth + 1)
    # {} and {".": {}} mean the same; {} is the canonical form.
    return {} if len(out) == 1 and SELF in out else out
