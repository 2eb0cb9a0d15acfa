"""The fake API server, by the short names of the simulation, and a history for its caches."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.clock import Clock
from controller.meta import Key
from controller.resource import Resource
from controller.testing import FakeApi, WriteRecord

Json = dict[str, Any]
NAMESPACE = "butler-system"
POOLS = "networkpools"
ALLOCATIONS = "ipallocations"
CLAIMS = "ipaddressclaims"
ADDRESSES = "ipaddresses"
CLAIM_POOLS = "inclusterippools"
CLUSTERS = "clusters.cluster.x-k8s.io"
"""Cluster API's Clusters, whose plural is that of KKP's."""
NETWORKS = "networknamespaces"
INTERFACES = "networkconfigurations"
NETWORK_ADDRESSES = "ipallocations.vitistack.io"
"""Vitistack's IPAllocations, whose plural is that of ours."""
METAL3_POOLS = "ippools"
METAL3_CLAIMS = "ipclaims"
METAL3_ADDRESSES = "ipaddresses.ipam.metal3.io"
"""metal3's IPAddresses, whose plural is that of Cluster API's."""
KKP_POOLS = "ipampools"
KKP_ALLOCATIONS = "ipamallocations"
KKP_CLUSTERS = "clusters"
CLUSTER_SCOPED = {KKP_POOLS, KKP_CLUSTERS}
KINDS = {
    POOLS: "NetworkPool",
    ALLOCATIONS: "IPAllocation",
    CLAIMS: "IPAddressClaim",
    ADDRESSES: "IPAddress",
    CLAIM_POOLS: "InClusterIPPool",
    CLUSTERS: "Cluster",
    NETWORKS: "NetworkNamespace",
    INTERFACES: "NetworkConfiguration",
    NETWORK_ADDRESSES: "IPAllocation",
    METAL3_POOLS: "IPPool",
    METAL3_CLAIMS: "IPClaim",
    METAL3_ADDRESSES: "IPAddress",
    KKP_POOLS: "IPAMPool",
    KKP_ALLOCATIONS: "IPAMAllocation",
    KKP_CLUSTERS: "Cluster",
}
API_VERSION = "butler.butlerlabs.dev/v1alpha1"
API_VERSIONS = {
    POOLS: API_VERSION,
    ALLOCATIONS: API_VERSION,
    CLAIMS: "ipam.cluster.x-k8s.io/v1beta2",
    ADDRESSES: "ipam.cluster.x-k8s.io/v1beta2",
    CLAIM_POOLS: "ipam.cluster.x-k8s.io/v1alpha2",
    CLUSTERS: "cluster.x-k8s.io/v1beta2",
    NETWORKS: "vitistack.io/v1alpha2",
    INTERFACES: "vitistack.io/v1alpha1",
    NETWORK_ADDRESSES: "vitistack.io/v1alpha2",
    METAL3_POOLS: "ipam.metal3.io/v1alpha1",
    METAL3_CLAIMS: "ipam.metal3.io/v1alpha1",
    METAL3_ADDRESSES: "ipam.metal3.io/v1alpha1",
    KKP_POOLS: "kubermatic.k8c.io/v1",
    KKP_ALLOCATIONS: "kubermatic.k8c.io/v1",
    KKP_CLUSTERS: "kubermatic.k8c.io/v1",
}


def name_of(key: Key) -> str:
    """Return the model's name for an object: with its namespace if that is not NAMESPACE."""
    return key.name if key.namespace in {"", NAMESPACE} else str(key)


def key_of(plural: str, name: str) -> Key:
    """Return the key of an object that the model calls `name`."""
    if plural in CLUSTER_SCOPED:
        return Key("", name)
    namespace, _, short = name.rpartition("/")
    return Key(namespace or NAMESPACE, short)


def _resource(plural: str) -> Resource[Any]:
    """Return the kind that the model calls `plural`."""
    group, _, version = API_VERSIONS[plural].rpartition("/")
    short = plural.partition(".")[0]
    return Resource(
        group, version, KINDS[plural], short, dict, namespaced=plural not in CLUSTER_SCOPED
    )


