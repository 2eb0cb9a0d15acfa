"""Controllers and webhooks of the integrations; imported only if the settings name one."""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from controller.client import Client
from controller.meta import Object
from controller.resource import Resource
from controller.webhooks import Webhook
from reconcilers.api.networkpool import NetworkPool
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.platforms import WebhookMaker
from reconcilers.integrations.core.poolsource import PoolSource
from reconcilers.integrations.core.serving import IntegrationParts
from reconcilers.integrations.core.sharing import NOTHING_SHARED, IntegrationHolders
from reconcilers.integrations.registry import list_platforms
from reconcilers.networkpool.otherholders import OtherHoldings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules.verdict import Validator
from reconcilers.webhooks.admission import make_webhook
from reconcilers.webhooks.validators import ListOtherHoldings
from reconcilers.wiring.shared import Shared

T = TypeVar("T", bound=Object)


def add_integrations(shared: Shared) -> IntegrationHolders:
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
        sharing = sharing.join_with(platform.add_services(parts))
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
        make_webhook_of_kind = _make_webhook_maker(platform.validated_annotations)
        yield from platform.make_webhooks(client, spaces, make_webhook_of_kind)


def _make_webhook_maker(annotations: Mapping[str, Collection[str]]) -> WebhookMaker:
    """Return the function that makes the webhooks of a platform.

    Args:
        annotations: by the full name of a kind, annotations that are validated as its spec is.
    """

    def make(kind: Resource[T], validator: Validator[T], /) -> Webhook[bytes]:
        """Return the webhook that validates writes of a kind."""
        return make_webhook(kind, validator, annotations=annotations.get(kind.full_name, ()))

    return make


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
            holdings = holdings.join_with(await lister(client, pool))
        return holdings

    return list_others
