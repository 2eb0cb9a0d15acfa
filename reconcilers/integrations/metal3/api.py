"""The kinds of metal3's IPAM, with the fields that are read and written here.

Their CustomResourceDefinitions are metal3's. Fields, finalizers, names and texts are those of its
controller, because objects outlive the controller that wrote them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.integrations.clusterapi.api import PoolRef
from reconcilers.promises.journal import AnnotatedJournal

GROUP = "ipam.metal3.io"
VERSION = "v1alpha1"
POOL = "IPPool"

POOL_FINALIZER = f"ippool.{GROUP}"
CLAIM_FINALIZER = f"ipclaim.{GROUP}"
ADDRESS_FINALIZER = f"ipaddress.{GROUP}"
CONTRACT_CLAIM_FINALIZER = f"{GROUP}/ipaddressclaim"
CONTRACT_ADDRESS_FINALIZER = f"{GROUP}/ipaddress"

REQUESTED_ADDRESS = "ipAddress"
"""Annotation of a claim of either kind: the address that it asks for; empty for none."""
PROVIDER = "ipam-metal3"
"""The value of the label of the provider, on pools of a Cluster."""
RANDOM = "random"

EXHAUSTED = "Exhausted IP Pools"
PREALLOCATION_OUTSIDE = "Pre-allocated IP out of bounds"
PREALLOCATION_HELD = "Pre-allocated IP not available"
REQUESTED_OUTSIDE = "Requested IP out of bounds"
REQUESTED_HELD = "Requested IP not available"
CONFLICTING = "PreAllocation and requested ip address are conflicting"
NOT_CREATED = "Failed to create associated IPAddress object"

MOST_SHOWN = 64
"""How many characters of an annotation a message shows."""

CLAIM_KIND = f"ipclaims.{GROUP}"
"""The kind of metal3's claims, in journals and as holders."""
ADDRESS_KIND = f"ipaddresses.{GROUP}"
"""The kind of metal3's IPAddresses, in journals."""
JOURNALS = AnnotatedJournal(
    CLAIM_KIND,
    effects=ADDRESS_KIND,
    others=((names.KIND_CLAIMS, names.KIND_ADDRESSES),),
)
"""The journals of IPPools, for claims of both kinds."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The fields of a reference to an object that are read; none of them is required."""

    name: str = ""
    namespace: str = ""
    kind: str = ""
    apiVersion: str = ""


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """One entry of a pool: a range of addresses, and the settings of their IPAddresses."""

    start: str = ""
    end: str = ""
    subnet: str = ""
    prefix: int = 0
    gateway: str = ""
    dnsServers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metal3PoolSpec:
    """Which addresses a pool hands out."""

    namePrefix: str = ""
    pools: tuple[PoolEntry, ...] = ()
    prefix: int = 0
    gateway: str = ""
    dnsServers: tuple[str, ...] = ()
    preAllocations: Mapping[str, str] = field(default_factory=dict)
    allocationStrategy: str = ""
    clusterName: str = ""


@dataclass(frozen=True, slots=True)
class Metal3PoolStatus:
    """Which claims have which addresses of a pool."""

    indexes: Mapping[str, str] = field(default_factory=dict)
    lastUpdated: str = ""


@dataclass(frozen=True, slots=True)
class Metal3Pool:
    """An IPPool: addresses for the claims of its namespace."""

    metadata: ObjectMeta
    spec: Metal3PoolSpec = field(default_factory=Metal3PoolSpec)
    status: Metal3PoolStatus = field(default_factory=Metal3PoolStatus)

    @property
    def cluster(self) -> Key | None:
        """The Cluster that the pool belongs to; None for none."""
        name = self.spec.clusterName
        return Key(self.metadata.namespace, name) if name else None


@dataclass(frozen=True, slots=True)
class Metal3ClaimSpec:
    """The pool that a claim asks for an address."""

    pool: ObjectRef = field(default_factory=ObjectRef)


@dataclass(frozen=True, slots=True)
class Metal3ClaimStatus:
    """What a claim got, or why it got nothing."""

    address: ObjectRef | None = None
    errorMessage: str = ""


@dataclass(frozen=True, slots=True)
class Metal3Claim:
    """An IPClaim: a request for one address of a pool."""

    metadata: ObjectMeta
    spec: Metal3ClaimSpec = field(default_factory=Metal3ClaimSpec)
    status: Metal3ClaimStatus = field(default_factory=Metal3ClaimStatus)


@dataclass(frozen=True, slots=True)
class Metal3AddressSpec:
    """An address, and what it was given for."""

    address: str = ""
    prefix: int = 0
    gateway: str = ""
    dnsServers: tuple[str, ...] = ()
    pool: ObjectRef = field(default_factory=ObjectRef)
    claim: ObjectRef = field(default_factory=ObjectRef)


@dataclass(frozen=True, slots=True)
class Metal3Address:
    """An IPAddress of metal3. It has no status."""

    metadata: ObjectMeta
    spec: Metal3AddressSpec = field(default_factory=Metal3AddressSpec)


@dataclass(frozen=True, slots=True)
class Metal3OutlineSpec:
    """The part of a claim's or an IPAddress's spec that says which pool it concerns."""

    pool: ObjectRef


@dataclass(frozen=True, slots=True)
class Metal3Outline:
    """The pool of a claim or an IPAddress, for objects that cannot be decoded completely."""

    metadata: ObjectMeta
    spec: Metal3OutlineSpec


POOLS = Resource(GROUP, VERSION, POOL, "ippools", Metal3Pool)
CLAIMS = Resource(GROUP, VERSION, "IPClaim", "ipclaims", Metal3Claim, outline=Metal3Outline)
ADDRESSES = Resource(
    GROUP, VERSION, "IPAddress", "ipaddresses", Metal3Address, outline=Metal3Outline
)
KINDS = (POOLS, CLAIMS, ADDRESSES)


def describe_invalid(requested: str) -> str:
    """Return metal3's message for a claim whose annotation is not an address."""
    shortened = requested if len(requested) <= MOST_SHOWN else f"{requested[:MOST_SHOWN]}…"
    return f'Invalid ipAddress annotation "{shortened}": not a valid IP address'


def find_pool_by_object_ref(ref: ObjectRef, namespace: str) -> Key | None:
    """Return the IPPool that an IPClaim names; None if it names something else.

    A claim gets addresses of pools of its own namespace alone.

    Args:
        ref: the claim's.
        namespace: of the claim.
    """
    if not ref.name or ref.kind not in {"", POOL} or ref.namespace not in {"", namespace}:
        return None
    if ref.apiVersion and ref.apiVersion.rpartition("/")[0] not in {"", GROUP}:
        return None
    return Key(namespace, ref.name)


def find_pool_by_pool_ref(ref: PoolRef, namespace: str) -> Key | None:
    """Return the IPPool that an object of Cluster API names; None if it names something else.

    Args:
        ref: the reference.
        namespace: of the object.
    """
    is_pool = (ref.apiGroup, ref.kind) == (GROUP, POOL)
    return Key(namespace, ref.name) if ref.name and is_pool else None
