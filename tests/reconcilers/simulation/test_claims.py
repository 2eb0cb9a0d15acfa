"""The promises to claims, proved for the real code from seeds; and each rule switched off.

`BUTLER_IPAM_TEST_SEEDS` is how many seeds are played with two replicas; with three, or with
objects that vanish, it is half of that.
"""

from dataclasses import replace
from functools import partial

import pytest

from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claims import Claims
from tests.reconcilers.simulation.clusters import ClusterClaims
from tests.reconcilers.simulation.plans import RESTING, Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, sharded_integration_plans


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@sharded_integration_plans
def test_no_two_claims_ever_have_one_address_and_every_claim_that_fits_is_served(
    plan: Plan, share: int, options: str, part: int
) -> None:
    check_part(
        partial(Run, Claims, plan=plan), SEEDS // share, part=part, again=f"claims {{}} {options}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_claims_are_served_and_released_while_clusters_come_and_go_and_addresses_rest(
    part: int,
) -> None:
    check_part(
        partial(Run, ClusterClaims, plan=RESTING), SEEDS // 2, part=part, again="clusters {}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_released_addresses_that_an_object_records_rest_though_objects_are_removed_by_force(
    part: int,
) -> None:
    plan = replace(RESTING, force=True)
    check_part(
        partial(Run, ClusterClaims, plan=plan), SEEDS // 4, part=part, again="clusters {} --force"
    )


def test_a_seed_gives_the_same_run_each_time() -> None:
    def describe_run() -> list[object]:
        run = Run(Claims, 7)
        run.play()
        return [run.random.random(), run.clock.monotonic(), run.number_of_writes]

    assert describe_run() == describe_run()


def test_an_ipaddress_that_blocks_an_open_promise_is_removed() -> None:
    """In this run the claim reports the IPAddress before another replica makes the promise."""
    assert Run(Claims, 276, Plan(replicas=3)).play() is None
