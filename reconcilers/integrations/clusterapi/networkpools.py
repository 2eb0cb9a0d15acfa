"""NetworkPools as pools of claims: one pool object, two journals.

IPAllocations get ranges by promises in the pool's status, claims get addresses by those in its
journal. Both are written with the resourceVersion of the one object, so either side has read the
promises of both before it hands out, and reads what became of them as far as both memories say.

A pause, by the annotation of Cluster API, concerns claims only: IPAllocations are served all the
same. So a pause never stops the fence of a lost journal. Otherwise an IPAllocation could get the
address of an earlier promise to a claim, which is written late.
"""

from collections.abc import Sequence
from itertools import chain

from typing_extensions import override

from allocator import AddressRange, InvalidPool
from controller.cache import Cache
from controller.clock import Clock
from controller.conditions import is_true
from controller.finalizers import has_finalizer
from controller.meta import Key
from controller.outcome import SETTLED, Again, Outcome
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.addresses import OTHER_FAMILY, PoolSpace, blocks_of
from reconcilers.integrations.clusterapi.api import CLAIM_KIND, JOURNALS, is_paused
from reconcilers.integrations.clusterapi.caches import space_name
from reconcilers.integrations.clusterapi.claimkind import ClaimParts, ClaimReading
from reconcilers.integrations.clusterapi.heldranges import held_ranges, promised_ranges
from reconcilers.integrations.clusterapi.networkpoolspace import network_pool_space
from reconcilers.integrations.clusterapi.pools import ClaimPools
from reconcilers.integrations.clusterapi.reading import has_memory, has_read
from reconcilers.integrations.core.discovery import LOOK_AGAIN_SECONDS
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.networkpool.facts import KIND as ALLOCATIONS
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, check_kinds, settle_journal
from reconcilers.networkpool.view import HeldRange, OtherHolders, Reader
from reconcilers.promises.journal import ANNOTATION, Journal, ranges_of
from reconcilers.promises.reading import Behind
from reconcilers.promises.settling import settle
from reconcilers.reporting.conditions import FOREIGN_MANAGER, Finding
from reconcilers.specrules.poolnamespaces import describe_refused_namespace

UNKNOWN_RETRY = 0.5
ABSENCE_SECONDS = 4 * LOOK_AGAIN_SECONDS
"""How long a pool's journal must stay unchanged until its claims' kinds count as absent: in this
time at least one look at what is served begins and ends."""


