"""The promises to claims, proved for the real code from seeds; and each rule switched off.

`BUTLER_IPAM_TEST_SEEDS` is how many seeds are played with two replicas; with three, or with
objects that vanish, it is half of that.
"""

import pytest

from tests.reconcilers.simulation.chaos import Plan
from tests.reconcilers.simulation.claimchaos import ClaimRun
from tests.reconcilers.simulation.test_simulation import PARTS, SEEDS, part_of


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("plan", "share", "options"),
    [
        (Plan(), 1, "--replicas 2"),
        (Plan(replicas=3), 2, "--replicas 3"),
        (Plan(force=True), 2, "--force"),
    ],
    ids=["two", "three", "vanishing"],
)
def test_no_two_claims_ever_have_one_address_and_every_claim_that_fits_is_served(
    plan: Plan, share: int, options: str, part: int
) -> None:
    for seed in part_of(SEEDS // share, part):
        verdict = ClaimRun(seed, plan).play()
        again = f"python -m tests.reconcilers.simulation claims {seed} {options}"
        assert verdict is None, f"seed {seed}: {verdict}; to see it again: {again}"


def test_a_seed_gives_the_same_run_each_time() -> None:
    def story() -> list[object]:
        run = ClaimRun(7)
        run.play()
        return [run.random.random(), run.clock.monotonic(), run.number_of_writes]

    assert story() == story()


def test_an_ipaddress_is_taken_away_that_is_in_the_way_of_an_open_promise() -> None:
    """In this run the claim shows what is in the way before another replica promises to it."""
    assert ClaimRun(276, Plan(replicas=3)).play() is None
