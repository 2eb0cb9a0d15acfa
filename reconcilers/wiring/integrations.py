"""What the integrations add to a manager; loaded only where the settings name one of them."""

from collections.abc import Iterator, Sequence
from functools import partial

from controller.client import Client
from controller.webhooks import Webhook
from reconcilers.integrations.clusterapi.heldranges import list_held_ranges
from reconcilers.integrations.clusterapi.serving import ClusterApi
from reconcilers.integrations.core.holders import AllHolders
from reconcilers.integrations.kubermatic.observing import KubermaticObserver
from reconcilers.integrations.kubermatic.serving import Kubermatic
from reconcilers.integrations.vitistack.serving import Vitistack
from reconcilers.settings import CLUSTER_API, KUBERMATIC, VITISTACK, Settings
from reconcilers.webhooks.clusterapi import cluster_api_webhooks
from reconcilers.webhooks.kubermatic import kubermatic_webhooks
from reconcilers.webhooks.validators import ListHeldRanges, list_nothing
from reconcilers.wiring.shared import Shared


def add_integrations(shared: Shared) -> Sequence[ClusterApi | KubermaticObserver]:
    """Add the services of the integrations; return those that hold addresses of NetworkPools.

    Args:
        shared: what every part is given.
    """
    settings = shared.settings
    sharing: list[ClusterApi | KubermaticObserver] = []
    if KUBERMATIC in settings.integration and settings.kubermatic.observe:
        sharing.append(_kubermatic_observer(shared))
    if CLUSTER_API in settings.integration:
        found = _cluster_api(shared)
        found.others = AllHolders([one.holders for one in sharing])
        sharing.append(found)
    if KUBERMATIC in settings.integration and not settings.kubermatic.observe:
        Kubermatic(shared.manager, shared.recorder, shared.clock, settings)
    if VITISTACK in settings.integration:
        Vitistack(shared.manager, shared.recorder, shared.clock, settings)
    return sharing


def integration_webhooks(client: Client, settings: Settings) -> Iterator[Webhook[bytes]]:
    """Yield the webhooks of the integrations that are on.

    Args:
        client: for live reads.
        settings: which are on.
    """
    if CLUSTER_API in settings.integration:
        yield from cluster_api_webhooks(client)
    if KUBERMATIC in settings.integration:
        yield from kubermatic_webhooks(client)


def lister_of_others(client: Client, settings: Settings) -> ListHeldRanges:
    """Return what lists the addresses that others than IPAllocations hold of a NetworkPool.

    Addresses that KKP allocates by itself are not among them: to reserve them, or to narrow the
    pool, is how a person keeps a NetworkPool clear of them.

    Args:
        client: for the lists.
        settings: which integrations are on.
    """
    return (
        partial(list_held_ranges, client) if CLUSTER_API in settings.integration else list_nothing
    )


def _cluster_api(shared: Shared) -> ClusterApi:
    return ClusterApi(
        shared.manager,
        shared.informers.pools,
        shared.informers.allocations,
        shared.recorder,
        shared.clock,
        shared.settings,
    )


def _kubermatic_observer(shared: Shared) -> KubermaticObserver:
    return KubermaticObserver(
        shared.manager,
        shared.informers.pools,
        shared.informers.allocations,
        shared.recorder,
        shared.clock,
    )
