"""What all integrations show to people: read from a cluster, or from manifests.

An integration whose kinds are not served shows nothing. What KKP and vitistack take is imported
only where there is something of them: most commands meet neither, and should not wait for it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from controller.client import Client
from controller.meta import Key, Version
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import auditing, contents, objects
from reconcilers.integrations.clusterapi.api import POOLS
from reconcilers.integrations.clusterapi.offers import offers_of as cluster_api_offers
from reconcilers.integrations.clusterapi.outcomes import outcomes as claim_outcomes
from reconcilers.integrations.clusterapi.picture import views_of_contents
from reconcilers.integrations.core.objects import Objects, from_bodies, is_of, read
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists
from reconcilers.integrations.core.views import (
    Planned,
    Views,
    merge_views,
    overlap_troubles,
)
from reconcilers.integrations.kubermatic.api import KINDS as KUBERMATIC
from reconcilers.integrations.kubermatic.api import POOLS as IPAM_POOLS
from reconcilers.integrations.metal3.api import KINDS as METAL3
from reconcilers.integrations.metal3.api import POOLS as IP_POOLS
from reconcilers.integrations.platformobjects import fill_defaults
from reconcilers.integrations.poolkinds import as_readable
from reconcilers.integrations.vitistack.api import KINDS as VITISTACK
from reconcilers.integrations.vitistack.api import NETWORKS
from reconcilers.networkpool.offers import offers_of as network_pool_offers
from reconcilers.networkpool.picture import ALL_SIZES
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from reconcilers.integrations.metal3.caches import Metal3Caches

_REMOVABLE: Mapping[str, Resource[Any]] = {resource.kind: resource for resource in KUBERMATIC} | {
    resource.full_name: resource for resource in VITISTACK
}
"""The kinds of which `check --repair` deletes objects, by the names that findings have."""
_POOL_KINDS: Mapping[Kinds, Sequence[Resource[Any]]] = {
    Kinds.NETWORK_POOLS: (NETWORK_POOL,),
    Kinds.CLUSTER_API: POOLS,
    Kinds.KUBERMATIC: (IPAM_POOLS,),
    Kinds.METAL3: (IP_POOLS,),
    Kinds.VITISTACK: (NETWORKS,),
}
"""The kinds of pools that are compared with each other."""


@dataclass(frozen=True, slots=True)
class NetworkPools:
    """The NetworkPools, which other platforms' requests may name.

    Args:
        readable: those that could be decoded.
        unreadable: the others.
        not_read: what the user may not read of them.
    """

    readable: Sequence[NetworkPool] = ()
    unreadable: Collection[Key] = ()
    not_read: Sequence[NotRead] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of each platform."""

    clusterapi: objects.Objects
    kubermatic: Objects
    vitistack: Objects
    metal3: Objects

    @property
    def not_read(self) -> Sequence[NotRead]:
        """What the user may not read of all platforms."""
        platforms = (self.clusterapi, self.kubermatic, self.vitistack, self.metal3)
        return [limit for platform in platforms for limit in platform.not_read]


async def remove(client: Client, kind: str, at: Version) -> None:
    """Delete an object of another platform that a person wants gone, as it was when seen.

    Args:
        client: for the requests.
        kind: of the object, as findings name it.
        at: which one, and its version.

    Raises:
        Conflict: it changed since.
        NotFound: it is gone already.
        ControllerError: a request failed.
    """
    if kind in _REMOVABLE:
        await client.delete(_REMOVABLE[kind], at)
    else:
        await objects.remove(client, kind, at)


def is_known(body: Mapping[str, Any]) -> bool:
    """Return whether a manifest is of a kind that some integration reads."""
    return objects.is_known(body) or is_of(body, (*KUBERMATIC, *VITISTACK, *METAL3))


async def from_cluster(
    client: Client, namespace: str, pools: NetworkPools, now: datetime
) -> Views:
    """Return the views that integrations give of a cluster, as far as the user may read it.

    Where only one namespace may be read of a platform, no figure but the total is known of its
    pools of the whole cluster: nothing tells what other namespaces hold of them.

    Args:
        client: for the lists.
        namespace: read only this one of a kind that may not be read everywhere; empty for none.
        pools: the NetworkPools.
        now: the time.

    Raises:
        ControllerError: the cluster did not answer, or refused.
    """
    lists = [ScopedLists(client, namespace) for _ in range(4)]
    platform_objects = Found(
        await objects.read(lists[0]),
        await read(lists[1], KUBERMATIC),
        await read(lists[2], VITISTACK),
        await read(lists[3], METAL3),
    )
    platform_views, spaces = [], spaces_of(platform_objects, pools)
    for platform, limited in zip(_views(platform_objects, pools, now), lists, strict=True):
        part = platform.within({"", namespace}) if namespace and limited.not_read else platform
        pictures = [as_readable(pool, limited.not_read) for pool in platform.pictures]
        platform_views.append(replace(part, pictures=pictures, not_read=limited.not_read))
    everything = _with_overlaps(merge_views(platform_views), spaces)
    if not namespace or not everything.not_read:
        return everything
    # Of pools of the whole cluster nothing is said, as above.
    here = everything.within({namespace}).troubles
    return replace(everything, troubles=here)


