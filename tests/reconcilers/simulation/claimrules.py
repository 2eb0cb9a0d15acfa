"""Switches for the rules by which no claim gets an address that another has.

Each function switches one rule off. Its docstring says what the code does without the rule.
"""

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
    forget_promises_in,
    forget_unreadable_requests_in,
    patch_field_at_any_version,
)
from tests.reconcilers.simulation.model import CLAIM_POOLS, CLAIMS

Patch = pytest.MonkeyPatch


def ignore_promises(mp: Patch) -> None:
    """Let promised addresses be chosen again."""
    unrelated = AddressRange(0, 0, 4)
    for module in (claimtaking, pools):
        mp.setattr(module, "to_blocks", lambda space, addresses: unrelated)


def keep_revision(mp: Patch) -> None:
    """Do not record in the journal how far other replicas have to read."""
    journalrules.keep_revision(mp, claimreading)


def forget_promises_at_once(mp: Patch) -> None:
    """Drop all promises at the next write of the journal."""
    forget_promises_in(mp, claimreading)


def write_requests_at_any_version(mp: Patch) -> None:
    """Write the address of a claim whatever the claim has become since the promise."""
    patch_field_at_any_version(mp, CLAIMS, "status")


def write_pools_at_any_version(mp: Patch) -> None:
    """Write a journal whatever the pool has become meanwhile."""
    patch_field_at_any_version(mp, CLAIM_POOLS, "metadata")


def resend_choice_after_conflict(mp: Patch) -> None:
    """Send the same choice again after a conflict, to the version that the pool has now."""
    patch = Client.patch

    async def patch_live_version(
        self: Client, resource: Any, at: Any, body: Any, *, subresource: str = ""
    ) -> Any:
        try:
            return await patch(self, resource, at, body, subresource=subresource)
        except Conflict:
            if resource.plural != CLAIM_POOLS or "annotations" not in body.get("metadata", {}):
                raise
        live = await self.get(resource, at.key)
        return await patch(self, resource, Version.from_object(live), body)

    mp.setattr(Client, "patch", patch_live_version)


def serve_without_finalizer(mp: Patch) -> None:
    """Serve every claim, with or without a finalizer."""

    def waits_without_finalizer(claim: Any) -> bool:
        return not claim.metadata.is_terminating and statuses.read_record(claim) is None

    mp.setattr(caches, "is_waiting", waits_without_finalizer)


def serve_while_terminating(mp: Patch) -> None:
    """Serve every claim, even while it is being deleted."""

    def waits_while_terminating(claim: Any) -> bool:
        return bool(claim.metadata.finalizers) and statuses.read_record(claim) is None

    mp.setattr(caches, "is_waiting", waits_while_terminating)


def believe_foreign_memory(mp: Patch) -> None:
    """Believe a journal that came with a copy of the pool, or from a backup."""
    read = AnnotatedJournal.read

    def read_as_own(self: AnnotatedJournal, pool: Object) -> Journal:
        annotation = pool.metadata.annotations.get(journal.ANNOTATION)
        stored = journal._decoder.decode(annotation) if annotation else None
        if stored is None:
            return read(self, pool)
        metadata = ObjectMeta(uid=stored.uid, annotations=pool.metadata.annotations)
        return read(self, MetadataOnly(metadata))

    mp.setattr(AnnotatedJournal, "read", read_as_own)


def ignore_vanished_claims(mp: Patch) -> None:
    """Leave the IPAddress of a claim that is gone alone."""

    async def settle_nothing(self: ClaimReconciler, key: Key) -> Any:
        del key
        return SETTLED

    mp.setattr(ClaimReconciler, "_reconcile_gone", settle_nothing)


def keep_leftovers(mp: Patch) -> None:
    """Keep an IPAddress without a claim, so that a new claim of its name waits for ever."""

    async def collect_nothing(self: Leftovers, *_: Any, **__: Any) -> None:
        return

    mp.setattr(Leftovers, "delete_leftovers", collect_nothing)


def release_claims_by_cache(mp: Patch) -> None:
    """Release a claim without its IPAddress if the cache does not show the IPAddress."""

    async def get_cached(self: ClaimReconciler, claim: Any) -> Any:
        return self._caches.addresses.get(claim.metadata.key)

    mp.setattr(ClaimReconciler, "_find_address", get_cached)
    mp.setattr(ClaimReconciler, "_reconcile_gone", _settle_nothing)


async def _settle_nothing(self: ClaimReconciler, key: Key) -> Any:
    """Do nothing about a claim that is gone."""
    del self, key
    return SETTLED


