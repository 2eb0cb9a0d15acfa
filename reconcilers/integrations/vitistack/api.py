"""Vitistack's kinds, as far as IPAM reads and writes them.

    NetworkNamespace       a network: a pool of IPv4 addresses
    NetworkConfiguration   a machine, with its network interfaces
    IPAllocation           one address of one interface: a request, with the answer in its status

Their CustomResourceDefinitions are vitistack's. This project has a kind IPAllocation with the
short name `ipa`, too. If a text could mean either, it says `ipallocations.vitistack.io`.

An *outline* is the part of an object that is decoded when the whole object cannot be decoded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.conditions import Condition
from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from reconcilers.promises.journal import AnnotatedJournal

GROUP = "vitistack.io"
FINALIZER = "vitistack.io/static-ip-finalizer"
"""Finalizer of NetworkConfigurations. vitistack's static-ip-operator uses the same name, so that
objects of that operator work unchanged."""
LABEL_NETWORK = "vitistack.io/network-namespace"
LABEL_CONFIGURATION = "vitistack.io/network-configuration"
STATIC = "static"
PROVISIONED = "Ready"
PENDING = "Pending"
ALLOCATED = "Allocated"
RELEASED = "Released"
ERROR = "Error"
DEFAULT_TTL = 3600
JOURNALS = AnnotatedJournal(f"ipallocations.{GROUP}")
"""The journals of the pools of this platform."""


@dataclass(frozen=True, slots=True)
class Static:
    """The static settings of a network: which addresses it hands out, and what machines need."""

    ipv4CIDR: str = ""
    ipv4Gateway: str = ""
    ipv4RangeStart: str = ""
    ipv4RangeEnd: str = ""
    vlanId: int = 0
    dns: tuple[str, ...] = ()
    ttlSeconds: int = DEFAULT_TTL


@dataclass(frozen=True, slots=True)
class NetworkAllocation:
    """How a network hands out addresses, and who does that."""

    type: str = ""
    provider: str = ""
    static: Static | None = None


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """The part of a NetworkNamespace that IPAM reads."""

    datacenterIdentifier: str = ""
    ipAllocation: NetworkAllocation | None = None


@dataclass(frozen=True, slots=True)
class NetworkSummary:
    """How much of a network is in use."""

    type: str = ""
    provider: str = ""
    allocatedCount: int = 0
    availableCount: int = 0
    totalCount: int = 0


@dataclass(frozen=True, slots=True)
class NetworkStatus:
    """The part of a NetworkNamespace's status that IPAM reads and writes."""

    provisioningPhase: str = ""
    ipv4Prefix: str = ""
    vlanId: int = 0
    ipAllocationSummary: NetworkSummary | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkNamespace:
    """A network; its addresses are handed out by the provider that its spec names."""

    metadata: ObjectMeta
    spec: NetworkSpec = field(default_factory=NetworkSpec)
    status: NetworkStatus = field(default_factory=NetworkStatus)


@dataclass(frozen=True, slots=True)
class VitistackAllocationSpec:
    """The network, the machine and the interface of a requested address."""

    networkNamespaceName: str = ""
    networkConfigurationName: str = ""
    interfaceName: str = ""
    requestedAddress: str = ""


@dataclass(frozen=True, slots=True)
class AllocationStatus:
    """The address of an IPAllocation, and the settings of its network for the machine."""

    phase: str = ""
    address: str = ""
    gateway: str = ""
    prefix: int = 0
    vlanId: int = 0
    dns: tuple[str, ...] = ()
    expiresAt: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class VitistackAllocation:
    """One address of one interface."""

    metadata: ObjectMeta
    spec: VitistackAllocationSpec = field(default_factory=VitistackAllocationSpec)
    status: AllocationStatus = field(default_factory=AllocationStatus)

    @property
    def network(self) -> Key:
        """The key of the network that should give the address."""
        return Key(self.metadata.namespace, self.spec.networkNamespaceName)

    @property
    def configuration(self) -> Key:
        """The key of the NetworkConfiguration, the machine that uses the address."""
        return Key(self.metadata.namespace, self.spec.networkConfigurationName)

    @property
    def holds(self) -> bool:
        """Whether it has its address: phase Allocated, and an address in the status."""
        return self.status.phase == ALLOCATED and bool(self.status.address)

    @property
    def waits(self) -> bool:
        """Whether it needs an address: it has none, and is neither released nor being deleted."""
        done = self.holds or self.status.phase == RELEASED
        return not done and not self.metadata.is_terminating

    @property
    def owner(self) -> str:
        """The uid of the NetworkConfiguration that owns it; empty if none does."""
        owners = (
            reference.uid
            for reference in self.metadata.ownerReferences
            if reference.kind == CONFIGURATIONS.kind
            and reference.apiVersion.partition("/")[0] == GROUP
        )
        return next(owners, "")


Interface = Mapping[str, Any]
"""An interface as its object has it, with the fields that IPAM does not know."""


@dataclass(frozen=True, slots=True)
class ConfigurationSpec:
    """The part of a NetworkConfiguration that IPAM reads."""

    networkNamespaceName: str = ""
    provider: str = ""
    networkInterfaces: tuple[Interface, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigurationStatus:
    """The part of a NetworkConfiguration's status that IPAM writes."""

    phase: str = ""
    status: str = ""
    message: str = ""
    created: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    networkInterfaces: tuple[Interface, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkConfiguration:
    """The network interfaces of one machine."""

    metadata: ObjectMeta
    spec: ConfigurationSpec = field(default_factory=ConfigurationSpec)
    status: ConfigurationStatus = field(default_factory=ConfigurationStatus)


@dataclass(frozen=True, slots=True)
class AllocationOutlineSpec:
    """The network and the machine of an IPAllocation that cannot be decoded completely."""

    networkNamespaceName: str
    networkConfigurationName: str = ""


@dataclass(frozen=True, slots=True)
class VitistackOutline:
    """The part of an IPAllocation that is decoded if the whole cannot be decoded.

    It has the properties that the index functions of IPAllocations use, with the same values.
    """

    metadata: ObjectMeta
    spec: AllocationOutlineSpec

    @property
    def network(self) -> Key:
        """The NetworkNamespace that the allocation names."""
        return Key(self.metadata.namespace, self.spec.networkNamespaceName)

    @property
    def configuration(self) -> Key:
        """The NetworkConfiguration that the allocation names."""
        return Key(self.metadata.namespace, self.spec.networkConfigurationName)


@dataclass(frozen=True, slots=True)
class ConfigurationOutlineSpec:
    """The network and the provider of a NetworkConfiguration, whose machine may show addresses."""

    networkNamespaceName: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationOutline:
    """The part of a NetworkConfiguration that is decoded if the whole cannot be decoded."""

    metadata: ObjectMeta
    spec: ConfigurationOutlineSpec


NETWORKS = Resource(GROUP, "v1alpha2", "NetworkNamespace", "networknamespaces", NetworkNamespace)
ALLOCATIONS = Resource(
    GROUP,
    "v1alpha2",
    "IPAllocation",
    "ipallocations",
    VitistackAllocation,
    outline=VitistackOutline,
)
CONFIGURATIONS = Resource(
    GROUP,
    "v1alpha1",
    "NetworkConfiguration",
    "networkconfigurations",
    NetworkConfiguration,
    outline=ConfigurationOutline,
)
KINDS = (NETWORKS, ALLOCATIONS, CONFIGURATIONS)
