"""The promise: no two allocations of a pool ever hold one address, and whoever fits is served."""

import os

import pytest

from tests.reconcilers.simulation.chaos import Plan, Run

SEEDS = int(os.environ.get("BUTLER_IPAM_TEST_SEEDS", "150"))


@pytest.mark.parametrize("replicas", [2, 3])
def test_no_two_allocations_ever_hold_one_address_and_whoever_fits_is_served(
    replicas: int,
) -> None:
    for seed in range(SEEDS):
        verdict = Run(seed, Plan(replicas=replicas)).play()
        assert verdict is None, f"seed {seed}, {replicas} replicas: {verdict}"
