"""The names of Services that use addresses of each range, in status.network."""

from typing import Any

from allocator import AddressRange
from controller.errors import Conflict, NoAnswer
from reconcilers.api.tenantnetwork import MOST_SERVICES
from reconcilers.tenantcluster.networkstatus import AddressUsers
from reconcilers.tenantcluster.reconciler import NAMING_SECONDS
from reconcilers.webhooks import ipallocation
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service
from tests.reconcilers.lab import Lab


async def _make_lab_with_services(*services: str) -> Lab:
    """Return a lab with a Ready cluster whose status names these Services of its tenant."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer={"defaultPoolSize": 8}))
    tenant = lab.start_tenant_server("a")
    Balancer(tenant)
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    for name in services:
        add_service(tenant, name)
    await lab.clock.advance(NAMING_SECONDS)
    await lab.run_until_at_rest()
    return lab


def read_service_names(lab: Lab) -> dict[str, list[str]]:
    """Return the names of Services in the cluster's status, by allocation."""
    ranges: list[dict[str, Any]] = lab.read_status("tenantclusters", "a", "team")["network"][
        "ranges"
    ]
    return {
        status_range["allocation"]: status_range.get("services", []) for status_range in ranges
    }


async def test_only_a_few_services_of_a_range_are_named_in_the_status() -> None:
    lab = await _make_lab_with_services(*(f"s{number}" for number in range(7)))
    services = read_service_names(lab)
    assert len(services["team-a-lb"]) == MOST_SERVICES
    assert services["team-a-nodes"] == []


async def test_the_warning_about_a_deleted_allocation_names_its_services() -> None:
    lab = await _make_lab_with_services("web", "api")
    names = read_service_names(lab)["team-a-lb"]
    assert {name.partition("/")[2] for name in names} == {"web", "api"}
    [allocation] = [
        candidate
        for candidate in lab.caches["ipallocations"]
        if candidate.metadata.name == "team-a-lb"
    ]
    [warning] = ipallocation.review_deletion(
        allocation, lab.caches["tenantclusters"].get(make.key("a", "team"))
    ).warnings
    assert f"Services {', '.join(names)} of TenantCluster team/a use" in warning


async def test_names_stay_while_services_cannot_be_read_and_are_removed_with_the_services() -> (
    None
):
    lab = await _make_lab_with_services("web")
    names = read_service_names(lab)["team-a-lb"]
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.make_replica().clusters.reconcile(make.key("a", "team"))
    assert read_service_names(lab)["team-a-lb"] == names
    await lab.clock.advance(600)
    [service_metadata] = [
        service["metadata"] for service in lab.tenant_servers["a"].all("services")
    ]
    await lab.clock.advance(NAMING_SECONDS)
    lab.tenant_servers["a"].delete(
        "services", service_metadata["name"], namespace=service_metadata["namespace"]
    )
    await lab.run_until_at_rest()
    assert read_service_names(lab)["team-a-lb"] == []


async def test_names_are_written_by_the_next_pass_if_their_write_fails() -> None:
    lab = await _make_lab_with_services("web")
    add_service(lab.tenant_servers["a"], "api")
    await lab.clock.advance(NAMING_SECONDS)
    conflict = Conflict(409, "Conflict", "the object has been modified")
    lab.server.fail(conflict, verb="patch", plural="tenantclusters")
    await lab.run_until_at_rest()
    assert len(read_service_names(lab)["team-a-lb"]) == 1
    await lab.run_until_at_rest()
    assert len(read_service_names(lab)["team-a-lb"]) == 2


async def test_a_new_service_is_not_named_before_the_naming_interval_has_passed() -> None:
    lab = await _make_lab_with_services("web")
    names, revision = read_service_names(lab)["team-a-lb"], lab.server.revision
    add_service(lab.tenant_servers["a"], "api")
    await lab.run_until_at_rest()
    assert (read_service_names(lab)["team-a-lb"], lab.server.revision) == (names, revision)
    await lab.clock.advance(NAMING_SECONDS)
    await lab.run_until_at_rest()
    assert len(read_service_names(lab)["team-a-lb"]) == 2


def test_services_that_share_an_address_are_named_once_each_within_the_range() -> None:
    def parse_address(address: str) -> AddressRange:
        return AddressRange.parse(address, address)

    users = AddressUsers(
        [
            (parse_address("10.0.0.9"), "x/outside"),
            (parse_address("10.0.0.2"), "x/b"),
            (parse_address("10.0.0.2"), "x/a"),
            (parse_address("10.0.0.3"), "x/a"),
            (parse_address("fd00::2"), "x/six"),
        ]
    )
    assert users.find_names_in(AddressRange.parse("10.0.0.0", "10.0.0.7"), 5) == ("x/a", "x/b")
    assert users.find_names_in(AddressRange.parse("10.0.0.0", "10.0.0.7"), 1) == ("x/a",)
    assert users.find_names_in(AddressRange.parse("fd00::", "fd00::f"), 5) == ("x/six",)
