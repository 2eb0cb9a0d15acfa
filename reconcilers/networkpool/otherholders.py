"""What others than IPAllocations hold of a NetworkPool."""

from collections.abc import Sequence
from dataclasses import dataclass

from allocator import AddressRange
from reconcilers.api.networkpool import NetworkPool
from reconcilers.promises.unreadable import UnreadableHolders, UnreadableObject


@dataclass(frozen=True, slots=True)
class HeldRange:
    """A range, and the object that holds it or was promised it.

    Args:
        holder: kind and name of the object; the namespace too where it may differ.
        range: the addresses.
        foreign: whether another allocator gave them, which knows nothing of the pool.
    """

    holder: str
    range: AddressRange
    foreign: bool = False

    @property
    def text(self) -> str:
        """Holder and range, for messages."""
        return f"{self.holder} ({self.range.start_text}-{self.range.end_text})"


@dataclass(frozen=True, slots=True)
class OtherHoldings:
    """What others than IPAllocations hold of a pool, as far as their objects can be decoded.

    Args:
        ranges: what they hold.
        unreadable: the objects that cannot be decoded and may hold more.
        kinds: the kinds of requests, by full name, to which `ranges` has the open promises.
    """

    ranges: tuple[HeldRange, ...] = ()
    unreadable: tuple[UnreadableObject, ...] = ()
    kinds: frozenset[str] = frozenset()

    def join_with(self, other: "OtherHoldings") -> "OtherHoldings":
        """Return the holdings of both together."""
        unreadable = (*self.unreadable, *other.unreadable)
        kinds = self.kinds | other.kinds
        return OtherHoldings((*self.ranges, *other.ranges), unreadable, kinds)

    @property
    def unknown(self) -> str:
        """Which objects cannot be decoded, and what a person has to do; empty for none."""
        return str(UnreadableHolders(self.unreadable)) if self.unreadable else ""


class ObservedRanges:
    """Answers which addresses of pools another allocator gave; an integration overrides it.

    This class answers that there are none. The other allocator does not know NetworkPools, so it
    makes no promises, and no deletion of a pool waits for its ranges.
    """

    def list_ranges(self, pool: NetworkPool) -> Sequence[AddressRange]:
        """Return the ranges that were given, each address once.

        Raises:
            Behind: they are not known yet.
            UnreadableHolders: some of them cannot be decoded.
        """
        del pool
        return ()

    def list_ranges_with_holders(self, pool: NetworkPool) -> Sequence[HeldRange]:
        """Return the ranges that were given of a pool with their holders, for messages."""
        del pool
        return ()
