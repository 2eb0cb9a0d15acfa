"""The kinds of Cluster API's IPAM contract, as far as they are read and written here.

IPAddressClaim, IPAddress and Cluster are kinds of Cluster API, which installs their
CustomResourceDefinitions. The four kinds of pools are those of its in-cluster provider. Group,
version, fields, finalizers and annotations are the same here, so that existing objects of that
provider work unchanged.

An *outline* is the part of an object that is decoded when the whole object cannot be decoded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from controller.conditions import Condition
from controller.markers import with_config
from controller.meta import Key, Object, ObjectMeta, OwnerReference
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.fields import MODEL, Conditions, int32
from reconcilers.integrations.clusterapi import schema
from reconcilers.integrations.clusterapi.schema import require_fields
from reconcilers.promises.journal import AnnotatedJournal

GROUP = "ipam.cluster.x-k8s.io"
POOL_VERSION = "v1alpha2"
CONTRACT_VERSIONS = ("v1beta2", "v1beta1")
"""The known versions of IPAddressClaim, IPAddress and Cluster, the preferred one first."""

CLAIM_FINALIZER = f"{GROUP}/ReleaseAddress"
ADDRESS_FINALIZER = f"{GROUP}/ProtectAddress"
POOL_FINALIZER = f"{GROUP}/ProtectPool"
SKIP_DELETE_CHECK = f"{GROUP}/skip-validate-delete-webhook"
"""Annotation of a pool: it may be deleted even if its addresses are in use."""

CORE_GROUP = "cluster.x-k8s.io"
PAUSED = f"{CORE_GROUP}/paused"
"""Annotation of a Cluster, claim or pool: controllers leave it alone, whatever the value."""
CLUSTER_LABEL = f"{CORE_GROUP}/cluster-name"
MOVE_HIERARCHY_LABEL = "clusterctl.cluster.x-k8s.io/move-hierarchy"
DELETE_FOR_MOVE = "clusterctl.cluster.x-k8s.io/delete-for-move"
"""Annotation that `clusterctl move` puts on the objects that it deletes in the source cluster."""

PROVIDER_LABEL = "cluster.x-k8s.io/provider"
PROVIDER = "ipam-butler-ipam"
"""The value of PROVIDER_LABEL on all that clusterctl installs of ours: `ipam-` and its name."""

DEFAULT_BLOCK = 64
"""The length of the prefixes that a prefix pool hands out, unless it says otherwise."""
CLAIM_KIND = names.KIND_CLAIMS
"""The kind of the requests, in journals and as holders."""
ADDRESS_KIND = names.KIND_ADDRESSES
"""The kind of the objects that are created for promises, in journals."""
JOURNALS = AnnotatedJournal(CLAIM_KIND, effects=ADDRESS_KIND)
"""The journals of the pools of this platform; NetworkPools have theirs in the status."""


@with_config(require_fields(("addresses", "prefix"), *schema.IP_POOL))
@dataclass(frozen=True, slots=True)
class IPPoolSpec:
    """Which addresses a pool hands out, one at a time."""

    addresses: schema.Addresses = ()
    """Addresses, ranges (first-last) and CIDRs, all of one family and in one subnet."""
    prefix: schema.SubnetLength = 0
    """Length of the subnet's prefix; 0 for addresses that share none."""
    gateway: schema.Gateway = ""
    """The subnet's gateway. It is never handed out."""
    excludedAddresses: schema.Entries = ()
    """Addresses, ranges and CIDRs that are never handed out."""
    allocateReservedIPAddresses: bool | None = None
    """Whether the subnet's first address and, for IPv4, its last are handed out, too."""
    addressReuseGracePeriodSeconds: Annotated[int, int32(0)] | None = None
    """How long a released address rests before it is handed out again."""

    @property
    def entries(self) -> Sequence[str]:
        """What the pool hands out, as a person wrote it."""
        return self.addresses


@with_config(require_fields(("prefixes",)))
@dataclass(frozen=True, slots=True)
class PrefixPoolSpec:
    """Which IPv6 prefixes a pool hands out, one at a time."""

    prefixes: schema.Prefixes = ()
    """IPv6 CIDRs that prefixes are cut from."""
    allocationPrefixLength: schema.BlockLength = DEFAULT_BLOCK
    """Length of the prefixes that are handed out."""
    gateway: schema.Gateway6 = ""
    """The gateway that is passed on with each prefix. It reserves nothing."""
    excludedPrefixes: schema.Entries6 = ()
    """Addresses, ranges and CIDRs: a prefix that overlaps one is never handed out."""

    @property
    def entries(self) -> Sequence[str]:
        """What the pool hands out, as a person wrote it."""
        return self.prefixes


