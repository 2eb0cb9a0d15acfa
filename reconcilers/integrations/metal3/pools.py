"""One pass over one IPPool, from which claims of both kinds are served.

being deleted                    hand out nothing; remove the finalizer once no IPAddress names it
                                 and no promise is open
of a Cluster                     write labels and owner, as metal3 does, and go on
paused, or its Cluster missing   hand out nothing
no finalizer                     add it, and go on
no journal                       fence it: void all promises that a lost journal may have contained
otherwise                        read, choose, write the journal, write IPAddresses and claims,
                                 then the status

A *promise* is an address that the pool's journal reserves for a claim.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ApiError
from controller.finalizers import has_finalizer, remove_finalizer
from controller.meta import Key, OwnerReference, Version
from controller.outcome import SETTLED, Blocked, Outcome
from controller.resource import Resource
from reconcilers.integrations.clusterapi.api import (
    CLUSTER_LABEL,
    DELETE_FOR_MOVE,
    PROVIDER_LABEL,
    Cluster,
)
from reconcilers.integrations.core.absentkinds import UNKNOWN_RETRY, AbsentKinds
from reconcilers.integrations.core.claimkind import choose_claims
from reconcilers.integrations.core.claimreading import ClaimsReading
from reconcilers.integrations.core.owners import render_owner_reference
from reconcilers.integrations.metal3.api import (
    JOURNALS,
    POOL_FINALIZER,
    POOLS,
    PROVIDER,
    Metal3Pool,
)
from reconcilers.integrations.metal3.claimformats import EitherClaim
from reconcilers.integrations.metal3.claimkind import Metal3Parts, ServedClaims
from reconcilers.integrations.metal3.entries import EntrySpace, PoolSpaces
from reconcilers.integrations.metal3.poolstatus import PoolIndexes
from reconcilers.integrations.metal3.taking import TakenAddresses
from reconcilers.promises.annotationwrites import ANNOTATION_WRITES
from reconcilers.promises.choosing import Choice
from reconcilers.promises.journal import Journal
from reconcilers.promises.keeping import Kept
from reconcilers.promises.passes import (
    NO_FENCED_REQUESTS,
    Allotment,
    PassWork,
    PoolKind,
    next_after_quiet_period,
    raise_if_pool_write_refused,
)
from reconcilers.promises.reading import Behind
from reconcilers.promises.requestkinds import ServedRequests
from reconcilers.promises.shares import Limits, Shares, TenantOf, no_tenant
from reconcilers.promises.unreadable import UnreadableHoldings

Metal3Choice = Allotment[EitherClaim, Choice[EitherClaim]]


class ServedKinds:
    """Which kinds of claims this process serves, and whether it knows all kinds.

    Args:
        clock: the time.
        kinds: the kinds that are served.
    """

    def __init__(self, clock: Clock, kinds: Sequence[ServedClaims]) -> None:
        self._absent = AbsentKinds(clock)
        """Decides when a kind that is not served here, and is in a journal, counts as absent."""
        self.kinds = kinds
        self.is_known = True
        """Whether `kinds` is up to date: discovery has answered since a definition changed."""

    def require_known_kinds(self, pool: Key, journal: Journal) -> None:
        """Raise unless this process serves all kinds of claims that hold addresses of a pool.

        Entries of a kind in the journal show that some replica has served that kind. If this
        process does not serve the kind, another replica may still do so. While it does, the
        entries change. So the kind counts as absent once they have not changed for a while.

        Raises:
            Behind: another replica may serve such a kind, or discovery has not answered.
        """
        if not self.is_known:
            raise Behind(UNKNOWN_RETRY, "it is not known which kinds of claims are served")
        served_kinds = {kind.claim_kind for kind in self.kinds}
        missing = {JOURNALS.kind, *(kind for kind, _ in JOURNALS.others)} - served_kinds
        revisions = [(kind, journal.revisions[kind]) for kind in missing & set(journal.revisions)]
        promises = [promise for promise in journal.promises if promise.kind in missing]
        if not revisions and not promises:
            self._absent.forget(pool)
            return
        # All that the journal says of these kinds; `AbsentKinds` notes since when it is the same.
        entry = tuple(sorted(revisions)), tuple(promises)
        self._absent.check(pool, entry, ", ".join(sorted(missing)))

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._absent.forget(pool)


class Metal3Pools(
    PoolKind[Metal3Pool, EitherClaim, ClaimsReading[EntrySpace], Choice[EitherClaim]]
):
    """IPPools, as passes over pools of all kinds see them.

    Args:
        client: for the writes.
        parts: what passes share.
        served_kinds: the kinds of claims.
        indexes: writes the pools' statuses.
    """

    journals = JOURNALS
    journal_writes = ANNOTATION_WRITES

    def __init__(
        self, client: Client, parts: Metal3Parts, served_kinds: ServedKinds, indexes: PoolIndexes
    ) -> None:
        self._client = client
        self._parts = parts
        self._caches = parts.caches
        self._served = served_kinds
        self._indexes = indexes
        self._spaces = PoolSpaces()

    @property
    @override
    def pools(self) -> Cache[Metal3Pool]:
        return self._caches.pools

    @property
    @override
    def is_history_confirmed(self) -> bool:
        return self._caches.is_history_confirmed

    @override
    def forget_lists(self) -> None:
        """Forget nothing: no LIST is kept from one pass to the next."""

    @override
    def is_left_alone(self, pool: Metal3Pool) -> bool:
        """Return False: passes serve every IPPool."""
        return False

    @override
    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool that is gone."""
        self._parts.reader.forget(pool)
        self._spaces.forget(pool)
        self._indexes.forget(pool)
        self._served.forget(pool)

    @override
    async def prepare(self, pool: Metal3Pool) -> tuple[Metal3Pool, Outcome | None]:
        """Prepare a pass: handle the deletion, or write finalizer, labels and owner.

        Returns:
            The pool as it was written last, and the outcome of the pass; the outcome is None if
            the pass goes on. It ends for a deleted or paused pool, or if its Cluster is missing.
        """
        if pool.metadata.is_terminating:
            return pool, await self._reconcile_deleted(pool)
        is_paused, why = self._caches.is_pool_paused(pool), self._caches.why_pool_stops(pool)
        patch = self._build_metadata_patch(pool, add_finalizer=not why)
        if patch:
            with raise_if_pool_write_refused():
                version = Version.from_object(pool)
                pool = await self._client.patch(POOLS, version, {"metadata": patch})
        if is_paused:
            # Nothing is handed out, so a fence waits for the end of the pause.
            return pool, SETTLED
        if why:
            return pool, Blocked("PoolNotReady", await self._refuse_waiting(pool, why))
        return pool, None

    @override
    def request_kinds(
        self, pool: Metal3Pool
    ) -> Sequence[ServedRequests[Metal3Pool, EitherClaim, ClaimsReading[EntrySpace]]]:
        """Return the kinds of claims that are served.

        Raises:
            Behind: claims of a kind that is not served here may hold addresses of the pool, or
                discovery has not answered.
        """
        self._served.require_known_kinds(pool.metadata.key, JOURNALS.read(pool))
        return [kind.served_requests for kind in self._served.kinds]

    @override
    def tenants(self, reading: ClaimsReading[EntrySpace]) -> TenantOf:
        return no_tenant  # all claims of a pool are in its namespace

    @override
    async def read(
        self,
        pool: Metal3Pool,
        journal: Journal,
        fenced_requests: Mapping[str, object] = NO_FENCED_REQUESTS,
    ) -> ClaimsReading[EntrySpace]:
        """Return the claims and IPAddresses of a pool, at least as new as its journal."""
        space = self._spaces.get_space(pool)
        return await self._parts.reader.read_up_to_journal(pool.metadata.key, space, journal)

    @override
    def choose(
        self,
        pool: Metal3Pool,
        journal: Journal,
        reading: ClaimsReading[EntrySpace],
        limits: Limits,
    ) -> Metal3Choice:
        """Choose addresses for claims of all kinds, or refuse claims."""
        settled = reading.settle(journal)
        room = min(self._parts.settings.batch, JOURNALS.count_room(settled))
        promised = [
            reading.space.make_promised_range(part.range)
            for promise in settled.promises
            for part in promise.ranges
        ]
        # `promised` keeps addresses out of the free space of their entries. `unavailable` has the
        # addresses that are in no entry's free space, too, and grows while claims are served.
        unavailable = TakenAddresses(settled.promises)
        askers = [kind.serve_askers(pool, reading, unavailable) for kind in self._served.kinds]
        return choose_claims(settled, reading, askers, promised=promised, room=room, limits=limits)

    @override
    async def confirm(
        self,
        pool: Metal3Pool,
        journal: Journal,
        reading: ClaimsReading[EntrySpace],
        choice: Metal3Choice,
        limits: Limits,
    ) -> tuple[ClaimsReading[EntrySpace], Metal3Choice]:
        """Return the reading and the choice unchanged: no live read is needed."""
        return reading, choice

    @override
    async def finish(
        self,
        pool: Metal3Pool,
        reading: ClaimsReading[EntrySpace],
        choice: Metal3Choice,
        kept: Sequence[Kept[EitherClaim]],
        shares: Shares,
    ) -> float | None:
        """Write refusals and, unless more claims are served at once, the status of the pool.

        Returns:
            Seconds until another pass is due; None if none is due.
        """
        waits: list[float | None] = []
        for kind in self._served.kinds:
            waits.append(await kind.refuse(pool, choice.detail.refusals))
            waits.append(kind.seconds_until_restored(pool))
        if not choice.more:  # else the next pass follows at once
            with raise_if_pool_write_refused():
                await self._indexes.write(pool, reading.space)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    @override
    def next_pass(self, work: PassWork[Metal3Pool, EitherClaim, Choice[EitherClaim]]) -> Outcome:
        """Return when the next pass is due for the promises or for `finish`."""
        return next_after_quiet_period(work)

    @override
    async def report_unreadable(
        self, pool: Metal3Pool, unreadable: UnreadableHoldings
    ) -> float | None:
        """Report undecodable holders on each waiting claim.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        return await self._refuse_waiting(pool, str(unreadable))

    @override
    async def report_pool_refused(self, pool: Metal3Pool, error: ApiError) -> None:
        await self._refuse_waiting(pool, f"it cannot be written: {error}")

    async def _refuse_waiting(self, pool: Metal3Pool, why: str) -> float | None:
        """Write to each claim that waits for a pool why the pool serves no claim.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        key, space = pool.metadata.key, self._spaces.get_space(pool)
        waits: list[float | None] = []
        for kind in self._served.kinds:
            # Each kind awaited its writes, and holdings are valid only until the next await.
            holdings = self._parts.reader.read_cached(key, space).holdings
            waits.append(await kind.refuse_waiting(pool, holdings, why))
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _build_metadata_patch(self, pool: Metal3Pool, *, add_finalizer: bool) -> dict[str, Any]:
        """Return the metadata patch that a pool needs; empty if it needs none.

        The patch has the finalizer, and for a pool of a Cluster its labels and its owner.

        Args:
            add_finalizer: whether the pool hands out addresses, so that it needs the finalizer.
        """
        meta, patch = pool.metadata, dict[str, Any]()
        if add_finalizer and POOL_FINALIZER not in meta.finalizers:
            patch["finalizers"] = [*meta.finalizers, POOL_FINALIZER]
        key = pool.cluster
        if key is None:
            return patch
        labels = {CLUSTER_LABEL: key.name, PROVIDER_LABEL: PROVIDER}
        missing = {name: value for name, value in labels.items() if meta.labels.get(name) != value}
        if missing:
            patch["labels"] = missing
        clusters = self._caches.clusters
        cluster = clusters.get(key) if clusters is not None else None
        if clusters is not None and cluster is not None:
            owners = _add_cluster_owner(pool, cluster, clusters.resource)
            if owners is not None:
                patch["ownerReferences"] = owners
        return patch

    async def _reconcile_deleted(self, pool: Metal3Pool) -> Outcome:
        """Remove the finalizer once nothing names the pool and nothing is promised.

        Open promises are voided first, so that no late write gives an address of a deleted pool.
        """
        # `clusterctl move` removes finalizers and objects by itself.
        is_moved = DELETE_FOR_MOVE in pool.metadata.annotations
        if not has_finalizer(pool, POOL_FINALIZER) or is_moved:
            return SETTLED
        if self._caches.is_pool_paused(pool):
            return SETTLED  # an event leads to the next pass when the pause ends
        journal = JOURNALS.read(pool)
        self._served.require_known_kinds(pool.metadata.key, journal)
        kinds = self._served.kinds
        await self._refuse_waiting(pool, "it is being deleted")
        for kind in kinds:
            # This voids open promises to claims of the kind, if nothing blocks the deletion.
            if await kind.count_blockers(pool, journal):
                with raise_if_pool_write_refused():
                    await self._indexes.write(pool, self._spaces.get_space(pool))
                return Blocked("Deleting", self._parts.settings.requeue_deleting)
        with raise_if_pool_write_refused():
            await remove_finalizer(self._client, POOLS, pool, POOL_FINALIZER)
        return SETTLED


def _add_cluster_owner(
    pool: Metal3Pool, cluster: Cluster, kind: Resource[Cluster]
) -> list[dict[str, Any]] | None:
    """Return the owner references of a pool with its Cluster added, for a patch.

    An owner with the Cluster's name and another uid is an earlier Cluster, and is removed.

    Returns:
        None if the Cluster is an owner already, so that no patch is needed.
    """
    meta = cluster.metadata
    reference = OwnerReference(kind.api_version, kind.kind, meta.name, meta.uid, controller=False)
    others: list[OwnerReference] = []
    for owner in pool.metadata.ownerReferences:
        is_cluster = (owner.kind, owner.apiVersion.rpartition("/")[0]) == (kind.kind, kind.group)
        if is_cluster and owner.uid == meta.uid:
            return None
        if not is_cluster or owner.name != meta.name:
            others.append(owner)
    return [render_owner_reference(owner) for owner in (*others, reference)]
