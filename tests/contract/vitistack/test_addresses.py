"""The address that an IPAllocation gets, and what it reports while it has none."""

from datetime import UTC, datetime

import anyio
import pytest

from tests.contract.vitistack.lab import NETWORK, VitistackLab, get_status

pytestmark = [pytest.mark.asyncio(loop_scope="package")]


async def test_an_allocation_gets_the_lowest_free_address_and_the_settings_of_the_network(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_allocation("a")
    allocation_status = await lab.wait_for_address("a", "10.0.2.2")
    assert allocation_status.pop("expiresAt").endswith("Z")
    assert allocation_status == {
        "phase": "Allocated",
        "address": "10.0.2.2",
        "gateway": "10.0.2.1",
        "prefix": 24,
        "vlanId": 100,
        "dns": ["8.8.8.8"],
        "message": "IP allocated successfully",
    }


async def test_a_gateway_in_the_range_is_never_handed_out(lab: VitistackLab) -> None:
    await lab.create_network(ipv4CIDR="10.0.2.0/29", ipv4Gateway="10.0.2.4")
    for number in range(4):
        await lab.create_allocation(f"a{number}")
    addresses = [
        (await lab.wait_for_phase(f"a{number}", "Allocated"))["address"] for number in range(4)
    ]
    assert addresses == ["10.0.2.2", "10.0.2.3", "10.0.2.5", "10.0.2.6"]
    await lab.create_allocation("late")
    await lab.wait_until_refused("late", "no available IP addresses in pool")
    assert await lab.wait_for_events("IPAllocation", "late", "PoolExhausted")
    assert await lab.wait_for_events("NetworkNamespace", NETWORK, "PoolExhausted")
    await lab.delete("IPAllocation", "a1")
    await lab.wait_for_address("late", "10.0.2.3")


async def test_a_requested_address_is_allocated_or_named_in_the_refusal(lab: VitistackLab) -> None:
    await lab.create_network(
        ipv4RangeStart="10.0.2.10", ipv4RangeEnd="10.0.2.20", ipv4Gateway="10.0.2.15"
    )
    await lab.create_allocation("good", "10.0.2.12")
    await lab.wait_for_address("good", "10.0.2.12")
    for name, message in {
        "taken": "10.0.2.12",
        "gateway": "10.0.2.15",
        "outside": "10.0.2.21",
        "broadcast": "10.0.2.255",
        "zeros": "010.0.2.13",
        "six": "2001:db8::1",
        "garbage": "eth0",
    }.items():
        await lab.create_allocation(name, message)
        await lab.wait_until_refused(name, f'requested address "{message}"')
    await lab.create_allocation("lowest")
    await lab.wait_for_address("lowest", "10.0.2.10")
    await lab.delete("IPAllocation", "good")
    await lab.wait_for_address("taken", "10.0.2.12")
    await lab.patch(
        lab.build_path("IPAllocation", "six"), {"spec": {"requestedAddress": "10.0.2.13"}}
    )
    await lab.wait_for_address("six", "10.0.2.13")
    await lab.patch(
        lab.build_path("IPAllocation", "six"), {"spec": {"requestedAddress": "10.0.2.14"}}
    )
    await lab.create_allocation("later", "10.0.2.14")
    await lab.wait_for_address("later", "10.0.2.14")
    await lab.wait_for_address("six", "10.0.2.13")


async def test_one_of_four_allocations_that_request_one_address_at_once_gets_it(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(lab.create_allocation, f"a{number}", "10.0.2.50")

    for number in range(4):
        await lab.until(
            "IPAllocation",
            f"a{number}",
            lambda allocation: get_status(allocation).get("phase") in {"Allocated", "Error"},
        )
    allocations = await lab.list_objects("IPAllocation")
    phases = sorted(get_status(allocation)["phase"] for allocation in allocations)
    assert phases == ["Allocated", "Error", "Error", "Error"]


async def test_an_allocation_reports_each_cause_of_its_wait_until_it_is_gone(
    lab: VitistackLab,
) -> None:
    await lab.create_allocation("a")
    await lab.wait_until_refused("a", f'NetworkNamespace "{NETWORK}" not found')
    await lab.create_network(phase=None, allocation={"type": "static"})
    assert "provisioning" in (await lab.wait_for_phase("a", "Pending"))["message"]
    await lab.set_phase(NETWORK, "Error")
    await lab.until(
        "IPAllocation",
        "a",
        lambda allocation: "(phase: Error)" in get_status(allocation)["message"],
    )
    await lab.set_phase(NETWORK, "Ready")
    await lab.wait_until_refused(
        "a", f'NetworkNamespace "{NETWORK}" has no static IP configuration'
    )
    await lab.change_settings(ipv4CIDR="10.0.2.0/32", ipv4Gateway="10.0.2.1")
    await lab.wait_until_refused("a", "invalid IP range: ")
    await lab.change_settings(ipv4CIDR="10.0.2.0/24", ipv4RangeStart="10.0.3.7")
    await lab.wait_until_refused("a", "invalid IP range: ")
    await lab.change_settings(ipv4RangeStart="10.0.2.7")
    await lab.wait_for_address("a", "10.0.2.7")


async def test_an_allocation_keeps_its_address_when_its_network_is_changed_or_deleted(
    lab: VitistackLab,
) -> None:
    await lab.create_network()
    await lab.create_allocation("a")
    await lab.wait_for_address("a", "10.0.2.2")
    await lab.set_phase(NETWORK, "Pending")
    await lab.change_settings(
        ipv4RangeStart="10.0.2.100", dns=["9.9.9.9"], vlanId=7, ipv4Gateway="10.0.2.254"
    )
    allocation = await lab.until(
        "IPAllocation", "a", lambda body: get_status(body).get("vlanId") == 7
    )
    seen = {name: get_status(allocation)[name] for name in ("phase", "address", "dns", "gateway")}
    assert seen == {
        "phase": "Allocated",
        "address": "10.0.2.2",
        "dns": ["9.9.9.9"],
        "gateway": "10.0.2.254",
    }
    await lab.set_phase(NETWORK, "Ready")
    await lab.create_allocation("b")
    await lab.wait_for_address("b", "10.0.2.100")
    await lab.delete("NetworkNamespace", NETWORK)
    await lab.create_allocation("c")
    await lab.wait_until_refused("c", "not found")
    await lab.wait_for_address("a", "10.0.2.2")


async def test_an_address_in_the_status_of_an_allocation_without_labels_is_not_handed_out(
    lab: VitistackLab,
) -> None:
    await lab.create_network(phase=None)
    await lab.create_allocation("by-hand")
    await lab.patch(
        f"{lab.build_path('IPAllocation', 'by-hand')}/status",
        {"status": {"phase": "Allocated", "address": "10.0.2.2"}},
    )
    await lab.set_phase(NETWORK, "Ready")
    await lab.create_allocation("a")
    await lab.wait_for_address("a", "10.0.2.3")


async def test_the_summary_counts_allocated_and_available_addresses(lab: VitistackLab) -> None:
    await lab.create_network(
        ipv4RangeStart="10.0.2.10", ipv4RangeEnd="10.0.2.19", ipv4Gateway="10.0.2.12"
    )
    for number in range(3):
        await lab.create_allocation(f"a{number}")
    assert await lab.wait_for_summary(lambda summary: summary.get("allocatedCount") == 3) == {
        "type": "static",
        "provider": "butler-ipam",
        "allocatedCount": 3,
        "availableCount": 6,
        "totalCount": 9,
    }
    await lab.delete("IPAllocation", "a0")
    assert (await lab.wait_for_summary(lambda summary: summary["allocatedCount"] == 2))[
        "availableCount"
    ] == 7
    network = await lab.find("NetworkNamespace", NETWORK)
    assert network is not None
    assert (get_status(network)["ipv4Prefix"], get_status(network)["vlanId"]) == (
        "10.0.2.0/24",
        100,
    )


@pytest.mark.parametrize("provider", ["kea", "static-ip-operator"])
async def test_a_network_of_another_provider_is_left_alone(
    lab: VitistackLab, provider: str
) -> None:
    ip_allocation = {
        "type": "static",
        "provider": provider,
        "static": {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": ""},
    }
    await lab.create_network("other", allocation=ip_allocation)
    ip_allocation["provider"] = " Butler-IPAM ".strip().upper()
    await lab.create_network(allocation=ip_allocation)
    await lab.create_allocation("theirs", networkNamespaceName="other")
    await lab.create_allocation("ours")
    await lab.wait_for_address("ours", "10.0.2.2")
    theirs = await lab.find("IPAllocation", "theirs")
    assert theirs is not None
    assert "status" not in theirs


async def test_a_network_of_dhcp_hands_out_nothing(lab: VitistackLab) -> None:
    ip_allocation = {
        "type": "dhcp",
        "static": {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"},
    }
    await lab.create_network(allocation=ip_allocation)
    await lab.create_allocation("a")
    await lab.wait_until_refused("a", "has no static IP configuration")


async def test_an_address_expires_after_a_hundred_years_at_most(lab: VitistackLab) -> None:
    await lab.create_network(ttlSeconds=10**12)
    await lab.create_allocation("one")
    allocation_status = await lab.wait_for_address("one", "10.0.2.2")
    years = datetime.fromisoformat(allocation_status["expiresAt"]).year - datetime.now(UTC).year
    assert 99 <= years <= 100
