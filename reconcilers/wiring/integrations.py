"""Controllers and webhooks of the integrations; imported only if the settings name one."""

from collections.abc import Collection, Iterator

from controller.client import Client
from controller.webhooks import Webhook
from reconcilers.api.networkpool import NetworkPool
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.poolsource import PoolSource
from reconcilers.integrations.core.serving import IntegrationParts
from reconcilers.integrations.core.sharing import NOTHING_SHARED, HoldersBeside
from reconcilers.integrations.registry import list_platforms
from reconcilers.networkpool.otherholders import OtherHoldings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.webhooks.admission import make_webhook
from reconcilers.webhooks.validators import ListOtherHoldings
from reconcilers.wiring.shared import Shared


def add_integrations(shared: Shared) -> HoldersBeside:
    """Add the pools and the services of each integration to the manager.

    The pools of all integrations are added first, as sources of the index of spaces, which knows
    the addresses that each pool offers. A source tells the index at once which kinds of pools to
    expect. So no pool is compared with an index that lacks the pools of a later integration.

    Args:
        shared: the manager, the caches and the settings.

    Returns:
        The holders of NetworkPools' addresses of all integrations; NOTHING_SHARED if there are no
        integrations.
    """
    platforms = list(list_platforms(shared.settings.integration))
    for platform in platforms:
        # The constructor adds the source to the manager, which keeps it.
        PoolSource(shared.manager, shared.clock, spaces=shared.spaces, platform=platform)
    parts = IntegrationParts(
        shared.manager,
        shared.informers.pools,
        allocations=shared.informers.allocations,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=shared.settings,
        spaces=shared.spaces,
        overlaps=shared.overlaps,
    )
    sharing = NOTHING_SHARED
    for platform in platforms:
        sharing = sharing.joined_with(platform.add_services(parts))
    return sharing


def make_integration_webhooks(
    client: Client, integrations: Collection[str], spaces: SpaceIndex
) -> Iterator[Webhook[bytes]]:
    """Yield the webhooks of some integrations.

    Args:
        client: for live reads.
        integrations: the names of the integrations.
        spaces: what pools of all kinds hand out.
    """
    for platform in list_platforms(integrations):
        for kind, validator in platform.validators(client, spaces):
            annotations = platform.validated_annotations.get(kind.full_name, ())
            yield make_webhook(kind, validator, annotations=annotations)


def make_lister_of_others(client: Client, settings: Settings) -> ListOtherHoldings:
    """Return a function that lists the holders of a NetworkPool's addresses in the integrations.

    Args:
        client: for live lists.
        settings: which integrations are on.
    """
    platforms = list_platforms(settings.integration)
    listers = [
        lister for platform in platforms if (lister := platform.find_lister(settings)) is not None
    ]

    async def list_others(pool: NetworkPool) -> OtherHoldings:
        """Return the holders of a NetworkPool's addresses in all integrations, read live."""
        holdings = OtherHoldings()
        for lister in listers:
            holdings = holdings.joined_with(await lister(client, pool))
        return holdings

    return list_others
