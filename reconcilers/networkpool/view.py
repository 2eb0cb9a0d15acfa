"""The allocations of a pool, and up to which resourceVersion they were read."""

from collections.abc import (
    Callable,
    Container,
    Mapping,
    Sequence,
)
from dataclasses import dataclass

from allocator import AddressRange
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from controller.unreadables import UnreadableObjects
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import AllocationOutline
from reconcilers.networkpool.facts import (
    KIND,
    allocation_holdings,
    facts_in_pool,
    holder_of,
)
from reconcilers.networkpool.livelists import ListedAllocations, LiveLists
from reconcilers.promises.holdings import (
    NO_LAYOUTS,
    Facts,
    Holdings,
    KeptHoldings,
    indexed_source,
)
from reconcilers.promises.identities import Find, Holder, find_by_key
from reconcilers.promises.journal import Promise
from reconcilers.promises.reading import CacheWait, ListUnderWay
from reconcilers.promises.settling import find_promised_version
from reconcilers.promises.unreadable import (
    FINISH_DELETION,
    Unreadable,
    UnreadableHolders,
    UnreadableObject,
    is_terminating,
    outline_of,
)
from reconcilers.reporting.wording import name_with_count


@dataclass(frozen=True, slots=True)
class View:
    """The allocations of one pool, and of its namespace by name.

    Args:
        position: the revision up to which watch or list delivered everything.
        holdings: what those that name the pool hold and wait for.
        find: returns the allocation of a holder, whichever pool it names.
        unreadable: the allocations that cannot be decoded; `find` may return an older version of
            them, or None.
    """

    position: int
    holdings: Holdings
    find: Find[IPAllocation]
    unreadable: Container[Key] = frozenset()

    @classmethod
    def from_allocations(
        cls,
        position: int,
        of_pool: Sequence[IPAllocation],
        find: Callable[[Key], IPAllocation | None] | None = None,
        unreadable: Container[Key] = frozenset(),
    ) -> "View":
        """Return the view of these allocations; `find` finds them and others, by default them."""
        by_key = {allocation.metadata.key: allocation for allocation in of_pool}
        find_holder = find_by_key(KIND, find or by_key.get)
        return cls(position, allocation_holdings(of_pool), find_holder, unreadable)

    @property
    def of_pool(self) -> tuple[IPAllocation, ...]:
        """The allocations that name the pool, sorted by name; costs as much as there are."""
        found = (self.find(holder) for holder in self.holdings.holders)
        return tuple(one for one in found if one is not None)

    def at_version(self, promise: Promise) -> IPAllocation | None:
        """Return the allocation of a promise if it still is what the promise names."""
        return find_promised_version(promise, self.find(promise.holder))

    def current(self, key: Key, uid: str) -> IPAllocation | None:
        """Return the allocation of this key if it is still the one with this uid."""
        found = self.find(Holder(KIND, key))
        return found if found is not None and found.metadata.uid == uid else None


class UnreadableAllocations(Unreadable):
    """Some IPAllocations of the pool cannot be decoded."""

    reason = "UnreadableAllocation"

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"IPAllocations that cannot be read: {name_with_count(names)}")


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
    """

    ranges: tuple[HeldRange, ...] = ()
    unreadable: tuple[UnreadableObject, ...] = ()

    def joined_with(self, other: "OtherHoldings") -> "OtherHoldings":
        """Return what both hold."""
        unreadable = (*self.unreadable, *other.unreadable)
        return OtherHoldings((*self.ranges, *other.ranges), unreadable)

    @property
    def unknown(self) -> str:
        """Which objects cannot be decoded, and what a person has to do; empty for none."""
        return str(UnreadableHolders(self.unreadable)) if self.unreadable else ""


class OtherHolders:
    """What others than IPAllocations hold of pools: nothing, unless an integration says so."""

    def held(self, pool: NetworkPool) -> Sequence[AddressRange]:
        """Return the ranges that are held or promised, each once.

        Raises:
            Behind: they are not known yet as far as this version of the pool needs.
            UnreadableHolders: some of them cannot be decoded.
        """
        del pool
        return ()

    def named(self, pool: NetworkPool) -> Sequence[HeldRange]:
        """Return who holds what of a pool, as the caches show it, for messages."""
        del pool
        return ()

    def seen_blockers(self, pool: NetworkPool) -> int:
        """Return how many of them a deletion waits for, as the caches show; 0 decides nothing."""
        del pool
        return 0

    async def blockers(self, pool: NetworkPool) -> int:
        """Return how many of them a deletion of the pool has to wait for, by a live list.

        Nothing can be promised to any other by this version of the pool when this returns.

        Raises:
            UnreadableHolders: some of them cannot be decoded.
        """
        del pool
        return 0

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone, or that another replica works on from now on."""
        del pool


def unreadable_of(unreadable: Mapping[Key, str], pool: Key) -> tuple[str, ...]:
    """Return the names of those among unreadable allocations that may be the pool's, sorted.

    An allocation whose poolRef cannot be read may be of any pool in its namespace; one whose
    namespace cannot be read may be of any pool.
    """
    return tuple(
        sorted(
            f"{key.name} (it is being deleted: {FINISH_DELETION})"
            if is_terminating(failure)
            else key.name
            for key, failure in unreadable.items()
            if may_concern_pool(key, failure, pool)
        )
    )


