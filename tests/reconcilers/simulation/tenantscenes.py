"""Scenes in which one rule of releasing keeps an address from being at two places.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

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
from tests.reconcilers.balancer import Balancer, add_service, find_address
from tests.reconcilers.lab import Replica
from tests.reconcilers.simulation import tenantlaws
from tests.reconcilers.simulation.chaos import play_silently
from tests.reconcilers.simulation.routes import deliver
from tests.reconcilers.simulation.tenancy import WAIT, Faults, Tenancy

Matcher = Callable[[HeldRequest], bool]
TENANT = Key("team", "a")
FIRST, SECOND, THIRD = (f"10.40.0.{number}" for number in range(3))


def match_none(_: HeldRequest) -> bool:
    """Match no request: none is late."""
    return False


def match_pool_writes(method: str) -> Matcher:
    """Return a matcher for the writes of the tenant's pool, or its offer, by an HTTP method."""
    kinds = ("/ipaddresspools", "/addressoffers", "/ciliumloadbalancerippools")
    return lambda packet: packet.method == method and any(k in packet.path for k in kinds)


class TenantStage(Tenancy):
    """Two replicas, and tenant a, which holds one address. The scene starts each pass.

    A late request runs when `arrive` is called. The replicas are called `one` and `other`.

    Args:
        group: runs the passes.
        faults: the settings of the controllers, and which kinds of faults are possible.
    """

    def __init__(self, group: TaskGroup, faults: Faults | None = None) -> None:
        super().__init__(0, faults)
        self.group = group
        self.late_requests: list[HeldRequest] = []
        self.one, self.other = self.replicas
        self.hold_range("team-a-lb", FIRST)

    def hold_range(self, name: str, address: str) -> None:
        """Create an allocation of the tenant that holds an address."""
        body = make.allocation(name, tenant="team/a", size=1, held_range=(address, address))
        self.server.add("ipallocations", body)

    async def project(
        self, replica: Replica, late: Matcher = match_none, *, wait: bool = False
    ) -> None:
        """Let a replica reconcile the tenant; see `work` for late requests."""
        await self.work(replica, replica.clusters, key=TENANT, late=late, wait=wait)

    async def release_by_other(
        self, name: str, late: Matcher = match_none, *, delete: bool = True
    ) -> None:
        """Let the other replica release an allocation.

        Args:
            name: of the allocation.
            late: matches the requests that become late.
            delete: whether to delete the allocation before.
        """
        if delete:
            self.server.delete("ipallocations", name)
        for _ in range(4):
            await self.work(self.other, self.other.allocations, key=make.key(name), late=late)
            if self.server.has("tenantclusters", "a", namespace="team"):
                await self.project(self.other, late)

    async def work(
        self, replica: Replica, reconciler: Any, key: Key, late: Matcher, *, wait: bool = False
    ) -> None:
        """Let a replica reconcile an object until the pass ends or waits for a late request.

        Args:
            reconciler: one of the replica's.
            key: of the object.
            late: matches the requests that become late.
            wait: whether the sender of a late request waits for its answer; else it gets an error.
        """
        self._begin_pass(self.group, replica, reconciler=reconciler, key=key)
        await settle()
        while self.packets:
            packet = self.packets.pop(0)
            if late(packet):
                self.late_requests.append(packet)
                if not wait:
                    packet.land()
            else:
                deliver(packet)
            await settle()

    async def run_late_requests(self) -> None:
        """Run the late requests, and all that their waiting senders send after them."""
        late_requests, self.late_requests = self.late_requests, []
        for packet in late_requests:
            deliver(packet)
            await settle()
        while self.packets:
            deliver(self.packets.pop(0))
            await settle()

    def report_problem(self) -> str | None:
        """Return the violation so far, None if there is none."""
        return self.problem or None


Scene = Callable[[TenantStage], Awaitable[str | None]]


def play_scene(
    scene: Scene, make_stage: Callable[[TaskGroup], TenantStage] = TenantStage
) -> str | None:
    """Play a scene; return the violation, None if there is none."""

    async def play() -> str | None:
        async with anyio.create_task_group() as group:
            verdict = await scene(make_stage(group))
            group.cancel_scope.cancel()
        return verdict

    with play_silently(silent=True):
        return asyncio.run(play())


async def late_projection(stage: TenantStage) -> str | None:
    """The projection of one replica is on its way while the other releases a range of it."""
    stage.hold_range("team-a-lb-1", SECOND)
    await stage.project(stage.one)
    stage.hold_range("team-a-lb-2", THIRD)
    await stage.project(stage.one, match_pool_writes("PATCH"))
    await stage.release_by_other("team-a-lb-1")
    await stage.run_late_requests()
    return stage.report_problem()


