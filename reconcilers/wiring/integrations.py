"""What the integrations add to a manager; loaded only where the settings name one of them."""

from collections.abc import Iterator, Sequence

from controller.client import Client
from controller.webhooks import Webhook
from reconcilers.integrations.clusterapi.serving import ClusterApi
from reconcilers.integrations.core.holders import AllHolders
from reconcilers.integrations.kubermatic.observing import KubermaticObserver
from reconcilers.integrations.kubermatic.serving import Kubermatic
from reconcilers.integrations.vitistack.serving import Vitistack
from reconcilers.settings import CLUSTER_API, KUBERMATIC, VITISTACK, Settings
from reconcilers.webhooks.clusterapi import cluster_api_webhooks
from reconcilers.webhooks.kubermatic import kubermatic_webhooks
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
