"""The kinds of other platforms, as `plan` stores their objects on its API server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from controller.meta import Key
from controller.resource import Resource
from reconcilers.configuration.settings import CLUSTER_API, KUBERMATIC, METAL3, VITISTACK
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.objects import resource_of as find_resource
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.metal3 import api as metal3
from reconcilers.integrations.vitistack import api as vitistack

Body = Mapping[str, Any]

_NEWEST = clusterapi.CONTRACT_VERSIONS[0]
CLAIMS = clusterapi.claims(_NEWEST)
ADDRESSES = clusterapi.addresses(_NEWEST)
CLUSTERS = clusterapi.clusters(_NEWEST)
_KINDS: Mapping[str, Sequence[Resource[Any]]] = {
    CLUSTER_API: (CLAIMS, ADDRESSES, CLUSTERS, *clusterapi.POOLS),
    KUBERMATIC: kubermatic.KINDS,
    METAL3: metal3.KINDS,
    VITISTACK: vitistack.KINDS,
}
FENCED_POOLS: Sequence[Resource[Any]] = (*clusterapi.POOLS, metal3.POOLS)
"""The kinds of pools that get a journal when they are created."""
CONTENT_KINDS: Sequence[Resource[Any]] = (kubermatic.ALLOCATIONS,)
"""The kinds of objects whose spec has the addresses that they hold."""


def kinds_of(integration: str) -> Sequence[Resource[Any]]:
    """Return the kinds of a platform, each in the version that is preferred."""
    return _KINDS[integration]


def integrations_of(bodies: Sequence[Body]) -> set[str]:
    """Return the platforms of which there are objects."""
    return {
        integration
        for integration, kinds in _KINDS.items()
        if any(find_resource(body, kinds) is not None for body in bodies)
    }


def resource_of(body: Body, integrations: Sequence[str]) -> Resource[Any]:
    """Return the kind of an object of some platforms, in the version that is preferred."""
    kinds = [kind for integration in integrations for kind in _KINDS[integration]]
    resource = find_resource(body, kinds)
    assert resource is not None, "the caller has only objects of these platforms"
    return resource


def fill_defaults(body: Body) -> Body:
    """Return a manifest as other controllers of its platform leave it."""
    if find_resource(body, [kubermatic.CLUSTERS]) is not None:
        from reconcilers.integrations.kubermatic.reading import fill_defaults as by_kkp  # noqa: PLC0415 - loaded where needed

        return by_kkp(body)
    if find_resource(body, [vitistack.NETWORKS]) is not None:
        from reconcilers.integrations.vitistack.caches import fill_defaults as by_vitistack  # noqa: PLC0415 - as above

        return by_vitistack(body)
    return body


def implied_clusters(bodies: Sequence[Body]) -> Iterator[dict[str, Any]]:
    """Yield the Clusters of Cluster API that claims name, if the objects have no Cluster."""
    if any(find_resource(body, [CLUSTERS]) is not None for body in bodies):
        return
    keys: dict[Key, None] = {}
    for body in bodies:
        if find_resource(body, [CLAIMS]) is None:
            continue
        with suppress(msgspec.ValidationError):
            claim = msgspec.convert(body, CLAIMS.type)
            if claim.cluster is not None:
                keys[claim.cluster] = None
    for key in keys:
        yield {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": {}}