@with_config(require_fields(("total", "used", "free", "outOfRange")))
@dataclass(frozen=True, slots=True)
class PoolCounts:
    """How many addresses, or prefixes, a pool has. Numbers end at 9223372036854775807."""

    total: schema.Count = 0
    """What the pool may hand out."""
    used: schema.Count = 0
    """How many IPAddresses name the pool, also those made by other controllers."""
    free: schema.Count = 0
    """What may be handed out and is not in use."""
    outOfRange: schema.Count = 0
    """What is in use and lies outside of what may be handed out."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class InClusterPoolStatus:
    """How full a pool is, and whether it can be served from."""

    ipAddresses: PoolCounts | None = None
    """Counts; absent until the pool was looked at."""
    conditions: Conditions = ()
    """Ready, and Overlapping."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class InClusterIPPool:
    """Addresses for the claims of its namespace."""

    metadata: ObjectMeta
    spec: IPPoolSpec = field(default_factory=IPPoolSpec)
    """Which addresses it hands out."""
    status: InClusterPoolStatus = field(default_factory=InClusterPoolStatus)
    """How full it is."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class GlobalInClusterIPPool:
    """Addresses for the claims of all namespaces."""

    metadata: ObjectMeta
    spec: IPPoolSpec = field(default_factory=IPPoolSpec)
    """Which addresses it hands out."""
    status: InClusterPoolStatus = field(default_factory=InClusterPoolStatus)
    """How full it is."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class InClusterPrefixPool:
    """IPv6 prefixes for the claims of its namespace."""

    metadata: ObjectMeta
    spec: PrefixPoolSpec = field(default_factory=PrefixPoolSpec)
    """Which prefixes it hands out."""
    status: InClusterPoolStatus = field(default_factory=InClusterPoolStatus)
    """How full it is."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class GlobalInClusterPrefixPool:
    """IPv6 prefixes for the claims of all namespaces."""

    metadata: ObjectMeta
    spec: PrefixPoolSpec = field(default_factory=PrefixPoolSpec)
    """Which prefixes it hands out."""
    status: InClusterPoolStatus = field(default_factory=InClusterPoolStatus)
    """How full it is."""


IPPool = InClusterIPPool | GlobalInClusterIPPool
PrefixPool = InClusterPrefixPool | GlobalInClusterPrefixPool
Pool = IPPool | PrefixPool

IN_CLUSTER_IP_POOL = Resource(
    GROUP, POOL_VERSION, "InClusterIPPool", "inclusterippools", InClusterIPPool
)
GLOBAL_IP_POOL = Resource(
    GROUP,
    POOL_VERSION,
    "GlobalInClusterIPPool",
    "globalinclusterippools",
    GlobalInClusterIPPool,
    namespaced=False,
)
IN_CLUSTER_PREFIX_POOL = Resource(
    GROUP, POOL_VERSION, "InClusterPrefixPool", "inclusterprefixpools", InClusterPrefixPool
)
GLOBAL_PREFIX_POOL = Resource(
    GROUP,
    POOL_VERSION,
    "GlobalInClusterPrefixPool",
    "globalinclusterprefixpools",
    GlobalInClusterPrefixPool,
    namespaced=False,
)
POOLS: tuple[Resource[Pool], ...] = (
    IN_CLUSTER_IP_POOL,
    GLOBAL_IP_POOL,
    IN_CLUSTER_PREFIX_POOL,
    GLOBAL_PREFIX_POOL,
)
"""The kinds of pools of the in-cluster provider."""


@dataclass(frozen=True, slots=True)
class PoolRef:
    """The pool that a claim or an address names, of any group and kind."""

    kind: str = ""
    name: str = ""
    apiGroup: str = ""
    """Empty in objects of v1beta1 that lack it: then the reference matches no pool."""


@dataclass(frozen=True, slots=True)
class NameRef:
    """The name of an object in the same namespace."""

    name: str = ""


def _is_cluster(owner: OwnerReference) -> bool:
    """Return whether an owner reference names a Cluster of Cluster API, in any version."""
    return owner.kind == "Cluster" and owner.apiVersion.partition("/")[0] == CORE_GROUP


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What a claim asks for."""

    poolRef: PoolRef = field(default_factory=PoolRef)
    clusterName: str = ""


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """What a claim got.

    In v1beta1 `conditions` are Cluster API's older list, which v1beta2 keeps in another place.
    """

    addressRef: NameRef | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class IPAddressClaim:
    """A request for one address, or prefix, of a pool."""

    metadata: ObjectMeta
    spec: ClaimSpec = field(default_factory=ClaimSpec)
    status: ClaimStatus = field(default_factory=ClaimStatus)

    @property
    def cluster(self) -> Key | None:
        """The Cluster that the claim is for; None if the claim names no Cluster.

        The first of these that exists decides: the name in the spec, the label (older objects have
        only the label), the owner of kind Cluster. The owner counts because of `clusterctl move`:
        it recreates the claim before the IPAddress, while the Cluster is paused. Without the owner
        the claim would be served, and get another address.
        """
        name = self.spec.clusterName or self.metadata.labels.get(CLUSTER_LABEL, "")
        if not name:
            name = next(
                (
                    reference.name
                    for reference in self.metadata.ownerReferences
                    if _is_cluster(reference)
                ),
                "",
            )
        return Key(self.metadata.namespace, name) if name else None

    @property
    def address_name(self) -> str:
        """The name of the IPAddress that answers it; empty while none does."""
        return self.status.addressRef.name if self.status.addressRef else ""


