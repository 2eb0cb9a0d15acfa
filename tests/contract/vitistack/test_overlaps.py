"""Networks that hand out the same addresses are served, and report each other.

Each test has a subnet of its own, because networks of other namespaces are compared, too.
"""

from typing import Any

import pytest

from tests.contract.vitistack.lab import Body, VitistackLab, get_status

pytestmark = pytest.mark.asyncio(loop_scope="package")


def find_overlap_condition(network: Body) -> Body:
    """Return the condition Overlapping of a network; empty if it has none."""
    conditions = (
        condition
        for condition in get_status(network).get("conditions", [])
        if condition["type"] == "Overlapping"
    )
    return next(conditions, {})


async def wait_for_overlap_status(lab: VitistackLab, network: str, expected_status: str) -> str:
    """Wait until the condition Overlapping of a network has a status; return its message."""
    body = await lab.until(
        "NetworkNamespace",
        network,
        lambda network: find_overlap_condition(network).get("status") == expected_status,
    )
    return str(find_overlap_condition(body)["message"])


def make_static_settings(number: int, first: int = 10, last: int = 20) -> Body:
    """Return the static settings of a network that hands out 10.NUMBER.0.FIRST to LAST."""
    start, end = f"10.{number}.0.{first}", f"10.{number}.0.{last}"
    cidr = {"ipv4CIDR": f"10.{number}.0.0/24", "ipv4Gateway": f"10.{number}.0.1"}
    return {**cidr, "ipv4RangeStart": start, "ipv4RangeEnd": end}


async def create_network(lab: VitistackLab, name: str, datacenter: str, **static: Any) -> None:
    """Create a network of a datacenter."""
    ip_allocation = {"type": "static", "static": static}
    spec = {"datacenterIdentifier": datacenter, "ipAllocation": ip_allocation}
    await lab.create("NetworkNamespace", name, spec)
    await lab.set_phase(name, "Ready")


async def test_two_networks_report_their_common_addresses_until_one_is_narrowed(
    lab: VitistackLab,
) -> None:
    await lab.create_network("net", **make_static_settings(91))
    await lab.create_network("other", **make_static_settings(91, 20, 30))
    assert f"NetworkNamespace {lab.namespace}/other" in await wait_for_overlap_status(
        lab, "net", "True"
    )
    assert f"NetworkNamespace {lab.namespace}/net" in await wait_for_overlap_status(
        lab, "other", "True"
    )
    assert await lab.wait_for_events("NetworkNamespace", "net", "Overlapping")
    await lab.create_allocation("served")
    await lab.wait_for_address("served", "10.91.0.10")
    await lab.change_settings("other", ipv4RangeStart="10.91.0.21")
    await wait_for_overlap_status(lab, "net", "False")
    await wait_for_overlap_status(lab, "other", "False")


async def test_a_deleted_network_overlaps_with_no_other(lab: VitistackLab) -> None:
    await lab.create_network("net", **make_static_settings(92))
    await lab.create_network("other", **make_static_settings(92))
    await wait_for_overlap_status(lab, "net", "True")
    await lab.delete("NetworkNamespace", "other")
    await wait_for_overlap_status(lab, "net", "False")


async def test_a_network_that_is_not_provisioned_yet_reports_an_overlap(lab: VitistackLab) -> None:
    await lab.create_network("net", phase=None, **make_static_settings(94))
    await lab.create_network("other", **make_static_settings(94))
    assert f"NetworkNamespace {lab.namespace}/net" in await wait_for_overlap_status(
        lab, "other", "True"
    )
    assert f"NetworkNamespace {lab.namespace}/other" in await wait_for_overlap_status(
        lab, "net", "True"
    )
    await lab.change_settings("other", ipv4RangeStart="10.94.0.21", ipv4RangeEnd="10.94.0.30")
    await wait_for_overlap_status(lab, "net", "False")


async def test_networks_of_two_datacenters_may_have_the_same_addresses(lab: VitistackLab) -> None:
    await create_network(lab, "net", "east", **make_static_settings(93))
    await create_network(lab, "west", "west", **make_static_settings(93))
    await create_network(lab, "nowhere", "", **make_static_settings(93))
    await lab.until(
        "NetworkNamespace",
        "nowhere",
        lambda network: all(
            f"/{name}" in find_overlap_condition(network).get("message", "")
            for name in ("net", "west")
        ),
    )
    west = await wait_for_overlap_status(lab, "west", "True")
    assert f"{lab.namespace}/nowhere" in west
    assert f"{lab.namespace}/net" not in west
