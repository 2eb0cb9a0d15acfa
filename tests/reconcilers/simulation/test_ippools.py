"""The promises of metal3's pools to claims of both kinds, proved for the real code from seeds.

`BUTLER_IPAM_TEST_SEEDS` is how many seeds are played with two replicas.
"""

from functools import partial

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import ippoolrules as rules
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.ippools import IPPools
from tests.reconcilers.simulation.ippoolscenes import (
    IPPoolStage,
    address_given_elsewhere_before_the_first_list,
    promised_address_given_elsewhere,
)
from tests.reconcilers.simulation.plans import LAGGING, SWITCHED_BESIDE_OTHERS, Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, integration_plans
from tests.reconcilers.simulation.stage import play_scene
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch
from tests.reconcilers.simulation.test_claim_switches import BOTH_HAVE

SWITCHES = {
    "2": Switch(
        "promised addresses are not chosen again",
        rules.ignore_promises,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=8,
    ),
    "4": Switch(
        "the journal is written at the version that was read",
        rules.write_pools_at_any_version,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=17,
    ),
    "5": Switch(
        "a claim is written at the version that the promise names",
        rules.write_requests_at_any_version,
        sign="came to have",
        plan=LAGGING,
        seed=1,
    ),
    "6": Switch(
        "a promise is kept until it is settled",
        rules.forget_promises_at_once,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=3,
    ),
    "8": Switch(
        "addresses of claims of one kind are not given to claims of the other kind",
        rules.ignore_addresses_of_other_kind,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@integration_plans
def test_no_two_claims_of_either_kind_ever_have_one_address(
    plan: Plan, share: int, options: str, part: int
) -> None:
    check_part(
        partial(Run, IPPools, plan=plan),
        SEEDS // share,
        part=part,
        again=f"ippools {{}} {options}",
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    number: str, record_property: Note
) -> None:
    switch = SWITCHES[number]
    check_switch(switch, lambda seed: Run(IPPools, seed, switch.plan).play(), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_claims_keep_their_addresses_while_metal3s_own_controller_takes_over_and_returns(
    part: int,
) -> None:
    play = partial(Run, IPPools, plan=SWITCHED_BESIDE_OTHERS)
    check_part(play, SEEDS // 2, part=part, again="ippools {} --switches")


def test_a_promised_address_that_metal3s_controller_gave_to_another_claim_is_not_given_again() -> (
    None
):
    check_scene(
        rules.adopt_addresses_of_other_claims,
        lambda: play_scene(promised_address_given_elsewhere, IPPoolStage),
        BOTH_HAVE,
    )


def test_an_address_that_metal3s_controller_gave_before_the_first_list_is_not_given_again() -> (
    None
):
    """The journal tells of our own promises alone, so a list that shows them can be too old."""
    check_scene(
        lambda patch: patch.setattr(IPPoolStage, "begins_newest", False),
        lambda: play_scene(address_given_elsewhere_before_the_first_list, IPPoolStage),
        BOTH_HAVE,
        rule="a process begins with the newest lists",
    )
