"""The state of the page in a browser, computed from messages as the page's script does it."""

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

KEYED = ("looks", "tenants", "pools")
KEYED_OF_POOL = ("extents", "requests")


class Received:
    """The state of the page after some messages."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def take(self, content: str) -> dict[str, Any]:
        """Apply a message; return the changed parts, and of keyed parts the changed entries."""
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


def of_page(html: str) -> dict[str, Any]:
    """Return the state in a page that was written into a file."""
    _, _, rest = html.partition('<script type="application/json" id="data">')
    received = Received()
    received.take(rest.partition("</script>")[0])
    return received.state


def _apply_change(
    entries: dict[str, Any], change: dict[str, Any], are_pools: bool
) -> dict[str, Any]:
    """Apply a change to entries; return the entries that are new or changed."""
    for key in change["drop"]:
        del entries[key]
    for key, entry in change["set"].items():
        entries[key] = _merge_pool(entries.get(key, {}), entry) if are_pools else entry
    return {key: entries[key] for key in change["set"]}


def _merge_pool(entries: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return a pool with the changes of an entry of a message."""
    pool = {name: dict(entries.get(name, {})) for name in KEYED_OF_POOL}
    for name in KEYED_OF_POOL:
        if name in entry:
            _apply_change(pool[name], entry[name], are_pools=False)
    return {**entries, **entry, **pool}


def ranges(pool: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ranges of a pool in order, each with its first address as `start`."""
    first = int(ip_address(pool["first"])) if pool["first"] else 0
    address = IPv6Address if pool["family"] == 6 else IPv4Address
    ordered = sorted(pool["extents"].items(), key=lambda item: int(item[0]))
    return [
        {"note": "", "holders": [], **extent, "start": str(address(first + int(at)))}
        for at, extent in ordered
    ]
