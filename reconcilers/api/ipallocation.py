"""IPAllocation: one tenant's request for a contiguous range, and the range it was given."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from controller.markers import ApiType, FieldSchema, Rule, rules, with_config
from controller.meta import Key, TracedMeta, intern_fields
from reconcilers.api import names
from reconcilers.api.fields import (
    DUPLICATE,
    FORBIDDEN,
    MODEL,
    BigNumber,
    Conditions,
    Int32,
    Int64,
    NonEmpty,
    PinnedAddress,
    PositiveInt32,
    PrefixLength,
    model,
    require_one_family,
    require_order,
    words,
)
from reconcilers.api.networkpool import parse_exact_count
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER

PENDING = "Pending"
ALLOCATED = "Allocated"
RELEASED = "Released"
FAILED = "Failed"
WRITE_REFUSED = "AllocationFailed"
"""Reason of Ready: the API server refused the write of the range for good. The phase is Pending:
another pool would not help, as it would if the pool had refused the request."""


@with_config(MODEL)
class PoolReference(ApiType, frozen=True):
    """A NetworkPool in the allocation's own namespace."""

    name: NonEmpty
    """Name of the NetworkPool. It is in the namespace of the IPAllocation."""

    def __post_init__(self) -> None:
        intern_fields(self, "name")


@with_config(MODEL)
class TenantReference(ApiType, frozen=True):
    """The TenantCluster that an allocation serves."""

    name: NonEmpty
    """Name of the TenantCluster."""
    namespace: NonEmpty
    """Namespace of the TenantCluster."""

    def __post_init__(self) -> None:
        intern_fields(self, "name", "namespace")

    @property
    def key(self) -> Key:
        """The namespace and name."""
        return Key(self.namespace, self.name)


_ENDS = ("startAddress", "endAddress")


@with_config(model(require_one_family(*_ENDS), require_order(*_ENDS)))
class PinnedRange(ApiType, frozen=True):
    """Exactly these addresses, instead of best fit."""

    startAddress: PinnedAddress
    """The first address of the range, for example 10.40.1.0."""
    endAddress: PinnedAddress
    """The last address of the range, which belongs to it."""


_IPV4, _IPV6 = "IPv4", "IPv6"
SINGLE_STACK = "SingleStack"
PREFER_DUAL_STACK = "PreferDualStack"
REQUIRE_DUAL_STACK = "RequireDualStack"
MAX_FAMILIES = 2

FamilyWord = Annotated[str, words(_IPV4, _IPV6)]
IPFamilies = Annotated[tuple[FamilyWord, ...], FieldSchema(max_length=MAX_FAMILIES)]
IPFamilyPolicy = Annotated[str, words(SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK)]


@with_config(MODEL)
class IPAllocationSpec(ApiType, frozen=True):
    """The request. It cannot be changed: delete it and ask again."""

    poolRef: PoolReference
    """The NetworkPool that the addresses come from. If it does not exist, the request waits with
    the reason PoolNotFound."""
    tenantClusterRef: TenantReference
    """The TenantCluster that uses the addresses. If it is deleted, the addresses are released as
    soon as that is safe."""
    type: Annotated[str, words(names.TYPE_NODES, names.TYPE_LOADBALANCER)]
    """What the addresses are for: nodes or loadbalancer."""
    count: PositiveInt32 | None = None
    """Number of consecutive addresses. If it is absent, the pool's default for the type counts. It
    has no effect with pinnedRange or pinnedRanges."""
    prefixLength: PrefixLength | None = None
    """Prefix length of one CIDR to allocate, instead of count: for example 64 for an IPv6 network.
    It cannot be combined with count, pinnedRange, or two families."""
    pinnedRange: PinnedRange | None = None
    """The exact range to allocate. If one of its addresses is reserved or in use, the request
    fails with the reason PinnedRangeConflict."""
    pinnedRanges: Annotated[tuple[PinnedRange, ...], FieldSchema(max_length=MAX_FAMILIES)] = ()
    """The exact ranges to allocate, at most one of each family, instead of pinnedRange."""
    ipFamilyPolicy: IPFamilyPolicy | None = None
    """Number of address families, as in a Service: SingleStack (the default), PreferDualStack or
    RequireDualStack. With PreferDualStack the request is served without the second family if that
    is full, but never without the first."""
    ipFamilies: IPFamilies = ()
    """The address families in order of preference: IPv4, IPv6. If it has fewer than are needed,
    the pool's order decides the others."""

    def __post_init__(self) -> None:
        intern_fields(self, "type")

    @property
    def pins(self) -> tuple[PinnedRange, ...]:
        """All pinned ranges, of either field."""
        return (
            self.pinnedRanges
            if self.pinnedRange is None
            else (self.pinnedRange, *self.pinnedRanges)
        )

    @property
    def is_pinned(self) -> bool:
        """Whether it asks for specific ranges, as a person does."""
        return bool(self.pins)

    @property
    def names_families(self) -> bool:
        """Whether it says anything of families, so that its status is to tell of them."""
        return bool(self.ipFamilyPolicy or self.ipFamilies or self.pinnedRanges)


