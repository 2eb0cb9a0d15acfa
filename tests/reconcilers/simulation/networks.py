"""Vitistack's networks and IPAllocations: how they are made, edited and read."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import ClassVar

from typing_extensions import override

from controller.cache import Cache
from reconcilers.integrations.vitistack import api
from reconcilers.integrations.vitistack import networks as vitistack_networks
from reconcilers.integrations.vitistack.allocations import AllocationReconciler
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    NAMESPACE_INDEX,
    VitistackCaches,
    list_namespaces_of,
)
from reconcilers.integrations.vitistack.configurations import ConfigurationReconciler
from reconcilers.integrations.vitistack.offers import make_offers
from reconcilers.integrations.vitistack.reading import VitistackReader
from reconcilers.integrations.vitistack.writing import VitistackWriter
from reconcilers.promises.passes import PoolPasses
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex
from tests.reconcilers.simulation.adapter import (
    FIRST,
    NAMES,
    SPANS,
    Adapter,
    Address,
    Disturbance,
    Figure,
    Figures,
    Need,
)
from tests.reconcilers.simulation.model import INTERFACES, NETWORK_ADDRESSES, NETWORKS, Json
from tests.reconcilers.simulation.replica import Process, Worker, World
from tests.reconcilers.simulation.wire import Flight

LOWEST = 100
"""The first address of the first network; the lowest ones of the subnet are never handed out."""
MACHINES = ("m0", "m1")
PROVIDER = "butler-ipam"


class NetworkReplica(Process):
    """A process that serves vitistack's networks."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        by_namespace = {NAMESPACE_INDEX: list_namespaces_of}
        networks = Cache(api.NETWORKS, indexes=by_namespace)
        configurations = Cache(api.CONFIGURATIONS, indexes=by_namespace)
        allocations = Cache(
            api.ALLOCATIONS,
            indexes=ALLOCATION_INDEXES,
        )
        self.pools = self._create_feed(NETWORKS, networks)
        self.askers = self.allocations = self._create_feed(NETWORK_ADDRESSES, allocations)
        self.configurations = self._create_feed(INTERFACES, configurations)
        client, clock = self._create_client(), self.clock
        settings, recorder = self.settings, self.recorder
        caches = VitistackCaches(
            networks, allocations, configurations=configurations, provider=PROVIDER
        )
        writer = VitistackWriter(client, recorder, clock=clock, settings=settings)
        reader = VitistackReader(client, caches, clock=clock, patience=settings.cache_patience)
        spaces = SpaceIndex()
        feed(spaces, networks, make_offers)
        kind = vitistack_networks.Networks(
            client,
            caches,
            reader=reader,
            writer=writer,
            recorder=recorder,
            clock=clock,
            settings=settings,
            spaces=spaces,
        )
        of_networks = PoolPasses(kind, client, clock=clock, settings=settings)
        of_allocations = AllocationReconciler(
            client, caches, writer=writer, recorder=recorder, clock=clock
        )
        of_configurations = ConfigurationReconciler(client, caches, clock)
        return (
            Worker(
                of_networks.reconcile, (self.pools,), find_pool=None, forget=of_networks.forget
            ),
            Worker(of_allocations.reconcile, (self.allocations,)),
            Worker(of_configurations.reconcile, (self.configurations,)),
        )


def make_address(number: int) -> str:
    """Return the address of network p or q with a number of SPANS."""
    return f"{FIRST}{LOWEST + number}"


def network_addresses(network: str) -> frozenset[Address]:
    """Return the addresses of a network."""
    first, last = SPANS[network]
    return frozenset(("", ip_address(make_address(number))) for number in range(first, last + 1))