def from_manifests(
    bodies: Sequence[Mapping[str, Any]], namespace: str, pools: NetworkPools, now: datetime
) -> Views:
    """Return the views that integrations give of manifests of kinds that are known here.

    Args:
        bodies: the manifests.
        namespace: of those that name none.
        pools: the NetworkPools.
        now: the time.
    """
    platform_objects = _found_in(bodies, namespace, now)
    spaces = spaces_of(platform_objects, pools)
    return _with_overlaps(merge_views(_views(platform_objects, pools, now)), spaces)


def outcomes(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    namespace: str,
    pools: NetworkPools,
    now: datetime,
) -> list[Planned]:
    """Return the outcomes of the requests among manifests that waited for addresses.

    Args:
        before: the manifests.
        after: the same objects, as controllers left them, and those that these created.
        namespace: of manifests that name none.
        pools: the NetworkPools.
        now: the time.
    """
    was, became = _found_in(before, namespace, now), _found_in(after, namespace, now)
    caches = became.clusterapi.caches(pools.readable, pools.unreadable)
    planned = list(claim_outcomes(was.clusterapi.claims, caches))
    if not became.kubermatic.empty:
        from reconcilers.integrations.kubermatic import outcomes as kubermatic
        from reconcilers.integrations.kubermatic.reading import caches_of as kubermatic_caches

        of_kkp = kubermatic_caches(was.kubermatic), kubermatic_caches(became.kubermatic)
        planned += kubermatic.outcomes(*of_kkp)
    if not became.vitistack.empty:
        from reconcilers.integrations.vitistack import outcomes as vitistack
        from reconcilers.integrations.vitistack.caches import caches_of as vitistack_caches

        of_vitistack = vitistack_caches(was.vitistack), vitistack_caches(became.vitistack)
        planned += vitistack.outcomes(*of_vitistack)
    if not became.metal3.empty:
        from reconcilers.integrations.metal3 import outcomes as metal3

        planned += metal3.outcomes(_metal3_caches(was), _metal3_caches(became))
    return planned


def _metal3_caches(platform_objects: Found) -> "Metal3Caches":
    """Return caches of metal3's objects, as reconcilers have them; import modules if needed."""
    from reconcilers.integrations.metal3.contents import caches_of

    return caches_of(
        platform_objects.metal3,
        platform_objects.clusterapi.claims,
        platform_objects.clusterapi.addresses,
    )


def _found_in(bodies: Sequence[Mapping[str, Any]], namespace: str, now: datetime) -> Found:
    """Return the objects of each platform among manifests."""
    return Found(
        objects.from_bodies((body for body in bodies if objects.is_known(body)), namespace, now),
        from_bodies(bodies, KUBERMATIC, namespace, now, fill_defaults),
        from_bodies(bodies, VITISTACK, namespace, now, fill_defaults),
        from_bodies(bodies, METAL3, namespace, now, fill_defaults),
    )


def _with_overlaps(views: Views, spaces: SpaceIndex) -> Views:
    """Return views with what pools hand out, and the troubles that follow from that."""
    return replace(views, troubles=[*views.troubles, *overlap_troubles(spaces)], spaces=spaces)


def spaces_of(platform_objects: Found, pools: NetworkPools) -> SpaceIndex:
    """Return an index of the offers of pools of all kinds.

    Args:
        platform_objects: what was read of each platform.
        pools: the NetworkPools.
    """
    spaces = SpaceIndex()
    for pool in pools.readable:
        name = PoolName(NETWORK_POOL.kind, pool.metadata.key)
        spaces.put(name, network_pool_offers(pool, ALL_SIZES))
    for kind in POOLS:
        for claim_pool in platform_objects.clusterapi.pools.get(kind.kind, ()):
            name = PoolName(kind.kind, claim_pool.metadata.key)
            spaces.put(name, cluster_api_offers(kind, claim_pool))
    if ipam_pools := platform_objects.kubermatic.by_kind.get("IPAMPool"):
        from reconcilers.integrations.kubermatic import offers as kubermatic

        for ipam_pool in ipam_pools:
            name = PoolName("IPAMPool", ipam_pool.metadata.key)
            spaces.put(name, kubermatic.offers_of(ipam_pool))
    if networks := platform_objects.vitistack.by_kind.get("NetworkNamespace"):
        from reconcilers.integrations.vitistack import offers as vitistack

        for network in networks:
            name = PoolName("NetworkNamespace", network.metadata.key)
            spaces.put(name, vitistack.offers_of(network))
    _put_ip_pools(spaces, platform_objects.metal3.by_kind.get(IP_POOLS.kind, ()))
    for name in _unreadable_pools(platform_objects, pools):
        spaces.note_unreadable(name, unreadable=True)
    not_read = {limit.kind for limit in (*pools.not_read, *platform_objects.not_read)}
    for kinds, resources in _POOL_KINDS.items():
        is_read = not_read.isdisjoint(resource.full_name for resource in resources)
        spaces.settle(kinds, compared=is_read)
    return spaces


