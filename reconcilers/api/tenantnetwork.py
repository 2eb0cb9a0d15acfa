"""status.network of a TenantCluster: what its team sees of its addresses, in its own namespace."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from controller.markers import FieldSchema, with_config
from reconcilers.api.fields import MODEL, Int32

MOST_RANGES = 256
"""Ranges that are listed; the counters count the others, too."""

MOST_SERVICES = 5
"""Services that are listed of a range."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class TenantRange:
    """A range that the cluster holds."""

    allocation: str
    """The IPAllocation that holds it."""
    namespace: str
    """The namespace of the IPAllocation and of its pool."""
    pool: str
    """The NetworkPool that it is from."""
    type: str
    """nodes or loadbalancer."""
    role: str
    """initial or growth; only growth is released while the cluster lives."""
    family: str
    """IPv4 or IPv6."""
    range: str
    """The addresses: first-last."""
    releasing: bool = False
    """Whether the range is leaving the cluster."""
    services: Annotated[tuple[str, ...], FieldSchema(max_length=MOST_SERVICES)] = ()
    """Services in the cluster that have addresses of it, as namespace/name, those with the lowest
    addresses; at most 5 are listed. Brought up to date every ten minutes at most."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class TenantAddresses:
    """The addresses of one type that the cluster holds."""

    addresses: Int32 = 0
    """How many it holds of each family; at most 2147483647 are counted."""
    quota: Int32 | None = None
    """The most that it may hold, from its ProviderConfig; absent if there is no limit."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class TenantLoadBalancerAddresses:
    """The load-balancer addresses that the cluster holds, and the Services that wait for one."""

    addresses: Int32 = 0
    """How many it holds of each family; at most 2147483647 are counted."""
    quota: Int32 | None = None
    """The most that it may hold, from its ProviderConfig; absent if there is no limit."""
    servicesWaiting: Int32 | None = None
    """Services that have long been without an address; absent if they could not be read."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """Addresses that the cluster asks for and does not have."""

    type: str
    """nodes or loadbalancer."""
    role: str
    """initial or growth."""
    reason: str
    """Why it waits: the reason of the condition."""
    addresses: Int32
    """How many in a row of each family are needed; the smallest number if pools differ in it."""
    namespace: str
    """The namespace of the pools."""
    pools: tuple[str, ...] = ()
    """The NetworkPools that may serve it, in the order in which they are tried."""
    allocation: str | None = None
    """The IPAllocation that asks for them; absent if no pool had room for one."""
    since: datetime | None = None
    """Since when it waits."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class NetworkRefusal:
    """The last time that the cluster asked for addresses and was refused."""

    reason: str
    """The reason of the condition then."""
    message: str
    """What was needed, and what each pool had."""
    time: datetime | None = None
    """When the refusal began."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class TenantNetwork:
    """The cluster's addresses."""

    nodes: TenantAddresses = TenantAddresses()
    """The node addresses."""
    loadBalancer: TenantLoadBalancerAddresses = TenantLoadBalancerAddresses()
    """The load-balancer addresses."""
    ranges: Annotated[tuple[TenantRange, ...], FieldSchema(max_length=MOST_RANGES)] = ()
    """The ranges, oldest first; at most 256 are listed."""
    waiting: Annotated[tuple[WaitingRequest, ...], FieldSchema(max_length=16)] = ()
    """What the cluster waits for."""
    lastRefusal: NetworkRefusal | None = None
    """The last refusal; it stays after the request was served."""
