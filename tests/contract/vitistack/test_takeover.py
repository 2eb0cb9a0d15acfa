"""Addresses that static-ip-operator handed out are kept when its networks become ours."""

from typing import Any

import anyio
import pytest

from tests.contract.vitistack.lab import VitistackLab, list_addresses

pytestmark = pytest.mark.asyncio(loop_scope="package")
STATIC_IP_OPERATOR = {"provider": "static-ip-operator"}
MACHINES = 40


async def create_operator_machine(lab: VitistackLab, name: str, address: str) -> None:
    """Create a NetworkConfiguration that static-ip-operator served, without an IPAllocation."""
    await lab.create_configuration(name, "eth0")
    await write_operator_status(lab, name, address)


async def write_operator_status(lab: VitistackLab, name: str, address: str) -> None:
    """Write finalizer and status of a NetworkConfiguration as static-ip-operator does."""
    interface = {"name": "eth0", "ipv4Addresses": [address], "ipAllocated": True}
    status = {"phase": "Ready", "status": "Success", "networkInterfaces": [interface]}
    path = lab.build_path("NetworkConfiguration", name)
    await lab.patch(path, {"metadata": {"finalizers": ["vitistack.io/static-ip-finalizer"]}})
    await lab.patch(f"{path}/status", {"status": status})


async def set_provider(lab: VitistackLab, name: str | None) -> None:
    """Set the provider of network `net`; None means that it is ours."""
    spec = {"ipAllocation": {"provider": name}}
    await lab.patch(lab.build_path("NetworkNamespace", "net"), {"spec": spec})


async def test_machines_with_addresses_keep_them_and_waiting_machines_get_other_addresses(
    lab: VitistackLab,
) -> None:
    static: dict[str, Any] = {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"}
    await lab.create_network(allocation={"type": "static", "static": static, **STATIC_IP_OPERATOR})
    async with anyio.create_task_group() as group:
        for number in range(MACHINES):
            # Machines that wait are older and sort first, and the lowest addresses are held.
            group.start_soon(lab.create_configuration, f"a{number:02}", "eth0")
            address = f"10.0.2.{2 + number}"
            group.start_soon(create_operator_machine, lab, f"b{number:02}", address)
        await lab.create_allocation("by-hand")
    assert await lab.list_objects("IPAllocation") != []
    await set_provider(lab, None)
    addresses_of: dict[str, list[str]] = {}
    for number in range(MACHINES):
        for name in (f"a{number:02}", f"b{number:02}"):
            await lab.wait_for_phase(f"{name}-eth0", "Allocated")
            addresses_of[name] = list_addresses(await lab.wait_until_configured(name, "Ready"))
    kept_addresses = {
        name: address for name, address in addresses_of.items() if name.startswith("b")
    }
    assert kept_addresses == {
        f"b{number:02}": [f"10.0.2.{2 + number}"] for number in range(MACHINES)
    }
    assert len({address for [address] in addresses_of.values()}) == 2 * MACHINES
    by_hand = await lab.wait_for_phase("by-hand", "Allocated")
    assert [by_hand["address"]] not in addresses_of.values()


async def test_a_machine_shows_its_address_while_its_network_is_missing_or_ambiguous(
    lab: VitistackLab,
) -> None:
    await lab.create_configuration("late", "eth0")
    await lab.wait_until_configured("late", "Error")
    await write_operator_status(lab, "late", "10.0.2.2")
    configuration_status = await lab.wait_until_configured("late", "Error")
    assert list_addresses(configuration_status) == ["10.0.2.2"]
    for name in ("net", "other"):
        await lab.create_network(name)
    await lab.create("NetworkConfiguration", "vague", {"name": "vague", "networkInterfaces": []})
    await lab.wait_until_configured("vague", "Error")
    await write_operator_status(lab, "vague", "10.0.2.3")
    assert list_addresses(await lab.wait_until_configured("vague", "Error")) == ["10.0.2.3"]
    await lab.create_configuration("new", "eth0")
    assert list_addresses(await lab.wait_until_configured("new", "Ready")) == ["10.0.2.4"]
    assert list_addresses(await lab.wait_until_configured("late", "Ready")) == ["10.0.2.2"]


@pytest.mark.parametrize("broken", ["not provisioned", "no readable range"])
async def test_a_machine_keeps_its_address_until_its_network_is_served(
    lab: VitistackLab, broken: str
) -> None:
    static: dict[str, Any] = {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"}
    if broken == "no readable range":
        static["ipv4RangeStart"] = "10.0.9.1"
    phase = None if broken == "not provisioned" else "Ready"
    await lab.create_network(
        allocation={"type": "static", "static": static, **STATIC_IP_OPERATOR}, phase=phase
    )
    await create_operator_machine(lab, "vm", "10.0.2.50")
    await set_provider(lab, None)
    allocation = await lab.until("IPAllocation", "vm-eth0", lambda body: "status" in body)
    assert allocation["spec"]["requestedAddress"] == "10.0.2.50"
    await lab.change_settings(ipv4RangeStart=None)
    await lab.set_phase("net", "Ready")
    assert list_addresses(await lab.wait_until_configured("vm", "Ready")) == ["10.0.2.50"]
