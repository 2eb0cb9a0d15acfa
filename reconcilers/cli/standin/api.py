"""What the stand-in for MetalLB reads: all of an IPAddressPool, and what Services ask for.

The reconcilers know less of a pool, as they own less of it; a Service is the same to both.
"""

from dataclasses import dataclass, field

from controller.meta import ObjectMeta
from controller.resource import Resource
from reconcilers.api.resources import Service

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


def addresses(service: Service) -> tuple[str, ...]:
    """Return the addresses that a Service's status shows."""
    return tuple(one.ip for one in service.status.loadBalancer.ingress if one.ip)


def asks(service: Service, annotations: tuple[str, ...]) -> str:
    """Return the first of `annotations` that the Service carries; empty if none."""
    carried = service.metadata.annotations
    return next((carried[name] for name in annotations if carried.get(name)), "")


ADDRESS_POOL = Resource(GROUP, VERSION, "IPAddressPool", "ipaddresspools", AddressPool)