def _put_ip_pools(spaces: SpaceIndex, pools: Sequence[Any]) -> None:
    """Note what IPPools hand out; import the modules of metal3 only if needed."""
    if not pools:
        return
    from reconcilers.integrations.metal3.offers import offers_of

    for pool in pools:
        spaces.put(PoolName(IP_POOLS.kind, pool.metadata.key), offers_of(pool))


def _unreadable_pools(platform_objects: Found, pools: NetworkPools) -> Iterator[PoolName]:
    """Yield the pools that could not be decoded."""
    yield from (PoolName(NETWORK_POOL.kind, key) for key in pools.unreadable)
    kinds = {*(kind.kind for kind in POOLS), "IPAMPool", "NetworkNamespace", IP_POOLS.kind}
    for platform in (
        platform_objects.clusterapi,
        platform_objects.kubermatic,
        platform_objects.vitistack,
        platform_objects.metal3,
    ):
        yield from (PoolName(kind, key) for kind, key in platform.unreadable if kind in kinds)


def _views(platform_objects: Found, pools: NetworkPools, now: datetime) -> Sequence[Views]:
    """Return the views of each platform, in the order of `Found`."""
    return (
        _of_clusterapi(platform_objects.clusterapi, pools, now),
        _of_kubermatic(platform_objects.kubermatic),
        _of_vitistack(platform_objects.vitistack, now),
        _of_metal3(platform_objects),
    )


def _of_clusterapi(claim_objects: objects.Objects, pools: NetworkPools, now: datetime) -> Views:
    caches = claim_objects.caches(pools.readable, pools.unreadable)
    pools_held = list(contents.pools_of(caches))
    not_read = (*claim_objects.not_read, *pools.not_read)
    return replace(
        views_of_contents(pools_held, claim_objects.not_read),
        troubles=list(auditing.audit(caches, pools_held, claim_objects.unreadable, now, not_read)),
    )


def _of_kubermatic(kubermatic_objects: Objects) -> Views:
    """Return the views of Kubermatic's pools; import its modules only if needed."""
    if kubermatic_objects.empty:
        return Views()
    from reconcilers.integrations.kubermatic.auditing import audit
    from reconcilers.integrations.kubermatic.contents import contents_of
    from reconcilers.integrations.kubermatic.picture import picture_of
    from reconcilers.integrations.kubermatic.reading import caches_of

    caches = caches_of(kubermatic_objects)
    pools = list(contents_of(caches, not_read=kubermatic_objects.not_read))
    troubles = list(
        audit(caches, pools, kubermatic_objects.unreadable, kubermatic_objects.not_read)
    )
    return Views([picture_of(pool) for pool in pools], troubles)


def _of_vitistack(vitistack_objects: Objects, now: datetime) -> Views:
    """Return the views of vitistack's pools; import its modules only if needed."""
    if vitistack_objects.empty:
        return Views()
    from reconcilers.integrations.vitistack.auditing import audit
    from reconcilers.integrations.vitistack.caches import caches_of
    from reconcilers.integrations.vitistack.contents import contents_of
    from reconcilers.integrations.vitistack.picture import picture_of

    caches = caches_of(vitistack_objects)
    networks = list(contents_of(caches))
    troubles = list(
        audit(caches, networks, vitistack_objects.unreadable, now, vitistack_objects.not_read)
    )
    return Views([picture_of(network) for network in networks], troubles)


def _of_metal3(platform_objects: Found) -> Views:
    """Return the views of metal3's IPPools; import its modules only if needed."""
    if platform_objects.metal3.empty:
        return Views()
    from reconcilers.integrations.metal3.auditing import audit
    from reconcilers.integrations.metal3.contents import contents_of
    from reconcilers.integrations.metal3.picture import picture_of

    caches = _metal3_caches(platform_objects)
    pools = list(contents_of(caches))
    troubles = list(audit(caches, pools, platform_objects.metal3.unreadable))
    return Views([picture_of(pool) for pool in pools], troubles)
