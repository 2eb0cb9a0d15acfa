"""Which seeds the tests play: `BUTLER_IPAM_TEST_SEEDS` of each plan, in parts for the workers."""

import os
from collections.abc import Callable, Mapping
from typing import Protocol

import pytest

from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.tenancy import COUNTING, FAMILIES, FORCE, WAITING, Faults

SEEDS = int(os.environ.get("BUTLER_IPAM_TEST_SEEDS", "20"))
"""Of 25 rules of the integrations, switched off one at a time, the seeds below 20 found 19 under
the plainest plan, and those below 40 one more. The tests of the switches know a seed or a scene
for each rule, whatever this number is.
"""
PARTS = 4
"""Each kind in so many tests, that several workers can share them."""

_PLANS = {
    "two": (Plan(), 1, "--replicas 2"),
    "three": (Plan(replicas=3), 2, "--replicas 3"),
    "vanishing": (Plan(force=True), 2, "--force"),
    "refused": (Plan(refusals=0.06, lasting_refusals=True), 2, "--refusals"),
}
_SHARDED_PLANS = {"shards": (Plan(replicas=3, shards=2), 4, "--replicas 3 --shards 2")}


def _parametrize(plans: Mapping[str, tuple[Plan, int, str]]) -> pytest.MarkDecorator:
    """Return the mark that gives a test the plan, the share and the options of each entry."""
    names = ("plan", "share", "options")
    return pytest.mark.parametrize(names, plans.values(), ids=plans.keys())


integration_plans = _parametrize(_PLANS)
"""What an integration is played with that one replica serves; with a share of 2 by half of the
seeds. With --shards, KKP and vitistack are served by the replica that leads, too.
"""
sharded_integration_plans = _parametrize(_PLANS | _SHARDED_PLANS)
"""What an integration is played with whose pools are shared out among the replicas."""

tenant_faults = pytest.mark.parametrize(
    ("faults", "options"),
    [
        (Faults(), ""),
        (FORCE, "--force"),
        (COUNTING, "--counting"),
        (FAMILIES, "--families"),
        (WAITING, "--waiting"),
    ],
    ids=["plain", "vanishing", "often paused", "families", "waiting"],
)
"""What the tenants of a load balancer are played with."""


def list_seeds(seeds: int, part: int) -> range:
    """Return the seeds of one of PARTS parts."""
    return range(seeds * part // PARTS, seeds * (part + 1) // PARTS)


class Player(Protocol):
    """A run of one seed."""

    def play(self) -> str | None:
        """Return the first violation, None if there was none."""


def check_part(of: Callable[[int], Player], seeds: int, part: int, again: str) -> None:
    """Play one part of the seeds; fail with the first violation.

    Args:
        of: returns the run of a seed.
        seeds: the number of seeds in all parts together.
        part: which of the PARTS, from 0.
        again: the arguments of `python -m tests.reconcilers.simulation` that play a seed again;
            {} stands for the seed.
    """
    for seed in list_seeds(seeds, part):
        verdict = of(seed).play()
        command = f"python -m tests.reconcilers.simulation {again.format(seed)}"
        assert verdict is None, f"seed {seed}: {verdict}; to see it again: {command}"
