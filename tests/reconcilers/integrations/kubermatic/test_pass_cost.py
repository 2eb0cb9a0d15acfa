"""The cost of a pass for KKP, in calls, does not grow with the number of other clusters."""

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
"""Numbers of other datacenters, each with a pool and a cluster."""
FEW_CLUSTERS, MANY_CLUSTERS = 8, 160
"""Numbers of clusters of one datacenter."""
POOL, CLUSTER = 0, 1
"""The reconcilers of pools and of clusters in a simulated replica."""


async def _serve_datacenters(stage: KkpStage, others: int) -> KkpReplica:
    """Serve pool `p` and cluster `a`, and a pool and a cluster of each other datacenter."""
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


@pytest.mark.parametrize(("reconciler", "name"), [(POOL, "p"), (CLUSTER, "a")])
def test_a_pass_costs_as_many_calls_among_many_datacenters_as_among_few(
    reconciler: int, name: str
) -> None:
    calls = {}

    async def count(stage: KkpStage, others: int) -> None:
        replica = await _serve_datacenters(stage, others)
        reconcile = replica._reconcilers[reconciler][0]
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


def _create_cluster(stage: KkpStage) -> None:
    """Create another cluster of datacenter `big`."""
    stage.adapter.make_cluster("new", "big")


def _delete_cluster(stage: KkpStage) -> None:
    """Delete a cluster and its allocation, if it has one."""
    stage.model.remove_by_force(KKP_CLUSTERS, "big-001")
    if stage.model.get(KKP_ALLOCATIONS, "cluster-big-001/big"):
        stage.model.remove_by_force(KKP_ALLOCATIONS, "cluster-big-001/big")


def _change_nothing(stage: KkpStage) -> None:
    """Change nothing, as before a resync or in a pool without disturbance."""


def _hold_all(stage: KkpStage) -> None:
    """Create an allocation that holds all addresses, so it overlaps those of all clusters."""
    metadata = {"namespace": "by-hand", "name": "big"}
    spec = {"type": "range", "dc": "big", "addresses": ["10.1.0.0-10.1.0.255"]}
    stage.model.create(KKP_ALLOCATIONS, {"metadata": metadata, "spec": spec})


def _drain(stage: KkpStage) -> None:
    """Exclude all addresses of the pool, and grant each cluster one more address."""
    settings = {"allocationRange": 2, "excludeRanges": ["10.1.0.0-10.1.0.255"]}
    stage.model.edit(KKP_POOLS, "big", {"spec": {"datacenters": {"big": settings}}})


def _hold_all_and_grow(stage: KkpStage) -> None:
    """Hold all addresses by an allocation, and grant each cluster one more address."""
    _hold_all(stage)
    settings = {"allocationRange": 2}
    stage.model.edit(KKP_POOLS, "big", {"spec": {"datacenters": {"big": settings}}})


def _create_unreadable(stage: KkpStage) -> None:
    """Create an allocation that cannot be decoded."""
    metadata = {"namespace": "by-hand", "name": "big"}
    stage.model.create(KKP_ALLOCATIONS, {"metadata": metadata, "spec": {"type": 7}})


STATES = {
    "held": ("10.1.0.0/24", _change_nothing),
    "waiting": ("10.1.0.0/30", _change_nothing),
    "overlapping": ("10.1.0.0/24", _hold_all),
    "drained": ("10.1.0.0/24", _drain),
    "overlapping and waiting": ("10.1.0.0/24", _hold_all_and_grow),
    "unreadable": ("10.1.0.0/24", _create_unreadable),
}
"""For each state of the pool: its CIDR, and what happens once its clusters are served."""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("change", [_create_cluster, _delete_cluster, _change_nothing])
def test_a_pass_costs_as_many_calls_among_many_clusters_as_among_few(
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

    # Tests compare kept results with computed ones in each pass, at a cost that grows.
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)
    monkeypatch.setattr(KeptFindings, "_is_check_due", lambda _self, _kept: False)
    for clusters in (FEW_CLUSTERS, MANY_CLUSTERS):
        play_scene(partial(count, clusters=clusters), KkpStage)
    sys.stdout.write(f"{calls}\n")
    assert calls[MANY_CLUSTERS] <= 1.1 * calls[FEW_CLUSTERS], calls