async def project_old_view(stage: TenantStage, *, wrote: bool = False) -> str | None:
    """A replica that has not read the release of a range projects that range.

    Args:
        stage: the replicas and the tenant.
        wrote: whether the replica got the answer to an own write, after the release.
    """
    stage.hold_range("team-a-lb-1", SECOND)
    await stage.project(stage.one)
    stage.one.hold_events("ipallocations")
    await stage.release_by_other("team-a-lb-1")
    if wrote:
        note_own_write(stage)
    for _ in range(2):
        await stage.project(stage.one)
    return stage.report_problem()


async def project_old_view_after_own_write(stage: TenantStage) -> str | None:
    """The replica that has not read the release got the answer to an own write after it."""
    return await project_old_view(stage, wrote=True)


def note_own_write(stage: TenantStage) -> None:
    """Give replica `one`, whose cache of allocations lags, the answer to a write of its own."""
    note = {"metadata": {"annotations": {"note": "mine"}}}
    answer = stage.server.edit("ipallocations", "team-a-lb", note)
    cache = stage.one.caches["ipallocations"]
    cache.apply_own_write(msgspec.convert(answer, cache.resource.type))


async def release_before_projection(stage: TenantStage) -> str | None:
    """A range is released while its first projection is on its way."""
    await stage.project(stage.one)
    stage.hold_range("team-a-lb-1", SECOND)
    await stage.project(stage.one, match_pool_writes("PATCH"))
    stage.server.delete("ipallocations", "team-a-lb-1")
    for _ in range(2):
        await stage.work(
            stage.other, stage.other.allocations, key=make.key("team-a-lb-1"), late=match_none
        )
    await stage.run_late_requests()
    return stage.report_problem()


async def release_during_creation(stage: TenantStage, *, wait: bool = False) -> str | None:
    """The only range of the tenant is released while the tenant's pool is being created.

    Args:
        stage: the replicas and the tenant.
        wait: whether the creator waits for the answer, and goes on.
    """
    await stage.project(stage.one, match_pool_writes("POST"), wait=wait)
    stage.server.delete("ipallocations", "team-a-lb")
    for _ in range(3):
        await stage.work(
            stage.other, stage.other.allocations, key=make.key("team-a-lb"), late=match_none
        )
    await stage.run_late_requests()
    return stage.report_problem()


async def release_during_awaited_creation(stage: TenantStage) -> str | None:
    """The only range is released while the pool is being created; its creator goes on then."""
    stage.balancers["a"].paused = True  # What it writes would be in the creator's way.
    stage.one.hold_events("ipallocations")
    return await release_during_creation(stage, wait=True)


async def release_without_readable_secret(stage: TenantStage) -> str | None:
    """The Secret of a deleted cluster cannot be read while its range is released."""
    await stage.project(stage.one)
    stage.server.delete("tenantclusters", "a", namespace="team")
    await stage.work(
        stage.one, stage.one.clusters, key=TENANT, late=lambda packet: packet.server == "a"
    )
    key = make.key("team-a-lb")
    stage.server.delete("ipallocations", "team-a-lb")
    await stage.work(
        stage.other, stage.other.allocations, key=key, late=lambda p: "/secrets/" in p.path
    )
    return stage.report_problem()


async def use_marked_address(stage: TenantStage) -> str | None:
    """A Service takes an address of a range that shrink has marked."""
    stage.hold_range("team-a-lb-1", SECOND)
    await stage.project(stage.one)
    for name in ("x", "y"):
        add_service(stage.tenants["a"], name)
    mark = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
    stage.server.edit("ipallocations", "team-a-lb-1", {"metadata": {"annotations": mark}})
    stage.balancers["a"].paused = True
    for _ in range(4):
        await stage.project(stage.other)
        await stage.clock.advance(2)
    return stage.report_problem() or tenantlaws.find_unserved(
        stage.server, {"a": stage.tenants["a"]}
    )


async def use_address_during_withdrawal(stage: TenantStage) -> str | None:
    """A Service takes a marked address after the tenant was read, and before it is withdrawn."""
    tenant = stage.tenants["a"]
    stage.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await stage.project(stage.one)
    add_service(tenant, "x")
    mark = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
    stage.server.edit("ipallocations", "team-a-lb-1", {"metadata": {"annotations": mark}})
    await stage.project(stage.one, match_pool_writes("PATCH"), wait=True)
    add_service(tenant, "y")
    assert find_address(tenant, "y") == SECOND
    await stage.run_late_requests()
    for _ in range(3):
        await stage.project(stage.one)
    return stage.report_problem() or (
        None if find_address(tenant, "y") else "a Service lost its address"
    )


async def release_during_pause(stage: TenantStage) -> str | None:
    """A range is released while MetalLB, which counts, stands still and has the old pool."""
    balancer = stage.balancers["a"]
    if isinstance(balancer, Balancer):
        balancer.counts_addresses = True
    stage.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The pool is created empty, and filled then.
        await stage.project(stage.one)
    add_service(stage.tenants["a"], "x")
    balancer.paused = True
    await stage.release_by_other("team-a-lb-1")
    add_service(stage.tenants["a"], "y")
    balancer.resume()
    return stage.report_problem()


