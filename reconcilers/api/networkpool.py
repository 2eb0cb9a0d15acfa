"""NetworkPool: a block of addresses that administrators declare and tenants draw from."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec.structs import asdict, replace

from controller.markers import ApiType, FieldSchema, with_config
from controller.meta import TracedMeta
from reconcilers.api import names, poolrules
from reconcilers.api.fields import (
    BIG_NUMBER,
    INT32_MAX,
    MODEL,
    Address,
    AddressText,
    BigNumber,
    Conditions,
    Int32,
    Int64,
    NonEmpty,
    OptionalAddressText,
    Percent,
    PositiveInt32,
    mark_cidr,
)

DEFAULT_NODES = 5
DEFAULT_LOADBALANCER = 8
MAX_RESERVED = 1024
MAX_ASSIGNMENTS = 512
MAX_KINDS = 16
"""The most kinds that a pool's status may have a revision of."""


def cap_at_int32(number: int) -> int:
    """Return a count of addresses, or the largest Int32 if it is more."""
    return min(number, INT32_MAX)


def parse_exact_count(exact_count: str | None, capped_count: int) -> int:
    """Return a count of addresses: the exact count if there is one, else the capped count.

    Args:
        exact_count: the count as text; None or malformed if the capped count is used.
        capped_count: the count in a field of 32 bits, which cannot hold more than INT32_MAX.
    """
    return (
        int(exact_count)
        if exact_count is not None and re.fullmatch(BIG_NUMBER, exact_count)
        else capped_count
    )


@with_config(MODEL)
class ReservedRange(ApiType, frozen=True):
    """Addresses that are never handed out."""

    cidr: Annotated[str, mark_cidr()]
    """A part of the block in CIDR notation, for example 10.40.0.0/28. It must lie within the
    block; otherwise the pool is not Ready and allocates nothing."""
    description: str = ""
    """Why the range is reserved, for example gateways. Shown by the commands and on the page; it
    has no effect."""


@with_config(poolrules.SPAN)
class AddressSpan(ApiType, frozen=True):
    """First and last address of a range, both included."""

    start: AddressText
    """The first address, for example 10.40.1.0."""
    end: AddressText
    """The last address, which belongs to the range."""


@with_config(MODEL)
class TenantDefaults(ApiType, frozen=True):
    """How many addresses an allocation gets that does not say."""

    nodesPerTenant: PositiveInt32 = DEFAULT_NODES
    """Number of addresses of an allocation of type nodes whose spec has no count."""
    lbPoolPerTenant: PositiveInt32 = DEFAULT_LOADBALANCER
    """Number of addresses of an allocation of type loadbalancer whose spec has no count."""


@with_config(poolrules.TENANT_ALLOCATION)
class TenantAllocation(ApiType, frozen=True):
    """Which part of the CIDR tenants draw from, and how much by default."""

    start: OptionalAddressText | None = None
    """The first address that is allocated to tenants. Deprecated: use ranges."""
    end: OptionalAddressText | None = None
    """The last address that is allocated to tenants. Deprecated: use ranges."""
    ranges: Annotated[tuple[AddressSpan, ...], FieldSchema(max_length=poolrules.MAX_RANGES)] = ()
    """The parts of the block that are allocated to tenants, sorted and without overlaps. If it is
    set, start and end have no effect."""
    defaults: TenantDefaults | None = None
    """Sizes of the allocations whose spec has no count."""


@with_config(poolrules.SECONDARY_ALLOCATION)
class SecondaryAllocation(ApiType, frozen=True):
    """Which part of the secondary CIDR tenants draw from."""

    ranges: Annotated[tuple[AddressSpan, ...], FieldSchema(max_length=poolrules.MAX_RANGES)] = ()
    """The parts of the block that are allocated to tenants, sorted and without overlaps."""


