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
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster
from tests.reconcilers.test_sharing import NAMESPACE

WITH_NETWORKS = Settings(integration=(VITISTACK,), vitistack=VitistackSettings(provider="us"))
UNREADABLE_ALLOCATION = (
    f"ipallocations.vitistack.io {NAMESPACE}/a cannot be read; correct or delete it"
)
UNREADABLE_MACHINE = f"NetworkConfiguration {NAMESPACE}/a cannot be read; correct or delete it"


async def create_network(
    cluster: PlatformCluster, name: str, third_octet: int, namespace: str = NAMESPACE
) -> None:
    """Create a network that hands out 10.0.`third_octet`.2 and up, each for 40 seconds."""
    static = {
        "ipv4CIDR": f"10.0.{third_octet}.0/24",
        "ipv4Gateway": f"10.0.{third_octet}.1",
        "ttlSeconds": 40,
    }
    spec = {"ipAllocation": {"type": "static", "provider": "us", "static": static}}
    status = {"provisioningPhase": "Ready"}
    await cluster.create_object(NETWORKS, name, spec, namespace=namespace, status=status)


async def request_address(
    cluster: PlatformCluster, name: str, network: str, namespace: str = NAMESPACE
) -> None:
    """Create an IPAllocation of vitistack for a machine that does not exist."""
    spec = {"networkNamespaceName": network, "networkConfigurationName": f"no-{name}"}
    await cluster.create_object(ALLOCATIONS, name, spec, namespace=namespace)


async def create_machine(
    cluster: PlatformCluster, name: str, network: str, status: Json | None = None
) -> None:
    """Create a NetworkConfiguration: a machine with the interface eth0."""
    interfaces = [{"name": "eth0"}]
    spec = {"networkNamespaceName": network, "provider": "us", "networkInterfaces": interfaces}
    await cluster.create_object(CONFIGURATIONS, name, spec, status=status or {})


def read_address(cluster: PlatformCluster, name: str, namespace: str = NAMESPACE) -> str:
    """Return the address of an IPAllocation of vitistack; empty if it has none."""
    return str(
        cluster.get_stored(ALLOCATIONS, name, namespace).get("status", {}).get("address", "")
    )


def list_shown_addresses(cluster: PlatformCluster, name: str) -> list[str]:
    """Return the addresses that a NetworkConfiguration shows."""
    interfaces = cluster.get_stored(CONFIGURATIONS, name)["status"]["networkInterfaces"]
    return [
        ipv4_address
        for interface in interfaces
        for ipv4_address in interface.get("ipv4Addresses", [])
    ]


async def test_gauges_show_no_free_addresses_while_an_allocation_is_unreadable() -> None:
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await request_address(cluster, "a", "n")
        await cluster.pass_by(5)
        assert cluster.read_metric("butler_vitistack_network_used") == [1]
        await cluster.edit(ALLOCATIONS, "a", {"status": {"prefix": "long"}})
        await cluster.pass_by(5)
        for name in ("free", "used"):
            assert cluster.read_metric(f"butler_vitistack_network_{name}") == []
        assert cluster.read_metric("butler_vitistack_network_total") == [253]


@pytest.mark.parametrize("network_known", [True, False])
async def test_a_network_hands_out_nothing_while_an_allocation_of_it_is_unreadable(
    network_known: bool,
) -> None:
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await create_network(cluster, "m", 1)
        await create_network(cluster, "far", third_octet=2, namespace="far")
        await request_address(cluster, "a", "n")
        await cluster.pass_by(5)
        assert read_address(cluster, "a") == "10.0.0.2"
        unknown = {} if network_known else {"spec": {"networkNamespaceName": 7}}
        await cluster.edit(ALLOCATIONS, "a", {"status": {"prefix": "long"}, **unknown})
        await cluster.restart_replica()
        await request_address(cluster, "b", "n")
        await request_address(cluster, "c", "m")
        await request_address(cluster, "d", network="far", namespace="far")
        await cluster.pass_by(30)
        assert read_address(cluster, "b") == ""
        status = cluster.get_stored(ALLOCATIONS, "b")["status"]
        assert (status["phase"], UNREADABLE_ALLOCATION in status["message"]) == ("Pending", True)
        assert bool(read_address(cluster, "c")) == network_known
        assert read_address(cluster, "d", "far") == "10.0.2.2"
        repaired = {"status": {"prefix": 24}, "spec": {"networkNamespaceName": "n"}}
        await cluster.edit(ALLOCATIONS, "a", repaired)
        await cluster.pass_by(3)
        assert read_address(cluster, "b") == "10.0.0.3"
        assert read_address(cluster, "c") == "10.0.1.2"


