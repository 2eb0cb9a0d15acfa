"""KKP's kinds, as far as IPAM reads and writes them.

    IPAMPool         a pool; each of its datacenters hands out addresses of its own
    IPAMAllocation   the addresses that one cluster got of the pool of the same name
    Cluster          a user cluster, which asks the pools of its datacenter for addresses

Their CustomResourceDefinitions are KKP's. IPAMPool and IPAMAllocation have no status.

An *outline* is the part of an object that is decoded when the whole object cannot be decoded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from reconcilers.promises.journal import AnnotatedJournal

GROUP = "kubermatic.k8c.io"
VERSION = "v1"
RANGE = "range"
PREFIX = "prefix"
WORKER_LABEL = "worker-name"
CONDITION = "IPAMControllerReconciledSuccessfully"
JOURNALS = AnnotatedJournal(f"ipamallocations.{GROUP}", has_spaces=True)
"""The journals of the pools of this platform."""


@dataclass(frozen=True, slots=True)
class Datacenter:
    """What a pool hands out to the clusters of one datacenter."""

    type: str = ""
    """`range` or `prefix`."""
    poolCidr: str = ""
    allocationPrefix: int = 0
    excludePrefixes: tuple[str, ...] = ()
    allocationRange: int = 0
    excludeRanges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KkpPoolSpec:
    """What a pool hands out, by datacenter."""

    datacenters: Mapping[str, Datacenter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IPAMPool:
    """A pool of addresses; it is cluster-scoped."""

    metadata: ObjectMeta
    spec: KkpPoolSpec = field(default_factory=KkpPoolSpec)


@dataclass(frozen=True, slots=True)
class AllocationSpec:
    """What a cluster got of a pool."""

    type: str = ""
    dc: str = ""
    cidr: str = ""
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IPAMAllocation:
    """The addresses of one cluster, of the pool of the same name, in the cluster's namespace."""

    metadata: ObjectMeta
    spec: AllocationSpec = field(default_factory=AllocationSpec)

    @property
    def pool(self) -> Key:
        """The key of its pool, which has the same name."""
        return Key("", self.metadata.name)

    @property
    def is_empty(self) -> bool:
        """Whether it has no addresses yet."""
        return not self.spec.cidr and not self.spec.addresses


@dataclass(frozen=True, slots=True)
class KkpOutlineSpec:
    """The addresses of an undecodable IPAMAllocation; the fields may have values of any type."""

    cidr: Any = None
    addresses: Any = None


@dataclass(frozen=True, slots=True)
class KkpOutline:
    """The part of an IPAMAllocation that is decoded if the whole cannot be decoded."""

    metadata: ObjectMeta
    spec: KkpOutlineSpec


@dataclass(frozen=True, slots=True)
class CloudSpec:
    """Where a cluster runs."""

    dc: str = ""


@dataclass(frozen=True, slots=True)
class KkpClusterSpec:
    """The part of a Cluster that IPAM reads."""

    cloud: CloudSpec = field(default_factory=CloudSpec)
    pause: bool = False


@dataclass(frozen=True, slots=True)
class ClusterCondition:
    """One condition of a Cluster. KKP stores conditions as a map by type, not as a list."""

    status: str = ""
    reason: str = ""
    message: str = ""
    lastTransitionTime: str = ""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The part of a Cluster's status that IPAM reads."""

    namespaceName: str = ""
    conditions: Mapping[str, ClusterCondition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KkpCluster:
    """A user cluster of KKP."""

    metadata: ObjectMeta
    spec: KkpClusterSpec = field(default_factory=KkpClusterSpec)
    status: ClusterStatus = field(default_factory=ClusterStatus)

    @property
    def datacenter(self) -> str:
        """The datacenter that it runs in."""
        return self.spec.cloud.dc

    @property
    def namespace(self) -> str:
        """The namespace of its allocations; empty until KKP has created the namespace."""
        return self.status.namespaceName

    def is_served(self, worker: str) -> bool:
        """Return whether the process with this worker name creates allocations for it now.

        It is not served while it is paused, is being deleted, or has no namespace.
        """
        meta = self.metadata
        idle = meta.is_terminating or self.spec.pause or not self.namespace
        return not idle and meta.labels.get(WORKER_LABEL, "") == worker


POOLS = Resource(GROUP, VERSION, "IPAMPool", "ipampools", IPAMPool, namespaced=False)
ALLOCATIONS = Resource(
    GROUP,
    VERSION,
    "IPAMAllocation",
    "ipamallocations",
    IPAMAllocation,
    outline=KkpOutline,
)
CLUSTERS = Resource(GROUP, VERSION, "Cluster", "clusters", KkpCluster, namespaced=False)
KINDS = (POOLS, ALLOCATIONS, CLUSTERS)
