"""The picture of one pool, the same for pools of all kinds.

Figures and extents are computed from the same held addresses, and not from a status, which may be
a moment behind. Each is computed when it is read for the first time.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from allocator import AddressRange, Capacity, Family
from controller.meta import Key
from reconcilers.pictures.extents import (
    AddressState,
    Extent,
    HeldAddresses,
    Reserved,
    format_object,
    list_extents,
)
from reconcilers.spaces.offers import PoolName

NO_CAPACITY = Capacity(0, 0, available=0, largest_free=0, fragmentation_percent=0)
"""The capacity of a pool that hands out nothing."""


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """An object that waits for addresses of a pool.

    Args:
        kind: of the object; with its group if the kind alone is ambiguous.
        key: its namespace and name.
        tenant: the consumer of the addresses, as people read it.
        purpose: the use of the addresses: `nodes`, `loadbalancer`, `claim`, `cluster`, …
        since: when the addresses were asked for; None if no server has stamped the object.
        reason: why it has none yet.
        families: the families without which it is not served; empty if more room would not help.
    """

    kind: str
    key: Key
    tenant: str
    purpose: str
    since: datetime | None = None
    reason: str = "not looked at yet"
    families: tuple[Family, ...] = ()

    @property
    def text(self) -> str:
        """The object as `Kind namespace/name`; an IPAllocation of ours has no kind before it."""
        return format_object(self.kind, self.key)


@dataclass(frozen=True, slots=True)
class PoolHolders:
    """The addresses of a pool that objects of some kinds hold, and the requests that wait.

    Args:
        held_addresses: addresses in a row with their holders.
        waiting: the requests without addresses.
    """

    held_addresses: Sequence[HeldAddresses] = ()
    waiting: Sequence[PoolRequest] = ()

    def yield_tenants(self) -> Iterator[str]:
        """Yield the tenant of each holder and of each request; a tenant may be repeated."""
        yield from (entry.holder.tenant for entry in self.held_addresses)
        yield from (request.tenant for request in self.waiting)


NO_HOLDERS = PoolHolders()


@dataclass(frozen=True, slots=True)
class FamilyFigures:
    """The addresses of one family of a pool, counted in what the pool hands out.

    Args:
        capacity: of the addresses, or prefixes, that the pool may hand out.
        outside: how many ranges are held that the pool may not hand out.
    """

    capacity: Capacity
    outside: int = 0


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool in numbers.

    Args:
        name: its kind, namespace and name.
        part: the part of it that hands out by itself; empty for a whole pool.
        families: the figures of each family.
        waiting: how many requests wait.
        waiting_since: since when the oldest waits; None if none waits, or that is not known.
        is_known: False if objects that were not read may hold more: then only the total is known.
    """

    name: PoolName
    part: str
    families: tuple[FamilyFigures, ...]
    waiting: int = 0
    waiting_since: datetime | None = None
    is_known: bool = True


@dataclass(frozen=True)
class PoolFamily:
    """The addresses of one family that a pool offers.

    Args:
        offers: what the spec offers, for people.
        label: the CIDR that is drawn, for people; `offers` if there is a fault.
        cidr: the addresses that are drawn at least; None if there is a fault.
        usable: the addresses that may be handed out, ascending.
        reserved: addresses that are never handed out, with reasons.
        held_addresses: the addresses that objects hold, with the holders.
        compute_capacity: returns the capacity, in units of what the pool hands out.
        prefix_length: the length of the prefixes that are handed out; None if the pool hands out
            single addresses or ranges.
        owns_cidr: False if the CIDR is only the smallest around the addresses of the spec.
        all_known: False if objects that were not read may hold some of it.
        fault: why it hands out nothing and cannot be drawn; empty if it can.
    """

    offers: str
    label: str
    cidr: AddressRange | None = None
    usable: Sequence[AddressRange] = ()
    reserved: Sequence[Reserved] = ()
    held_addresses: Sequence[HeldAddresses] = ()
    compute_capacity: Callable[[], Capacity] = lambda: NO_CAPACITY
    prefix_length: int | None = None
    owns_cidr: bool = True
    all_known: bool = True
    fault: str = ""

    @property
    def family(self) -> Family | None:
        """4 or 6; None if there is a fault."""
        return self.cidr.family if self.cidr is not None else None

    @cached_property
    def extents(self) -> tuple[Extent, ...]:
        """All addresses, ascending, without gaps inside the CIDR; empty if there is a fault."""
        if self.cidr is None:
            return ()
        return list_extents(
            self.cidr,
            self.usable,
            reserved=self.reserved,
            held_addresses=self.held_addresses,
            all_known=self.all_known,
        )

    @cached_property
    def figures(self) -> FamilyFigures:
        """The figures of the family, computed from the objects that were read."""
        return FamilyFigures(self.compute_capacity(), self._count_outside())

    @cached_property
    def holder_count(self) -> int:
        """How many objects hold addresses of this family."""
        return len({(entry.holder.kind, entry.holder.key) for entry in self.held_addresses})

    @cached_property
    def tenant_count(self) -> int:
        """How many tenants hold addresses of this family."""
        return len({entry.holder.tenant for entry in self.held_addresses})

    def _count_outside(self) -> int:
        """Return how many held ranges have an address that may not be handed out."""
        runs = _join_ranges(self.usable)
        starts = [(run.family, run.first) for run in runs]
        ranges = {entry.range for entry in self.held_addresses}
        return sum(not _is_within(held_range, runs, starts) for held_range in ranges)

    @property
    def known_extents(self) -> Sequence[Extent]:
        """The extents, without the gaps of a CIDR that is drawn around the spec's addresses."""
        if self.owns_cidr:
            return self.extents
        outside = AddressState.OUTSIDE
        return [extent for extent in self.extents if extent.state is not outside]

    @property
    def inside(self) -> tuple[Extent, ...]:
        """The extents in the CIDR.

        Pictures show these alone: held addresses far outside would shrink the pool to a dot.
        """
        cidr = self.cidr
        return tuple(extent for extent in self.extents if cidr and cidr.contains(extent.range))

    def count_states(self) -> Counter[AddressState]:
        """Return how many addresses are in each state."""
        counts: Counter[AddressState] = Counter()
        for extent in self.extents:
            counts[extent.state] += extent.range.size
        return counts

    def find_extent(self, address: str) -> Extent | None:
        """Return the extent that has an address; None if no extent has it."""
        return next((extent for extent in self.extents if extent.range.contains(address)), None)

    @property
    def first_and_size(self) -> tuple[int, int]:
        """The number of the CIDR's first address, and how many addresses it has."""
        assert self.cidr is not None, "what has a fault is not drawn"
        return self.cidr.first, self.cidr.size

    def format_address(self, number: int) -> str:
        """Return the address of the CIDR's family with this number, as text."""
        assert self.cidr is not None, "what has a fault is not drawn"
        return AddressRange(number, number, self.cidr.family).start_text


