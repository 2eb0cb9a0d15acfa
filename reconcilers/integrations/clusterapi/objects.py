"""Cluster API's objects as a command reads them: from a cluster once, or from manifests."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from controller.client import Client
from controller.finalizers import remove_finalizer
from controller.meta import Key, Object, ObjectMeta, Version
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import ADDRESSES, CLAIMS, CLUSTERS, KINDS, Cluster
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    list_cluster_names,
    list_spaces,
)
from reconcilers.integrations.clusterapi.clusterpauses import CLUSTER_INDEX
from reconcilers.integrations.core.objects import SPACE_INDEX, ObjectsByKind, fill_cache
from reconcilers.integrations.core.objects import decode_bodies as decode_bodies_of_kinds
from reconcilers.integrations.core.scopedlists import ScopedLists

UNREADABLE = "it cannot be decoded"
"""The reason for NetworkPools that cannot be decoded. It is not shown to users."""
_INDEXES = {SPACE_INDEX: list_spaces, CLUSTER_INDEX: list_cluster_names}


def fill_caches(
    objects: ObjectsByKind,
    networkpools: Iterable[NetworkPool] = (),
    unreadable_pools: Collection[Key] = (),
) -> ClaimCaches:
    """Return caches with these objects, as reconcilers read them.

    Args:
        objects: the objects of Cluster API's kinds. Without an entry for Clusters, because the
            user may not read them, the caches treat the kind Cluster as not served.
        networkpools: the NetworkPools, because claims can name them.
        unreadable_pools: the NetworkPools that could not be decoded.
    """
    unreadable = {(NETWORK_POOL.kind, key): UNREADABLE for key in unreadable_pools}
    return ClaimCaches(
        objects.build_cache(CLAIMS, indexes=_INDEXES),
        objects.build_cache(ADDRESSES, indexes=_INDEXES),
        clusters=objects.build_cache(CLUSTERS) if CLUSTERS.kind in objects.by_kind else None,
        pools={
            **{kind.kind: objects.build_cache(kind) for kind in api.POOLS},
            NETWORK_POOL.kind: fill_cache(NETWORK_POOL, networkpools, unreadable),
        },
        claim_kind=CLAIMS,
        address_kind=ADDRESSES,
    )


async def read_objects(lists: ScopedLists) -> ObjectsByKind:
    """Read all objects that the user may read; none if claims or IPAddresses are not served.

    The result names the kinds that the user may not read.

    Args:
        lists: sends the LISTs, in the namespaces that the user may read.

    Raises:
        ControllerError: a request failed, other than a LIST that is forbidden to the user.
    """
    objects = ObjectsByKind()

    async def find_served(versions: Iterable[Resource[Object]]) -> Resource[Object] | None:
        """Return the first version of a kind that is served; None if no version is served."""
        for resource in versions:
            if await lists.client.is_served(resource):
                return resource
        return None

    async def list_kind(resource: Resource[Object] | None, kind: str) -> None:
        """Add the objects of a kind; leave the kind out if the user may not read it.

        Args:
            resource: the served version of the kind; None if the kind is not served. Then it has
                no objects, and gets an empty list.
            kind: the name of the kind.
        """
        if resource is None:
            objects.by_kind[kind] = []
            return
        page = await lists.list_allowed(resource)
        if page is not None:
            objects.by_kind[kind] = list(page.items)
            for key, reason in page.unreadable.items():
                objects.unreadable[kind, key] = reason

    versions = api.CONTRACT_VERSIONS
    address_kind = await find_served(map(api.get_address_kind, versions))
    claim_kind = await find_served(map(api.get_claim_kind, versions))
    if address_kind is None or claim_kind is None:
        return ObjectsByKind()
    # IPAddresses first: each is created after its claim, so the later LIST of claims has the
    # claim. In the other order a new IPAddress would seem to have no claim.
    await list_kind(address_kind, ADDRESSES.kind)
    await list_kind(claim_kind, CLAIMS.kind)
    await list_kind(await find_served(map(api.get_cluster_kind, versions)), CLUSTERS.kind)
    for kind in api.POOLS:
        await list_kind(await find_served([kind]), kind.kind)
    return replace(objects, not_read=lists.not_read)


async def remove(client: Client, kind: str, at: Version) -> None:
    """Delete a claim or an IPAddress that a person wants deleted.

    From an IPAddress our finalizer is removed as well, because no controller removes it from an
    IPAddress without a claim. If it has a claim, a controller recreates it with its address.

    Args:
        kind: "IPAddressClaim" or "IPAddress".
        at: the object, and its version when the person saw it.

    Raises:
        Conflict: the object changed since.
        NotFound: it was deleted already.
        ControllerError: a request failed.
    """
    for version in api.CONTRACT_VERSIONS:
        resource: Resource[Object] = (
            api.get_claim_kind(version)
            if kind == "IPAddressClaim"
            else api.get_address_kind(version)
        )
        if await client.is_served(resource):
            remaining = await client.delete(resource, at)
            if remaining is not None and kind == "IPAddress":
                await remove_finalizer(client, resource, remaining, api.ADDRESS_FINALIZER)
            return


def decode_bodies(
    bodies: Iterable[Mapping[str, Any]], namespace: str, now: datetime
) -> ObjectsByKind:
    """Return the objects of manifests, with the fields that a server fills in.

    Objects without a creationTimestamp count as created now, in the order of the manifests.
    If no manifest is a Cluster, each Cluster that a claim names counts as existing.

    Args:
        bodies: manifests; those of other kinds are ignored.
        namespace: the namespace of manifests that name none.
        now: the time.
    """
    objects = decode_bodies_of_kinds(bodies, KINDS, namespace=namespace, now=now)
    if not objects.by_kind.get(CLUSTERS.kind):
        claims = objects.by_kind.get(CLAIMS.kind, ())
        cluster_keys = {claim.cluster for claim in claims if claim.cluster is not None}
        objects.by_kind[CLUSTERS.kind] = [
            Cluster(ObjectMeta(key.name, key.namespace)) for key in sorted(cluster_keys)
        ]
    return objects
