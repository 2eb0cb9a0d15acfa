"""Paused claims cost a pass nothing, and are served once the pause ends: counted, not timed."""

import sys
from functools import partial

import pytest

from reconcilers.integrations.clusterapi.api import PAUSED
from reconcilers.promises.holdings import KeptHoldings
from tests.calls import calls_of
from tests.reconcilers.promises.claimstages import SPAN, ClusterStage, of_each_kind
from tests.reconcilers.simulation.model import CLUSTERS
from tests.reconcilers.simulation.stage import play_scene

FEW, MANY = 10, 1_000
LEEWAY = 10
"""So many calls more a pass may need among many paused claims than among few."""


@pytest.fixture(autouse=True)
def skip_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no pass check what is kept: that costs as much as there is, and corrects what is stale.

    All other tests have each pass do so.
    """
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)


@of_each_kind
@pytest.mark.parametrize("is_cluster_paused", [True, False])
def test_a_pass_calls_as_much_among_many_paused_claims_as_among_few(
    stage: type[ClusterStage], is_cluster_paused: bool
) -> None:
    calls = {}

    async def count(stage: ClusterStage, claims: int) -> None:
        stage.make_cluster(paused=is_cluster_paused)
        for number in range(claims):
            stage.claim(number, **({} if is_cluster_paused else {PAUSED: ""}))
        replica = stage.replica()
        await stage.serve(replica)
        calls[claims] = await calls_of(lambda: stage.pool(replica))
        assert stage.count_served() == 0

    for claims in (FEW, MANY):
        play_scene(partial(count, claims=claims), stage)
    sys.stdout.write(f"{calls}\n")
    assert calls[MANY] <= calls[FEW] + LEEWAY, calls


@of_each_kind
def test_claims_are_served_once_their_cluster_is_no_longer_paused(
    stage: type[ClusterStage],
) -> None:
    async def unpause(stage: ClusterStage) -> None:
        stage.make_cluster(paused=True)
        for number in range(SPAN):
            stage.claim(number)
        replica = stage.replica()
        await stage.serve(replica)
        assert stage.count_served() == 0
        stage.edit(CLUSTERS, "north", {"spec": {"paused": False}})
        await stage.serve(replica)
        assert stage.count_served() == SPAN

    play_scene(unpause, stage)


@of_each_kind
def test_claims_wait_while_their_cluster_cannot_be_decoded(stage: type[ClusterStage]) -> None:
    async def correct(stage: ClusterStage) -> None:
        stage.make_cluster(paused=False)
        replica = stage.replica()
        stage.claim(0)
        await stage.serve(replica)
        assert stage.count_served() == 1
        stage.edit(CLUSTERS, "north", {"spec": {"paused": "maybe"}})
        await stage.serve(replica)
        stage.claim(1)
        await stage.serve(replica)
        assert stage.count_served() == 1
        stage.edit(CLUSTERS, "north", {"spec": {"paused": False}})
        await stage.serve(replica)
        assert stage.count_served() == 2

    play_scene(correct, stage)
