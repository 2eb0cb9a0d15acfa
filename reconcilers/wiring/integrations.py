"""What the integrations add to a manager; loaded only where the settings name one of them."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from controller.client import Client
from controller.resource import Resource
from controller.webhooks import Webhook
from reconcilers.api.networkpool import NetworkPool
from reconcilers.configuration.settings import (
    CLUSTER_API,
    KUBERMATIC,
    METAL3,
    VITISTACK,
    Settings,
)
from reconcilers.integrations.clusterapi import offers as clusterapi_offers
from reconcilers.integrations.clusterapi.api import POOLS as CLUSTER_API_POOLS
from reconcilers.integrations.clusterapi.heldranges import list_holdings
from reconcilers.integrations.clusterapi.serving import ClusterApi
from reconcilers.integrations.core.poolsource import OffersOf, PoolSource
from reconcilers.integrations.core.serving import AllocatingIntegration
from reconcilers.integrations.core.sharing import Sharing
from reconcilers.integrations.kubermatic import offers as kubermatic_offers
from reconcilers.integrations.kubermatic.api import POOLS as IPAM_POOLS
from reconcilers.integrations.kubermatic.observing import (
    KubermaticObserver,
    list_observed_holdings,
)
from reconcilers.integrations.kubermatic.serving import Kubermatic
from reconcilers.integrations.metal3 import offers as metal3_offers
from reconcilers.integrations.metal3.api import POOLS as IP_POOLS
from reconcilers.integrations.metal3.serving import Metal3
from reconcilers.integrations.vitistack import offers as vitistack_offers
from reconcilers.integrations.vitistack.api import NETWORKS
from reconcilers.integrations.vitistack.serving import Vitistack
from reconcilers.networkpool.view import OtherHoldings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.sharing import Kinds
from reconcilers.webhooks.clusterapi import cluster_api_webhooks
from reconcilers.webhooks.kubermatic import kubermatic_webhooks
from reconcilers.webhooks.metal3 import metal3_webhooks
from reconcilers.webhooks.validators import ListOtherHoldings
from reconcilers.wiring.shared import Shared

POOL_OFFERS: Sequence[tuple[str, Kinds, Sequence[Resource[Any]], OffersOf]] = (
    (CLUSTER_API, Kinds.CLUSTER_API, CLUSTER_API_POOLS, clusterapi_offers.offers_of),
    (
        KUBERMATIC,
        Kinds.KUBERMATIC,
        [IPAM_POOLS],
        lambda _, pool: kubermatic_offers.offers_of(pool),
    ),
    (METAL3, Kinds.METAL3, [IP_POOLS], lambda _, pool: metal3_offers.offers_of(pool)),
    (VITISTACK, Kinds.VITISTACK, [NETWORKS], lambda _, pool: vitistack_offers.offers_of(pool)),
)
"""By integration: the kinds of pools in words, the kinds, and what a pool hands out."""


def add_integrations(shared: Shared) -> Sharing:
    """Add the services of the integrations; return what they hold of NetworkPools.

    Args:
        shared: what every part is given.
    """
    settings = shared.settings
    _add_pool_sources(shared)
    observer = cluster_api = None
    if KUBERMATIC in settings.integration and settings.kubermatic.observe:
        observer = _kubermatic_observer(shared)
    if CLUSTER_API in settings.integration:
        cluster_api = _cluster_api(shared)
    if KUBERMATIC in settings.integration and not settings.kubermatic.observe:
        _add_allocating(shared, Kubermatic)
    if METAL3 in settings.integration:
        _add_allocating(shared, Metal3)
    if VITISTACK in settings.integration:
        _add_allocating(shared, Vitistack)
    return Sharing(
        [integration for integration in (observer, cluster_api) if integration is not None],
        claims=None if cluster_api is None else cluster_api.claims,
        observed=None if observer is None else observer.holders,
    )


def _add_allocating(shared: Shared, integration: type[AllocatingIntegration | Metal3]) -> None:
    integration(
        shared.manager,
        shared.recorder,
        shared.clock,
        shared.settings,
        spaces=shared.spaces,
        overlaps=shared.overlaps,
    )


def _add_pool_sources(shared: Shared) -> None:
    """Add the services that read what the pools of the integrations hand out."""
    enabled = shared.settings.integration
    for integration, kinds, resources, offers_of in POOL_OFFERS:
        if integration in enabled:
            PoolSource(shared.manager, shared.clock, shared.spaces, kinds, resources, offers_of)


def integration_webhooks(
    client: Client, settings: Settings, spaces: SpaceIndex
) -> Iterator[Webhook[bytes]]:
    """Yield the webhooks of the integrations that are on.

    Args:
        client: for live reads.
        settings: which are on.
        spaces: what pools of all kinds hand out.
    """
    if CLUSTER_API in settings.integration:
        yield from cluster_api_webhooks(client, spaces)
    if KUBERMATIC in settings.integration:
        yield from kubermatic_webhooks(client, spaces)
    if METAL3 in settings.integration:
        yield from metal3_webhooks(client, spaces)


def lister_of_others(client: Client, settings: Settings) -> ListOtherHoldings:
    """Return a function that lists a NetworkPool's addresses that no IPAllocation holds.

    Args:
        client: for the lists.
        settings: which integrations are on.
    """
    listers: list[Callable[[Client, NetworkPool], Awaitable[OtherHoldings]]] = []
    if CLUSTER_API in settings.integration:
        listers.append(list_holdings)
    if KUBERMATIC in settings.integration and settings.kubermatic.observe:
        listers.append(list_observed_holdings)

    async def list_others(pool: NetworkPool) -> OtherHoldings:
        holdings = OtherHoldings()
        for lister in listers:
            holdings = holdings.joined_with(await lister(client, pool))
        return holdings

    return list_others


def _cluster_api(shared: Shared) -> ClusterApi:
    return ClusterApi(
        shared.manager,
        shared.informers.pools,
        shared.recorder,
        shared.clock,
        shared.settings,
        spaces=shared.spaces,
        overlaps=shared.overlaps,
    )


def _kubermatic_observer(shared: Shared) -> KubermaticObserver:
    return KubermaticObserver(
        shared.manager,
        shared.informers.pools,
        shared.informers.allocations,
        shared.recorder,
        shared.clock,
        spaces=shared.spaces,
        overlaps=shared.overlaps,
    )
