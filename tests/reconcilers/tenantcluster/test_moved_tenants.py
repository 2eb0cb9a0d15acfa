"""A kubeconfig that is replaced by one of another cluster: what the first one has is not free."""

import base64

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, address_of, pool_entries, service
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Server

BEFORE, AFTER = "team-a-lb-1", "team-a-lb-2"


async def _move_tenant() -> tuple[Lab, Server, Server]:
    """Return a cluster whose kubeconfig was replaced, the tenant before it, and that after it."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    lab.server.add("ipallocations", make.allocation(BEFORE, size=4))
    first = lab.tenant_server("a")
    await lab.rounds()
    Balancer(first)
    for number in range(12):
        service(first, f"web-{number}")
    second = lab.tenant_servers["b"] = Server(lab.clock, first.served)
    encoded = base64.b64encode(b"b").decode()
    lab.server.edit(
        "secrets", "a-admin-kubeconfig", {"data": {"admin.conf": encoded}}, namespace="team"
    )
    await lab.clock.advance(1)
    await lab.tenants.aclose()  # the first does not take its credentials any more
    return lab, first, second


async def test_what_the_first_cluster_has_stays_until_a_person_says_that_it_is_gone() -> None:
    lab, first, second = await _move_tenant()
    await lab.rounds()
    assert pool_entries(second) == pool_entries(first)
    lab.server.delete("ipallocations", BEFORE)
    await lab.rounds()
    assert all(address_of(first, f"web-{number}") for number in range(12))
    assert lab.server.has("ipallocations", BEFORE)
    ready = lab.condition("ipallocations", BEFORE, "Ready")
    assert ready["reason"] == "WaitingForTenant"
    assert "another cluster" in ready["message"]
    said = {names.ANNOTATION_RELEASE_ANYWAY: "true"}
    lab.server.edit("tenantclusters", "a", {"metadata": {"annotations": said}}, namespace="team")
    await lab.rounds()
    assert not lab.server.has("ipallocations", BEFORE)


async def test_it_stays_where_the_allocation_was_deleted_before_the_move_was_noted() -> None:
    lab, _, _ = await _move_tenant()
    lab.server.delete("ipallocations", BEFORE)
    await lab.rounds()
    assert lab.server.has("ipallocations", BEFORE)


async def test_what_was_allocated_after_the_move_is_given_back_as_ever() -> None:
    lab, _, second = await _move_tenant()
    await lab.rounds()
    lab.server.add("ipallocations", make.allocation(AFTER, size=4, age=-60))
    await lab.rounds()
    assert len(pool_entries(second)) == 3
    lab.server.delete("ipallocations", AFTER)
    await lab.rounds()
    assert not lab.server.has("ipallocations", AFTER)


async def test_a_deleted_cluster_that_moved_gives_back_after_the_teardown_grace() -> None:
    lab, _, _ = await _move_tenant()
    await lab.rounds()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds_of("a", 5)
    assert lab.server.has("ipallocations", BEFORE)
    await lab.clock.advance(lab.settings.tenant.teardown_grace)
    await lab.rounds_of("a", 5)
    assert not lab.server.has("ipallocations", BEFORE)
    assert "TeardownGracePassed" in lab.recorded.reasons
