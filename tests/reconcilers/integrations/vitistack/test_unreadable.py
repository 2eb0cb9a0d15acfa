"""Vitistack's objects that cannot be decoded: nobody else gets what they may hold."""

import pytest

from reconcilers.configuration.integrationnames import VITISTACK
from reconcilers.configuration.settings import Settings, VitistackSettings
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    FINALIZER,
    KINDS,
    NETWORKS,
)
from tests.reconcilers.integrations.unreadable import Json, Site, site
from tests.reconcilers.test_sharing import NAMESPACE

WITH_NETWORKS = Settings(integration=(VITISTACK,), vitistack=VitistackSettings(provider="us"))
HELD = f"ipallocations.vitistack.io {NAMESPACE}/a cannot be read; correct or delete it"
SHOWN = f"NetworkConfiguration {NAMESPACE}/a cannot be read; correct or delete it"


async def network(place: Site, name: str, third: int, namespace: str = NAMESPACE) -> None:
    static = {
        "ipv4CIDR": f"10.0.{third}.0/24",
        "ipv4Gateway": f"10.0.{third}.1",
        "ttlSeconds": 40,
    }
    spec = {"ipAllocation": {"type": "static", "provider": "us", "static": static}}
    status = {"provisioningPhase": "Ready"}
    await place.make(NETWORKS, name, spec, namespace=namespace, status=status)


async def ask(place: Site, name: str, network: str, namespace: str = NAMESPACE) -> None:
    """Make an IPAllocation for a machine that does not exist."""
    spec = {"networkNamespaceName": network, "networkConfigurationName": f"no-{name}"}
    await place.make(ALLOCATIONS, name, spec, namespace=namespace)


async def machine(place: Site, name: str, network: str, status: Json | None = None) -> None:
    interfaces = [{"name": "eth0"}]
    spec = {"networkNamespaceName": network, "provider": "us", "networkInterfaces": interfaces}
    await place.make(CONFIGURATIONS, name, spec, status=status or {})


def address(place: Site, name: str, namespace: str = NAMESPACE) -> str:
    """Return the address of an IPAllocation; empty for none."""
    return str(place.see(ALLOCATIONS, name, namespace).get("status", {}).get("address", ""))


def list_shown_addresses(place: Site, name: str) -> list[str]:
    """Return the addresses that a NetworkConfiguration shows."""
    interfaces = place.see(CONFIGURATIONS, name)["status"]["networkInterfaces"]
    return [
        ipv4_address
        for interface in interfaces
        for ipv4_address in interface.get("ipv4Addresses", [])
    ]


async def test_the_gauges_call_nothing_free_that_an_unreadable_object_may_hold() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await ask(place, "a", "n")
        await place.home.pass_by(5)
        assert place.gauge("butler_vitistack_network_used") == [1]
        await place.edit(ALLOCATIONS, "a", {"status": {"prefix": "long"}})
        await place.home.pass_by(5)
        for name in ("free", "used"):
            assert place.gauge(f"butler_vitistack_network_{name}") == []
        assert place.gauge("butler_vitistack_network_total") == [253]


@pytest.mark.parametrize("network_known", [True, False])
async def test_a_network_hands_out_nothing_while_an_allocation_of_it_is_unreadable(
    network_known: bool,
) -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await network(place, "m", 1)
        await network(place, "far", third=2, namespace="far")
        await ask(place, "a", "n")
        await place.home.pass_by(5)
        assert address(place, "a") == "10.0.0.2"
        unknown = {} if network_known else {"spec": {"networkNamespaceName": 7}}
        await place.edit(ALLOCATIONS, "a", {"status": {"prefix": "long"}, **unknown})
        await place.restart()
        await ask(place, "b", "n")
        await ask(place, "c", "m")
        await ask(place, "d", network="far", namespace="far")
        await place.home.pass_by(30)
        assert address(place, "b") == ""
        status = place.see(ALLOCATIONS, "b")["status"]
        assert (status["phase"], HELD in status["message"]) == ("Pending", True)
        assert bool(address(place, "c")) == network_known
        assert address(place, "d", "far") == "10.0.2.2"
        repaired = {"status": {"prefix": 24}, "spec": {"networkNamespaceName": "n"}}
        await place.edit(ALLOCATIONS, "a", repaired)
        await place.home.pass_by(3)
        assert address(place, "b") == "10.0.0.3"
        assert address(place, "c") == "10.0.1.2"