class Networks(Adapter):
    """Vitistack's NetworkNamespaces that serve its IPAllocations."""

    pools = NETWORKS
    requests: ClassVar[tuple[str, ...]] = (NETWORK_ADDRESSES,)
    resets: ClassVar[Mapping[str, Json]] = {
        NETWORK_ADDRESSES: {"status": {"phase": None, "address": None, "message": None}}
    }

    @override
    def make_replica(self, world: World) -> Process:
        return NetworkReplica(world)

    @override
    def make_pool(self, name: str) -> None:
        """Create a network that is provisioned, with the addresses of SPANS."""
        if self.model.get(NETWORKS, name):
            return
        first, last = SPANS[name]
        static = {
            "ipv4CIDR": "10.0.0.0/24",
            "ipv4Gateway": "10.0.0.1",
            "ipv4RangeStart": make_address(first),
            "ipv4RangeEnd": make_address(last),
            "ttlSeconds": 36_000,  # longer than a run, in which passes come without being due
        }
        body = {
            "metadata": {"name": name},
            "spec": {"ipAllocation": {"type": "static", "static": static}},
            "status": {"provisioningPhase": "Ready"},
        }
        self.model.create(NETWORKS, body)

    @override
    def create_request(self, name: str, count: int = 1, since: str = "") -> None:
        spec = {"networkNamespaceName": "p", "networkConfigurationName": "missing"}
        self.model.create(NETWORK_ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    @override
    def find_request(self, name: str) -> Json | None:
        return self.model.get(NETWORK_ADDRESSES, name)

    @override
    def is_grant(self, flight: Flight, name: str) -> bool:
        is_its = (flight.method, flight.plural, flight.name) == ("PATCH", NETWORK_ADDRESSES, name)
        return is_its and bool(flight.body.get("status", {}).get("address"))

    @override
    def act_as_user(self) -> None:
        network = self.pick_pool()
        if self.random.random() < 0.4:
            self._create_or_delete_machine(network)
            return
        name = self.random.choice(NAMES)
        if self.model.get(NETWORK_ADDRESSES, name):
            self.model.delete(NETWORK_ADDRESSES, name)
            return
        spec: Json = {"networkNamespaceName": network, "networkConfigurationName": f"of-{name}"}
        if self.random.random() < 0.4:
            first, last = SPANS[network]
            spec["requestedAddress"] = make_address(self.random.randint(first, last + 1))
        self.model.create(NETWORK_ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    def _create_or_delete_machine(self, network: str) -> None:
        """Create a NetworkConfiguration, or delete it and leave its allocations."""
        name = self.random.choice(MACHINES)
        if self.model.get(INTERFACES, name):
            self.model.delete(INTERFACES, name)
            return
        interfaces = [{"name": f"eth{n}"} for n in range(self.random.choice((1, 1, 2)))]
        spec = {"networkNamespaceName": network, "networkInterfaces": interfaces}
        self.model.create(INTERFACES, {"metadata": {"name": name}, "spec": spec})

    @override
    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        return {
            "touches": (self._collect_garbage,),
            "pool_cycles": (self._change_phase,),
            "force": (self._remove_machine,),
        }

    def _collect_garbage(self) -> None:
        """Remove the allocations whose owner does not exist, as the garbage collector does."""
        uids = {machine["metadata"]["uid"] for machine in self.model.list_objects(INTERFACES)}
        for allocation in self.model.list_objects(NETWORK_ADDRESSES):
            meta = allocation["metadata"]
            owners = {owner["uid"] for owner in meta.get("ownerReferences", ())}
            if owners and not owners & uids:
                self.model.remove_by_force(NETWORK_ADDRESSES, meta["name"])

    def _remove_machine(self) -> None:
        """Remove a NetworkConfiguration by force."""
        if name := self.pick_name(INTERFACES):
            self.model.remove_by_force(INTERFACES, name)

    def _change_phase(self) -> None:
        """Change whether network p is provisioned."""
        network = self.model.get(NETWORKS, "p")
        if network is not None:
            ready = network["status"].get("provisioningPhase") == "Ready"
            patch = {"status": {"provisioningPhase": "Pending" if ready else "Ready"}}
            self.model.edit(NETWORKS, "p", patch)

    @override
    def prepare_calm(self) -> None:
        """Create missing networks, provision all networks, remove allocations without an owner."""
        super().prepare_calm()
        for network in SPANS:
            ready = {"status": {"provisioningPhase": "Ready"}}
            self.model.edit(NETWORKS, network, ready)
        self._collect_garbage()

    @override
    def list_shown(self, request: Json) -> frozenset[Address]:
        status: Json = request.get("status") or {}
        if not status.get("address") or status.get("phase") == "Released":
            return frozenset()
        return frozenset({("", ip_address(status["address"]))})

    @override
    def list_offered(self, request: Json) -> frozenset[Address]:
        return network_addresses(request["spec"]["networkNamespaceName"])

    @override
    def is_released(self, plural: str, old: Json, new: Json) -> bool:
        return _read_phase(new) == "Released"

    @override
    def list_unserved(self) -> Iterator[tuple[str, list[Need]]]:
        for allocation in self.model.list_objects(NETWORK_ADDRESSES):
            if _read_phase(allocation) not in {"Allocated", "Released"}:
                yield self.describe_request(allocation), [Need(self._list_choice(allocation))]

    def _list_choice(self, allocation: Json) -> frozenset[Address]:
        """Return the addresses that an allocation may get."""
        requested = allocation["spec"].get("requestedAddress")
        offered = self.list_offered(allocation)
        return offered & {("", ip_address(requested))} if requested else offered

    @override
    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if new is None:
            return
        if plural == INTERFACES and _read_phase(new) == "Ready":
            name, status = new["metadata"]["name"], new["status"]
            expected = [interface["name"] for interface in new["spec"]["networkInterfaces"]]
            served_addresses = [
                interface["name"]
                for interface in status["networkInterfaces"]
                if interface.get("ipv4Addresses")
            ]
            if served_addresses != expected:
                yield f"{name} is Ready with addresses of {served_addresses}, not of {expected}"
        if plural == NETWORK_ADDRESSES:
            before = self.list_shown(old) if old is not None else frozenset()
            requested = new["spec"].get("requestedAddress")
            for _, shown_address in self.list_shown(new) - before:
                if requested and str(shown_address) != requested:
                    name = self.describe_request(new)
                    yield f"{name} requested {requested} and got {shown_address}"

    @override
    def read_figures(self, pool: Json) -> Iterator[Figures]:
        summary = (pool.get("status") or {}).get("ipAllocationSummary") or {}
        status_counts = {
            Figure.TOTAL: summary.get("totalCount"),
            Figure.USED: summary.get("allocatedCount"),
            Figure.FREE: summary.get("availableCount"),
        }
        yield Figures(network_addresses(pool["metadata"]["name"]), status_counts)

    @override
    def find_unfinished_work(self) -> str | None:
        for machine in self.model.list_objects(INTERFACES):
            if problem := self._find_unfinished_of(machine):
                return problem
        return None

    def _find_unfinished_of(self, machine: Json) -> str | None:
        """Return work on a NetworkConfiguration that is not done; None if all is done."""
        name = machine["metadata"]["name"]
        if "deletionTimestamp" in machine["metadata"]:
            return f"{name} is deleted and still there"
        allocations = [
            self.model.get(NETWORK_ADDRESSES, f"{name}-{interface['name']}")
            for interface in machine["spec"]["networkInterfaces"]
        ]
        if not all(allocations):
            return f"{name} lacks IPAllocations"
        ready = all(
            _read_phase(allocation) == "Allocated" for allocation in allocations if allocation
        )
        if ready != (_read_phase(machine) == "Ready"):
            return f"{name} shows {machine.get('status')}, its IPAllocations {allocations}"
        return None


def _read_phase(request: Json) -> str:
    """Return the phase of an object; empty if it has none."""
    return str((request.get("status") or {}).get("phase", ""))
