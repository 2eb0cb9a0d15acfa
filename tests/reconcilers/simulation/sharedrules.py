"""Switches for the rules that keep claims and allocations of one pool apart.

Each function switches one rule off. Its docstring says what the code does without the rule.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from controller.conditions import is_true
from controller.outcome import Blocked, Outcome
from reconcilers.api import names
from reconcilers.integrations.clusterapi import networkpoolclaims
from reconcilers.integrations.clusterapi.api import ADDRESS_KIND, CLAIM_KIND
from reconcilers.integrations.clusterapi.networkpoolclaims import (
    DiscoveredClaims,
    NetworkPoolClaims,
)
from reconcilers.integrations.core import absentkinds
from reconcilers.networkpool import protocol, statusjournal
from reconcilers.networkpool.claims import ClaimService
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.poolkind import NetworkPoolKind
from reconcilers.networkpool.reading import PoolReader
from reconcilers.networkpool.statusjournal import StatusJournal
from reconcilers.promises import settling
from reconcilers.promises.holdings import Facts, Holdings
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Journal
from reconcilers.promises.reading import CacheWait
from reconcilers.reporting.conditions import FOREIGN_MANAGER

Patch = pytest.MonkeyPatch


def skip_fence_of_claims(mp: Patch) -> None:
    """Treat a pool whose journal was lost as one that promised nothing to claims."""
    mp.setattr(NetworkPoolClaims, "needs_fence", lambda *_, **__: False)


def skip_fence_during_pause(mp: Patch) -> None:
    """Do not restore a lost journal while the pool is paused."""
    needs_fence = NetworkPoolClaims.needs_fence

    def needs_fence_unless_paused(
        self: NetworkPoolClaims, pool: Any, *rest: Any, **keywords: Any
    ) -> bool:
        return not self.is_paused(pool) and needs_fence(self, pool, *rest, **keywords)

    mp.setattr(NetworkPoolClaims, "needs_fence", needs_fence_unless_paused)


def keep_foreign_condition_without_journal(mp: Patch) -> None:
    """Keep the condition about another controller until the journal is restored."""
    prepare = NetworkPoolKind.prepare

    async def block_without_journal(
        self: NetworkPoolKind, pool: Any
    ) -> tuple[Any, Outcome | None]:
        is_foreign = is_true(pool.status.conditions, FOREIGN_MANAGER)
        if is_foreign and not statusjournal.is_intact(pool):
            return pool, Blocked(FOREIGN_MANAGER)
        return await prepare(self, pool)

    mp.setattr(NetworkPoolKind, "prepare", block_without_journal)


def adopt_allocated_addresses(mp: Patch) -> None:
    """Adopt an IPAddress of the claim's name though an allocation has its address."""
    mp.setattr(
        Holdings, "find_other_holder", lambda self, addresses, excluded=None, space="": None
    )


def forget_promises_to_allocations(mp: Patch) -> None:
    """Let addresses that are promised to allocations be given to claims."""
    _forget_promises(mp, KIND)


def forget_promises_to_claims(mp: Patch) -> None:
    """Let addresses that are promised to claims be given to allocations."""
    _forget_promises(mp, names.KIND_CLAIMS)


def _forget_promises(mp: Patch, kind: str) -> None:
    """Let a pass drop the promises to one kind of requests, whatever it has read."""
    settle = statusjournal.settle_journal

    def settle_without_kind(journal: Journal, read: Any) -> Journal:
        promises = tuple(promise for promise in journal.promises if promise.kind != kind)
        return settle(replace(journal, promises=promises), read)

    mp.setattr(protocol, "settle_journal", settle_without_kind)


def keep_claims_read_before_the_list(mp: Patch) -> None:
    """Let a pass choose by what claims held before it waited for a LIST of allocations."""
    read_up_to = PoolReader.read_up_to

    async def read_claims_first(
        self: PoolReader, pool: Any, journal: Journal, fenced_allocations: Any = None
    ) -> Any:
        before = [
            *self.read_cached(pool.metadata.key).holdings.list_facts_of_kind(names.KIND_CLAIMS)
        ]
        read = await read_up_to(self, pool, journal=journal, fenced_allocations=fenced_allocations)
        if read.claims is None:
            return read
        facts = chain(read.holdings.list_facts_of_kind(KIND), before)
        holdings = Holdings(facts=facts)
        return replace(read, holdings=holdings, claims=read.claims.with_holdings(holdings))

    mp.setattr(PoolReader, "read_up_to", read_claims_first)


