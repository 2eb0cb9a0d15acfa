"""NetworkPool: a block of addresses that administrators declare and tenants draw from."""

import re
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal

from controller.markers import FieldSchema, with_config
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
    cidr,
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
    """Return a count of addresses from its fields: the string if an Int32 is too small for it."""
    return (
        int(exact_count)
        if exact_count is not None and re.fullmatch(BIG_NUMBER, exact_count)
        else capped_count
    )


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class ReservedRange:
    """Addresses that are never handed out."""

    cidr: Annotated[str, cidr()]
    """Reserved range in CIDR notation; lies within the pool's CIDR."""
    description: str = ""
    """Why it is reserved, for people."""


@with_config(poolrules.SPAN)
@dataclass(frozen=True, slots=True)
class AddressSpan:
    """First and last address of a range, both included."""

    start: AddressText
    """First address."""
    end: AddressText
    """Last address."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class TenantDefaults:
    """How many addresses an allocation gets that does not say."""

    nodesPerTenant: PositiveInt32 = DEFAULT_NODES
    """Addresses for nodes."""
    lbPoolPerTenant: PositiveInt32 = DEFAULT_LOADBALANCER
    """Addresses for load balancers."""


@with_config(poolrules.TENANT_ALLOCATION)
@dataclass(frozen=True, slots=True)
class TenantAllocation:
    """Which part of the CIDR tenants draw from, and how much by default."""

    start: OptionalAddressText | None = None
    """First allocatable address. Deprecated: use ranges."""
    end: OptionalAddressText | None = None
    """Last allocatable address. Deprecated: use ranges."""
    ranges: Annotated[tuple[AddressSpan, ...], FieldSchema(max_length=poolrules.MAX_RANGES)] = ()
    """Allocatable ranges, sorted and disjoint. Takes precedence over start and end."""
    defaults: TenantDefaults | None = None
    """Sizes of allocations that name none."""


@with_config(poolrules.SECONDARY_ALLOCATION)
@dataclass(frozen=True, slots=True)
class SecondaryAllocation:
    """Which part of the secondary CIDR tenants draw from."""

    ranges: Annotated[tuple[AddressSpan, ...], FieldSchema(max_length=poolrules.MAX_RANGES)] = ()
    """Allocatable ranges, sorted and disjoint."""


@with_config(poolrules.SECONDARY)
@dataclass(frozen=True, slots=True)
class SecondaryBlock:
    """What a pool of two families has of the second."""

    cidr: Annotated[str, cidr(poolrules.GROWS)]
    """The block of the other family that this pool owns."""
    reserved: Annotated[tuple[ReservedRange, ...], FieldSchema(max_length=MAX_RESERVED)] = ()
    """Ranges within the block that are never handed out."""
    tenantAllocation: SecondaryAllocation | None = None
    """Restricts tenants to part of the block; the whole block if absent."""


@with_config(poolrules.POOL)
@dataclass(frozen=True, slots=True)
class NetworkPoolSpec:
    """What the administrator declares."""

    cidr: Annotated[str, cidr(poolrules.GROWS)]
    """The block this pool owns, of IPv4 or IPv6. Everything in the spec is of its family."""
    reserved: Annotated[tuple[ReservedRange, ...], FieldSchema(max_length=MAX_RESERVED)] = ()
    """Ranges within the block that are never handed out."""
    tenantAllocation: TenantAllocation | None = None
    """Restricts tenants to part of the block; the whole block if absent."""
    secondary: SecondaryBlock | None = None
    """A block of the other family, for allocations of two families."""
    gateway: OptionalAddressText | None = None
    """The gateway that machines are told. It is never handed out."""
    excludeNetworkAndBroadcast: bool | None = None
    """Never hand out the network address and the broadcast address of an IPv4 CIDR, nor the first
    address of an IPv6 CIDR (subnet-router anycast). False if absent. CIDRs of one or two addresses
    have no such addresses (RFC 3021, RFC 6164)."""

    @property
    def blocks(self) -> tuple["NetworkPoolSpec", ...]:
        """The spec, or a spec for each of its families: what is true of one block alone."""
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

    def spans(self) -> tuple[tuple[str, str], ...]:
        """Return the allocatable ranges as declared; empty means the whole CIDR."""
        tenant = self.tenantAllocation
        if tenant is None:
            return ()
        if tenant.ranges:
            return tuple((span.start, span.end) for span in tenant.ranges)
        return ((tenant.start or "", tenant.end or ""),) if tenant.start or tenant.end else ()

    def default_count(self, kind: str) -> int:
        """Return how many addresses an allocation of type `kind` gets that names no count."""
        tenant = self.tenantAllocation
        defaults = (tenant.defaults if tenant else None) or TenantDefaults()
        return defaults.nodesPerTenant if kind == names.TYPE_NODES else defaults.lbPoolPerTenant


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class Assignment:
    """A range promised to one request at one resourceVersion."""

    name: NonEmpty
    """Name of the request, in the pool's namespace."""
    uid: NonEmpty
    """Its uid."""
    resourceVersion: NonEmpty
    """The version the choice was made on, and the only one the range may be written to."""
    startAddress: NonEmpty
    """First address of the range."""
    endAddress: NonEmpty
    """Last address of the range."""
    secondaryStartAddress: str | None = None
    """First address of the range of the second family, if it was promised one."""
    secondaryEndAddress: str | None = None
    """Last address of that range."""
    choice: str | None = None
    """How the range was chosen, as the IPAllocation reports it."""
    kind: str | None = None
    """Kind of the request as plural.group; absent for an IPAllocation."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class NamedObject:
    """Name and namespace of something that uses an address."""

    name: str
    """Name."""
    namespace: str = ""
    """Namespace."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class NamedNode:
    """Name of a node that uses an address."""

    name: str
    """Name."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class InfrastructureAllocation:
    """An address of the pool that the platform itself uses. Written by others; accepted here."""

    ip: Address
    """The address."""
    source: str
    """How it was found: metallb, node, static, machine or whatever its writer calls it."""
    serviceRef: NamedObject | None = None
    """The Service that uses it."""
    nodeRef: NamedNode | None = None
    """The node that uses it."""
    machineRef: NamedObject | None = None
    """The machine that uses it."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class UnmanagedRange:
    """A range of the CIDR that is neither reserved nor for tenants. Written by others."""

    start: str
    """First address."""
    end: str
    """Last address."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class ExactCounts:
    """Counters of a pool that has more addresses than an integer of 32 bits counts."""

    totalIPs: BigNumber
    """Allocatable addresses."""
    allocatedIPs: BigNumber
    """Of these, held by or promised to allocations."""
    availableIPs: BigNumber
    """The difference."""
    largestFreeBlock: BigNumber
    """Addresses in the largest free block."""


class _Counted:
    """The counts of addresses in a status, however large they are."""

    __slots__ = ()

    def _exact(self, field: str) -> int:
        """Return a count of addresses, however large."""
        exact = getattr(self, "exactCounts", None)
        return parse_exact_count(getattr(exact, field, None), getattr(self, field))

    @property
    def total(self) -> int:
        """How many addresses there are to hand out."""
        return self._exact("totalIPs")

    @property
    def allocated(self) -> int:
        """How many of them are held or promised."""
        return self._exact("allocatedIPs")

    @property
    def available(self) -> int:
        """How many of them are free."""
        return self._exact("availableIPs")

    @property
    def largest_free(self) -> int:
        """How many addresses the largest free block has."""
        return self._exact("largestFreeBlock")


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class SecondaryCounts(_Counted):
    """What a pool holds of its second family."""

    totalIPs: Int32 = 0
    """Allocatable addresses: in the ranges, not reserved. At most 2147483647, see exactCounts."""
    allocatedIPs: Int32 = 0
    """Of these, held by or promised to allocations. At most 2147483647."""
    availableIPs: Int32 = 0
    """The difference. At most 2147483647."""
    exactCounts: ExactCounts | None = None
    """The counters as text; only if one of them is above 2147483647."""
    fragmentationPercent: Percent | None = None
    """0: the free space is one block; near 100: many small ones."""
    largestFreeBlock: Int32 = 0
    """Addresses in the largest free block. At most 2147483647."""
    utilizationPercent: Percent | None = None
    """Allocated of total, rounded down."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class NetworkPoolStatus(_Counted):
    """What the pool holds, as its controller last saw it."""

    totalIPs: Int32 = 0
    """Allocatable addresses: in the ranges, not reserved. At most 2147483647, see exactCounts."""
    allocatedIPs: Int32 = 0
    """Of these, held by or promised to allocations. At most 2147483647."""
    availableIPs: Int32 = 0
    """The difference. At most 2147483647."""
    exactCounts: ExactCounts | None = None
    """The counters as text; only if one of them is above 2147483647."""
    allocationCount: Int32 = 0
    """Allocations and claims that hold or were promised addresses."""
    fragmentationPercent: Percent | None = None
    """0: the free space is one block; near 100: many small ones."""
    largestFreeBlock: Int32 = 0
    """Addresses in the largest free block. At most 2147483647."""
    utilizationPercent: Percent | None = None
    """Allocated of total, rounded down."""
    secondary: SecondaryCounts | None = None
    """The counters of the secondary block; those above are of cidr."""
    observedGeneration: Int64 = 0
    """The generation of spec that this status describes."""
    conditions: Conditions = ()
    """Ready, CapacityWarning, CapacityCritical, CapacityExhausted and others."""
    assignments: Annotated[
        tuple[Assignment, ...],
        FieldSchema(
            max_length=MAX_ASSIGNMENTS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
        ),
    ] = ()
    """Promised ranges that are not yet known to be written. Never edit by hand."""
    revisions: Annotated[dict[str, str], FieldSchema(max_length=MAX_KINDS)] = field(
        default_factory=dict
    )
    """By kind, as plural.group: up to which resourceVersion a controller must have read its
    objects before it may hand out ranges; empty if that is not known. Never edit by hand."""
    journalOf: str = ""
    """The uid of the pool that assignments and revisions were written for, and a checksum of them.
    If either differs, they count as lost, and the controller voids earlier promises before it
    hands out ranges. Never edit by hand."""
    infrastructureAllocations: Annotated[
        tuple[InfrastructureAllocation, ...],
        FieldSchema(
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["ip"],
            }
        ),
    ] = ()
    """Addresses that the platform itself uses."""
    infrastructureConsumedIPs: Int32 | None = None
    """How many of these there are."""
    poolSizeIPs: Int32 | None = None
    """All addresses of the CIDR."""
    reservedIPs: Int32 | None = None
    """Addresses in reserved ranges."""
    unmanagedRanges: tuple[UnmanagedRange, ...] = ()
    """Ranges of the CIDR that are neither reserved nor for tenants."""
    unmanagedScopeIPs: Int32 | None = None
    """How many addresses these hold."""

    @property
    def fullest(self) -> _Counted:
        """The counts of the family of which most is held: the conditions and events go by it."""
        families = [self, *([self.secondary] if self.secondary is not None else [])]
        return max(
            families, key=lambda counts: counts.allocated / counts.total if counts.total else 0.0
        )


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class NetworkPool:
    """A block of IP addresses available to tenant clusters."""

    metadata: TracedMeta
    spec: NetworkPoolSpec
    """What the administrator declares."""
    status: NetworkPoolStatus = field(default_factory=NetworkPoolStatus)
    """What the pool holds."""

    @property
    def blocks(self) -> tuple["NetworkPool", ...]:
        """The pool, or a pool for each of its families: to count and to draw them one by one."""
        if self.spec.secondary is None:
            return (self,)
        counts = self.status.secondary or SecondaryCounts()
        secondary_counts = {
            count_field.name: getattr(counts, count_field.name) for count_field in fields(counts)
        }
        status = replace(self.status, secondary=None, **secondary_counts)
        first, second = self.spec.blocks
        return replace(self, spec=first), replace(self, spec=second, status=status)
