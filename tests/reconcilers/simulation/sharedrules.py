"""How each rule that keeps claims and allocations of one pool apart is switched off."""

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


def lost_journal_believed(mp: Patch) -> None:
    """A pool whose journal was lost counts as one that promised nothing to claims."""
    mp.setattr(NetworkPoolClaims, "needs_fence", lambda *_, **__: False)


def pause_stops_the_fence(mp: Patch) -> None:
    """A journal that was lost is not restored while the pool is paused."""
    needs_fence = NetworkPoolClaims.needs_fence

    def unless_paused(self: NetworkPoolClaims, pool: Any, *rest: Any, **keywords: Any) -> bool:
        return not self.is_paused(pool) and needs_fence(self, pool, *rest, **keywords)

    mp.setattr(NetworkPoolClaims, "needs_fence", unless_paused)


def lost_journal_keeps_condition(mp: Patch) -> None:
    """The condition of another controller does not end before the journal is restored."""
    prepare = NetworkPoolKind.prepare

    async def end(self: NetworkPoolKind, pool: Any) -> tuple[Any, Outcome | None]:
        is_foreign = is_true(pool.status.conditions, FOREIGN_MANAGER)
        if is_foreign and not statusjournal.is_intact(pool):
            return pool, Blocked(FOREIGN_MANAGER)
        return await prepare(self, pool)

    mp.setattr(NetworkPoolKind, "prepare", end)


def adopted_though_allocated(mp: Patch) -> None:
    """An IPAddress of the claim's name is adopted though an allocation has its address."""
    mp.setattr(Holdings, "other_holder", lambda self, addresses, but=None, space="": None)


def promises_to_allocations_free(mp: Patch) -> None:
    """What is promised to allocations, and not seen yet, may be given to claims."""
    _forget_promises(mp, KIND)


def promises_to_claims_free(mp: Patch) -> None:
    """What is promised to claims, and not seen yet, may be given to allocations."""
    _forget_promises(mp, names.KIND_CLAIMS)


def _forget_promises(mp: Patch, kind: str) -> None:
    """Let a pass drop promises to one kind whatever it has read."""
    settle = statusjournal.settle_journal

    def careless(journal: Journal, read: Any) -> Journal:
        promises = tuple(promise for promise in journal.promises if promise.kind != kind)
        return settle(replace(journal, promises=promises), read)

    mp.setattr(protocol, "settle_journal", careless)


def holdings_of_claims_kept_while_allocations_are_listed(mp: Patch) -> None:
    """A pass chooses by what claims held before it waited for a LIST of allocations."""
    read_up_to = PoolReader.read_up_to

    async def early(self: PoolReader, pool: Any, journal: Journal, seen: Any = None) -> Any:
        before = [*self.read_cached(pool.metadata.key).holdings.facts_of_kind(names.KIND_CLAIMS)]
        read = await read_up_to(self, pool, journal=journal, seen=seen)
        if read.claims is None:
            return read
        facts = chain(read.holdings.facts_of_kind(KIND), before)
        holdings = Holdings(facts=facts)
        return replace(read, holdings=holdings, claims=read.claims.with_holdings(holdings))

    mp.setattr(PoolReader, "read_up_to", early)


def claims_unseen(mp: Patch) -> None:
    """What claims hold may be given to allocations."""
    find_facts = NetworkPoolClaims.find_facts

    def without_ranges(self: NetworkPoolClaims, pool: Any, holder: Holder) -> Facts | None:
        facts = find_facts(self, pool, holder)
        return None if facts is None else facts._replace(ranges=())

    mp.setattr(NetworkPoolClaims, "find_facts", without_ranges)


def lagging_claims_read(mp: Patch) -> None:
    """A cache of claims counts as read that has not got as far as the journal says."""
    _believe_lagging(mp, CLAIM_KIND)


def lagging_addresses_read(mp: Patch) -> None:
    """A cache of IPAddresses counts as read that has not got as far as the journal says."""
    _believe_lagging(mp, ADDRESS_KIND)


def _believe_lagging(mp: Patch, source: str) -> None:
    has_read = CacheWait.has_read

    def credulous(self: CacheWait, cache: Any, revision: int, pool: Any) -> bool:
        of_source = isinstance(pool, tuple) and pool[0] == source
        return of_source or has_read(self, cache, revision=revision, pool=pool)

    mp.setattr(CacheWait, "has_read", credulous)


def lists_forgotten(mp: Patch) -> None:
    """A cache is used again though it does not show yet what a LIST showed."""
    mp.setattr(CacheWait, "note_list", lambda self, pool, objects: None)


def missing_revision_is_zero(mp: Patch) -> None:
    """A journal without the revision of IPAddresses says that none has to be read."""
    read = StatusJournal.read

    def lenient(self: StatusJournal, pool: Any) -> Journal:
        stored = read(self, pool)
        if names.KIND_CLAIMS not in stored.revisions:
            return stored
        return replace(stored, revisions={names.KIND_ADDRESSES: 0, **stored.revisions})

    mp.setattr(StatusJournal, "read", lenient)


def fence_drops_all_promises(mp: Patch) -> None:
    """A fence of one kind drops the promises to requests of the other, too."""

    def alone(self: Journal, kind: str, revisions: Mapping[str, int]) -> Journal:
        del kind
        return Journal({**self.revisions, **revisions})

    mp.setattr(Journal, "after_fence", alone)


def absence_believed_at_once(mp: Patch) -> None:
    """Claims count as not served once their kinds are not seen, whatever the journal says."""
    mp.setattr(absentkinds, "ABSENCE_SECONDS", 0.0)


def every_promise_is_of_the_entry(mp: Patch) -> None:
    """Absence is believed only once the journal has not changed at all."""

    def whole_journal(pool: Any) -> Any:
        return tuple(pool.status.revisions.items()), tuple(pool.status.assignments)

    mp.setattr(networkpoolclaims, "find_entry", whole_journal)


def incomplete_is_absent(mp: Patch) -> None:
    """If one of the kinds of claims is not served, none is."""
    served_from = DiscoveredClaims.served_from

    def lax(self: DiscoveredClaims, pool: Any) -> Any:
        self.incomplete = ""
        return served_from(self, pool)

    mp.setattr(DiscoveredClaims, "served_from", lax)


def entry_ignored_without_integration(mp: Patch) -> None:
    """A process without the integration takes no notice of what the journal says of claims."""
    mp.setattr(ClaimService, "check_counts", lambda self, pool: None)


def journal_of_any_uid(mp: Patch) -> None:
    """A journal counts whichever object it was written for."""

    def is_intact(pool: Any) -> bool:
        uid, _, _ = pool.status.journalOf.partition("/")
        status = pool.status
        return bool(uid) and status.journalOf == statusjournal.seal(
            uid, status.revisions, status.assignments
        )

    mp.setattr(statusjournal, "is_intact", is_intact)


def promises_known_by_key(mp: Patch) -> None:
    """A promise is settled by whatever request has its namespace and name."""
    settle = settling.settle

    def by_key(journal: Journal, kind: str, read: Any, effects: Any = None) -> Journal:
        of_kind = tuple(replace(promise, kind=kind) for promise in journal.promises)
        settled = settle(replace(journal, promises=of_kind), kind, read, effects)
        still_open = {promise.identity for promise in settled.promises}
        promises = tuple(promise for promise in journal.promises if promise.identity in still_open)
        return replace(settled, promises=promises)

    mp.setattr(statusjournal, "settle", by_key)
