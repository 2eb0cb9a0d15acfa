"""KKP's pools, proved for the real code from seeds; and each rule switched off.

`BUTLER_IPAM_TEST_SEEDS` is how many seeds are played with two replicas; with three, or with
objects that vanish, it is half of that.
"""

from dataclasses import replace
from functools import partial

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import kkprules as rules
from tests.reconcilers.simulation import kkpscenes as scenes
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.kkp import Kkp
from tests.reconcilers.simulation.plans import LAGGING, Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, integration_plans
from tests.reconcilers.simulation.stage import play_scene
from tests.reconcilers.simulation.switch import Switch, check, check_scene
from tests.reconcilers.simulation.test_claim_switches import BOTH_HAVE

_BUSY = replace(LAGGING, users=0.15, reading=0.15)
_EMPTIED = replace(_BUSY, resets=True)

CHANGED, LOST = " now", "lost its addresses"

SWITCHES = {
    "2": Switch(
        "what is promised is taken", rules.promises_not_taken, sign=BOTH_HAVE, plan=LAGGING, seed=5
    ),
    "3": Switch(
        "an allocation is made without addresses",
        rules.made_with_addresses,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=1,
    ),
    "4": Switch(
        "the journal is written at the version that was read",
        rules.pools_written_blindly,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=1,
    ),
    "5": Switch(
        "an allocation is written at the version that was promised for",
        rules.written_at_any_version,
        sign=CHANGED,
        plan=_EMPTIED,
        seed=8,
    ),
    "6": Switch(
        "a promise is kept until it is settled",
        rules.dropped_at_once,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=3,
    ),
    "8": Switch(
        "own answers are not what was read",
        rules.own_answers_count_as_read,
        sign=BOTH_HAVE,
        plan=_BUSY,
        seed=24,
    ),
}

SCENES = {
    "7b": (rules.fence_voids_only_the_empty, scenes.late_growth_after_loss_of_memory, BOTH_HAVE),
    "9": (
        rules.left_without_addresses,
        scenes.empty_allocation_of_a_full_pool,
        "without addresses",
    ),
    "10": (rules.rewritten_from_the_start, scenes.growth, CHANGED),
    "11a": (rules.deleted_by_cache, scenes.datacenter_gone_and_back, LOST),
    "11b": (rules.deleted_by_cache, scenes.cluster_moved_away_and_back, LOST),
    "12": (rules.leftovers_deleted_blindly, scenes.late_deletion_of_a_leftover, LOST),
    "13": (
        rules.written_for_where_the_cluster_is,
        scenes.promise_kept_by_who_believes_in_another_datacenter,
        "does not hand out",
    ),
    "15": (
        rules.unreadable_objects_hold_nothing,
        scenes.allocation_unreadable_for_a_while,
        BOTH_HAVE,
    ),
    "14": (
        rules.decided_again_by_the_first_view,
        scenes.promise_kept_while_another_cannot_be_made,
        BOTH_HAVE,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@integration_plans
def test_no_two_ever_have_one_address_of_kkp_and_every_cluster_that_fits_is_served(
    plan: Plan, share: int, options: str, part: int
) -> None:
    check_part(
        partial(Run, Kkp, plan=plan), SEEDS // share, part=part, again=f"kkp {{}} {options}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    number: str, record_property: Note
) -> None:
    switch = SWITCHES[number]
    check(switch, lambda seed: Run(Kkp, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("number", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(number: str) -> None:
    off, scene, sign = SCENES[number]
    check_scene(off, lambda: play_scene(scene, scenes.KkpStage), sign)