def unreadable_near(unreadable: UnreadableObjects, pool: Key) -> tuple[str, ...]:
    """Return what `unreadable_of` does for unreadable allocations that are indexed by pool.

    So thousands of unreadable allocations of other pools cost nothing.
    """
    return unreadable_of(unreadable.near(POOL_INDEX, str(pool)), pool)


def may_concern_pool(key: Key, failure: str, pool: Key) -> bool:
    """Return whether an IPAllocation that cannot be decoded may be a pool's."""
    outline = outline_of(failure)
    if isinstance(outline, AllocationOutline):
        return pool == (key.namespace, outline.spec.poolRef.name)
    return key.namespace in {"", pool.namespace}


def keep_holdings(
    cache: Cache[IPAllocation],
    ours: str,
    clock: Clock,
    check_interval: float,
    report: Callable[[Key, list[str]], None],
) -> KeptHoldings[Key, None]:
    """Return what keeps the holdings of pools as a cache shows them.

    A pass lays out what its pool may hand out: the facts do not depend on that.

    Args:
        cache: all allocations, indexed by pool.
        ours: our field manager.
        clock: the time.
        check_interval: seconds between two checks of what is kept.
        report: called with the pool and the parts that a check found to differ.
    """

    def facts(pool: Key, holder: Holder, _: None) -> Facts | None:
        return facts_in_pool(pool, cache.get(holder.key), ours)

    return KeptHoldings[Key, None](
        [indexed_source(cache, POOL_INDEX, lambda allocation: (allocation.pool_key,), holder_of)],
        facts,
        lambda _: NO_LAYOUTS,
        clock=clock,
        check_interval=check_interval,
        report=report,
    )


class Reader:
    """Reads the allocations of a pool from the cache, or live if the cache stays behind.

    The position is what watch or list delivered; own answers in the cache never move it, or a
    replica could believe to have read what it only wrote.

    Args:
        cache: all allocations, indexed by pool.
        client: for lists.
        clock: the time.
        wait_seconds: how long to wait for a cache that is behind.
        kept: the holdings of pools as the cache shows them; None to read them each time.
    """

    def __init__(
        self,
        cache: Cache[IPAllocation],
        client: Client,
        clock: Clock,
        wait_seconds: float,
        kept: KeptHoldings[Key, None] | None = None,
    ) -> None:
        self._cache = cache
        self._lists = LiveLists(client)
        self._wait = CacheWait(clock, wait_seconds)
        self._kept = kept

    @property
    def history_confirmed(self) -> bool:
        """Whether the cache is known to be of the history that the server has."""
        return self._cache.history_confirmed

    def cached(self, pool: Key) -> View:
        """Return the view that the cache gives, however old it is."""
        if self._kept is not None:
            holdings = self._kept.holdings(pool, None)
        else:
            holdings = allocation_holdings(self._cache.by_index(POOL_INDEX, str(pool)))
        return View(
            self._cache.position,
            holdings,
            find_by_key(KIND, self._cache.get),
            self._cache.unreadable.keys(),
        )

    async def live(self, pool: Key) -> View:
        """Return the view of a LIST that begins now, for a caller that cannot come back later.

        Raises:
            UnreadableAllocations: some of what it lists cannot be decoded.
            ControllerError: the list failed.
        """
        return self._view_of(await self._lists.list_now(pool.namespace), pool)

    async def shared(self, pool: NetworkPool) -> View:
        """Return the view of a LIST that began after `pool` was read, shared with other pools.

        Raises:
            ListUnderWay: the pool shares a LIST that begins later.
            UnreadableAllocations: some of what it lists cannot be decoded.
            ControllerError: the list failed.
        """
        listed = await self._lists.read(pool)
        if listed is None:
            raise ListUnderWay
        return self._view_of(listed, pool.metadata.key)

    async def at_least(self, pool: NetworkPool, revision: int) -> View:
        """Return a view that has read up to `revision`, or a LIST begun after `pool` was read.

        Raises:
            Behind: the cache may still get there.
            UnreadableAllocations: some that may be the pool's cannot be decoded.
            ControllerError: the list failed.
        """
        key = pool.metadata.key
        if names := unreadable_near(self._cache.unreadable, key):
            raise UnreadableAllocations(names)
        if self._wait.has_read(self._cache, revision, key):
            self._lists.forget(key)
            return self.cached(key)
        return await self.shared(pool)

    def _view_of(self, listed: ListedAllocations, pool: Key) -> View:
        """Return what a LIST shows of a pool, and note it for the cache.

        Raises:
            UnreadableAllocations: some of what it lists cannot be decoded.
        """
        if names := unreadable_near(listed.unreadable, pool):
            raise UnreadableAllocations(names)
        allocations = listed.by_pool.get(pool, ())
        self._wait.note_list(pool, allocations)
        return View.from_allocations(
            listed.revision, allocations, listed.by_key.get, listed.unreadable.keys()
        )

    def forget_lists(self) -> None:
        """Forget all LISTs: the server may have another history by now."""
        self._lists.forget_all()

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._lists.forget(pool)
        self._wait.forget(pool)
        if self._kept is not None:
            self._kept.forget(pool)
