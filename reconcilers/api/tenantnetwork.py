"""status.network of a TenantCluster: what its team sees of its addresses, in its own namespace."""

from datetime import datetime
from typing import Annotated

from controller.markers import ApiType, FieldSchema, with_config
from reconcilers.api.fields import MODEL, Int32

MOST_RANGES = 256
"""Ranges that are listed; the counters count the others, too."""

MOST_SERVICES = 5
"""Services that are listed of a range."""


@with_config(MODEL)
class TenantRange(ApiType, frozen=True):
    """A range that the cluster holds."""

    allocation: str
    """Name of the IPAllocation that has the range."""
    namespace: str
    """Namespace of the IPAllocation and of its NetworkPool."""
    pool: str
    """Name of the NetworkPool that the range comes from."""
    type: str
    """What the addresses are for: nodes or loadbalancer."""
    role: str
    """initial: the cluster keeps the range while it lives. growth: the range is released if it is
    unused."""
    family: str
    """IPv4 or IPv6."""
    range: str
    """The first and the last address, for example 10.40.1.0-10.40.1.7."""
    releasing: bool = False
    """Whether the range is being released."""
    services: Annotated[tuple[str, ...], FieldSchema(max_length=MOST_SERVICES)] = ()
    """Services of the cluster that have addresses of the range, as namespace/name. At most 5 are
    listed, those with the lowest addresses. The list is updated at most every ten minutes."""


@with_config(MODEL)
class TenantAddresses(ApiType, frozen=True):
    """The addresses of one type that the cluster holds."""

    addresses: Int32 = 0
    """Number of addresses of each family. At most 2147483647."""
    quota: Int32 | None = None
    """The most addresses that the cluster can have, from its ProviderConfig. Absent means no
    limit."""


@with_config(MODEL)
class TenantLoadBalancerAddresses(ApiType, frozen=True):
    """The load-balancer addresses that the cluster holds, and the Services that wait for one."""

    addresses: Int32 = 0
    """Number of addresses of each family. At most 2147483647."""
    quota: Int32 | None = None
    """The most addresses that the cluster can have, from its ProviderConfig. Absent means no
    limit."""
    servicesWaiting: Int32 | None = None
    """Number of Services that have had no address for long. Absent if the Services cannot be
    read."""


@with_config(MODEL)
class WaitingRequest(ApiType, frozen=True):
    """Addresses that the cluster asks for and does not have."""

    type: str
    """What the addresses are for: nodes or loadbalancer."""
    role: str
    """initial or growth."""
    reason: str
    """Why the cluster waits: the reason of its condition."""
    addresses: Int32
    """Number of consecutive addresses of each family that are needed. If pools differ in it, the
    smallest number."""
    namespace: str
    """Namespace of the NetworkPools."""
    pools: tuple[str, ...] = ()
    """Names of the NetworkPools that can serve the request, in the order in which they are
    tried."""
    allocation: str | None = None
    """Name of the IPAllocation that requests the addresses. Absent if no pool had room for one."""
    since: datetime | None = None
    """When the wait began."""


@with_config(MODEL)
class NetworkRefusal(ApiType, frozen=True):
    """The last time that the cluster asked for addresses and was refused."""

    reason: str
    """The reason of the condition at that time."""
    message: str
    """How many addresses were needed, and how many each pool had."""
    time: datetime | None = None
    """When the refusal began."""


@with_config(MODEL)
class TenantNetwork(ApiType, frozen=True):
    """The cluster's addresses."""

    nodes: TenantAddresses = TenantAddresses()
    """The node addresses."""
    loadBalancer: TenantLoadBalancerAddresses = TenantLoadBalancerAddresses()
    """The load-balancer addresses."""
    ranges: Annotated[tuple[TenantRange, ...], FieldSchema(max_length=MOST_RANGES)] = ()
    """The ranges of the cluster, oldest first. At most 256 are listed; the counts include all."""
    waiting: Annotated[tuple[WaitingRequest, ...], FieldSchema(max_length=16)] = ()
    """Requests of the cluster that wait for addresses."""
    lastRefusal: NetworkRefusal | None = None
    """The last request that no pool could serve. It stays after the request was served."""
