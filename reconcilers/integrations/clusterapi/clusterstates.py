"""Whether a Cluster lets its claims and IPAddresses be served, or stops them."""

from enum import Enum, auto

from controller.cache import Cache, Change
from controller.meta import Key, Object
from reconcilers.integrations.clusterapi.api import CLUSTER_LABEL, Cluster


class ClusterState(Enum):
    """What the Cluster of an object means for the object."""

    SERVED = auto()
    """The object has no Cluster, or the Cluster is not paused."""
    PAUSED = auto()
    """The Cluster is paused."""
    ABSENT = auto()
    """The Cluster does not exist, or its kind is not served."""
    UNREADABLE = auto()
    """The Cluster cannot be decoded. It exists, and may be paused."""


def find_cluster_state(clusters: Cache[Cluster] | None, key: Key | None) -> ClusterState:
    """Return the state of the Cluster of an object.

    Args:
        clusters: all Clusters; None where the kind is not served.
        key: of the Cluster; None for an object without Cluster.
    """
    if key is None:
        return ClusterState.SERVED
    if clusters is not None and key in clusters.unreadable:
        return ClusterState.UNREADABLE
    cluster = clusters.get(key) if clusters is not None else None
    if cluster is None:
        return ClusterState.ABSENT
    return ClusterState.PAUSED if cluster.is_paused else ClusterState.SERVED


def may_be_paused(clusters: Cache[Cluster] | None, key: Key | None) -> bool:
    """Return whether a Cluster is paused, or may be paused because it cannot be decoded.

    Args:
        clusters: all Clusters; None where the kind is not served.
        key: of the Cluster; None for an object without Cluster. Without Cluster, and for a Cluster
            that does not exist, the answer is False.
    """
    return find_cluster_state(clusters, key) in {ClusterState.PAUSED, ClusterState.UNREADABLE}


def has_changed_pause(change: Change[Cluster]) -> bool:
    """Return whether a Cluster was created, deleted, paused or unpaused."""
    old, new = change.old, change.new
    return old is None or new is None or old.is_paused != new.is_paused


def find_labelled_cluster(obj: Object) -> Key | None:
    """Return the Cluster that the label of an object names; None for none."""
    name = obj.metadata.labels.get(CLUSTER_LABEL)
    return Key(obj.metadata.namespace, name) if name else None