async def test_an_allocation_that_becomes_unreadable_with_another_address_keeps_that() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await ask(place, "a", "n")
        await place.home.pass_by(5)
        await place.edit(ALLOCATIONS, "a", {"status": {"prefix": "long", "address": "10.0.0.3"}})
        await place.home.pass_by(1)
        await ask(place, "b", "n")
        await place.home.pass_by(60)
        assert address(place, "b") == ""
        assert address(place, "a") == "10.0.0.3", "not released when it expired"
        await place.delete(ALLOCATIONS, "a")
        await place.home.pass_by(3)
        assert address(place, "b")


ODD_MACHINE = {"networkInterfaces": "eth0"}


@pytest.mark.parametrize(
    ("spec", "blocked"),
    [
        ({**ODD_MACHINE, "networkNamespaceName": "n", "provider": "us"}, {"n"}),
        ({**ODD_MACHINE, "networkNamespaceName": "", "provider": "us"}, {"n", "m"}),
        ({**ODD_MACHINE, "networkNamespaceName": 7}, {"n", "m"}),
        ({**ODD_MACHINE, "networkNamespaceName": "n", "provider": "others"}, set()),
    ],
)
async def test_what_an_unreadable_machine_may_show_is_not_handed_out(
    spec: Json, blocked: set[str]
) -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await network(place, "m", 1)
        interface = {"name": "eth0", "ipv4Addresses": ["10.0.0.2"]}
        await place.make(CONFIGURATIONS, "a", spec, status={"networkInterfaces": [interface]})
        await place.restart()
        await ask(place, "of-n", "n")
        await ask(place, "of-m", "m")
        await place.home.pass_by(30)
        assert {name for name in "nm" if not address(place, f"of-{name}")} == blocked
        for name in blocked:
            assert SHOWN in place.see(ALLOCATIONS, f"of-{name}")["status"]["message"]
        repaired = {
            "networkNamespaceName": "n",
            "provider": "us",
            "networkInterfaces": [{"name": "eth0"}],
        }
        await place.edit(CONFIGURATIONS, "a", {"spec": repaired})
        await place.home.pass_by(3)
        assert address(place, "a-eth0") == "10.0.0.2" or not blocked
        assert all(address(place, f"of-{name}") for name in "nm")


async def test_the_address_of_an_unreadable_machine_does_not_expire() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await machine(place, "a", "n")
        await place.home.pass_by(5)
        assert address(place, "a-eth0") == "10.0.0.2"
        await place.edit(CONFIGURATIONS, "a", {"spec": ODD_MACHINE})
        await place.restart()
        await place.home.pass_by(90)
        assert place.see(ALLOCATIONS, "a-eth0")["status"]["phase"] == "Allocated"
        assert address(place, "a-eth0") == "10.0.0.2"


async def test_a_machine_shows_its_address_while_its_allocation_is_unreadable() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await machine(place, "a", "n")
        await place.home.pass_by(5)
        assert list_shown_addresses(place, "a") == ["10.0.0.2"]
        await place.edit(ALLOCATIONS, "a-eth0", {"status": {"prefix": "long"}})
        await place.restart()
        await place.home.pass_by(30)
        assert list_shown_addresses(place, "a") == ["10.0.0.2"]
        status = place.see(CONFIGURATIONS, "a")["status"]
        assert status["phase"] == "Error"
        name = f"ipallocations.vitistack.io {NAMESPACE}/a-eth0"
        assert f"{name} cannot be read; correct or delete it" in status["message"]
        await place.edit(ALLOCATIONS, "a-eth0", {"status": {"prefix": 24}})
        await place.home.pass_by(3)
        assert place.see(CONFIGURATIONS, "a")["status"]["phase"] == "Ready"
        assert address(place, "a-eth0") == "10.0.0.2"


async def test_an_unreadable_allocation_of_an_unknown_machine_stops_what_it_may_be_of() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await network(place, "m", 1)
        await machine(place, "a", "n")
        await place.home.pass_by(5)
        odd = {"networkNamespaceName": "n", "interfaceName": 7}
        for name in ("z", "x", "y"):
            await place.make(ALLOCATIONS, name, odd)
        await place.restart()
        await machine(place, "b", "n")
        await machine(place, "c", "m")
        await place.home.pass_by(30)
        assert place.see(CONFIGURATIONS, "a")["status"]["phase"] == "Ready"
        assert place.see(CONFIGURATIONS, "c")["status"]["phase"] == "Ready"
        status = place.see(CONFIGURATIONS, "b")["status"]
        assert status["phase"] == "Error"
        assert f"ipallocations.vitistack.io {NAMESPACE}/x cannot be read" in status["message"]
        assert place.see(ALLOCATIONS, "b-eth0") == {}
        for name in ("x", "y", "z"):
            await place.delete(ALLOCATIONS, name)
        await place.home.pass_by(3)
        assert place.see(CONFIGURATIONS, "b")["status"]["phase"] == "Ready"


