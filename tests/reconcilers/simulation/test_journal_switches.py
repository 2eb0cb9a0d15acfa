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
        ippoolrules.adopt_addresses_of_other_claims(patch)
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
            "networkpools": poolrules.believe_any_position,
            "claims": claimrules.keep_revision,
            "networks": networkrules.keep_revision,
            "kkp": kkprules.keep_revision,
        },
    ),
    "6 what settled a promise raises the revision": (
        journalscenes.promise_kept_and_dropped_unseen,
        BOTH,
        {"networkpools": poolrules.keep_revision},
    ),
    "5 a promise whose write is refused for good is voided": (
        journalscenes.addresses_whose_writes_are_refused,
        journalscenes.WAITS,
        dict.fromkeys(
            ("networkpools", "claims", "networks", "kkp"), journalrules.keep_refused_promises
        ),
    ),
    "7 a pool without memory is fenced": (
        journalscenes.late_write_after_loss_of_memory,
        BOTH,
        {"networkpools": poolrules.skip_fence},
    ),
    "7 a fence voids what was promised": (
        journalscenes.late_write_after_loss_of_memory,
        BOTH,
        {
            "networkpools": journalrules.fence_without_voiding,
            "claims": journalrules.fence_without_voiding,
            "ippools": _and_no_second_lock(journalrules.fence_without_voiding),
            "networks": journalrules.fence_without_voiding,
            "kkp": journalrules.fence_without_voiding,
        },
    ),
    "7 a journal of which a part was dropped is no memory": (
        journalscenes.late_write_after_a_truncation,
        BOTH,
        {
            "networkpools": journalrules.ignore_checksums,
            "claims": journalrules.ignore_checksums,
            "ippools": _and_no_second_lock(journalrules.ignore_checksums),
            "networks": journalrules.ignore_checksums,
            "kkp": journalrules.ignore_checksums,
        },
    ),
    "7 a memory of another history is no memory": (
        journalscenes.late_write_after_a_restore,
        BOTH,
        {
            "networkpools": poolrules.believe_foreign_memory,
        },
    ),
    "7 a journal that came with a copy of its pool is no memory": (
        journalscenes.late_write_after_a_copy,
        BOTH,
        {
            "networkpools": poolrules.believe_copied_journals,
            **dict.fromkeys(("claims", "networks", "kkp"), claimrules.believe_foreign_memory),
            "ippools": _and_no_second_lock(claimrules.believe_foreign_memory),
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
    ippoolrules.adopt_addresses_of_other_claims(monkeypatch)
    assert play_scene(scene, IPPoolStage) is None
