"""Vitistack's networks under the same chaos: replicas, lost requests, lags, deaths, edits."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import msgspec
from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.meta import Object, ObjectMeta, Version
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.integrations.core.contents import SPACE_INDEX
from reconcilers.integrations.core.journal import ANNOTATION, Journal, journal_patch
from reconcilers.integrations.vitistack import api
from reconcilers.integrations.vitistack.allocations import AllocationReconciler
from reconcilers.integrations.vitistack.configurations import ConfigurationReconciler
from reconcilers.integrations.vitistack.networks import NetworkReconciler
from reconcilers.integrations.vitistack.reading import Reader
from reconcilers.integrations.vitistack.world import (
    CONFIGURATION_INDEX,
    NAMESPACE_INDEX,
    World,
    configuration_name,
    namespace_of,
    space_name,
)
from reconcilers.integrations.vitistack.writing import Writer
from reconcilers.settings import PoolSettings
from tests.clock import VirtualClock
from tests.reconcilers.simulation.chaos import NAMES, Run
from tests.reconcilers.simulation.laws import SPANS, Judge
from tests.reconcilers.simulation.networklaws import NetworkJudge, address, both_have, left_undone
from tests.reconcilers.simulation.replica import Feed, Passes, Silent
from tests.reconcilers.simulation.wire import Flight, Wire
from tests.reconcilers.simulation.world import INTERFACES, KINDS, NETWORK_ADDRESSES, NETWORKS, Json
from tests.reconcilers.simulation.world import World as Server

MACHINES = ("m0", "m1")
PROVIDER = "butler-ipam"


class NetworkReplica(Passes):
    """A process that believes it leads, and serves vitistack's networks."""

    def __init__(
        self,
        server: Server,
        flights: list[Flight],
        clock: VirtualClock,
        rnd: Random,
        *,
        patience: float,
    ) -> None:
        by_namespace = {NAMESPACE_INDEX: namespace_of}
        networks = Cache(api.NETWORKS, indexes=by_namespace)
        configurations = Cache(api.CONFIGURATIONS, indexes=by_namespace)
        allocations = Cache(
            api.ALLOCATIONS,
            indexes={SPACE_INDEX: space_name, CONFIGURATION_INDEX: configuration_name},
        )
        caches: dict[str, Cache[Any]] = {
            KINDS[NETWORKS]: networks,
            KINDS[NETWORK_ADDRESSES]: allocations,
            KINDS[INTERFACES]: configurations,
        }

        def answered(resource: Resource[Any], obj: Object) -> None:
            caches[resource.kind].apply_own_write(obj)

        def deleted(resource: Resource[Any], version: Version) -> None:
            caches[resource.kind].mark_deleted(version)

        client = Client(
            Wire(flights),
            on_object=answered,
            on_deleted=deleted,
            field_manager=names.FIELD_MANAGER,
        )
        world = World(networks, allocations, configurations, PROVIDER)
        settings, recorder = PoolSettings(foreign_patience=patience), cast("Recorder", Silent())
        writer = Writer(client, recorder, clock, settings.width)
        reader = Reader(client, world, clock, settings.cache_patience)
        of_networks = NetworkReconciler(
            client, world, reader, writer, recorder=recorder, clock=clock, settings=settings
        )
        self.networks = Feed(networks, server.history[NETWORKS], server)
        self.allocations = Feed(allocations, server.history[NETWORK_ADDRESSES], server)
        self.configurations = Feed(configurations, server.history[INTERFACES], server)
        of_allocations = AllocationReconciler(client, world, writer, recorder, clock)
        super().__init__(
            rnd,
            (self.networks, self.allocations, self.configurations),
            (
                (of_networks.reconcile, (self.networks,)),
                (of_allocations.reconcile, (self.allocations,)),
                (
                    ConfigurationReconciler(client, world, clock).reconcile,
                    (self.configurations,),
                ),
            ),
        )


