"""What the integrations add to a manager; loaded only where the settings name one of them."""

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
from reconcilers.webhooks.admission import webhook
from reconcilers.webhooks.validators import ListOtherHoldings
from reconcilers.wiring.shared import Shared


def add_integrations(shared: Shared) -> HoldersBeside:
    """Add to the manager, for each integration, its pools as a source of spaces and its services.

    A source tells the index of spaces at once which kinds to expect. So no pool is compared
    with an index that lacks the pools of an integration which is added later.

    Args:
        shared: the manager, the caches and the settings.

    Returns:
        What the integrations hold of NetworkPools, joined; NOTHING_SHARED without integrations.
    """
    platforms = list(list_platforms(shared.settings.integration))
    for platform in platforms:
        # A source adds itself to the manager, which keeps it.
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


def integration_webhooks(
    client: Client, integrations: Collection[str], spaces: SpaceIndex
) -> Iterator[Webhook[bytes]]:
    """Yield the webhooks of some integrations.

    Args:
        client: for live reads.
        integrations: their names.
        spaces: what pools of all kinds hand out.
    """
    for platform in list_platforms(integrations):
        for kind, validator in platform.validators(client, spaces):
            yield webhook(kind, validator)


def lister_of_others(client: Client, settings: Settings) -> ListOtherHoldings:
    """Return a function that lists a NetworkPool's addresses that no IPAllocation holds.

    Args:
        client: for the lists.
        settings: which integrations are on.
    """
    platforms = list_platforms(settings.integration)
    listers = [
        lister for platform in platforms if (lister := platform.find_lister(settings)) is not None
    ]

    async def list_others(pool: NetworkPool) -> OtherHoldings:
        holdings = OtherHoldings()
        for lister in listers:
            holdings = holdings.joined_with(await lister(client, pool))
        return holdings

    return list_others
