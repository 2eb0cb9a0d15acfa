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
    """Return a Cluster with annotations of empty values; `is_paused` is the field of its spec."""
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
def test_the_state_of_a_cluster_says_whether_its_objects_may_be_served(
    name: str, state: ClusterState
) -> None:
    """The Cluster `broken` was readable once, and cannot be decoded now."""
    readable = [
        _make_cluster("sound"),
        _make_cluster("paused", is_paused=True),
        _make_cluster("annotated", PAUSED),
        _make_cluster("broken"),
    ]
    unreadable = {(CLUSTERS.kind, Key("team", "broken")): "spec.paused: 7 is no boolean"}
    clusters = fill_cache(CLUSTERS, readable, unreadable)
    assert find_cluster_state(clusters, Key("team", name)) is state


def test_without_a_cache_of_clusters_objects_that_name_none_are_served_and_others_are_not() -> (
    None
):
    assert find_cluster_state(None, None) is ClusterState.SERVED
    assert find_cluster_state(None, Key("team", "a")) is ClusterState.ABSENT


def test_a_label_names_a_cluster_of_the_same_namespace() -> None:
    labels = {CLUSTER_LABEL: "a"}
    labelled = IPAddress(ObjectMeta("x", namespace="team", labels=labels))
    assert find_labelled_cluster(labelled) == Key("team", "a")
    assert find_labelled_cluster(IPAddress(ObjectMeta("x", namespace="team"))) is None
