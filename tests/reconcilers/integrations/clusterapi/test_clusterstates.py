"""What the Cluster of an object means for the object."""

import pytest

from controller.meta import Key, ObjectMeta
from reconcilers.integrations.clusterapi.api import (
    CLUSTER_LABEL,
    CLUSTERS,
    PAUSED,
    Cluster,
    ClusterSpec,
    IPAddress,
)
from reconcilers.integrations.clusterapi.clusterstates import (
    ClusterState,
    find_cluster_state,
    find_labelled_cluster,
)
from reconcilers.integrations.core.objects import fill_cache


def _make_cluster(name: str, *annotations: str, is_paused: bool = False) -> Cluster:
    metadata = ObjectMeta(name, namespace="team", annotations=dict.fromkeys(annotations, ""))
    return Cluster(metadata, ClusterSpec(paused=is_paused))


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("sound", ClusterState.SERVED),
        ("paused", ClusterState.PAUSED),
        ("annotated", ClusterState.PAUSED),
        ("broken", ClusterState.UNREADABLE),
        ("absent", ClusterState.ABSENT),
    ],
)
def test_a_cluster_stops_what_belongs_to_it_if_it_is_paused_or_may_be(
    name: str, state: ClusterState
) -> None:
    readable = [
        _make_cluster("sound"),
        _make_cluster("paused", is_paused=True),
        _make_cluster("annotated", PAUSED),
        _make_cluster("broken"),
    ]
    unreadable = {(CLUSTERS.kind, Key("team", "broken")): "spec.paused: 7 is no boolean"}
    clusters = fill_cache(CLUSTERS, readable, unreadable)
    assert find_cluster_state(clusters, Key("team", name)) is state


def test_an_object_without_a_cluster_is_served_whether_clusters_are_or_not() -> None:
    assert find_cluster_state(None, None) is ClusterState.SERVED
    assert find_cluster_state(None, Key("team", "a")) is ClusterState.ABSENT


def test_a_label_names_a_cluster_of_the_same_namespace() -> None:
    labels = {CLUSTER_LABEL: "a"}
    labelled = IPAddress(ObjectMeta("x", namespace="team", labels=labels))
    assert find_labelled_cluster(labelled) == Key("team", "a")
    assert find_labelled_cluster(IPAddress(ObjectMeta("x", namespace="team"))) is None
