"""Projection into MetalLB: a late write of a frozen replica never brings a released range back."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

import anyio
import pytest
from typing_extensions import override

from controller.outcome import Again
from controller.transport import NO_QUERY, Transport
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import list_pool_entries
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
BASIS = names.ANNOTATION_PROJECTION_BASIS
FIRST_RANGE = ("10.40.0.0", "10.40.0.7")
SECOND_RANGE = ("10.40.0.8", "10.40.0.15")


class FreezingTransport(Transport):
    """A replica's connection to the tenant, which freezes before the write `before_write`.

    Attributes:
        froze: set when the connection freezes.
        thaw: to be set by the test, after which the write is sent.
    """

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


def _make_lab(*held_ranges: tuple[str, str]) -> tuple[Lab, Server]:
    """Return a lab with TenantCluster team/a and an allocation of each range, and its tenant."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    for number, held_range in enumerate(held_ranges or (FIRST_RANGE,)):
        name = f"team-a-lb-{number}" if number else "team-a-lb"
        lab.server.add("ipallocations", make.allocation(name, held_range=held_range))
    return lab, lab.start_tenant_server("a")


async def _release(replica: Replica, lab: Lab, name: str) -> None:
    """Delete an allocation, and run passes of a replica until its range is released."""
    uid = lab.server.see("ipallocations", name)["metadata"]["uid"]
    lab.server.delete("ipallocations", name)
    replica.use_real_release_check()
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
    "held_ranges",
    [(FIRST_RANGE,), (FIRST_RANGE, SECOND_RANGE)],
    ids=["the only range", "one of two ranges"],
)
async def test_a_leader_that_freezes_while_it_creates_the_pool_brings_no_range_back(
    write: int, held_ranges: tuple[tuple[str, str], ...]
) -> None:
    lab, tenant = _make_lab(*held_ranges)
    transports: list[Transport] = [FreezingTransport(tenant, write), tenant]
    frozen = transports[0]
    assert isinstance(frozen, FreezingTransport)
    lab.open_tenant = lambda kubeconfig: transports.pop(0)  # type: ignore[method-assign]
    first = lab.make_replica()
    other = lab.make_replica()
    async with anyio.create_task_group() as group:
        group.start_soon(first.clusters.reconcile, make.key("a", "team"))
        await frozen.froze.wait()
        await _release(other, lab, "team-a-lb")
        frozen.thaw.set()
    assert "10.40.0.0-10.40.0.7" not in list_pool_entries(tenant)
    for _ in range(3):
        await first.clusters.reconcile(make.key("a", "team"))
    assert "10.40.0.0-10.40.0.7" not in list_pool_entries(tenant)


async def test_a_pool_is_created_with_an_address_that_no_service_gets_and_filled_afterwards() -> (
    None
):
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    first, second = [h.object for h in tenant.history if h.plural == "ipaddresspools"][:2]
    assert first["spec"] == {"addresses": ["192.0.2.0-192.0.2.0"], "autoAssign": False}
    assert second["spec"] == {"addresses": ["10.40.0.0-10.40.0.7"]}


async def test_a_pool_whose_creation_was_not_answered_is_filled_by_a_later_pass() -> None:
    lab, tenant = _make_lab()
    tenant.lose_answers(verb="post", plural="ipaddresspools")
    await lab.run_cluster_pass()
    assert list_pool_entries(tenant) == ["192.0.2.0-192.0.2.0"]
    await lab.clock.advance(5)
    await lab.run_cluster_pass()
    assert tenant.see("ipaddresspools", "default-pool", namespace=METALLB)["spec"] == {
        "addresses": ["10.40.0.0-10.40.0.7"]
    }


async def test_a_pool_of_others_gets_a_new_version_before_the_cluster_is_released() -> None:
    lab, tenant = _make_lab()
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


def _restore_pool(tenant: Server, basis: str = "999999") -> None:
    """Replace our pool by one with another range, and with a basis of another history."""
    patch: Json = {
        "metadata": {"annotations": {BASIS: basis}},
        "spec": {"addresses": ["10.1.1.1-10.1.1.1"]},
    }
    tenant.edit("ipaddresspools", "default-pool", patch, namespace=METALLB)


async def test_a_pool_of_a_lost_history_is_overwritten_after_a_list_confirms_the_loss() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    _restore_pool(tenant)
    for _ in range(5):
        assert await lab.run_cluster_pass() == Again(1.0)
        await lab.clock.advance(1)
    assert list_pool_entries(tenant) == ["10.1.1.1-10.1.1.1"], "our caches may lag behind"
    await lab.run_cluster_pass()
    assert list_pool_entries(tenant) == ["10.40.0.0-10.40.0.7"]
    assert await lab.run_cluster_pass() == Again(60.0)
    assert lab.server.count(verb="list", plural="ipallocations") == 1


async def test_a_replica_that_lags_does_not_overwrite_a_newer_pool() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    lab.hold_events("ipallocations")
    lab.server.add("ipallocations", make.allocation("team-a-lb-1", held_range=SECOND_RANGE))
    newer = str(lab.server.revision)
    _restore_pool(tenant, newer)
    for _ in range(120):
        await lab.run_cluster_pass()
        await lab.clock.advance(1)
    assert list_pool_entries(tenant) == ["10.1.1.1-10.1.1.1"]
    assert lab.server.count(verb="list", plural="ipallocations") <= 6, "less and less often"
    lab.deliver_events()
    await lab.run_cluster_pass()
    assert list_pool_entries(tenant) == ["10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"]
