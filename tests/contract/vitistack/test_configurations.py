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
    await lab.configured("vm", "Error")
    await lab.network()
    found = await lab.configured("vm", "Ready")
    assert found["status"] == "Success"
    assert found["message"].startswith("All 2 interfaces allocated static IPs")
    [ready] = found["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Configured")
    assert addresses(found) == ["10.0.2.2", "10.0.2.3"]
    made = await lab.find("IPAllocation", "vm-eth1")
    configuration = await lab.find("NetworkConfiguration", "vm")
    assert made is not None
    assert configuration is not None
    assert found["networkInterfaces"][1] == {
        "name": "eth1",
        "macAddress": "02:00:00:00:00:01",
        "ipv4Addresses": ["10.0.2.3"],
        "ipv4Subnet": "10.0.2.0/24",
        "ipv4Gateway": "10.0.2.1",
        "dns": ["8.8.8.8"],
        "ipAllocated": True,
        "allocationMethod": "static",
        "allocationExpiry": status(made)["expiresAt"],
    }
    assert configuration["metadata"]["finalizers"] == [FINALIZER]
    assert made["metadata"]["labels"] == {
        "vitistack.io/network-namespace": NETWORK,
        "vitistack.io/network-configuration": "vm",
    }
    assert made["metadata"]["ownerReferences"] == [
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
                status(one).get("phase", "") for one in await lab.every("NetworkConfiguration")
            )

        # 13 addresses for 16 interfaces: some have both, some fail with one.
        await until(phases, lambda found: set(found) == {"Ready", "Error"})
        every = await lab.every("NetworkConfiguration")
        group.cancel_scope.cancel()
    for one in every:
        count = len(addresses(status(one)))
        assert count == 2 if status(one)["phase"] == "Ready" else count < 2
    found = [address for one in every for address in addresses(status(one))]
    assert len(set(found)) == len(found) == 13
    failed = next(status(one) for one in every if status(one)["phase"] == "Error")
    assert "no available IPs for interface eth" in failed["message"]
    states = [status(json.loads(line)["object"]) for line in seen]
    ready = [one for one in states if one.get("phase") == "Ready"]
    assert ready
    assert all(len(addresses(one)) == 2 for one in ready)


