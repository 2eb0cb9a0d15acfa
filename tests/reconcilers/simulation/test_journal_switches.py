"""Rules of the journal, switched off for each kind of pools: the same scenes must notice."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.reconcilers.simulation import (
    claimrules,
    ippoolrules,
    journalrules,
    journalscenes,
    kkprules,
    networkrules,
    poolrules,
)
from tests.reconcilers.simulation.claimscenes import ClaimStage
from tests.reconcilers.simulation.ippoolscenes import IPPoolStage
from tests.reconcilers.simulation.kkpscenes import KkpStage
from tests.reconcilers.simulation.networkscenes import NetworkStage
from tests.reconcilers.simulation.stage import Scene, Stage, play_scene
from tests.reconcilers.simulation.switch import check_scene

BOTH = "both have"
Off = Callable[[pytest.MonkeyPatch], Any]


def _and_no_second_lock(off: Off) -> Off:
    """Return a switch for a rule of the journal together with the lock of names of IPAddresses.

    The name of an IPAddress has its address, so the server refuses a second IPAddress with it.
    """

    def switch_off(patch: pytest.MonkeyPatch) -> None:
        ippoolrules.names_in_the_way_are_ours(patch)
        off(patch)

    return switch_off


STAGES: dict[str, type[Stage]] = {
    "networkpools": Stage,
    "claims": ClaimStage,
    "ippools": IPPoolStage,
    "networks": NetworkStage,
    "kkp": KkpStage,
}
SCENES: dict[str, tuple[Scene, str, dict[str, Off]]] = {
    "1 a pass waits until it has read what settled promises": (
        journalscenes.promise_kept_and_dropped_unseen,
        BOTH,
        {
            "networkpools": poolrules.any_position,
            "claims": claimrules.revision_not_raised,
            "networks": networkrules.revision_not_raised,
            "kkp": kkprules.revision_not_raised,
        },
    ),
    "6 what settled a promise raises the revision": (
        journalscenes.promise_kept_and_dropped_unseen,
        BOTH,
        {"networkpools": poolrules.revision_not_raised},
    ),
    "5 a promise whose write is refused for good is voided": (
        journalscenes.addresses_whose_writes_are_refused,
        journalscenes.WAITS,
        dict.fromkeys(
            ("networkpools", "claims", "networks", "kkp"), journalrules.refused_promises_stay
        ),
    ),
    "7 a pool without memory is fenced": (
        journalscenes.late_write_after_loss_of_memory,
        BOTH,
        {"networkpools": poolrules.no_fence},
    ),
    "7 a fence voids what was promised": (
        journalscenes.late_write_after_loss_of_memory,
        BOTH,
        {
            "networkpools": journalrules.fence_voids_nothing,
            "claims": journalrules.fence_voids_nothing,
            "ippools": _and_no_second_lock(journalrules.fence_voids_nothing),
            "networks": journalrules.fence_voids_nothing,
            "kkp": journalrules.fence_voids_nothing,
        },
    ),
    "7 a journal of which a part was dropped is no memory": (
        journalscenes.late_write_after_a_truncation,
        BOTH,
        {
            "networkpools": journalrules.checksums_ignored,
            "claims": journalrules.checksums_ignored,
            "ippools": _and_no_second_lock(journalrules.checksums_ignored),
            "networks": journalrules.checksums_ignored,
            "kkp": journalrules.checksums_ignored,
        },
    ),
    "7 a memory of another history is no memory": (
        journalscenes.late_write_after_a_restore,
        BOTH,
        {
            "networkpools": poolrules.memory_of_others_believed,
        },
    ),
    "7 a journal that came with a copy of its pool is no memory": (
        journalscenes.late_write_after_a_copy,
        BOTH,
        {
            "networkpools": poolrules.journal_of_others_believed,
            **dict.fromkeys(("claims", "networks", "kkp"), claimrules.memory_of_others_believed),
            "ippools": _and_no_second_lock(claimrules.memory_of_others_believed),
        },
    ),
}


@pytest.mark.parametrize(
    ("rule", "kind"), [(rule, kind) for rule, (_, _, offs) in SCENES.items() for kind in offs]
)
def test_without_a_rule_of_the_journal_the_scene_ends_badly_and_with_it_well(
    rule: str, kind: str
) -> None:
    scene, sign, offs = SCENES[rule]
    check_scene(offs[kind], lambda: play_scene(scene, STAGES[kind]), sign=sign, rule=rule)


@pytest.mark.parametrize(
    "rule", [rule for rule, (*_, offs) in SCENES.items() if "ippools" in offs]
)
def test_the_journal_of_an_ippool_suffices_without_the_second_lock(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, *_ = SCENES[rule]
    ippoolrules.names_in_the_way_are_ours(monkeypatch)
    assert play_scene(scene, IPPoolStage) is None
