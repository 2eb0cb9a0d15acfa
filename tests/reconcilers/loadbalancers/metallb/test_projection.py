"""No late write brings a released range back, whichever replica freezes before which write."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

import anyio
import pytest
from typing_extensions import override

from controller.outcome import Again
from controller.transport import NO_QUERY, Transport
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import pool_entries
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
BASIS = names.ANNOTATION_PROJECTION_BASIS
HELD = ("10.40.0.0", "10.40.0.7")
OTHER = ("10.40.0.8", "10.40.0.15")


class Frozen(Transport):
    """The way of one replica into the tenant, which freezes before its nth write."""

    def __init__(self, tenant: Server, before_write: int) -> None:
        self.tenant = tenant
        self.left = before_write
        self.thaw = anyio.Event()
        self.froze = anyio.Event()

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        if method != "GET":
            self.left -= 1
            if self.left == 0:
                self.froze.set()
                await self.thaw.wait()
        return await self.tenant.request(
            method, path, query=query, body=body, content_type=content_type
        )

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.tenant.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        await self.tenant.aclose()


def _lab(*held_ranges: tuple[str, str]) -> tuple[Lab, Server]:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    for number, held_range in enumerate(held_ranges or (HELD,)):
        name = f"team-a-lb-{number}" if number else "team-a-lb"
        lab.server.add("ipallocations", make.allocation(name, held_range=held_range))
    return lab, lab.tenant_server("a")


async def _give_back(replica: Replica, lab: Lab, name: str) -> None:
    """Delete an allocation and let another leader give its range back."""
    uid = lab.server.see("ipallocations", name)["metadata"]["uid"]
    lab.server.delete("ipallocations", name)
    replica.gate.real = replica.tenant_gate
    for _ in range(8):
        await replica.clusters.reconcile(make.key("a", "team"))
        if lab.server.has("ipallocations", name):
            await replica.allocations.reconcile(make.key(name))
        await lab.clock.advance(1)
    assert uid not in [
        allocation["metadata"]["uid"] for allocation in lab.server.all("ipallocations")
    ]


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize(
    "held_ranges", [(HELD,), (HELD, OTHER)], ids=["the only one", "one of two"]
)
async def test_a_leader_that_freezes_while_it_creates_the_pool_brings_no_range_back(
    write: int, held_ranges: tuple[tuple[str, str], ...]
) -> None:
    lab, tenant = _lab(*held_ranges)
    ways: list[Transport] = [Frozen(tenant, write), tenant]
    frozen = ways[0]
    assert isinstance(frozen, Frozen)
    lab.open_tenant = lambda kubeconfig: ways.pop(0)  # type: ignore[method-assign]
    first = lab.another()
    other = lab.another()
    async with anyio.create_task_group() as group:
        group.start_soon(first.clusters.reconcile, make.key("a", "team"))
        await frozen.froze.wait()
        await _give_back(other, lab, "team-a-lb")
        frozen.thaw.set()
    assert "10.40.0.0-10.40.0.7" not in pool_entries(tenant)
    for _ in range(3):
        await first.clusters.reconcile(make.key("a", "team"))
    assert "10.40.0.0-10.40.0.7" not in pool_entries(tenant)


async def test_a_pool_is_first_made_in_a_form_without_effect() -> None:
    lab, tenant = _lab()
    await lab.cluster()
    first, second = [h.object for h in tenant.history if h.plural == "ipaddresspools"][:2]
    assert first["spec"] == {"addresses": ["192.0.2.0-192.0.2.0"], "autoAssign": False}
    assert second["spec"] == {"addresses": ["10.40.0.0-10.40.0.7"]}


async def test_a_pool_left_without_effect_is_filled_by_the_next_pass() -> None:
    lab, tenant = _lab()
    tenant.lose_answers(verb="post", plural="ipaddresspools")
    await lab.cluster()
    assert pool_entries(tenant) == ["192.0.2.0-192.0.2.0"]
    await lab.clock.advance(5)
    await lab.cluster()
    assert tenant.see("ipaddresspools", "default-pool", namespace=METALLB)["spec"] == {
        "addresses": ["10.40.0.0-10.40.0.7"]
    }


async def test_a_pool_of_others_is_touched_before_a_range_that_could_come_into_it_is_free() -> (
    None
):
    lab, tenant = _lab()
    begun = {"annotations": {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}}
    lab.server.edit("tenantclusters", "a", {"metadata": begun}, namespace="team")
    theirs = {"metadata": {"name": "default-pool", "namespace": METALLB}}
    balancer_pool = tenant.add("ipaddresspools", theirs | {"spec": {"addresses": ["10.9.0.0/24"]}})
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    remaining = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
    assert remaining["spec"] == {"addresses": ["10.9.0.0/24"]}
    assert remaining["metadata"]["resourceVersion"] != balancer_pool["metadata"]["resourceVersion"]


def _of_another_history(tenant: Server, basis: str = "999999") -> None:
    patch: Json = {
        "metadata": {"annotations": {BASIS: basis}},
        "spec": {"addresses": ["10.1.1.1-10.1.1.1"]},
    }
    tenant.edit("ipaddresspools", "default-pool", patch, namespace=METALLB)


async def test_a_pool_of_a_lost_history_is_written_anew_after_a_list_shows_that_it_is_lost() -> (
    None
):
    lab, tenant = _lab()
    await lab.cluster()
    _of_another_history(tenant)
    for _ in range(5):
        assert await lab.cluster() == Again(1.0)
        await lab.clock.advance(1)
    assert pool_entries(tenant) == ["10.1.1.1-10.1.1.1"], "it may be we who lag behind"
    await lab.cluster()
    assert pool_entries(tenant) == ["10.40.0.0-10.40.0.7"]
    assert await lab.cluster() == Again(60.0)
    assert lab.server.count(verb="list", plural="ipallocations") == 1


async def test_a_replica_that_only_lags_does_not_write_over_a_newer_state() -> None:
    lab, tenant = _lab()
    await lab.cluster()
    lab.hold("ipallocations")
    lab.server.add("ipallocations", make.allocation("team-a-lb-1", held_range=OTHER))
    newer = str(lab.server.revision)
    _of_another_history(tenant, newer)
    for _ in range(120):
        await lab.cluster()
        await lab.clock.advance(1)
    assert pool_entries(tenant) == ["10.1.1.1-10.1.1.1"]
    assert lab.server.count(verb="list", plural="ipallocations") <= 6, "ever less often"
    lab.flow()
    await lab.cluster()
    assert pool_entries(tenant) == ["10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"]
