"""One pass over one claim of either kind, and over the IPAddresses that name it.

etcd may have been restored      retry until the caches were listed again
claim or pool undecodable        release nothing until a person corrects the object
gone                             release the IPAddresses that were made for it
paused, or being moved           leave the claim alone
being deleted                    once no finalizer of others is left, release its IPAddresses and
                                 remove the finalizer
pool of a kind not served here   report that, for an IPClaim
no finalizer                     add it, before anything is allocated, and go on
has its address                  recreate or repair its IPAddress, delete leftovers
waits                            report if its pool does not serve it, delete leftovers

The first row that applies decides. Addresses are allocated by the passes over pools (`pools.py`).

A *leftover* is an IPAddress that names the claim and that the claim does not use. A frozen replica
created it late, or it was made for an earlier claim of the same name.
"""

from collections.abc import Sequence
from functools import partial
from typing import Generic

from controller.cache import Change
from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.finalizers import add_finalizer, remove_finalizer
from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.integrations.clusterapi.api import DELETE_FOR_MOVE
from reconcilers.integrations.core.claimproblems import (
    POOL_NOT_READY,
    ClaimProblem,
    describe_not_ready,
)
from reconcilers.integrations.core.claimreading import make_claim_holder
from reconcilers.integrations.core.claimwrites import AddressInTheWay
from reconcilers.integrations.core.eventmemory import StateEvents
from reconcilers.integrations.core.gonelog import GoneAddresses
from reconcilers.integrations.core.leftoveraddresses import LeftoverAddresses
from reconcilers.integrations.core.liveretries import RETRY, retry_live
from reconcilers.integrations.core.restoredrequests import compute_restore_wait
from reconcilers.integrations.metal3.addresswrites import MADE_FOR, AddressWrites
from reconcilers.integrations.metal3.api import JOURNALS, POOL, POOLS, Metal3Claim, Metal3Pool
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches, Metal3Caches, Metal3Reader
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimT
from reconcilers.integrations.metal3.entries import PoolSpaces, parse_single
from reconcilers.integrations.metal3.gonelog import Metal3GoneLines
from reconcilers.promises.refusedwrites import RefusedWrites

REFUSED_SECONDS = 60.0
"""Seconds until a write of a claim is retried that the API server rejected for good."""
COLLECTOR_FINALIZERS = frozenset({"foregroundDeletion", "orphan"})
"""The finalizers of the garbage collector, which wait for the IPAddresses of a claim."""
ACTION = "Allocating"