async def test_a_deleted_configuration_shows_released_before_it_goes(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    await lab.configured("vm", "Ready")
    held = {"metadata": {"finalizers": [FINALIZER, "example.com/held"]}}
    await lab.patch(lab.path("NetworkConfiguration", "vm"), held)
    await lab.delete("NetworkConfiguration", "vm")
    found = await lab.shows("vm-eth0", "Released")
    assert "address" not in found
    left = await lab.until(
        "NetworkConfiguration", "vm", lambda one: FINALIZER not in one["metadata"]["finalizers"]
    )
    assert left["metadata"]["finalizers"] == ["example.com/held"]
    await lab.ask("next")
    await lab.has("next", "10.0.2.2")
    await lab.patch(lab.path("NetworkConfiguration", "vm"), {"metadata": {"finalizers": []}})
    await lab.gone("NetworkConfiguration", "vm")
    await lab.configuration("vm", "eth0")
    assert addresses(await lab.configured("vm", "Ready")) == ["10.0.2.3"]


async def test_an_address_that_is_in_use_is_renewed_and_another_released(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    await lab.ask("idle", networkConfigurationName="late")
    ready = await lab.configured("vm", "Ready")
    [mine] = addresses(ready)
    await lab.shows("idle", "Allocated")
    for name in ("vm-eth0", "idle"):
        expires = {"status": {"expiresAt": at(1)}}
        await lab.patch(f"{lab.path('IPAllocation', name)}/status", expires)
    await lab.shows("idle", "Released")
    renewed = await lab.until(
        "IPAllocation", "vm-eth0", lambda one: status(one)["expiresAt"] > at(600)
    )
    assert status(renewed)["address"] == mine
    expiry = status(renewed)["expiresAt"]
    await lab.until(
        "NetworkConfiguration",
        "vm",
        lambda one: status(one)["networkInterfaces"][0]["allocationExpiry"] == expiry,
    )
    await lab.configuration("late", "eth9")
    await lab.shows("idle", "Allocated")


async def test_an_interface_that_is_gone_gives_its_address_back(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0", "eth1")
    await lab.configured("vm", "Ready")
    fewer = {"spec": {"networkInterfaces": [{"name": "eth1"}]}}
    await lab.patch(lab.path("NetworkConfiguration", "vm"), fewer)
    await lab.gone("IPAllocation", "vm-eth0")
    found = await lab.until(
        "NetworkConfiguration", "vm", lambda one: len(addresses(status(one))) == 1
    )
    assert addresses(status(found)) == ["10.0.2.3"]


async def test_an_allocation_that_was_deleted_by_hand_comes_back_with_its_address(
    lab: Lab,
) -> None:
    await lab.network()
    for name in ("vm0", "vm1"):
        await lab.configuration(name, "eth0")
        await lab.configured(name, "Ready")
    await lab.delete("IPAllocation", "vm0-eth0")
    await lab.delete("IPAllocation", "vm1-eth0")
    await lab.has("vm1-eth0", "10.0.2.3")
    await lab.has("vm0-eth0", "10.0.2.2")


async def test_an_allocation_made_by_hand_serves_its_interface_and_is_adopted(lab: Lab) -> None:
    await lab.network()
    await lab.ask("mine", "10.0.2.100", interfaceName="eth0")
    await lab.has("mine", "10.0.2.100")
    made = await lab.configuration("vm", "eth0")
    assert addresses(await lab.configured("vm", "Ready")) == ["10.0.2.100"]
    await lab.until(
        "IPAllocation",
        "mine",
        lambda one: (
            [each["uid"] for each in one["metadata"].get("ownerReferences", [])]
            == [made["metadata"]["uid"]]
        ),
    )
    assert [one["metadata"]["name"] for one in await lab.every("IPAllocation")] == ["mine"]


async def test_configurations_of_another_provider_are_left_alone(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("theirs", "eth0", provider="kea")
    await lab.configuration("ours", "eth0", provider="Butler-IPAM", networkNamespaceName="")
    assert addresses(await lab.configured("ours", "Ready")) == ["10.0.2.2"]
    theirs = await lab.find("NetworkConfiguration", "theirs")
    assert theirs is not None
    assert "status" not in theirs
    assert "finalizers" not in theirs["metadata"]


async def test_settings_of_the_network_reach_the_configuration(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    await lab.configured("vm", "Ready")
    await lab.settings(dns=["9.9.9.9", "1.1.1.1"], ipv4Gateway="10.0.2.254")
    found = await lab.until(
        "NetworkConfiguration",
        "vm",
        lambda one: status(one)["networkInterfaces"][0]["ipv4Gateway"] == "10.0.2.254",
    )
    assert status(found)["networkInterfaces"][0]["dns"] == ["9.9.9.9", "1.1.1.1"]


async def test_interfaces_whose_names_are_alike_have_an_address_each(lab: Lab) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0", "ETH0", "eth0.1", "eth0..1", "eth0-\u00fc")
    found = addresses(await lab.configured("vm", "Ready"))
    assert len(set(found)) == len(found) == 5


async def test_machines_whose_allocations_would_have_one_name_have_an_address_each(
    lab: Lab,
) -> None:
    await lab.network()
    await lab.configuration("vm", "a-b")
    one = addresses(await lab.configured("vm", "Ready"))
    await lab.configuration("vm-a", "b")
    other = addresses(await lab.configured("vm-a", "Ready"))
    assert sorted([*one, *other]) == ["10.0.2.2", "10.0.2.3"]


async def test_the_address_of_a_machine_stays_its_own_when_its_allocation_is_edited(
    lab: Lab,
) -> None:
    await lab.network()
    await lab.network("other", ipv4CIDR="10.0.9.0/24", ipv4Gateway="10.0.9.1")
    await lab.configuration("vm", "eth0")
    await lab.configured("vm", "Ready")
    edit = {"spec": {"networkNamespaceName": "other"}}
    await lab.patch(lab.path("IPAllocation", "vm-eth0"), edit)
    await lab.configuration("next", "eth0")
    assert addresses(await lab.configured("next", "Ready")) == ["10.0.2.3"]


async def test_a_released_address_is_one_line_in_the_log(lab: Lab, server: Server) -> None:
    await lab.network()
    await lab.configuration("vm", "eth0")
    [address] = addresses(await lab.configured("vm", "Ready"))
    await lab.delete("NetworkConfiguration", "vm")
    await lab.gone("NetworkConfiguration", "vm")
    holder = f"ipallocations.vitistack.io {lab.namespace}/vm-eth0"
    line = await release_line(server.log, holder)
    assert f"range={address}" in line
    assert "pool='NetworkNamespace" in line
    assert "reason='NetworkConfiguration vm is deleted'" in line
