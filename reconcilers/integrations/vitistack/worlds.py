"""Vitistack's objects, read once, as reconcilers read them."""

from collections.abc import Mapping
from typing import Any

from reconcilers.integrations.core.contents import SPACE_INDEX
from reconcilers.integrations.core.objects import Objects, is_of
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    NETWORKS,
    PROVISIONED,
)
from reconcilers.integrations.vitistack.world import (
    CONFIGURATION_INDEX,
    NAMESPACE_INDEX,
    World,
    configuration_name,
    namespace_of,
    space_name,
)


def world_of(objects: Objects) -> World:
    """Return the caches of what was read."""
    by_namespace = {NAMESPACE_INDEX: namespace_of}
    indexes = {SPACE_INDEX: space_name, CONFIGURATION_INDEX: configuration_name}
    return World(
        objects.cache(NETWORKS, indexes=by_namespace),
        objects.cache(ALLOCATIONS, indexes=indexes),
        objects.cache(CONFIGURATIONS, indexes=by_namespace),
        provider="",
    )


def filled(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest as vitistack leaves it: each NetworkNamespace is provisioned."""
    status = dict(body.get("status") or {})
    if not is_of(body, [NETWORKS]) or status.get("provisioningPhase"):
        return body
    return {**body, "status": {**status, "provisioningPhase": PROVISIONED}}
