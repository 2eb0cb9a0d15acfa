"""The views of all integrations for commands: read from a cluster, or from manifests.

Views contain pictures of pools, troubles, and what requests hold of NetworkPools. An integration
whose kinds are not served has none. The *offers* of a pool are the addresses that it hands out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from controller.meta import Version
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.core.objects import is_of_kinds
from reconcilers.integrations.core.platforms import NetworkPools, Platform, PlatformObjects
from reconcilers.integrations.core.scopedlists import ScopedLists
from reconcilers.integrations.core.views import (
    Planned,
    Views,
    list_overlap_troubles,
    list_unreadable_troubles,
    merge_views,
)
from reconcilers.integrations.poolkinds import as_readable, list_pool_kinds
from reconcilers.integrations.registry import list_candidate_platforms, list_platforms
from reconcilers.networkpool.offers import make_offers as network_pool_offers
from reconcilers.networkpool.picture import ALL_SIZES
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from controller.client import Client


async def remove(client: "Client", kind: str, at: Version) -> None:
    """Delete an object of another platform that a person wants deleted, unless it has changed.

    Args:
        kind: the kind of the object, as findings name it.
        at: the object, and its version when the person saw it.

    Raises:
        Conflict: the object changed since.
        NotFound: it was deleted already.
        ControllerError: a request failed.
    """
    platform = next(platform for platform in list_platforms() if kind in platform.removable)
    await platform.remove(client, kind, at)


def is_known(body: Mapping[str, Any]) -> bool:
    """Return whether a manifest is of a kind that some integration reads."""
    return any(is_of_kinds(body, platform.kinds) for platform in list_candidate_platforms([body]))


async def from_cluster(
    client: "Client", namespace: str, pools: NetworkPools, now: datetime
) -> Views:
    """Return the views of all integrations of a cluster, as far as the user may read it.

    If the user may read only one namespace of a platform, only the total of the platform's
    cluster-scoped pools is known: objects of other namespaces may hold their addresses.

    Args:
        namespace: the namespace to read of a kind that may not be read everywhere; empty for none.
        pools: the NetworkPools, which objects of other platforms may name.
        now: the time.

    Raises:
        ControllerError: a request failed, other than a LIST that is forbidden to the user.
    """
    platforms = list_platforms()
    lists = {platform.name: ScopedLists(client, namespace) for platform in platforms}
    by_platform = {
        platform.name: await platform.read(lists[platform.name]) for platform in platforms
    }
    all_objects = PlatformObjects(by_platform, pools, now)
    platform_views, spaces = [], index_offers(all_objects)
    for platform in platforms:
        views, limits = _make_views(platform, all_objects), lists[platform.name].not_read
        # If one kind could be read in that namespace only, the other kinds are limited to it, too,
        # so that all views of the platform agree.
        views = views.select_namespaces({"", namespace}) if namespace and limits else views
        # Claims of one platform may hold addresses of pools of another.
        pictures = [as_readable(pool, all_objects.not_read) for pool in views.pictures]
        platform_views.append(replace(views, pictures=pictures, not_read=limits))
    everything = _add_overlaps(merge_views(platform_views), spaces)
    if not namespace or not everything.not_read:
        return everything
    # Troubles of cluster-scoped pools are left out: objects that were not read may matter to them.
    return replace(everything, troubles=everything.select_namespaces({namespace}).troubles)


def from_manifests(
    bodies: Sequence[Mapping[str, Any]], namespace: str, pools: NetworkPools, now: datetime
) -> Views:
    """Return the views of all integrations of manifests.

    Args:
        bodies: manifests of kinds that some integration reads.
        namespace: the namespace of manifests that name none.
        pools: the NetworkPools, which objects of other platforms may name.
        now: the time.
    """
    all_objects = _group_by_platform(bodies, namespace, pools=pools, now=now)
    platforms = list_platforms(all_objects.by_platform)
    views = merge_views(_make_views(platform, all_objects) for platform in platforms)
    return _add_overlaps(views, index_offers(all_objects))


def list_outcomes(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    namespace: str,
    pools: NetworkPools,
    now: datetime,
) -> list[Planned]:
    """Return the outcome of each request that waited for addresses before the controllers ran.

    Args:
        before: the manifests before the controllers ran.
        after: all objects after the controllers ran, with those that the controllers created.
        namespace: the namespace of manifests that name none.
        pools: the NetworkPools after the controllers ran.
        now: the time.
    """
    objects_before = _group_by_platform(before, namespace, pools=pools, now=now)
    objects_after = _group_by_platform(after, namespace, pools=pools, now=now)
    return [
        planned
        for platform in list_platforms(objects_after.by_platform)
        if not objects_after.get_objects(platform.name).is_empty
        for planned in platform.list_outcomes(objects_before, objects_after)
    ]


def _make_views(platform: Platform, all_objects: PlatformObjects) -> Views:
    """Return the views of a platform, with a trouble for each object that cannot be decoded."""
    objects = all_objects.get_objects(platform.name)
    if objects.is_empty:
        return Views()
    views = platform.build_views(all_objects)
    return replace(
        views, troubles=[*list_unreadable_troubles(objects.unreadable), *views.troubles]
    )


def _group_by_platform(
    bodies: Sequence[Mapping[str, Any]], namespace: str, pools: NetworkPools, now: datetime
) -> PlatformObjects:
    """Return the objects among manifests, by platform."""
    by_platform = {
        platform.name: platform.from_manifests(bodies, namespace, now)
        for platform in list_candidate_platforms(bodies)
    }
    return PlatformObjects(by_platform, pools, now)


def _add_overlaps(views: Views, spaces: SpaceIndex) -> Views:
    """Return views with the index of offers, and a trouble for each overlap of pools."""
    return replace(
        views, troubles=[*views.troubles, *list_overlap_troubles(spaces)], spaces=spaces
    )


def index_offers(all_objects: PlatformObjects) -> SpaceIndex:
    """Return an index of the offers of pools of all kinds.

    The index also notes pools that cannot be decoded, and kinds of pools that the user may not
    read, because overlaps with these pools are unknown.
    """
    spaces, networkpools = SpaceIndex(), all_objects.networkpools
    for networkpool in networkpools.readable:
        name = PoolName(NETWORK_POOL.kind, networkpool.metadata.key)
        spaces.put(name, network_pool_offers(networkpool, ALL_SIZES))
    platforms = list_platforms(all_objects.by_platform)
    for platform in platforms:
        for kind in platform.pools:
            for pool in all_objects.get_objects(platform.name).by_kind.get(kind.kind, ()):
                name = PoolName(kind.kind, pool.metadata.key)
                spaces.put(name, platform.list_offers(kind, pool))
    for name in _list_unreadable_pools(all_objects):
        spaces.note_unreadable(name, unreadable=True)
    # The kinds that the user may not read, or may read in one namespace only.
    limited_kinds = {limit.kind for limit in (*networkpools.not_read, *all_objects.not_read)}
    spaces.settle(Kinds.NETWORK_POOLS, compared=NETWORK_POOL.full_name not in limited_kinds)
    incomplete = {
        platform.compared_kinds
        for platform in platforms
        if not limited_kinds.isdisjoint(kind.full_name for kind in platform.pools)
    }
    for kinds in Kinds:
        if kinds is not Kinds.NETWORK_POOLS:
            spaces.settle(kinds, compared=kinds not in incomplete)
    return spaces


def _list_unreadable_pools(all_objects: PlatformObjects) -> Iterator[PoolName]:
    """Yield the pools that could not be decoded."""
    yield from (PoolName(NETWORK_POOL.kind, key) for key in all_objects.networkpools.unreadable)
    unreadable = [
        identity for objects in all_objects.by_platform.values() for identity in objects.unreadable
    ]
    if unreadable:
        kinds = {kind.kind for kind in list_pool_kinds()}
        yield from (PoolName(kind, key) for kind, key in unreadable if kind in kinds)
