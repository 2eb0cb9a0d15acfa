"""Which changes of claims, IPAddresses, Clusters and pools enqueue passes over pools or claims.

Predicates drop changes that cannot alter the result of a pass. Most events come from our own
writes, and would cause passes that do nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from controller.cache import Change
from controller.informer import Informer
from controller.meta import Key, Object
from controller.resource import Resource
from controller.triggers import Trigger, Watch, to_self
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.answers import find_controlling_claim, is_made_for_claim
from reconcilers.integrations.clusterapi.api import Cluster, IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    ClaimPool,
    ServedPool,
    can_name,
    list_named_pools,
)
from reconcilers.integrations.clusterapi.clusterpauses import CLUSTER_INDEX
from reconcilers.integrations.clusterapi.clusterstates import has_changed_pause
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.watches import has_metadata_changed, watch_by_key, watch_pools
from reconcilers.spaces.announcing import OverlapAnnouncer

PoolInformer = Informer[api.Pool] | Informer[NetworkPool]
"""Lists and watches the pools of one kind."""


@dataclass(frozen=True, slots=True)
class WatchBuilder:
    """Builds the watches of the integration: which change enqueues which pools or claims.

    Args:
        clusters: lists and watches Clusters; None where the kind is not served.
        gather: seconds that a change waits, so that one pass over a pool handles several changes.
        pools: lists and watches the pools, by kind.
        overlaps: announces pools whose overlaps with other pools have changed.
    """

    caches: ClaimCaches
    claims: Informer[IPAddressClaim]
    addresses: Informer[IPAddress]
    clusters: Informer[Cluster] | None
    gather: float
    pools: Mapping[str, PoolInformer]
    overlaps: OverlapAnnouncer

    def make_pool_watches(self, pools: Informer[api.Pool]) -> list[Trigger]:
        """Return the watches of the controller of one of the in-cluster provider's kinds.

        Args:
            pools: lists and watches the pools of the kind.
        """
        own_watches = watch_pools(pools, self.overlaps, self.gather)
        return [*own_watches, *self.make_request_watches(pools.resource)]

    def make_request_watches(self, kind: Resource[ServedPool]) -> list[Trigger]:
        """Return the watches of claims, IPAddresses and Clusters for pools of one kind."""

        def list_pools_of_cluster(cluster: Key) -> Iterable[Key]:
            """Return the pools of the kind that claims of a Cluster name."""
            return {
                key
                for claim in self._list_claims_of(cluster)
                for key in list_named_pools(kind, claim)
            }

        def list_pools_of_address(address: IPAddress) -> Iterable[Key]:
            """Return the pools of the kind that an IPAddress, or the claim of its name, names."""
            # The claim of its name may name another pool. While this IPAddress exists, that pool
            # cannot create the IPAddress of the claim.
            claim = self.caches.claims.get(address.metadata.key)
            pools_of_claim = list_named_pools(kind, claim) if claim is not None else ()
            return {*list_named_pools(kind, address), *pools_of_claim}

        list_nameable_pools = partial(self._list_nameable_pools, kind)
        watches: list[Trigger] = [
            Watch(
                self.claims,
                partial(list_named_pools, kind),
                delay=self.gather,
                unreadable=list_nameable_pools,
            ),
            Watch(
                self.addresses,
                list_pools_of_address,
                delay=self.gather,
                unreadable=list_nameable_pools,
            ),
        ]
        if self.clusters is not None:
            watches.append(watch_by_key(self.clusters, list_pools_of_cluster, has_changed_pause))
        return watches

    def make_claim_watches(self) -> list[Trigger]:
        """Return the watches of the IPAddressClaim controller, which map changes to claim keys."""

        def list_claims_of_address(address: IPAddress) -> Iterable[Key]:
            """Return the claims of an IPAddress: by its name, its claimRef and its owner."""
            meta, owner = address.metadata, find_controlling_claim(address)
            names = {meta.name, address.spec.claimRef.name, owner.name if owner else meta.name}
            return [Key(meta.namespace, name) for name in names if name]

        def list_claims_of_cluster(cluster: Key) -> Iterable[Key]:
            """Return the claims of a Cluster, and the keys of IPAddresses with its label.

            An IPAddress has the key of its claim, which may no longer exist.
            """
            addresses = self.caches.addresses.list_by_index(CLUSTER_INDEX, str(cluster))
            return collect_keys(self._list_claims_of(cluster), addresses)

        def list_claims_of_pool(kind: Resource[ServedPool], pool: Key) -> Iterable[Key]:
            """Return the claims that name a pool, and the keys of IPAddresses that name it."""
            space = str(ClaimPool(kind, pool))
            claims = self.caches.claims.list_by_index(SPACE_INDEX, space)
            return collect_keys(claims, self.caches.addresses.list_by_index(SPACE_INDEX, space))

        watches: list[Trigger] = [
            Watch(self.claims, to_self, needs_claim_pass, unreadable=lambda claim: [claim]),
            Watch(
                self.addresses,
                list_claims_of_address,
                self._may_need_repair,
                unreadable=lambda address: [address],
            ),
            *(
                watch_by_key(
                    informer, partial(list_claims_of_pool, informer.resource), has_changed_serving
                )
                for informer in self.pools.values()
            ),
        ]
        if self.clusters is not None:
            watches.append(watch_by_key(self.clusters, list_claims_of_cluster, has_changed_pause))
        return watches

    def _may_need_repair(self, change: Change[IPAddress]) -> bool:
        """Return whether an IPAddress may have to be repaired or released after a change.

        That is so after each update and deletion. An IPAddress that was just created for an
        existing claim is complete, so it needs no pass.
        """
        address = change.new
        if address is None or change.old is not None or not is_made_for_claim(address):
            return True
        claim = self.caches.claims.get(address.metadata.key)
        return claim is None or claim.metadata.is_terminating

    def _list_nameable_pools(self, kind: Resource[ServedPool], key: Key) -> Iterable[Key]:
        """Return the pools of a kind that an undecodable claim or IPAddress may name.

        Args:
            key: the key of the claim or IPAddress, whose namespace limits the pools.
        """
        pools = (pool.metadata.key for pool in self.caches.pools[kind.kind])
        return [pool for pool in pools if can_name(kind, key.namespace, pool)]

    def _list_claims_of(self, cluster: Key) -> Iterable[IPAddressClaim]:
        """Return the claims of a Cluster."""
        return self.caches.claims.list_by_index(CLUSTER_INDEX, str(cluster))


def collect_keys(*collections: Iterable[Object]) -> set[Key]:
    """Return the keys of objects, each once."""
    return {obj.metadata.key for objects in collections for obj in objects}


def needs_claim_pass(change: Change[IPAddressClaim]) -> bool:
    """Return whether a change of a claim needs a pass over the claim.

    A change of the status alone needs a pass only if the claim lost the record of its address. The
    addition of our finalizer needs no other pass: the pass that adds the finalizer goes on.
    """
    old, new = change.old, change.new
    if old is None or new is None or has_metadata_changed(change, api.CLAIM_FINALIZER):
        return True
    return read_record(old) is not None and read_record(new) is None


def has_changed_serving(change: Change[Object]) -> bool:
    """Return whether a change of a pool needs passes over its claims.

    It does if the pool was created, recreated or deleted, is being deleted now, was paused or
    unpaused, or has another spec.
    """
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return (
        old.metadata.uid != new.metadata.uid
        or old.metadata.generation != new.metadata.generation
        or old.metadata.is_terminating != new.metadata.is_terminating
        or api.is_paused(old.metadata.annotations) != api.is_paused(new.metadata.annotations)
    )
