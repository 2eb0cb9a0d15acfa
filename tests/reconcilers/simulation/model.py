"""The API server as a model: versions, preconditions, finalizers, a log of events for caches."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.conditions import rfc3339
from controller.meta import Key
from controller.testing.patches import merged

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
    KKP_POOLS: "kubermatic.k8c.io/v1",
    KKP_ALLOCATIONS: "kubermatic.k8c.io/v1",
    KKP_CLUSTERS: "kubermatic.k8c.io/v1",
}


def name_of(key: Key) -> str:
    """Return what the model calls an object: its namespace is said only if it is another one."""
    return key.name if key.namespace in {"", NAMESPACE} else str(key)


def key_of(plural: str, name: str) -> Key:
    """Return the key of an object that the model calls `name`."""
    if plural in CLUSTER_SCOPED:
        return Key("", name)
    namespace, _, short = name.rpartition("/")
    return Key(namespace or NAMESPACE, short)


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


@dataclass
class ModelServer:
    """Objects of a few kinds, most of them in one namespace."""

    now: Callable[[], datetime]
    revision: int = 1
    uids: int = 0
    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    history: dict[str, list[Event]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    writes: int = 0
    witness: Callable[[str, Json | None, Json | None], None] = lambda *_: None
    """Is shown every change: the kind's plural, the object before and after."""
    vanished: set[str] = field(default_factory=set)
    """The uids of objects that were removed by force."""
    refuses: Callable[[str, str, str, Json], bool] = lambda *_: False
    """Tells of a request whether a quota or an admission webhook refuses it for good: its method,
    the kind's plural, the name of the object, and its body."""

    def of(self, plural: str) -> Iterable[Json]:
        """Return all objects of a kind."""
        return [obj for (kind, _), obj in sorted(self.objects.items()) if kind == plural]

    def get(self, plural: str, name: str) -> Json | None:
        """Return one object."""
        return self.objects.get((plural, name))

    def create(self, plural: str, body: Json) -> tuple[int, Json]:
        """Create an object, as a user or a controller would."""
        meta = body["metadata"]
        name = name_of(Key(meta.get("namespace", ""), meta["name"]))
        if (plural, name) in self.objects:
            return failure(409, "AlreadyExists")
        self.uids += 1
        obj = copy.deepcopy(body)
        obj |= {"apiVersion": API_VERSIONS[plural], "kind": KINDS[plural]}
        obj["metadata"] |= {
            "namespace": key_of(plural, name).namespace,
            "uid": f"uid-{self.uids}",
            "generation": 1,
            "creationTimestamp": rfc3339(self.now()),
        }
        return 201, self._store(plural, name, obj)

    def patch(
        self, plural: str, name: str, patch: Json, *, status: bool = False, guarded: bool = True
    ) -> tuple[int, Json]:
        """Merge a patch; `guarded` patches carry a resourceVersion, those of chaos do not."""
        old = self.objects.get((plural, name))
        if old is None:
            return failure(404, "NotFound")
        wanted = dict(patch.get("metadata") or {})
        version, uid = wanted.pop("resourceVersion", None), wanted.pop("uid", None)
        assert not guarded or version is not None, "a write without a precondition"
        if version is not None and version != old["metadata"]["resourceVersion"]:
            return failure(409, "Conflict")
        if uid is not None and uid != old["metadata"]["uid"]:
            return failure(409, "Conflict")
        change = {"status": patch.get("status", {})} if status else {**patch, "metadata": wanted}
        new = merged(old, change)
        if new == old:
            return 200, old
        if new.get("spec") != old.get("spec"):
            new["metadata"] = {**new["metadata"], "generation": old["metadata"]["generation"] + 1}
        return 200, self._store(plural, name, new)

    def delete(
        self, plural: str, name: str, version: str | None = None, uid: str | None = None
    ) -> tuple[int, Json]:
        """Delete an object, or mark it if finalizers hold it."""
        old = self.objects.get((plural, name))
        if old is None:
            return failure(404, "NotFound")
        meta = old["metadata"]
        if version not in {None, meta["resourceVersion"]} or uid not in {None, meta["uid"]}:
            return failure(409, "Conflict")
        if meta.get("finalizers"):
            if "deletionTimestamp" not in meta:
                mark = {"metadata": {"deletionTimestamp": rfc3339(self.now())}}
                self._store(plural, name, merged(old, mark))
            return 200, self.objects[plural, name]
        self._remove(plural, name)
        return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def vanish(self, plural: str, name: str) -> None:
        """Remove an object at once, finalizers or not."""
        if old := self.objects.get((plural, name)):
            self.vanished.add(old["metadata"]["uid"])
            self._remove(plural, name)

    def _store(self, plural: str, name: str, obj: Json) -> Json:
        meta = obj["metadata"]
        gone = "deletionTimestamp" in meta and not meta.get("finalizers")
        self.writes += 1
        if gone:
            # The answer carries the old resourceVersion, the event that follows a newer one.
            self._remove(plural, name)
            return obj
        old = self.objects.get((plural, name))
        self.revision += 1
        obj["metadata"] = {**meta, "resourceVersion": str(self.revision)}
        self.objects[plural, name] = obj
        self.history[plural].append(Event(self.revision, plural, name, obj))
        self.witness(plural, old, obj)
        return obj

    def _remove(self, plural: str, name: str) -> None:
        self.revision += 1
        old = self.objects.pop((plural, name))
        self.history[plural].append(Event(self.revision, plural, name, None))
        self.witness(plural, old, None)


def failure(code: int, reason: str) -> tuple[int, Json]:
    """Return a Status for a failure."""
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
