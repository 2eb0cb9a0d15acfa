"""Reads the requests of a NetworkPool from caches, or by a LIST where a cache stays behind.

The *revision* of a kind in a journal is how far a reader must have read that kind. The *position*
of a cache or LIST is how far it has read. *Holdings* are what requests hold and wait for.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.claims import ClaimService, PoolClaims
from reconcilers.networkpool.facts import KIND, compute_holdings, find_facts_in_pool, make_holder
from reconcilers.networkpool.livelists import ListedAllocations, LiveLists
from reconcilers.networkpool.unreadable import UnreadableAllocations, find_unreadable_names
from reconcilers.networkpool.view import AllocationsView, ClaimView
from reconcilers.promises.holdings import (
    NO_LAYOUTS,
    Facts,
    Holdings,
    KeptHoldings,
    build_indexed_source,
)
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.journal import Journal
from reconcilers.promises.reading import Behind, CacheWait, ListUnderWay
from reconcilers.promises.unreadable import UnreadableHolders


def keep_holdings(
    cache: Cache[IPAllocation],
    our_manager: str,
    clock: Clock,
    check_interval: float,
    on_difference: Callable[[Key, list[str]], None],
    claims: PoolClaims | None = None,
) -> KeptHoldings[Key, None]:
    """Return an object that keeps the holdings of pools, of requests of all kinds, from caches.

    It has no layouts, because facts do not depend on them: each pass lays out its pool.

    Args:
        cache: all allocations, indexed by pool.
        our_manager: our field manager, to tell status writes of other controllers.
        clock: the time.
        check_interval: seconds between two checks of what is kept.
        on_difference: called with the pool and the parts that a check found to differ.
        claims: the claims of pools; None if they are not served.
    """

    def find_facts(pool: Key, holder: Holder, _: None) -> Facts | None:
        """Return the facts of a holder for a pool; None if it does not concern the pool."""
        if claims is not None and holder.kind != KIND:
            return claims.find_facts(pool, holder)
        return find_facts_in_pool(pool, cache.get(holder.key), our_manager)

    def list_pools(allocation: IPAllocation) -> Iterable[Key]:
        return (allocation.pool_key,)

    return KeptHoldings[Key, None](
        [
            build_indexed_source(cache, POOL_INDEX, pools=list_pools, holder=make_holder),
            *(claims.sources if claims is not None else ()),
        ],
        find_facts,
        lambda _: NO_LAYOUTS,
        clock=clock,
        check_interval=check_interval,
        on_difference=on_difference,
    )


Keep = Callable[[PoolClaims | None], KeptHoldings[Key, None]]
"""Returns an object that keeps the holdings of pools; without claims if these are not served."""


class PoolReader:
    """Reads the requests of a pool from caches, or live if a cache stays behind.

    Only a watch or LIST moves the position of a cache. Answers to our own writes do not, because
    objects that others wrote before may still be missing.

    Args:
        cache: all allocations, indexed by pool.
        client: for lists.
        clock: the time.
        wait_seconds: how long to wait for a cache that is behind.
        keep: returns an object that keeps the holdings of pools. None to compute the holdings at
            each reading, of allocations alone.
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
    def is_history_confirmed(self) -> bool:
        """Whether all caches were relisted since the API server was last out of reach."""
        claims = None if self._claims is None else self._claims.pool_claims
        return self._cache.is_history_confirmed and (claims is None or claims.is_history_confirmed)

    def read_cached(self, pool: Key) -> AllocationsView:
        """Return the view that the caches give, however old they are."""
        claims = None if self._claims is None else self._claims.pool_claims
        view = AllocationsView(
            self._cache.position,
            self._read_cached_holdings(pool, claims),
            find=find_by_key(KIND, self._cache.get),
            unreadable=self._cache.unreadable.keys(),
        )
        if claims is None:
            return view
        return replace(view, claims=claims.read_cached(pool, view.holdings))

    def _read_cached_holdings(self, pool: Key, claims: PoolClaims | None) -> Holdings:
        """Return the holdings of a pool's requests, as the caches show them."""
        if self._kept is None or self._keep is None:
            return compute_holdings(self._cache.list_by_index(POOL_INDEX, str(pool)))
        if self._kept_with is not claims:  # each start of the integration makes new caches
            self._kept.close()
            self._kept, self._kept_with = self._keep(claims), claims
        return self._kept.get_holdings(pool, None)

    async def read_live(self, pool: Key) -> AllocationsView:
        """Return the allocations by a LIST that begins now, for a caller that cannot come back.

        Raises:
            UnreadableAllocations: some of what it lists cannot be decoded.
            ControllerError: the list failed.
        """
        return self._take_list(await self._lists.list_now(pool.namespace), pool)

    async def read_shared(self, pool: NetworkPool) -> AllocationsView:
        """Return the allocations by a LIST that began after `pool` was read, shared with others.

        Raises:
            ListUnderWay: the pool shares a LIST that begins later.
            UnreadableAllocations: some of what it lists cannot be decoded.
            ControllerError: the list failed.
        """
        listed = await self._lists.read(pool)
        if listed is None:
            raise ListUnderWay
        return self._take_list(listed, pool.metadata.key)

    async def read_up_to(
        self,
        pool: NetworkPool,
        journal: Journal,
        fenced_allocations: AllocationsView | None = None,
    ) -> AllocationsView:
        """Return a view of a pool's requests of all kinds that has read as far as a journal says.

        First each kind is reached: by its cache, or by a LIST that began after `pool` was read.
        All caches are checked before the first LIST, so that no LIST is wasted if the pass has
        to wait for a cache. Then the view is made of all kinds without an await.

        Args:
            pool: as it was read.
            journal: of the pool. If it has no revision of allocations, they are listed.
            fenced_allocations: the allocations as a fence of this pass left them; None to read
                them.

        Raises:
            Behind: a cache may still get there.
            UnreadableHoldings: objects that may hold ranges of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        claims = None if self._claims is None else self._claims.find_pool_claims(pool)
        self._check_readable(pool, claims)
        is_reached = fenced_allocations is not None or self._choose_cache(pool, journal)
        are_claims_reached = claims is None or claims.can_read_cached(pool, journal)

        listed = fenced_allocations if is_reached else await self.read_shared(pool)
        listed_claims = None
        if claims is not None and not are_claims_reached:
            listed_claims = await claims.read_lists(pool, journal)

        self._check_still_reached(
            pool,
            journal,
            allocations_by_cache=listed is None,
            claims=claims,
            claims_by_cache=listed_claims is None,
        )
        return self._combine(pool.metadata.key, listed, listed_claims)

    def _check_still_reached(
        self,
        pool: NetworkPool,
        journal: Journal,
        *,
        allocations_by_cache: bool,
        claims: PoolClaims | None,
        claims_by_cache: bool,
    ) -> None:
        """Check the caches of the view again, after the LISTs of the pass.

        While the pass awaited a LIST, a cache may have been replaced by a relist of a server with
        another history, or an object may have become unreadable. The first check cannot
        show that. No await follows this check.

        Args:
            pool: as it was read.
            journal: of the pool.
            allocations_by_cache: whether the cache of allocations is used, not a LIST.
            claims: the claims of pools; None if the view has none.
            claims_by_cache: whether their caches are used, not LISTs.

        Raises:
            Behind: the caches do not suffice any more.
            UnreadableHoldings: objects that may hold ranges of the pool cannot be decoded.
        """
        if not self.is_history_confirmed:
            raise Behind(reason="the caches have not been relisted")
        self._check_readable(pool, claims)
        if allocations_by_cache and not self._choose_cache(pool, journal):
            raise Behind
        if claims is not None and claims_by_cache and not claims.can_read_cached(pool, journal):
            raise Behind

    def _combine(
        self, pool: Key, listed: AllocationsView | None, listed_claims: ClaimView | None
    ) -> AllocationsView:
        """Return the view of a pool: from LISTs, and from caches for kinds that were not listed.

        Args:
            listed: its allocations; None to take them from the cache.
            listed_claims: its claims; None to take them from the caches.
        """
        cached = self.read_cached(pool)
        if listed is None and listed_claims is None:
            return cached
        allocations = cached if listed is None else listed
        claims = cached.claims if listed_claims is None else listed_claims
        return allocations if claims is None else allocations.with_claims(claims)

    def _check_readable(self, pool: NetworkPool, claims: PoolClaims | None) -> None:
        """Check that no object is unreadable that may hold ranges of a pool.

        Raises:
            UnreadableHoldings: some are. They are named in one message.
        """
        key = pool.metadata.key
        of_allocations = find_unreadable_names(self._cache.unreadable, key)
        of_claims = () if claims is None else claims.find_unreadable(key)
        if of_allocations:
            raise UnreadableAllocations(of_allocations, of_claims)
        if of_claims:
            raise UnreadableHolders(of_claims)

    def _choose_cache(self, pool: NetworkPool, journal: Journal) -> bool:
        """Choose between the cache of allocations and a LIST; return True for the cache.

        The pass has to LIST if the journal has no revision of allocations, or if it has waited
        long enough for the cache to reach that revision. If the cache is chosen, the LIST that is
        kept for the pool is dropped, because the pass does not need it.

        Raises:
            Behind: the pass should wait for the cache.
        """
        key, revision = pool.metadata.key, journal.revisions.get(KIND)
        if revision is None or not self._wait.has_read(self._cache, revision, key):
            return False
        self._lists.forget(key)
        return True

    def _take_list(self, listed: ListedAllocations, pool: Key) -> AllocationsView:
        """Return the view of a pool that a LIST gives; note how far the cache has to read now.

        Raises:
            UnreadableAllocations: some of what it lists cannot be decoded.
        """
        if unreadable := find_unreadable_names(listed.unreadable, pool):
            raise UnreadableAllocations(unreadable)
        allocations = listed.by_pool.get(pool, ())
        self._wait.note_list(pool, allocations)
        return AllocationsView.from_allocations(
            listed.revision,
            allocations,
            find=listed.by_key.get,
            unreadable=listed.unreadable.keys(),
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
