"""NetworkNamespaces, kept current by watches, to be shown.

NetworkConfigurations are not watched: an IPAllocation names its own.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from controller.cache import Cache
from controller.resource import Resource
from reconcilers.integrations.core.live import (
    Live,
    PlatformSource,
    WatchedResource,
    either,
    names_of,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views, Wanted
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    NETWORKS,
    NetworkNamespace,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import VitistackCaches, space_name
from reconcilers.integrations.vitistack.contents import contents_of
from reconcilers.integrations.vitistack.picture import picture_of
from reconcilers.spaces.offers import PoolName


def make_live(served_kinds: Collection[Resource[Any]], source: PlatformSource) -> Live | None:
    """Return the networks; None where they or their IPAllocations are not served."""
    if NETWORKS not in served_kinds or ALLOCATIONS not in served_kinds:
        return None
    networks = source.informer(NETWORKS, {})
    allocations = source.informer(ALLOCATIONS, {SPACE_INDEX: space_name})
    caches = VitistackCaches(networks.cache, allocations.cache, Cache(CONFIGURATIONS), provider="")

    def of_allocation(allocation: VitistackAllocation) -> Iterable[PoolName]:
        return (PoolName(NETWORKS.kind, allocation.network),)

    def itself(network: NetworkNamespace) -> Iterable[PoolName]:
        return (PoolName(NETWORKS.kind, network.metadata.key),)

    def names() -> list[PoolName]:
        return names_of(NETWORKS.kind, networks.cache)

    def make_views(is_wanted: Wanted, not_read: Sequence[NotRead]) -> Views:
        del not_read  # an IPAllocation says itself whether it waits
        return Views([picture_of(contents) for contents in contents_of(caches, is_wanted)])

    watched = [
        WatchedResource(networks, either(itself)),
        WatchedResource(allocations, either(of_allocation)),
    ]
    return Live(watched, names, make_views)