class Metal3ClaimReconciler(Generic[ClaimT, AddressT]):
    """Adds finalizers, releases addresses, keeps IPAddresses, and reports pools that cannot serve.

    Args:
        client: for the requests.
        caches: all caches of this integration.
        claim_caches: the caches of one kind of claims and of its IPAddresses.
        reader: reads what a pool's claims hold.
        recorder: takes the events.
        clock: the time.
    """

    def __init__(
        self,
        client: Client,
        caches: Metal3Caches,
        claim_caches: IPPoolClaimCaches[ClaimT, AddressT],
        reader: Metal3Reader,
        *,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._caches = caches
        self._claim_caches = claim_caches
        self._claim_format = claim_caches.claim_format
        self._addresses = AddressWrites(client, caches, claim_caches)
        self._reader = reader
        self._clock = clock
        self._spaces = PoolSpaces()
        self._events = StateEvents(recorder, ACTION)
        self._refused = RefusedWrites(clock, REFUSED_SECONDS)
        self._leftovers = LeftoverAddresses(claim_caches.addresses, clock)
        lines = Metal3GoneLines(caches, claim_caches.claim_format, self._spaces)
        # GoneAddresses logs addresses that others release. The caches refer to it: it subscribes.
        GoneAddresses(claim_caches, lines, logged=caches.logged)
        claim_caches.claims.subscribe(self._drop_unnamed_of_claim)
        claim_caches.addresses.subscribe(self._drop_unnamed_of_deleted_address)

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one claim and the IPAddresses that name it."""
        # The caches may show objects from before a restore of etcd.
        if not self._caches.is_history_confirmed:
            return Again(RETRY)
        if key in self._claim_caches.claims.unreadable:
            return Blocked("Unreadable")  # the cache has an older version
        claim = self._claim_caches.claims.get(key)

        async def attempt(claim: ClaimT | None) -> Outcome:
            """Run the pass for an existing claim, or for one that is gone (None)."""
            return await (self._reconcile_gone(key) if claim is None else self._reconcile(claim))

        return await retry_live(
            claim, attempt, partial(self._client.find, self._claim_format.claims, key)
        )

    async def _reconcile(self, claim: ClaimT) -> Outcome:
        """Apply the first row of the module's table that fits an existing, readable claim."""
        meta, pool_key = claim.metadata, self._claim_format.find_pool_of_claim(claim)
        pool = None if pool_key is None else self._caches.pools.get(pool_key)
        if pool_key is not None and pool_key in self._caches.pools.unreadable:
            return Blocked("Unreadable")  # the pool may be paused
        is_paused = pool is not None and self._caches.is_pool_paused(pool)
        # `clusterctl move` removes finalizers and objects by itself.
        is_moved = meta.is_terminating and DELETE_FOR_MOVE in meta.annotations
        # An event leads to the next pass when the pause ends.
        if is_paused or is_moved or self._claim_caches.why_claim_stops(claim):
            return SETTLED
        if meta.is_terminating:
            await self._reconcile_deleted(claim)
            return SETTLED
        if pool_key is None:
            self._report_foreign_pool(claim)
            return SETTLED
        # The pass goes on with the answer, because the event of this write leads to no pass.
        claim = await add_finalizer(
            self._client, self._claim_format.claims, claim, self._claim_format.claim_finalizer
        )
        if self._claim_format.get_address_name(claim):
            self._events.forget(self._claim_format.claims, meta.key)
            if pool is None or pool.metadata.is_terminating:
                return SETTLED
            await self._keep_address(claim, pool)
        else:
            await self._report_pool(claim, pool_key, pool)
        return SETTLED if pool is None else await self._collect_leftovers(claim, pool)

    async def _reconcile_deleted(self, claim: ClaimT) -> None:
        """Release the IPAddresses of a claim that is being deleted, then remove our finalizer."""
        meta, finalizer = claim.metadata, self._claim_format.claim_finalizer
        self._events.forget(self._claim_format.claims, meta.key)
        other_finalizers = set(meta.finalizers) - {finalizer} - COLLECTOR_FINALIZERS
        # Without our finalizer the claim is released already. With finalizers of others, its
        # machine may still use the address.
        if finalizer not in meta.finalizers or other_finalizers:
            return
        for address in await self._find_addresses_to_release(claim):
            await self._addresses.remove(address, "its claim is deleted")
            # That has logged the release, so the end of the claim is not logged again.
            self._caches.logged.add(meta.uid)
        await remove_finalizer(self._client, self._claim_format.claims, claim, finalizer)

    async def _find_addresses_to_release(self, claim: ClaimT) -> list[AddressT]:
        """Return the IPAddresses of exactly this claim that a controller made or adopted.

        Another replica may have created the IPAddress a moment ago. So an IPAddress that the
        claim's status names and that is not in the cache is read from the server.
        """
        addresses_by_name = {
            address.metadata.name: address
            for address in self._claim_caches.list_addresses_of_claim(claim.metadata.key)
        }
        name = self._claim_format.get_address_name(claim)
        key = Key(claim.metadata.namespace, name)
        if name and name not in addresses_by_name and key not in self._claim_caches.addresses:
            live = await self._client.find(self._claim_format.addresses, key)
            if live is not None:
                addresses_by_name[name] = live
        return [
            address
            for address in addresses_by_name.values()
            if self._claim_format.is_address_of_claim(address, claim)
            and self._claim_format.is_made_for_claim(address)
        ]

    async def _reconcile_gone(self, key: Key) -> Outcome:
        """Release the IPAddresses that were made for a claim that no longer exists.

        A claim may vanish without a pass over its deletion: a person removes its finalizer, or the
        API server removes the claim in spite of a finalizer that was just added. Or the IPAddress
        was still being created in the pass over the deletion.
        """
        self._events.forget(self._claim_format.claims, key)
        waits: list[float] = []
        for address in self._claim_caches.list_addresses_of_claim(key):
            pool_key = self._claim_format.find_pool_of_address(address)
            # The IPAddress is of no IPPool, or a person created it before its claim.
            if pool_key is None or not self._claim_format.is_made_for_claim(address):
                continue
            is_moved = DELETE_FOR_MOVE in address.metadata.annotations
            pool = self._caches.pools.get(pool_key)
            if is_moved or self._caches.is_address_paused(address, pool):
                continue
            if pool_key in self._caches.pools.unreadable:
                continue  # the pool may be paused
            remaining = compute_restore_wait(address.metadata, self._clock.now())
            made_for = address.metadata.annotations.get(MADE_FOR)
            # A restore from a backup may still bring the claim of an address that was in use.
            if remaining > 0 and made_for not in self._caches.unnamed:
                waits.append(remaining)
                continue
            if await self._client.find(self._claim_format.claims.metadata_only, key) is not None:
                return Again(RETRY)  # the claim exists, but is not in the cache yet
            await self._addresses.remove(address, "its claim is gone")
        return Again(min(waits)) if waits else SETTLED

    def _drop_unnamed_of_claim(self, change: Change[ClaimT]) -> None:
        """Remove a claim from `Metal3Caches.unnamed` once its status names an IPAddress."""
        if change.new is not None and self._claim_format.get_address_name(change.new):
            self._caches.unnamed.discard(change.new.metadata.uid)

    def _drop_unnamed_of_deleted_address(self, change: Change[AddressT]) -> None:
        """Remove the claim of a deleted IPAddress from `Metal3Caches.unnamed`."""
        if change.new is None and change.old is not None:
            self._caches.unnamed.discard(change.old.metadata.annotations.get(MADE_FOR, ""))

    async def _keep_address(self, claim: ClaimT, pool: Metal3Pool) -> None:
        """Recreate or repair the IPAddress that a claim's status names; correct that status.

        The status stays unchanged if the IPAddress does not exist and cannot be recreated.
        """
        name, key = self._claim_format.get_address_name(claim), claim.metadata.key
        addresses = self._claim_caches.list_addresses_of_claim(key)
        current = next((address for address in addresses if address.metadata.name == name), None)
        if current is None or current.metadata.is_terminating:
            current = await self._recreate_address(claim, pool, current)
        elif self._claim_format.find_pool_of_address(current) == pool.metadata.key:
            await self._addresses.repair(current, claim=claim, pool=pool)
        # Otherwise the claim was edited, and the IPAddress stays with the pool that gave it.
        if current is None:
            return
        now = self._clock.now()
        if current.metadata.name == name:
            correction = self._claim_format.render_correction(claim, current, now)
        else:  # the status has a name from metal3, but the IPAddress has another name
            correction = self._claim_format.render_grant_status(claim, current, now)
        if correction:
            write = partial(
                self._client.patch_status, self._claim_format.claims, claim, correction
            )
            await self._refused.attempt(claim.metadata, write)

    async def _recreate_address(
        self, claim: ClaimT, pool: Metal3Pool, current: AddressT | None
    ) -> AddressT | None:
        """Create the IPAddress again that the status of a claim names.

        Args:
            current: the IPAddress, which is being deleted; None if it does not exist.

        Returns:
            The IPAddress; None if its name does not tell the address, or if another claim has the
            name or the address. The command `check` reports these claims.
        """
        space = self._spaces.get_space(pool)
        name, key = self._claim_format.get_address_name(claim), claim.metadata.key
        readings = space.find_named_addresses(name)
        if current is not None:  # it is being deleted
            address = parse_single(current.spec.address)
            address = address if address in readings else None
        elif Key(key.namespace, name) in self._claim_caches.addresses:
            return None  # the IPAddress with the name is of another claim
        else:
            # A name that can be read as several addresses counts as the first of them.
            address = next(iter(readings), None)
        if address is None:
            return None  # the name does not tell which address the claim has
        holdings = self._reader.read_cached(pool.metadata.key, space).holdings
        holder, part = (
            make_claim_holder(self._claim_caches, claim),
            space.make_promised_range(address),
        )
        if holdings.find_other_holder(address, holder, part.space) is not None:
            return None  # another claim has the address
        if current is not None:
            return await self._addresses.recreate(current, claim=claim, pool=pool)
        try:
            return await self._addresses.ensure(claim, pool, space, address)
        except AddressInTheWay:
            return None  # another IPAddress has the name, and the cache did not show it yet

    async def _collect_leftovers(self, claim: ClaimT, pool: Metal3Pool) -> Outcome:
        """Delete leftovers that for a minute neither the claim nor a promise has named.

        Returns:
            The outcome of the pass: the next one is due when a leftover may be deleted.
        """
        waits: list[float] = []
        for address in self._find_leftovers(claim, pool):
            is_unnamed = partial(self._is_unnamed, address, claim)
            reason = "no promise and no claim names it"
            remove = partial(self._addresses.remove, address, reason)
            waits.append(await self._leftovers.remove_when_due(address, is_unnamed, remove))
        return Again(min(waits)) if waits else SETTLED

    def _find_leftovers(self, claim: ClaimT, pool: Metal3Pool) -> Sequence[AddressT]:
        """Return the IPAddresses that name a claim and that the claim does not use.

        They were created for the claim, or for an earlier claim of its name. While the status of
        the claim names no IPAddress, the claim may still get an IPAddress of its own pool. So then
        an IPAddress of its pool is left over only if another claim has the address.
        """
        name, uid = self._claim_format.get_address_name(claim), claim.metadata.uid
        addresses = [
            address
            for address in self._claim_caches.list_addresses_of_claim(claim.metadata.key)
            if address.metadata.name != name
            and (
                address.metadata.annotations.get(MADE_FOR) == uid
                or self._is_of_earlier_claim(address, claim)
            )
        ]
        if name or not addresses:
            return addresses  # the claim has its IPAddress and needs none of these
        list_addresses_of_pool = [
            address
            for address in addresses
            if self._claim_format.find_pool_of_address(address) == pool.metadata.key
        ]
        addresses_of_other_pools = [
            address for address in addresses if address not in list_addresses_of_pool
        ]
        space = self._spaces.get_space(pool)
        holdings = self._reader.read_cached(pool.metadata.key, space).holdings
        holder = make_claim_holder(self._claim_caches, claim)
        addresses_held_by_others = [
            address
            for address in list_addresses_of_pool
            if (parsed := parse_single(address.spec.address)) is not None
            and holdings.find_other_holder(parsed, holder, space.make_promised_range(parsed).space)
            is not None
        ]
        return [*addresses_of_other_pools, *addresses_held_by_others]

    def _is_of_earlier_claim(self, address: AddressT, claim: ClaimT) -> bool:
        """Return whether an IPAddress was created for an earlier claim of the same name."""
        owner = self._claim_format.find_owning_claim(address)
        is_stale = owner is not None and owner.uid != claim.metadata.uid
        is_ours = self._claim_format.find_pool_of_address(address) is not None
        return is_stale and is_ours and self._claim_format.is_made_for_claim(address)

    async def _is_unnamed(self, address: AddressT, claim: ClaimT) -> bool:
        """Return whether neither a promise of its pool nor the claim names an IPAddress.

        The pool and the claim are read from the server, because the IPAddress is deleted then.
        False if the pool is paused or the claim was recreated: then another pass decides.
        """
        pool_key = self._claim_format.find_pool_of_address(address)
        assert pool_key is not None, "it is of an IPPool"
        pool = await self._client.find(POOLS, pool_key)
        if pool is not None and self._caches.is_pool_paused(pool):
            return False
        parsed = parse_single(address.spec.address)
        holder = make_claim_holder(self._claim_caches, claim)
        for promise in JOURNALS.read(pool).promises if pool is not None else ():
            if promise.holder == holder and any(part.range == parsed for part in promise.ranges):
                return False
        live = await self._client.find(self._claim_format.claims, claim.metadata.key)
        if live is None or live.metadata.uid != claim.metadata.uid:
            return False
        return self._claim_format.get_address_name(live) != address.metadata.name

    async def _report_pool(self, claim: ClaimT, key: Key, pool: Metal3Pool | None) -> None:
        """Report on a claim why its pool does not serve it; end the report if the pool does."""
        why = "it does not exist" if pool is None else self._caches.why_pool_stops(pool)
        if not why:
            self._events.forget(self._claim_format.claims, claim.metadata.key)
            return
        problem = ClaimProblem(POOL_NOT_READY, describe_not_ready(POOL, key.name, why))
        if not self._claim_format.is_problem_shown(claim, problem):
            now = self._clock.now()
            status = self._claim_format.render_problem_status(claim, problem, now)
            write = partial(self._client.patch_status, self._claim_format.claims, claim, status)
            await self._refused.attempt(claim.metadata, write)
        self._report(claim, problem.message)

    def _report_foreign_pool(self, claim: ClaimT) -> None:
        """Report that an IPClaim names a pool of another kind or namespace."""
        # An IPAddressClaim of another pool is for another provider. The webhook refuses a claim
        # that names no pool.
        if not isinstance(claim, Metal3Claim) or not claim.spec.pool.name:
            return
        reference = claim.spec.pool
        namespace = claim.metadata.namespace
        self._report(
            claim,
            f"spec.pool names {reference.kind or POOL} {reference.name} of namespace"
            f" {reference.namespace or namespace}; a claim gets addresses of an {POOL} of"
            f" its own namespace, {namespace}, alone",
        )

    def _report(self, claim: ClaimT, message: str) -> None:
        """Record an event that the pool cannot serve a claim; once until the message changes."""
        self._events.report(
            self._claim_format.claims, claim, reason=POOL_NOT_READY, message=message
        )
