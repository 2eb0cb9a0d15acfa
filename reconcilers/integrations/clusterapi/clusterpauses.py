"""Clusters as a source of holdings: claims are reread when their Cluster is paused or unpaused.

Whether a claim may be served is one of its facts, which are kept from pass to pass. It depends on
the Cluster of the claim. A Cluster holds no address, so this source lists no holders. It only
notes the claims of a Cluster.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from typing_extensions import override

from controller.cache import Cache, Change
from controller.meta import Key, Object
from reconcilers.integrations.clusterapi.api import Cluster
from reconcilers.integrations.clusterapi.clusterstates import has_changed_pause
from reconcilers.promises.holdings import HolderSource
from reconcilers.promises.identities import Holder

CLUSTER_INDEX = "cluster"
"""The index by which caches find the objects of a Cluster."""
PoolT = TypeVar("PoolT")
ClaimT = TypeVar("ClaimT", bound=Object)


@dataclass(frozen=True, slots=True)
class ClusterPauses(HolderSource[PoolT, object], Generic[PoolT, ClaimT]):
    """Notes the claims of each Cluster that may have been paused or unpaused.

    Args:
        clusters: all Clusters.
        claims: all claims, with CLUSTER_INDEX.
        pools: returns the pools that a claim concerns.
        holder: returns the identity of a claim as a holder.
    """

    clusters: Cache[Cluster]
    claims: Cache[ClaimT]
    pools: Callable[[ClaimT], Iterable[PoolT]]
    holder: Callable[[ClaimT], Holder]

    @override
    def list_holders(self, pool: PoolT, offer: object) -> Iterable[Holder]:
        """Return nothing: the cache of claims finds all claims."""
        return ()

    @override
    def subscribe(self, note: Callable[[PoolT, Holder], None]) -> Callable[[], None]:
        """Call `note` with the claims of each Cluster that changes or cannot be decoded."""

        def note_claims(cluster: Key) -> None:
            """Call `note` with the claims of a Cluster, and the pools that they concern."""
            for claim in self.claims.list_by_index(CLUSTER_INDEX, str(cluster)):
                for pool in self.pools(claim):
                    note(pool, self.holder(claim))

        def note_change(change: Change[Cluster]) -> None:
            """Note the claims of a Cluster whose pause has changed."""
            cluster = change.new or change.old
            if cluster is not None and has_changed_pause(change):
                note_claims(cluster.metadata.key)

        def unsubscribe() -> None:
            """End the calls of `note`."""
            self.clusters.unsubscribe(note_change)
            self.clusters.unsubscribe_unreadable(note_claims)

        self.clusters.subscribe(note_change)
        # A Cluster that cannot be decoded may be paused, so it stops its claims.
        self.clusters.subscribe_unreadable(note_claims)
        return unsubscribe


def list_cluster_pauses(
    clusters: Cache[Cluster] | None,
    claims: Cache[ClaimT],
    pools: Callable[[ClaimT], Iterable[PoolT]],
    holder: Callable[[ClaimT], Holder],
) -> Sequence[ClusterPauses[PoolT, ClaimT]]:
    """Return the source of pauses of claims; empty where the kind of Clusters is not served.

    Args:
        clusters: all Clusters; None where the kind is not served.
        claims: all claims, with CLUSTER_INDEX.
        pools: returns the pools that a claim concerns, as the holdings identify them.
        holder: returns the identity of a claim as a holder.
    """
    if clusters is None:
        return ()
    return (ClusterPauses(clusters, claims, pools=pools, holder=holder),)
