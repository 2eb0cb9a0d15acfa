"""The cost of a pass over a blocked pool does not depend on how many claims wait for the pool.

A pool is blocked if it serves no claim; each claim shows the reason. The cost is the number of
Python calls, which does not vary as times do.
"""

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
"""Numbers of claims."""
LEEWAY = 10
"""How many more calls a pass may make among many claims than among few."""
BLOCKS: dict[type[ClusterStage], Json] = {
    InClusterStage: {"spec": {"addresses": ["many"]}},
    NetworkPoolStage: {"spec": {"reserved": [{"cidr": "10.99.0.0/28"}]}},
    IPPoolStage: {"spec": {"clusterName": "south"}},
}
"""By kind of pools: an edit after which the pool serves no claim."""


@pytest.fixture(autouse=True)
def skip_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no pass compare kept holdings with all claims, which costs more for many claims."""
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)


def _block_by_spec(stage: ClusterStage) -> None:
    """Make the spec of pool p invalid for its claims."""
    stage.edit_pool(BLOCKS[type(stage)])


def _block_by_unreadable_address(stage: ClusterStage) -> None:
    """Make the IPAddress of the first claim undecodable."""
    [address] = stage.model.list_objects(ADDRESSES)
    stage.edit(ADDRESSES, address["metadata"]["name"], {"spec": {"prefix": "many"}})


def _list_messages(stage: ClusterStage) -> set[str]:
    """Return the Ready messages of all claims but c0000, which has its address."""
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

    async def count_calls(stage: ClusterStage, claims: int) -> None:
        stage.make_cluster(paused=False)
        replica = stage.start_replica()
        stage.create_claim(0)
        await stage.serve_requests(replica)
        block(stage)
        for number in range(1, claims):
            stage.create_claim(number)
        await stage.serve_requests(replica)
        await stage.serve_requests(replica)
        assert len(_list_messages(stage)) == 1, "each claim shows why the pool is blocked"
        calls[claims] = await calls_of(lambda: stage.reconcile_pool(replica))
        assert stage.count_served() == 1

    for claims in (FEW, MANY):
        play_scene(partial(count_calls, claims=claims), stage)
    sys.stdout.write(f"{calls}\n")
    assert calls[MANY] <= calls[FEW] + LEEWAY, calls