async def test_an_unreadable_allocation_is_of_the_machine_that_owns_it() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await machine(place, "a", "n")
        await machine(place, "b", "n")
        await place.home.pass_by(5)
        odd = {"spec": {"networkConfigurationName": None, "interfaceName": 7}}
        await place.edit(ALLOCATIONS, "a-eth0", odd)
        await place.restart()
        interfaces = [{"name": "eth0"}, {"name": "eth1"}]
        await place.edit(CONFIGURATIONS, "b", {"spec": {"networkInterfaces": interfaces}})
        await place.home.pass_by(30)
        assert place.see(CONFIGURATIONS, "a")["status"]["phase"] == "Error"
        assert place.see(ALLOCATIONS, "b-eth1"), "an IPAllocation of machine a stops no other"


async def test_what_an_unreadable_network_handed_out_stays_and_it_hands_out_nothing() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await machine(place, "a", "n")
        await place.home.pass_by(5)
        await place.edit(NETWORKS, "n", {"spec": {"datacenterIdentifier": 7}})
        await place.restart()
        await machine(place, "b", "n")
        await ask(place, "c", "n")
        await place.home.pass_by(90)
        assert address(place, "a-eth0") == "10.0.0.2"
        assert list_shown_addresses(place, "a") == ["10.0.0.2"]
        assert place.see(ALLOCATIONS, "b-eth0") == {}
        message = 'NetworkNamespace "n" cannot be read; correct it'
        assert message in place.see(CONFIGURATIONS, "b")["status"]["message"]
        assert address(place, "c") == ""
        await place.edit(NETWORKS, "n", {"spec": {"datacenterIdentifier": "dc"}})
        await place.home.pass_by(3)
        assert address(place, "b-eth0")
        assert address(place, "c")


async def test_an_address_that_a_waiting_allocation_shows_is_not_wiped_meanwhile() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        await network(place, "n", 0)
        await place.home.pass_by(5)
        await place.make(CONFIGURATIONS, "bad", {"networkInterfaces": "eth0", "provider": "us"})
        place.stop()
        await place.home.pass_by(1)
        spec = {"networkNamespaceName": "n", "networkConfigurationName": "theirs"}
        status = {"phase": "Pending", "address": "10.0.0.50"}
        await place.make(ALLOCATIONS, "x", spec, status=status)
        place.home.start("next")
        await place.home.pass_by(40)
        assert address(place, "x") == "10.0.0.50"
        await place.remove(CONFIGURATIONS, "bad")
        await place.home.pass_by(10)
        assert address(place, "x") == "10.0.0.50"
        assert place.see(ALLOCATIONS, "x")["status"]["phase"] == "Allocated"


async def test_a_machine_whose_network_is_unreadable_may_be_of_another_operator() -> None:
    async with site(WITH_NETWORKS, *KINDS) as place:
        static = {"ipv4CIDR": "10.0.0.0/24", "ipv4Gateway": "10.0.0.1"}
        theirs = {"ipAllocation": {"type": "static", "provider": "theirs", "static": static}}
        await place.make(NETWORKS, "n", theirs, status={"provisioningPhase": "Ready"})
        interfaces = [{"name": "eth0"}]
        status = {"phase": "Ready", "status": "Success", "message": "theirs"}
        await place.make(
            CONFIGURATIONS,
            "a",
            {"networkNamespaceName": "n", "networkInterfaces": interfaces},
            metadata={"finalizers": [FINALIZER]},
            status=status,
        )
        await place.edit(NETWORKS, "n", {"spec": {"datacenterIdentifier": 7}})
        await place.home.pass_by(30)
        assert place.see(CONFIGURATIONS, "a")["status"] == status
        await place.delete(CONFIGURATIONS, "a")
        await place.home.pass_by(30)
        assert place.see(CONFIGURATIONS, "a")["metadata"]["finalizers"] == [FINALIZER]