async def release_used_second_family(stage: TenantStage) -> str | None:
    """An allocation of both families is deleted; a Service still has its IPv6 address."""
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
    stage.server.add("ipallocations", body)
    for _ in range(2):  # The pool is created empty, and filled then.
        await stage.project(stage.one)
    add_service(stage.tenants["a"], "x", spec={"ipFamilies": ["IPv6"]})
    assert [address.text for address in tenantlaws.list_shown_addresses(stage.tenants["a"])] == [
        "fd00::1/128"
    ]
    stage.balancers["a"].paused = True
    await stage.release_by_other("team-a-lb-1")
    return stage.report_problem()


async def offer_again_during_release(stage: TenantStage) -> str | None:
    """A person puts a range back into the tenant's offer, between its withdrawal and the check."""
    stage.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await stage.project(stage.one)
    stage.server.delete("ipallocations", "team-a-lb-1")
    await stage.project(stage.other)
    tenant = stage.tenants["a"]
    entries = [f"{FIRST}-{FIRST}", f"{SECOND}-{SECOND}"]
    for offer in tenant.all("addressoffers"):
        meta, change = offer["metadata"], {"spec": {"entries": entries}}
        tenant.edit("addressoffers", meta["name"], change, namespace=meta["namespace"])
    await stage.work(
        stage.other, stage.other.allocations, key=make.key("team-a-lb-1"), late=match_none
    )
    return stage.report_problem()


async def remove_kinds_twice(stage: TenantStage) -> str | None:
    """The balancer's kinds go, come back with an older backup, and go again.

    The process reads the range from the backup, and stands still from then on.
    """
    tenant, balancer = stage.tenants["a"], stage.balancers["a"]
    stage.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await stage.project(stage.one)
    add_service(tenant, "x")
    backup = tenant.all("addressoffers")
    key = make.key("team-a-lb-1")
    stage.remove_kinds("a")
    stage.server.delete("ipallocations", "team-a-lb-1")
    await stage.work(stage.other, stage.other.allocations, key=key, late=match_none)
    await stage.clock.advance(WAIT - 1)
    tenant.served = stage.served_kinds
    for offer in backup:
        meta = {name: offer["metadata"][name] for name in ("name", "namespace", "annotations")}
        tenant.add("addressoffers", {"metadata": meta, "spec": offer["spec"]})
    balancer.paused = True
    await stage.project(stage.other)
    await stage.work(stage.other, stage.other.allocations, key=key, late=match_none)
    stage.remove_kinds("a")
    await stage.clock.advance(WAIT - 1)
    await stage.work(stage.other, stage.other.allocations, key=key, late=match_none)
    add_service(tenant, "y")
    balancer.resume()
    return stage.report_problem()


async def acknowledge_shown_address(stage: TenantStage) -> str | None:
    """The process acknowledges an offer without a range, and a Service still shows its address.

    LB-IPAM of Cilium does so when a write of a Service's status fails.
    """
    stage.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The offer is created empty, and filled then.
        await stage.project(stage.one)
    tenant = stage.tenants["a"]
    for name in ("x", "y"):
        add_service(tenant, name)
    stage.balancers["a"].paused = True
    stage.server.delete("ipallocations", "team-a-lb-1")
    await stage.project(stage.other)
    for offer in tenant.all("addressoffers"):
        meta = offer["metadata"]
        seen = {"status": {"observedGeneration": meta["generation"]}}
        tenant.edit("addressoffers", meta["name"], seen, namespace=meta["namespace"])
    await stage.work(
        stage.other, stage.other.allocations, key=make.key("team-a-lb-1"), late=match_none
    )
    return stage.report_problem()


async def release_shown_address(stage: TenantStage) -> str | None:
    """A range is out of the tenant's pool while a Service still shows its address."""
    stage.hold_range("team-a-lb-1", SECOND)
    for _ in range(2):  # The pool is created empty, and filled then.
        await stage.project(stage.one)
    for name in ("x", "y"):
        add_service(stage.tenants["a"], name)
    shown_addresses = [
        address.text for address in tenantlaws.list_shown_addresses(stage.tenants["a"])
    ]
    assert shown_addresses == [f"{FIRST}/32", f"{SECOND}/32"]
    stage.balancers["a"].paused = True
    await stage.release_by_other("team-a-lb-1")
    return stage.report_problem()


async def delete_pool_late(stage: TenantStage) -> str | None:
    """The deletion of the tenant's pool is on its way when the tenant gets a range again."""
    await stage.project(stage.one)
    stage.server.edit(
        "ipallocations",
        "team-a-lb",
        {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}},
    )
    await stage.project(stage.one, match_pool_writes("DELETE"))
    stage.hold_range("team-a-lb-1", SECOND)
    await stage.project(stage.other)
    await stage.run_late_requests()
    entries = tenantlaws.list_pool_ranges(stage.tenants["a"])
    return stage.report_problem() or (
        None if entries else "the tenant lost an address that it holds"
    )
