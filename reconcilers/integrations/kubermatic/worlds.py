"""KKP's objects, read once, as reconcilers read them."""

from collections.abc import Mapping
from typing import Any

from reconcilers.integrations.core.objects import Objects, is_of
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, POOLS
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    POOL_INDEXES,
    World,
)


def world_of(objects: Objects) -> World:
    """Return the caches of what was read; clusters of any worker name count as served by none."""
    return World(
        objects.cache(POOLS, indexes=POOL_INDEXES),
        objects.cache(ALLOCATIONS, indexes=ALLOCATION_INDEXES),
        objects.cache(CLUSTERS, indexes=CLUSTER_INDEXES),
    )


def filled(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest as KKP leaves it: each Cluster gets a namespace."""
    status = dict(body.get("status") or {})
    if not is_of(body, [CLUSTERS]) or status.get("namespaceName"):
        return body
    name = (body.get("metadata") or {}).get("name", "")
    return {**body, "status": {**status, "namespaceName": f"cluster-{name}"}}
