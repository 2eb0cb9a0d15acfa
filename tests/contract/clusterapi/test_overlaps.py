"""Pools that may hand out the same addresses say so, each of the other, whatever their kinds."""

import pytest

from tests.contract.clusterapi.lab import Body, Lab, condition
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")
OVERLAPPING = "Overlapping"


def names(body: Body, other: str) -> bool:
    overlap = condition(body, OVERLAPPING)
    return overlap.get("status") == "True" and other in overlap["message"]


def alone(body: Body) -> bool:
    return bool(condition(body, OVERLAPPING).get("status") == "False")


async def test_an_overlap_is_reported_on_both_pools_until_it_ends(lab: Lab) -> None:
    await lab.pool("one", "10.9.0.10-10.9.0.19")
    await lab.until("InClusterIPPool", "one", alone)
    shared = f"{lab.namespace}-two"
    await lab.pool(shared, "10.9.0.19-10.9.0.30", kind="GlobalInClusterIPPool")
    await lab.until("InClusterIPPool", "one", lambda body: names(body, f"{shared} (1 address)"))
    await lab.until("GlobalInClusterIPPool", shared, lambda body: names(body, "/one (1 address)"))
    await lab.patch("InClusterIPPool", "one", {"spec": {"addresses": ["10.9.0.10-10.9.0.18"]}})
    await lab.until("InClusterIPPool", "one", alone)
    await lab.until("GlobalInClusterIPPool", shared, alone)
    await lab.patch("InClusterIPPool", "one", {"spec": {"addresses": ["10.9.0.10-10.9.0.20"]}})
    await lab.until("InClusterIPPool", "one", lambda body: names(body, f"{shared} (2 addresses)"))
    await lab.delete("GlobalInClusterIPPool", shared)
    await lab.until("InClusterIPPool", "one", alone)
    await lab.create("NetworkPool", "net", {"cidr": "10.9.0.0/28"})
    await lab.until("InClusterIPPool", "one", lambda body: names(body, "/net (6 addresses)"))
    note = "addresses are also handed out by InClusterIPPool"
    await until(
        lambda: notes(lab, "net"), lambda notes: any(note in sentence for sentence in notes)
    )


async def notes(lab: Lab, pool: str) -> list[str]:
    """Return the notes of a NetworkPool's events about overlaps."""
    path = f"/apis/events.k8s.io/v1/namespaces/{lab.namespace}/events"
    return [
        event["note"]
        for event in (await lab.admin.get(path)).json()["items"]
        if (event["regarding"]["name"], event["reason"]) == (pool, "PoolsOverlap")
    ]
