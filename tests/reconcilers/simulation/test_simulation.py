"""The promises, proved for the real code from seeds; each failure says how to play it again.

`BUTLER_IPAM_TEST_SEEDS` is how many seeds of the pools' simulation are played with two replicas;
with three, with objects that vanish, or with shards that move, it is a quarter of that, and of the
tenants' simulation as many. `python -m tests.reconcilers.simulation` plays single ones.
"""

from collections.abc import Callable
from functools import partial

import pytest

from controller.meta import Key
from controller.shards import compute_shard
from tests.reconcilers.simulation.adapter import SPANS
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.model import NAMESPACE
from tests.reconcilers.simulation.networkpools import NetworkPools
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part
from tests.reconcilers.simulation.sharedtenancy import SharedTenancy
from tests.reconcilers.simulation.tenancy import COUNTING, FAMILIES, FORCE, WAITING, Tenancy

SHARDED = Plan(replicas=3, shards=2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("plan", "share", "options"),
    [
        (Plan(), 1, "--replicas 2"),
        (Plan(replicas=3), 4, "--replicas 3"),
        (Plan(force=True), 4, "--force"),
        (SHARDED, 4, "--replicas 3 --shards 2"),
        (Plan(families=True), 2, "--families"),
        (Plan(replicas=3, families=True, force=True), 4, "--replicas 3 --families --force"),
        (Plan(refusals=0.06, lasting_refusals=True), 4, "--refusals"),
    ],
    ids=["two", "three", "vanishing", "shards", "families", "families vanishing", "refused"],
)
def test_no_two_allocations_ever_hold_one_address_and_every_request_that_fits_is_served(
    plan: Plan, share: int, options: str, part: int
) -> None:
    run = partial(Run, NetworkPools, plan=plan)
    check_part(run, SEEDS // share, part=part, again=f"pools {{}} {options}")


def _check_tenants(model: Callable[[int], Tenancy], part: int, options: str) -> None:
    """Play the seeds of one part with tenants; the options play one of them again."""
    check_part(model, SEEDS // 4, part=part, again=f"tenants {{}} {options}")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_address_is_projected_wrongly_and_every_one_is_released(part: int) -> None:
    _check_tenants(Tenancy, part, "")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_address_is_projected_wrongly_where_clusters_vanish_without_teardown(part: int) -> None:
    _check_tenants(partial(Tenancy, faults=FORCE), part, "--force")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_address_is_projected_wrongly_where_metallb_uses_an_older_configuration(
    part: int,
) -> None:
    _check_tenants(partial(Tenancy, faults=COUNTING), part, "--counting")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_address_is_projected_wrongly_where_metallb_shows_nothing_and_its_kinds_go(
    part: int,
) -> None:
    _check_tenants(partial(Tenancy, faults=WAITING), part, "--waiting")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_both_families_of_a_tenant_are_projected_and_released_together(part: int) -> None:
    _check_tenants(partial(Tenancy, faults=FAMILIES), part, "--families")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_address_is_projected_wrongly_where_replicas_share_tenants_and_pool(part: int) -> None:
    _check_tenants(SharedTenancy, part, "--shards 2")


def test_shards_move_during_passes_and_some_are_held_by_two_replicas() -> None:
    runs = [Run(NetworkPools, seed, SHARDED) for seed in range(12)]
    assert [run.play() for run in runs] == [None] * len(runs)
    assert min(run.moves for run in runs) > 0
    assert sum(run.shared > 0 for run in runs) > 5
    assert sum(run.cancelled for run in runs) > 10


def test_tenants_move_during_passes_and_some_are_held_by_two_replicas() -> None:
    runs = [SharedTenancy(seed) for seed in range(4)]
    assert [run.play() for run in runs] == [None] * len(runs)
    assert sum(run.shared > 0 for run in runs) > 2
    assert sum(run.cancelled for run in runs) > 10


def test_the_pools_of_the_simulation_belong_to_different_shards() -> None:
    assert {compute_shard(Key(NAMESPACE, pool), SHARDED.shards) for pool in SPANS} == {0, 1}


@pytest.mark.parametrize(
    "play",
    [partial(Run, NetworkPools), Tenancy, SharedTenancy],
    ids=["pools", "tenants", "shared tenants"],
)
def test_a_seed_gives_the_same_run_each_time(play: Callable[[int], Run | Tenancy]) -> None:
    def describe_run() -> list[object]:
        run = play(7)
        run.play()
        return [run.random.random(), run.clock.monotonic(), run.number_of_writes]

    assert describe_run() == describe_run()
