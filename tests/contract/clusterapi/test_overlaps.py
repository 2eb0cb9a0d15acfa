"""Two pools with common addresses each report the other, whatever their kinds."""

import pytest

from tests.contract.clusterapi.lab import Body, ClusterApiLab, find_condition
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")
OVERLAPPING = "Overlapping"


def reports_overlap_with(body: Body, other: str) -> bool:
    """Return whether the condition Overlapping of a pool is True and its message has a text."""
    overlap = find_condition(body, OVERLAPPING)
    return overlap.get("status") == "True" and other in overlap["message"]


def reports_no_overlap(body: Body) -> bool:
    """Return whether the condition Overlapping of a pool is False."""
    return bool(find_condition(body, OVERLAPPING).get("status") == "False")


async def test_an_overlap_is_reported_on_both_pools_until_it_ends(lab: ClusterApiLab) -> None:
    await lab.create_pool("one", "10.9.0.10-10.9.0.19")
    await lab.until("InClusterIPPool", "one", reports_no_overlap)
    shared = f"{lab.namespace}-two"
    await lab.create_pool(shared, "10.9.0.19-10.9.0.30", kind="GlobalInClusterIPPool")
    await lab.until(
        "InClusterIPPool", "one", lambda body: reports_overlap_with(body, f"{shared} (1 address)")
    )
    await lab.until(
        "GlobalInClusterIPPool",
        shared,
        lambda body: reports_overlap_with(body, "/one (1 address)"),
    )
    await lab.patch("InClusterIPPool", "one", {"spec": {"addresses": ["10.9.0.10-10.9.0.18"]}})
    await lab.until("InClusterIPPool", "one", reports_no_overlap)
    await lab.until("GlobalInClusterIPPool", shared, reports_no_overlap)
    await lab.patch("InClusterIPPool", "one", {"spec": {"addresses": ["10.9.0.10-10.9.0.20"]}})
    await lab.until(
        "InClusterIPPool",
        "one",
        lambda body: reports_overlap_with(body, f"{shared} (2 addresses)"),
    )
    await lab.delete("GlobalInClusterIPPool", shared)
    await lab.until("InClusterIPPool", "one", reports_no_overlap)
    await lab.create("NetworkPool", "net", {"cidr": "10.9.0.0/28"})
    await lab.until(
        "InClusterIPPool", "one", lambda body: reports_overlap_with(body, "/net (6 addresses)")
    )
    note = "addresses are also handed out by InClusterIPPool"
    await until(
        lambda: list_overlap_notes(lab, "net"),
        lambda notes: any(note in sentence for sentence in notes),
    )


async def list_overlap_notes(lab: ClusterApiLab, pool: str) -> list[str]:
    """Return the notes of a NetworkPool's events about overlaps."""
    path = f"/apis/events.k8s.io/v1/namespaces/{lab.namespace}/events"
    return [
        event["note"]
        for event in (await lab.admin.get(path)).json()["items"]
        if (event["regarding"]["name"], event["reason"]) == (pool, "PoolsOverlap")
    ]
