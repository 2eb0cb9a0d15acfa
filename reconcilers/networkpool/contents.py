"""What the allocations of one pool hold and wait for, kept from change to change.

The rules of a pass (protocol.py) need all allocations of the pool: which ranges are held, who
waits and in what order, how much is held, who else writes their statuses. To read each object in
each pass would make one release cost as much as the pool is large. So these facts are kept, and a
pass reads only the objects that changed since the last one.

A change notes a key, nothing else. The next call of `contents` reads the noted objects from the
cache, so any number of changes to an object cost one read, what is kept is never ahead of
or behind the cache, and an error is an error of that pass, after which all is read anew. From time
to time all is read anew anyway and compared: a difference is a bug, is reported, and what was read
replaces what was kept. The promises in a pool's status are no part of this: they are of the pool
object that a pass was given.

Thousands may wait in a full pool, most for the same: so many addresses, of such families. They are
kept in rows of equal requests, so that a pass need not try each (reconcilers/promises/queue.py).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product

from allocator import AddressRange, Layout, Space
from controller.cache import Cache, Change
from controller.clock import Clock
from controller.conditions import find
from controller.meta import Key, TracedMeta
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, FAILED, POOL_INDEX, IPAllocation
from reconcilers.conditions import READY
from reconcilers.promises.queue import Row, Rows, TenantRow

Place = tuple[datetime, Key]
"""A place in a pool's queue: since when a range is asked for, and the key as tie-break."""


def waits(allocation: IPAllocation) -> bool:
    """Return whether an allocation waits for a range, or to be told of the one it holds."""
    return (
        names.FINALIZER_ALLOCATION in allocation.metadata.finalizers
        and not allocation.metadata.terminating
        and (ranges.held(allocation) is None or allocation.status.phase != ALLOCATED)
    )


def place(allocation: IPAllocation) -> Place:
    """Return the place of an allocation among those that wait: oldest request first."""
    return allocation.requested_at, allocation.metadata.key


def shown_refusal(allocation: IPAllocation) -> tuple[str, str] | None:
    """Return the reason and the message of the refusal that a status shows, if it shows one."""
    ready = find(allocation.status.conditions, READY)
    if allocation.status.phase != FAILED or ready is None or ready.status != "False":
        return None
    return ready.reason, ready.message


def row(allocation: IPAllocation) -> Row:
    """Return the row of a request: all that its answer depends on, and the answer that it shows.

    One that asks by address is alone, as the answer names the address that it cannot have; and so
    is one that holds a range already, as it gets that again.
    """
    spec = allocation.spec
    if spec.is_pinned or ranges.all_held(allocation):
        return allocation.metadata.key
    asked = (spec.type, spec.count, spec.prefixLength, spec.ipFamilyPolicy, spec.ipFamilies)
    return TenantRow(tenant_of(allocation), (asked, shown_refusal(allocation)))


def tenant_of(allocation: IPAllocation) -> str:
    """Return whom a pool must not serve at the cost of others: the namespace of the tenant."""
    return allocation.spec.tenantClusterRef.key.namespace


@dataclass(frozen=True, slots=True, order=True)
class StatusWrite:
    """When a controller last wrote a status."""

    at: datetime
    manager: str


def last_foreign_write(meta: TracedMeta, ours: str) -> StatusWrite | None:
    """Return the last write of an object's status by another controller; None if none wrote it.

    `kubectl` does not count: it is a person's tool, and a single edit is handled by the fence.

    Args:
        meta: the object's metadata.
        ours: our field manager; if that is not known, no manager counts as foreign.
    """
    found = [
        StatusWrite(at, writer.manager)
        for writer in (meta.managedFields if ours else ())
        if writer.subresource == "status"
        and writer.manager != ours
        and not _is_no_allocator(writer.manager)
        and (at := _parsed_time(writer.time)) is not None
    ]
    return max(found, default=None)


def _is_no_allocator(manager: str) -> bool:
    """Return whether status writes of a manager do not count as another allocator's.

    They are a person's, by kubectl, and those of the controller that lists what the platform uses.
    """
    person = manager == "kubectl" or manager.startswith("kubectl-")
    return person or manager == names.INFRASTRUCTURE_FIELD_MANAGER


