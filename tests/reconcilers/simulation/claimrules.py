"""How each rule by which no claim gets an address that another has is switched off, one by one."""

from dataclasses import replace
from typing import Any

import pytest

from allocator import AddressRange
from controller.client import Client
from controller.errors import Conflict
from controller.meta import Key, MetadataOnly, Object, ObjectMeta, Version
from controller.outcome import SETTLED
from reconcilers.integrations.clusterapi import (
    caches,
    claimtaking,
    pools,
    statuses,
)
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.claims import ClaimReconciler
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.reading import Reader
from reconcilers.integrations.core import claimreading
from reconcilers.integrations.core.claimkind import ClaimKind
from reconcilers.integrations.core.claimreading import ClaimReader
from reconcilers.promises import journal
from reconcilers.promises.journal import AnnotatedJournal, Journal
from reconcilers.promises.settling import CreatedEffects
from tests.reconcilers.simulation import journalrules
from tests.reconcilers.simulation.journalrules import (
    promises_dropped_at_once,
    unreadable_requests_are_gone,
    without_precondition,
)
from tests.reconcilers.simulation.model import CLAIM_POOLS, CLAIMS

Patch = pytest.MonkeyPatch


def promises_not_taken(mp: Patch) -> None:
    """What is promised may be chosen again."""
    elsewhere = AddressRange(0, 0, 4)
    for module in (claimtaking, pools):
        mp.setattr(module, "to_blocks", lambda space, addresses: elsewhere)


def revision_not_raised(mp: Patch) -> None:
    """The journal does not say how far one has to have read."""
    journalrules.revision_not_raised(mp, claimreading)


def dropped_at_once(mp: Patch) -> None:
    """The next write of the journal forgets what was promised before."""
    promises_dropped_at_once(mp, claimreading)


def written_at_any_version(mp: Patch) -> None:
    """A claim is given its address whatever it has become meanwhile."""
    without_precondition(mp, CLAIMS, "status")


def pools_written_blindly(mp: Patch) -> None:
    """A journal is written whatever the pool has become meanwhile."""
    without_precondition(mp, CLAIM_POOLS, "metadata")


def choice_sent_again(mp: Patch) -> None:
    """After a conflict the same choice is sent again, to the version that is there now."""
    patch = Client.patch

    async def stubborn(
        self: Client, resource: Any, at: Any, body: Any, *, subresource: str = ""
    ) -> Any:
        try:
            return await patch(self, resource, at, body, subresource=subresource)
        except Conflict:
            if resource.plural != CLAIM_POOLS or "annotations" not in body.get("metadata", {}):
                raise
        live = await self.get(resource, at.key)
        return await patch(self, resource, Version.from_object(live), body)

    mp.setattr(Client, "patch", stubborn)


def before_the_finalizer(mp: Patch) -> None:
    """Every claim is served, with or without a finalizer."""

    def asks(claim: Any) -> bool:
        return not claim.metadata.terminating and statuses.read_record(claim) is None

    mp.setattr(caches, "waits", asks)


def while_terminating(mp: Patch) -> None:
    """Every claim is served, deleted or not."""

    def asks(claim: Any) -> bool:
        return bool(claim.metadata.finalizers) and statuses.read_record(claim) is None

    mp.setattr(caches, "waits", asks)


def memory_of_others_believed(mp: Patch) -> None:
    """A journal that came with a copy of the pool, or from a backup, counts as its own."""
    read = AnnotatedJournal.read

    def credulous(self: AnnotatedJournal, pool: Object) -> Journal:
        annotation = pool.metadata.annotations.get(journal.ANNOTATION)
        stored = journal._decoder.decode(annotation) if annotation else None
        if stored is None:
            return read(self, pool)
        of_copy = ObjectMeta(uid=stored.uid, annotations=pool.metadata.annotations)
        return read(self, MetadataOnly(of_copy))

    mp.setattr(AnnotatedJournal, "read", credulous)


def vanished_claims_unseen(mp: Patch) -> None:
    """The IPAddress of a claim that is gone is left alone."""

    async def nothing(self: ClaimReconciler, key: Key) -> Any:
        del key
        return SETTLED

    mp.setattr(ClaimReconciler, "_reconcile_gone", nothing)


def leftovers_stay(mp: Patch) -> None:
    """An IPAddress without a claim keeps the claim of its name waiting."""

    async def nothing(self: Leftovers, *_: Any, **__: Any) -> None:
        return

    mp.setattr(Leftovers, "collect", nothing)


