"""Autoscalers in both of their versions."""

from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from envtest.builtins.autoscaling import to_v1, to_v2

OLD = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
NEW = OLD.replace("/v1/", "/v2/")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


async def test_an_autoscaler_of_the_old_version_reads_in_the_new_one(
    http: httpx.AsyncClient,
) -> None:
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    made = await http.post(OLD, json={"metadata": {"name": "a"}, "spec": spec})
    new = (await http.get(f"{NEW}/a")).json()

    assert made.json()["spec"] == {**spec, "minReplicas": 1}
    assert new["spec"]["metrics"] == [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50},
            },
        }
    ]


async def test_what_the_old_version_has_no_field_for_survives_a_write_in_it(
    http: httpx.AsyncClient,
) -> None:
    pods = {
        "type": "Pods",
        "pods": {
            "metric": {"name": "hits"},
            "target": {"type": "AverageValue", "averageValue": "5"},
        },
    }
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [pods]}
    await http.post(NEW, json={"metadata": {"name": "a"}, "spec": spec})
    old = (await http.get(f"{OLD}/a")).json()
    old["spec"]["maxReplicas"] = 4
    await http.put(f"{OLD}/a", json=old)
    new = (await http.get(f"{NEW}/a")).json()

    assert "hits" in old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"]
    assert (new["spec"]["maxReplicas"], new["spec"]["metrics"]) == (4, [pods])
    assert "annotations" not in new["metadata"]


METRICS = st.sampled_from(
    [
        {"type": "Pods", "pods": {"metric": {"name": "hits"}}},
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization"}}},
    ]
)
PERCENTAGES = st.lists(st.integers(1, 100), min_size=1, max_size=1)


@given(PERCENTAGES, st.lists(METRICS, max_size=2), st.booleans())
def test_there_and_back_is_the_same(
    percentages: list[int],
    metrics: list[Any],
    calm: bool,  # drawn
) -> None:
    target = {"type": "Utilization", "averageUtilization": percentages[0]}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    spec: dict[str, Any] = {"scaleTargetRef": TARGET, "metrics": [cpu, *metrics]}
    if calm:
        spec["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 5}}
    stored = {"metadata": {"name": "a"}, "spec": spec}

    assert to_v2(to_v1(stored)) == {
        **stored,
        "status": {"currentMetrics": None, "currentReplicas": 0},
    }
