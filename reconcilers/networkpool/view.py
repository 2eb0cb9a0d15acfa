"""The allocations of a pool, and up to which resourceVersion they were read."""

from collections.abc import (
    Callable,
    Collection,
    Container,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from allocator import AddressRange
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.codec import DecodeFailure
from controller.meta import Key, Object
from controller.unreadables import UnreadableObjects
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import AllocationOutline
from reconcilers.configuration.settings import PoolSettings
from reconcilers.networkpool.facts import (
    allocation_holdings,
    facts_in_pool,
    holder_of,
)
from reconcilers.networkpool.livelists import ListedAllocations, LiveLists
from reconcilers.promises.holdings import (
    NO_LAYOUTS,
    Facts,
    Holder,
    Holdings,
    KeptHoldings,
    indexed_source,
)
from reconcilers.reporting.wording import name_with_count


@dataclass(frozen=True, slots=True)
class View:
    """The allocations of one pool, and of its namespace by name.

    Args:
        position: the revision up to which watch or list delivered everything.
        holdings: what those that name the pool hold and wait for.
        find: returns an allocation by its key, whichever pool it names.
        unreadable: the allocations that cannot be decoded; `find` may return an older version of
            them, or None.
    """

    position: int
    holdings: Holdings
    find: Callable[[Key], IPAllocation | None]
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
        return cls(position, allocation_holdings(of_pool), find or by_key.get, unreadable)

    @property
    def of_pool(self) -> tuple[IPAllocation, ...]:
        """The allocations that name the pool, sorted by name; costs as much as there are."""
        found = (self.find(holder.key) for holder in self.holdings.holders)
        return tuple(one for one in found if one is not None)

    def current(self, key: Key, uid: str) -> IPAllocation | None:
        """Return the allocation of this key if it is still the one with this uid."""
        found = self.find(key)
        return found if found is not None and found.metadata.uid == uid else None


RETRY_SECONDS = 0.1
"""After which a pass looks again at a cache that is behind."""
LIST_SECONDS = 0.5
"""After which a pass looks again for the LIST that it waits for."""


class Behind(Exception):
    """The pass cannot know yet what is held; try again after `after` seconds.

    Args:
        after: seconds.
        reason: what the pass waits for, for the log.
    """

    def __init__(
        self,
        after: float = RETRY_SECONDS,
        reason: str = "the cache has not read as far as the pool's promises",
    ) -> None:
        super().__init__(f"{reason}; trying again after {after} s")
        self.after = after
        self.reason = reason


class ListUnderWay(Behind):
    """A LIST is under way that began too early for the pool; the next one serves it."""

    def __init__(self) -> None:
        super().__init__(LIST_SECONDS, "a LIST of IPAllocations for other pools is under way")


class CacheWait:
    """Decides how long passes wait for a cache before they ask the server.

    A LIST may show what a cache that is behind does not: an object that a person wrote, which no
    promise announces. So a cache is used again only once it has read what the last LIST showed.

    Args:
        clock: the time.
        seconds: to wait for what was written to each pool.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since: dict[Hashable, float] = {}
        self._listed: dict[Hashable, int] = {}
        """By pool: the highest resourceVersion that its last LIST showed, until it is read."""

    def note_list(self, pool: Hashable, objects: Iterable[Object]) -> None:
        """Note what a LIST showed of a pool."""
        self._listed[pool] = max((shown.metadata.revision for shown in objects), default=0)

    def has_read_list(self, cache: Cache[Any], pool: Hashable) -> bool:
        """Return whether a cache has read what the last LIST showed of a pool."""
        return cache.position >= self._listed.get(pool, 0)

    def has_read(self, cache: Cache[Any], revision: int, pool: Hashable) -> bool:
        """Return whether a cache has read up to a revision; False if it is given up.

        Args:
            cache: what is waited for.
            revision: up to which.
            pool: whose pass waits.

        Raises:
            Behind: the cache may still get there.
        """
        if cache.position >= revision and self.has_read_list(cache, pool):
            self.forget(pool)
            return True
        now = self._clock.monotonic()
        if now - self._since.setdefault(pool, now) < self._seconds:
            raise Behind
        return False

    def forget(self, pool: Hashable) -> None:
        """Forget a pool, which is gone or has been waited for."""
        self._since.pop(pool, None)
        self._listed.pop(pool, None)


class Unreadable(Exception):
    """Some objects cannot be decoded, so what they hold of a pool is unknown.

    Args:
        message: which objects.
    """

    reason: ClassVar[str]
    """Of the pool's condition Ready."""


FINISH_DELETION = "correct it, or remove its finalizers once nothing uses its addresses"
HOLDERS_UNKNOWN = "HoldersUnknown"
"""The reason where objects that may hold addresses are unreadable."""


def holders_unknown_message(why: str, effect: str = "nothing is handed out") -> str:
    """Return the message of a pool while objects that may hold its addresses are unreadable.

    Args:
        why: which objects, and what a person has to do.
        effect: what is put off until then.
    """
    return f"{effect} until it is known what these objects hold: {why}"


class UnreadableAllocations(Unreadable):
    """Some IPAllocations of the pool cannot be decoded."""

    reason = "UnreadableAllocation"

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"IPAllocations that cannot be read: {name_with_count(names)}")


