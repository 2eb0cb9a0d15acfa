"""The kinds as the framework addresses them: ours, and the few of others that we read or write."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.meta import Key, MetadataOnly, ObjectMeta, TracedMeta
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation, PoolReference, TenantReference
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import ProviderReference, TenantCluster


@dataclass(frozen=True, slots=True)
class OutlineSpec:
    """The part of an IPAllocation's spec that says which pool and TenantCluster it concerns."""

    poolRef: PoolReference
    tenantClusterRef: Any = None
    """A TenantReference; None if it cannot be decoded, so that the pool is known all the same."""

    def __post_init__(self) -> None:
        try:
            tenant = msgspec.convert(self.tenantClusterRef, TenantReference)
        except msgspec.ValidationError:
            tenant = None
        object.__setattr__(self, "tenantClusterRef", tenant)


@dataclass(frozen=True, slots=True)
class AllocationOutline:
    """The part of an IPAllocation that can be decoded where the whole cannot.

    The index functions of a cache of IPAllocations return the same values for it.
    """

    metadata: ObjectMeta
    spec: OutlineSpec

    @property
    def pool_key(self) -> Key:
        """The pool that the allocation asks."""
        return Key(self.metadata.namespace, self.spec.poolRef.name)


@dataclass(frozen=True, slots=True)
class ClusterOutlineSpec:
    """The part of a TenantCluster's spec that says which ProviderConfig it names."""

    providerConfigRef: ProviderReference | None = None


@dataclass(frozen=True, slots=True)
class ClusterOutline:
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


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret; values are base64 text."""

    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ButlerConfigSpec:
    """The platform's own settings, as far as they matter here."""

    defaultProviderConfigRef: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ButlerConfig:
    """The platform's own settings; read if the kind is served."""

    metadata: ObjectMeta
    spec: ButlerConfigSpec = field(default_factory=ButlerConfigSpec)


@dataclass(frozen=True, slots=True)
class AddressPoolSpec:
    """The spec of a MetalLB IPAddressPool; of ours, all of it is ours."""

    addresses: tuple[str, ...] = ()
    autoAssign: bool = True
    avoidBuggyIPs: bool = False
    serviceAllocation: Any = None

    @property
    def edited(self) -> tuple[str, ...]:
        """The fields other than the addresses that differ from those of our pool."""
        ours = {"autoAssign": True, "avoidBuggyIPs": False, "serviceAllocation": None}
        return tuple(name for name, value in ours.items() if getattr(self, name) != value)


@dataclass(frozen=True, slots=True)
class AddressPoolStatus:
    """How many addresses MetalLB has found in the pool; written by 0.15 and newer."""

    assignedIPv4: int = 0
    assignedIPv6: int = 0
    availableIPv4: int = 0
    availableIPv6: int = 0


@dataclass(frozen=True, slots=True)
class IPAddressPool:
    """MetalLB's IPAddressPool in a tenant."""

    metadata: TracedMeta
    spec: AddressPoolSpec = field(default_factory=AddressPoolSpec)
    status: AddressPoolStatus | None = None


@dataclass(frozen=True, slots=True)
class ConfigurationStateStatus:
    """What a part of MetalLB says about the configuration as it is stored."""

    result: str = ""
    errorSummary: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationState:
    """MetalLB's ConfigurationState; written by 0.15.3 and newer, one for each of its parts."""

    metadata: ObjectMeta
    status: ConfigurationStateStatus = field(default_factory=ConfigurationStateStatus)


@dataclass(frozen=True, slots=True)
class AdvertisementSpec:
    """The spec of a MetalLB L2Advertisement: which pools and Services it announces, and where.

    `serviceSelectors` is from MetalLB 0.16.0 on, `preferredNodeSelectors` from 0.16.2 on.
    """

    ipAddressPools: tuple[str, ...] = ()
    ipAddressPoolSelectors: tuple[Mapping[str, Any], ...] = ()
    interfaces: tuple[str, ...] = ()
    nodeSelectors: tuple[Mapping[str, Any], ...] = ()
    serviceSelectors: tuple[Mapping[str, Any], ...] = ()
    preferredNodeSelectors: tuple[Mapping[str, Any], ...] = ()

    def announces(self, pool: str) -> bool:
        """Return whether it announces `pool` by name, or all pools because it names none."""
        if self.ipAddressPools or self.ipAddressPoolSelectors:
            return pool in self.ipAddressPools
        return True


@dataclass(frozen=True, slots=True)
class L2Advertisement:
    """MetalLB's L2Advertisement in a tenant."""

    metadata: TracedMeta
    spec: AdvertisementSpec = field(default_factory=AdvertisementSpec)


@dataclass(frozen=True, slots=True)
class Ingress:
    """One address that a load balancer gave to a Service."""

    ip: str = ""
    hostname: str = ""


@dataclass(frozen=True, slots=True)
class LoadBalancerStatus:
    """What a Service's load balancer reports."""

    ingress: tuple[Ingress, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceCondition:
    """A condition of a Service, as its load balancer writes it."""

    type: str
    status: str = "Unknown"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A Service's status."""

    loadBalancer: LoadBalancerStatus = field(default_factory=LoadBalancerStatus)
    conditions: tuple[ServiceCondition, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """The part of a Service's spec that says whether it wants an address from us."""

    type: str = "ClusterIP"
    loadBalancerClass: str | None = None
    loadBalancerIP: str = ""
    ipFamilies: tuple[str, ...] = ()
    ipFamilyPolicy: str | None = None


LOAD_BALANCER = "LoadBalancer"
"""The type of Services that get an address."""


@dataclass(frozen=True, slots=True)
class Service:
    """A Service in a tenant."""

    metadata: ObjectMeta
    spec: ServiceSpec = field(default_factory=ServiceSpec)
    status: ServiceStatus = field(default_factory=ServiceStatus)


NAMESPACE = Resource("", "v1", "Namespace", "namespaces", MetadataOnly, namespaced=False)
SECRET = Resource("", "v1", "Secret", "secrets", Secret)
SERVICE = Resource("", "v1", "Service", "services", Service)
BUTLER_CONFIG = Resource(
    names.GROUP, names.VERSION, "ButlerConfig", "butlerconfigs", ButlerConfig, namespaced=False
)
TEAM = Resource(names.GROUP, names.VERSION, "Team", "teams", MetadataOnly, namespaced=False)
"""Read by name if the kind is served, to see whether a team exists."""
IP_ADDRESS_POOL = Resource(
    "metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools", IPAddressPool
)
L2_ADVERTISEMENT = Resource(
    "metallb.io", "v1beta1", "L2Advertisement", "l2advertisements", L2Advertisement
)
CONFIGURATION_STATE = Resource(
    "metallb.io", "v1beta1", "ConfigurationState", "configurationstates", ConfigurationState
)
SERVICE_BGP_STATUS = Resource(
    "metallb.io", "v1beta1", "ServiceBGPStatus", "servicebgpstatuses", MetadataOnly
)
"""Only whether the kind is served matters: it is from MetalLB 0.15 on."""
