"""KKP's pools, Clusters and IPAMAllocations: how they are made, edited and read."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import ClassVar

from typing_extensions import override

from controller.cache import Cache
from reconcilers.integrations.kubermatic import api
from reconcilers.integrations.kubermatic.api import CONDITION
from reconcilers.integrations.kubermatic.clusters import ClusterReconciler
from reconcilers.integrations.kubermatic.offers import make_offers
from reconcilers.integrations.kubermatic.pools import Pools
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    POOL_INDEXES,
    KkpReader,
    KubermaticCaches,
)
from reconcilers.integrations.kubermatic.reports import Reports
from reconcilers.promises.passes import PoolPasses
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex
from tests.reconcilers.simulation.adapter import (
    NAMES,
    Adapter,
    Address,
    Disturbance,
    Need,
    expand_range,
    join_addresses,
)
from tests.reconcilers.simulation.model import (
    KKP_ALLOCATIONS,
    KKP_CLUSTERS,
    KKP_POOLS,
    Json,
)
from tests.reconcilers.simulation.replica import Process, Worker, World
from tests.reconcilers.simulation.wire import Flight

MOST = 2
"""As many addresses, or the addresses of one prefix, a cluster gets of a pool at most."""
DATACENTERS: dict[str, dict[str, Json]] = {
    "p": {
        "x": {
            "type": "range",
            "poolCidr": "10.0.0.0/29",
            "allocationRange": 1,
            "excludeRanges": ["10.0.0.1", "10.0.0.5-10.0.0.7"],
        },
        "y": {"type": "prefix", "poolCidr": "10.0.1.0/30", "allocationPrefix": 31},
    },
    "q": {
        "x": {
            "type": "prefix",
            "poolCidr": "10.0.2.0/29",
            "allocationPrefix": 31,
            "excludePrefixes": ["10.0.2.2/31"],
        },
    },
}
"""The pools: the one of `p` in `x` has a gap, so that what a cluster gets may be split."""


def _make_space(space: str, *blocks: str) -> frozenset[Address]:
    """Return the addresses of some blocks in a space."""
    return frozenset((space, address) for block in blocks for address in IPv4Network(block))


SPACES = {
    "p/x": _make_space("p/x", "10.0.0.0/32", "10.0.0.2/31", "10.0.0.4/32"),
    "p/y": _make_space("p/y", "10.0.1.0/30"),
    "q/x": _make_space("q/x", "10.0.2.0/31", "10.0.2.4/30"),
}
"""The addresses of each pool in each datacenter."""
FINALIZER = "kubermatic.k8c.io/cleanup"
"""On a Cluster until its namespace is gone."""


class KkpReplica(Process):
    """A process that serves KKP's pools."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        pools = Cache(api.POOLS, indexes=POOL_INDEXES)
        allocations = Cache(api.ALLOCATIONS, indexes=ALLOCATION_INDEXES)
        clusters = Cache(api.CLUSTERS, indexes=CLUSTER_INDEXES)
        self.pools = self._create_feed(KKP_POOLS, pools)
        self.allocations = self._create_feed(KKP_ALLOCATIONS, allocations)
        self.askers = self.clusters = self._create_feed(KKP_CLUSTERS, clusters)
        client, caches = self._create_client(), KubermaticCaches(pools, allocations, clusters)
        reports, clock = Reports(self.recorder), self.clock
        reader = KkpReader(client, allocations, clock=clock, patience=self.settings.cache_patience)
        spaces = SpaceIndex()
        feed(spaces, pools, make_offers)
        kind = Pools(
            client,
            caches,
            reader=reader,
            reports=reports,
            clock=clock,
            settings=self.settings,
            spaces=spaces,
        )
        of_pools = PoolPasses(kind, client, clock=clock, settings=self.settings)
        of_clusters = ClusterReconciler(client, caches, reports=reports, clock=clock)
        return (
            Worker(of_pools.reconcile, (self.pools,), find_pool=None, forget=of_pools.forget),
            Worker(of_clusters.reconcile, (self.clusters,)),
        )


