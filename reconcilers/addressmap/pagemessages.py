"""Messages to the page: what a reader who has one state lacks of another, encoded as JSON.

A part that is keyed, here and inside the parts of a pool, becomes `{"set": {...}, "drop": [...]}`.
Any other part is sent as a whole if it differs. The first message is the difference from nothing.
"""

import json
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

_KEYED = frozenset({"looks", "tenants", "pools"})
_KEYED_OF_POOL = frozenset({"extents", "requests"})
_NOTHING: Mapping[str, Any] = {}


def whole(state: Mapping[str, Any]) -> Document:
    """Return the message for a reader who has nothing, or forgets what it has."""
    return {"whole": True, **difference(_NOTHING, state)}


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> Document:
    """Return the changes from one state to another, as a message for a reader of the first.

    The order of `requests`, `looks` and `tenants` is no part of a state.
    """
    message: Document = {}
    for name, part in now.items():
        if name in _KEYED:
            change = _compare_by_key(before.get(name, _NOTHING), part, are_pools=name == "pools")
            if change is not None:
                message[name] = change
        elif name not in before or before[name] != part:
            message[name] = part
    return message


def encode(message: Mapping[str, Any]) -> str:
    """Return a message as JSON in one line."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _compare_by_key(
    before: Mapping[str, Any], now: Mapping[str, Any], *, are_pools: bool = False
) -> Document | None:
    """Return the entries of a keyed part to set and to drop; None if nothing changed."""
    if before is now:
        return None
    changed = {
        key: entry
        for key, entry in now.items()
        if (known := before.get(key)) is not entry and known != entry
    }
    dropped = [key for key in before if key not in now]
    if not changed and not dropped:
        return None
    if are_pools:
        changed = {key: _of_pool(before.get(key, _NOTHING), now[key]) for key in changed}
    return {"set": changed, "drop": dropped}


def _of_pool(before: Mapping[str, Any], now: Mapping[str, Any]) -> Document:
    """Return the fields of a pool that changed, its ranges and requests by key."""
    message: Document = {}
    for name, part in now.items():
        if name in _KEYED_OF_POOL:
            change = _compare_by_key(before.get(name, _NOTHING), part)
            if change is not None:
                message[name] = change
        elif name not in before or before[name] != part:
            message[name] = part
    return message