class NetworkPoolClaims(ClaimPools[NetworkPool]):
    """Hands out single addresses of NetworkPools to claims.

    Finalizer, status and deletion of NetworkPools are their own reconciler's.

    Args:
        parts: what it works with.
        allocations: all IPAllocations, indexed by pool.
        others: what neither allocations nor claims hold.
    """

    def __init__(
        self, parts: ClaimParts, allocations: Cache[IPAllocation], others: OtherHolders
    ) -> None:
        super().__init__(parts.caches.pools[NETWORK_POOL.kind], parts)
        self._others = others
        self._cache = allocations
        self._allocations = Reader(
            allocations, parts.client, parts.clock, parts.settings.cache_patience
        )

    @override
    def forget(self, pool: Key) -> None:
        super().forget(pool)
        self._allocations.forget(pool)

    @override
    def geometry(self, pool: NetworkPool) -> PoolSpace:
        return network_pool_space(pool, self._parts.settings.max_addresses)

    @override
    async def prepare(self, pool: NetworkPool) -> tuple[NetworkPool, Outcome | None]:
        if not has_finalizer(pool, names.FINALIZER_POOL) or pool.metadata.terminating:
            return pool, SETTLED  # its own reconciler's write is an event
        if _has_foreign_manager(pool) and not self._is_valid(pool):
            return pool, await self._block(pool)
        return await super().prepare(pool)

    def _is_valid(self, pool: NetworkPool) -> bool:
        """Return whether the spec of a pool can be read, so that a lost journal is restored.

        The pool's own pass reports an invalid spec, and needs no journal for that.
        """
        try:
            self.geometry(pool)
        except InvalidPool:
            return False
        return True

    @override
    async def complete(self, pool: NetworkPool, reading: ClaimReading) -> ClaimReading | Outcome:
        """Read what others hold, unless the pool hands out nothing to claims.

        It hands out nothing if it is paused, or if another controller writes its status. The
        journal is restored all the same if it was lost. The pool's own pass needs it to find out
        what claims hold; only that pass ends the condition that another controller writes.
        """
        if is_paused(pool.metadata.annotations):
            return SETTLED
        if _has_foreign_manager(pool):
            return await self._block(pool)
        return await super().complete(pool, reading)

    @override
    def why_closed(self, pool: NetworkPool) -> str:
        namespaces = self._parts.settings.namespaces
        return describe_refused_namespace(pool.metadata.namespace, namespaces)

    async def _block(self, pool: NetworkPool) -> Outcome:
        """Report on the claims that the pool hands out nothing while another controller writes."""
        unwritten = await self._claims.refuse_waiting(pool, "another controller writes its status")
        return SETTLED if unwritten is None else Again(unwritten)

    @override
    async def also_held(self, pool: NetworkPool, space: PoolSpace) -> Sequence[AddressRange]:
        if not self._cache.history_confirmed:
            # etcd may have been restored from a backup: the cache may lack IPAllocations that hold
            # addresses again, and so may a LIST from before.
            self._allocations.forget_lists()
            raise Behind(UNKNOWN_RETRY, "the IPAllocations have not been listed anew")
        check_kinds(pool)
        journal = STATUS_JOURNALS.read(pool)
        revision = journal.revisions.get(ALLOCATIONS)
        if revision is None:
            # Earlier promises to allocations may still be kept.
            raise Behind(reason="its own pass has not fenced it yet")
        view = await self._allocations.at_least(pool, revision)
        held = [*self._others.held(pool)]
        if view.position < revision:
            raise Behind
        open_promises = settle_journal(journal, view).promises
        held += chain.from_iterable(map(statusranges.list_held_ranges, view.of_pool))
        held += ranges_of(open_promises)
        found = (one.in_family(space.layout.family) for one in held)
        return [one for one in found if one is not None]

    @override
    async def _write_ready(self, pool: NetworkPool, ready: Finding) -> None:
        """Leave the status to its own reconciler."""

    @override
    async def _write_status(
        self, pool: NetworkPool, space: PoolSpace, ready: Finding | None = None
    ) -> None:
        """Leave the status to its own reconciler."""

    def held(self, pool: NetworkPool, journal: Journal) -> Sequence[AddressRange]:
        """Return what claims and IPAddresses hold of a pool, or are promised, in both families.

        Args:
            pool: the pool.
            journal: its journal of claims.

        Raises:
            Behind: the caches have not read far enough, or the journal was lost: what it promised
                may still be written until the pass over claims has fenced the pool.
            UnreadableHolders: claims or IPAddresses that may be the pool's cannot be decoded.
        """
        caches, space = self._parts.caches, self.geometry(pool)
        if not has_memory(journal):
            raise Behind(UNKNOWN_RETRY, "the pass over its claims has not fenced it yet")
        view = self._parts.reader.cached(NETWORK_POOL, pool.metadata.key, space)
        is_complete = caches.synced and caches.history_confirmed
        if not (is_complete and has_read(view, journal)):
            raise Behind(UNKNOWN_RETRY, "the caches of claims have not read far enough")
        self._parts.reader.check_cached(NETWORK_POOL, pool.metadata.key)
        promised = {
            blocks_of(space, part.range)
            for promise in settle(journal, CLAIM_KIND, view, view.effects).promises
            for part in promise.ranges
        }
        of_other_family = view.holdings.held_ranges(OTHER_FAMILY)
        return [*promised.union(view.holdings.held_ranges(), of_other_family)]

    def named(self, pool: NetworkPool) -> Sequence[HeldRange]:
        """Return what claims hold of a pool, as the caches show it."""
        caches, space = self._parts.caches, space_name(NETWORK_POOL, pool.metadata.key)
        claims = caches.claims.by_index(SPACE_INDEX, space)
        addresses = caches.addresses.by_index(SPACE_INDEX, space)
        return held_ranges(
            pool,
            claims,
            addresses,
            caches.claims.position,
            unreadable=caches.claims.unreadable.keys(),
        )

    def seen_blockers(self, pool: NetworkPool) -> int:
        """Return how many IPAddresses name a pool, as the cache shows it."""
        return self._parts.reader.count(NETWORK_POOL, pool.metadata.key)

    async def blockers(self, pool: NetworkPool) -> int:
        """Return how many IPAddresses the deletion of a pool waits for; see ClaimKind."""
        return await self._claims.blockers(pool, self.journals.read(pool))


