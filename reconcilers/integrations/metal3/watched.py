"""Enqueue pools and claims when claims, IPAddresses, pools or Clusters change."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from controller.cache import Change
from controller.informer import Informer
from controller.meta import Key
from controller.triggers import Trigger, Watch, to_self
from reconcilers.integrations.clusterapi.api import Cluster, IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.clusterpauses import CLUSTER_INDEX
from reconcilers.integrations.clusterapi.clusterstates import has_changed_pause
from reconcilers.integrations.clusterapi.watched import has_changed_serving
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.watches import has_metadata_changed, watch_by_key, watch_pools
from reconcilers.integrations.metal3.api import Metal3Address, Metal3Claim, Metal3Pool
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimT
from reconcilers.spaces.announcing import OverlapAnnouncer


@dataclass(frozen=True, slots=True)
class IPPoolClaimInformers(Generic[ClaimT, AddressT]):
    """The informers of one kind of claims, and the pools and claims that their changes enqueue.

    Args:
        caches: the caches of the claims and their IPAddresses.
        addresses: the IPAddresses of these claims.
    """

    caches: IPPoolClaimCaches[ClaimT, AddressT]
    claims: Informer[ClaimT]
    addresses: Informer[AddressT]

    def make_pool_watches(
        self, gather: float, list_concerned_pools: Callable[[Key], Iterable[Key]]
    ) -> Sequence[Trigger]:
        """Return the watches of claims and IPAddresses for the controller of IPPools.

        Args:
            gather: seconds that changes wait, so that one pass over their pool handles several.
            list_concerned_pools: returns the pools that an undecodable object may concern.
        """
        return (
            Watch(
                self.claims,
                self.caches.list_pools_of_claim,
                delay=gather,
                unreadable=list_concerned_pools,
            ),
            Watch(
                self.addresses,
                self.caches.list_pools_of_address,
                delay=gather,
                unreadable=list_concerned_pools,
            ),
        )

    def make_claim_watches(self) -> Sequence[Trigger]:
        """Return the watches of claims and IPAddresses for the controller of the claims."""
        return (
            Watch(self.claims, to_self, self._needs_pass, unreadable=lambda claim: [claim]),
            Watch(self.addresses, self._list_claims_of_address, self._needs_pass_over_claim),
        )

    def list_claims_of_pool(self, pool: Key) -> set[Key]:
        """Return the claims that name a pool, and the claims that its IPAddresses name."""
        keys = {
            claim.metadata.key
            for claim in self.caches.claims.list_by_index(SPACE_INDEX, str(pool))
        }
        for address in self.caches.addresses.list_by_index(SPACE_INDEX, str(pool)):
            keys.update(self._list_claims_of_address(address))
        return keys

    def list_claims_of_cluster(self, cluster: Key) -> set[Key]:
        """Return the claims that are for a Cluster."""
        claims = self.caches.claims.list_by_index(CLUSTER_INDEX, str(cluster))
        return {claim.metadata.key for claim in claims}

    def list_pools_of_cluster(self, cluster: Key) -> set[Key]:
        """Return the pools that the claims for a Cluster name."""
        claims = self.caches.claims.list_by_index(CLUSTER_INDEX, str(cluster))
        return {pool for claim in claims for pool in self.caches.list_pools_of_claim(claim)}

    def _list_claims_of_address(self, address: AddressT) -> Iterable[Key]:
        """Return the claim that an IPAddress names; empty if it names none."""
        claim = self.caches.claim_format.find_claim_of_address(address)
        return () if claim is None else (claim,)

    def _needs_pass(self, change: Change[ClaimT]) -> bool:
        """Return whether a change of a claim needs a pass over the claim.

        - A new claim needs its finalizer, and changed metadata may pause or delete the claim. The
          pass that adds our finalizer serves the claim too, so our finalizer needs no pass.
        - If only the status has changed and named no IPAddress before, a pass over the pool has
          written the status: nothing is left to do.
        - If the status named an IPAddress before, another program may have changed the status,
          so it may need a correction.
        """
        old = change.old
        claim_format = self.caches.claim_format
        if old is None or has_metadata_changed(change, claim_format.claim_finalizer):
            return True
        return bool(claim_format.get_address_name(old))

    def _needs_pass_over_claim(self, change: Change[AddressT]) -> bool:
        """Return whether a change of an IPAddress needs a pass over its claim.

        Passes over pools create IPAddresses for waiting claims; such a creation needs no pass. All
        other changes need one. So does a new IPAddress whose claim is gone, is being deleted, or
        names an IPAddress already.
        """
        new = change.new
        claim_format = self.caches.claim_format
        if new is None or change.old is not None or not claim_format.is_made_for_claim(new):
            return True  # deleted, changed, or created by a person
        key = claim_format.find_claim_of_address(new)
        claim = None if key is None else self.caches.claims.get(key)
        return (
            claim is None
            or claim.metadata.is_terminating
            or bool(claim_format.get_address_name(claim))
        )


EitherInformers = (
    IPPoolClaimInformers[Metal3Claim, Metal3Address]
    | IPPoolClaimInformers[IPAddressClaim, IPAddress]
)
"""The informers of one of the two kinds of claims, where both stand in one collection."""


@dataclass(frozen=True, slots=True)
class Metal3Watches:
    """The watches of the controllers of IPPools and of claims.

    Args:
        pools: IPPools.
        claim_informers: of each kind of claims, by the full name of the kind.
        clusters: Clusters; None where they are not served.
        gather: seconds to gather changes before one pass over their pool.
        overlaps: announces pools whose overlaps with others have changed.
    """

    pools: Informer[Metal3Pool]
    claim_informers: Mapping[str, EitherInformers]
    clusters: Informer[Cluster] | None
    gather: float
    overlaps: OverlapAnnouncer

    def make_pool_watches(self) -> list[Trigger]:
        """Return the watches of the controller of IPPools."""
        watches: list[Trigger] = [*watch_pools(self.pools, self.overlaps, self.gather)]
        for informers in self.claim_informers.values():
            watches += informers.make_pool_watches(self.gather, self._list_pools_of_namespace)
        if self.clusters is not None:
            watches.append(
                watch_by_key(self.clusters, self._list_pools_of_cluster, has_changed_pause)
            )
        return watches

    def make_claim_watches(self, kind: str) -> list[Trigger]:
        """Return the watches of the controller of one kind of claims."""
        informers = self.claim_informers[kind]

        def list_claims_of_cluster(cluster: Key) -> Iterable[Key]:
            """Return the claims for a Cluster, and the claims of its pools."""
            keys = informers.list_claims_of_cluster(cluster)
            # A paused Cluster pauses its pools, and these pause their claims.
            for pool in self.pools.cache.list_by_index(CLUSTER_INDEX, str(cluster)):
                keys.update(informers.list_claims_of_pool(pool.metadata.key))
            return keys

        watches: list[Trigger] = [
            *informers.make_claim_watches(),
            watch_by_key(self.pools, informers.list_claims_of_pool, has_changed_serving),
        ]
        if self.clusters is not None:
            watches.append(watch_by_key(self.clusters, list_claims_of_cluster, has_changed_pause))
        return watches

    def _list_pools_of_namespace(self, key: Key) -> Iterable[Key]:
        """Return the pools in the namespace of an undecodable object, which it may concern."""
        keys = (pool.metadata.key for pool in self.pools.cache)
        return [pool for pool in keys if pool.namespace == key.namespace]

    def _list_pools_of_cluster(self, cluster: Key) -> Iterable[Key]:
        """Return the pools that belong to a Cluster, and the pools that its claims name."""
        keys = {
            pool.metadata.key
            for pool in self.pools.cache.list_by_index(CLUSTER_INDEX, str(cluster))
        }
        for informers in self.claim_informers.values():
            keys |= informers.list_pools_of_cluster(cluster)
        return keys