async def test_an_allocation_that_becomes_unreadable_with_another_address_blocks_its_network() -> (
    None
):
    """IPAllocation `a` has 10.0.0.2; then its status shows 10.0.0.3, and cannot be decoded."""
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await request_address(cluster, "a", "n")
        await cluster.pass_by(5)
        await cluster.edit(ALLOCATIONS, "a", {"status": {"prefix": "long", "address": "10.0.0.3"}})
        await cluster.pass_by(1)
        await request_address(cluster, "b", "n")
        await cluster.pass_by(60)
        assert read_address(cluster, "b") == ""
        assert read_address(cluster, "a") == "10.0.0.3", "not released when it expired"
        await cluster.delete(ALLOCATIONS, "a")
        await cluster.pass_by(3)
        assert read_address(cluster, "b")


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
async def test_networks_of_an_unreadable_machine_hand_out_nothing(
    spec: Json, blocked: set[str]
) -> None:
    """The machine shows an address: in a network that its spec names, or in any network."""
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await create_network(cluster, "m", 1)
        interface = {"name": "eth0", "ipv4Addresses": ["10.0.0.2"]}
        await cluster.create_object(
            CONFIGURATIONS, "a", spec, status={"networkInterfaces": [interface]}
        )
        await cluster.restart_replica()
        await request_address(cluster, "of-n", "n")
        await request_address(cluster, "of-m", "m")
        await cluster.pass_by(30)
        assert {name for name in "nm" if not read_address(cluster, f"of-{name}")} == blocked
        for name in blocked:
            assert (
                UNREADABLE_MACHINE
                in cluster.get_stored(ALLOCATIONS, f"of-{name}")["status"]["message"]
            )
        repaired = {
            "networkNamespaceName": "n",
            "provider": "us",
            "networkInterfaces": [{"name": "eth0"}],
        }
        await cluster.edit(CONFIGURATIONS, "a", {"spec": repaired})
        await cluster.pass_by(3)
        assert read_address(cluster, "a-eth0") == "10.0.0.2" or not blocked
        assert all(read_address(cluster, f"of-{name}") for name in "nm")


async def test_the_address_of_an_unreadable_machine_does_not_expire() -> None:
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await create_machine(cluster, "a", "n")
        await cluster.pass_by(5)
        assert read_address(cluster, "a-eth0") == "10.0.0.2"
        await cluster.edit(CONFIGURATIONS, "a", {"spec": ODD_MACHINE})
        await cluster.restart_replica()
        await cluster.pass_by(90)
        assert cluster.get_stored(ALLOCATIONS, "a-eth0")["status"]["phase"] == "Allocated"
        assert read_address(cluster, "a-eth0") == "10.0.0.2"


async def test_a_machine_shows_its_address_while_its_allocation_is_unreadable() -> None:
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await create_machine(cluster, "a", "n")
        await cluster.pass_by(5)
        assert list_shown_addresses(cluster, "a") == ["10.0.0.2"]
        await cluster.edit(ALLOCATIONS, "a-eth0", {"status": {"prefix": "long"}})
        await cluster.restart_replica()
        await cluster.pass_by(30)
        assert list_shown_addresses(cluster, "a") == ["10.0.0.2"]
        status = cluster.get_stored(CONFIGURATIONS, "a")["status"]
        assert status["phase"] == "Error"
        name = f"ipallocations.vitistack.io {NAMESPACE}/a-eth0"
        assert f"{name} cannot be read; correct or delete it" in status["message"]
        await cluster.edit(ALLOCATIONS, "a-eth0", {"status": {"prefix": 24}})
        await cluster.pass_by(3)
        assert cluster.get_stored(CONFIGURATIONS, "a")["status"]["phase"] == "Ready"
        assert read_address(cluster, "a-eth0") == "10.0.0.2"


async def test_an_unreadable_allocation_blocks_new_machines_of_its_network_if_it_names_none() -> (
    None
):
    """IPAllocations x, y and z are in network `n`; machine `a` has its address already."""
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await create_network(cluster, "m", 1)
        await create_machine(cluster, "a", "n")
        await cluster.pass_by(5)
        odd = {"networkNamespaceName": "n", "interfaceName": 7}
        for name in ("z", "x", "y"):
            await cluster.create_object(ALLOCATIONS, name, odd)
        await cluster.restart_replica()
        await create_machine(cluster, "b", "n")
        await create_machine(cluster, "c", "m")
        await cluster.pass_by(30)
        assert cluster.get_stored(CONFIGURATIONS, "a")["status"]["phase"] == "Ready"
        assert cluster.get_stored(CONFIGURATIONS, "c")["status"]["phase"] == "Ready"
        status = cluster.get_stored(CONFIGURATIONS, "b")["status"]
        assert status["phase"] == "Error"
        assert f"ipallocations.vitistack.io {NAMESPACE}/x cannot be read" in status["message"]
        assert cluster.get_stored(ALLOCATIONS, "b-eth0") == {}
        for name in ("x", "y", "z"):
            await cluster.delete(ALLOCATIONS, name)
        await cluster.pass_by(3)
        assert cluster.get_stored(CONFIGURATIONS, "b")["status"]["phase"] == "Ready"