def released_by_cache(mp: Patch) -> None:
    """A claim goes without its IPAddress if the cache does not show that."""

    async def get_cached(self: ClaimReconciler, claim: Any) -> Any:
        return self._caches.addresses.get(claim.metadata.key)

    mp.setattr(ClaimReconciler, "_find_address", get_cached)
    mp.setattr(ClaimReconciler, "_reconcile_gone", _nothing)


async def _nothing(self: ClaimReconciler, key: Key) -> Any:
    del self, key
    return SETTLED


def deleted_by_cache(mp: Patch) -> None:
    """A pool goes when the cache shows no IPAddress of it."""

    async def count_cached(
        self: ClaimKind[Any, Any, Any, Any, Any], pool: Any, journal: Journal
    ) -> int:
        del journal
        return self._reader.count_addresses(self._name_pool(pool))

    mp.setattr(ClaimKind, "blockers", count_cached)


def addresses_listed_first(mp: Patch) -> None:
    """A deletion LISTs IPAddresses before claims, so it misses what is created in between."""
    list_claims, list_addresses = ClaimReader.list_claims, claimreading.list_addresses
    listed: dict[tuple[Client, Any], list[IPAddress]] = {}

    async def claims(self: Reader, source: Any, pool: Any) -> tuple[int, list[IPAddressClaim]]:
        listed[self._client, pool] = await list_addresses(
            self._client, source.fields, kind=source.addresses.resource, pool=pool
        )
        return await list_claims(self, source, pool)

    async def addresses(client: Client, fields: Any, *, kind: Any, pool: Any) -> list[IPAddress]:
        return listed.pop((client, pool))

    mp.setattr(ClaimReader, "list_claims", claims)
    mp.setattr(claimreading, "list_addresses", addresses)
    mp.setattr(caches.ContractFields, "holds", lambda self, claim: False)


def own_answers_count_as_read(mp: Patch) -> None:
    """A replica believes to have read up to what it has written.

    What promises left, which would hold the address as well, is not read either.
    """
    created_addresses_unread(mp)
    read = ClaimReader.read_cached

    def further(self: Reader, pool: Any, space: Any) -> Any:
        read_so_far = read(self, pool, space)
        views = {
            kind: replace(view, position=self._sources[kind]._source.claims.highest_revision)
            for kind, view in read_so_far.views.items()
        }
        return replace(read_so_far, views=views)

    mp.setattr(ClaimReader, "read_cached", further)


def addresses_never_rest(mp: Patch) -> None:
    """An address is free as soon as its claim lets go, whatever the pool says."""
    mp.setattr(ClaimReconciler, "_seconds_of_rest", lambda self, since, pool: 0.0)


def pools_believed_absent(mp: Patch) -> None:
    """A pool that the cache does not show does not exist."""

    async def absent(self: ClaimReconciler, address: Any) -> None:
        del self, address

    mp.setattr(ClaimReconciler, "_read_pool", absent)


def waits_for_a_lost_cluster(mp: Patch) -> None:
    """A claim whose Cluster is not there is left alone, even when it is being deleted."""
    is_stopped = caches.ClaimCaches.is_stopped

    def is_stopped_or_lost(self: caches.ClaimCaches, claim: Any) -> bool:
        key = claim.cluster
        if key is not None and self.clusters is not None and key not in self.clusters:
            return True
        return is_stopped(self, claim)

    mp.setattr(caches.ClaimCaches, "is_stopped", is_stopped_or_lost)


def unreadable_objects_hold_nothing(mp: Patch) -> None:
    """A claim or an IPAddress that cannot be decoded counts as one that is not there."""
    mp.setattr(claimreading, "check_readable", lambda fields, pool, claims, addresses: None)


def created_addresses_unread(mp: Patch) -> None:
    """A promise is forgotten though its IPAddress has not been read."""
    mp.setattr(CreatedEffects, "find_revision", lambda self, promise: 0)


def missing_revision_is_zero(mp: Patch) -> None:
    """A journal without the revision of IPAddresses says that none has to be read."""
    read = AnnotatedJournal.read

    def lenient(self: AnnotatedJournal, pool: Object) -> Journal:
        stored = read(self, pool)
        if self.kind not in stored.revisions:
            return stored
        return replace(stored, revisions={self.effects: 0, **stored.revisions})

    mp.setattr(AnnotatedJournal, "read", lenient)


def addresses_forgotten_by_fences(mp: Patch) -> None:
    """A fence does not note how far IPAddresses have to be read."""

    async def none_listed(*_: Any, **__: Any) -> list[Any]:
        return []

    mp.setattr(claimreading, "list_addresses", none_listed)


def promises_to_the_unreadable_settled(mp: Patch) -> None:
    """What is promised to a claim that cannot be decoded is forgotten, and what it left."""
    created_addresses_unread(mp)
    unreadable_requests_are_gone(mp, claimreading)
