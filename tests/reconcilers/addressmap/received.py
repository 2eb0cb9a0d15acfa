"""The state of the page in a browser, computed from messages as the page's script does it."""

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

KEYED = ("looks", "tenants", "pools")
"""Parts of the state whose entries have keys; messages change them entry by entry."""

KEYED_OF_POOL = ("extents", "requests")
"""Such parts of a pool."""


class ReceivedState:
    """The state of the page after all messages that have been applied to it."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def apply_message(self, content: str) -> dict[str, Any]:
        """Apply a message in JSON.

        Returns:
            the parts that the message changes; of keyed parts only the entries that it sets.
        """
        message = json.loads(content)
        if message.pop("whole", False):
            self.state = {name: {} for name in KEYED}
        news: dict[str, Any] = {}
        for name, part in message.items():
            if name in KEYED:
                news[name] = _apply_change(self.state.setdefault(name, {}), part, name == "pools")
            else:
                self.state[name] = news[name] = part
        return {"pools": {}, **news}


def read_page_state(html: str) -> dict[str, Any]:
    """Return the state that the HTML of a page written into a file contains."""
    _, _, rest = html.partition('<script type="application/json" id="data">')
    received = ReceivedState()
    received.apply_message(rest.partition("</script>")[0])
    return received.state


def _apply_change(
    entries: dict[str, Any], change: dict[str, Any], are_pools: bool
) -> dict[str, Any]:
    """Apply a part of a message to entries in place.

    Args:
        entries: the entries by key, as they were.
        change: the entries that are set, by key, and the keys that are dropped.
        are_pools: whether entries are pools, of which a message has only the changed parts.

    Returns:
        the entries that are new or changed, by key.
    """
    for key in change["drop"]:
        del entries[key]
    for key, entry in change["set"].items():
        entries[key] = _merge_pool(entries.get(key, {}), entry) if are_pools else entry
    return {key: entries[key] for key in change["set"]}


def _merge_pool(before: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return a pool with the changes of an entry of a message; `before` is not changed."""
    keyed_parts = {name: dict(before.get(name, {})) for name in KEYED_OF_POOL}
    for name in KEYED_OF_POOL:
        if name in entry:
            _apply_change(keyed_parts[name], entry[name], are_pools=False)
    return {**before, **entry, **keyed_parts}


def list_extents(pool: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the extents of a pool by address; `start` is the first address of each."""
    first = int(ip_address(pool["first"])) if pool["first"] else 0
    address = IPv6Address if pool["family"] == 6 else IPv4Address
    ordered = sorted(pool["extents"].items(), key=lambda item: int(item[0]))
    return [
        {"note": "", "holders": [], **extent, "start": str(address(first + int(at)))}
        for at, extent in ordered
    ]
