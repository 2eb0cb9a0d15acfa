"""IPAddressClaims as requests of NetworkPools, for the passes over NetworkPools.

A NetworkPool has one journal, one pass and one Holdings for IPAllocations and claims. The modules
of NetworkPools manage its finalizer, status and deletion; this module knows only claims. Cluster
API's pause annotation on a NetworkPool stops claims only: IPAllocations are still served.

The *journal* of a pool lists its promises: addresses that are reserved for requests. A *fence*
voids all promises that an earlier, lost journal may have contained.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from typing_extensions import override

from controller.cache import Cache
from controller.clock import Clock
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.addresses import FAMILY_SPACES
from reconcilers.integrations.clusterapi.api import (
    CLAIM_KIND,
    IPAddress,
    IPAddressClaim,
    is_paused,
)
from reconcilers.integrations.clusterapi.caches import (
    CONTRACT_FIELDS,
    ClaimPool,
    find_claim_tenant,
    list_named_pools,
    make_holder,
)
from reconcilers.integrations.clusterapi.claimkind import (
    ClaimParts,
    ContractClaims,
    ContractReading,
)
from reconcilers.integrations.clusterapi.clusterpauses import list_cluster_pauses
from reconcilers.integrations.clusterapi.networkpoolspace import make_layout_space
from reconcilers.integrations.clusterapi.reading import make_source
from reconcilers.integrations.core.absentkinds import UNKNOWN_RETRY, AbsentKinds
from reconcilers.integrations.core.claimreading import (
    ClaimSpaceView,
    ClaimsReading,
    may_lack_promises,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.networkpool.claims import ClaimService, PoolClaims, find_entry
from reconcilers.networkpool.view import ClaimView, NetworkPoolReading
from reconcilers.promises.choosing import AskerRefusal, ServedAskers, select_refusals
from reconcilers.promises.holdings import CachedSource, Facts, HolderSource, Holdings
from reconcilers.promises.identities import Holder, Tenant
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.reading import Behind
from reconcilers.promises.requestkinds import Fenced, RequestKind, ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable

ContractView = ClaimSpaceView[IPAddressClaim, IPAddress]
"""The claims of one pool, and their IPAddresses."""
ClaimOrAddress = TypeVar("ClaimOrAddress", IPAddressClaim, IPAddress)


class NetworkPoolClaims(RequestKind[NetworkPool, IPAddressClaim, NetworkPoolReading], PoolClaims):
    """IPAddressClaims as requests of NetworkPools, while the API server serves claims.

    A *view* holds the claims and IPAddresses that one pass has read.

    Args:
        parts: the caches, reader and writers that all kinds of pools with claims share.
    """

    def __init__(self, parts: ClaimParts) -> None:
        self._parts = parts
        self._caches = parts.caches
        self._claims = ContractClaims(NETWORK_POOL, parts)
        """Chooses addresses for claims, and refuses claims."""
        self._requests = self._claims.requests
        """Finds and writes claims, by readings that have claims alone."""
        self._source = make_source(parts.caches)
        """The caches of claims and IPAddresses."""
        self._served = ServedRequests(self)
        """The claims, for passes over NetworkPools."""

    @property
    @override
    def served_requests(
        self,
    ) -> ServedRequests[NetworkPool, IPAddressClaim, NetworkPoolReading]:
        return self._served

    @property
    @override
    def request_resource(self) -> Resource[IPAddressClaim]:
        return self._requests.request_resource

    @property
    @override
    def is_history_confirmed(self) -> bool:
        """Whether both caches were relisted since the API server was last out of reach."""
        return (
            self._caches.claims.is_history_confirmed
            and self._caches.addresses.is_history_confirmed
        )

    @property
    @override
    def sources(self) -> Sequence[HolderSource[Key, None]]:
        """Claims, IPAddresses and Clusters, as sources of the holdings of NetworkPools."""
        return [
            _make_holder_source(self._caches.claims),
            _make_holder_source(self._caches.addresses),
            *list_cluster_pauses(
                self._caches.clusters,
                self._caches.claims,
                pools=partial(list_named_pools, NETWORK_POOL),
                holder=make_holder,
            ),
        ]

    @override
    def find_facts(self, pool: Key, holder: Holder) -> Facts | None:
        """Return the facts of a claim and its IPAddress for a pool, from the caches.

        None if neither of them names the pool.
        """
        return self._parts.reader.find_facts(_make_pool_name(pool), holder, FAMILY_SPACES)

    @override
    def find_tenant(self, pool: Key, holder: Holder) -> Tenant | None:
        """Return the tenant of a claim, its Cluster; None if the claim does not exist."""
        claim = self._caches.claims.get(holder.key)
        return None if claim is None else find_claim_tenant(claim, FAMILY_SPACES)

    @override
    def read_cached(self, pool: Key, holdings: Holdings) -> ContractView:
        return self._parts.reader.make_cached_view(self._source, _make_pool_name(pool), holdings)

    @override
    def can_read_cached(self, pool: NetworkPool, journal: Journal) -> bool:
        """Return whether a pass may rely on the caches; if not, it must send LISTs.

        Raises:
            Behind: the caches lag, and the pass waits for them first.
        """
        if not self._caches.is_synced:
            raise Behind(UNKNOWN_RETRY, "claims or IPAddresses have not been listed yet")
        return self._parts.reader.can_read_cached(_make_pool_name(pool.metadata.key), journal)

    @override
    def find_unreadable(self, pool: Key) -> Sequence[UnreadableObject]:
        return find_unreadable(partial(self._parts.reader.check_cached, _make_pool_name(pool)))

    @override
    async def read_lists(self, pool: NetworkPool, journal: Journal) -> ContractView:
        """Return the claims of a pool, and their IPAddresses, by LISTs that begin now."""
        key = _make_pool_name(pool.metadata.key)
        reading = await self._parts.reader.read_lists(key, FAMILY_SPACES, journal)
        return reading.view_of(CONTRACT_FIELDS)

    @override
    def is_paused(self, pool: NetworkPool) -> bool:
        """Return whether an annotation pauses the pool for claims."""
        return is_paused(pool.metadata.annotations)

    @override
    def serve_askers(
        self,
        pool: NetworkPool,
        settled: Journal,
        reading: NetworkPoolReading,
        *,
        closed: str,
    ) -> ServedAskers[IPAddressClaim]:
        """Return the claims that wait for a pool, with the taker that chooses their addresses."""
        claims_reading = _make_claims_reading(pool, reading)
        return self._claims.serve_askers(
            pool, settled, claims_reading, closed=closed, observed=reading.observed
        )

    @override
    def needs_fence(
        self, pool: NetworkPool, journal: Journal, reading: NetworkPoolReading, limits: Limits
    ) -> bool:
        """Return whether the journal may lack promises to claims, so that these must be voided.

        Raises:
            Behind: the pass began before claims were served, so it has not read them.
        """
        claims = reading.view.claims
        if claims is None:
            raise Behind(reason="claims are served since the pass began")
        return may_lack_promises(self._source, _narrow_view(claims), journal)

    @override
    async def void_earlier(self, pool: NetworkPool, reading: NetworkPoolReading) -> Fenced:
        return await self._requests.void_all(pool)

    @override
    def find_request(self, reading: NetworkPoolReading, promise: Promise) -> IPAddressClaim | None:
        """Return the claim of a promise; None if the claim has another version by now."""
        return _narrow_view(reading.view.claims).find_promised_request(promise)

    @override
    def is_request_paused(self, pool: NetworkPool, request: IPAddressClaim) -> bool:
        """Return whether nothing is written to a claim now: it, its Cluster or pool is paused."""
        return self.is_paused(pool) or self._requests.is_request_paused(pool, request)

    @override
    async def keep(
        self,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        granted: Sequence[Granted[IPAddressClaim]],
    ) -> list[Kept[IPAddressClaim]]:
        """Write promises to their claims, each with the promised version as precondition.

        The IPAddress of a promise is written before its claim.

        Returns:
            The result of the write of each promise, also of a failed one.
        """
        return await self._requests.keep(pool, _make_claims_reading(pool, reading), granted)

    @override
    async def void_refused(
        self, pool: NetworkPool, refused: Sequence[Kept[IPAddressClaim]]
    ) -> Sequence[WriteResult]:
        return await self._requests.void_refused(pool, refused)

    @override
    def list_due_refusals(
        self, refusals: Iterable[AskerRefusal[Object]]
    ) -> Sequence[AskerRefusal[IPAddressClaim]]:
        """Return the refusals of claims that have to be written now."""
        return self._requests.writes.list_due_refusals(select_refusals(IPAddressClaim, refusals))

    @override
    async def finish(
        self,
        pool: NetworkPool,
        view: ClaimView,
        *,
        promises: Sequence[Promise],
        refusals: Sequence[AskerRefusal[Object]],
        due: Sequence[AskerRefusal[Object]],
    ) -> float | None:
        """Write refusals and delete leftover IPAddresses.

        Returns:
            Seconds until another pass is due; None if no pass is due, as for a paused pool.
        """
        if self.is_paused(pool):
            return None
        return await self._claims.finish(
            pool,
            _narrow_view(view),
            promises=promises,
            refusals=select_refusals(IPAddressClaim, refusals),
            due=select_refusals(IPAddressClaim, due),
        )

    @override
    def make_block_refusals(
        self, pool: NetworkPool, holdings: Holdings, why: str
    ) -> Sequence[AskerRefusal[IPAddressClaim]]:
        """Return the refusals to write to the waiting claims of a pool that serves no request.

        Args:
            holdings: of the pool, as the caches show them.
            why: why the pool serves no request, for the message.
        """
        return self._claims.list_refusals_of_waiting(pool, holdings, why)

    @override
    async def refuse(
        self, pool: NetworkPool, refusals: Sequence[AskerRefusal[Object]]
    ) -> float | None:
        """Write refusals to claims.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        return await self._requests.writes.refuse(select_refusals(IPAddressClaim, refusals), pool)

    @override
    def count_addresses(self, pool: Key) -> int:
        """Return how many IPAddresses name a pool, by the cache."""
        return self._parts.reader.count_addresses(_make_pool_name(pool))

    @override
    async def count_blockers(self, pool: NetworkPool, journal: Journal) -> int:
        """Void open promises; return how many holders the deletion of a pool has to wait for."""
        return await self._requests.count_blockers(pool, journal)

    @override
    def forget(self, pool: Key) -> None:
        self._parts.reader.forget(_make_pool_name(pool))