def _has_foreign_manager(pool: NetworkPool) -> bool:
    """Return whether another controller writes the status of a pool."""
    return is_true(pool.status.conditions, FOREIGN_MANAGER)


class ClaimHolders(OtherHolders):
    """What claims hold of NetworkPools, for the reconciler of NetworkPools.

    Where claims are not served nothing holds addresses, but the open promises of a pool's journal
    count all the same. The kinds may just have come: another replica that sees them already has
    made these promises, and keeps them. It also drops them from the journal once they are kept,
    so absence is believed of a pool with a journal only while that journal does not change.

    If only one of IPAddressClaims and IPAddresses is served, the objects of that kind hold
    addresses, and nothing reads them: that is not absence, and pools hand out nothing.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.known = False
        """Whether it is known if claims are served."""
        self.incomplete = ""
        """Which of the two kinds is missing while the other one is served; empty for none."""
        self.pools: NetworkPoolClaims | None = None
        """The reconciler of NetworkPools' claims; None where claims are not served."""
        self._journals: dict[Key, tuple[str, float]] = {}
        """By pool: its journal as stored, and since when (monotonic seconds) it was seen unchanged
        while claims were not served."""

    @override
    def held(self, pool: NetworkPool) -> Sequence[AddressRange]:
        journal = self._check_known(pool)
        if self.pools is None:
            return [*dict.fromkeys(holding.range for holding in promised_ranges(pool))]
        return self.pools.held(pool, journal)

    def _check_known(self, pool: NetworkPool) -> Journal:
        """Return the pool's journal of claims, if it is known whether claims are served.

        Raises:
            Behind: that is not known, only one of their kinds is served, or claims were served
                until just now.
        """
        if not self.known:
            raise Behind(UNKNOWN_RETRY, "what claims hold of it is not known")
        if self.incomplete:
            raise Behind(UNKNOWN_RETRY, self.incomplete)
        key, journal = pool.metadata.key, JOURNALS.read(pool)
        stored = pool.metadata.annotations.get(ANNOTATION, "")  # counts even if it is unreadable
        if self.pools is not None or not stored:
            self._journals.pop(key, None)
            return journal
        now = self._clock.monotonic()
        seen, since = self._journals.get(key, (stored, now))
        since = since if seen == stored else now
        self._journals[key] = stored, since
        if now - since < ABSENCE_SECONDS:
            reason = (
                "its journal shows that claims were served, and their kinds are absent; this is"
                f" believed once the journal has not changed for {ABSENCE_SECONDS:.0f} s"
            )
            raise Behind(UNKNOWN_RETRY, reason)
        return journal

    @override
    def named(self, pool: NetworkPool) -> Sequence[HeldRange]:
        return self.pools.named(pool) if self.pools is not None else promised_ranges(pool)

    @override
    def seen_blockers(self, pool: NetworkPool) -> int:
        return self.pools.seen_blockers(pool) if self.pools is not None else 0

    @override
    async def blockers(self, pool: NetworkPool) -> int:
        self._check_known(pool)
        return await self.pools.blockers(pool) if self.pools is not None else 0

    @override
    def forget(self, pool: Key) -> None:
        self._journals.pop(pool, None)