def delete_by_cache(mp: Patch) -> None:
    """Let a deleted pool go when the cache shows no IPAddress of it, without a LIST."""

    async def count_cached(
        self: ClaimKind[Any, Any, Any, Any, Any], pool: Any, journal: Journal
    ) -> int:
        del journal
        return self._reader.count_addresses(self._name_pool(pool))

    mp.setattr(ClaimKind, "count_blockers", count_cached)


def list_addresses_first(mp: Patch) -> None:
    """LIST IPAddresses before claims when a pool is deleted, so that a new IPAddress is missed."""
    list_claims, list_addresses = ClaimReader.list_claims, claimreading.list_addresses
    listed: dict[tuple[Client, Any], list[IPAddress]] = {}

    async def list_both(self: Reader, source: Any, pool: Any) -> tuple[int, list[IPAddressClaim]]:
        listed[self._client, pool] = await list_addresses(
            self._client, source.fields, kind=source.addresses.resource, pool=pool
        )
        return await list_claims(self, source, pool)

    async def get_listed(client: Client, fields: Any, *, kind: Any, pool: Any) -> list[IPAddress]:
        return listed.pop((client, pool))

    mp.setattr(ClaimReader, "list_claims", list_both)
    mp.setattr(claimreading, "list_addresses", get_listed)
    mp.setattr(caches.ContractFields, "has_address", lambda self, claim: False)


def count_own_answers_as_read(mp: Patch) -> None:
    """Let a replica believe that it has read up to its own writes.

    The revisions of created IPAddresses, which would hold the address as well, are ignored, too.
    """
    settle_before_addresses_are_read(mp)
    read = ClaimReader.read_cached

    def read_up_to_own_writes(self: Reader, pool: Any, space: Any) -> Any:
        read_so_far = read(self, pool, space)
        views = {
            kind: replace(view, position=self._sources[kind]._source.claims.highest_revision)
            for kind, view in read_so_far.views.items()
        }
        return replace(read_so_far, views=views)

    mp.setattr(ClaimReader, "read_cached", read_up_to_own_writes)


def skip_grace_period(mp: Patch) -> None:
    """Free an address as soon as its claim is released, whatever grace period the pool has."""
    mp.setattr(ClaimReconciler, "_seconds_of_rest", lambda self, since, pool: 0.0)


def believe_pools_absent(mp: Patch) -> None:
    """Treat a pool that the cache does not show as one that does not exist."""

    async def find_no_pool(self: ClaimReconciler, address: Any) -> None:
        del self, address

    mp.setattr(ClaimReconciler, "_read_pool", find_no_pool)


def wait_for_lost_clusters(mp: Patch) -> None:
    """Leave even a deleted claim alone while its Cluster does not exist."""
    is_stopped = caches.ClaimCaches.is_stopped

    def is_stopped_or_lost(self: caches.ClaimCaches, claim: Any) -> bool:
        key = claim.cluster
        if key is not None and self.clusters is not None and key not in self.clusters:
            return True
        return is_stopped(self, claim)

    mp.setattr(caches.ClaimCaches, "is_stopped", is_stopped_or_lost)


def ignore_unreadable_objects(mp: Patch) -> None:
    """Treat a claim or an IPAddress that cannot be decoded as one that does not exist."""
    mp.setattr(claimreading, "check_readable", lambda fields, pool, claims, addresses: None)


def settle_before_addresses_are_read(mp: Patch) -> None:
    """Drop a promise though the IPAddress that was created for it has not been read."""
    mp.setattr(CreatedEffects, "find_revision", lambda self, promise: 0)


def replace_missing_revision_by_zero(mp: Patch) -> None:
    """Read no IPAddresses if the journal lacks the revision of IPAddresses."""
    read = AnnotatedJournal.read

    def read_with_zero(self: AnnotatedJournal, pool: Object) -> Journal:
        stored = read(self, pool)
        if self.kind not in stored.revisions:
            return stored
        return replace(stored, revisions={self.effects: 0, **stored.revisions})

    mp.setattr(AnnotatedJournal, "read", read_with_zero)


def fence_without_listing_addresses(mp: Patch) -> None:
    """Do not record in a fence how far IPAddresses have to be read."""

    async def list_no_addresses(*_: Any, **__: Any) -> list[Any]:
        return []

    mp.setattr(claimreading, "list_addresses", list_no_addresses)


def settle_promises_to_the_unreadable(mp: Patch) -> None:
    """Settle the promise to a claim that cannot be decoded, as if the claim were gone."""
    settle_before_addresses_are_read(mp)
    forget_unreadable_requests_in(mp, claimreading)
