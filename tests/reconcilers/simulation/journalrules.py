"""Switches for the rules of the journal that all integrations share.

Each function switches one rule off. Its docstring says what the code does without the rule. The
parameter `mp` restores the rule at the end of the test.
"""

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


def ignore_promises_in(mp: Patch, user: ModuleType) -> None:
    """Let promised addresses be chosen again.

    Args:
        mp: restores the rule at the end of the test.
        user: the module of the kind of pools that calls `exclude_ranges`.
    """
    exclude_ranges = choosing.exclude_ranges

    def exclude_held_only(holdings: Any, promised: Any, also_held: Any = ()) -> Any:
        del promised
        return exclude_ranges(holdings, (), also_held)

    mp.setattr(user, "exclude_ranges", exclude_held_only)


def forget_promises_in(mp: Patch, user: ModuleType) -> None:
    """Drop all promises at the next write of the journal.

    Args:
        mp: restores the rule at the end of the test.
        user: the module of the integration that calls `settle`.
    """

    def drop_all(journal: Journal, kind: str, view: Any, effects: Any = None) -> Journal:
        del view, effects
        return Journal({kind: 0, **journal.revisions})

    mp.setattr(user, "settle", drop_all)


def forget_unreadable_requests_in(mp: Patch, user: ModuleType) -> None:
    """Settle the promise to a request that cannot be decoded, as if the request were gone.

    Args:
        mp: restores the rule at the end of the test.
        user: the module of the integration that calls `settle`.
    """
    settle = settling.settle

    def settle_unreadable(journal: Journal, kind: str, view: Any, effects: Any = None) -> Journal:
        return settle(journal, kind, replace(view, unreadable=frozenset()), effects)

    mp.setattr(user, "settle", settle_unreadable)


def keep_revision(mp: Patch, user: ModuleType) -> None:
    """Do not record in the journal how far other replicas have to read.

    Args:
        mp: restores the rule at the end of the test.
        user: the module of the integration that calls `settle`.
    """
    settle = settling.settle

    def settle_at_old_revision(
        journal: Journal, kind: str, view: Any, effects: Any = None
    ) -> Journal:
        return replace(settle(journal, kind, view, effects), revisions=journal.revisions)

    mp.setattr(user, "settle", settle_at_old_revision)


def keep_refused_promises(mp: Patch) -> None:
    """Keep a promise open, with its addresses, though its write is refused for good."""

    async def void_nothing(kept: Any, void: Any, memory: PoolMemory, clock: Clock) -> Any:
        del void
        for entry in kept:
            if entry.result is WriteResult.REFUSED:
                memory.due.note_rejected(entry.promise.identity, clock.monotonic())
        return kept

    mp.setattr(requestkinds, "void_refused", void_nothing)


def fence_without_voiding(mp: Patch) -> None:
    """Let a pool without memory serve requests while earlier promises may still be written."""

    async def list_unvoided(self: Fence[Any], listed: Sequence[Any]) -> list[Any]:
        del self
        return [*listed]

    mp.setattr(Fence, "void_earlier", list_unvoided)


def ignore_checksums(mp: Patch) -> None:
    """Believe a journal that names its pool, whatever became of its promises."""

    def is_of_pool(pool: NetworkPool) -> bool:
        return pool.status.journalOf.startswith(pool.metadata.uid)

    mp.setattr(statusjournal, "is_intact", is_of_pool)
    mp.setattr(journal._Stored, "is_intact", True)


def retry_refused_requests_at_once(mp: Patch) -> None:
    """Make another promise at once to a request whose promise was voided by a refused write."""
    mp.setattr(Shares, "defer", lambda self, request, now, seconds=None: None)


def ignore_other_holders(mp: Patch) -> None:
    """Let a request keep the address that it shows even if another request has it, too."""
    mp.setattr(
        Holdings, "find_other_holder", lambda self, addresses, excluded=None, space="": None
    )


def patch_field_at_any_version(mp: Patch, kind: str, part: str) -> None:
    """Store patches of one field whatever version the object has.

    Patches of metadata alone and of finalizers keep their precondition.

    Args:
        mp: restores the rule at the end of the test.
        kind: the plural of the objects.
        part: the field of the body by which a patch is chosen: metadata, spec or status.
    """

    def is_match(plural: str, body: Any) -> bool:
        meta = body.get("metadata") or {}
        other = set(meta) - {"resourceVersion", "uid"} or set(body) - {"metadata"}
        return plural == kind and part in body and bool(other) and "finalizers" not in meta

    patch_at_any_version(mp, is_match)


def patch_at_any_version(mp: Patch, is_match: Callable[[str, Any], bool]) -> None:
    """Store the patches that `is_match` picks by plural and body, at any version of the object."""
    run = Flight.run

    def run_at_live_version(self: Flight) -> None:
        live = self.model.get(self.plural, self.name)
        if self.method == "PATCH" and live is not None and is_match(self.plural, self.body):
            kept = {k: v for k, v in self.body.get("metadata", {}).items() if k != "uid"}
            version = {"resourceVersion": live["metadata"]["resourceVersion"]}
            self.body = {**self.body, "metadata": kept | version}
        run(self)

    mp.setattr(Flight, "run", run_at_live_version)
