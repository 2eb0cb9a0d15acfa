"""Whether two allocations ever held the same address: judged by what the API server shows."""

from collections import defaultdict
from ipaddress import IPv4Address


class Overlaps:
    """Follows who holds what, change by change in the order of the API server's history.

    A range is held from the change that shows it until the allocation is gone, in whatever phase.
    """

    def __init__(self) -> None:
        self.pairs: set[frozenset[str]] = set()
        """The uids of allocations that held an address at the same time, two each."""
        self._held: dict[str, range] = {}
        self._holders: dict[int, set[str]] = defaultdict(set)

    def shown(self, uid: str, start: str, end: str) -> None:
        """Note that an allocation shows this range; two empty texts are none."""
        addresses = numbers(start, end)
        if self._held.get(uid, range(0)) == addresses:
            return
        self.gone(uid)
        self._held[uid] = addresses
        for address in addresses:
            holders = self._holders[address]
            self.pairs.update(frozenset((uid, other)) for other in holders)
            holders.add(uid)

    def gone(self, uid: str) -> None:
        """Note that an allocation does not exist any more."""
        for address in self._held.pop(uid, ()):
            self._holders[address].discard(uid)

    def size(self, uid: str) -> int:
        """Return how many addresses an allocation holds."""
        return len(self._held.get(uid, ()))


def numbers(start: str, end: str) -> range:
    """Return the addresses of a range as numbers.

    Raises:
        ValueError: it is no range.
    """
    if not start and not end:
        return range(0)
    first, last = int(IPv4Address(start)), int(IPv4Address(end))
    if first > last:
        raise ValueError(f"{start}-{end} ends before it starts")
    return range(first, last + 1)
