"""Whether two allocations ever held the same address: judged by what the API server shows."""

from collections import defaultdict
from collections.abc import Iterable
from ipaddress import ip_address


class Overlaps:
    """The addresses that each allocation holds, after each change in the API server's history.

    A range is held from the change that shows it until the allocation is gone, in whatever phase.
    """

    def __init__(self) -> None:
        self.pairs: set[frozenset[str]] = set()
        """The uids of allocations that held an address at the same time, two each."""
        self._held: dict[str, tuple[range, ...]] = {}
        self._holders: dict[int, set[str]] = defaultdict(set)

    def note_ranges(self, uid: str, *ends: tuple[str, str]) -> None:
        """Record that an allocation shows these ranges; two empty texts are no range."""
        spans = tuple(
            parse_range(*ends_of_range) for ends_of_range in ends if ends_of_range != ("", "")
        )
        if self._held.get(uid, ()) == spans:
            return
        self.note_deletion(uid)
        self._held[uid] = spans
        for address in _list_addresses(spans):
            holders = self._holders[address]
            self.pairs.update(frozenset((uid, other)) for other in holders)
            holders.add(uid)

    def note_deletion(self, uid: str) -> None:
        """Record that an allocation does not exist any more."""
        for address in _list_addresses(self._held.pop(uid, ())):
            self._holders[address].discard(uid)

    def size(self, uid: str) -> int:
        """Return how many addresses an allocation holds."""
        return sum(map(len, self._held.get(uid, ())))


def _list_addresses(ranges: Iterable[range]) -> Iterable[int]:
    return (address for span in ranges for address in span)


def parse_range(start: str, end: str) -> range:
    """Return the addresses of a range as numbers.

    Raises:
        ValueError: it is no range.
    """
    first, last = int(ip_address(start)), int(ip_address(end))
    if first > last:
        raise ValueError(f"{start}-{end} ends before it starts")
    return range(first, last + 1)