@dataclass
class NetworkRun(Run):
    """One seed of the networks' simulation, played."""

    @override
    def _make_judge(self) -> Judge:
        return NetworkJudge(self.world)

    @override
    def _replica(self, *, stale: bool) -> Passes:
        patience = self.plan.patience
        made = NetworkReplica(self.world, self.flights, self.clock, self.random, patience=patience)
        made.boot(stale=stale)
        return made

    @override
    def _overlap(self) -> str | None:
        return both_have(self.world)

    @override
    def _unserved(self) -> str | None:
        return left_undone(self.world)

    @override
    def _user(self) -> None:
        network = "q" if self.random.random() < self.plan.others else "p"
        if self.random.random() < 0.4:
            self._machine(network)
            return
        name = self.random.choice(NAMES)
        if self.world.get(NETWORK_ADDRESSES, name):
            self.world.delete(NETWORK_ADDRESSES, name)
            return
        spec: Json = {"networkNamespaceName": network, "networkConfigurationName": f"of-{name}"}
        if self.random.random() < 0.4:
            first, last = SPANS[network]
            spec["requestedAddress"] = address(self.random.randint(first, last + 1))
        self.world.create(NETWORK_ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    def _machine(self, network: str) -> None:
        """Make or delete a NetworkConfiguration; deleted ones' allocations are collected."""
        name = self.random.choice(MACHINES)
        if self.world.get(INTERFACES, name):
            self.world.delete(INTERFACES, name)
            return
        interfaces = [{"name": f"eth{n}"} for n in range(self.random.choice((1, 1, 2)))]
        spec = {"networkNamespaceName": network, "networkInterfaces": interfaces}
        self.world.create(INTERFACES, {"metadata": {"name": name}, "spec": spec})

    @override
    def _harm(self) -> None:
        plan = self.plan
        kinds: tuple[tuple[bool, tuple[Callable[[], object], ...]], ...] = (
            (plan.resets, (self._reset,)),
            (plan.touches, (self._touch, self._collect)),
            (plan.pool_cycles, (self._cycle_pool, self._force_pool, self._gate)),
            (plan.wipes, (self._wipe,)),
            (plan.restores, (self._restore,)),
            (plan.force, (self._vanish,)),
        )
        options = [harm for wanted, harms in kinds if wanted for harm in harms]
        if options:
            self.random.choice(options)()

    def _some(self, plural: str) -> str | None:
        found = [obj["metadata"]["name"] for obj in self.world.of(plural)]
        return self.random.choice(found) if found else None

    @override
    def _reset(self) -> None:
        if name := self._some(NETWORK_ADDRESSES):
            nothing = {"status": dict.fromkeys(("phase", "address", "message"))}
            self.world.patch(NETWORK_ADDRESSES, name, nothing, status=True, guarded=False)

    @override
    def _touch(self) -> None:
        if name := self._some(NETWORK_ADDRESSES):
            label = {"metadata": {"labels": {"touched": str(self.world.revision)}}}
            self.world.patch(NETWORK_ADDRESSES, name, label, guarded=False)

    def _collect(self) -> None:
        """Collect the allocations whose owner is gone."""
        there = {one["metadata"]["uid"] for one in self.world.of(INTERFACES)}
        for one in self.world.of(NETWORK_ADDRESSES):
            owners = {owner["uid"] for owner in one["metadata"].get("ownerReferences", ())}
            if owners and not owners & there:
                self.world.vanish(NETWORK_ADDRESSES, one["metadata"]["name"])

    def _vanish(self) -> None:
        """Remove a NetworkConfiguration by force, finalizer or not."""
        if name := self._some(INTERFACES):
            self.world.vanish(INTERFACES, name)

    def _gate(self) -> None:
        """Say that a network is provisioned, or not any more."""
        network = self.world.get(NETWORKS, "p")
        if network is not None:
            ready = network["status"].get("provisioningPhase") == "Ready"
            phase = {"status": {"provisioningPhase": "Pending" if ready else "Ready"}}
            self.world.patch(NETWORKS, "p", phase, status=True, guarded=False)

    @override
    def _cycle_pool(self) -> None:
        if self.world.get(NETWORKS, "p"):
            self.world.delete(NETWORKS, "p")
        else:
            self._make_pool("p")

    @override
    def _force_pool(self) -> None:
        pool = self.world.get(NETWORKS, "p")
        journal = ((pool or {}).get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
        self.world.vanish(NETWORKS, "p")
        self._make_pool("p")
        if journal and self.random.random() < 0.5:  # as a backup brings it back
            kept = {"metadata": {"annotations": {ANNOTATION: journal}}}
            self.world.patch(NETWORKS, "p", kept, guarded=False)

    @override
    def _restore(self) -> None:
        """Give the network the memory of a history that is not ours."""
        network = self.world.get(NETWORKS, "p")
        if network is not None:
            meta = msgspec.convert(network["metadata"], ObjectMeta)
            patch = journal_patch(meta, Journal(self.world.revision + 100_000))
            self.world.patch(NETWORKS, "p", dict(patch), guarded=False)

    @override
    def _wipe(self) -> None:
        if self.world.get(NETWORKS, "p"):
            nothing = {"metadata": {"annotations": {ANNOTATION: None}}}
            self.world.patch(NETWORKS, "p", nothing, guarded=False)

    @override
    def _make_pool(self, name: str, status: Json | None = None) -> None:
        make_network(self.world, name)

    @override
    def _prepare_calm(self) -> None:
        """Have all networks there and provisioned, and what has no owner collected."""
        self.judge.paused = True
        for name in SPANS:
            if self.world.get(NETWORKS, name) is None:
                make_network(self.world, name)
            ready = {"status": {"provisioningPhase": "Ready"}}
            self.world.patch(NETWORKS, name, ready, status=True, guarded=False)
        self._collect()
        self.judge.paused = False


def make_network(world: Server, name: str) -> None:
    """Make a network of a few addresses, provisioned."""
    first, last = SPANS[name]
    static = {
        "ipv4CIDR": "10.0.0.0/24",
        "ipv4Gateway": "10.0.0.1",
        "ipv4RangeStart": address(first),
        "ipv4RangeEnd": address(last),
        "ttlSeconds": 36_000,  # longer than a run, in which passes come without being due
    }
    world.create(
        NETWORKS,
        {
            "metadata": {"name": name},
            "spec": {"ipAllocation": {"type": "static", "static": static}},
            "status": {"provisioningPhase": "Ready"},
        },
    )
