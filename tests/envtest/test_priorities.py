"""Priority classes, and what they make of pods."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.envtest.servers import started

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator of a fresh server."""
    async with started() as client:
        yield client


async def test_two_classes_are_for_what_a_cluster_cannot_do_without(
    http: httpx.AsyncClient,
) -> None:
    found = (await http.get(CLASSES)).json()["items"]
    refused = await http.delete(f"{CLASSES}/system-node-critical")

    assert [(one["metadata"]["name"], one["value"]) for one in found] == [
        ("system-cluster-critical", 2_000_000_000),
        ("system-node-critical", 2_000_001_000),
    ]
    assert {one["preemptionPolicy"] for one in found} == {"PreemptLowerPriority"}
    assert refused.status_code == 403
    assert refused.json()["message"] == (
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: '
        "this is a system priority class and cannot be deleted"
    )


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "a", "image": "b"}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


async def test_a_pod_gets_the_priority_of_its_class(http: httpx.AsyncClient) -> None:
    soft = {
        "metadata": {"name": "soft"},
        "value": 7,
        "preemptionPolicy": "Never",
        "globalDefault": True,
    }
    plain = (await http.post(PODS, json=pod(), params={"dryRun": "All"})).json()["spec"]
    await http.post(CLASSES, json=soft)
    usual = (await http.post(PODS, json=pod(), params={"dryRun": "All"})).json()["spec"]
    critical = pod(priorityClassName="system-node-critical")
    high = (await http.post(PODS, json=critical)).json()["spec"]

    wanted = ("priorityClassName", "priority", "preemptionPolicy")
    assert [tuple(one.get(name) for name in wanted) for one in (plain, usual, high)] == [
        (None, 0, "PreemptLowerPriority"),
        ("soft", 7, "Never"),
        ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
    ]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; priority "
                "admission controller computed 0 from the given PriorityClass name"
            ),
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
                "priority admission controller computed PreemptLowerPriority from the given "
                "PriorityClass name"
            ),
        ),
    ],
)
async def test_a_pod_does_not_choose_its_priority(
    http: httpx.AsyncClient, spec: Any, why: str
) -> None:
    answer = await http.post(PODS, json=pod(**spec))

    assert answer.status_code == 403
    assert answer.json()["message"] == f'pods "p" is forbidden: {why}'


@pytest.mark.parametrize(
    ("body", "code", "part"),
    [
        ({"metadata": {"name": "a"}, "value": 2_000_000_000}, 422, "maximum allowed value"),
        (
            {"metadata": {"name": "system-x"}},
            422,
            "reserved for system use only. error: system-x is not a known system priority class",
        ),
        (
            {"metadata": {"name": "a"}, "preemptionPolicy": "Maybe"},
            422,
            'preemptionPolicy: Unsupported value: "Maybe"',
        ),
        (
            {"metadata": {"name": "a"}, "globalDefault": True},
            403,
            "PriorityClass first is already marked as default. Only one default can exist",
        ),
    ],
)
async def test_a_class_without_sense_is_refused(
    http: httpx.AsyncClient, body: Any, code: int, part: str
) -> None:
    await http.post(CLASSES, json={"metadata": {"name": "first"}, "globalDefault": True})

    answer = await http.post(CLASSES, json=body)

    assert answer.status_code == code
    assert part in answer.json()["message"]


async def test_a_class_keeps_its_value(http: httpx.AsyncClient) -> None:
    await http.post(CLASSES, json={"metadata": {"name": "a"}, "value": 1})
    answer = await http.patch(f"{CLASSES}/a", json={"value": 2}, headers=MERGE)

    assert answer.json()["message"].endswith("value: Forbidden: may not be changed in an update.")
