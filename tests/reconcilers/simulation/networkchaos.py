"""Vitistack's networks under the same chaos: replicas, lost requests, lags, deaths, edits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from controller.cache import Cache
from reconcilers.integrations.vitistack import api
from reconcilers.integrations.vitistack.allocations import AllocationReconciler
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    NAMESPACE_INDEX,
    VitistackCaches,
    namespace_of,
)
from reconcilers.integrations.vitistack.configurations import ConfigurationReconciler
from reconcilers.integrations.vitistack.networks import NetworkReconciler
from reconcilers.integrations.vitistack.offers import offers_of
from reconcilers.integrations.vitistack.reading import Reader
from reconcilers.integrations.vitistack.writing import Writer
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex
from tests.reconcilers.simulation.chaos import NAMES
from tests.reconcilers.simulation.journalchaos import (
    Harm,
    JournalReplica,
    JournalRun,
    Working,
)
from tests.reconcilers.simulation.laws import SPANS, Judge
from tests.reconcilers.simulation.model import (
    INTERFACES,
    NETWORK_ADDRESSES,
    NETWORKS,
    Json,
    ModelServer,
)
from tests.reconcilers.simulation.networklaws import NetworkJudge, address, both_have, left_undone

MACHINES = ("m0", "m1")
PROVIDER = "butler-ipam"


class NetworkReplica(JournalReplica):
    """A process that believes it leads, and serves vitistack's networks."""

    @override
    def _set_up(self) -> Working:
        by_namespace = {NAMESPACE_INDEX: namespace_of}
        networks = Cache(api.NETWORKS, indexes=by_namespace)
        configurations = Cache(api.CONFIGURATIONS, indexes=by_namespace)
        allocations = Cache(
            api.ALLOCATIONS,
            indexes=ALLOCATION_INDEXES,
        )
        self.networks = self._feed(NETWORKS, networks)
        self.allocations = self._feed(NETWORK_ADDRESSES, allocations)
        self.configurations = self._feed(INTERFACES, configurations)
        client, clock = self._client(), self.clock
        settings, recorder = self.settings, self.recorder
        caches = VitistackCaches(networks, allocations, configurations, PROVIDER)
        writer = Writer(client, recorder, clock, settings)
        reader = Reader(client, caches, clock, settings.cache_patience)
        spaces = SpaceIndex()
        feed(spaces, networks, offers_of)
        of_networks = NetworkReconciler(
            client,
            caches,
            reader,
            writer,
            recorder=recorder,
            clock=clock,
            settings=settings,
            spaces=spaces,
        )
        of_allocations = AllocationReconciler(client, caches, writer, recorder, clock)
        of_configurations = ConfigurationReconciler(client, caches, clock)
        return (
            (of_networks.reconcile, (self.networks,)),
            (of_allocations.reconcile, (self.allocations,)),
            (of_configurations.reconcile, (self.configurations,)),
        )


@dataclass
class NetworkRun(JournalRun):
    """One seed of the networks' simulation, played."""

    pools = NETWORKS
    asking = NETWORK_ADDRESSES
    results: ClassVar[Sequence[str]] = ("phase", "address", "message")
    replica: ClassVar[type[JournalReplica]] = NetworkReplica

    @override
    def _make_judge(self) -> Judge:
        return NetworkJudge(self.model)

    @override
    def _overlap(self) -> str | None:
        return both_have(self.model)

    @override
    def _unserved(self) -> str | None:
        return left_undone(self.model)

    @override
    def _user(self) -> None:
        network = "q" if self.random.random() < self.plan.others else "p"
        if self.random.random() < 0.4:
            self._machine(network)
            return
        name = self.random.choice(NAMES)
        if self.model.get(NETWORK_ADDRESSES, name):
            self.model.delete(NETWORK_ADDRESSES, name)
            return
        spec: Json = {"networkNamespaceName": network, "networkConfigurationName": f"of-{name}"}
        if self.random.random() < 0.4:
            first, last = SPANS[network]
            spec["requestedAddress"] = address(self.random.randint(first, last + 1))
        self.model.create(NETWORK_ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    def _machine(self, network: str) -> None:
        """Make or delete a NetworkConfiguration; deleted ones' allocations are collected."""
        name = self.random.choice(MACHINES)
        if self.model.get(INTERFACES, name):
            self.model.delete(INTERFACES, name)
            return
        interfaces = [{"name": f"eth{n}"} for n in range(self.random.choice((1, 1, 2)))]
        spec = {"networkNamespaceName": network, "networkInterfaces": interfaces}
        self.model.create(INTERFACES, {"metadata": {"name": name}, "spec": spec})

    @override
    def _harms(self) -> dict[str, list[Harm]]:
        harms = super()._harms()
        harms["touches"].append(self._collect)
        harms["pool_cycles"].append(self._gate)
        return harms | {"force": [self._vanish]}

    def _collect(self) -> None:
        """Collect the allocations whose owner is gone."""
        there = {one["metadata"]["uid"] for one in self.model.of(INTERFACES)}
        for one in self.model.of(NETWORK_ADDRESSES):
            owners = {owner["uid"] for owner in one["metadata"].get("ownerReferences", ())}
            if owners and not owners & there:
                self.model.vanish(NETWORK_ADDRESSES, one["metadata"]["name"])

    def _vanish(self) -> None:
        """Remove a NetworkConfiguration by force, finalizer or not."""
        if name := self._some(INTERFACES):
            self.model.vanish(INTERFACES, name)

    def _gate(self) -> None:
        """Say that a network is provisioned, or not any more."""
        network = self.model.get(NETWORKS, "p")
        if network is not None:
            ready = network["status"].get("provisioningPhase") == "Ready"
            phase = {"status": {"provisioningPhase": "Pending" if ready else "Ready"}}
            self.model.patch(NETWORKS, "p", phase, status=True, guarded=False)

    @override
    def _make_pool(self, name: str, status: Json | None = None) -> None:
        make_network(self.model, name)

    @override
    def _prepare_calm(self) -> None:
        """Have all networks there and provisioned, and what has no owner collected."""
        self.judge.paused = True
        for name in SPANS:
            if self.model.get(NETWORKS, name) is None:
                make_network(self.model, name)
            ready = {"status": {"provisioningPhase": "Ready"}}
            self.model.patch(NETWORKS, name, ready, status=True, guarded=False)
        self._collect()
        self.judge.paused = False


def make_network(model: ModelServer, name: str) -> None:
    """Make a network of a few addresses, provisioned."""
    first, last = SPANS[name]
    static = {
        "ipv4CIDR": "10.0.0.0/24",
        "ipv4Gateway": "10.0.0.1",
        "ipv4RangeStart": address(first),
        "ipv4RangeEnd": address(last),
        "ttlSeconds": 36_000,  # longer than a run, in which passes come without being due
    }
    model.create(
        NETWORKS,
        {
            "metadata": {"name": name},
            "spec": {"ipAllocation": {"type": "static", "static": static}},
            "status": {"provisioningPhase": "Ready"},
        },
    )
