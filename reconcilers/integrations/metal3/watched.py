"""Which changes of claims, IPAddresses, pools and Clusters enqueue what."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from controller.cache import Change
from controller.informer import Informer
from controller.meta import Key
from controller.triggers import Trigger, Watch, to_self
from reconcilers.integrations.clusterapi.api import Cluster
from reconcilers.integrations.clusterapi.watched import pause_changed, serving_changed
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.watches import metadata_changed, watch_by_key, watch_pools
from reconcilers.integrations.metal3.api import Metal3Pool
from reconcilers.integrations.metal3.caches import CLUSTER_INDEX, Metal3Caches, SideCaches
from reconcilers.integrations.metal3.sides import AddressT, ClaimT, EitherAddress
from reconcilers.spaces.announcing import OverlapAnnouncer


@dataclass(frozen=True, slots=True)
class SideInformers(Generic[ClaimT, AddressT]):
    """The informers of one kind of claims.

    Args:
        addresses: its IPAddresses.
    """

    claims: Informer[ClaimT]
    addresses: Informer[AddressT]


@dataclass(frozen=True, slots=True)
class Metal3Watches:
    """Which changes enqueue what.

    Args:
        pools: IPPools.
        sides: the kinds of claims, by the full name of the kind.
        clusters: Clusters; None where they are not served.
        gather: seconds that changes wait to be taken in by one pass over their pool.
        overlaps: announces pools whose overlaps with others have changed.
    """

    caches: Metal3Caches
    pools: Informer[Metal3Pool]
    sides: Mapping[str, SideInformers[Any, Any]]
    clusters: Informer[Cluster] | None
    gather: float
    overlaps: OverlapAnnouncer

    def of_pools(self) -> list[Trigger]:
        """Return the watches of the controller of IPPools."""
        watches: list[Trigger] = [*watch_pools(self.pools, self.overlaps, self.gather)]
        for kind, informers in self.sides.items():
            side = self.caches.sides[kind]
            watches += [
                Watch(
                    informers.claims,
                    _pools_of_claim(side),
                    None,
                    self.gather,
                    unreadable=self._pools_near,
                ),
                Watch(
                    informers.addresses,
                    self._pools_of_address(side),
                    None,
                    self.gather,
                    unreadable=self._pools_near,
                ),
            ]
        if self.clusters is not None:
            watches.append(watch_by_key(self.clusters, self._pools_of_cluster, pause_changed))
        return watches

    def of_claims(self, kind: str) -> list[Trigger]:
        """Return the watches of the controller of one kind of claims."""
        informers, side = self.sides[kind], self.caches.sides[kind]

        def claims_of_address(address: EitherAddress) -> Iterable[Key]:
            claim = side.side.claim_of_address(address)
            return () if claim is None else (claim,)

        def claims_of_pool(pool: Key) -> Iterable[Key]:
            keys = {claim.metadata.key for claim in side.claims.by_index(SPACE_INDEX, str(pool))}
            for address in side.addresses.by_index(SPACE_INDEX, str(pool)):
                keys.update(claims_of_address(address))
            return keys

        def claims_of_cluster(cluster: Key) -> Iterable[Key]:
            claims = side.claims.by_index(CLUSTER_INDEX, str(cluster))
            keys = {claim.metadata.key for claim in claims}
            for pool in self.caches.pools.by_index(CLUSTER_INDEX, str(cluster)):
                keys.update(claims_of_pool(pool.metadata.key))
            return keys

        watches: list[Trigger] = [
            Watch(
                informers.claims, to_self, _concerns_claim(side), unreadable=lambda claim: [claim]
            ),
            Watch(informers.addresses, claims_of_address, _concerns_claim_of(side)),
            watch_by_key(self.pools, claims_of_pool, serving_changed),
        ]
        if self.clusters is not None:
            watches.append(watch_by_key(self.clusters, claims_of_cluster, pause_changed))
        return watches

    def _pools_of_address(
        self, side: SideCaches[ClaimT, AddressT]
    ) -> Callable[[AddressT], Iterable[Key]]:
        return lambda address: list(side.pools_of_address(address))

    def _pools_near(self, key: Key) -> Iterable[Key]:
        """Return the pools that an object may concern that cannot be decoded."""
        keys = (pool.metadata.key for pool in self.caches.pools)
        return [pool for pool in keys if pool.namespace == key.namespace]

    def _pools_of_cluster(self, cluster: Key) -> Iterable[Key]:
        keys = {
            pool.metadata.key for pool in self.caches.pools.by_index(CLUSTER_INDEX, str(cluster))
        }
        for side in self.caches.sides.values():
            for claim in side.claims.by_index(CLUSTER_INDEX, str(cluster)):
                keys.update(_pools_of_claim(side)(claim))
        return keys


def _pools_of_claim(side: SideCaches[ClaimT, AddressT]) -> Callable[[ClaimT], Iterable[Key]]:
    def pools_of(claim: ClaimT) -> Iterable[Key]:
        pool = side.side.pool_of_claim(claim)
        return () if pool is None else (pool,)

    return pools_of


def _concerns_claim(side: SideCaches[ClaimT, AddressT]) -> Callable[[Change[ClaimT]], bool]:
    """Return a predicate: whether anything may have to be done about a claim itself.

    Not if only its status changed, unless the status named an IPAddress before.
    """

    def concerns(change: Change[ClaimT]) -> bool:
        old = change.old
        return old is None or metadata_changed(change) or bool(side.side.address_name(old))

    return concerns


def _concerns_claim_of(side: SideCaches[ClaimT, AddressT]) -> Callable[[Change[AddressT]], bool]:
    """Return a predicate: whether anything may have to be done about the claim of an IPAddress.

    Not if it was created just now for a claim that exists.
    """

    def concerns(change: Change[AddressT]) -> bool:
        new = change.new
        if new is None or change.old is not None or not side.side.is_made_for_claim(new):
            return True
        key = side.side.claim_of_address(new)
        claim = None if key is None else side.claims.get(key)
        return claim is None or claim.metadata.terminating or bool(side.side.address_name(claim))

    return concerns
