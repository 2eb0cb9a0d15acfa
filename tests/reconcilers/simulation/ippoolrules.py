"""How each rule by which no address of an IPPool is given twice is switched off, one by one."""

import pytest

from controller.meta import Key
from reconcilers.integrations.metal3 import pools, reading
from reconcilers.integrations.metal3.caches import Metal3Caches
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.integrations.metal3.taking import TakenAddresses
from reconcilers.promises.holdings import Facts
from reconcilers.promises.identities import Holder
from tests.reconcilers.simulation.journalrules import (
    promises_dropped_at_once,
    promises_not_taken_by,
    without_precondition,
)
from tests.reconcilers.simulation.model import METAL3_CLAIMS, METAL3_POOLS

Patch = pytest.MonkeyPatch


def promises_not_taken(mp: Patch) -> None:
    """What is promised may be chosen again."""
    promises_not_taken_by(mp, pools)
    mp.setattr(pools, "TakenAddresses", lambda _: TakenAddresses(()))


def pools_written_blindly(mp: Patch) -> None:
    """A journal is written whatever the pool has become meanwhile."""
    without_precondition(mp, METAL3_POOLS, "metadata")


def claims_written_blindly(mp: Patch) -> None:
    """A claim is given its address whatever it has become meanwhile."""
    without_precondition(mp, METAL3_CLAIMS, "status")


def dropped_at_once(mp: Patch) -> None:
    """The next write of the journal forgets what was promised before."""
    promises_dropped_at_once(mp, reading)


def kinds_do_not_see_each_other(mp: Patch) -> None:
    """Nothing is held by IPAddressClaims."""
    find_facts = Metal3Caches.find_facts

    def of_one_kind(
        self: Metal3Caches, pool: Key, holder: Holder, space: EntrySpace
    ) -> Facts | None:
        facts = find_facts(self, pool, holder, space)
        is_other = not holder.kind.endswith("metal3.io")
        return facts._replace(ranges=()) if facts is not None and is_other else facts

    mp.setattr(Metal3Caches, "find_facts", of_one_kind)