def _join_ranges(ascending: Iterable[AddressRange]) -> list[AddressRange]:
    """Return the same addresses as runs: ranges that overlap or touch are joined."""
    runs: list[AddressRange] = []
    for part in ascending:
        if runs and runs[-1].family == part.family and runs[-1].last + 1 >= part.first:
            last = max(runs[-1].last, part.last)
            runs[-1] = AddressRange(runs[-1].first, last, part.family)
        else:
            runs.append(part)
    return runs


def _is_within(
    held_range: AddressRange, runs: Sequence[AddressRange], starts: Sequence[tuple[Family, int]]
) -> bool:
    """Return whether a range lies in one of the runs.

    Args:
        runs: usable addresses in ascending order, neighbours joined.
        starts: family and first address of each run, for the search.
    """
    run_index = bisect_right(starts, (held_range.family, held_range.first)) - 1
    return run_index >= 0 and runs[run_index].contains(held_range)


@dataclass(frozen=True)
class PoolPicture:
    """A pool of any kind: its addresses, their holders, and the waiting requests.

    Args:
        name: its kind, namespace and name.
        group: of its kind.
        families: what it offers, by family; one that cannot be parsed has a fault.
        waiting: the requests without addresses, oldest first.
        ready: the status of its Ready condition: True, False or Unknown.
        reason: the message of that condition.
        part: the part of the pool that hands out by itself: a datacenter of an IPAMPool; empty for
            a whole pool.
        not_read: objects that may hold some of it and were not read: kinds that the user may not
            read, and objects that cannot be decoded. If there are any, no figure but the total is
            known.
    """

    name: PoolName
    group: str
    families: Sequence[PoolFamily]
    waiting: Sequence[PoolRequest] = ()
    ready: str = "Unknown"
    reason: str = "not reconciled"
    part: str = ""
    not_read: Sequence[str] = ()

    @property
    def full_kind(self) -> str:
        """The kind and its group, in small letters, as `kubectl get -o name` prints them."""
        return f"{self.name.kind.lower()}.{self.group}"

    @property
    def title(self) -> str:
        """The pool as messages name it: `Kind namespace/name`, and its part."""
        whole = f"{self.name.kind} {self.name.key}"
        return f"{whole} in {self.part}" if self.part else whole

    @property
    def fault(self) -> str:
        """Why the pool hands out nothing; empty if its spec can be served."""
        return "; ".join(family.fault for family in self.families if family.fault)

    @property
    def figures(self) -> PoolFigures:
        """The pool in numbers."""
        since = [request.since for request in self.waiting if request.since is not None]
        return PoolFigures(
            self.name,
            self.part,
            families=tuple(family.figures for family in self.families),
            waiting=len(self.waiting),
            waiting_since=min(since, default=None),
            is_known=not self.not_read,
        )

    def with_not_read(self, not_read: Sequence[str]) -> "PoolPicture":
        """Return the picture for a user who may not read all holders of the pool's addresses.

        Args:
            not_read: which kinds, and in which namespaces.
        """
        if not not_read:
            return self
        families = [replace(family, all_known=False) for family in self.families]
        return replace(self, families=families, not_read=(*self.not_read, *not_read))

    def yield_tenants(self) -> Iterator[str]:
        """Yield the tenant of each holder and of each request; a tenant may be repeated."""
        for family in self.families:
            yield from (entry.holder.tenant for entry in family.held_addresses)
        yield from (request.tenant for request in self.waiting)


def order_requests(requests: Iterable[PoolRequest]) -> tuple[PoolRequest, ...]:
    """Return requests oldest first; those without a time come last."""

    def make_sort_key(request: PoolRequest) -> tuple[bool, str, Key]:
        """Return the sort key of a request: without a time last, then by time and name."""
        since = request.since
        return since is None, since.isoformat() if since is not None else "", request.key

    return tuple(sorted(requests, key=make_sort_key))
