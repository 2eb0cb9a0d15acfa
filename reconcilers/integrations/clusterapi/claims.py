"""One pass over one IPAddressClaim, and over the IPAddress of its name.

etcd may have been restored           retry until the caches were listed again
claim cannot be decoded               release nothing until a person corrects it
claim gone, IPAddress undecodable     release nothing until a person corrects the IPAddress
claim no longer exists                release an IPAddress that was made for it
pool of a kind not served here        leave the claim alone
being moved by clusterctl             leave the claim alone
claim or its Cluster paused           leave the claim alone until that changes
Cluster missing, claim not deleted    leave the claim alone until the Cluster exists
claim being deleted                   release its address, then remove the finalizer
no finalizer                          add it, before anything is allocated, and go on
IPAddress of an earlier claim         release that IPAddress
IPAddress restored from a backup      record its address on the claim
no address, no usable pool            report in the claim's status why the pool is not usable
has its address                       recreate or repair its IPAddress

The first row that applies decides. Addresses are handed out by the passes over pools (`pools.py`).

A pool may have a grace period, during which a released address *rests*: its IPAddress stays, and
no claim gets the address. The *record* of a claim is the address that its status states.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from controller.cache import Change
from controller.client import Client
from controller.clock import Clock
from controller.conditions import format_rfc3339
from controller.events import Recorder
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key, OwnerReference, Version
from controller.outcome import SETTLED, Again, Blocked, Outcome
from controller.resource import Resource
from reconcilers.integrations.clusterapi.answers import (
    RELEASED_AT,
    Answers,
    explain_unusable,
    find_controlling_claim,
    is_held_back,
    is_left_over,
    is_made_for_claim,
    is_restored,
    make_ready_finding,
    must_be_recorded,
    render_spec,
)
from reconcilers.integrations.clusterapi.api import (
    CLAIM_FINALIZER,
    DELETE_FOR_MOVE,
    IPAddress,
    IPAddressClaim,
    IPPool,
    is_paused,
)
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    ServedPool,
    find_pool_kind,
    get_gateway,
    get_pool_key,
)
from reconcilers.integrations.clusterapi.gonelog import ContractGoneLines
from reconcilers.integrations.clusterapi.reading import make_source
from reconcilers.integrations.clusterapi.statuses import (
    RESTORED_ADDRESS,
    ClaimRecord,
    is_finding_shown,
    read_record,
    read_restored_record,
    render_message,
    render_ready,
)
from reconcilers.integrations.core.claimproblems import POOL_NOT_READY, ClaimProblem
from reconcilers.integrations.core.claimwrites import AddressInTheWay
from reconcilers.integrations.core.gonelog import GoneAddresses
from reconcilers.integrations.core.liveretries import RETRY, retry_live
from reconcilers.integrations.core.restoredrequests import compute_restore_wait

UNREADABLE = "Unreadable"


class ClaimReconciler:
    """Adds finalizers, releases addresses, and reports why a claim has to wait for its pool.

    Args:
        works_on: returns whether this replica works on the shard of a pool; None for all shards.
    """

    def __init__(
        self,
        client: Client,
        caches: ClaimCaches,
        recorder: Recorder,
        clock: Clock,
        works_on: Callable[[Key], bool] | None = None,
    ) -> None:
        self._client = client
        self._caches = caches
        self._answers = Answers(client, caches)
        self._recorder = recorder
        self._clock = clock
        self._moved: set[str] = set()
        """The uids of claims that `clusterctl move` deleted here, seen by the watch."""
        self._orphaned: dict[str, OwnerReference] = {}
        """By uid of an IPAddress: the owner reference of its deleted claim.

        The garbage collector removed that reference. For cluster-scoped pools, `is_left_over`
        cannot tell without a Cluster label that the IPAddress was a claim's; this memory can.
        """
        caches.claims.subscribe(self._note_move)
        caches.addresses.subscribe(self._note_orphan)
        lines = ContractGoneLines(caches, works_on)
        GoneAddresses(make_source(caches), lines, logged=caches.logged)

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one claim and the IPAddress of its name, by the table of this module.

        If an object has changed since the cache showed it, the pass repeats with the live claim.
        """
        # etcd may have been restored: the caches may show objects that no longer exist.
        if not self._caches.is_history_confirmed:
            return Again(RETRY)
        claim = self._caches.claims.get(key)
        is_address_unreadable = key in self._caches.addresses.unreadable
        if key in self._caches.claims.unreadable or (claim is None and is_address_unreadable):
            # An object that cannot be decoded may hold an address, so nothing is released.
            return Blocked(UNREADABLE)

        async def attempt(claim: IPAddressClaim | None) -> Outcome:
            """Run the pass for an existing claim, or for one that is gone (None)."""
            return await (self._reconcile_gone(key) if claim is None else self._reconcile(claim))

        return await retry_live(claim, attempt, partial(self._read_live_claim, key))

    def _is_address_unreadable(self, claim: IPAddressClaim) -> bool:
        """Return whether the IPAddress of a claim's name cannot be decoded."""
        return claim.metadata.key in self._caches.addresses.unreadable

    async def _read_live_claim(self, key: Key) -> IPAddressClaim | None:
        """Read a claim from the API server; None if it does not exist."""
        return await self._client.find(self._caches.claim_kind, key)

    async def _exists(self, key: Key) -> bool:
        """Return whether a claim exists on the API server.

        Only metadata is read, so that a claim that cannot be decoded counts, too.
        """
        return await self._client.find(self._caches.claim_kind.metadata_only, key) is not None

    async def _reconcile(self, claim: IPAddressClaim) -> Outcome:
        """Apply the first row of the module's table that fits an existing, readable claim."""
        kind, meta = find_pool_kind(claim.spec.poolRef), claim.metadata
        # `clusterctl move` removes finalizers itself, and the address stays in use elsewhere.
        is_being_moved = meta.is_terminating and DELETE_FOR_MOVE in meta.annotations
        if kind is None or is_being_moved or self._caches.is_stopped(claim):
            return SETTLED
        if meta.is_terminating:
            return await self._reconcile_deleted(claim)
        # The pass goes on with the answer, because the event of this write leads to no pass.
        claim_kind = self._caches.claim_kind
        claim = await add_finalizer(self._client, claim_kind, claim, CLAIM_FINALIZER)
        pool = self._caches.find_pool(claim)
        record = read_record(claim)
        if record is None:
            return await self._reconcile_waiting(claim, pool)
        # An IPAddress that cannot be decoded cannot be repaired. A pool that cannot be decoded may
        # be paused.
        is_unreadable = self._is_address_unreadable(claim) or self._caches.is_pool_unreadable(
            claim
        )
        if pool is not None and not is_unreadable and not is_paused(pool.metadata.annotations):
            return await self._keep_answer(claim, record, pool=pool, kind=kind)
        return SETTLED

    async def _keep_answer(
        self,
        claim: IPAddressClaim,
        record: ClaimRecord,
        pool: ServedPool,
        kind: Resource[ServedPool],
    ) -> Outcome:
        """Recreate or repair the IPAddress of a claim that has its address.

        An existing IPAddress of the claim's name that belongs to another claim or pool is left
        alone. The outcome is Blocked only if such an IPAddress prevents the recreation.
        """
        address = self._caches.addresses.get(claim.metadata.key)
        if address is None or is_restored(address, claim):
            # It was deleted, or a restore gave it owners that no longer exist. The claim still
            # holds the address.
            if await self._restore_address(claim, record, pool=pool, kind=kind) is None:
                return Blocked("NotOurs")
        elif not explain_unusable(address, claim):
            await self._answers.repair(address, claim, pool=pool, pool_kind=kind)
            # The IPAddress is complete again, so the claim need not record its address any more.
            if RESTORED_ADDRESS in claim.metadata.annotations:
                await self._set_restored_address(claim, value=None)
        return SETTLED

    async def _restore_address(
        self,
        claim: IPAddressClaim,
        record: ClaimRecord,
        pool: ServedPool,
        kind: Resource[ServedPool],
    ) -> IPAddress | None:
        """Create or repair the IPAddress that a claim records.

        Returns:
            The IPAddress; None if another IPAddress has its name.
        """
        spec = render_spec(record.address, record.prefix, get_gateway(pool))
        try:
            return await self._answers.ensure(claim, pool, kind, spec)
        except AddressInTheWay:
            return None

    async def _reconcile_waiting(self, claim: IPAddressClaim, pool: ServedPool | None) -> Outcome:
        """Handle a claim without an address; the pass over its pool gives it one.

        The first step that applies ends the pass:
        1. Release the IPAddress of an earlier claim of this name.
        2. Record the address of a restored IPAddress on the claim.
        3. Report in the claim's status that its pool is missing, unreadable or being deleted.
        """
        address = None
        if not self._is_address_unreadable(claim):
            address = self._caches.addresses.get(claim.metadata.key)
        if address is not None and not (pool and is_paused(pool.metadata.annotations)):
            outcome = await self._release_earlier_answer(address, claim)
            if outcome is not None:
                return outcome
            if must_be_recorded(address, claim) and not explain_unusable(address, claim):
                await self._record_restored(claim, address)
                return SETTLED  # the answer to that write enqueues the pool
        problem = self._caches.explain_absent_pool(claim)
        # The pass over the pool serves the claim, or reports why it does not.
        if not problem:
            return SETTLED
        finding = make_ready_finding(claim, self._caches, ClaimProblem(POOL_NOT_READY, problem))
        if not is_finding_shown(claim, finding):
            kind = self._caches.claim_kind
            status = render_ready(claim, finding, version=kind.version, now=self._clock.now())
            written = await self._client.patch_status(kind, claim, status)
            self._recorder.record(
                kind, written, "Warning", POOL_NOT_READY, problem, action="Allocating"
            )
        return SETTLED

    async def _record_restored(self, claim: IPAddressClaim, address: IPAddress) -> None:
        """Annotate a claim with the address of its IPAddress, which is to be recreated."""
        spec = address.spec
        restored = render_message(spec.address, spec.prefix, claim.spec.poolRef)
        await self._set_restored_address(claim, value=restored)

    async def _set_restored_address(self, claim: IPAddressClaim, *, value: str | None) -> None:
        """Set the annotation that names the address of a claim's restored IPAddress.

        Args:
            claim: as it was read.
            value: address, prefix and pool, as `render_message` returns them; None removes the
                annotation.
        """
        patch = {"metadata": {"annotations": {RESTORED_ADDRESS: value}}}
        version = Version.from_object(claim)
        await self._client.patch(self._caches.claim_kind, version, patch)

    async def _release_earlier_answer(
        self, address: IPAddress, claim: IPAddressClaim
    ) -> Outcome | None:
        """Release the IPAddress of an earlier claim of this name, at once or after its rest.

        An IPAddress that can answer this claim is not released: a machine has its address, and
        the pass over the pool gives the address to this claim.

        Returns:
            The outcome of the pass; None if the pass goes on, because the IPAddress is not of an
            earlier claim, or can answer this claim.
        """
        # The grace period is that of the IPAddress's pool; this claim may name another pool.
        pool = self._caches.find_pool(address)
        if RELEASED_AT in address.metadata.annotations:
            return await self._end_rest_if_due(address, pool)
        owner = find_controlling_claim(address)
        # `is_restored`: it is being deleted, and this claim is not its owner.
        if (
            owner is None
            or not is_restored(address, claim)
            or not explain_unusable(address, claim)
        ):
            return None
        live = await self._read_live_claim(claim.metadata.key)
        # The cache may show an older claim of the name. The live claim is the owner or not.
        if live is not None and live.metadata.uid != owner.uid:
            reason = "it belonged to an earlier claim of the same name"
            await self._release(address, pool, since=self._clock.now(), why=reason)
        # Otherwise the claim is gone, or the live claim is the owner. Then nothing is released
        # here: the cache is stale, and the event that updates it leads to the next pass.
        return SETTLED

    async def _reconcile_deleted(self, claim: IPAddressClaim) -> Outcome:
        """Release the address of a claim that is being deleted, then remove the finalizer."""
        if self._is_address_unreadable(claim) or self._caches.is_pool_unreadable(claim):
            return Blocked(UNREADABLE)  # the pool may be paused, or may have a grace period
        pool = self._caches.find_pool(claim)
        if pool is not None and is_paused(pool.metadata.annotations):
            return SETTLED
        address = await self._find_address(claim)
        # Other finalizers keep the claim. Its address is released already, and may rest.
        if not has_finalizer(claim, CLAIM_FINALIZER):
            return await self._end_rest_if_due(address, pool) if address is not None else SETTLED
        if address is None:
            address = await self._recreate_to_rest(claim, pool)
        if address is not None and not explain_unusable(address, claim):
            since = claim.metadata.deletionTimestamp
            assert since is not None, "the claim is being deleted"
            await self._release(address, pool, since=since, why="its claim is deleted")
            # The release has its log line, so the watch must not log the claim as lost.
            self._caches.logged.add(claim.metadata.uid)
        await remove_finalizer(self._client, self._caches.claim_kind, claim, CLAIM_FINALIZER)
        return SETTLED

    async def _recreate_to_rest(
        self, claim: IPAddressClaim, pool: ServedPool | None
    ) -> IPAddress | None:
        """Recreate the missing IPAddress of a terminating claim whose address has to rest.

        A person removed the IPAddress by force, and the claim still records the address. Without
        an IPAddress nothing would hold the address back once the claim is gone.

        Returns:
            The IPAddress; None if the address need not rest, or another IPAddress took the name.
        """
        record = read_record(claim) or read_restored_record(claim)
        since = claim.metadata.deletionTimestamp
        kind = find_pool_kind(claim.spec.poolRef)
        if record is None or since is None or kind is None or pool is None:
            return None
        if self._seconds_of_rest(since, pool) <= 0:
            return None
        return await self._restore_address(claim, record, pool=pool, kind=kind)

    async def _find_address(self, claim: IPAddressClaim) -> IPAddress | None:
        """Return the IPAddress of a claim's name, from the server if the cache shows none.

        Another replica may have created it a moment ago. Once the claim is gone, nothing would
        release it.
        """
        key = claim.metadata.key
        address = self._caches.addresses.get(key)
        if address is not None or not has_finalizer(claim, CLAIM_FINALIZER):
            return address
        return await self._client.find(self._caches.address_kind, key)

    def _seconds_of_rest(self, since: datetime, pool: ServedPool | None) -> float:
        """Return how many more seconds an address rests; zero or less if its rest is over.

        Args:
            since: when the address was released.
            pool: the pool, for its grace period; None, a missing pool, has no grace period.
        """
        # A grace period delays the next claim, and a pool that is being deleted serves no claim.
        if pool is None or pool.metadata.is_terminating:
            return 0.0
        grace = pool.spec.addressReuseGracePeriodSeconds if isinstance(pool, IPPool) else None
        return float(grace or 0) - (self._clock.now() - since).total_seconds()

    async def _reconcile_gone(self, key: Key) -> Outcome:
        """Release an IPAddress that was made for a claim that no longer exists.

        A claim may vanish without a pass over its deletion: the API server can remove a claim in
        spite of a finalizer that was added while the claim was being deleted. The IPAddress of a
        claim that was moved to another cluster is not released: the address is in use there.
        """
        address = self._caches.addresses.get(key)
        if address is None or not self._may_be_released(address):
            return SETTLED
        pool, uid = self._caches.find_pool(address), address.metadata.uid
        if is_held_back(address):
            return await self._end_rest_if_due(address, pool)
        # The garbage collector may have removed the deleted claim from the owners.
        owner = find_controlling_claim(address) or self._orphaned.get(uid)
        if await self._is_claim_moved(address, owner.uid if owner is not None else ""):
            return SETTLED
        name = owner.name if owner is not None else address.spec.claimRef.name
        # A restore from a backup may create the IPAddress before its claim.
        if (seconds_left := compute_restore_wait(address.metadata, self._clock.now())) > 0:
            return Again(seconds_left)
        # The claim exists, although the cache does not show it: wait for the cache. A claim with
        # another name than the IPAddress has passes of its own.
        if await self._exists(Key(address.metadata.namespace, name)):
            return Again(RETRY) if name == key.name else SETTLED
        await self._release(address, pool, since=self._clock.now(), why="its claim is gone")
        return SETTLED

    async def _release(
        self, address: IPAddress, pool: ServedPool | None, since: datetime, why: str
    ) -> None:
        """Delete an IPAddress that its claim has released, or let it rest first.

        Args:
            pool: the pool of the IPAddress; None if it does not exist.
            since: when the claim released the IPAddress.
            why: the reason of the release, for the log.
        """
        if await self._read_seconds_of_rest(address, since, pool) > 0:
            await self._answers.hold_back(address, format_rfc3339(since))
        else:
            await self._answers.remove(address, why)

    async def _read_seconds_of_rest(
        self, address: IPAddress, since: datetime, pool: ServedPool | None
    ) -> float:
        """Return how many more seconds an IPAddress rests; zero or less if its rest is over.

        Args:
            since: when its claim released it.
            pool: its pool, from the cache.
        """
        # The end of a rest cannot be undone. So the live pool decides it: the cache may be stale.
        seconds = self._seconds_of_rest(since, pool)
        if seconds > 0:
            return seconds
        return self._seconds_of_rest(since, await self._read_pool(address))

    async def _read_pool(self, address: IPAddress) -> ServedPool | None:
        """Return the pool that an IPAddress names, live; None if it does not exist.

        The pool says how long its addresses rest. The cache of pools may not show it yet, or show
        it as it was before a grace period was set, or its terminating predecessor.
        """
        kind = find_pool_kind(address.spec.poolRef)
        if kind is None or kind.kind not in self._caches.pools:
            return None
        return await self._client.find(kind, get_pool_key(kind, address))

    def _may_be_released(self, address: IPAddress) -> bool:
        """Return whether an IPAddress without claim may be released.

        It may if it was made for a claim on a pool of a served kind, and if neither its pool nor
        its Cluster stops the release.
        """
        was_made_for_claim = (
            is_made_for_claim(address)
            or is_held_back(address)
            or address.metadata.uid in self._orphaned
            or is_left_over(address)
        )
        has_served_kind = find_pool_kind(address.spec.poolRef) is not None
        is_stopped = self._caches.is_address_stopped(address)
        return was_made_for_claim and has_served_kind and not is_stopped

    async def _is_claim_moved(self, address: IPAddress, claim_uid: str) -> bool:
        """Return whether the claim of an IPAddress was moved to another cluster; record a move.

        `clusterctl move` deletes IPAddresses together with their claims, except those of
        cluster-scoped pools. Three signs tell of a move: the IPAddress has the annotation of a
        move, its Cluster is gone as well, or the watch showed the move of the claim. The last
        sign is in memory only, so this method writes it to the IPAddress as the annotation.

        Args:
            claim_uid: of the claim that owned the IPAddress; empty if unknown.
        """
        kind, annotations = find_pool_kind(address.spec.poolRef), address.metadata.annotations
        # A move deletes the IPAddresses of namespaced pools itself.
        if kind is None or kind.namespaced:
            return False
        # Without owner the uid in the annotation cannot be compared: the address may be in use.
        if not claim_uid and DELETE_FOR_MOVE in annotations:
            return True
        if annotations.get(DELETE_FOR_MOVE) == claim_uid or self._caches.is_cluster_gone(address):
            return True
        if claim_uid not in self._moved:
            return False
        patch = {"metadata": {"annotations": {DELETE_FOR_MOVE: claim_uid}}}
        await self._client.patch(self._caches.address_kind, Version.from_object(address), patch)
        self._moved.discard(claim_uid)
        return True

    def _note_move(self, change: Change[IPAddressClaim]) -> None:
        """Note a claim that `clusterctl move` deletes; it is gone within milliseconds."""
        claim = change.new or change.old
        if claim is None or DELETE_FOR_MOVE not in claim.metadata.annotations:
            return
        kind = find_pool_kind(claim.spec.poolRef)
        # `clusterctl move` deletes IPAddresses of namespaced pools together with their claims.
        if kind is not None and not kind.namespaced:
            self._moved.add(claim.metadata.uid)

    def _note_orphan(self, change: Change[IPAddress]) -> None:
        """Remember the claim that the garbage collector removed from an IPAddress's owners.

        The garbage collector may be quicker than the pass that releases the address. It does not
        delete the IPAddress, because the pool is an owner as well.
        """
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self._orphaned.pop(old.metadata.uid, None)
            return
        old_owner = (
            find_controlling_claim(old) if old is not None and is_made_for_claim(old) else None
        )
        if old_owner is None or find_controlling_claim(new) is not None:
            return
        # A person or another program may remove the owner of a claim that still exists.
        if Key(new.metadata.namespace, old_owner.name) not in self._caches.claims:
            self._orphaned[new.metadata.uid] = old_owner

    async def _end_rest_if_due(self, address: IPAddress, pool: ServedPool | None) -> Outcome:
        """Remove an IPAddress whose rest is over; otherwise wait until its rest ends.

        An IPAddress without the time of its release does not rest, and stays. If the time cannot
        be compared with the clock, the rest counts as over.
        """
        released_at = address.metadata.annotations.get(RELEASED_AT)
        if released_at is None:
            return SETTLED
        try:
            since: datetime | None = datetime.fromisoformat(released_at)
        except ValueError:
            since = None  # a person edited it, and it is no time
        # A time without time zone is an edit, too: our own times have one.
        if since is not None and since.tzinfo:
            seconds_left = await self._read_seconds_of_rest(address, since, pool)
            if seconds_left > 0:
                return Again(seconds_left)
        await self._answers.remove(address, f"its claim released it at {released_at}")
        return SETTLED
