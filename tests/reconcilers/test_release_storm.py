"""No address is ever in the pools of two tenants, nor in a pool whose allocation is gone.

Two replicas that both believe they lead work on two tenants and one small pool. A seed decides all
that happens. Every request, to the management cluster and to the tenants, is in flight until the
seed delivers it: late, after its sender gave up, or with its answer lost. Caches lag, replicas are
replaced, allocations are deleted and marked for release. Then the storm calms down, and all
releases must end, and all held ranges must be in the tenants' pools.
"""

import os
import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio.abc import TaskGroup

from allocator import AddressRange
from controller.errors import ControllerError
from controller.meta import Key
from controller.testing import HeldRequest
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.loadbalancers.metallb.projection import NO_ADDRESS
from tests.clock import VirtualClock, settle
from tests.reconcilers import make
from tests.reconcilers.balancer import list_pool_entries
from tests.reconcilers.lab import SETTINGS_WITHOUT_WAITS, TENANT_KINDS, Lab, Replica
from tests.reconcilers.server import Json, Server
from tests.reconcilers.simulation.routes import Route, deliver

PARTS = 5
SEEDS = max(1, int(os.environ.get("BUTLER_IPAM_TEST_SEEDS", "100")) // 10 // PARTS)
STEPS = 250
TENANTS = ("a", "b")


class Storm:
    """Two replicas on two tenants and one pool, in which a seed decides what happens.

    Attributes:
        flights: requests that have been sent and not been delivered yet.
        busy: the passes that run: the id of the replica, the key and the reconciler.
        number: the number of allocations that have been created.
        problem: the first violation; empty if there was none.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = VirtualClock()
        self.server = Server(self.clock)
        self.tenants = {name: Server(self.clock, TENANT_KINDS) for name in TENANTS}
        self.flights: list[HeldRequest] = []
        self.busy: set[tuple[int, Key, str]] = set()
        self.number = 0
        self.problem = ""
        self.server.add("networkpools", make.pool(cidr="10.40.0.0/30"))
        self.server.add("providerconfigs", make.provider("lab", quota={"maxLoadBalancerIPs": 1}))
        for name in TENANTS:
            self.server.add("tenantclusters", make.tenant(name, status={"phase": "Ready"}))
            lab = SimpleNamespace(server=self.server, tenant_servers={}, clock=self.clock)
            Lab.start_tenant_server(cast("Lab", lab), name)
        for api_server in (self.server, *self.tenants.values()):
            api_server.listeners.append(lambda _: self._find_violations())
        self.replicas = [self._make_replica() for _ in range(2)]

    def _make_replica(self) -> Replica:
        site = SimpleNamespace(
            server=Route(self.server, self.flights),
            clock=self.clock,
            settings=SETTINGS_WITHOUT_WAITS,
            open_tenant=lambda config: Route(self.tenants[config.decode()], self.flights),
        )
        replica = Replica(cast("Lab", site))
        replica.use_real_release_check()
        return replica

    def _find_violations(self) -> None:
        """Set `problem` if an address is in both tenants' pools, or not held by its tenant."""
        pools = {name: _list_entries(tenant) for name, tenant in self.tenants.items()}
        if any(
            entry_of_a.overlaps(entry_of_b)
            for entry_of_a in pools["a"]
            for entry_of_b in pools["b"]
        ):
            self.problem = self.problem or "one address in two tenants' pools"
        for name, entries in pools.items():
            held_ranges = _list_held_ranges(self.server, name)
            if any(
                not any(held_range.contains(entry) for held_range in held_ranges)
                for entry in entries
            ):
                self.problem = self.problem or f"{name} has an address that it does not hold"

    async def play(self) -> str:
        """Return the first violation; empty if there was none."""
        async with anyio.create_task_group() as group:
            for _ in range(STEPS):
                await self._step(group)
                if self.problem:
                    break
            else:
                await self._settle_down(group)
            group.cancel_scope.cancel()
        return self.problem

    async def _step(self, group: TaskGroup) -> None:
        chance = self.random.random()
        if chance < 0.40 and self.flights:
            await self._deliver_one_request()
        elif chance < 0.75:
            self._start_pass(group)
        elif chance < 0.80:
            self._change_allocations()
        elif chance < 0.90:
            replica = self.random.choice(self.replicas)
            if self.random.random() < 0.4:
                replica.hold_events("ipallocations", "tenantclusters")
            else:
                replica.deliver_events()
        elif chance < 0.92:
            self.replicas[self.random.randrange(2)] = self._make_replica()
        else:
            await self.clock.advance(self.random.choice([0.5, 2, 6]))
        await settle()

    async def _deliver_one_request(self) -> None:
        """Deliver a random request; sometimes its sender gave up before, or its answer is lost."""
        flight = self.flights.pop(self.random.randrange(len(self.flights)))
        chance = self.random.random()
        if chance < 0.06 and flight.is_awaited:  # the sender gives up; it runs later
            flight.land()
            self.flights.append(flight)
            return
        deliver(flight, mute=chance > 0.96)

    def _start_pass(self, group: TaskGroup) -> None:
        """Start a random pass of a random replica, unless the same pass still runs."""
        index = self.random.randrange(2)
        replica = self.replicas[index]
        allocations = [allocation.metadata.key for allocation in replica.caches["ipallocations"]]
        passes: list[tuple[Any, Key]] = [
            (replica.clusters, Key("team", self.random.choice(TENANTS))),
            (replica.pools, make.key("lab")),
            *(
                [(replica.allocations, self.random.choice(sorted(allocations)))] * 2
                if allocations
                else []
            ),
        ]
        reconciler, key = self.random.choice(passes)
        mark = (id(replica), key, type(reconciler).__name__)
        if mark not in self.busy:
            self.busy.add(mark)
            group.start_soon(self._run_pass, reconciler, key, mark)

    async def _run_pass(self, reconciler: Any, key: Key, mark: tuple[int, Key, str]) -> None:
        try:
            with suppress(ControllerError):
                await reconciler.reconcile(key)
        finally:
            self.busy.discard(mark)

    def _change_allocations(self) -> None:
        """Create an allocation, or delete one, or mark one for release."""
        present_allocations = [
            o for o in self.server.all("ipallocations") if "deletionTimestamp" not in o["metadata"]
        ]
        chance = self.random.random()
        if chance < 0.4 or not present_allocations:
            self.number += 1
            tenant = f"team/{self.random.choice(TENANTS)}"
            body = make.allocation(f"n{self.number}", tenant=tenant, size=1, uid="")
            self.server.add("ipallocations", body)
            return
        name = self.random.choice(present_allocations)["metadata"]["name"]
        if chance < 0.8:
            self.server.delete("ipallocations", name)
        else:
            note = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
            self.server.edit("ipallocations", name, {"metadata": {"annotations": note}})

    async def _settle_down(self, group: TaskGroup) -> None:
        """Deliver all requests, and run passes until all releases have ended."""
        self.replicas = [self._make_replica()]
        for _ in range(400):
            while self.flights:
                deliver(self.flights.pop())
                await settle()
            self._start_all_passes(group)
            await settle()
            if not self.flights and not self.busy:
                await self.clock.advance(3)
            if self._is_settled():
                return
        self.problem = self.problem or f"it did not calm down: {self._report_entries()}"

    def _start_all_passes(self, group: TaskGroup) -> None:
        """Start a pass of the only replica for each object, unless the same pass still runs."""
        replica = self.replicas[0]
        keys: list[tuple[Any, Key]] = [(replica.pools, make.key("lab"))]
        keys += [(replica.clusters, Key("team", name)) for name in TENANTS]
        keys += [(replica.allocations, o.metadata.key) for o in replica.caches["ipallocations"]]
        for reconciler, key in keys:
            mark = (id(replica), key, type(reconciler).__name__)
            if mark not in self.busy:
                self.busy.add(mark)
                group.start_soon(self._run_pass, reconciler, key, mark)

    def _is_settled(self) -> bool:
        for allocation in self.server.all("ipallocations"):
            is_marked = names.ANNOTATION_RELEASING in (
                allocation["metadata"].get("annotations") or {}
            )
            if is_marked or "deletionTimestamp" in allocation["metadata"]:
                return False
        return all(
            sorted(_list_entries(tenant), key=_get_first_address)
            == sorted(_list_held_ranges(self.server, name), key=_get_first_address)
            for name, tenant in self.tenants.items()
        )

    def _report_entries(self) -> Json:
        return {name: list_pool_entries(tenant) for name, tenant in self.tenants.items()}


def _get_first_address(address_range: AddressRange) -> int:
    return address_range.first


def _list_entries(tenant: Server) -> list[AddressRange]:
    """Return the ranges in the MetalLB pools of a tenant, apart from the placeholder."""
    texts = [pool_entry for pool_entry in list_pool_entries(tenant) if pool_entry != NO_ADDRESS]
    return [
        span for entry in texts if (span := addresstexts.parse_cidr_or_span(entry)) is not None
    ]


def _list_held_ranges(server: Server, tenant: str) -> list[AddressRange]:
    """Return the load balancer ranges that the allocations of a tenant hold."""
    statuses = [
        allocation.get("status") or {}
        for allocation in server.all("ipallocations")
        if allocation["spec"]["tenantClusterRef"]["name"] == tenant
        and allocation["spec"]["type"] == "loadbalancer"
    ]
    spans = [
        addresstexts.parse_ends(s.get("startAddress", ""), s.get("endAddress", ""))
        for s in statuses
    ]
    return [span for span in spans if span is not None]


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_storm_of_releases_leaves_no_address_used_twice_or_lost(
    part: int,
) -> None:
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        problem = await Storm(seed).play()
        assert not problem, f"seed {seed}: {problem}"
