"""Paused claims do not add to the cost of a pass, and are served once the pause ends.

The cost is the number of Python calls, which does not vary as times do.
"""

import sys
from functools import partial
from typing import Any

import pytest

from controller.meta import Key
from controller.outcome import Again, Outcome
from reconcilers.integrations.clusterapi.api import PAUSED
from reconcilers.promises.holdings import KeptHoldings
from reconcilers.promises.passes import PoolPasses
from tests.calls import calls_of
from tests.reconcilers.promises.claimstages import POOL_SIZE, ClusterStage, of_each_kind
from tests.reconcilers.simulation.kkpscenes import KkpStage, match_grants_to
from tests.reconcilers.simulation.model import ADDRESSES, CLUSTERS, KKP_CLUSTERS
from tests.reconcilers.simulation.stage import play_scene
from tests.reconcilers.simulation.wire import Flight

FEW, MANY = 10, 1_000
"""Numbers of claims."""
LEEWAY = 10
"""How many more calls a pass may make among many paused claims than among few."""


@pytest.fixture(autouse=True)
def skip_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no pass compare kept holdings with all claims, which costs more for many claims.

    The comparison would also correct stale holdings, so tests would not see them.
    """
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)


def record_outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """Return a list to which each pass over a pool adds its outcome from now on."""
    outcomes: list[Outcome] = []
    reconcile = PoolPasses.reconcile

    async def reconcile_and_record(passes: PoolPasses[Any, Any, Any, Any], key: Key) -> Outcome:
        outcome = await reconcile(passes, key)
        outcomes.append(outcome)
        return outcome

    monkeypatch.setattr(PoolPasses, "reconcile", reconcile_and_record)
    return outcomes


def is_calm(outcome: Outcome) -> bool:
    """Return whether the outcome of a pass asks for no other pass within ten seconds."""
    return not isinstance(outcome, Again) or outcome.after > 10


@of_each_kind
@pytest.mark.parametrize("is_cluster_paused", [True, False])
def test_a_pass_calls_as_much_among_many_paused_claims_as_among_few(
    stage: type[ClusterStage], is_cluster_paused: bool
) -> None:
    calls = {}

    async def count_calls(stage: ClusterStage, claims: int) -> None:
        stage.make_cluster(paused=is_cluster_paused)
        for number in range(claims):
            stage.create_claim(number, **({} if is_cluster_paused else {PAUSED: ""}))
        replica = stage.start_replica()
        await stage.serve_requests(replica)
        calls[claims] = await calls_of(lambda: stage.reconcile_pool(replica))
        assert stage.count_served() == 0

    for claims in (FEW, MANY):
        play_scene(partial(count_calls, claims=claims), stage)
    sys.stdout.write(f"{calls}\n")
    assert calls[MANY] <= calls[FEW] + LEEWAY, calls


@of_each_kind
def test_claims_are_served_once_their_cluster_is_no_longer_paused(
    stage: type[ClusterStage],
) -> None:
    async def unpause(stage: ClusterStage) -> None:
        stage.make_cluster(paused=True)
        for number in range(POOL_SIZE):
            stage.create_claim(number)
        replica = stage.start_replica()
        await stage.serve_requests(replica)
        assert stage.count_served() == 0
        stage.edit(CLUSTERS, "north", {"spec": {"paused": False}})
        await stage.serve_requests(replica)
        assert stage.count_served() == POOL_SIZE

    play_scene(unpause, stage)


def _creates_address(flight: Flight) -> bool:
    """Return whether a request creates an IPAddress."""
    return (flight.method, flight.plural) == ("POST", ADDRESSES)


@of_each_kind
def test_a_promise_to_a_claim_reserves_its_address_while_the_cluster_is_paused(
    stage: type[ClusterStage], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = record_outcomes(monkeypatch)

    async def pause(stage: ClusterStage) -> None:
        stage.make_cluster("north", paused=False)
        stage.make_cluster("south", paused=False)
        replica = stage.start_replica()
        stage.create_claim(0)
        replica.catch_up()
        # The promise is stored, and the IPAddress is not created.
        await stage.reconcile_pool(replica, _creates_address)
        stage.late_requests.clear()
        stage.edit(CLUSTERS, "north", {"spec": {"paused": True}})
        for number in range(1, POOL_SIZE + 1):
            stage.create_claim(number, "south")
        await stage.drop_settled(replica)
        assert stage.list_served() == [f"c{number:04}" for number in range(1, POOL_SIZE)]
        assert len(list(stage.model.list_objects(ADDRESSES))) == POOL_SIZE - 1
        assert is_calm(outcomes[-1]), "the end of the pause calls for the next pass"
        stage.edit(CLUSTERS, "north", {"spec": {"paused": False}})
        await stage.serve_requests(replica)
        assert stage.list_served() == [f"c{number:04}" for number in range(POOL_SIZE)]

    play_scene(pause, stage)


def test_a_promise_to_a_cluster_of_kkp_reserves_its_addresses_while_it_is_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = record_outcomes(monkeypatch)

    async def pause(stage: KkpStage) -> None:
        replica = stage.start_replica()
        stage.create_request("a")
        replica.catch_up()
        # The promise is stored, and the addresses are not written.
        await stage.reconcile_pool(replica, match_grants_to("a"))
        stage.late_requests.clear()
        stage.edit(KKP_CLUSTERS, "a", {"spec": {"pause": True}})
        for name in ("b", "c", "d", "e"):
            stage.create_request(name)
        await stage.drop_settled(replica)
        counts = {name: stage.count_addresses(name) for name in ("a", "b", "c", "d", "e")}
        assert counts == {"a": 0, "b": 1, "c": 1, "d": 1, "e": 0}
        assert is_calm(outcomes[-1]), "the end of the pause calls for the next pass"
        stage.edit(KKP_CLUSTERS, "a", {"spec": {"pause": False}})
        await stage.serve_requests(replica)
        assert stage.count_addresses("a") == 1

    play_scene(pause, KkpStage)


@of_each_kind
def test_claims_wait_while_their_cluster_cannot_be_decoded(stage: type[ClusterStage]) -> None:
    async def correct(stage: ClusterStage) -> None:
        stage.make_cluster(paused=False)
        replica = stage.start_replica()
        stage.create_claim(0)
        await stage.serve_requests(replica)
        assert stage.count_served() == 1
        stage.edit(CLUSTERS, "north", {"spec": {"paused": "maybe"}})
        await stage.serve_requests(replica)
        stage.create_claim(1)
        await stage.serve_requests(replica)
        assert stage.count_served() == 1
        stage.edit(CLUSTERS, "north", {"spec": {"paused": False}})
        await stage.serve_requests(replica)
        assert stage.count_served() == 2

    play_scene(correct, stage)
