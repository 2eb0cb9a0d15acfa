"""A blocked pool's claims that show why cost its pass nothing: counted, not timed."""

import sys
from collections.abc import Callable
from functools import partial

import pytest

from reconcilers.promises.holdings import KeptHoldings
from tests.calls import calls_of
from tests.reconcilers.promises.claimstages import (
    ClusterStage,
    InClusterStage,
    IPPoolStage,
    NetworkPoolStage,
    of_each_kind,
)
from tests.reconcilers.simulation.model import ADDRESSES, CLAIMS, Json
from tests.reconcilers.simulation.stage import play_scene

FEW, MANY = 10, 200
LEEWAY = 10
"""So many calls more a pass may need among many claims than among few."""
BLOCKS: dict[type[ClusterStage], Json] = {
    InClusterStage: {"spec": {"addresses": ["many"]}},
    NetworkPoolStage: {"spec": {"reserved": [{"cidr": "10.99.0.0/28"}]}},
    IPPoolStage: {"spec": {"clusterName": "south"}},
}
"""By kind of pools: an edit after which the pool serves no claim."""


@pytest.fixture(autouse=True)
def skip_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no pass check what is kept: that costs as much as there is."""
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)


def _block_by_spec(stage: ClusterStage) -> None:
    stage.edit_pool(BLOCKS[type(stage)])


def _block_by_unreadable_address(stage: ClusterStage) -> None:
    [address] = stage.model.list_objects(ADDRESSES)
    stage.edit(ADDRESSES, address["metadata"]["name"], {"spec": {"prefix": "many"}})


def _messages(stage: ClusterStage) -> set[str]:
    """Return the messages of all claims but the first, which has its address."""
    return {
        condition["message"]
        for claim in stage.model.list_objects(CLAIMS)
        if claim["metadata"]["name"] != "c0000"
        for condition in claim["status"]["conditions"]
        if condition["type"] == "Ready"
    }


@of_each_kind
@pytest.mark.parametrize("block", [_block_by_spec, _block_by_unreadable_address])
def test_a_pass_over_a_blocked_pool_calls_as_much_among_many_waiting_claims_as_among_few(
    stage: type[ClusterStage], block: Callable[[ClusterStage], None]
) -> None:
    calls = {}

    async def count(stage: ClusterStage, claims: int) -> None:
        stage.make_cluster(paused=False)
        replica = stage.start_replica()
        stage.create_claim(0)
        await stage.serve_requests(replica)
        block(stage)
        for number in range(1, claims):
            stage.create_claim(number)
        await stage.serve_requests(replica)
        await stage.serve_requests(replica)
        assert len(_messages(stage)) == 1, "each claim shows why the pool is blocked"
        calls[claims] = await calls_of(lambda: stage.reconcile_pool(replica))
        assert stage.count_served() == 1

    for claims in (FEW, MANY):
        play_scene(partial(count, claims=claims), stage)
    sys.stdout.write(f"{calls}\n")
    assert calls[MANY] <= calls[FEW] + LEEWAY, calls
