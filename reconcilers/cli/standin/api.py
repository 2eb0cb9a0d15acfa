"""The kinds as the stand-in for MetalLB reads them; its own view, not the reconcilers'."""

from dataclasses import dataclass, field

from controller.meta import ObjectMeta
from controller.resource import Resource

GROUP = "metallb.io"
VERSION = "v1beta1"
NAMESPACE = "metallb-system"

WANTED_POOL = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
"""Annotations of a Service that ask for a pool; the first that is there counts."""
WANTED_ADDRESSES = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")
"""Annotations of a Service that ask for addresses, separated by commas."""
ALLOCATED_FROM = "metallb.io/ip-allocated-from-pool"
"""Annotation that tells which pool a Service's address is from."""


@dataclass(frozen=True, slots=True)
class AddressPoolSpec:
    """Which addresses, and who may have them."""

    addresses: tuple[str, ...] = ()
    autoAssign: bool = True
    avoidBuggyIPs: bool = False


@dataclass(frozen=True, slots=True)
class AddressPoolStatus:
    """How many addresses are in use."""

    assignedIPv4: int = 0
    assignedIPv6: int = 0
    availableIPv4: int = 0
    availableIPv6: int = 0


@dataclass(frozen=True, slots=True)
class AddressPool:
    """An IPAddressPool."""

    metadata: ObjectMeta
    spec: AddressPoolSpec = field(default_factory=AddressPoolSpec)
    status: AddressPoolStatus | None = None


@dataclass(frozen=True, slots=True)
class Ingress:
    """One address that a Service was given."""

    ip: str = ""


@dataclass(frozen=True, slots=True)
class LoadBalancerStatus:
    """The addresses that a Service was given."""

    ingress: tuple[Ingress, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A Service's status."""

    loadBalancer: LoadBalancerStatus = field(default_factory=LoadBalancerStatus)


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """The part of a Service's spec that a load balancer reads."""

    type: str = "ClusterIP"
    loadBalancerClass: str | None = None
    loadBalancerIP: str = ""
    ipFamilies: tuple[str, ...] = ()
    ipFamilyPolicy: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A Service."""

    metadata: ObjectMeta
    spec: ServiceSpec = field(default_factory=ServiceSpec)
    status: ServiceStatus = field(default_factory=ServiceStatus)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that its status shows."""
        return tuple(one.ip for one in self.status.loadBalancer.ingress if one.ip)

    def asks(self, annotations: tuple[str, ...]) -> str:
        """Return the first of `annotations` that the Service carries; empty if none."""
        carried = self.metadata.annotations
        return next((carried[name] for name in annotations if carried.get(name)), "")


ADDRESS_POOL = Resource(GROUP, VERSION, "IPAddressPool", "ipaddresspools", AddressPool)
SERVICE = Resource("", "v1", "Service", "services", Service)
