"""What a reader of the page has: messages taken as the page takes them."""

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

KEYED = ("looks", "tenants", "pools")
KEYED_OF_POOL = ("extents", "requests")


class Received:
    """The state that a reader has after some messages."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def take(self, content: str) -> dict[str, Any]:
        """Take a message; return the parts that it changed, of keyed parts the entries."""
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
    known: dict[str, Any], change: dict[str, Any], are_pools: bool
) -> dict[str, Any]:
    """Change entries; return the new ones and those that changed."""
    for key in change["drop"]:
        del known[key]
    for key, entry in change["set"].items():
        known[key] = _pool(known.get(key, {}), entry) if are_pools else entry
    return {key: known[key] for key in change["set"]}


def _pool(known: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    pool = {name: dict(known.get(name, {})) for name in KEYED_OF_POOL}
    for name in KEYED_OF_POOL:
        if name in entry:
            _apply_change(pool[name], entry[name], are_pools=False)
    return {**known, **entry, **pool}


def ranges(pool: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ranges of a pool in order, each with its first address as `start`."""
    first = int(ip_address(pool["first"])) if pool["first"] else 0
    address = IPv6Address if pool["family"] == 6 else IPv4Address
    ordered = sorted(pool["extents"].items(), key=lambda item: int(item[0]))
    return [
        {"note": "", "holders": [], **extent, "start": str(address(first + int(at)))}
        for at, extent in ordered
    ]
