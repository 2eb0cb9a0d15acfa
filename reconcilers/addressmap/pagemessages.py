"""Messages to the page: the changes from one state to another, encoded as JSON.

A *state* is the data that the page shows; `pagedata.py` builds it. A part of a state that is keyed
is a mapping whose entries are compared by key: a message has `{"set": {...}, "drop": [...]}` for
it. Ranges and requests of a pool are keyed, too. Any other part is sent as a whole if it differs.
"""

import json
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

_KEYED = frozenset({"looks", "tenants", "pools"})
_KEYED_OF_POOL = frozenset({"extents", "requests"})
_NOTHING: Mapping[str, Any] = {}


def build_whole_message(state: Mapping[str, Any]) -> Document:
    """Return the message with a whole state, for a reader that drops any earlier state."""
    return {"whole": True, **build_change_message(_NOTHING, state)}


def build_change_message(old: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    """Return the message by which a reader that shows the old state gets the new one.

    The order of `requests`, `looks` and `tenants` is no part of a state.
    """
    message: Document = {}
    for name, part in new.items():
        if name in _KEYED:
            change = _compare_by_key(old.get(name, _NOTHING), part, are_pools=name == "pools")
            if change is not None:
                message[name] = change
        elif name not in old or old[name] != part:
            message[name] = part
    return message


def encode(message: Mapping[str, Any]) -> str:
    """Return a message as JSON in one line."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _compare_by_key(
    old: Mapping[str, Any], new: Mapping[str, Any], *, are_pools: bool = False
) -> Document | None:
    """Return the entries of a keyed part to set and to drop; None if nothing changed.

    Args:
        are_pools: whether the entries are pools, of which only the changed fields are set.
    """
    if old is new:  # unchanged parts are shared between states
        return None
    changed = {
        key: entry
        for key, entry in new.items()
        if (old_entry := old.get(key)) is not entry and old_entry != entry
    }
    dropped = [key for key in old if key not in new]
    if not changed and not dropped:
        return None
    if are_pools:
        changed = {key: _compare_pools(old.get(key, _NOTHING), new[key]) for key in changed}
    return {"set": changed, "drop": dropped}


def _compare_pools(old: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    """Return the fields of a pool that changed; its ranges and requests are compared by key."""
    message: Document = {}
    for name, part in new.items():
        if name in _KEYED_OF_POOL:
            change = _compare_by_key(old.get(name, _NOTHING), part)
            if change is not None:
                message[name] = change
        elif name not in old or old[name] != part:
            message[name] = part
    return message