@dataclass(frozen=True, slots=True, order=True)
class UnreadableObject:
    """An object that cannot be decoded, and may hold addresses.

    Args:
        kind: its kind.
        key: namespace and name.
        terminating: whether it is being deleted, as far as its metadata can be decoded.
    """

    kind: str
    key: Key
    terminating: bool = False

    @override
    def __str__(self) -> str:
        """Return which object it is, and what a person has to do."""
        named = f"{self.kind} {self.key} cannot be read"
        if self.terminating:
            return f"{named} and is being deleted; {FINISH_DELETION}"
        return f"{named}; correct or delete it"


class UnreadableHolders(Unreadable):
    """Objects of other kinds than IPAllocation cannot be decoded, and may hold addresses.

    Args:
        objects: at least one.
    """

    reason = HOLDERS_UNKNOWN

    def __init__(self, objects: Collection[UnreadableObject]) -> None:
        self.objects = tuple(sorted(objects))
        """The objects, by kind and key."""
        super().__init__(describe_unreadable(self.objects))


def describe_unreadable(objects: Sequence[UnreadableObject]) -> str:
    """Return a sentence for each of these objects; the first of them if there are many."""
    return name_with_count(list(map(str, objects)), "; ")


def is_terminating(failure: str) -> bool:
    """Return whether an object that cannot be decoded is being deleted, by its metadata."""
    metadata = failure.metadata if isinstance(failure, DecodeFailure) else None
    return metadata is not None and metadata.terminating


def check_holders(
    unreadable: Mapping[str, Mapping[Key, str]],
    may_concern: Callable[[Key, Object | None], bool],
) -> None:
    """Raise if objects that cannot be decoded may hold addresses of a pool.

    Args:
        unreadable: by kind, the objects that cannot be decoded, with the reason.
        may_concern: returns, by an object's key and outline, whether it may hold some of the pool;
            the outline is None where it cannot be decoded either.

    Raises:
        UnreadableHolders: some of them may.
    """
    objects = [
        UnreadableObject(kind, key, is_terminating(failure))
        for kind, failures in unreadable.items()
        for key, failure in failures.items()
        if may_concern(key, outline_of(failure))
    ]
    if objects:
        raise UnreadableHolders(objects)


def find_unreadable(check: Callable[[], None]) -> tuple[UnreadableObject, ...]:
    """Return the objects for which a check raises; none if it does not.

    Args:
        check: a function that raises UnreadableHolders.
    """
    try:
        check()
    except UnreadableHolders as unreadable:
        return unreadable.objects
    return ()


def outline_of(failure: str) -> Object | None:
    """Return the outline of an object that cannot be decoded; None if that cannot be either."""
    return failure.outline if isinstance(failure, DecodeFailure) else None


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


Named = Callable[[], Iterable[HeldRange]]
"""Returns what others than IPAllocations hold of a pool."""


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

    @classmethod
    def keeping(
        cls,
        cache: Cache[IPAllocation],
        client: Client,
        clock: Clock,
        settings: PoolSettings,
        report: Callable[[Key, list[str]], None],
    ) -> "Reader":
        """Return a reader that keeps the holdings of pools from one read to the next.

        Args:
            cache: all allocations, indexed by pool.
            client: for lists; its field manager is ours.
            clock: the time.
            settings: how long to wait for the cache, and how often to check what is kept.
            report: called with the pool and the parts that a check found to differ.
        """
        ours, interval = client.field_manager, settings.contents_check
        kept = keep_holdings(cache, ours, clock, interval, report)
        return cls(cache, client, clock, settings.cache_patience, kept)

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
            self._cache.get,
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
