"""The kinds of the management cluster as the framework addresses them: ours, and a few others."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from controller.markers import ApiType
from controller.meta import Key, MetadataOnly, ObjectMeta
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation, PoolReference, TenantReference
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import ProviderReference, TenantCluster


class OutlineSpec(ApiType, frozen=True):
    """The part of an IPAllocation's spec that says which pool and TenantCluster it concerns."""

    poolRef: PoolReference
    tenantClusterRef: Any = None
    """A TenantReference; None if it cannot be decoded, so that the pool is known all the same."""

    def __post_init__(self) -> None:
        """Decode the reference to the TenantCluster; set None if it cannot be decoded."""
        try:
            tenant = msgspec.convert(self.tenantClusterRef, TenantReference)
        except msgspec.ValidationError:
            tenant = None
        force_setattr(self, "tenantClusterRef", tenant)


class AllocationOutline(ApiType, frozen=True):
    """The part of an IPAllocation that can be decoded where the whole cannot.

    The index functions of a cache of IPAllocations return the same values for it.
    """

    metadata: ObjectMeta
    spec: OutlineSpec

    @property
    def pool_key(self) -> Key:
        """The pool that the allocation asks."""
        return Key(self.metadata.namespace, self.spec.poolRef.name)


class ClusterOutlineSpec(ApiType, frozen=True):
    """The part of a TenantCluster's spec that says which ProviderConfig it names."""

    providerConfigRef: ProviderReference | None = None


class ClusterOutline(ApiType, frozen=True):
    """The part of a TenantCluster that can be decoded where the whole cannot."""

    metadata: ObjectMeta
    spec: ClusterOutlineSpec


NETWORK_POOL = Resource(names.GROUP, names.VERSION, "NetworkPool", "networkpools", NetworkPool)
IP_ALLOCATION = Resource(
    names.GROUP,
    names.VERSION,
    "IPAllocation",
    "ipallocations",
    IPAllocation,
    outline=AllocationOutline,
)
ALLOCATION_METADATA = Resource(
    names.GROUP, names.VERSION, "IPAllocation", "ipallocations", MetadataOnly
)
"""IPAllocations of which only the metadata matters, as in a reference of an event."""
TENANT_CLUSTER = Resource(
    names.GROUP,
    names.VERSION,
    "TenantCluster",
    "tenantclusters",
    TenantCluster,
    outline=ClusterOutline,
)
PROVIDER_CONFIG = Resource(
    names.GROUP, names.VERSION, "ProviderConfig", "providerconfigs", ProviderConfig
)
OWN_KINDS: Mapping[str, Resource[Any]] = {
    resource.kind: resource
    for resource in (NETWORK_POOL, IP_ALLOCATION, TENANT_CLUSTER, PROVIDER_CONFIG)
}
"""Our kinds, by the name of the kind."""


class EncodedSecret(ApiType, frozen=True):
    """A Secret; values are base64 text."""

    metadata: ObjectMeta
    data: Mapping[str, str] = msgspec.field(default_factory=dict)


class ButlerConfigSpec(ApiType, frozen=True):
    """The platform's own settings, as far as they matter here."""

    defaultProviderConfigRef: Mapping[str, Any] | None = None


class ButlerConfig(ApiType, frozen=True):
    """The platform's own settings; read if the kind is served."""

    metadata: ObjectMeta
    spec: ButlerConfigSpec = msgspec.field(default_factory=ButlerConfigSpec)


NAMESPACE = Resource("", "v1", "Namespace", "namespaces", MetadataOnly, namespaced=False)
SECRET = Resource("", "v1", "Secret", "secrets", EncodedSecret)
BUTLER_CONFIG = Resource(
    names.GROUP, names.VERSION, "ButlerConfig", "butlerconfigs", ButlerConfig, namespaced=False
)
TEAM = Resource(names.GROUP, names.VERSION, "Team", "teams", MetadataOnly, namespaced=False)
"""Read by name if the kind is served, to see whether a team exists."""