@with_config(poolrules.SECONDARY)
class SecondaryBlock(ApiType, frozen=True):
    """What a pool of two families has of the second."""

    cidr: Annotated[str, mark_cidr(poolrules.GROWS)]
    """The block of the other address family in CIDR notation, for example fd00:40::/112. It can
    grow later: a CIDR that contains the old one."""
    reserved: Annotated[tuple[ReservedRange, ...], FieldSchema(max_length=MAX_RESERVED)] = ()
    """Parts of the block that are never allocated."""
    tenantAllocation: SecondaryAllocation | None = None
    """The parts of the block that are allocated to tenants. If it is absent, tenants get addresses
    of the whole block."""


@with_config(poolrules.POOL)
class NetworkPoolSpec(ApiType, frozen=True):
    """What the administrator declares."""

    cidr: Annotated[str, mark_cidr(poolrules.GROWS)]
    """The block of addresses that this pool allocates from, in CIDR notation, for example
    10.40.0.0/21 or fd00:40::/112. All other addresses of the spec have the same family, except
    those of secondary. It can grow later: a CIDR that contains the old one."""
    reserved: Annotated[tuple[ReservedRange, ...], FieldSchema(max_length=MAX_RESERVED)] = ()
    """Parts of the block that are never allocated, for example for routers. A reserved range takes
    no address away from an allocation that has it already; the pool then reports OutOfRange."""
    tenantAllocation: TenantAllocation | None = None
    """The parts of the block that are allocated to tenants. If it is absent, tenants get addresses
    of the whole block."""
    secondary: SecondaryBlock | None = None
    """A block of the other address family, for dual-stack tenants. Allocations get addresses of it
    if their ipFamilyPolicy or ipFamilies ask for that family."""
    gateway: OptionalAddressText | None = None
    """The gateway of the network. Machines are configured with it, and it is never allocated."""
    excludeNetworkAndBroadcast: bool | None = None
    """Whether the network address and the broadcast address of an IPv4 block are never allocated,
    and the first address of an IPv6 block (the subnet-router anycast address). Absent means false.
    A block of one or two addresses has no such addresses (RFC 3021, RFC 6164)."""

    @property
    def blocks(self) -> tuple["NetworkPoolSpec", ...]:
        """A spec for each address family, so that each block can be handled alone.

        The first is this spec without `secondary`; the second, if any, is the secondary block.
        """
        second = self.secondary
        if second is None:
            return (self,)
        tenant = second.tenantAllocation
        other = NetworkPoolSpec(
            cidr=second.cidr,
            reserved=second.reserved,
            tenantAllocation=TenantAllocation(ranges=tenant.ranges) if tenant else None,
            excludeNetworkAndBroadcast=self.excludeNetworkAndBroadcast,
        )
        return replace(self, secondary=None), other

    @property
    def family(self) -> Literal[4, 6]:
        """The family of `cidr`, by its notation: a text that is no CIDR has one, too."""
        return 6 if ":" in self.cidr else 4

    def list_declared_spans(self) -> tuple[tuple[str, str], ...]:
        """Return start and end of each allocatable range, as the spec writes them.

        Empty means the whole CIDR. `ranges` replaces the deprecated `start` and `end`, of which
        one may be missing; its text is empty then.
        """
        tenant = self.tenantAllocation
        if tenant is None:
            return ()
        if tenant.ranges:
            return tuple((span.start, span.end) for span in tenant.ranges)
        return ((tenant.start or "", tenant.end or ""),) if tenant.start or tenant.end else ()

    def default_count(self, allocation_type: str) -> int:
        """Return how many addresses an allocation of a type gets if its spec has no count."""
        tenant = self.tenantAllocation
        defaults = (tenant.defaults if tenant else None) or TenantDefaults()
        is_nodes = allocation_type == names.TYPE_NODES
        return defaults.nodesPerTenant if is_nodes else defaults.lbPoolPerTenant


@with_config(MODEL)
class Assignment(ApiType, frozen=True):
    """A range promised to one request at one resourceVersion."""

    name: NonEmpty
    """Name of the request; it is in the pool's namespace."""
    uid: NonEmpty
    """The uid of the request."""
    resourceVersion: NonEmpty
    """The version of the request that the range was chosen for. The range is written to this
    version only."""
    startAddress: NonEmpty
    """First address of the range."""
    endAddress: NonEmpty
    """Last address of the range."""
    secondaryStartAddress: str | None = None
    """First address of the range of the second family; absent without a second family."""
    secondaryEndAddress: str | None = None
    """Last address of the range of the second family."""
    choice: str | None = None
    """How the range was chosen. The IPAllocation reports it in its Ready condition."""
    kind: str | None = None
    """Kind of the request as plural.group; absent for an IPAllocation."""


