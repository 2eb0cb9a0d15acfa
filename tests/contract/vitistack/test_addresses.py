"""Which address an IPAllocation gets, and what it says while it has none."""

from datetime import UTC, datetime

import anyio
import pytest

from tests.contract.vitistack.lab import NETWORK, Lab, status

pytestmark = [pytest.mark.asyncio(loop_scope="package")]


async def test_the_lowest_free_address_comes_with_what_a_machine_has_to_know(lab: Lab) -> None:
    await lab.network()
    await lab.ask("a")
    allocation_status = await lab.has("a", "10.0.2.2")
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


async def test_a_gateway_in_the_range_is_never_handed_out(lab: Lab) -> None:
    await lab.network(ipv4CIDR="10.0.2.0/29", ipv4Gateway="10.0.2.4")
    for number in range(4):
        await lab.ask(f"a{number}")
    addresses = [(await lab.shows(f"a{number}", "Allocated"))["address"] for number in range(4)]
    assert addresses == ["10.0.2.2", "10.0.2.3", "10.0.2.5", "10.0.2.6"]
    await lab.ask("late")
    await lab.wait_until_refused("late", "no available IP addresses in pool")
    assert await lab.events("IPAllocation", "late", "PoolExhausted")
    assert await lab.events("NetworkNamespace", NETWORK, "PoolExhausted")
    await lab.delete("IPAllocation", "a1")
    await lab.has("late", "10.0.2.3")


async def test_a_requested_address_is_given_or_refused_by_its_name(lab: Lab) -> None:
    await lab.network(
        ipv4RangeStart="10.0.2.10", ipv4RangeEnd="10.0.2.20", ipv4Gateway="10.0.2.15"
    )
    await lab.ask("good", "10.0.2.12")
    await lab.has("good", "10.0.2.12")
    for name, message in {
        "taken": "10.0.2.12",
        "gateway": "10.0.2.15",
        "outside": "10.0.2.21",
        "broadcast": "10.0.2.255",
        "zeros": "010.0.2.13",
        "six": "2001:db8::1",
        "garbage": "eth0",
    }.items():
        await lab.ask(name, message)
        await lab.wait_until_refused(name, f'requested address "{message}"')
    await lab.ask("lowest")
    await lab.has("lowest", "10.0.2.10")
    await lab.delete("IPAllocation", "good")
    await lab.has("taken", "10.0.2.12")
    await lab.patch(lab.path("IPAllocation", "six"), {"spec": {"requestedAddress": "10.0.2.13"}})
    await lab.has("six", "10.0.2.13")
    await lab.patch(lab.path("IPAllocation", "six"), {"spec": {"requestedAddress": "10.0.2.14"}})
    await lab.ask("later", "10.0.2.14")
    await lab.has("later", "10.0.2.14")
    await lab.has("six", "10.0.2.13")


async def test_of_four_that_request_one_address_at_once_one_has_it(lab: Lab) -> None:
    await lab.network()
    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(lab.ask, f"a{number}", "10.0.2.50")

    def are_decided(bodies: list[str]) -> bool:
        return sorted(bodies) == ["Allocated", "Error", "Error", "Error"]

    for number in range(4):
        await lab.until(
            "IPAllocation",
            f"a{number}",
            lambda allocation: status(allocation).get("phase") in {"Allocated", "Error"},
        )
    assert are_decided(
        [status(allocation)["phase"] for allocation in await lab.every("IPAllocation")]
    )


async def test_each_cause_is_reported_and_goes_away_by_itself(lab: Lab) -> None:
    await lab.ask("a")
    await lab.wait_until_refused("a", f'NetworkNamespace "{NETWORK}" not found')
    await lab.network(phase=None, allocation={"type": "static"})
    assert "provisioning" in (await lab.shows("a", "Pending"))["message"]
    await lab.set_phase(NETWORK, "Error")
    await lab.until(
        "IPAllocation", "a", lambda allocation: "(phase: Error)" in status(allocation)["message"]
    )
    await lab.set_phase(NETWORK, "Ready")
    await lab.wait_until_refused(
        "a", f'NetworkNamespace "{NETWORK}" has no static IP configuration'
    )
    await lab.settings(ipv4CIDR="10.0.2.0/32", ipv4Gateway="10.0.2.1")
    await lab.wait_until_refused("a", "invalid IP range: ")
    await lab.settings(ipv4CIDR="10.0.2.0/24", ipv4RangeStart="10.0.3.7")
    await lab.wait_until_refused("a", "invalid IP range: ")
    await lab.settings(ipv4RangeStart="10.0.2.7")
    await lab.has("a", "10.0.2.7")


