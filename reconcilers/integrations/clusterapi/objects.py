"""Cluster API's objects as a command reads them: from a cluster once, or from manifests."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

import msgspec

from controller.cache import Cache
from controller.client import Client
from controller.finalizers import remove_finalizer
from controller.meta import Key, ObjectMeta, Version
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import Cluster, IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    CLUSTER_INDEX,
    ClaimCaches,
    cluster_index,
    space_of,
)
from reconcilers.integrations.core.objects import (
    SPACE_INDEX,
    decode_failure,
    fill_cache,
    stamped_metadata,
)
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists

UNREADABLE = "it cannot be decoded"
"""The reason where nobody shows it."""
_INDEXES = {SPACE_INDEX: space_of, CLUSTER_INDEX: cluster_index}


@dataclass(frozen=True, slots=True)
class Objects:
    """Everything of the integration that there is.

    Args:
        claims: IPAddressClaims.
        addresses: IPAddresses.
        clusters: Clusters; None where they may not be read.
        pools: pools by kind.
        unreadable: objects that could not be decoded, by kind and key, with the reason.
        bodies: the manifests that they were read from, by kind and key.
        not_read: the kinds, or kinds of other namespaces, that the user may not read.
    """

    claims: list[IPAddressClaim] = field(default_factory=list)
    addresses: list[IPAddress] = field(default_factory=list)
    clusters: list[Cluster] | None = None
    pools: dict[str, list[Any]] = field(default_factory=dict)
    unreadable: dict[tuple[str, Key], str] = field(default_factory=dict)
    bodies: dict[tuple[str, Key], dict[str, Any]] = field(default_factory=dict)
    not_read: Sequence[NotRead] = ()

    def caches(
        self, networkpools: Iterable[NetworkPool], unreadable_pools: Collection[Key] = ()
    ) -> ClaimCaches:
        """Return them as reconcilers read them.

        Args:
            networkpools: which claims may name, too.
            unreadable_pools: the NetworkPools that could not be decoded.
        """
        unreadable = {(NETWORK_POOL.kind, key): UNREADABLE for key in unreadable_pools}
        version = api.CONTRACT_VERSIONS[0]

        def cache(kind: Resource[Any], objects: Iterable[Any], **more: Any) -> Cache[Any]:
            return fill_cache(kind, objects, self.unreadable, **more)

        pools: Mapping[str, Cache[Any]] = {
            kind.kind: cache(kind, self.pools.get(kind.kind, ())) for kind in api.POOLS
        }
        return ClaimCaches(
            cache(api.claims(version), self.claims, indexes=_INDEXES),
            cache(api.addresses(version), self.addresses, indexes=_INDEXES),
            None if self.clusters is None else cache(api.clusters(version), self.clusters),
            {**pools, NETWORK_POOL.kind: fill_cache(NETWORK_POOL, networkpools, unreadable)},
            api.claims(version),
            api.addresses(version),
        )


async def read(lists: ScopedLists) -> Objects:
    """Read all of them as far as they may be read; none if claims or IPAddresses are not served.

    Args:
        lists: for the lists.

    Raises:
        ControllerError: the cluster did not answer, or refused.
    """
    unreadable: dict[tuple[str, Key], str] = {}

    async def find_served(versions: Iterable[Resource[Any]]) -> Resource[Any] | None:
        for resource in versions:
            if await lists.client.is_served(resource):
                return resource
        return None

    async def list_kind(resource: Resource[Any] | None) -> list[Any] | None:
        """Return the objects of a kind; None if the user may not read them."""
        if resource is None:
            return []
        page = await lists.list_allowed(resource)
        if page is None:
            return None
        for key, reason in page.unreadable.items():
            unreadable[resource.kind, key] = reason
        return list(page.items)

    address_kind = await find_served(map(api.addresses, api.CONTRACT_VERSIONS))
    claim_kind = await find_served(map(api.claims, api.CONTRACT_VERSIONS))
    if address_kind is None or claim_kind is None:
        return Objects()
    # IPAddresses first: the claim of each was there before it.
    addresses = await list_kind(address_kind)
    claims = await list_kind(claim_kind)
    clusters = await list_kind(await find_served(map(api.clusters, api.CONTRACT_VERSIONS)))
    pools = {kind.kind: await list_kind(await find_served([kind])) or [] for kind in api.POOLS}
    return Objects(
        claims or [],
        addresses or [],
        clusters,
        pools,
        unreadable,
        not_read=lists.not_read,
    )


async def remove(client: Client, kind: str, at: Version) -> None:
    """Delete a claim or an IPAddress that a person wants deleted; an IPAddress is let go, too.

    No controller removes the finalizer of an IPAddress without a claim. One that has a claim is
    created again with its address.

    Args:
        client: for the requests.
        kind: of the object.
        at: which one, and as it was when the person saw it.

    Raises:
        Conflict: it changed since.
        NotFound: it is gone already.
        ControllerError: a request failed.
    """
    for version in api.CONTRACT_VERSIONS:
        resource: Resource[Any] = (
            api.claims(version) if kind == "IPAddressClaim" else api.addresses(version)
        )
        if await client.is_served(resource):
            remaining = await client.delete(resource, at)
            if remaining is not None and kind == "IPAddress":
                await remove_finalizer(client, resource, remaining, api.ADDRESS_FINALIZER)
            return


def is_known(body: Mapping[str, Any]) -> bool:
    """Return whether a manifest is of a kind that is read here."""
    return (_group(body), body.get("kind")) in _MODELS


def from_bodies(bodies: Iterable[Mapping[str, Any]], namespace: str, now: datetime) -> Objects:
    """Return the objects of manifests; what a server fills in is filled in.

    Objects without a creationTimestamp count as created now, in the order of the manifests.
    Where no Cluster is among them, those that claims name are taken to be there.

    Args:
        bodies: of kinds that are known here.
        namespace: of those that name none.
        now: the time.
    """
    objects, numbers = Objects(), count(1)
    clusters: list[Cluster] = []
    into: dict[str, list[Any]] = {
        "IPAddressClaim": objects.claims,
        "IPAddress": objects.addresses,
        "Cluster": clusters,
    }
    for body in bodies:
        kind, number = str(body["kind"]), next(numbers)
        resource = _MODELS[_group(body), kind]
        metadata = body.get("metadata") or {}
        meta = stamped_metadata(metadata, kind, number, now)
        meta["namespace"] = (metadata.get("namespace") or namespace) if resource.namespaced else ""
        key = Key(meta["namespace"], str(meta.get("name", "")))
        try:
            typed = msgspec.convert({**body, "metadata": meta}, resource.type)
        except msgspec.ValidationError as error:
            objects.unreadable[kind, key] = decode_failure(resource, body, meta, error)
        else:
            into.setdefault(kind, objects.pools.setdefault(kind, [])).append(typed)
            placed = {**metadata, "namespace": key.namespace} if resource.namespaced else metadata
            objects.bodies[kind, key] = {**body, "metadata": placed}
    cluster_keys = {claim.cluster for claim in objects.claims if claim.cluster is not None}
    known = clusters or [
        Cluster(ObjectMeta(key.name, key.namespace)) for key in sorted(cluster_keys)
    ]
    pools = {
        kind: objects_of_kind
        for kind, objects_of_kind in objects.pools.items()
        if kind not in _CONTRACT
    }
    return Objects(
        objects.claims, objects.addresses, known, pools, objects.unreadable, objects.bodies
    )


def _group(body: Mapping[str, Any]) -> str:
    return str(body.get("apiVersion", "")).rpartition("/")[0]


_CONTRACT = {"IPAddressClaim", "IPAddress", "Cluster"}
_NEWEST = api.CONTRACT_VERSIONS[0]
_KINDS: tuple[Resource[Any], ...] = (
    *(api.claims(_NEWEST), api.addresses(_NEWEST), api.clusters(_NEWEST)),
    *api.POOLS,
)
_MODELS: Mapping[tuple[str, str], Resource[Any]] = {
    (kind.group, kind.kind): kind for kind in _KINDS
}
