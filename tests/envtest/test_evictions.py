"""Evictions of pods, and the budgets that allow them or not."""

from typing import Any

import httpx
import pytest

from envtest.server.protobuf import encoded

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = {"Content-Type": "application/merge-patch+json"}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
READY = {"type": "Ready", "status": "True"}


async def pod(http: httpx.AsyncClient, phase: str = "Running", *, ready: bool = True) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    made = await http.post(
        PODS, json={"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": spec}
    )
    assert made.status_code == 201, made.text
    status = {"phase": phase, "conditions": [{**READY, "status": str(ready)}]}
    changed = await http.patch(f"{PODS}/p/status", json={"status": status}, headers=MERGE)
    assert changed.status_code == 200, changed.text


async def budget(
    http: httpx.AsyncClient, name: str = "b", spec: Any = None, **status: int
) -> None:
    wanted = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 2, **(spec or {})}
    made = await http.post(BUDGETS, json={"metadata": {"name": name}, "spec": wanted})
    assert made.status_code == 201, made.text
    shown = {
        "observedGeneration": 1,
        "desiredHealthy": 2,
        "currentHealthy": 2,
        "expectedPods": 3,
        "disruptionsAllowed": 0,
        **status,
    }
    changed = await http.patch(f"{BUDGETS}/{name}/status", json={"status": shown}, headers=MERGE)
    assert changed.status_code == 200, changed.text


async def evict(http: httpx.AsyncClient, **more: Any) -> httpx.Response:
    return await http.post(f"{PODS}/p/eviction", json={**EVICTION, **more})


async def is_there(http: httpx.AsyncClient) -> bool:
    return (await http.get(f"{PODS}/p")).status_code == 200


async def test_a_pod_that_no_budget_covers_is_evicted(http: httpx.AsyncClient) -> None:
    await pod(http)
    await budget(http, spec={"selector": {"matchLabels": {"app": "other"}}})

    answer = await evict(http)

    assert answer.status_code == 201
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    assert not await is_there(http)


async def test_an_eviction_is_read_in_protobuf(http: httpx.AsyncClient) -> None:
    await pod(http)

    answer = await http.post(
        f"{PODS}/p/eviction",
        content=encoded(EVICTION),
        headers={"Content-Type": "application/vnd.kubernetes.protobuf"},
    )

    assert answer.status_code == 201
    assert not await is_there(http)


async def test_a_budget_that_is_spent_keeps_its_pods(http: httpx.AsyncClient) -> None:
    await pod(http)
    await budget(http)

    answer = await evict(http)

    assert answer.status_code == 429
    assert answer.json()["message"] == VIOLATED
    text = "The disruption budget b needs 2 healthy pods and has 2 currently"
    cause = {"reason": "DisruptionBudget", "message": text}
    assert answer.json()["details"] == {"causes": [cause]}
    assert await is_there(http)


async def test_a_budget_whose_figures_are_old_keeps_its_pods(http: httpx.AsyncClient) -> None:
    await pod(http)
    await budget(http, observedGeneration=0, disruptionsAllowed=1)

    answer = await evict(http)

    assert answer.status_code == 429
    (cause,) = answer.json()["details"]["causes"]
    assert cause["message"] == "The disruption budget b is still being processed by the server."
    assert await is_there(http)


async def test_each_eviction_spends_a_disruption(http: httpx.AsyncClient) -> None:
    await pod(http)
    await budget(http, currentHealthy=3, disruptionsAllowed=1)

    first = await evict(http)
    await pod(http)
    second = await evict(http)

    assert (first.status_code, second.status_code) == (201, 429)
    status = (await http.get(f"{BUDGETS}/b")).json()["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "False")


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_a_pod_that_does_not_run_is_none_of_the_budgets(
    http: httpx.AsyncClient, phase: str
) -> None:
    await pod(http, phase)
    await budget(http)

    assert (await evict(http)).status_code == 201


@pytest.mark.parametrize(
    ("spec", "healthy", "code"),
    [
        ({}, 2, 201),
        ({}, 1, 429),
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 201),
    ],
)
async def test_a_pod_that_is_not_ready_goes_where_enough_others_are(
    http: httpx.AsyncClient, spec: dict[str, Any], healthy: int, code: int
) -> None:
    await pod(http, ready=False)
    await budget(http, spec=spec, currentHealthy=healthy)

    assert (await evict(http)).status_code == code


async def test_a_pod_with_two_budgets_cannot_be_evicted(http: httpx.AsyncClient) -> None:
    await pod(http)
    await budget(http, "b", disruptionsAllowed=1)
    await budget(http, "c", spec={"selector": {}}, disruptionsAllowed=1)

    answer = await evict(http)

    assert answer.status_code == 500
    assert "more than one PodDisruptionBudget" in answer.json()["message"]
    assert await is_there(http)


@pytest.mark.parametrize("place", ["query", "body"])
async def test_a_dry_run_evicts_nothing(http: httpx.AsyncClient, place: str) -> None:
    await pod(http)
    await budget(http, disruptionsAllowed=1)
    dry = {"dryRun": ["All"]}

    if place == "query":
        answer = await http.post(f"{PODS}/p/eviction", json=EVICTION, params={"dryRun": "All"})
    else:
        answer = await evict(http, deleteOptions=dry)

    assert answer.status_code == 201
    assert await is_there(http)
    assert (await http.get(f"{BUDGETS}/b")).json()["status"]["disruptionsAllowed"] == 1


async def test_why_a_pod_goes_is_seen_while_it_waits(http: httpx.AsyncClient) -> None:
    await pod(http)
    await http.patch(
        f"{PODS}/p", json={"metadata": {"finalizers": ["lab.example.com/f"]}}, headers=MERGE
    )

    assert (await evict(http)).status_code == 201

    left = (await http.get(f"{PODS}/p")).json()
    assert "deletionTimestamp" in left["metadata"]
    found = {one["type"]: one for one in left["status"]["conditions"]}
    assert found["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
    assert found["Ready"]["status"] == "True"


async def test_another_pod_than_that_of_the_path_is_refused(http: httpx.AsyncClient) -> None:
    await pod(http)

    answer = await evict(http, metadata={"name": "q"})

    assert answer.status_code == 400
    assert answer.json()["message"] == "name in URL does not match name in Eviction object"


async def test_the_pod_that_was_meant_is_evicted_or_none(http: httpx.AsyncClient) -> None:
    await pod(http)

    answer = await evict(http, deleteOptions={"preconditions": {"uid": "another"}})

    assert answer.status_code == 409
    assert await is_there(http)


async def test_a_pod_that_there_is_not_is_not_found(http: httpx.AsyncClient) -> None:
    assert (await evict(http)).status_code == 404