@with_config(MODEL)
class FamilyStatus(ApiType, frozen=True):
    """The range of one family."""

    family: FamilyWord
    """IPv4 or IPv6."""
    cidr: str | None = None
    """The range in CIDR notation, for example 10.40.1.0/29. A range that is no CIDR is written as
    start-end."""
    startAddress: str | None = None
    """The first address of the range."""
    endAddress: str | None = None
    """The last address of the range."""
    allocatedCount: Int32 | None = None
    """Number of addresses of the range. At most 2147483647; exactCount has larger numbers."""
    exactCount: BigNumber | None = None
    """Number of addresses of the range as text; only present if it is above 2147483647."""

    def __post_init__(self) -> None:
        intern_fields(self, "family")


@with_config(MODEL)
class IPAllocationStatus(ApiType, frozen=True):
    """The range, and how far the request has come."""

    phase: Annotated[str, words(PENDING, ALLOCATED, RELEASED, FAILED)] | None = None
    """Pending: the request waits. Allocated: it has its range. Failed: the pool cannot serve it
    now, and retries it. Released: its range was released."""
    conditions: Conditions = ()
    """Ready, with the reason for which a request is not served."""
    cidr: str | None = None
    """The range in CIDR notation, for example 10.40.1.0/29. A range that is no CIDR is written as
    start-end."""
    startAddress: str | None = None
    """The first address of the range."""
    endAddress: str | None = None
    """The last address of the range."""
    addresses: tuple[str, ...] = ()
    """Every address of the range. A range of more than 65,536 addresses (IPv6: 16,384) has only
    its first ones here."""
    allocatedCount: Int32 | None = None
    """Number of addresses of the range. At most 2147483647; exactCount has larger numbers."""
    exactCount: BigNumber | None = None
    """Number of addresses of the range as text; only present if it is above 2147483647."""
    families: Annotated[tuple[FamilyStatus, ...], FieldSchema(max_length=MAX_FAMILIES)] = ()
    """The range of each address family, in order; only present if the spec has ipFamilyPolicy,
    ipFamilies or pinnedRanges. The fields above are those of the first family."""
    observedGeneration: Int64 | None = None
    """The metadata.generation of the spec that this status describes."""
    allocatedAt: datetime | None = None
    """When the range was allocated."""
    releasedAt: datetime | None = None
    """When the range was released."""
    allocatedBy: str | None = None
    """Name of the controller that allocated the range."""

    def __post_init__(self) -> None:
        intern_fields(self, "phase", "allocatedBy")
        # No code here reads the single addresses, and they would be most of what a cache holds:
        # up to 65,536 texts for one range. The start and the end say the same.
        force_setattr(self, "addresses", ())

    @property
    def count(self) -> int:
        """How many addresses the range holds, 0 if there is none."""
        return parse_exact_count(self.exactCount, self.allocatedCount or 0)


POOL_INDEX = "spec.poolRef.name"
"""The index of a cache of allocations by pool."""
TENANT_INDEX = "spec.tenantClusterRef"
"""The index of a cache of allocations by TenantCluster."""

IMMUTABLE = Rule(
    "self == oldSelf",
    "spec cannot be changed: delete the IPAllocation and create a new one",
    reason=FORBIDDEN,
)

_PINS_LISTED = "has(self.pinnedRanges) && size(self.pinnedRanges) > 0"
ONE_SIZE = Rule(
    f"!has(self.prefixLength) || !(has(self.count) || has(self.pinnedRange) || ({_PINS_LISTED}))",
    "prefixLength replaces count and pinnedRange: set only one of them",
    at=".prefixLength",
    reason=FORBIDDEN,
)
_DUAL = f"has(self.ipFamilyPolicy) && self.ipFamilyPolicy != '{SINGLE_STACK}'"
ONE_BLOCK = Rule(
    f"!has(self.prefixLength) || !({_DUAL})",
    "prefixLength is for one family: it cannot be combined with PreferDualStack or"
    " RequireDualStack",
    at=".prefixLength",
    reason=FORBIDDEN,
)
DISTINCT_FAMILIES = Rule(
    "!has(self.ipFamilies) || size(self.ipFamilies) < 2"
    " || self.ipFamilies[0] != self.ipFamilies[1]",
    "the families must differ",
    at=".ipFamilies",
    reason=DUPLICATE,
)
_TWO_FAMILIES = "has(self.ipFamilies) && size(self.ipFamilies) > 1"
POLICY_OF_TWO_FAMILIES = Rule(
    f"!({_TWO_FAMILIES}) || ({_DUAL})",
    "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    ".ipFamilyPolicy",
)
POLICY_OF_TWO = POLICY_OF_TWO_FAMILIES._replace(
    cel=f"!(({_TWO_FAMILIES}) || (has(self.pinnedRanges) && size(self.pinnedRanges) > 1))"
    f" || ({_DUAL})"
)
_IS_IPV6 = "startAddress.contains(':')"
PINNED_ONCE = Rule(
    f"!({_PINS_LISTED}) || (!has(self.pinnedRange) && (size(self.pinnedRanges) < 2"
    f" || self.pinnedRanges[0].{_IS_IPV6} != self.pinnedRanges[1].{_IS_IPV6}))",
    "pinnedRanges takes one range of each family, and replaces pinnedRange: set only one of them",
    at=".pinnedRanges",
    reason=FORBIDDEN,
)
_FIRST_IS_IPV6 = f"(self.ipFamilies[0] == '{_IPV6}')"
PINNED_FAMILY = Rule(
    f"!has(self.ipFamilies) || size(self.ipFamilies) == 0 || ({_DUAL})"
    f" || ((!has(self.pinnedRange) || self.pinnedRange.{_IS_IPV6} == {_FIRST_IS_IPV6})"
    " && (!has(self.pinnedRanges)"
    f" || self.pinnedRanges.all(p, p.{_IS_IPV6} == {_FIRST_IS_IPV6})))",
    "expected a range of the family indicated by ipFamilies[0]",
    ".ipFamilies",
)
_SPEC_RULES = (
    IMMUTABLE,
    ONE_SIZE,
    ONE_BLOCK,
    DISTINCT_FAMILIES,
    POLICY_OF_TWO,
    PINNED_ONCE,
    PINNED_FAMILY,
)


