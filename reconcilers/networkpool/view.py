"""The requests of a pool, and up to which resourceVersion they were read."""

from collections.abc import (
    Callable,
    Container,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from itertools import chain

from allocator import AddressRange
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from controller.unreadables import UnreadableObjects
from reconcilers.api import names
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import AllocationOutline
from reconcilers.networkpool.claims import ClaimService, ClaimView, PoolClaims
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
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.reading import Behind, CacheWait, ListUnderWay
from reconcilers.promises.settling import find_promised_version
from reconcilers.promises.unreadable import (
    FINISH_DELETION,
    Unreadable,
    UnreadableHolders,
    UnreadableObject,
    describe_unreadable,
    is_terminating,
    outline_of,
)
from reconcilers.reporting.wording import name_with_count


@dataclass(frozen=True, slots=True)
class View:
    """The allocations of one pool, and of its namespace by name.

    Args:
        position: the revision up to which watch or list delivered everything.
        holdings: what those that name the pool hold and wait for; with those of claims, if these
            were read, too.
        find: returns the allocation of a holder, whichever pool it names.
        unreadable: the allocations that cannot be decoded; `find` may return an older version of
            them, or None.
        claims: its claims, whose holdings are the same; None if they were not read.
    """

    position: int
    holdings: Holdings
    find: Find[IPAllocation]
    unreadable: Container[Key] = frozenset()
    claims: ClaimView | None = None

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
        allocations = (self.find(holder) for holder in self.holdings.holders)
        return tuple(allocation for allocation in allocations if allocation is not None)

    def with_claims(self, claims: ClaimView) -> "View":
        """Return the same with the claims of the pool, and one Holdings of both kinds.

        The facts of each kind are those of its own reading: one may be of a LIST, and the other of
        a cache.
        """
        facts = chain(
            self.holdings.facts_of_kind(KIND), claims.holdings.facts_of_kind(names.KIND_CLAIMS)
        )
        holdings = Holdings(facts=facts)
        return replace(self, holdings=holdings, claims=claims.with_holdings(holdings))

    def at_version(self, promise: Promise) -> IPAllocation | None:
        """Return the allocation of a promise if it still is what the promise names."""
        return find_promised_version(promise, self.find(promise.holder))

    def current(self, key: Key, uid: str) -> IPAllocation | None:
        """Return the allocation of this key if it is still the one with this uid."""
        allocation = self.find(Holder(KIND, key))
        return allocation if allocation is not None and allocation.metadata.uid == uid else None


class UnreadableAllocations(Unreadable):
    """Some IPAllocations of the pool cannot be decoded.

    Args:
        allocations: the names of these.
        others: objects of other kinds that cannot be decoded either.
    """

    reason = "UnreadableAllocation"

    def __init__(
        self, allocations: tuple[str, ...], others: Sequence[UnreadableObject] = ()
    ) -> None:
        message = f"IPAllocations that cannot be read: {name_with_count(allocations)}"
        if others:
            message += f"; {describe_unreadable(others)}"
        super().__init__(message)


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

    def joined_with(self, other: "OtherHoldings") -> "OtherHoldings":
        """Return the holdings of both together."""
        unreadable = (*self.unreadable, *other.unreadable)
        kinds = self.kinds | other.kinds
        return OtherHoldings((*self.ranges, *other.ranges), unreadable, kinds)

    @property
    def unknown(self) -> str:
        """Which objects cannot be decoded, and what a person has to do; empty for none."""
        return str(UnreadableHolders(self.unreadable)) if self.unreadable else ""


class ObservedRanges:
    """What another allocator gave of the addresses of pools: nothing, unless an integration reads.

    That allocator knows nothing of NetworkPools, so it promises nothing, and no deletion waits.
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
    """Return the names of unreadable allocations that may be the pool's, by an index of pools.

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
    claims: PoolClaims | None = None,
) -> KeptHoldings[Key, None]:
    """Keep the holdings of pools as caches show them, of requests of all kinds.

    A pass lays out what its pool may hand out: the facts do not depend on that.

    Args:
        cache: all allocations, indexed by pool.
        ours: our field manager.
        clock: the time.
        check_interval: seconds between two checks of what is kept.
        report: called with the pool and the parts that a check found to differ.
        claims: the claims of pools; None if they are not served.
    """

    def facts(pool: Key, holder: Holder, _: None) -> Facts | None:
        if claims is not None and holder.kind != KIND:
            return claims.find_facts(pool, holder)
        return facts_in_pool(pool, cache.get(holder.key), ours)

    def pools_of(allocation: IPAllocation) -> Iterable[Key]:
        return (allocation.pool_key,)

    return KeptHoldings[Key, None](
        [
            indexed_source(cache, POOL_INDEX, pools_of, holder_of),
            *(claims.sources if claims is not None else ()),
        ],
        facts,
        lambda _: NO_LAYOUTS,
        clock=clock,
        check_interval=check_interval,
        report=report,
    )


Keep = Callable[[PoolClaims | None], KeptHoldings[Key, None]]
"""Returns an object that keeps the holdings of pools; without claims if these are not served."""


