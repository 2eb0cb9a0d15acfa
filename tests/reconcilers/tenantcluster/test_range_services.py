"""status.network names the Services that have addresses of each range."""

from typing import Any

from allocator import AddressRange
from controller.errors import Conflict, NoAnswer
from reconcilers.api.tenantnetwork import MOST_SERVICES
from reconcilers.tenantcluster.networkstatus import AddressUsers
from reconcilers.tenantcluster.reconciler import NAMING_SECONDS
from reconcilers.webhooks import ipallocation
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, service
from tests.reconcilers.lab import Lab


async def _lab_with(*services: str) -> Lab:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer={"defaultPoolSize": 8}))
    tenant = lab.tenant_server("a")
    Balancer(tenant)
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    for name in services:
        service(tenant, name)
    await lab.clock.advance(NAMING_SECONDS)
    await lab.rounds()
    return lab


def _services(lab: Lab) -> dict[str, list[str]]:
    ranges: list[dict[str, Any]] = lab.see("tenantclusters", "a", "team")["network"]["ranges"]
    return {
        status_range["allocation"]: status_range.get("services", []) for status_range in ranges
    }


async def test_the_services_of_the_lowest_addresses_are_named_and_bounded() -> None:
    lab = await _lab_with(*(f"s{number}" for number in range(7)))
    services = _services(lab)
    assert len(services["team-a-lb"]) == MOST_SERVICES
    assert services["team-a-nodes"] == []


async def test_a_deletion_is_warned_about_with_these_names() -> None:
    lab = await _lab_with("web", "api")
    names = _services(lab)["team-a-lb"]
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


async def test_names_stay_while_the_services_cannot_be_read_and_go_with_the_services() -> None:
    lab = await _lab_with("web")
    names = _services(lab)["team-a-lb"]
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.another().clusters.reconcile(make.key("a", "team"))
    assert _services(lab)["team-a-lb"] == names
    await lab.clock.advance(600)
    [path] = [service["metadata"] for service in lab.tenant_servers["a"].all("services")]
    await lab.clock.advance(NAMING_SECONDS)
    lab.tenant_servers["a"].delete("services", path["name"], namespace=path["namespace"])
    await lab.rounds()
    assert _services(lab)["team-a-lb"] == []


async def test_names_are_written_by_the_next_pass_if_their_write_fails() -> None:
    lab = await _lab_with("web")
    service(lab.tenant_servers["a"], "api")
    await lab.clock.advance(NAMING_SECONDS)
    conflict = Conflict(409, "Conflict", "the object has been modified")
    lab.server.fail(conflict, verb="patch", plural="tenantclusters")
    await lab.rounds()
    assert len(_services(lab)["team-a-lb"]) == 1
    await lab.rounds()
    assert len(_services(lab)["team-a-lb"]) == 2


async def test_services_that_come_soon_after_others_cost_the_management_cluster_nothing() -> None:
    lab = await _lab_with("web")
    names, revision = _services(lab)["team-a-lb"], lab.server.revision
    service(lab.tenant_servers["a"], "api")
    await lab.rounds()
    assert (_services(lab)["team-a-lb"], lab.server.revision) == (names, revision)
    await lab.clock.advance(NAMING_SECONDS)
    await lab.rounds()
    assert len(_services(lab)["team-a-lb"]) == 2


def test_services_that_share_an_address_are_named_once_each_within_the_range() -> None:
    def at(content: str) -> AddressRange:
        return AddressRange.parse(content, content)

    users = AddressUsers(
        [
            (at("10.0.0.9"), "x/outside"),
            (at("10.0.0.2"), "x/b"),
            (at("10.0.0.2"), "x/a"),
            (at("10.0.0.3"), "x/a"),
            (at("fd00::2"), "x/six"),
        ]
    )
    assert users.find_names_in(AddressRange.parse("10.0.0.0", "10.0.0.7"), 5) == ("x/a", "x/b")
    assert users.find_names_in(AddressRange.parse("10.0.0.0", "10.0.0.7"), 1) == ("x/a",)
    assert users.find_names_in(AddressRange.parse("fd00::", "fd00::f"), 5) == ("x/six",)