def _parsed_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


@dataclass(frozen=True, slots=True)
class Facts:
    """What one allocation means to its pool.

    Args:
        uid: of the allocation.
        held: the ranges in its status, in whatever phase.
        allocated: whether it holds that range in phase Allocated.
        place: its place in the queue; None if it does not wait.
        row: its row there.
        foreign: the last write of its status by another controller; None if there was none.
    """

    uid: str
    held: tuple[AddressRange, ...]
    allocated: bool
    place: Place | None
    row: Row
    foreign: StatusWrite | None

    @classmethod
    def from_allocation(cls, allocation: IPAllocation, ours: str) -> "Facts":
        """Return the facts of an allocation; `ours` is our field manager."""
        held, waiting = ranges.all_held(allocation), waits(allocation)
        return cls(
            uid=allocation.metadata.uid,
            held=held,
            allocated=bool(held) and allocation.status.phase == ALLOCATED,
            place=place(allocation) if waiting else None,
            row=row(allocation) if waiting else None,
            foreign=last_foreign_write(allocation.metadata, ours),
        )


def concerns_pool(change: Change[IPAllocation], ours: str) -> bool:
    """Return whether a pass over the pool may do something about a change of an allocation.

    Not about labels of one that holds its range, say, or about one that does not wait yet. Every
    new version of one that waits concerns the pool, as it voids a promise to the one before.

    Args:
        change: of one allocation.
        ours: our field manager.
    """
    old = (
        None
        if change.old is None
        else (change.old.pool_key, Facts.from_allocation(change.old, ours))
    )
    new = (
        None
        if change.new is None
        else (change.new.pool_key, Facts.from_allocation(change.new, ours))
    )
    if old is not None and new is not None and old != new:
        return True
    facts = new or old
    if facts is None:
        return False
    _, either = facts
    if old is None or new is None:
        return bool(either.held) or either.place is not None or either.foreign is not None
    return either.place is not None


