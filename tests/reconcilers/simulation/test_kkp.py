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
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch
from tests.reconcilers.simulation.test_claim_switches import BOTH_HAVE

_BUSY = replace(LAGGING, users=0.15, reading=0.15)
_EMPTIED = replace(_BUSY, resets=True)

CHANGED, LOST = " now", "lost its addresses"

SWITCHES = {
    "2": Switch(
        "promised addresses are not chosen again",
        rules.ignore_promises,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=5,
    ),
    "3": Switch(
        "an allocation is created without addresses",
        rules.create_allocations_with_addresses,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=1,
    ),
    "4": Switch(
        "the journal is written at the version that was read",
        rules.write_pools_at_any_version,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=1,
    ),
    "5": Switch(
        "an allocation is written at the version that the promise names",
        rules.write_requests_at_any_version,
        sign=CHANGED,
        plan=_EMPTIED,
        seed=8,
    ),
    "6": Switch(
        "a promise is kept until it is settled",
        rules.forget_promises_at_once,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=3,
    ),
    "8": Switch(
        "the answers to own writes do not count as read",
        rules.count_own_answers_as_read,
        sign=BOTH_HAVE,
        plan=_BUSY,
        seed=24,
    ),
}

SCENES = {
    "7b": (
        rules.fence_only_empty_allocations,
        scenes.play_late_growth_after_loss_of_memory,
        BOTH_HAVE,
    ),
    "9": (
        rules.keep_empty_allocations,
        scenes.play_empty_allocation_of_a_full_pool,
        "without addresses",
    ),
    "10": (rules.replace_existing_addresses, scenes.play_growth, CHANGED),
    "11a": (rules.delete_by_cache, scenes.play_datacenter_gone_and_back, LOST),
    "11b": (rules.delete_by_cache, scenes.play_cluster_moved_away_and_back, LOST),
    "12": (rules.delete_at_any_version, scenes.play_late_deletion_of_a_leftover, LOST),
    "13": (
        rules.write_for_cached_datacenter,
        scenes.play_promise_written_by_a_replica_that_missed_a_move,
        "does not hand out",
    ),
    "15": (
        rules.ignore_unreadable_objects,
        scenes.play_allocation_unreadable_for_a_while,
        BOTH_HAVE,
    ),
    "14": (
        rules.decide_again_by_first_view,
        scenes.play_promise_written_while_another_allocation_cannot_be_created,
        BOTH_HAVE,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@integration_plans
def test_no_two_clusters_ever_have_one_address_and_every_cluster_that_fits_is_served(
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
    check_switch(switch, lambda seed: Run(Kkp, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("number", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(number: str) -> None:
    off, scene, sign = SCENES[number]
    check_scene(off, lambda: play_scene(scene, scenes.KkpStage), sign)