async def test_an_unreadable_allocation_blocks_only_the_machine_that_owns_it() -> None:
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await create_machine(cluster, "a", "n")
        await create_machine(cluster, "b", "n")
        await cluster.pass_by(5)
        odd = {"spec": {"networkConfigurationName": None, "interfaceName": 7}}
        await cluster.edit(ALLOCATIONS, "a-eth0", odd)
        await cluster.restart_replica()
        interfaces = [{"name": "eth0"}, {"name": "eth1"}]
        await cluster.edit(CONFIGURATIONS, "b", {"spec": {"networkInterfaces": interfaces}})
        await cluster.pass_by(30)
        assert cluster.get_stored(CONFIGURATIONS, "a")["status"]["phase"] == "Error"
        assert cluster.get_stored(ALLOCATIONS, "b-eth1"), "machine b is served"


async def test_an_unreadable_network_hands_out_nothing_and_takes_nothing_back() -> None:
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await create_machine(cluster, "a", "n")
        await cluster.pass_by(5)
        await cluster.edit(NETWORKS, "n", {"spec": {"datacenterIdentifier": 7}})
        await cluster.restart_replica()
        await create_machine(cluster, "b", "n")
        await request_address(cluster, "c", "n")
        await cluster.pass_by(90)
        assert read_address(cluster, "a-eth0") == "10.0.0.2"
        assert list_shown_addresses(cluster, "a") == ["10.0.0.2"]
        assert cluster.get_stored(ALLOCATIONS, "b-eth0") == {}
        message = 'NetworkNamespace "n" cannot be read; correct it'
        assert message in cluster.get_stored(CONFIGURATIONS, "b")["status"]["message"]
        assert read_address(cluster, "c") == ""
        await cluster.edit(NETWORKS, "n", {"spec": {"datacenterIdentifier": "dc"}})
        await cluster.pass_by(3)
        assert read_address(cluster, "b-eth0")
        assert read_address(cluster, "c")


async def test_a_waiting_allocation_keeps_the_address_in_its_status_in_a_blocked_network() -> None:
    """Another operator gave the address; an unreadable machine blocks all networks."""
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        await create_network(cluster, "n", 0)
        await cluster.pass_by(5)
        await cluster.create_object(
            CONFIGURATIONS, "bad", {"networkInterfaces": "eth0", "provider": "us"}
        )
        cluster.stop_replicas()
        await cluster.pass_by(1)
        spec = {"networkNamespaceName": "n", "networkConfigurationName": "theirs"}
        status = {"phase": "Pending", "address": "10.0.0.50"}
        await cluster.create_object(ALLOCATIONS, "x", spec, status=status)
        cluster.start_replicas("next")
        await cluster.pass_by(40)
        assert read_address(cluster, "x") == "10.0.0.50"
        await cluster.remove_by_force(CONFIGURATIONS, "bad")
        await cluster.pass_by(10)
        assert read_address(cluster, "x") == "10.0.0.50"
        assert cluster.get_stored(ALLOCATIONS, "x")["status"]["phase"] == "Allocated"


async def test_a_machine_of_another_operator_is_not_written_while_its_network_is_unreadable() -> (
    None
):
    async with open_platform_cluster(WITH_NETWORKS, *KINDS) as cluster:
        static = {"ipv4CIDR": "10.0.0.0/24", "ipv4Gateway": "10.0.0.1"}
        theirs = {"ipAllocation": {"type": "static", "provider": "theirs", "static": static}}
        await cluster.create_object(NETWORKS, "n", theirs, status={"provisioningPhase": "Ready"})
        interfaces = [{"name": "eth0"}]
        status = {"phase": "Ready", "status": "Success", "message": "theirs"}
        await cluster.create_object(
            CONFIGURATIONS,
            "a",
            {"networkNamespaceName": "n", "networkInterfaces": interfaces},
            metadata={"finalizers": [FINALIZER]},
            status=status,
        )
        await cluster.edit(NETWORKS, "n", {"spec": {"datacenterIdentifier": 7}})
        await cluster.pass_by(30)
        assert cluster.get_stored(CONFIGURATIONS, "a")["status"] == status
        await cluster.delete(CONFIGURATIONS, "a")
        await cluster.pass_by(30)
        assert cluster.get_stored(CONFIGURATIONS, "a")["metadata"]["finalizers"] == [FINALIZER]
