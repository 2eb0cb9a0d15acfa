"""Vitistack's kinds, as far as IPAM reads and writes them.

Their CustomResourceDefinitions are vitistack's. Its kind IPAllocation, and the short name `ipa`,
are those of a kind of ours, too: where it matters, texts say `ipallocations.vitistack.io`.
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
"""On NetworkConfigurations; the name is static-ip-operator's, as objects outlive operators."""
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
    """What a network hands out."""

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
    """Of which network an address is wanted, and for whom."""

    networkNamespaceName: str = ""
    networkConfigurationName: str = ""
    interfaceName: str = ""
    requestedAddress: str = ""


@dataclass(frozen=True, slots=True)
class AllocationStatus:
    """The address, and what the machine has to know of its network."""

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
        """The network that it is of."""
        return Key(self.metadata.namespace, self.spec.networkNamespaceName)

    @property
    def configuration(self) -> Key:
        """The NetworkConfiguration that it is for."""
        return Key(self.metadata.namespace, self.spec.networkConfigurationName)

    @property
    def holds(self) -> bool:
        """Whether it has its address."""
        return self.status.phase == ALLOCATED and bool(self.status.address)

    @property
    def waits(self) -> bool:
        """Whether it is to be given an address."""
        done = self.holds or self.status.phase == RELEASED
        return not done and not self.metadata.terminating

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
"""An interface as it is written, with fields that IPAM does not know."""


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
    """The part of an IPAllocation's spec that says of which network it is, and for whom."""

    networkNamespaceName: str
    networkConfigurationName: str = ""


@dataclass(frozen=True, slots=True)
class VitistackOutline:
    """The part of an IPAllocation that can be decoded where the whole cannot.

    The index functions of a cache of IPAllocations return the same values for it.
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
    """The part of a NetworkConfiguration's spec that says whose addresses its machine has."""

    networkNamespaceName: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationOutline:
    """The part of a NetworkConfiguration that can be decoded where the whole cannot."""

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