class Reader:
    """Reads the requests of a pool from caches, or live if a cache stays behind.

    The position is what watch or list delivered; own answers in the cache never move it, or a
    replica could believe to have read what it only wrote.

    Args:
        cache: all allocations, indexed by pool.
        client: for lists.
        clock: the time.
        wait_seconds: how long to wait for a cache that is behind.
        keep: returns what keeps the holdings of pools as the caches show them; None to read them
            each time, and no claims.
        claims: whether claims are served; None to read allocations alone.
    """

    def __init__(
        self,
        cache: Cache[IPAllocation],
        client: Client,
        clock: Clock,
        wait_seconds: float,
        keep: Keep | None = None,
        claims: ClaimService | None = None,
    ) -> None:
        self._cache = cache
        self._lists = LiveLists(client)
        self._wait = CacheWait(clock, wait_seconds)
        self._keep = keep
        self._claims = claims
        self._kept_with: PoolClaims | None = None
        """The claims whose holdings are kept."""
        self._kept = None if keep is None else keep(None)

    @property
    def history_confirmed(self) -> bool:
        """Whether the caches are known to be of the history that the server has."""
        claims = None if self._claims is None else self._claims.pool_claims
        return self._cache.history_confirmed and (claims is None or claims.history_confirmed)

    def read_cached(self, pool: Key) -> View:
        """Return the view that the caches give, however old they are."""
        claims = None if self._claims is None else self._claims.pool_claims
        view = View(
            self._cache.position,
            self._cached_holdings(pool, claims),
            find_by_key(KIND, self._cache.get),
            self._cache.unreadable.keys(),
        )
        if claims is None:
            return view
        return replace(view, claims=claims.read_cached(pool, view.holdings))

    def _cached_holdings(self, pool: Key, claims: PoolClaims | None) -> Holdings:
        """Return the holdings of a pool's requests, as the caches show them."""
        if self._kept is None or self._keep is None:
            return allocation_holdings(self._cache.by_index(POOL_INDEX, str(pool)))
        if self._kept_with is not claims:  # each start of the integration makes new caches
            self._kept.close()
            self._kept, self._kept_with = self._keep(claims), claims
        return self._kept.holdings(pool, None)

    async def live(self, pool: Key) -> View:
        """Return the allocations by a LIST that begins now, for a caller that cannot come back.

        Raises:
            UnreadableAllocations: some of what it lists cannot be decoded.
            ControllerError: the list failed.
        """
        return self._view_of(await self._lists.list_now(pool.namespace), pool)

    async def read_shared(self, pool: NetworkPool) -> View:
        """Return the allocations by a LIST that began after `pool` was read, shared with others.

        Raises:
            ListUnderWay: the pool shares a LIST that begins later.
            UnreadableAllocations: some of what it lists cannot be decoded.
            ControllerError: the list failed.
        """
        listed = await self._lists.read(pool)
        if listed is None:
            raise ListUnderWay
        return self._view_of(listed, pool.metadata.key)

    async def at_least(
        self, pool: NetworkPool, journal: Journal, seen: View | None = None
    ) -> View:
        """Return a view that has read as far as a journal says, of requests of all kinds.

        First each kind is reached: by its cache, or by a LIST that began after `pool` was read.
        Then the view is made of all kinds without an await.

        Args:
            pool: as it was read.
            journal: of the pool. If it has no revision of allocations, they are listed.
            seen: the allocations as a fence of this pass has seen them; None to reach them.

        Raises:
            Behind: a cache may still get there.
            Unreadable: objects that may hold ranges of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        claims = None if self._claims is None else self._claims.served_from(pool)
        self._check_readable(pool, claims)
        is_reached = seen is not None or self._suffices(pool, journal)
        are_claims_reached = claims is None or claims.suffices(pool, journal)

        listed = seen if is_reached else await self.read_shared(pool)
        listed_claims = None
        if claims is not None and not are_claims_reached:
            listed_claims = await claims.live(pool, journal)

        if not self.history_confirmed:
            raise Behind(reason="the caches have not been relisted")
        self._check_readable(pool, claims)
        fell_behind = (listed is None and not self._suffices(pool, journal)) or (
            claims is not None and listed_claims is None and not claims.suffices(pool, journal)
        )
        if fell_behind:
            raise Behind
        cached = self.read_cached(pool.metadata.key)
        if listed is None and listed_claims is None:
            return cached
        allocations = cached if listed is None else listed
        of_claims = cached.claims if listed_claims is None else listed_claims
        return allocations if of_claims is None else allocations.with_claims(of_claims)

    def _check_readable(self, pool: NetworkPool, claims: PoolClaims | None) -> None:
        """Check that no object is unreadable that may hold ranges of a pool.

        Raises:
            Unreadable: some are. They are named in one message.
        """
        key = pool.metadata.key
        of_allocations = unreadable_near(self._cache.unreadable, key)
        of_claims = () if claims is None else claims.find_unreadable(key)
        if of_allocations:
            raise UnreadableAllocations(of_allocations, of_claims)
        if of_claims:
            raise UnreadableHolders(of_claims)

    def _suffices(self, pool: NetworkPool, journal: Journal) -> bool:
        """Return whether the cache of allocations has read as far as a journal says.

        Raises:
            Behind: it may still get there.
        """
        key, revision = pool.metadata.key, journal.revisions.get(KIND)
        if revision is None or not self._wait.has_read(self._cache, revision, key):
            return False
        self._lists.forget(key)
        return True

    def _view_of(self, listed: ListedAllocations, pool: Key) -> View:
        """Return the view of a pool that a LIST gives, and note the LIST for the cache.

        Raises:
            UnreadableAllocations: some of what it lists cannot be decoded.
        """
        if unreadable := unreadable_near(listed.unreadable, pool):
            raise UnreadableAllocations(unreadable)
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