async def test_an_address_in_use_survives_whatever_becomes_of_the_network(lab: Lab) -> None:
    await lab.network()
    await lab.ask("a")
    await lab.has("a", "10.0.2.2")
    await lab.set_phase(NETWORK, "Pending")
    await lab.settings(
        ipv4RangeStart="10.0.2.100", dns=["9.9.9.9"], vlanId=7, ipv4Gateway="10.0.2.254"
    )
    allocation = await lab.until("IPAllocation", "a", lambda body: status(body).get("vlanId") == 7)
    seen = {name: status(allocation)[name] for name in ("phase", "address", "dns", "gateway")}
    assert seen == {
        "phase": "Allocated",
        "address": "10.0.2.2",
        "dns": ["9.9.9.9"],
        "gateway": "10.0.2.254",
    }
    await lab.set_phase(NETWORK, "Ready")
    await lab.ask("b")
    await lab.has("b", "10.0.2.100")
    await lab.delete("NetworkNamespace", NETWORK)
    await lab.ask("c")
    await lab.wait_until_refused("c", "not found")
    await lab.has("a", "10.0.2.2")


async def test_what_others_show_is_not_handed_out_whatever_their_labels(lab: Lab) -> None:
    await lab.network(phase=None)
    await lab.ask("by-hand")
    await lab.patch(
        f"{lab.path('IPAllocation', 'by-hand')}/status",
        {"status": {"phase": "Allocated", "address": "10.0.2.2"}},
    )
    await lab.set_phase(NETWORK, "Ready")
    await lab.ask("a")
    await lab.has("a", "10.0.2.3")


async def test_the_summary_counts_what_is_allocated(lab: Lab) -> None:
    await lab.network(
        ipv4RangeStart="10.0.2.10", ipv4RangeEnd="10.0.2.19", ipv4Gateway="10.0.2.12"
    )
    for number in range(3):
        await lab.ask(f"a{number}")
    assert await lab.summary(lambda shown_summary: shown_summary.get("allocatedCount") == 3) == {
        "type": "static",
        "provider": "butler-ipam",
        "allocatedCount": 3,
        "availableCount": 6,
        "totalCount": 9,
    }
    await lab.delete("IPAllocation", "a0")
    assert (await lab.summary(lambda shown_summary: shown_summary["allocatedCount"] == 2))[
        "availableCount"
    ] == 7
    network = await lab.find("NetworkNamespace", NETWORK)
    assert network is not None
    assert (status(network)["ipv4Prefix"], status(network)["vlanId"]) == ("10.0.2.0/24", 100)


@pytest.mark.parametrize("provider", ["kea", "static-ip-operator"])
async def test_a_network_of_another_provider_is_left_alone(lab: Lab, provider: str) -> None:
    how = {
        "type": "static",
        "provider": provider,
        "static": {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": ""},
    }
    await lab.network("other", allocation=how)
    how["provider"] = " Butler-IPAM ".strip().upper()
    await lab.network(allocation=how)
    await lab.ask("theirs", networkNamespaceName="other")
    await lab.ask("ours")
    await lab.has("ours", "10.0.2.2")
    theirs = await lab.find("IPAllocation", "theirs")
    assert theirs is not None
    assert "status" not in theirs


async def test_a_network_of_dhcp_hands_out_nothing(lab: Lab) -> None:
    how = {"type": "dhcp", "static": {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"}}
    await lab.network(allocation=how)
    await lab.ask("a")
    await lab.wait_until_refused("a", "has no static IP configuration")


async def test_an_address_is_given_for_a_hundred_years_at_most(lab: Lab) -> None:
    await lab.network(ttlSeconds=10**12)
    await lab.ask("one")
    allocation_status = await lab.has("one", "10.0.2.2")
    years = datetime.fromisoformat(allocation_status["expiresAt"]).year - datetime.now(UTC).year
    assert 99 <= years <= 100
