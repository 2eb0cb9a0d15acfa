"""The promises of metal3's pools to claims of both kinds, proved for the real code from seeds.

`BUTLER_IPAM_TEST_SEEDS` is how many seeds are played with two replicas.
"""

from functools import partial
from typing import Any, ClassVar

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import ippoolrules as rules
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.ippools import IPPools
from tests.reconcilers.simulation.model import METAL3_CLAIMS, METAL3_POOLS
from tests.reconcilers.simulation.plans import LAGGING, SWITCHED_BESIDE_OTHERS, Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, integration_plans
from tests.reconcilers.simulation.stage import Stage, play_scene
from tests.reconcilers.simulation.switch import Switch, check, check_scene
from tests.reconcilers.simulation.test_claim_switches import BOTH_HAVE

SWITCHES = {
    "2": Switch(
        "what is promised is taken", rules.promises_not_taken, sign=BOTH_HAVE, plan=LAGGING, seed=8
    ),
    "4": Switch(
        "the journal is written at the version that was read",
        rules.pools_written_blindly,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=2,
    ),
    "5": Switch(
        "a claim is written at the version that was promised for",
        rules.claims_written_blindly,
        sign="came to have",
        plan=LAGGING,
        seed=4,
    ),
    "6": Switch(
        "a promise is kept until it is settled",
        rules.dropped_at_once,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=22,
    ),
    "8": Switch(
        "what claims of one kind hold is taken for claims of the other kind",
        rules.kinds_do_not_see_each_other,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=1,
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
    check(switch, lambda seed: Run(IPPools, seed, switch.plan).play(), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_claims_keep_their_addresses_while_metal3s_own_controller_takes_over_and_returns(
    part: int,
) -> None:
    play = partial(Run, IPPools, plan=SWITCHED_BESIDE_OTHERS)
    check_part(play, SEEDS // 2, part=part, again="ippools {} --switches")


class IPPoolStage(Stage):
    """A model with IPPool p of three addresses, its memory, and no replica at work yet."""

    kind: ClassVar[type[Adapter]] = IPPools
    begins_newest: ClassVar[bool] = True
    """Whether a process begins with the newest lists, and not with those of a watch cache."""

    def begin_process(self, past: int) -> Any:
        """Return a replica of a process that has just begun.

        Args:
            past: the revision of the server's watch cache, which lags.
        """
        replica = self.replica()
        if not self.begins_newest:
            replica.list_past(past)
        return replica


async def _promised_address_given_elsewhere(stage: IPPoolStage) -> str | None:
    """A promise to a is open as the integration goes; metal3's controller gives its address to b.

    Then the integration is switched on again, and its processes find the promise.
    """
    stage.ask("a")
    await stage.pool(stage.replica(), stage.gives_to("a"))
    stage.ask("b")
    was_paused, stage.judge.paused = stage.judge.paused, True
    [promise] = stage.adapter.promises(stage.model.objects[METAL3_POOLS, "p"])
    stage.adapter.serve_elsewhere(METAL3_CLAIMS, "b", choice=promise.addresses)
    stage.judge.paused = was_paused
    await stage.serve(stage.replica())
    stage.arrive()
    return stage.problem


def test_a_promised_address_that_metal3s_controller_gave_to_another_claim_is_not_given_again() -> (
    None
):
    check_scene(
        rules.names_in_the_way_are_ours,
        lambda: play_scene(_promised_address_given_elsewhere, IPPoolStage),
        BOTH_HAVE,
    )


async def _address_given_elsewhere_before_the_first_list(stage: IPPoolStage) -> str | None:
    """While the integration is off, metal3's controller serves b; then c is served by us."""
    stage.ask("a")
    await stage.drop_settled(stage.replica())
    stage.ask("c")
    past = stage.model.revision
    stage.ask("b")
    was_paused, stage.judge.paused = stage.judge.paused, True
    stage.adapter.serve_elsewhere(METAL3_CLAIMS, "b")
    stage.judge.paused = was_paused
    process = stage.begin_process(past)
    for _ in range(3):  # its caches lag as the lists did
        await stage.pool(process)
    return stage.problem


def test_an_address_that_metal3s_controller_gave_before_the_first_list_is_not_given_again() -> (
    None
):
    """The journal tells of our own promises alone, so a list that shows them can be too old."""
    check_scene(
        lambda patch: patch.setattr(IPPoolStage, "begins_newest", False),
        lambda: play_scene(_address_given_elsewhere_before_the_first_list, IPPoolStage),
        BOTH_HAVE,
        rule="a process begins with the newest lists",
    )
