"""Clusters as a source of holdings: claims are reread when their Cluster is paused or unpaused.

Whether a claim may be served is one of its kept facts, and it depends on the Cluster of the claim.
A Cluster is no holder itself, so this source finds none. It only notes the claims of a Cluster.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from typing_extensions import override

from controller.cache import Cache, Change
from controller.meta import Key, Object
from reconcilers.promises.holdings import HolderSource
from reconcilers.promises.identities import Holder

PoolT = TypeVar("PoolT")
ClusterT = TypeVar("ClusterT", bound=Object)
ClaimT = TypeVar("ClaimT", bound=Object)


@dataclass(frozen=True, slots=True)
class ClusterPauses(HolderSource[PoolT, object], Generic[PoolT, ClusterT, ClaimT]):
    """Notes the claims of each Cluster that may have been paused or unpaused.

    Args:
        clusters: all Clusters.
        matters: returns whether a change of a Cluster may stop its claims, or end that.
        claims_of: returns the claims of a Cluster.
        pools: returns the pools that a claim concerns.
        holder: returns the holder that a claim is.
    """

    clusters: Cache[ClusterT]
    matters: Callable[[Change[ClusterT]], bool]
    claims_of: Callable[[Key], Iterable[ClaimT]]
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
            for claim in self.claims_of(cluster):
                for pool in self.pools(claim):
                    note(pool, self.holder(claim))

        def note_change(change: Change[ClusterT]) -> None:
            cluster = change.new or change.old
            if cluster is not None and self.matters(change):
                note_claims(cluster.metadata.key)

        def unsubscribe() -> None:
            self.clusters.unsubscribe(note_change)
            self.clusters.unsubscribe_unreadable(note_claims)

        self.clusters.subscribe(note_change)
        # A Cluster that cannot be decoded may be paused, so it stops its claims.
        self.clusters.subscribe_unreadable(note_claims)
        return unsubscribe