def ignore_claims(mp: Patch) -> None:
    """Let the addresses of claims be given to allocations."""
    find_facts = NetworkPoolClaims.find_facts

    def find_facts_without_ranges(
        self: NetworkPoolClaims, pool: Any, holder: Holder
    ) -> Facts | None:
        facts = find_facts(self, pool, holder)
        return None if facts is None else facts._replace(ranges=())

    mp.setattr(NetworkPoolClaims, "find_facts", find_facts_without_ranges)


def believe_lagging_claims(mp: Patch) -> None:
    """Believe a cache of claims that has not read as far as the journal says."""
    _skip_wait_for_cache(mp, CLAIM_KIND)


def believe_lagging_addresses(mp: Patch) -> None:
    """Believe a cache of IPAddresses that has not read as far as the journal says."""
    _skip_wait_for_cache(mp, ADDRESS_KIND)


def _skip_wait_for_cache(mp: Patch, kind: str) -> None:
    """Let passes use the cache of one kind before it has read as far as the journal says."""
    has_read = CacheWait.has_read

    def has_read_or_skips(self: CacheWait, cache: Any, revision: int, pool: Any) -> bool:
        # Readers of claims give a tuple of the kind for which they wait, and the pool.
        is_of_kind = isinstance(pool, tuple) and pool[0] == kind
        return is_of_kind or has_read(self, cache, revision=revision, pool=pool)

    mp.setattr(CacheWait, "has_read", has_read_or_skips)


def forget_lists(mp: Patch) -> None:
    """Use a cache again before it shows all that a LIST has shown."""
    mp.setattr(CacheWait, "note_list", lambda self, pool, objects: None)


def replace_missing_revision_by_zero(mp: Patch) -> None:
    """Read no IPAddresses if the journal lacks the revision of IPAddresses."""
    read = StatusJournal.read

    def read_with_zero(self: StatusJournal, pool: Any) -> Journal:
        stored = read(self, pool)
        if names.KIND_CLAIMS not in stored.revisions:
            return stored
        return replace(stored, revisions={names.KIND_ADDRESSES: 0, **stored.revisions})

    mp.setattr(StatusJournal, "read", read_with_zero)


def drop_all_promises_in_fence(mp: Patch) -> None:
    """Let a fence of one kind of requests drop the promises to the other kind, too."""

    def drop_all(self: Journal, kind: str, revisions: Mapping[str, int]) -> Journal:
        del kind
        return Journal({**self.revisions, **revisions})

    mp.setattr(Journal, "apply_fence", drop_all)


def believe_absence_at_once(mp: Patch) -> None:
    """Treat claims as not served once their kinds are missing, whatever the journal says."""
    mp.setattr(absentkinds, "ABSENCE_SECONDS", 0.0)


def compare_whole_journals(mp: Patch) -> None:
    """Believe the absence of claims only once the journal has not changed at all."""

    def get_whole_journal(pool: Any) -> Any:
        return tuple(pool.status.revisions.items()), tuple(pool.status.assignments)

    mp.setattr(networkpoolclaims, "find_entry", get_whole_journal)


def treat_incomplete_as_absent(mp: Patch) -> None:
    """Treat claims as not served if only one of their kinds is missing."""
    find_pool_claims = DiscoveredClaims.find_pool_claims

    def serve_as_complete(self: DiscoveredClaims, pool: Any) -> Any:
        self.incomplete_reason = ""
        return find_pool_claims(self, pool)

    mp.setattr(DiscoveredClaims, "find_pool_claims", serve_as_complete)


def ignore_entry_without_integration(mp: Patch) -> None:
    """Let a process without the integration ignore what the journal says about claims."""
    mp.setattr(ClaimService, "check_counts", lambda self, pool: None)


def believe_journals_of_any_uid(mp: Patch) -> None:
    """Believe a journal whichever object it was written for."""

    def is_intact(pool: Any) -> bool:
        uid, _, _ = pool.status.journalOf.partition("/")
        status = pool.status
        return bool(uid) and status.journalOf == statusjournal.compute_seal(
            uid, status.revisions, status.assignments
        )

    mp.setattr(statusjournal, "is_intact", is_intact)


def settle_promises_by_key(mp: Patch) -> None:
    """Settle a promise by any request of its namespace and name, whatever the kind."""
    settle = settling.settle

    def settle_by_key(journal: Journal, kind: str, read: Any, effects: Any = None) -> Journal:
        of_kind = tuple(replace(promise, kind=kind) for promise in journal.promises)
        settled = settle(replace(journal, promises=of_kind), kind, read, effects)
        still_open = {promise.identity for promise in settled.promises}
        promises = tuple(promise for promise in journal.promises if promise.identity in still_open)
        return replace(settled, promises=promises)

    mp.setattr(statusjournal, "settle", settle_by_key)
