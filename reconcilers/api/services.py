"""Services of a tenant: the parts that say whether one wants an address, and which it has."""

import msgspec

from controller.markers import ApiType
from controller.meta import ObjectMeta
from controller.resource import Resource


class Ingress(ApiType, frozen=True):
    """One address that a load balancer gave to a Service."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(ApiType, frozen=True):
    """What a Service's load balancer reports."""

    ingress: tuple[Ingress, ...] = ()


class ServiceCondition(ApiType, frozen=True):
    """A condition of a Service, as its load balancer writes it."""

    type: str
    status: str = "Unknown"
    reason: str = ""


class ServiceStatus(ApiType, frozen=True):
    """A Service's status."""

    loadBalancer: LoadBalancerStatus = msgspec.field(default_factory=LoadBalancerStatus)
    conditions: tuple[ServiceCondition, ...] | None = None


class ServiceSpec(ApiType, frozen=True):
    """The part of a Service's spec that says whether it wants an address from us."""

    type: str = "ClusterIP"
    loadBalancerClass: str | None = None
    loadBalancerIP: str = ""
    ipFamilies: tuple[str, ...] = ()
    ipFamilyPolicy: str | None = None


LOAD_BALANCER = "LoadBalancer"
"""The type of Services that get an address."""


class Service(ApiType, frozen=True):
    """A Service in a tenant."""

    metadata: ObjectMeta
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
    status: ServiceStatus = msgspec.field(default_factory=ServiceStatus)


SERVICE = Resource("", "v1", "Service", "services", Service)
