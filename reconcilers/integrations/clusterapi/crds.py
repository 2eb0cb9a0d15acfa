"""CustomResourceDefinitions of the four kinds of pools, for clusters that do not have them.

Where the in-cluster provider's are installed they are used as they are: they differ from these in
the status, which has no conditions there, and have no rules.
"""

from collections.abc import Iterator

from controller.scaffold.definitions import Column
from controller.scaffold.schemas import Schema
from reconcilers.api.crd import CrdKind, definition
from reconcilers.integrations.clusterapi.api import (
    GROUP,
    MOVE_HIERARCHY_LABEL,
    POOL_VERSION,
    POOLS,
    PROVIDER,
    PROVIDER_LABEL,
)

_COUNTS = (
    Column("Total", "integer", ".status.ipAddresses.total"),
    Column("Free", "integer", ".status.ipAddresses.free"),
    Column("Used", "integer", ".status.ipAddresses.used"),
    Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
    Column("Out of range", "integer", ".status.ipAddresses.outOfRange", wide=True),
    Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', wide=True),
    Column("Age", "date", ".metadata.creationTimestamp"),
)
_LISTED = {
    "InClusterIPPool": Column("Addresses", "string", ".spec.addresses"),
    "GlobalInClusterIPPool": Column("Addresses", "string", ".spec.addresses"),
    "InClusterPrefixPool": Column("Prefixes", "string", ".spec.prefixes"),
    "GlobalInClusterPrefixPool": Column("Prefixes", "string", ".spec.prefixes"),
}


KINDS: tuple[CrdKind, ...] = tuple(
    CrdKind(
        resource.type,
        resource.plural,
        short="",
        columns=(_LISTED[resource.kind], *_COUNTS),
        group=GROUP,
        version=POOL_VERSION,
        namespaced=resource.namespaced,
        categories=("cluster-api",),
        labels={
            "clusterctl.cluster.x-k8s.io": "",
            MOVE_HIERARCHY_LABEL: "",
            PROVIDER_LABEL: PROVIDER,
        },
    )
    for resource in POOLS
)
"""The kinds of pools. By their labels `clusterctl move` takes their objects along: it looks only
at kinds that have the first one."""


def crds() -> Iterator[Schema]:
    """Yield the CustomResourceDefinition of each kind of pool."""
    yield from map(definition, KINDS)
