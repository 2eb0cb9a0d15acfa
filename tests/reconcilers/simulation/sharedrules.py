"""How each rule that keeps claims and allocations of one pool apart is switched off."""

from typing import Any

import pytest

from controller.outcome import SETTLED, Outcome
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import networkpools
from reconcilers.integrations.clusterapi.api import JOURNALS, is_paused
from reconcilers.integrations.clusterapi.claimtaking import ClaimTaker
from reconcilers.integrations.clusterapi.networkpools import ClaimHolders, NetworkPoolClaims
from reconcilers.integrations.clusterapi.reading import Reader
from reconcilers.promises.journal import Journal
from reconcilers.promises.reading import CacheWait

Patch = pytest.MonkeyPatch


def lost_journal_believed(mp: Patch) -> None:
    """A pool whose journal was lost counts as one that promised nothing to claims."""
    held = NetworkPoolClaims.held

    def credulous(self: NetworkPoolClaims, pool: Any, journal: Journal) -> Any:
        has_memory = JOURNALS.has_memory(journal)
        return held(self, pool, journal if has_memory else JOURNALS.with_revision(0))

    mp.setattr(NetworkPoolClaims, "held", credulous)


def pause_stops_the_fence(mp: Patch) -> None:
    """A journal that was lost is not restored while the pool is paused."""
    prepare = NetworkPoolClaims.prepare

    async def end(self: NetworkPoolClaims, pool: Any) -> tuple[Any, Outcome | None]:
        return (
            (pool, SETTLED) if is_paused(pool.metadata.annotations) else await prepare(self, pool)
        )

    mp.setattr(NetworkPoolClaims, "prepare", end)


def lost_journal_kept(mp: Patch) -> None:
    """A journal that was lost is not restored while another controller writes the status."""
    prepare = NetworkPoolClaims.prepare

    async def end(self: NetworkPoolClaims, pool: Any) -> tuple[Any, Outcome | None]:
        if networkpools._has_foreign_manager(pool):
            return pool, await self._block(pool)
        return await prepare(self, pool)

    mp.setattr(NetworkPoolClaims, "prepare", end)


def adopted_though_allocated(mp: Patch) -> None:
    """An IPAddress of the claim's name is adopted though an allocation has its address."""
    adopt = ClaimTaker._adopt_blocks

    def blind(self: ClaimTaker, claim: Any, address: Any) -> Any:
        self._also_held = ()
        return adopt(self, claim, address)

    mp.setattr(ClaimTaker, "_adopt_blocks", blind)


def promises_to_allocations_free(mp: Patch) -> None:
    """What is promised to allocations may be given to claims."""
    mp.setattr(networkpools, "settle_journal", lambda journal, view: Journal())


def view_kept_while_allocations_are_listed(mp: Patch) -> None:
    """A pass over claims chooses by what it read before it waited for a list of allocations."""
    mp.setattr(Reader, "renewed", lambda self, view, *_: view)


def promises_free_without_kinds(mp: Patch) -> None:
    """What is promised to claims is free for a replica that does not see their kinds yet."""
    mp.setattr(networkpools, "promised_ranges", lambda pool: [])


def claims_unseen(mp: Patch) -> None:
    """What claims hold or are promised may be given to allocations."""
    mp.setattr(ClaimHolders, "held", lambda self, pool: ())


def promises_to_claims_free(mp: Patch) -> None:
    """What is promised to claims, and not seen yet, may be given to allocations."""

    def held(self: NetworkPoolClaims, pool: Any, journal: Any) -> Any:
        del journal
        space = self.geometry(pool)
        view = self._parts.reader.cached(NETWORK_POOL, pool.metadata.key, space)
        return [*view.holdings.held_ranges()]

    mp.setattr(NetworkPoolClaims, "held", held)


def lists_forgotten(mp: Patch) -> None:
    """A cache is used again though it does not show yet what a LIST showed."""
    mp.setattr(CacheWait, "note_list", lambda self, pool, objects: None)


def absence_believed_at_once(mp: Patch) -> None:
    """Claims count as not served once their kinds are not seen, whatever the journal says."""
    mp.setattr(networkpools, "ABSENCE_SECONDS", 0.0)
