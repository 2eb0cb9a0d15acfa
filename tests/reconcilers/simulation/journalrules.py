"""How the rules of the journal, which all integrations share, are switched off, one by one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from controller.clock import Clock
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool import statusjournal
from reconcilers.promises import choosing, journal, requestkinds, settling
from reconcilers.promises.fence import Fence
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.journal import Journal
from reconcilers.promises.keeping import PoolMemory
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Shares
from tests.reconcilers.simulation.wire import Flight

Patch = pytest.MonkeyPatch


def promises_not_taken_by(mp: Patch, user: ModuleType) -> None:
    """What is promised may be chosen again.

    Args:
        mp: puts everything back afterwards.
        user: the module that chooses.
    """
    exclude_ranges = choosing.exclude_ranges

    def careless(holdings: Any, promised: Any, also_held: Any = ()) -> Any:
        del promised
        return exclude_ranges(holdings, (), also_held)

    mp.setattr(user, "exclude_ranges", careless)


def promises_dropped_at_once(mp: Patch, user: ModuleType) -> None:
    """The next write of the journal forgets what was promised before.

    Args:
        mp: puts everything back afterwards.
        user: the module of the integration that writes journals.
    """

    def nothing(journal: Journal, kind: str, view: Any, effects: Any = None) -> Journal:
        del view, effects
        return Journal({kind: 0, **journal.revisions})

    mp.setattr(user, "settle", nothing)


def unreadable_requests_are_gone(mp: Patch, user: ModuleType) -> None:
    """What is promised to a request that cannot be decoded is forgotten.

    Args:
        mp: puts everything back afterwards.
        user: the module of the integration that writes journals.
    """
    settle = settling.settle

    def careless(journal: Journal, kind: str, view: Any, effects: Any = None) -> Journal:
        return settle(journal, kind, replace(view, unreadable=frozenset()), effects)

    mp.setattr(user, "settle", careless)


def revision_not_raised(mp: Patch, user: ModuleType) -> None:
    """The journal does not say how far one has to have read.

    Args:
        mp: puts everything back afterwards.
        user: the module that settles journals before they are written.
    """
    settle = settling.settle

    def low(journal: Journal, kind: str, view: Any, effects: Any = None) -> Journal:
        return replace(settle(journal, kind, view, effects), revisions=journal.revisions)

    mp.setattr(user, "settle", low)


def refused_promises_stay(mp: Patch) -> None:
    """A promise whose write is refused for good stays open, and holds its addresses."""

    async def stay(kept: Any, void: Any, memory: PoolMemory, clock: Clock) -> Any:
        del void
        for entry in kept:
            if entry.result is WriteResult.REFUSED:
                memory.due.note_rejected(entry.promise.identity, clock.monotonic())
        return kept

    mp.setattr(requestkinds, "void_refused", stay)


def fence_voids_nothing(mp: Patch) -> None:
    """A pool without memory begins to serve while earlier promises may still be kept."""

    async def skip(self: Fence[Any], listed: Sequence[Any]) -> list[Any]:
        del self
        return [*listed]

    mp.setattr(Fence, "void_earlier", skip)


def checksums_ignored(mp: Patch) -> None:
    """A journal that names its pool counts as intact, whatever became of its promises."""

    def is_of_pool(pool: NetworkPool) -> bool:
        return pool.status.journalOf.startswith(pool.metadata.uid)

    mp.setattr(statusjournal, "is_intact", is_of_pool)
    mp.setattr(journal._Stored, "is_intact", True)


def refused_again_at_once(mp: Patch) -> None:
    """A request whose promise was voided because of a refused write may get another at once."""
    mp.setattr(Shares, "defer", lambda self, request, now, seconds=None: None)


def other_holders_unseen(mp: Patch) -> None:
    """An address that an object shows is its own, even if another has it, too."""
    mp.setattr(Holdings, "other_holder", lambda self, addresses, but=None, space="": None)


def without_precondition(mp: Patch, kind: str, part: str) -> None:
    """Some writes of a kind are stored at whatever version the object has."""

    def concerns(plural: str, body: Any) -> bool:
        meta = body.get("metadata") or {}
        other = set(meta) - {"resourceVersion", "uid"} or set(body) - {"metadata"}
        return plural == kind and part in body and bool(other) and "finalizers" not in meta

    patch_at_any_version(mp, concerns)


def patch_at_any_version(mp: Patch, concerns: Callable[[str, Any], bool]) -> None:
    """Patches that `concerns` picks, by plural and body, are stored whatever the version."""
    run = Flight.run

    def blind(self: Flight) -> None:
        live = self.model.get(self.plural, self.name)
        if self.method == "PATCH" and live is not None and concerns(self.plural, self.body):
            kept = {k: v for k, v in self.body.get("metadata", {}).items() if k != "uid"}
            version = {"resourceVersion": live["metadata"]["resourceVersion"]}
            self.body = {**self.body, "metadata": kept | version}
        run(self)

    mp.setattr(Flight, "run", blind)
