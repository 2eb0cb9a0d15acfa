"""Networks that hand out the same addresses are served, and say so.

Each test has a subnet of its own: those of other tests are in other namespaces, and overlap, too.
"""

from typing import Any

import pytest

from tests.contract.vitistack.lab import Body, Lab, status

pytestmark = pytest.mark.asyncio(loop_scope="package")


def overlapping(network: Body) -> Body:
    """Return the condition Overlapping of a network; empty if it has none."""
    conditions = (
        condition
        for condition in status(network).get("conditions", [])
        if condition["type"] == "Overlapping"
    )
    return next(conditions, {})


async def says(lab: Lab, network: str, value: str) -> str:
    """Wait until a network has the condition with a status; return its message."""
    body = await lab.until(
        "NetworkNamespace", network, lambda network: overlapping(network).get("status") == value
    )
    return str(overlapping(body)["message"])


def subnet(number: int, first: int = 10, last: int = 20) -> Body:
    """Return the settings of a network with some addresses of a subnet."""
    start, end = f"10.{number}.0.{first}", f"10.{number}.0.{last}"
    cidr = {"ipv4CIDR": f"10.{number}.0.0/24", "ipv4Gateway": f"10.{number}.0.1"}
    return {**cidr, "ipv4RangeStart": start, "ipv4RangeEnd": end}


async def create_network(lab: Lab, name: str, datacenter: str, **static: Any) -> None:
    """Make a network of a datacenter."""
    how = {"type": "static", "static": static}
    spec = {"datacenterIdentifier": datacenter, "ipAllocation": how}
    await lab.post("NetworkNamespace", name, spec)
    await lab.set_phase(name, "Ready")


async def test_networks_with_the_same_addresses_say_so_until_they_have_not(lab: Lab) -> None:
    await lab.network("net", **subnet(91))
    await lab.network("other", **subnet(91, 20, 30))
    assert f"NetworkNamespace {lab.namespace}/other" in await says(lab, "net", "True")
    assert f"NetworkNamespace {lab.namespace}/net" in await says(lab, "other", "True")
    assert await lab.events("NetworkNamespace", "net", "Overlapping")
    await lab.ask("served")
    await lab.has("served", "10.91.0.10")
    await lab.settings("other", ipv4RangeStart="10.91.0.21")
    await says(lab, "net", "False")
    await says(lab, "other", "False")


async def test_a_deleted_network_overlaps_with_no_other(lab: Lab) -> None:
    await lab.network("net", **subnet(92))
    await lab.network("other", **subnet(92))
    await says(lab, "net", "True")
    await lab.delete("NetworkNamespace", "other")
    await says(lab, "net", "False")


async def test_a_network_that_is_not_provisioned_yet_says_so_too(lab: Lab) -> None:
    await lab.network("net", phase=None, **subnet(94))
    await lab.network("other", **subnet(94))
    assert f"NetworkNamespace {lab.namespace}/net" in await says(lab, "other", "True")
    assert f"NetworkNamespace {lab.namespace}/other" in await says(lab, "net", "True")
    await lab.settings("other", ipv4RangeStart="10.94.0.21", ipv4RangeEnd="10.94.0.30")
    await says(lab, "net", "False")


async def test_networks_of_two_datacenters_may_have_the_same_addresses(lab: Lab) -> None:
    await create_network(lab, "net", "east", **subnet(93))
    await create_network(lab, "west", "west", **subnet(93))
    await create_network(lab, "nowhere", "", **subnet(93))
    await lab.until(
        "NetworkNamespace",
        "nowhere",
        lambda network: all(
            f"/{name}" in overlapping(network).get("message", "") for name in ("net", "west")
        ),
    )
    west = await says(lab, "west", "True")
    assert f"{lab.namespace}/nowhere" in west
    assert f"{lab.namespace}/net" not in west
