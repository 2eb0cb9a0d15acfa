"""Scenes in which one rule of giving back is all that keeps an address out of two places."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from controller.meta import Key
from controller.testing import HeldRequest
from reconcilers.api import names
from tests.clock import settle
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, address_of, service
from tests.reconcilers.lab import Replica
from tests.reconcilers.simulation import tenantlaws
from tests.reconcilers.simulation.chaos import keep_quiet
from tests.reconcilers.simulation.routes import arrive
from tests.reconcilers.simulation.tenancy import WAIT, Faults, Tenancy

Late = Callable[[HeldRequest], bool]
TENANT = Key("team", "a")
FIRST, SECOND, THIRD = (f"10.40.0.{number}" for number in range(3))


def nothing(_: HeldRequest) -> bool:
    """Nothing is late."""
    return False


def write_of_pool(method: str) -> Late:
    """Return a matcher for a certain write of the tenant's pool, or of its offer."""
    kinds = ("/ipaddresspools", "/addressoffers", "/ciliumloadbalancerippools")
    return lambda packet: packet.method == method and any(k in packet.path for k in kinds)


class Yard(Tenancy):
    """Two replicas and a tenant that holds one address; who works when is said by the scene."""

    def __init__(self, group: TaskGroup, faults: Faults | None = None) -> None:
        super().__init__(0, faults)
        self.group = group
        self.late: list[HeldRequest] = []
        self.one, self.other = self.replicas
        self.hold_range("team-a-lb", FIRST)

    def hold_range(self, name: str, address: str) -> None:
        """Make an allocation of the tenant that holds an address."""
        body = make.allocation(name, tenant="team/a", size=1, held_range=(address, address))
        self.server.add("ipallocations", body)

    async def project(self, replica: Replica, late: Late = nothing, *, wait: bool = False) -> None:
        """Let a replica work on the tenant; late requests run later, and the sender may wait."""
        await self.work(replica, replica.clusters, key=TENANT, late=late, wait=wait)

    async def give_back(self, name: str, late: Late = nothing, *, delete: bool = True) -> None:
        """Let the other replica take an allocation back."""
        if delete:
            self.server.delete("ipallocations", name)
        for _ in range(4):
            await self.work(self.other, self.other.allocations, key=make.key(name), late=late)
            if self.server.has("tenantclusters", "a", namespace="team"):
                await self.project(self.other, late)

    async def work(
        self, replica: Replica, reconciler: Any, key: Key, late: Late, *, wait: bool = False
    ) -> None:
        """Let a replica work on an object until it is done or waits for what is late."""
        self._begin(self.group, replica, reconciler=reconciler, key=key)
        await settle()
        while self.packets:
            packet = self.packets.pop(0)
            if late(packet):
                self.late.append(packet)
                if not wait:
                    packet.land()
            else:
                arrive(packet)
            await settle()

    async def arrive(self) -> None:
        """Let what is late run, and those who waited for it go on."""
        late, self.late = self.late, []
        for packet in late:
            arrive(packet)
            await settle()
        while self.packets:
            arrive(self.packets.pop(0))
            await settle()

    def verdict(self) -> str | None:
        """Return the present violation."""
        return self.problem or None


Scene = Callable[[Yard], Awaitable[str | None]]


def play_scene(scene: Scene, make_yard: Callable[[TaskGroup], Yard] = Yard) -> str | None:
    """Play a scene; return what went wrong, None if nothing did."""

    async def play() -> str | None:
        async with anyio.create_task_group() as group:
            verdict = await scene(make_yard(group))
            group.cancel_scope.cancel()
        return verdict

    with keep_quiet(silent=True):
        return asyncio.run(play())


async def late_projection(yard: Yard) -> str | None:
    """One replica's projection is on its way while the other takes a range of it back."""
    yard.hold_range("team-a-lb-1", SECOND)
    await yard.project(yard.one)
    yard.hold_range("team-a-lb-2", THIRD)
    await yard.project(yard.one, write_of_pool("PATCH"))
    await yard.give_back("team-a-lb-1")
    await yard.arrive()
    return yard.verdict()


async def old_view(yard: Yard, *, wrote: bool = False) -> str | None:
    """One replica has not heard that a range was taken back, and projects."""
    yard.hold_range("team-a-lb-1", SECOND)
    await yard.project(yard.one)
    yard.one.hold("ipallocations")
    await yard.give_back("team-a-lb-1")
    if wrote:
        note_own_write(yard)
    for _ in range(2):
        await yard.project(yard.one)
    return yard.verdict()


async def old_view_of_one_who_wrote(yard: Yard) -> str | None:
    """The same, and the answer to a write of its own is newer than all that."""
    return await old_view(yard, wrote=True)


