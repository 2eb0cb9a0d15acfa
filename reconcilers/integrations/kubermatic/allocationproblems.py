"""The problems of IPAMAllocations in the datacenters of a pool, stored by allocation.

The message about an allocation that shares addresses with others names only the oldest of the
others; of two equally old ones, the first by namespace and name. So a change of an allocation
affects few problems: its own, the problems that name it, and the problems that must name it now.
Only these problems are computed again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from allocator import AddressRange
from allocator.addresses import union
from controller.meta import Key
from reconcilers.integrations.kubermatic.api import JOURNALS, IPAMAllocation
from reconcilers.integrations.kubermatic.facts import LAST, Spaces
from reconcilers.integrations.kubermatic.holdings import (
    OVERLAPPING,
    AllocationProblem,
    parse_holding,
)
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder
from reconcilers.spaces.intervals import Intervals

INCOMPATIBLE = "pool is incompatible with a current cluster allocation"
INVALID_ALLOCATION = "InvalidAllocation"
OUT_OF_POOL = "OutOfPool"

Rank = tuple[datetime, Key]
"""Creation time and key of an allocation; the oldest allocation has the lowest rank."""


def find_problems(
    allocations: Sequence[IPAMAllocation], space: DatacenterSpace
) -> Mapping[Key, AllocationProblem]:
    """Return the problems of allocations in one datacenter of a pool, by their keys."""
    overlaps = find_overlaps(allocations, space)
    problem_by_key = {
        allocation.metadata.key: find_problem(
            allocation, space, overlaps.get(allocation.metadata.key)
        )
        for allocation in allocations
    }
    return {key: problem for key, problem in problem_by_key.items() if problem is not None}


def find_problem(
    allocation: IPAMAllocation, space: DatacenterSpace, other: Rank | None
) -> AllocationProblem | None:
    """Return the problem of an allocation; None if it has none. The first row that fits decides.

        InvalidAllocation       its spec cannot be parsed
        OutOfPool               some of its addresses are outside of the pool's CIDR, or its prefix
                                is excluded
        Overlapping             another allocation has some of its addresses
        OutOfPool (harmless)    some of its single addresses are excluded

    Args:
        space: the space of the datacenter that the allocation names.
        other: the oldest other allocation that holds some of its addresses; None if no other does.
    """
    holding = parse_holding(allocation.spec)
    if holding.faults:
        return AllocationProblem(INVALID_ALLOCATION, "; ".join(holding.faults))
    unavailable = [part for part in holding.ranges if not space.hands_out(part)]
    ranges = ", ".join(part.text for part in unavailable)
    # A prefix is replaced as a whole, so there an exclusion is as bad as lying outside the pool.
    if unavailable and (space.prefixes or not all(space.has(part) for part in unavailable)):
        return AllocationProblem(
            OUT_OF_POOL, f"{INCOMPATIBLE}: {ranges} is excluded, or not in the pool"
        )
    if other is not None:
        _, key = other
        message = f"addresses of this allocation are also held by IPAMAllocation {key}"
        return AllocationProblem(OVERLAPPING, message)
    if unavailable:
        # As KKP does: an address of a range counts, also if it was excluded later.
        message = f"{ranges} has addresses that the pool excludes now; they stay where they are"
        return AllocationProblem(OUT_OF_POOL, message, is_harmless=True)
    return None


class _HeldSpan(NamedTuple):
    """One range of addresses that an allocation holds, as numbers.

    Args:
        key: the key of the allocation.
    """

    first: int
    last: int
    key: Key


def find_overlaps(
    allocations: Iterable[IPAMAllocation], space: DatacenterSpace
) -> dict[Key, Rank]:
    """Return the oldest other allocation that overlaps each allocation of one datacenter.

    Returns:
        By the key of each allocation that overlaps others: the rank of the oldest of the others.
    """
    by_key = {allocation.metadata.key: allocation for allocation in allocations}
    crowded = [by_key[key] for key in _list_crowded(by_key.values(), space)]
    return _find_oldest(crowded, crowded, space)


def _list_crowded(
    allocations: Iterable[IPAMAllocation], space: DatacenterSpace
) -> Collection[Key]:
    """Return all allocations that overlap others, and possibly a few that do not.

    Ranges sorted by their first address form groups: a range that begins at or before the highest
    last address of the group belongs to the group. A group of two or more allocations is crowded.
    """
    crowded, group = set[Key](), set[Key]()
    highest_last = -1  # the highest last address of the group
    parts = (part for allocation in allocations for part in _list_parts(allocation, space))
    for part in sorted(parts):
        if part.first > highest_last:
            group = set()
        group.add(part.key)
        highest_last = max(highest_last, part.last)
        if len(group) > 1:
            # The rest of a larger group was added before, so the cost stays linear.
            crowded |= group if len(group) == 2 else {part.key}
    return crowded


def _find_oldest(
    allocations: Iterable[IPAMAllocation], others: Iterable[IPAMAllocation], space: DatacenterSpace
) -> dict[Key, Rank]:
    """Return the oldest other allocation that each allocation overlaps, by its key.

    Args:
        others: the allocations to search; they may include `allocations`, as an allocation does
            not overlap itself.
        space: the space of the datacenter of all these allocations.

    Returns:
        By the key of each allocation that overlaps another one: the rank of the oldest such other.
    """
    oldest = dict[Key, Rank]()
    parts_by_key = {
        allocation.metadata.key: _list_parts(allocation, space) for allocation in allocations
    }
    pending_spans = Intervals[_HeldSpan]()
    for part in chain.from_iterable(parts_by_key.values()):
        pending_spans.add(part)
    # The others are sorted from the oldest to the youngest, so the first other that overlaps an
    # allocation is the oldest. The spans of that allocation are then removed: otherwise the cost
    # would grow with the square of the number of allocations that hold one address.
    for other in sorted(others, key=_rank):
        overlapped = {
            part.key
            for other_part in _list_parts(other, space)
            for part in pending_spans.find_touching(other_part.first, other_part.last)
        }
        for key in overlapped - {other.metadata.key}:
            oldest[key] = _rank(other)
            for part in parts_by_key[key]:
                pending_spans.remove(part)
    return oldest


class AllocationProblems:
    """The problems of all allocations of one pool.

    Args:
        spaces: what the pool hands out.
        allocations: all allocations of the pool.
    """

    def __init__(self, spaces: Spaces, allocations: Iterable[IPAMAllocation] = ()) -> None:
        self.spaces = spaces
        """What the pool hands out."""
        self.by_key: dict[Key, AllocationProblem] = {}
        """The problems, by the keys of allocations."""
        self._oldest: dict[Key, Rank] = {}
        """By the key of an allocation: the oldest other allocation that overlaps it."""
        self._named_by: dict[Key, set[Key]] = {}
        """The reverse of `_oldest`: the keys of the allocations that have it as their oldest."""
        for name, members in _group_by_datacenter(allocations, spaces).items():
            for key, oldest in find_overlaps(members, spaces[name]).items():
                self._set_oldest(key, oldest)
            for allocation in members:
                self._store_problem(allocation.metadata.key, allocation)

    def update(
        self, changed: Iterable[Holder], holdings: Holdings, find: Find[IPAMAllocation]
    ) -> set[Holder]:
        """Compute the problems again that a change of some allocations may affect.

        Args:
            changed: the holders whose allocations were created, changed or deleted.
            holdings: the holdings of the pool, as the caches show them now.
            find: returns the allocation of a holder, as the caches show it now.

        Returns:
            The holders that have changed, and all holders whose problem is different now.
        """
        changed_keys = {holder.key for holder in changed}
        # Only the oldest overlapping allocation of each allocation is stored. If the oldest has
        # changed, it is searched again among all allocations that hold the same addresses.
        affected_keys = changed_keys.union(*(self._named_by.get(key, ()) for key in changed_keys))
        allocations = filter(None, (find(Holder(JOURNALS.kind, key)) for key in affected_keys))
        oldest = dict[Key, Rank]()
        for name, members in _group_by_datacenter(allocations, self.spaces).items():
            space = self.spaces[name]
            rivals = _list_rivals(members, name, space=space, holdings=holdings, find=find)
            oldest |= _find_oldest(members, rivals, space)
            # The changed allocations may also be the oldest for allocations that have not changed.
            oldest |= self._find_new_oldest(
                [rival for rival in rivals if rival.metadata.key not in affected_keys],
                [member for member in members if member.metadata.key in changed_keys],
                space,
            )
        computed = affected_keys.union(oldest)
        for key in computed:
            self._set_oldest(key, oldest.get(key))
        different = {
            key for key in computed if self._store_problem(key, find(Holder(JOURNALS.kind, key)))
        }
        return {Holder(JOURNALS.kind, key) for key in changed_keys | different}

    def list_differences(self, other: "AllocationProblems") -> list[str]:
        """Return the parts of the state that differ, by allocation."""
        return sorted(
            f"{part} of {key}"
            for part, by_key in self.state.items()
            for key in {**by_key, **other.state[part]}
            if by_key.get(key) != other.state[part].get(key)
        )

    @property
    def state(self) -> Mapping[str, Mapping[Key, object]]:
        """All that is stored, for comparisons: the problems, and which allocations overlap."""
        return {"problem": self.by_key, "overlap": self._oldest, "overlaps": self._named_by}

    def _set_oldest(self, key: Key, oldest: Rank | None) -> None:
        """Store the oldest other allocation that overlaps allocation `key`; None if none does."""
        previous = self._oldest.pop(key, None)
        if previous is not None:
            _, previous_key = previous
            named_by = self._named_by[previous_key]
            named_by.discard(key)
            if not named_by:
                del self._named_by[previous_key]
        if oldest is not None:
            self._oldest[key] = oldest
            _, oldest_key = oldest
            self._named_by.setdefault(oldest_key, set()).add(key)

    def _find_new_oldest(
        self,
        unchanged: Iterable[IPAMAllocation],
        changed: Iterable[IPAMAllocation],
        space: DatacenterSpace,
    ) -> dict[Key, Rank]:
        """Find the unchanged allocations for which a changed one is now the oldest that overlaps.

        Args:
            unchanged: the allocations to check; the stored oldest of each has not changed either.
            changed: the allocations that have changed.
            space: the space of the datacenter of all these allocations.

        Returns:
            By the key of each such unchanged allocation: the rank of the changed one.
        """
        oldest_changed = _find_oldest(unchanged, changed, space).items()
        stored_ranks = self._oldest
        return {
            key: rank
            for key, rank in oldest_changed
            if key not in stored_ranks or rank < stored_ranks[key]
        }

    def _store_problem(self, key: Key, allocation: IPAMAllocation | None) -> bool:
        """Compute and store the problem of an allocation; return whether it differs from before.

        An allocation that is gone, or of a datacenter that cannot be served, has no problem.
        """
        space = None if allocation is None else self.spaces.get(allocation.spec.dc)
        problem = None
        if allocation is not None and space is not None:
            problem = find_problem(allocation, space, self._oldest.get(key))
        before = self.by_key.pop(key, None)
        if problem is not None:
            self.by_key[key] = problem
        return problem != before


def _rank(allocation: IPAMAllocation) -> Rank:
    """Return a sort key of allocations: the oldest first, then by namespace and name."""
    return allocation.metadata.creationTimestamp or LAST, allocation.metadata.key


def _group_by_datacenter(
    allocations: Iterable[IPAMAllocation], spaces: Spaces
) -> dict[str, list[IPAMAllocation]]:
    """Return allocations by datacenter, without datacenters that cannot be served."""
    by_datacenter = dict[str, list[IPAMAllocation]]()
    for allocation in allocations:
        if allocation.spec.dc in spaces:
            by_datacenter.setdefault(allocation.spec.dc, []).append(allocation)
    return by_datacenter


def _list_rivals(
    allocations: Iterable[IPAMAllocation],
    datacenter: str,
    space: DatacenterSpace,
    holdings: Holdings,
    find: Find[IPAMAllocation],
) -> list[IPAMAllocation]:
    """Return all allocations of a datacenter that hold blocks of the given allocations.

    These include the given allocations themselves.

    Args:
        datacenter: the name of their datacenter.
        holdings: the holdings of the pool.
        find: returns the allocation of a holder.
    """
    parts = (part for allocation in allocations for part in _list_parts(allocation, space))
    spans = sorted((part.first >> space.shift, part.last >> space.shift) for part in parts)
    holders = {
        holder
        for first, last in union(spans)
        for holder in holdings.list_holders_of(AddressRange(first, last, space.family), datacenter)
    }
    return [rival for holder in holders if (rival := find(holder)) is not None]


def _list_parts(allocation: IPAMAllocation, space: DatacenterSpace) -> list[_HeldSpan]:
    """Return the ranges of an allocation in the address family of a space, each once, sorted."""
    ranges = (
        part.convert_to_family(space.family) for part in parse_holding(allocation.spec).ranges
    )
    spans = {(part.first, part.last) for part in ranges if part is not None}
    return [_HeldSpan(first, last, allocation.metadata.key) for first, last in sorted(spans)]
