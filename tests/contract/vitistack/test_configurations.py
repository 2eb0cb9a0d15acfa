"""NetworkConfigurations: an address for each interface, shown, kept, and released at the end."""

import json
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from tests.contract.product import Server, release_line
from tests.contract.vitistack.lab import NETWORK, Lab, addresses, status
from tests.polling import until

pytestmark = [pytest.mark.asyncio(loop_scope="package")]
FINALIZER = "vitistack.io/static-ip-finalizer"


def at(seconds: float) -> str:
    """Return the time in so many seconds, as an object says it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_each_interface_gets_its_address_and_the_configuration_shows_them(lab: Lab) -> None:
    await lab.configuration("vm", "eth0", "eth1")
    await lab.wait_until_configured("vm", "Error")
    await lab.network()
    configuration_status = await lab.wait_until_configured("vm", "Ready")
    assert configuration_status["status"] == "Success"
    assert configuration_status["message"].startswith("All 2 interfaces allocated static IPs")
    [ready] = configuration_status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Configured")
    assert addresses(configuration_status) == ["10.0.2.2", "10.0.2.3"]
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
        "allocationExpiry": status(allocation)["expiresAt"],
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


async def test_a_configuration_is_never_ready_with_an_interface_without_address(lab: Lab) -> None:
    await lab.network(ipv4CIDR="10.0.2.0/28")
    seen: list[str] = []

    async def watch() -> None:
        async with lab.admin.stream(
            "GET", lab.path("NetworkConfiguration"), params={"watch": "true"}
        ) as events:
            async for line in events.aiter_lines():
                seen.append(line)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        async with anyio.create_task_group() as making:
            for number in range(8):
                making.start_soon(lab.configuration, f"vm{number}", "eth0", "eth1")

        async def phases() -> list[str]:
            return sorted(
                status(configuration).get("phase", "")
                for configuration in await lab.every("NetworkConfiguration")
            )

        # 13 addresses for 16 interfaces: some have both, some fail with one.
        await until(phases, lambda phases: set(phases) == {"Ready", "Error"})
        configurations = await lab.every("NetworkConfiguration")
        group.cancel_scope.cancel()
    for configuration in configurations:
        count = len(addresses(status(configuration)))
        assert count == 2 if status(configuration)["phase"] == "Ready" else count < 2
    shown_addresses = [
        address for configuration in configurations for address in addresses(status(configuration))
    ]
    assert len(set(shown_addresses)) == len(shown_addresses) == 13
    failed = next(
        status(configuration)
        for configuration in configurations
        if status(configuration)["phase"] == "Error"
    )
    assert "no available IPs for interface eth" in failed["message"]
    states = [status(json.loads(line)["object"]) for line in seen]
    ready = [state for state in states if state.get("phase") == "Ready"]
    assert ready
    assert all(len(addresses(configuration_status)) == 2 for configuration_status in ready)


async def test_a_deleted_configuration_shows_released_before_it_goes(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    await lab.wait_until_configured("vm", "Ready")
    held_metadata = {"metadata": {"finalizers": [FINALIZER, "example.com/held"]}}
    await lab.patch(lab.path("NetworkConfiguration", "vm"), held_metadata)
    await lab.delete("NetworkConfiguration", "vm")
    released = await lab.shows("vm-eth0", "Released")
    assert "address" not in released
    configuration = await lab.until(
        "NetworkConfiguration", "vm", lambda body: FINALIZER not in body["metadata"]["finalizers"]
    )
    assert configuration["metadata"]["finalizers"] == ["example.com/held"]
    await lab.ask("next")
    await lab.has("next", "10.0.2.2")
    await lab.patch(lab.path("NetworkConfiguration", "vm"), {"metadata": {"finalizers": []}})
    await lab.wait_until_gone("NetworkConfiguration", "vm")
    await lab.configuration("vm", "eth0")
    assert addresses(await lab.wait_until_configured("vm", "Ready")) == ["10.0.2.3"]


async def test_an_address_that_is_in_use_is_renewed_and_another_released(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    await lab.ask("idle", networkConfigurationName="late")
    ready = await lab.wait_until_configured("vm", "Ready")
    [address] = addresses(ready)
    await lab.shows("idle", "Allocated")
    for name in ("vm-eth0", "idle"):
        expires = {"status": {"expiresAt": at(1)}}
        await lab.patch(f"{lab.path('IPAllocation', name)}/status", expires)
    await lab.shows("idle", "Released")
    renewed = await lab.until(
        "IPAllocation", "vm-eth0", lambda allocation: status(allocation)["expiresAt"] > at(600)
    )
    assert status(renewed)["address"] == address
    expiry = status(renewed)["expiresAt"]
    await lab.until(
        "NetworkConfiguration",
        "vm",
        lambda configuration: (
            status(configuration)["networkInterfaces"][0]["allocationExpiry"] == expiry
        ),
    )
    await lab.configuration("late", "eth9")
    await lab.shows("idle", "Allocated")


async def test_an_interface_that_is_gone_gives_its_address_back(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0", "eth1")
    await lab.wait_until_configured("vm", "Ready")
    fewer = {"spec": {"networkInterfaces": [{"name": "eth1"}]}}
    await lab.patch(lab.path("NetworkConfiguration", "vm"), fewer)
    await lab.wait_until_gone("IPAllocation", "vm-eth0")
    configuration = await lab.until(
        "NetworkConfiguration", "vm", lambda body: len(addresses(status(body))) == 1
    )
    assert addresses(status(configuration)) == ["10.0.2.3"]


async def test_an_allocation_that_was_deleted_by_hand_comes_back_with_its_address(
    lab: Lab,
) -> None:
    await lab.network()
    for name in ("vm0", "vm1"):
        await lab.configuration(name, "eth0")
        await lab.wait_until_configured(name, "Ready")
    await lab.delete("IPAllocation", "vm0-eth0")
    await lab.delete("IPAllocation", "vm1-eth0")
    await lab.has("vm1-eth0", "10.0.2.3")
    await lab.has("vm0-eth0", "10.0.2.2")


async def test_an_allocation_made_by_hand_serves_its_interface_and_is_adopted(lab: Lab) -> None:
    await lab.network()
    await lab.ask("mine", "10.0.2.100", interfaceName="eth0")
    await lab.has("mine", "10.0.2.100")
    configuration = await lab.configuration("vm", "eth0")
    assert addresses(await lab.wait_until_configured("vm", "Ready")) == ["10.0.2.100"]
    await lab.until(
        "IPAllocation",
        "mine",
        lambda allocation: (
            [owner["uid"] for owner in allocation["metadata"].get("ownerReferences", [])]
            == [configuration["metadata"]["uid"]]
        ),
    )
    assert [allocation["metadata"]["name"] for allocation in await lab.every("IPAllocation")] == [
        "mine"
    ]


async def test_configurations_of_another_provider_are_left_alone(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("theirs", "eth0", provider="kea")
    await lab.configuration("ours", "eth0", provider="Butler-IPAM", networkNamespaceName="")
    assert addresses(await lab.wait_until_configured("ours", "Ready")) == ["10.0.2.2"]
    theirs = await lab.find("NetworkConfiguration", "theirs")
    assert theirs is not None
    assert "status" not in theirs
    assert "finalizers" not in theirs["metadata"]


async def test_settings_of_the_network_reach_the_configuration(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    await lab.wait_until_configured("vm", "Ready")
    await lab.settings(dns=["9.9.9.9", "1.1.1.1"], ipv4Gateway="10.0.2.254")
    configuration = await lab.until(
        "NetworkConfiguration",
        "vm",
        lambda body: status(body)["networkInterfaces"][0]["ipv4Gateway"] == "10.0.2.254",
    )
    assert status(configuration)["networkInterfaces"][0]["dns"] == ["9.9.9.9", "1.1.1.1"]


async def test_interfaces_whose_names_are_alike_have_an_address_each(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0", "ETH0", "eth0.1", "eth0..1", "eth0-\u00fc")
    shown_addresses = addresses(await lab.wait_until_configured("vm", "Ready"))
    assert len(set(shown_addresses)) == len(shown_addresses) == 5


async def test_machines_whose_allocations_would_have_one_name_have_an_address_each(
    lab: Lab,
) -> None:
    await lab.network()
    await lab.configuration("vm", "a-b")
    first = addresses(await lab.wait_until_configured("vm", "Ready"))
    await lab.configuration("vm-a", "b")
    other = addresses(await lab.wait_until_configured("vm-a", "Ready"))
    assert sorted([*first, *other]) == ["10.0.2.2", "10.0.2.3"]


async def test_the_address_of_a_machine_stays_its_own_when_its_allocation_is_edited(
    lab: Lab,
) -> None:
    await lab.network()
    await lab.network("other", ipv4CIDR="10.0.9.0/24", ipv4Gateway="10.0.9.1")
    await lab.configuration("vm", "eth0")
    await lab.wait_until_configured("vm", "Ready")
    edit = {"spec": {"networkNamespaceName": "other"}}
    await lab.patch(lab.path("IPAllocation", "vm-eth0"), edit)
    await lab.configuration("next", "eth0")
    assert addresses(await lab.wait_until_configured("next", "Ready")) == ["10.0.2.3"]


async def test_a_released_address_is_one_line_in_the_log(lab: Lab, server: Server) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    [address] = addresses(await lab.wait_until_configured("vm", "Ready"))
    await lab.delete("NetworkConfiguration", "vm")
    await lab.wait_until_gone("NetworkConfiguration", "vm")
    holder = f"ipallocations.vitistack.io {lab.namespace}/vm-eth0"
    line = await release_line(server.log, holder)
    assert f"range={address}" in line
    assert "pool='NetworkNamespace" in line
    assert "reason='NetworkConfiguration vm is deleted'" in line