class Contents:
    """The facts of one pool's allocations, and what is made of them.

    Args:
        allocations: those that name the pool.
        ours: our field manager; if it is not known, no write counts as foreign.
    """

    def __init__(self, allocations: Iterable[IPAllocation] = (), ours: str = "") -> None:
        self._ours = ours
        self._facts: dict[Key, Facts] = {}
        self.queue = Rows[Place]()
        """Those that wait; a walk along it ends at the next change."""
        self._foreign: list[tuple[StatusWrite, Key]] = []
        self._spaces: tuple[Space, ...] = ()
        self.allocated = 0
        """How many hold a range in phase Allocated."""
        self.holding = 0
        """How many hold a range in whatever phase."""
        self.claimed = 0
        """The sizes of all ranges that are held, added up."""
        for allocation in allocations:
            self.put(allocation)

    def put(self, allocation: IPAllocation) -> None:
        """Replace an allocation of the pool by its present state."""
        key, new = allocation.metadata.key, Facts.from_allocation(allocation, self._ours)
        if self._facts.get(key) == new:
            return
        self.remove(key)
        self._facts[key] = new
        if new.held:
            self.holding += 1
            self.claimed += sum(one.size for one in new.held)
            self.allocated += new.allocated
            for space, one in product(self._spaces, new.held):
                space.hold(one)
        if new.place is not None:
            self.queue.add(new.row, new.place)
        if new.foreign is not None:
            insort(self._foreign, (new.foreign, key))

    def remove(self, key: Key) -> None:
        """Forget the allocation of that key, if there is one."""
        old = self._facts.pop(key, None)
        if old is None:
            return
        if old.held:
            self.holding -= 1
            self.claimed -= sum(one.size for one in old.held)
            self.allocated -= old.allocated
            for space, one in product(self._spaces, old.held):
                space.release(one)
        if old.place is not None:
            self.queue.remove(old.row, old.place)
        if old.foreign is not None:
            del self._foreign[bisect_left(self._foreign, (old.foreign, key))]

    @property
    def keys(self) -> list[Key]:
        """The keys of the pool's allocations, sorted."""
        return sorted(self._facts)

    def holds(self, key: Key, uid: str) -> bool:
        """Return whether the allocation of that key and uid holds a range."""
        facts = self._facts.get(key)
        return facts is not None and facts.uid == uid and bool(facts.held)

    @property
    def last_foreign_write(self) -> StatusWrite | None:
        """The last write of an allocation's status by another controller; or None."""
        return self._foreign[-1][0] if self._foreign else None

    def spaces(self, layouts: tuple[Layout, ...]) -> tuple[Space, ...]:
        """Return the pool's addresses, by family, with every range taken that is held.

        They are kept for the same layouts.
        """
        if self.layouts != layouts:
            held = [one for facts in self._facts.values() for one in facts.held]
            self._spaces = tuple(Space(layout, held) for layout in layouts)
        return self._spaces

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts that the spaces are kept for; none if they were not needed yet."""
        return tuple(space.layout for space in self._spaces)

    def state(self, layouts: tuple[Layout, ...]) -> dict[str, object]:
        """Return everything, to compare it: by the name of an allocation, or of what is derived.

        Args:
            layouts: for which the spaces are compared too.
        """
        found: dict[str, object] = {
            f"IPAllocation {key.name}": facts for key, facts in self._facts.items()
        }
        found["queue"] = self.queue
        found["writes by others"] = self._foreign
        found["counts"] = (self.allocated, self.holding, self.claimed)
        if layouts:
            found["space"] = [space.state() for space in self.spaces(layouts)]
        return found


def differences(kept: Contents, read: Contents) -> list[str]:
    """Return the parts in which what was kept differs from what was read anew."""
    before, after = kept.state(kept.layouts), read.state(kept.layouts)
    return sorted(part for part in {**before, **after} if before.get(part) != after.get(part))


@dataclass(slots=True)
class _Kept:
    contents: Contents
    checked_at: float
    changed: set[Key] = field(default_factory=set)


class KeptContents:
    """The contents of pools as a cache shows them, kept from the first time they are asked for.

    Args:
        allocations: all allocations, indexed by pool.
        ours: our field manager.
        clock: the time.
        check_interval: seconds between two checks of what is kept.
        report: called with the pool and the parts that a check found to differ.
    """

    def __init__(
        self,
        allocations: Cache[IPAllocation],
        ours: str,
        clock: Clock,
        check_interval: float,
        report: Callable[[Key, list[str]], None],
    ) -> None:
        self._allocations = allocations
        self._ours = ours
        self._clock = clock
        self._check_interval = check_interval
        self._report = report
        self._pools: dict[Key, _Kept] = {}
        allocations.subscribe(self._note)

    def contents(self, pool: Key) -> Contents:
        """Return the contents of a pool as the cache shows them now.

        They change whenever this is called again, so they are to be used before the next await.
        """
        # Taken out until all is up to date: should anything raise, the next call reads all anew.
        kept = self._pools.pop(pool, None) or self._read(pool)
        for key in kept.changed:
            allocation = self._allocations.get(key)
            if allocation is None or allocation.pool_key != pool:
                kept.contents.remove(key)
            else:
                kept.contents.put(allocation)
        kept.changed.clear()
        self._pools[pool] = self._checked(pool, kept)
        return self._pools[pool].contents

    def forget(self, pool: Key) -> None:
        """Keep the contents of a pool no longer."""
        self._pools.pop(pool, None)

    def _note(self, change: Change[IPAllocation]) -> None:
        for allocation in (change.old, change.new):
            if allocation is not None:
                kept = self._pools.get(allocation.pool_key)
                if kept is not None:
                    kept.changed.add(allocation.metadata.key)

    def _read(self, pool: Key) -> _Kept:
        found = self._allocations.by_index(POOL_INDEX, str(pool))
        return _Kept(Contents(found, self._ours), self._clock.monotonic())

    def _checked(self, pool: Key, kept: _Kept) -> _Kept:
        """Return what is kept, or what was read anew if a check is due and finds a difference."""
        if self._clock.monotonic() - kept.checked_at < self._check_interval:
            return kept
        anew = self._read(pool)
        found = differences(kept.contents, anew.contents)
        if not found:
            kept.checked_at = anew.checked_at
            return kept
        self._report(pool, found)
        return anew