def _make_pool_name(pool: Key) -> ClaimPool:
    """Return the name by which readers of claims know a NetworkPool."""
    return ClaimPool(NETWORK_POOL, pool)


def _narrow_view(claims: ClaimView | None) -> ContractView:
    """Return a view of claims with its real type; the passes know it only as a ClaimView."""
    assert isinstance(claims, ClaimSpaceView), "only this integration reads claims"
    return claims


def _make_claims_reading(pool: NetworkPool, reading: NetworkPoolReading) -> ContractReading:
    """Return the claims of a reading as a reading of their own, with the space for claims.

    Claims get addresses of the first family only.

    Args:
        reading: of the pool, with requests of all kinds and the parsed spec.
    """
    space, view = make_layout_space(pool, reading.geometry[0]), _narrow_view(reading.view.claims)
    return ClaimsReading(space, view.holdings, {CLAIM_KIND: view})


def _make_holder_source(cache: Cache[ClaimOrAddress]) -> HolderSource[Key, None]:
    """Return a source of NetworkPools' holdings that reads a cache of claims or IPAddresses."""

    def list_objects(pool: Key, _: None) -> Iterable[ClaimOrAddress]:
        """Return the objects that name a pool."""
        return cache.list_by_index(SPACE_INDEX, str(_make_pool_name(pool)))

    pools = partial(list_named_pools, NETWORK_POOL)
    return CachedSource(cache, list_objects, pools=pools, holder=lambda obj, _: make_holder(obj))


