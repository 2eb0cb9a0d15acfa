"""What a pass for KKP costs does not depend on how many clusters there are: counted, not timed."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from reconcilers.integrations.kubermatic.findings import KeptFindings
from reconcilers.promises.holdings import KeptHoldings
from tests.calls import calls_of
from tests.reconcilers.simulation.kkp import KkpReplica
from tests.reconcilers.simulation.kkpscenes import KkpStage
from tests.reconcilers.simulation.model import KKP_ALLOCATIONS, KKP_CLUSTERS, KKP_POOLS
from tests.reconcilers.simulation.stage import play_scene

FEW, MANY = 2, 60
FEW_CLUSTERS, MANY_CLUSTERS = 8, 160
POOL, CLUSTER = 0, 1


async def _serve(stage: KkpStage, others: int) -> KkpReplica:
    """Serve pool p and cluster a, and as many pools and clusters of other datacenters."""
    stage.create_request("a")
    datacenter = {"type": "range", "poolCidr": "10.1.0.0/29", "allocationRange": 1}
    names = [f"other-{number}" for number in range(others)]
    for name in names:
        spec = {"datacenters": {name: datacenter}}
        stage.model.create(KKP_POOLS, {"metadata": {"name": name}, "spec": spec})
        stage.adapter.make_cluster(name, name)
    replica: KkpReplica = stage.start_replica()
    for _ in range(2):
        for name in ("p", *names):
            await stage.reconcile(replica, POOL, name)
            await stage.reconcile(replica, CLUSTER, "a" if name == "p" else name)
        replica.catch_up()
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


async def _settle(stage: KkpStage, replica: KkpReplica, clusters: Sequence[str]) -> None:
    """Pass over pool big and its clusters until nothing is left to do."""
    for _ in range(4):
        await stage.reconcile(replica, POOL, "big")
        for name in clusters:
            await stage.reconcile(replica, CLUSTER, name)
        replica.catch_up()
        stage.skip_time(seconds=61)  # the next pass drops the promises that are over


def _ask(stage: KkpStage) -> None:
    stage.adapter.make_cluster("new", "big")


def _release(stage: KkpStage) -> None:
    """Delete a cluster and its allocation, if it has one."""
    stage.model.remove_by_force(KKP_CLUSTERS, "big-001")
    if stage.model.get(KKP_ALLOCATIONS, "cluster-big-001/big"):
        stage.model.remove_by_force(KKP_ALLOCATIONS, "cluster-big-001/big")


def _touch(stage: KkpStage) -> None:
    """Change nothing: a resync."""


def _hold(stage: KkpStage) -> None:
    """Have nobody hold any address but the clusters that were served."""


def _hold_all(stage: KkpStage) -> None:
    """Have an allocation hold all addresses of the pool, which overlaps those of all clusters."""
    metadata = {"namespace": "by-hand", "name": "big"}
    spec = {"type": "range", "dc": "big", "addresses": ["10.1.0.0-10.1.0.255"]}
    stage.model.create(KKP_ALLOCATIONS, {"metadata": metadata, "spec": spec})


def _drain(stage: KkpStage) -> None:
    """Exclude all addresses that are held, and have each cluster get one more."""
    settings = {"allocationRange": 2, "excludeRanges": ["10.1.0.0-10.1.0.255"]}
    stage.model.edit(KKP_POOLS, "big", {"spec": {"datacenters": {"big": settings}}})


def _hold_all_and_more(stage: KkpStage) -> None:
    """Have each cluster overlap another allocation, and wait for one more address."""
    _hold_all(stage)
    settings = {"allocationRange": 2}
    stage.model.edit(KKP_POOLS, "big", {"spec": {"datacenters": {"big": settings}}})


def _hold_unreadably(stage: KkpStage) -> None:
    """Have an allocation that cannot be decoded."""
    metadata = {"namespace": "by-hand", "name": "big"}
    stage.model.create(KKP_ALLOCATIONS, {"metadata": metadata, "spec": {"type": 7}})


STATES = {
    "held": ("10.1.0.0/24", _hold),
    "waiting": ("10.1.0.0/30", _hold),
    "overlapping": ("10.1.0.0/24", _hold_all),
    "drained": ("10.1.0.0/24", _drain),
    "overlapping and waiting": ("10.1.0.0/24", _hold_all_and_more),
    "unreadable": ("10.1.0.0/24", _hold_unreadably),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("change", [_ask, _release, _touch])
def test_a_pass_calls_as_much_among_many_clusters_as_among_few(
    change: Callable[[KkpStage], None], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cidr, disturb = STATES[state]
    calls = {}

    async def count(stage: KkpStage, clusters: int) -> None:
        datacenter = {"type": "range", "poolCidr": cidr, "allocationRange": 1}
        spec = {"datacenters": {"big": datacenter}}
        stage.model.create(KKP_POOLS, {"metadata": {"name": "big"}, "spec": spec})
        names = [f"big-{number:03}" for number in range(clusters)]
        for name in names:
            stage.adapter.make_cluster(name, "big")
        replica: KkpReplica = stage.start_replica()
        await _settle(stage, replica, names)
        disturb(stage)
        replica.catch_up()
        await _settle(stage, replica, names)
        change(stage)
        replica.catch_up()
        calls[clusters] = await calls_of(lambda: stage.reconcile(replica, POOL, "big"))

    # Every pass of these tests checks what is kept, which costs as much as there is.
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)
    monkeypatch.setattr(KeptFindings, "_is_check_due", lambda _self, _kept: False)
    for clusters in (FEW_CLUSTERS, MANY_CLUSTERS):
        play_scene(partial(count, clusters=clusters), KkpStage)
    sys.stdout.write(f"{calls}\n")
    assert calls[MANY_CLUSTERS] <= 1.1 * calls[FEW_CLUSTERS], calls
