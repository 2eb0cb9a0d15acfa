"""What static-ip-operator gave out is kept when its networks become ours."""

from typing import Any

import anyio
import pytest

from tests.contract.vitistack.lab import Lab, addresses

pytestmark = pytest.mark.asyncio(loop_scope="package")
OTHER = {"provider": "static-ip-operator"}
MACHINES = 40


async def given_by_the_other(lab: Lab, name: str, address: str) -> None:
    """Make a NetworkConfiguration as static-ip-operator leaves it, without an IPAllocation."""
    await lab.configuration(name, "eth0")
    await shown_by_the_other(lab, name, address)


async def shown_by_the_other(lab: Lab, name: str, address: str) -> None:
    """Write into a NetworkConfiguration what static-ip-operator writes."""
    interface = {"name": "eth0", "ipv4Addresses": [address], "ipAllocated": True}
    status = {"phase": "Ready", "status": "Success", "networkInterfaces": [interface]}
    path = lab.path("NetworkConfiguration", name)
    await lab.patch(path, {"metadata": {"finalizers": ["vitistack.io/static-ip-finalizer"]}})
    await lab.patch(f"{path}/status", {"status": status})


async def provider(lab: Lab, name: str | None) -> None:
    """Say who hands out the addresses of the network."""
    spec = {"ipAllocation": {"provider": name}}
    await lab.patch(lab.path("NetworkNamespace", "net"), {"spec": spec})


async def test_machines_keep_their_addresses_and_new_ones_get_others(lab: Lab) -> None:
    static: dict[str, Any] = {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"}
    await lab.network(allocation={"type": "static", "static": static, **OTHER})
    async with anyio.create_task_group() as group:
        for number in range(MACHINES):
            # Those that wait come first, and the lowest addresses are taken.
            group.start_soon(lab.configuration, f"a{number:02}", "eth0")
            address = f"10.0.2.{2 + number}"
            group.start_soon(given_by_the_other, lab, f"b{number:02}", address)
        await lab.ask("by-hand")
    assert await lab.every("IPAllocation") != []
    await provider(lab, None)
    has: dict[str, list[str]] = {}
    for number in range(MACHINES):
        for name in (f"a{number:02}", f"b{number:02}"):
            await lab.shows(f"{name}-eth0", "Allocated")
            has[name] = addresses(await lab.wait_until_configured(name, "Ready"))
    kept = {name: address for name, address in has.items() if name.startswith("b")}
    assert kept == {f"b{number:02}": [f"10.0.2.{2 + number}"] for number in range(MACHINES)}
    assert len({address for [address] in has.values()}) == 2 * MACHINES
    by_hand = await lab.shows("by-hand", "Allocated")
    assert [by_hand["address"]] not in has.values()


async def test_a_machine_shows_its_address_while_its_network_is_missing_or_ambiguous(
    lab: Lab,
) -> None:
    await lab.configuration("late", "eth0")
    await lab.wait_until_configured("late", "Error")
    await shown_by_the_other(lab, "late", "10.0.2.2")
    configuration_status = await lab.wait_until_configured("late", "Error")
    assert addresses(configuration_status) == ["10.0.2.2"]
    for name in ("net", "other"):
        await lab.network(name)
    await lab.post("NetworkConfiguration", "vague", {"name": "vague", "networkInterfaces": []})
    await lab.wait_until_configured("vague", "Error")
    await shown_by_the_other(lab, "vague", "10.0.2.3")
    assert addresses(await lab.wait_until_configured("vague", "Error")) == ["10.0.2.3"]
    await lab.configuration("new", "eth0")
    assert addresses(await lab.wait_until_configured("new", "Ready")) == ["10.0.2.4"]
    assert addresses(await lab.wait_until_configured("late", "Ready")) == ["10.0.2.2"]


@pytest.mark.parametrize("broken", ["not provisioned", "no readable range"])
async def test_a_machine_keeps_its_address_until_its_network_is_served(
    lab: Lab, broken: str
) -> None:
    static: dict[str, Any] = {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"}
    if broken == "no readable range":
        static["ipv4RangeStart"] = "10.0.9.1"
    phase = None if broken == "not provisioned" else "Ready"
    await lab.network(allocation={"type": "static", "static": static, **OTHER}, phase=phase)
    await given_by_the_other(lab, "vm", "10.0.2.50")
    await provider(lab, None)
    allocation = await lab.until("IPAllocation", "vm-eth0", lambda body: "status" in body)
    assert allocation["spec"]["requestedAddress"] == "10.0.2.50"
    await lab.settings(ipv4RangeStart=None)
    await lab.set_phase("net", "Ready")
    assert addresses(await lab.wait_until_configured("vm", "Ready")) == ["10.0.2.50"]
