"""NetworkConfigurations show an address for each interface until they are deleted."""

import json
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from tests.contract.product import Server, release_line
from tests.contract.vitistack.lab import NETWORK, VitistackLab, get_status, list_addresses
from tests.polling import until

pytestmark = [pytest.mark.asyncio(loop_scope="package")]
FINALIZER = "vitistack.io/static-ip-finalizer"


def format_time_in(seconds: float) -> str:
    """Return the time `seconds` from now in the format of Kubernetes."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_each_interface_gets_its_address_and_the_configuration_shows_them(
    lab: VitistackLab,
) -> None:
    await lab.create_configuration("vm", "eth0", "eth1")
    await lab.wait_until_configured("vm", "Error")
    await lab.create_network()
    configuration_status = await lab.wait_until_configured("vm", "Ready")
    assert configuration_status["status"] == "Success"
    assert configuration_status["message"].startswith("All 2 interfaces allocated static IPs")
    [ready] = configuration_status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Configured")
    assert list_addresses(configuration_status) == ["10.0.2.2", "10.0.2.3"]
    allocation = await lab.find("IPAllocation", "vm-eth1")
    configuration = await lab.find("NetworkConfiguration", "vm")
    assert allocation is not None
    assert configuration is not None
    assert configuration_status["networkInterfaces"][1] == {
        "name": "eth1",
        "macAddress": "02:00:00:00:00:01",
        "ipv4Addresses": ["10.0.2.3"],
        "ipv4Subnet": "10.0.2.0/24",
        "ipv4Gateway": "10.0.2.1",
        "dns": ["8.8.8.8"],
        "ipAllocated": True,
        "allocationMethod": "static",
        "allocationExpiry": get_status(allocation)["expiresAt"],
    }
    assert configuration["metadata"]["finalizers"] == [FINALIZER]
    assert allocation["metadata"]["labels"] == {
        "vitistack.io/network-namespace": NETWORK,
        "vitistack.io/network-configuration": "vm",
    }
    assert allocation["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "vitistack.io/v1alpha1",
            "kind": "NetworkConfiguration",
            "name": "vm",
            "uid": configuration["metadata"]["uid"],
        }
    ]


async def test_a_configuration_is_never_ready_with_an_interface_without_address(
    lab: VitistackLab,
) -> None:
    await lab.create_network(ipv4CIDR="10.0.2.0/28")
    watch_lines: list[str] = []

    async def watch() -> None:
        async with lab.admin.stream(
            "GET", lab.build_path("NetworkConfiguration"), params={"watch": "true"}
        ) as events:
            async for line in events.aiter_lines():
                watch_lines.append(line)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        async with anyio.create_task_group() as creations:
            for number in range(8):
                creations.start_soon(lab.create_configuration, f"vm{number}", "eth0", "eth1")

        async def list_phases() -> list[str]:
            return sorted(
                get_status(configuration).get("phase", "")
                for configuration in await lab.list_objects("NetworkConfiguration")
            )

        # 13 addresses for 16 interfaces: some have both, some fail with one.
        await until(list_phases, lambda phases: set(phases) == {"Ready", "Error"})
        configurations = await lab.list_objects("NetworkConfiguration")
        group.cancel_scope.cancel()
    for configuration in configurations:
        count = len(list_addresses(get_status(configuration)))
        assert count == 2 if get_status(configuration)["phase"] == "Ready" else count < 2
    shown_addresses = [
        address
        for configuration in configurations
        for address in list_addresses(get_status(configuration))
    ]
    assert len(set(shown_addresses)) == len(shown_addresses) == 13
    failed = next(
        get_status(configuration)
        for configuration in configurations
        if get_status(configuration)["phase"] == "Error"
    )
    assert "no available IPs for interface eth" in failed["message"]
    states = [get_status(json.loads(line)["object"]) for line in watch_lines]
    ready = [state for state in states if state.get("phase") == "Ready"]
    assert ready
    assert all(len(list_addresses(configuration_status)) == 2 for configuration_status in ready)


async def test_allocations_of_a_deleted_configuration_are_released_before_it_is_gone(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_configuration("vm", "eth0")
    await lab.wait_until_configured("vm", "Ready")
    second_finalizer = {"metadata": {"finalizers": [FINALIZER, "example.com/held"]}}
    await lab.patch(lab.build_path("NetworkConfiguration", "vm"), second_finalizer)
    await lab.delete("NetworkConfiguration", "vm")
    released = await lab.wait_for_phase("vm-eth0", "Released")
    assert "address" not in released
    configuration = await lab.until(
        "NetworkConfiguration", "vm", lambda body: FINALIZER not in body["metadata"]["finalizers"]
    )
    assert configuration["metadata"]["finalizers"] == ["example.com/held"]
    await lab.create_allocation("next")
    await lab.wait_for_address("next", "10.0.2.2")
    await lab.patch(lab.build_path("NetworkConfiguration", "vm"), {"metadata": {"finalizers": []}})
    await lab.wait_until_gone("NetworkConfiguration", "vm")
    await lab.create_configuration("vm", "eth0")
    assert list_addresses(await lab.wait_until_configured("vm", "Ready")) == ["10.0.2.3"]


async def test_an_expiring_address_is_renewed_if_an_interface_uses_it_and_else_released(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_configuration("vm", "eth0")
    await lab.create_allocation("idle", networkConfigurationName="late")
    ready = await lab.wait_until_configured("vm", "Ready")
    [address] = list_addresses(ready)
    await lab.wait_for_phase("idle", "Allocated")
    for name in ("vm-eth0", "idle"):
        expires = {"status": {"expiresAt": format_time_in(1)}}
        await lab.patch(f"{lab.build_path('IPAllocation', name)}/status", expires)
    await lab.wait_for_phase("idle", "Released")
    renewed = await lab.until(
        "IPAllocation",
        "vm-eth0",
        lambda allocation: get_status(allocation)["expiresAt"] > format_time_in(600),
    )
    assert get_status(renewed)["address"] == address
    expiry = get_status(renewed)["expiresAt"]
    await lab.until(
        "NetworkConfiguration",
        "vm",
        lambda configuration: (
            get_status(configuration)["networkInterfaces"][0]["allocationExpiry"] == expiry
        ),
    )
    await lab.create_configuration("late", "eth9")
    await lab.wait_for_phase("idle", "Allocated")


async def test_the_address_of_a_removed_interface_is_released(lab: VitistackLab) -> None:
    await lab.create_network()
    await lab.create_configuration("vm", "eth0", "eth1")
    await lab.wait_until_configured("vm", "Ready")
    fewer = {"spec": {"networkInterfaces": [{"name": "eth1"}]}}
    await lab.patch(lab.build_path("NetworkConfiguration", "vm"), fewer)
    await lab.wait_until_gone("IPAllocation", "vm-eth0")
    configuration = await lab.until(
        "NetworkConfiguration", "vm", lambda body: len(list_addresses(get_status(body))) == 1
    )
    assert list_addresses(get_status(configuration)) == ["10.0.2.3"]


async def test_an_allocation_that_a_person_deletes_is_recreated_with_its_address(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    for name in ("vm0", "vm1"):
        await lab.create_configuration(name, "eth0")
        await lab.wait_until_configured(name, "Ready")
    await lab.delete("IPAllocation", "vm0-eth0")
    await lab.delete("IPAllocation", "vm1-eth0")
    await lab.wait_for_address("vm1-eth0", "10.0.2.3")
    await lab.wait_for_address("vm0-eth0", "10.0.2.2")


async def test_an_interface_adopts_the_allocation_that_a_person_created_for_it(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_allocation("by-hand", "10.0.2.100", interfaceName="eth0")
    await lab.wait_for_address("by-hand", "10.0.2.100")
    configuration = await lab.create_configuration("vm", "eth0")
    assert list_addresses(await lab.wait_until_configured("vm", "Ready")) == ["10.0.2.100"]
    await lab.until(
        "IPAllocation",
        "by-hand",
        lambda allocation: (
            [owner["uid"] for owner in allocation["metadata"].get("ownerReferences", [])]
            == [configuration["metadata"]["uid"]]
        ),
    )
    assert [
        allocation["metadata"]["name"] for allocation in await lab.list_objects("IPAllocation")
    ] == ["by-hand"]


async def test_configurations_of_another_provider_are_left_alone(lab: VitistackLab) -> None:
    await lab.create_network()
    await lab.create_configuration("theirs", "eth0", provider="kea")
    await lab.create_configuration("ours", "eth0", provider="Butler-IPAM", networkNamespaceName="")
    assert list_addresses(await lab.wait_until_configured("ours", "Ready")) == ["10.0.2.2"]
    theirs = await lab.find("NetworkConfiguration", "theirs")
    assert theirs is not None
    assert "status" not in theirs
    assert "finalizers" not in theirs["metadata"]


async def test_settings_of_the_network_reach_the_configuration(lab: VitistackLab) -> None:
    await lab.create_network()
    await lab.create_configuration("vm", "eth0")
    await lab.wait_until_configured("vm", "Ready")
    await lab.change_settings(dns=["9.9.9.9", "1.1.1.1"], ipv4Gateway="10.0.2.254")
    configuration = await lab.until(
        "NetworkConfiguration",
        "vm",
        lambda body: get_status(body)["networkInterfaces"][0]["ipv4Gateway"] == "10.0.2.254",
    )
    assert get_status(configuration)["networkInterfaces"][0]["dns"] == ["9.9.9.9", "1.1.1.1"]


async def test_interfaces_with_names_that_differ_only_in_case_or_dots_get_an_address_each(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_configuration("vm", "eth0", "ETH0", "eth0.1", "eth0..1", "eth0-\u00fc")
    shown_addresses = list_addresses(await lab.wait_until_configured("vm", "Ready"))
    assert len(set(shown_addresses)) == len(shown_addresses) == 5


async def test_machines_whose_allocations_would_have_one_name_get_an_address_each(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_configuration("vm", "a-b")
    first = list_addresses(await lab.wait_until_configured("vm", "Ready"))
    await lab.create_configuration("vm-a", "b")
    other = list_addresses(await lab.wait_until_configured("vm-a", "Ready"))
    assert sorted([*first, *other]) == ["10.0.2.2", "10.0.2.3"]


async def test_a_machine_keeps_its_address_when_its_allocation_is_edited_to_another_network(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_network("other", ipv4CIDR="10.0.9.0/24", ipv4Gateway="10.0.9.1")
    await lab.create_configuration("vm", "eth0")
    await lab.wait_until_configured("vm", "Ready")
    edit = {"spec": {"networkNamespaceName": "other"}}
    await lab.patch(lab.build_path("IPAllocation", "vm-eth0"), edit)
    await lab.create_configuration("next", "eth0")
    assert list_addresses(await lab.wait_until_configured("next", "Ready")) == ["10.0.2.3"]


async def test_a_released_address_is_one_line_in_the_log(
    lab: VitistackLab, server: Server
) -> None:
    await lab.create_network()
    await lab.create_configuration("vm", "eth0")
    [address] = list_addresses(await lab.wait_until_configured("vm", "Ready"))
    await lab.delete("NetworkConfiguration", "vm")
    await lab.wait_until_gone("NetworkConfiguration", "vm")
    holder = f"ipallocations.vitistack.io {lab.namespace}/vm-eth0"
    line = await release_line(server.log, holder)
    assert f"range={address}" in line
    assert "pool='NetworkNamespace" in line
    assert "reason='NetworkConfiguration vm is deleted'" in line
