"""A kubeconfig is replaced by that of another tenant: ranges of the first tenant stay in use."""

import base64

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address, list_pool_entries
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Server

ALLOCATED_BEFORE, ALLOCATED_AFTER = "team-a-lb-1", "team-a-lb-2"


async def _move_tenant() -> tuple[Lab, Server, Server]:
    """Return a lab whose cluster's kubeconfig was replaced, and the tenants before and after."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    lab.server.add("ipallocations", make.allocation(ALLOCATED_BEFORE, size=4))
    first = lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    Balancer(first)
    for number in range(12):
        add_service(first, f"web-{number}")
    second = lab.tenant_servers["b"] = Server(lab.clock, first.served)
    encoded = base64.b64encode(b"b").decode()
    lab.server.edit(
        "secrets", "a-admin-kubeconfig", {"data": {"admin.conf": encoded}}, namespace="team"
    )
    await lab.clock.advance(1)
    await lab.tenants.aclose()  # the first tenant no longer accepts the credentials
    return lab, first, second


async def test_a_range_of_the_first_tenant_stays_until_a_person_sets_release_anyway() -> None:
    lab, first, second = await _move_tenant()
    await lab.run_until_at_rest()
    assert list_pool_entries(second) == list_pool_entries(first)
    lab.server.delete("ipallocations", ALLOCATED_BEFORE)
    await lab.run_until_at_rest()
    assert all(find_address(first, f"web-{number}") for number in range(12))
    assert lab.server.has("ipallocations", ALLOCATED_BEFORE)
    ready = lab.find_condition("ipallocations", ALLOCATED_BEFORE, "Ready")
    assert ready["reason"] == "WaitingForTenant"
    assert "another cluster" in ready["message"]
    confirmation = {names.ANNOTATION_RELEASE_ANYWAY: "true"}
    lab.server.edit(
        "tenantclusters", "a", {"metadata": {"annotations": confirmation}}, namespace="team"
    )
    await lab.run_until_at_rest()
    assert not lab.server.has("ipallocations", ALLOCATED_BEFORE)


async def test_a_range_that_is_deleted_before_a_pass_has_seen_the_move_stays_too() -> None:
    lab, _, _ = await _move_tenant()
    lab.server.delete("ipallocations", ALLOCATED_BEFORE)
    await lab.run_until_at_rest()
    assert lab.server.has("ipallocations", ALLOCATED_BEFORE)


async def test_a_range_that_was_allocated_after_the_move_is_released_as_usual() -> None:
    lab, _, second = await _move_tenant()
    await lab.run_until_at_rest()
    lab.server.add("ipallocations", make.allocation(ALLOCATED_AFTER, size=4, age=-60))
    await lab.run_until_at_rest()
    assert len(list_pool_entries(second)) == 3
    lab.server.delete("ipallocations", ALLOCATED_AFTER)
    await lab.run_until_at_rest()
    assert not lab.server.has("ipallocations", ALLOCATED_AFTER)


async def test_ranges_of_a_deleted_cluster_that_moved_are_released_after_the_teardown_grace() -> (
    None
):
    lab, _, _ = await _move_tenant()
    await lab.run_until_at_rest()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_rounds("a", 5)
    assert lab.server.has("ipallocations", ALLOCATED_BEFORE)
    await lab.clock.advance(lab.settings.tenant.teardown_grace)
    await lab.run_rounds("a", 5)
    assert not lab.server.has("ipallocations", ALLOCATED_BEFORE)
    assert "TeardownGracePassed" in lab.recorded.reasons