def note_own_write(yard: Yard) -> None:
    """Let a replica that hears of no allocations have the answer to a write of its own."""
    note = {"metadata": {"annotations": {"note": "mine"}}}
    answer = yard.server.edit("ipallocations", "team-a-lb", note)
    cache = yard.one.caches["ipallocations"]
    cache.apply_own_write(msgspec.convert(answer, cache.resource.type))


async def taken_back_before_it_was_projected(yard: Yard) -> str | None:
    """A range is taken back while its first projection is on its way."""
    await yard.project(yard.one)
    yard.hold_range("team-a-lb-1", SECOND)
    await yard.project(yard.one, write_of_pool("PATCH"))
    yard.server.delete("ipallocations", "team-a-lb-1")
    for _ in range(2):
        await yard.work(
            yard.other, yard.other.allocations, key=make.key("team-a-lb-1"), late=nothing
        )
    await yard.arrive()
    return yard.verdict()


async def late_creation(yard: Yard, *, wait: bool = False) -> str | None:
    """The tenant's pool is being created while its only range is taken back."""
    await yard.project(yard.one, write_of_pool("POST"), wait=wait)
    yard.server.delete("ipallocations", "team-a-lb")
    for _ in range(3):
        await yard.work(
            yard.other, yard.other.allocations, key=make.key("team-a-lb"), late=nothing
        )
    await yard.arrive()
    return yard.verdict()


async def late_creation_waited_for(yard: Yard) -> str | None:
    """The same, and who creates it goes on when it is there."""
    yard.balancers["a"].paused = True  # What it writes would be in the creator's way.
    yard.one.hold("ipallocations")
    return await late_creation(yard, wait=True)


async def secret_without_answer(yard: Yard) -> str | None:
    """A deleted cluster's Secret cannot be read just then."""
    await yard.project(yard.one)
    yard.server.delete("tenantclusters", "a", namespace="team")
    await yard.work(yard.one, yard.one.clusters, key=TENANT, late=lambda packet: packet.to == "a")
    key = make.key("team-a-lb")
    yard.server.delete("ipallocations", "team-a-lb")
    await yard.work(
        yard.other, yard.other.allocations, key=key, late=lambda p: "/secrets/" in p.path
    )
    return yard.verdict()


async def in_use_again(yard: Yard) -> str | None:
    """A Service takes an address of what shrink has marked."""
    yard.hold_range("team-a-lb-1", SECOND)
    await yard.project(yard.one)
    for name in ("x", "y"):
        service(yard.tenants["a"], name)
    mark = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
    yard.server.edit("ipallocations", "team-a-lb-1", {"metadata": {"annotations": mark}})
    yard.balancers["a"].paused = True
    for _ in range(4):
        await yard.project(yard.other)
        await yard.clock.advance(2)
    return yard.verdict() or tenantlaws.unmet(yard.server, {"a": yard.tenants["a"]})


async def taken_as_it_left(yard: Yard) -> str | None:
    """A Service takes an address of what shrink has marked, after the tenant was last read."""
    tenant = yard.tenants["a"]
    yard.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await yard.project(yard.one)
    service(tenant, "x")
    mark = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
    yard.server.edit("ipallocations", "team-a-lb-1", {"metadata": {"annotations": mark}})
    await yard.project(yard.one, write_of_pool("PATCH"), wait=True)
    service(tenant, "y")
    assert address_of(tenant, "y") == SECOND
    await yard.arrive()
    for _ in range(3):
        await yard.project(yard.one)
    return yard.verdict() or (None if address_of(tenant, "y") else "a Service lost its address")


async def read_before_a_pause(yard: Yard) -> str | None:
    """A range is taken back while MetalLB, which counts, stands still and has the old pool."""
    balancer = yard.balancers["a"]
    if isinstance(balancer, Balancer):
        balancer.counts = True
    yard.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The pool is created empty, and filled then.
        await yard.project(yard.one)
    service(yard.tenants["a"], "x")
    balancer.paused = True
    await yard.give_back("team-a-lb-1")
    service(yard.tenants["a"], "y")
    balancer.resume()
    return yard.verdict()


