"""The integrations: the one list that commands, metrics, webhooks and controllers read.

A new integration is a package with a `Platform`, and an entry in `_GROUPS`, `_SERVED` and `_load`.
The modules of an integration are imported when its platform is first used, because most commands
need few platforms or none.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from reconcilers.configuration.integrationnames import (
    CLUSTER_API,
    INTEGRATIONS,
    KUBERMATIC,
    METAL3,
    VITISTACK,
)
from reconcilers.integrations.core.platforms import Platform

_GROUPS: Mapping[str, frozenset[str]] = {
    CLUSTER_API: frozenset({"ipam.cluster.x-k8s.io", "cluster.x-k8s.io"}),
    KUBERMATIC: frozenset({"kubermatic.k8c.io"}),
    METAL3: frozenset({"ipam.metal3.io"}),
    VITISTACK: frozenset({"vitistack.io"}),
}
"""The API groups of the kinds of each integration."""
_SERVED: Mapping[str, str] = {
    CLUSTER_API: "Cluster API's pools and IPAddressClaims",
    KUBERMATIC: "KKP's IPAMPools and Clusters",
    METAL3: "metal3's IPPools and IPClaims",
    VITISTACK: "vitistack's NetworkNamespaces and IPAllocations",
}
"""The pools and requests of each integration, in words for users."""


def describe_kinds() -> str:
    """Return the pools and requests of all integrations, for a sentence of a help text."""
    *others, last = (_SERVED[name] for name in INTEGRATIONS)
    return f"{', '.join(others)}, and {last}"


def list_platforms(names: Collection[str] = INTEGRATIONS) -> list[Platform]:
    """Return the platforms of some integrations, in the order of their names.

    Args:
        names: of the integrations; by default all.
    """
    return [_load(name) for name in INTEGRATIONS if name in names]


def list_candidate_platforms(bodies: Iterable[Mapping[str, Any]]) -> list[Platform]:
    """Return the platforms that may know some of these objects, judged by their API groups alone.

    They are only candidates: an API group also has kinds that no platform reads.
    """
    return list_platforms_of_groups(
        {str(body.get("apiVersion", "")).rpartition("/")[0] for body in bodies}
    )


def list_platforms_of_groups(groups: Collection[str]) -> list[Platform]:
    """Return the platforms that have kinds in one of some API groups."""
    return list_platforms([name for name in INTEGRATIONS if not _GROUPS[name].isdisjoint(groups)])


@cache
def _load(name: str) -> Platform:
    """Return the platform of an integration; import its package at the first call."""
    if name == CLUSTER_API:
        from reconcilers.integrations.clusterapi.platform import ClusterApiPlatform

        return ClusterApiPlatform()
    if name == KUBERMATIC:
        from reconcilers.integrations.kubermatic.platform import KubermaticPlatform

        return KubermaticPlatform()
    if name == METAL3:
        from reconcilers.integrations.metal3.platform import Metal3Platform

        return Metal3Platform()
    assert name == VITISTACK, f"_load has no entry for integration {name}"
    from reconcilers.integrations.vitistack.platform import VitistackPlatform

    return VitistackPlatform()