@with_config(MODEL)
class NamedObject(ApiType, frozen=True):
    """Name and namespace of something that uses an address."""

    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object."""


@with_config(MODEL)
class NamedNode(ApiType, frozen=True):
    """Name of a node that uses an address."""

    name: str
    """Name of the node."""


@with_config(MODEL)
class InfrastructureAllocation(ApiType, frozen=True):
    """An address of the pool that the platform itself uses. Written by others; accepted here."""

    ip: Address
    """The address that is in use."""
    source: str
    """How the use was found, for example metallb, node, static or machine. Its writer chooses the
    word."""
    serviceRef: NamedObject | None = None
    """The Service that uses the address."""
    nodeRef: NamedNode | None = None
    """The node that uses the address."""
    machineRef: NamedObject | None = None
    """The machine that uses the address."""


@with_config(MODEL)
class UnmanagedRange(ApiType, frozen=True):
    """A range of the CIDR that is neither reserved nor for tenants. Written by others."""

    start: str
    """First address."""
    end: str
    """Last address."""


@with_config(MODEL)
class ExactCounts(ApiType, frozen=True):
    """Counters of a pool that has more addresses than an integer of 32 bits counts."""

    totalIPs: BigNumber
    """Number of addresses that the pool can allocate."""
    allocatedIPs: BigNumber
    """Number of addresses that requests hold or are promised."""
    availableIPs: BigNumber
    """Number of addresses that are free."""
    largestFreeBlock: BigNumber
    """Number of addresses of the largest free range."""


class _Counted(ApiType, frozen=True):
    """The counts of addresses in a status, however large they are."""

    def _get_count(self, field: str) -> int:
        """Return a count of addresses, however large.

        Args:
            field: the name of its field, which is the same in `exactCounts`.
        """
        exact_counts = getattr(self, "exactCounts", None)  # a field of the subclasses
        return parse_exact_count(getattr(exact_counts, field, None), getattr(self, field))

    @property
    def total(self) -> int:
        """How many addresses there are to hand out."""
        return self._get_count("totalIPs")

    @property
    def allocated(self) -> int:
        """How many of them are held or promised."""
        return self._get_count("allocatedIPs")

    @property
    def available(self) -> int:
        """How many of them are free."""
        return self._get_count("availableIPs")

    @property
    def largest_free(self) -> int:
        """How many addresses the largest free block has."""
        return self._get_count("largestFreeBlock")


@with_config(MODEL)
class SecondaryCounts(_Counted, frozen=True):
    """What a pool holds of its second family."""

    totalIPs: Int32 = 0
    """Number of addresses that the pool can allocate: those in its ranges that are not reserved.
    At most 2147483647; exactCounts has larger numbers."""
    allocatedIPs: Int32 = 0
    """Number of these addresses that requests hold or are promised. At most 2147483647."""
    availableIPs: Int32 = 0
    """Number of these addresses that are free. At most 2147483647."""
    exactCounts: ExactCounts | None = None
    """The same counts as text; only present if one of them is above 2147483647."""
    fragmentationPercent: Percent | None = None
    """How scattered the free addresses are: 0 if they are one range, near 100 if they are many
    small ranges."""
    largestFreeBlock: Int32 = 0
    """Number of addresses of the largest free range: no larger request can be served. At most
    2147483647."""
    utilizationPercent: Percent | None = None
    """allocatedIPs as a percentage of totalIPs, rounded down."""


@with_config(MODEL)
class NetworkPoolStatus(_Counted, frozen=True):
    """What the pool holds, as its controller last saw it."""

    totalIPs: Int32 = 0
    """Number of addresses that the pool can allocate: those in its ranges that are not reserved.
    At most 2147483647; exactCounts has larger numbers."""
    allocatedIPs: Int32 = 0
    """Number of these addresses that requests hold or are promised. At most 2147483647."""
    availableIPs: Int32 = 0
    """Number of these addresses that are free. At most 2147483647."""
    exactCounts: ExactCounts | None = None
    """The same counts as text; only present if one of them is above 2147483647."""
    allocationCount: Int32 = 0
    """Number of IPAllocations and IPAddressClaims that hold addresses or are promised some."""
    fragmentationPercent: Percent | None = None
    """How scattered the free addresses are: 0 if they are one range, near 100 if they are many
    small ranges."""
    largestFreeBlock: Int32 = 0
    """Number of addresses of the largest free range: no larger request can be served. At most
    2147483647."""
    utilizationPercent: Percent | None = None
    """allocatedIPs as a percentage of totalIPs, rounded down."""
    secondary: SecondaryCounts | None = None
    """The counts of spec.secondary; the counts above are those of spec.cidr."""
    observedGeneration: Int64 = 0
    """The metadata.generation of the spec that this status describes."""
    conditions: Conditions = ()
    """Ready, CapacityWarning, CapacityCritical, CapacityExhausted and others."""
    assignments: Annotated[
        tuple[Assignment, ...],
        FieldSchema(
            max_length=MAX_ASSIGNMENTS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
        ),
    ] = ()
    """The journal: ranges that are promised to requests and perhaps not written to them yet. Never
    edit it."""
    revisions: Annotated[dict[str, str], FieldSchema(max_length=MAX_KINDS)] = msgspec.field(
        default_factory=dict
    )
    """For each kind of request, as plural.group: the resourceVersion up to which a controller must
    have read the requests before it allocates. Empty if that is not known. Never edit it."""
    journalOf: str = ""
    """The uid of the pool that assignments and revisions belong to, and their checksum. If one of
    them differs, the journal counts as lost, and the controller voids earlier promises before it
    allocates. Never edit it."""
    infrastructureAllocations: Annotated[
        tuple[InfrastructureAllocation, ...],
        FieldSchema(
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["ip"],
            }
        ),
    ] = ()
    """Addresses of the block that the platform itself uses. Written by another controller; they
    reserve nothing."""
    infrastructureConsumedIPs: Int32 | None = None
    """Number of infrastructureAllocations. Written by another controller."""
    poolSizeIPs: Int32 | None = None
    """Number of all addresses of the CIDR. Written by another controller."""
    reservedIPs: Int32 | None = None
    """Number of addresses in reserved ranges. Written by another controller."""
    unmanagedRanges: tuple[UnmanagedRange, ...] = ()
    """Ranges of the CIDR that are neither reserved nor for tenants. Written by another
    controller."""
    unmanagedScopeIPs: Int32 | None = None
    """Number of addresses in unmanagedRanges. Written by another controller."""

    @property
    def fullest(self) -> _Counted:
        """The counts of the family with the largest share of held addresses.

        The events about the pool's utilization report it. A family without addresses counts as
        empty.
        """
        families = [self, *([self.secondary] if self.secondary is not None else [])]
        return max(
            families, key=lambda counts: counts.allocated / counts.total if counts.total else 0.0
        )


@with_config(MODEL)
class NetworkPool(ApiType, frozen=True):
    """A block of IP addresses available to tenant clusters."""

    metadata: TracedMeta
    spec: NetworkPoolSpec
    """The addresses of the pool, as the administrator declares them."""
    status: NetworkPoolStatus = msgspec.field(default_factory=NetworkPoolStatus)
    """How many addresses are allocated, and whether the pool works."""

    @property
    def blocks(self) -> tuple["NetworkPool", ...]:
        """A pool for each address family, to count and to draw the families one by one.

        The second, if any, has the secondary block as its spec and its counts as its status.
        """
        if self.spec.secondary is None:
            return (self,)
        counts = self.status.secondary or SecondaryCounts()
        status = replace(self.status, secondary=None, **asdict(counts))
        first, second = self.spec.blocks
        return replace(self, spec=first), replace(self, spec=second, status=status)
