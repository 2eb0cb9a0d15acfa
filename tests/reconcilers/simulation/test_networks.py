"""Vitistack's networks, proved for the real code from seeds; and each rule switched off.

`BUTLER_IPAM_TEST_SEEDS` is how many seeds are played with two replicas; with three, or with
objects that vanish, it is half of that.
"""

from dataclasses import replace
from functools import partial

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import networkrules as rules
from tests.reconcilers.simulation import networkscenes as scenes
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.networks import Networks
from tests.reconcilers.simulation.plans import LAGGING, SHARP, Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, integration_plans
from tests.reconcilers.simulation.stage import play_scene
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch
from tests.reconcilers.simulation.test_claim_switches import BOTH_HAVE

_BUSY = replace(LAGGING, users=0.15, reading=0.15, pool_cycles=False, wipes=False, restores=False)

SWITCHES = {
    "2": Switch(
        "promised addresses are not chosen again",
        rules.ignore_promises,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=10,
    ),
    "4": Switch(
        "the journal is written at the version that was read",
        rules.write_pools_at_any_version,
        sign=BOTH_HAVE,
        plan=LAGGING,
    ),
    "5": Switch(
        "an IPAllocation is written at the version that the promise names",
        rules.write_requests_at_any_version,
        sign="requested",
        plan=SHARP,
        seed=27,
    ),
    "6": Switch(
        "a promise is kept until it is settled",
        rules.forget_promises_at_once,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=22,
    ),
    "8": Switch(
        "a request gets the address that it names, or none",
        rules.give_another_address,
        "requested",
        seed=3,
    ),
    "9": Switch(
        "a configuration is Ready with all of its addresses",
        rules.report_ready_by_existing_allocations,
        "is Ready with addresses of",
    ),
}

SCENES = {
    "10a": (rules.ignore_unreadable_objects, scenes.allocation_unreadable_for_a_while),
    "10b": (rules.ignore_unreadable_objects, scenes.machine_unreadable_for_a_while),
    "10c": (
        rules.settle_promises_to_the_unreadable,
        scenes.promise_to_an_unreadable_allocation,
    ),
    "11": (rules.free_shown_addresses_by_cache, scenes.machine_whose_allocation_is_gone),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@integration_plans
def test_no_two_allocations_of_a_network_ever_have_one_address_and_every_one_that_fits_is_served(
    plan: Plan, share: int, options: str, part: int
) -> None:
    check_part(
        partial(Run, Networks, plan=plan),
        SEEDS // share,
        part=part,
        again=f"networks {{}} {options}",
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    number: str, record_property: Note
) -> None:
    switch = SWITCHES[number]
    check_switch(switch, lambda seed: Run(Networks, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("number", SCENES)
def test_without_a_rule_a_scene_gives_one_address_twice_and_with_it_ends_well(
    number: str,
) -> None:
    off, scene = SCENES[number]
    check_scene(off, lambda: play_scene(scene, scenes.NetworkStage), BOTH_HAVE)