RESOURCES: Mapping[str, Resource[Any]] = {plural: _resource(plural) for plural in KINDS}
_PLURALS = {resource.full_name: plural for plural, resource in RESOURCES.items()}


@dataclass(frozen=True)
class Event:
    """One entry of a kind's history; the object is None where it was deleted."""

    revision: int
    plural: str
    name: str
    object: Json | None

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return key_of(self.plural, self.name)


class ModelServer:
    """The fake API server of a run. It identifies an object by its plural and its model name.

    `key_of` and `name_of` convert between names and keys.

    Args:
        clock: the clock of the API server, for the timestamps that it sets.
    """

    def __init__(self, clock: Clock) -> None:
        self.now = clock.now
        """Returns the present time by the server's clock."""
        self._api = FakeApi(clock, track_owners=False)
        for resource in RESOURCES.values():
            self._api.serve(resource)
        self._api.listeners.append(self._note_write)
        self.answer = self._api.answer
        """Executes a request of a controller and returns the response."""
        self.objects: dict[tuple[str, str], Json] = {}
        """All objects by the plural of their kind and their name."""
        self.history: dict[str, list[Event]] = {plural: [] for plural in KINDS}
        """The events so far, oldest first, by the plural of the kind."""
        self.witness: Callable[[str, Json | None, Json | None], None] = lambda *_: None
        """Called at every change with the plural, and the object before and after the change."""
        self.vanished: set[str] = set()
        """The uids of objects that were removed by force."""
        self.refuses: Callable[[str, str, str, Json], bool] = lambda *_: False
        """Returns whether a quota or an admission webhook rejects a request for good.

        It gets the request's method, the kind's plural, the name of the object, and the body."""

    @property
    def revision(self) -> int:
        """The newest resourceVersion."""
        return self._api.revision

    @property
    def writes(self) -> int:
        """How many writes there were so far."""
        return len(self._api.history)

    def list_objects(self, plural: str) -> Iterable[Json]:
        """Return all objects of a kind, sorted by name."""
        return [obj for (kind, _), obj in sorted(self.objects.items()) if kind == plural]

    def get(self, plural: str, name: str) -> Json | None:
        """Return an object, None if it does not exist."""
        return self.objects.get((plural, name))

    def create(self, plural: str, body: Json) -> None:
        """Create an object, with the status in its body; do nothing if it exists."""
        meta = body["metadata"]
        name = name_of(Key(meta.get("namespace", ""), meta["name"]))
        if (plural, name) not in self.objects:
            namespace = key_of(plural, name).namespace
            self._api.put_object(
                RESOURCES[plural], {**body, "metadata": {**meta, "namespace": namespace}}
            )

    def edit(self, plural: str, name: str, patch: Json) -> None:
        """Merge a patch into an object, as people and chaos do; nothing if it does not exist."""
        if (plural, name) in self.objects:
            self._api.edit_object(RESOURCES[plural], key_of(plural, name), patch)

    def delete(self, plural: str, name: str) -> None:
        """Delete an object, or mark it if finalizers hold it; nothing if it does not exist."""
        if (plural, name) in self.objects:
            self._api.delete_object(RESOURCES[plural], key_of(plural, name))

    def remove_by_force(self, plural: str, name: str) -> None:
        """Remove an object at once, whatever finalizers it has."""
        if old := self.objects.get((plural, name)):
            self.vanished.add(old["metadata"]["uid"])
            self._api.remove_object(RESOURCES[plural], key_of(plural, name))

    def _note_write(self, happened: WriteRecord) -> None:
        """Store a write by the model's names, add it to the history, show it to the witness."""
        plural = _PLURALS[happened.kind.resource.full_name]
        name = name_of(happened.key)
        old = self.objects.pop((plural, name), None)
        if happened.new is not None:
            self.objects[plural, name] = happened.new
        self.history[plural].append(
            Event(happened.revision, plural, name=name, object=happened.new)
        )
        self.witness(plural, old, happened.new)