class DiscoveredClaims(ClaimService):
    """Returns the claims of NetworkPools to passes, if the API server serves claims.

    The kinds of claims can appear or vanish while the process runs. The journal of a NetworkPool
    has an entry for claims if the pool was ever read with claims. For such a pool the kinds count
    as absent only after the entry has not changed for a while. While it changes, another replica
    serves claims.
    """

    def __init__(self, clock: Clock) -> None:
        self._absent = AbsentKinds(clock)
        self.is_known = False
        """Whether it is known if claims are served."""
        self.incomplete_reason = ""
        """The message while only one of claims and IPAddresses is served; else empty."""
        self.pool_claims: PoolClaims | None = None

    @override
    def find_pool_claims(self, pool: NetworkPool) -> PoolClaims | None:
        """Return the claims of NetworkPools; None if no claim can hold addresses of this pool.

        Raises:
            Behind: it is unknown whether claims hold addresses of the pool.
        """
        if not self.is_known:
            raise Behind(UNKNOWN_RETRY, "what claims hold of it is not known")
        # Claims without IPAddresses, or the reverse, show only a part of what is held.
        if self.incomplete_reason:
            raise Behind(UNKNOWN_RETRY, self.incomplete_reason)
        key = pool.metadata.key
        if self.pool_claims is not None:
            self._absent.forget(key)
            return self.pool_claims
        entry = find_entry(pool)
        if entry is None:  # no replica has ever served claims from this pool
            self._absent.forget(key)
        else:
            self._absent.check(key, entry, "claims")
        return None

    @override
    def check_counts(self, pool: NetworkPool) -> None:
        """Do nothing: `find_pool_claims` raises while the figures may lack claims."""

    @override
    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone, or that another replica works on from now on."""
        self._absent.forget(pool)
        if self.pool_claims is not None:
            self.pool_claims.forget(pool)