@dataclass(frozen=True, slots=True)
class AddressSpec:
    """An address, and what it was given for."""

    claimRef: NameRef = field(default_factory=NameRef)
    poolRef: PoolRef = field(default_factory=PoolRef)
    address: str = ""
    prefix: int = 0
    gateway: str = ""


@dataclass(frozen=True, slots=True)
class IPAddress:
    """An address, or prefix, that a claim got. It has no status."""

    metadata: ObjectMeta
    spec: AddressSpec = field(default_factory=AddressSpec)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The part of a Cluster that says whether anything may be done about it."""

    paused: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of Cluster API."""

    metadata: ObjectMeta
    spec: ClusterSpec = field(default_factory=ClusterSpec)

    @property
    def is_paused(self) -> bool:
        """Whether controllers must leave the Cluster and its claims alone."""
        return self.spec.paused or is_paused(self.metadata.annotations)


def is_paused(annotations: Mapping[str, str]) -> bool:
    """Return whether an object's annotations pause it; the value does not matter."""
    return PAUSED in annotations


@dataclass(frozen=True, slots=True)
class PoolOutlineSpec:
    """The part of a claim's or an IPAddress's spec that says which pool it concerns."""

    poolRef: PoolRef


@dataclass(frozen=True, slots=True)
class PoolOutline:
    """The pool of a claim or an IPAddress, for objects that cannot be decoded completely."""

    metadata: ObjectMeta
    spec: PoolOutlineSpec


def get_claim_kind(version: str) -> Resource[IPAddressClaim]:
    """Return the kind of claims in a version of CONTRACT_VERSIONS."""
    return Resource(
        GROUP, version, "IPAddressClaim", "ipaddressclaims", IPAddressClaim, outline=PoolOutline
    )


def get_address_kind(version: str) -> Resource[IPAddress]:
    """Return the kind of addresses in a version of CONTRACT_VERSIONS."""
    return Resource(GROUP, version, "IPAddress", "ipaddresses", IPAddress, outline=PoolOutline)


def get_cluster_kind(version: str) -> Resource[Cluster]:
    """Return the kind of clusters in a version of CONTRACT_VERSIONS."""
    return Resource(CORE_GROUP, version, "Cluster", "clusters", Cluster)


CLAIMS = get_claim_kind(CONTRACT_VERSIONS[0])
ADDRESSES = get_address_kind(CONTRACT_VERSIONS[0])
CLUSTERS = get_cluster_kind(CONTRACT_VERSIONS[0])
HOLDERS: tuple[Resource[Object], ...] = tuple(
    kind(version) for version in CONTRACT_VERSIONS for kind in (get_claim_kind, get_address_kind)
)
"""The kinds whose objects hold addresses, or wait for some, in all known versions."""
KINDS: tuple[Resource[Object], ...] = (CLAIMS, ADDRESSES, CLUSTERS, *POOLS)
"""All kinds, each in the version that is preferred."""


def find_pool_key(ref: PoolRef, namespace: str) -> Key | None:
    """Return the key of the pool that a claim or an IPAddress names.

    A namespaced pool is in the namespace of the claim; a global pool has an empty namespace.

    Args:
        namespace: the namespace of the claim or IPAddress.

    Returns:
        None if the pool is of a kind that is not served here.
    """
    if (ref.apiGroup, ref.kind) == (names.GROUP, "NetworkPool"):
        return Key(namespace, ref.name)
    for resource in POOLS:
        if (ref.apiGroup, ref.kind) == (resource.group, resource.kind):
            return Key(namespace if resource.namespaced else "", ref.name)
    return None
