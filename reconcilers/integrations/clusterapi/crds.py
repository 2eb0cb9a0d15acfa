"""CustomResourceDefinitions of the four kinds of pools, for clusters that do not have them.

If the in-cluster provider's definitions are installed, they are used unchanged. They differ from
these in two points: their status has no conditions, and they have no validation rules.
"""

from collections.abc import Iterator

from controller.scaffold.definitions import Column
from controller.scaffold.schemas import Schema
from reconcilers.api.crd import CrdKind, build_crd
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
"""The kinds of pools, labelled for `clusterctl move`. It looks only at kinds with the first label,
and moves objects of kinds with the second label."""


def build_pool_crds() -> Iterator[Schema]:
    """Yield the CustomResourceDefinition of each kind of pool."""
    yield from map(build_crd, KINDS)
