"""Where each kind is judged: the paths that manifests/webhook names, which are Butler's."""

from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.resource import Resource
from controller.webhooks import Webhook
from reconcilers.api import names
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.caches import Caches
from reconcilers.settings import Settings
from reconcilers.tenantcluster.provider import Providers
from reconcilers.webhooks.admission import handler
from reconcilers.webhooks.judges import (
    AllocationJudge,
    ClusterJudge,
    Judge,
    PoolJudge,
    ProviderJudge,
)


def path(resource: Resource[Any]) -> str:
    """Return where a kind is judged: `/validate-butler-butlerlabs-dev-v1alpha1-networkpool`."""
    group = names.GROUP.replace(".", "-")
    return f"/validate-{group}-{names.VERSION}-{resource.kind.lower()}"


def webhooks(
    client: Client, caches: Caches, clock: Clock, settings: Settings
) -> list[Webhook[bytes]]:
    """Return the webhooks of all four kinds.

    Args:
        client: for live reads.
        caches: what is known; current in every replica.
        clock: the readers'.
        settings: limits, and what references without a namespace mean.
    """
    pools, allocations = caches.pools, caches.allocations
    home, limit = settings.namespace, settings.pool.max_addresses
    providers = Providers(client, caches.providers, clock, home)
    return [
        _webhook(NETWORK_POOL, PoolJudge(client, pools, allocations, clock, limit)),
        _webhook(IP_ALLOCATION, AllocationJudge(client, pools, allocations, clock, limit)),
        _webhook(TENANT_CLUSTER, ClusterJudge(client, providers, pools, allocations, home)),
        _webhook(PROVIDER_CONFIG, ProviderJudge(client, caches.clusters, home)),
    ]


def _webhook(resource: Resource[Any], judge: Judge[Any]) -> Webhook[bytes]:
    return Webhook(path(resource), handler(resource, judge), bytes)
