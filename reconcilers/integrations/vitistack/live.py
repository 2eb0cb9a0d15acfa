"""Keep the views of NetworkNamespaces current by watches.

NetworkConfigurations are not watched: views show only their names, which IPAllocations have.
"""

from collections.abc import Collection, Sequence
from functools import partial

from controller.cache import Cache
from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.core.live import (
    LivePlatform,
    PlatformSource,
    list_pool_names,
    watch_holders,
    watch_pools,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views, Wanted
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    NETWORKS,
)
from reconcilers.integrations.vitistack.caches import VitistackCaches, list_space_names
from reconcilers.integrations.vitistack.contents import list_contents
from reconcilers.integrations.vitistack.picture import make_picture


def make_live_platform(
    served_kinds: Collection[Resource[Object]], source: PlatformSource
) -> LivePlatform | None:
    """Return the live views of networks.

    Returns:
        None if NetworkNamespaces or IPAllocations are not served.
    """
    if NETWORKS not in served_kinds or ALLOCATIONS not in served_kinds:
        return None
    networks = source.make_informer(NETWORKS, {})
    allocations = source.make_informer(ALLOCATIONS, {SPACE_INDEX: list_space_names})
    caches = VitistackCaches(
        networks.cache,
        allocations.cache,
        Cache(CONFIGURATIONS),
        provider="",
        are_all_providers_ours=True,
    )

    def make_views(is_wanted: Wanted, not_read: Sequence[NotRead]) -> Views:
        """Return the pictures of the wanted networks."""
        # Other platforms leave out requests whose address may be in an object that the user may
        # not read. Here the status of an IPAllocation has its address.
        del not_read
        return Views([make_picture(contents) for contents in list_contents(caches, is_wanted)])

    watched = [
        watch_pools(networks),
        watch_holders(allocations, NETWORKS.kind, lambda allocation: allocation.network),
    ]
    return LivePlatform(
        watched, partial(list_pool_names, NETWORKS.kind, networks.cache), make_views
    )