async def in_use_by_its_second_family(yard: Yard) -> str | None:
    """A Service of IPv6 keeps its address for a while when a range of both families is deleted."""
    families = [
        {"family": "IPv4", "startAddress": SECOND, "endAddress": SECOND},
        {"family": "IPv6", "startAddress": "fd00::1", "endAddress": "fd00::1"},
    ]
    body = make.allocation(
        "team-a-lb-1",
        tenant="team/a",
        held_range=(SECOND, SECOND),
        asks={"ipFamilyPolicy": "RequireDualStack"},
        status={"families": families},
    )
    yard.server.add("ipallocations", body)
    for _ in range(2):  # The pool is created empty, and filled then.
        await yard.project(yard.one)
    service(yard.tenants["a"], "x", spec={"ipFamilies": ["IPv6"]})
    assert [address.text for address in tenantlaws.list_shown_addresses(yard.tenants["a"])] == [
        "fd00::1/128"
    ]
    yard.balancers["a"].paused = True
    await yard.give_back("team-a-lb-1")
    return yard.verdict()


async def put_back_by_a_person(yard: Yard) -> str | None:
    """A person puts a range back into the tenant's offer, between its withdrawal and the check."""
    yard.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await yard.project(yard.one)
    yard.server.delete("ipallocations", "team-a-lb-1")
    await yard.project(yard.other)
    tenant = yard.tenants["a"]
    entries = [f"{FIRST}-{FIRST}", f"{SECOND}-{SECOND}"]
    for offer in tenant.all("addressoffers"):
        meta, change = offer["metadata"], {"spec": {"entries": entries}}
        tenant.edit("addressoffers", meta["name"], change, namespace=meta["namespace"])
    await yard.work(yard.other, yard.other.allocations, key=make.key("team-a-lb-1"), late=nothing)
    return yard.verdict()


async def kinds_gone_twice(yard: Yard) -> str | None:
    """The balancer's kinds go, come back with an older backup, and go again.

    The process reads the range out of the backup, and stands still from then on.
    """
    tenant, balancer = yard.tenants["a"], yard.balancers["a"]
    yard.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await yard.project(yard.one)
    service(tenant, "x")
    backup = tenant.all("addressoffers")
    key = make.key("team-a-lb-1")
    yard.remove_kinds("a")
    yard.server.delete("ipallocations", "team-a-lb-1")
    await yard.work(yard.other, yard.other.allocations, key=key, late=nothing)
    await yard.clock.advance(WAIT - 1)
    tenant.served = yard.served_kinds
    for offer in backup:
        meta = {name: offer["metadata"][name] for name in ("name", "namespace", "annotations")}
        tenant.add("addressoffers", {"metadata": meta, "spec": offer["spec"]})
    balancer.paused = True
    await yard.project(yard.other)
    await yard.work(yard.other, yard.other.allocations, key=key, late=nothing)
    yard.remove_kinds("a")
    await yard.clock.advance(WAIT - 1)
    await yard.work(yard.other, yard.other.allocations, key=key, late=nothing)
    service(tenant, "y")
    balancer.resume()
    return yard.verdict()


async def acknowledged_and_still_shown(yard: Yard) -> str | None:
    """The process acknowledges an offer without a range, and one Service still shows its address.

    LB-IPAM of Cilium does so when a write of a Service's status fails.
    """
    yard.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await yard.project(yard.one)
    tenant = yard.tenants["a"]
    for name in ("x", "y"):
        service(tenant, name)
    yard.balancers["a"].paused = True
    yard.server.delete("ipallocations", "team-a-lb-1")
    await yard.project(yard.other)
    for offer in tenant.all("addressoffers"):
        meta = offer["metadata"]
        seen = {"status": {"observedGeneration": meta["generation"]}}
        tenant.edit("addressoffers", meta["name"], seen, namespace=meta["namespace"])
    await yard.work(yard.other, yard.other.allocations, key=make.key("team-a-lb-1"), late=nothing)
    return yard.verdict()


async def still_shown_by_a_service(yard: Yard) -> str | None:
    """A range is out of the tenant's pool while a Service still shows its address."""
    yard.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The pool is created empty, and filled then.
        await yard.project(yard.one)
    for name in ("x", "y"):
        service(yard.tenants["a"], name)
    shown_addresses = [
        address.text for address in tenantlaws.list_shown_addresses(yard.tenants["a"])
    ]
    assert shown_addresses == [f"{FIRST}/32", f"{SECOND}/32"]
    yard.balancers["a"].paused = True
    await yard.give_back("team-a-lb-1")
    return yard.verdict()


async def late_withdrawal(yard: Yard) -> str | None:
    """The deletion of the tenant's pool is on its way when there is a range for it again."""
    await yard.project(yard.one)
    yard.server.edit(
        "ipallocations",
        "team-a-lb",
        {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}},
    )
    await yard.project(yard.one, write_of_pool("DELETE"))
    yard.hold_range("team-a-lb-1", SECOND)
    await yard.project(yard.other)
    await yard.arrive()
    entries = tenantlaws.entries(yard.tenants["a"])
    return yard.verdict() or (None if entries else "the tenant lost an address that it holds")
