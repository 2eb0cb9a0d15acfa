"""How each rule by which no address of an IPPool is given twice is switched off, one by one."""

from collections.abc import Sequence
from typing import Any

import pytest

from controller.meta import Key
from reconcilers.integrations.core import claimkind, claimreading
from reconcilers.integrations.metal3 import pools
from reconcilers.integrations.metal3.caches import EitherCaches, SideCaches
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.integrations.metal3.sides import ClaimSide
from reconcilers.integrations.metal3.taking import TakenAddresses
from reconcilers.promises.holdings import Facts
from tests.reconcilers.simulation.journalrules import (
    promises_dropped_at_once,
    promises_not_taken_by,
    without_precondition,
)
from tests.reconcilers.simulation.model import METAL3_CLAIMS, METAL3_POOLS

Patch = pytest.MonkeyPatch


def promises_not_taken(mp: Patch) -> None:
    """What is promised may be chosen again."""
    promises_not_taken_by(mp, claimkind)
    mp.setattr(pools, "TakenAddresses", lambda _: TakenAddresses(()))


def pools_written_blindly(mp: Patch) -> None:
    """A journal is written whatever the pool has become meanwhile."""
    without_precondition(mp, METAL3_POOLS, "metadata")


def claims_written_blindly(mp: Patch) -> None:
    """A claim is given its address whatever it has become meanwhile."""
    without_precondition(mp, METAL3_CLAIMS, "status")


def dropped_at_once(mp: Patch) -> None:
    """The next write of the journal forgets what was promised before."""
    promises_dropped_at_once(mp, claimreading)


def names_in_the_way_are_ours(mp: Patch) -> None:
    """The IPAddress of a promise counts as the claim's, whichever claim has it by now."""
    mp.setattr(ClaimSide, "is_of", lambda self, address, claim: True)


def kinds_do_not_see_each_other(mp: Patch) -> None:
    """Nothing is held by IPAddressClaims."""
    facts_of = SideCaches.facts_of

    def of_one_kind(
        self: EitherCaches, pool: Key, space: EntrySpace, claim: Any, addresses: Sequence[Any]
    ) -> Facts | None:
        facts = facts_of(self, pool, space=space, claim=claim, addresses=addresses)
        is_other = not self.claim_kind.endswith("metal3.io")
        return facts._replace(ranges=()) if facts is not None and is_other else facts

    mp.setattr(SideCaches, "facts_of", of_one_kind)
