"""Services of a tenant: the parts that say whether one wants an address, and which it has."""

from dataclasses import dataclass, field

from controller.meta import ObjectMeta
from controller.resource import Resource


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


SERVICE = Resource("", "v1", "Service", "services", Service)