class Kkp(Adapter):
    """KKP's IPAMPools that serve Clusters: each gets an IPAMAllocation of a pool."""

    pools = KKP_POOLS
    requests: ClassVar[tuple[str, ...]] = (KKP_ALLOCATIONS,)
    resets: ClassVar[Mapping[str, Json]] = {
        KKP_ALLOCATIONS: {"spec": {"addresses": None, "cidr": None}}
    }

    @override
    def make_replica(self, world: World) -> Process:
        return KkpReplica(world)

    @override
    def make_pool(self, name: str) -> None:
        spec = {"datacenters": DATACENTERS[name]}
        self.model.create(KKP_POOLS, {"metadata": {"name": name}, "spec": spec})

    @override
    def create_request(self, name: str, count: int = 1, since: str = "") -> None:
        self.make_cluster(name, "x")

    def make_cluster(self, name: str, datacenter: str) -> None:
        """Create a cluster that has its namespace."""
        body = {
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": {"cloud": {"dc": datacenter}, "pause": False},
            "status": {"namespaceName": f"cluster-{name}"},
        }
        self.model.create(KKP_CLUSTERS, body)

    @override
    def find_request(self, name: str) -> Json | None:
        return self.model.get(KKP_ALLOCATIONS, f"cluster-{name}/p")

    @override
    def is_grant(self, flight: Flight, name: str) -> bool:
        written = (flight.method, flight.plural, flight.name)
        is_its = written == ("PATCH", KKP_ALLOCATIONS, f"cluster-{name}/p")
        return is_its and "spec" in flight.body

    @override
    def act_as_user(self) -> None:
        name = self.random.choice(NAMES)
        if self.model.get(KKP_CLUSTERS, name):
            self.model.delete(KKP_CLUSTERS, name)
            if self.random.random() < 0.5:
                self._collect_garbage()
            return
        self.make_cluster(name, "y" if self.random.random() < self.plan.others else "x")

    @override
    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        return {
            "resets": (self._delete_allocation,),
            "touches": (self._collect_garbage, self._pause, self._make_by_hand),
            "pool_cycles": (self._resize, self._move_cluster),
            "force": (self._remove_cluster, self._toggle_datacenter),
        }

    def _delete_allocation(self) -> None:
        """Remove an IPAMAllocation, as a person may do."""
        if name := self.pick_name(KKP_ALLOCATIONS):
            self.model.remove_by_force(KKP_ALLOCATIONS, name)

    def _make_by_hand(self) -> None:
        """Create an allocation without addresses and without an owner."""
        self.make_empty_allocation(self.random.choice(NAMES))

    def make_empty_allocation(self, cluster: str) -> None:
        """Create an allocation of pool p without addresses and without an owner."""
        metadata = {"name": "p", "namespace": f"cluster-{cluster}"}
        body = {"metadata": metadata, "spec": {"type": "range", "dc": "x"}}
        self.model.create(KKP_ALLOCATIONS, body)

    def _pause(self) -> None:
        """Pause a cluster, or end its pause."""
        if name := self.pick_name(KKP_CLUSTERS):
            cluster = self.model.get(KKP_CLUSTERS, name) or {}
            paused = {"spec": {"pause": not cluster["spec"]["pause"]}}
            self.model.edit(KKP_CLUSTERS, name, paused)

    def _move_cluster(self) -> None:
        """Move a cluster to another datacenter."""
        if name := self.pick_name(KKP_CLUSTERS):
            patch = {"spec": {"cloud": {"dc": self.random.choice("xy")}}}
            self.model.edit(KKP_CLUSTERS, name, patch)

    def _resize(self) -> None:
        """Let each cluster in datacenter x get one address, or two."""
        self._edit_datacenters({"x": {"allocationRange": self.random.choice((1, 2))}})

    def _toggle_datacenter(self) -> None:
        """Remove datacenter x from pool p, or put it back."""
        pool = self.model.get(KKP_POOLS, "p")
        gone = pool is not None and "x" not in pool["spec"]["datacenters"]
        self._edit_datacenters({"x": copy.deepcopy(DATACENTERS["p"]["x"]) if gone else None})

    def _edit_datacenters(self, change: Json) -> None:
        """Patch the datacenters of pool p, unless the patch would create an incomplete one."""
        pool = self.model.get(KKP_POOLS, "p")
        there = pool is not None and "x" in pool["spec"]["datacenters"]
        if there or (change["x"] or {}).get("type"):
            change = {"spec": {"datacenters": change}}
            self.model.edit(KKP_POOLS, "p", change)

    def _collect_garbage(self) -> None:
        """Remove the allocations without an owner, and the Clusters that are being deleted.

        The garbage collector removes the first, KKP the second together with their allocations.
        """
        uids = {pool["metadata"]["uid"] for pool in self.model.list_objects(KKP_POOLS)}
        gone = {
            f"cluster-{name}"
            for name in NAMES
            if "deletionTimestamp" in ((self.model.get(KKP_CLUSTERS, name) or _GONE)["metadata"])
        }
        for allocation in self.model.list_objects(KKP_ALLOCATIONS):
            meta = allocation["metadata"]
            owners = {owner["uid"] for owner in meta.get("ownerReferences", ())}
            if meta["namespace"] in gone or (owners and not owners & uids):
                name = f"{meta['namespace']}/{meta['name']}"
                self.model.remove_by_force(KKP_ALLOCATIONS, name)
        for namespace in gone:
            self.model.remove_by_force(KKP_CLUSTERS, namespace.removeprefix("cluster-"))

    def _remove_cluster(self) -> None:
        """Remove a Cluster by force, its namespace later."""
        if name := self.pick_name(KKP_CLUSTERS):
            self.model.remove_by_force(KKP_CLUSTERS, name)

    @override
    def prepare_calm(self) -> None:
        """Create all pools with all datacenters; remove what was deleted."""
        super().prepare_calm()
        for name, datacenters in DATACENTERS.items():
            pool = self.model.get(KKP_POOLS, name) or {}
            lost = datacenters.keys() - pool["spec"]["datacenters"].keys()
            whole = {"spec": {"datacenters": {space: datacenters[space] for space in lost}}}
            self.model.edit(KKP_POOLS, name, copy.deepcopy(whole))
        self._collect_garbage()

    @override
    def list_shown(self, request: Json) -> frozenset[Address]:
        space = _find_space(request)
        return frozenset((space, address) for address in list_addresses(request))

    @override
    def list_offered(self, request: Json) -> frozenset[Address]:
        return SPACES.get(_find_space(request), frozenset())

    @override
    def name_space(self, pool: Json, name: str) -> str:
        return f"{pool['metadata']['name']}/{name}"

    @override
    def describe_request(self, request: Json) -> str:
        return f"{request['metadata']['namespace']}/{request['metadata']['name']}"

    @override
    def is_released(self, plural: str, old: Json, new: Json) -> bool:
        return _find_space(old) != _find_space(new)

    @override
    def list_unserved(self) -> Iterator[tuple[str, list[Need]]]:
        for cluster in self.model.list_objects(KKP_CLUSTERS):
            for pool in self.model.list_objects(KKP_POOLS):
                if lacking := self._count_missing(cluster, pool):
                    space = f"{pool['metadata']['name']}/{cluster['spec']['cloud']['dc']}"
                    yield _find_namespace(cluster), [Need(SPACES[space], lacking)]

    def _count_missing(self, cluster: Json, pool: Json) -> int:
        """Return how many addresses a cluster lacks of a pool; 0 if it gets none of it."""
        datacenter = cluster["spec"]["cloud"]["dc"]
        expected = pool["spec"]["datacenters"].get(datacenter)
        if expected is None or not _is_served(cluster):
            return 0
        name = f"{_find_namespace(cluster)}/{pool['metadata']['name']}"
        allocation = self.model.get(KKP_ALLOCATIONS, name)
        is_of_datacenter = allocation is not None and allocation["spec"]["dc"] == datacenter
        count = len(list_addresses(allocation)) if is_of_datacenter else 0
        return max(int(expected.get("allocationRange", 2)) - count, 0)

    @override
    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if plural != KKP_ALLOCATIONS or new is None or list_addresses(old) == list_addresses(new):
            return
        name, before, now = self.describe_request(new), list_addresses(old), list_addresses(new)
        stays = old is not None and _find_space(old) == _find_space(new)
        if stays and now[: len(before)] != before:
            yield f"{name} has its addresses in another order now"
        if len(now) > MOST or len(set(now)) < len(now):
            shown_addresses = join_addresses(self.list_shown(new))
            yield f"{name} got {shown_addresses}, more than was ever requested"
        if new["spec"].get("cidr") and new["spec"].get("addresses"):
            yield f"{name} has a prefix and ranges"

    @override
    def find_unfinished_work(self) -> str | None:
        for cluster in self.model.list_objects(KKP_CLUSTERS):
            lacking = [
                pool
                for pool in self.model.list_objects(KKP_POOLS)
                if self._count_missing(cluster, pool)
            ]
            conditions = (cluster.get("status") or {}).get("conditions", {})
            condition = conditions.get(CONDITION, {})
            if _is_served(cluster) and (condition.get("status") == "False") != bool(lacking):
                return f"{_find_namespace(cluster)} lacks {len(lacking)} and says {condition}"
        for allocation in self.model.list_objects(KKP_ALLOCATIONS):
            name = allocation["metadata"]["namespace"].removeprefix("cluster-")
            home = self.model.get(KKP_CLUSTERS, name)
            if home is None or not _is_served(home):
                continue
            if not list_addresses(allocation):
                return f"{self.describe_request(allocation)} stays without addresses"
            if home["spec"]["cloud"]["dc"] not in DATACENTERS[allocation["metadata"]["name"]]:
                name = self.describe_request(allocation)
                return f"{name} is of a datacenter that its pool does not have"
        return None


def list_addresses(allocation: Json | None) -> list[IPv4Address | IPv6Address]:
    """Return the addresses of an allocation, in their order."""
    spec: Json = (allocation or {}).get("spec") or {}
    addresses: list[IPv4Address | IPv6Address] = []
    if spec.get("cidr"):
        addresses += IPv4Network(spec["cidr"])
    for part in spec.get("addresses") or ():
        addresses += expand_range(*part.split("-"))
    return addresses


def _find_space(allocation: Json) -> str:
    """Return the space of an allocation: its pool and its datacenter."""
    return f"{allocation['metadata']['name']}/{allocation['spec']['dc']}"


def _is_served(cluster: Json) -> bool:
    """Return whether a cluster is neither paused nor being deleted."""
    return not cluster["spec"].get("pause") and "deletionTimestamp" not in cluster["metadata"]


def _find_namespace(cluster: Json) -> str:
    """Return the namespace of a cluster."""
    return f"cluster-{cluster['metadata']['name']}"


_GONE: Json = {"metadata": {"deletionTimestamp": "gone"}}