@with_config(MODEL)
class IPAllocation(ApiType, frozen=True):
    """A request for contiguous addresses from a NetworkPool, and its answer."""

    metadata: TracedMeta
    spec: Annotated[IPAllocationSpec, FieldSchema(json_schema_extra=rules(*_SPEC_RULES))]
    """The request. It cannot be changed: delete the IPAllocation and create another."""
    status: IPAllocationStatus = msgspec.field(default_factory=IPAllocationStatus)
    """The range, and how far the request has come."""

    @property
    def pool_key(self) -> Key:
        """The pool it asks: in its own namespace."""
        return Key(self.metadata.namespace, self.spec.poolRef.name)

    @property
    def releasing_since(self) -> datetime | None:
        """Since when its range is being released; None if it is not, or the mark has no time."""
        if self.metadata.deletionTimestamp is not None:
            return self.metadata.deletionTimestamp
        try:
            mark = datetime.fromisoformat(
                self.metadata.annotations.get(names.ANNOTATION_RELEASING, "")
            )
        except ValueError:
            return None
        return mark if mark.tzinfo else None  # a time without a zone cannot be compared

    @property
    def releasing(self) -> bool:
        """Whether its range is being given back: deleted, or marked for shrink."""
        return self.metadata.is_terminating or (
            names.ANNOTATION_RELEASING in self.metadata.annotations
        )

    @property
    def load_balancer(self) -> str:
        """The load balancer that may have its range, as noted when it was requested or moved.

        No note stands for the default, as on allocations of other controllers.
        """
        return self.metadata.annotations.get(names.ANNOTATION_LOAD_BALANCER, DEFAULT_LOAD_BALANCER)

    @property
    def is_leaving(self) -> bool:
        """Whether its range is taken out of one load balancer, to be given to another."""
        return names.ANNOTATION_LEAVING_BALANCER in self.metadata.annotations

    @property
    def is_withdrawn(self) -> bool:
        """Whether its range must not be in the tenant: being given back, or changing balancers."""
        return self.releasing or self.is_leaving

    @property
    def is_marked(self) -> bool:
        """Whether its range is marked for release, and the mark can be withdrawn: not deleted."""
        return self.releasing and not self.metadata.is_terminating

    @property
    def creation_order(self) -> tuple[str, str]:
        """Creation time and name, to sort by: many are created in one second."""
        created = self.metadata.creationTimestamp
        return (created.isoformat() if created else "", self.metadata.name)

    @property
    def requested_at(self) -> datetime:
        """When it was first requested; requests are served in this order.

        An allocation that is recreated has the time of the first request in the annotation
        requested-at. The annotation can only make a request older than its object. An annotation
        that is no RFC 3339 time counts as absent.
        """
        created = self.metadata.creationTimestamp
        assert created is not None, "the server stamps every object"
        try:
            noted = datetime.fromisoformat(
                self.metadata.annotations.get(names.ANNOTATION_REQUESTED_AT, "")
            )
        except ValueError:
            return created
        # A time without a zone cannot be compared.
        return min(noted, created) if noted.tzinfo else created


def index_by_pool(allocation: IPAllocation) -> tuple[str, ...]:
    """Return the values of an allocation in POOL_INDEX: its pool, with their common namespace."""
    return (str(allocation.pool_key),)


def index_by_tenant(allocation: IPAllocation) -> tuple[str, ...]:
    """Return the values of an allocation in TENANT_INDEX: the TenantCluster that it serves."""
    return (str(allocation.spec.tenantClusterRef.key),)
