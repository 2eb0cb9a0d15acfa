"""What a pass for KKP costs does not depend on other datacenters: counted, not timed."""

import sys
from functools import partial

import pytest

from tests.calls import calls_of
from tests.reconcilers.simulation.kkp import KkpReplica
from tests.reconcilers.simulation.kkpscenes import KkpStage
from tests.reconcilers.simulation.model import KKP_POOLS
from tests.reconcilers.simulation.stage import play_scene

FEW, MANY = 2, 60
POOL, CLUSTER = 0, 1


async def _serve(stage: KkpStage, others: int) -> KkpReplica:
    """Serve pool p and cluster a, and as many pools and clusters of other datacenters."""
    stage.ask("a")
    datacenter = {"type": "range", "poolCidr": "10.1.0.0/29", "allocationRange": 1}
    names = [f"other-{number}" for number in range(others)]
    for name in names:
        spec = {"datacenters": {name: datacenter}}
        stage.model.create(KKP_POOLS, {"metadata": {"name": name}, "spec": spec})
        stage.adapter.make_cluster(name, name)
    replica: KkpReplica = stage.replica()
    for _ in range(2):
        for name in ("p", *names):
            await stage.work(replica, POOL, name)
            await stage.work(replica, CLUSTER, "a" if name == "p" else name)
        replica.read(1.0, all_of_it=True)
    return replica


@pytest.mark.parametrize(("of", "name"), [(POOL, "p"), (CLUSTER, "a")])
def test_a_pass_calls_as_much_among_many_datacenters_as_among_few(of: int, name: str) -> None:
    calls = {}

    async def count(stage: KkpStage, others: int) -> None:
        replica = await _serve(stage, others)
        reconcile = replica._reconcilers[of][0]
        calls[others] = await calls_of(lambda: reconcile(stage.key(name)))

    for others in (FEW, MANY):
        play_scene(partial(count, others=others), KkpStage)
    sys.stdout.write(f"{name}: {calls}\n")
    assert calls[MANY] <= calls[FEW] + 10, calls
