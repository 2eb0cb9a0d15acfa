"""What config maps, secrets, pods, workloads and nodes are refused for."""

import copy
from typing import Any

import httpx
import pytest

CORE = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONTAINER = {"name": "c", "image": "i"}
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}},
    },
}


async def refused(http: httpx.AsyncClient, path: str, **parts: Any) -> list[str]:
    """Return the causes, each as field and message."""
    answer = await http.post(path, json={"metadata": {"name": "x"}, **parts})
    assert answer.status_code == 422, answer.text
    causes = answer.json()["details"]["causes"]
    return [f"{one['field']}: {one['message']}" for one in causes]


@pytest.mark.parametrize(
    ("parts", "causes"),
    [
        (
            {"data": {"..": "", "..a": ""}},
            [
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[..a]: Invalid value: \"..a\": must not start with '..'",
            ],
        ),
        (
            {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}},
            [
                'data[a]: Invalid value: "a": duplicate of key present in binaryData',
                'binaryData[a]: Invalid value: "a": duplicate of key present in data',
            ],
        ),
        ({"data": {"a": "ä" * 524289}}, ["[]: Too long: may not be more than 1048576 bytes"]),
    ],
)
async def test_a_config_map_is_refused(
    http: httpx.AsyncClient, parts: dict[str, Any], causes: list[str]
) -> None:
    assert await refused(http, f"{CORE}/configmaps", **parts) == causes


async def test_a_config_map_may_hold_a_mebibyte_of_bytes(http: httpx.AsyncClient) -> None:
    full = {"binaryData": {"a": "A" * 1398100}, "metadata": {"name": "x"}}
    assert (await http.post(f"{CORE}/configmaps", json=full)).status_code == 201


@pytest.mark.parametrize(
    ("kind", "data", "causes"),
    [
        ("tls", {}, ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ("ssh-auth", {}, ["data[ssh-privatekey]: Required value"]),
        ("basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
        (
            "service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
        ("dockerconfigjson", {}, ["data[.dockerconfigjson]: Required value"]),
        (
            "dockerconfigjson",
            {".dockerconfigjson": "x"},
            [
                (
                    'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": '
                    "JSON is malformed: invalid character (byte 0)"
                )
            ],
        ),
        (
            "dockercfg",
            {".dockercfg": "[]"},
            [
                (
                    'data[.dockercfg]: Invalid value: "<secret contents redacted>": Expected '
                    "`object | null`, got `array`"
                )
            ],
        ),
    ],
)
async def test_a_secret_has_what_its_type_is_for(
    http: httpx.AsyncClient, kind: str, data: dict[str, str], causes: list[str]
) -> None:
    found = await refused(http, f"{CORE}/secrets", type=f"kubernetes.io/{kind}", stringData=data)
    assert found == causes


async def test_a_pod_is_refused(http: httpx.AsyncClient) -> None:
    assert await refused(http, f"{CORE}/pods", spec={}) == ["spec.containers: Required value"]
    containers = [
        {"name": "C", "image": "i", "imagePullPolicy": "Often"},
        {"name": "c", "ports": [{"containerPort": 0}, {"containerPort": 70000}]},
        CONTAINER,
    ]
    found = await refused(
        http, f"{CORE}/pods", spec={"containers": containers, "restartPolicy": "Seldom"}
    )
    assert [one.partition(": a lowercase")[0] for one in found] == [
        'spec.containers[0].name: Invalid value: "C"',
        (
            'spec.containers[0].imagePullPolicy: Unsupported value: "Often": supported values: '
            '"Always", "IfNotPresent", "Never"'
        ),
        "spec.containers[1].image: Required value",
        "spec.containers[1].ports[0].containerPort: Required value",
        (
            "spec.containers[1].ports[1].containerPort: Invalid value: 70000: "
            "must be between 1 and 65535, inclusive"
        ),
        'spec.containers[2].name: Duplicate value: "c"',
        (
            'spec.restartPolicy: Unsupported value: "Seldom": supported values: '
            '"Always", "Never", "OnFailure"'
        ),
    ]


async def test_a_deployment_selects_its_own_pods(http: httpx.AsyncClient) -> None:
    assert await refused(http, DEPLOYMENTS, spec={}) == [
        "spec.selector: Required value",
        (
            "spec.template.metadata.labels: Invalid value: null: "
            "`selector` does not match template `labels`"
        ),
        "spec.template.spec.containers: Required value",
    ]
    other = copy.deepcopy(DEPLOYMENT["spec"])
    other["template"]["metadata"]["labels"] = {"a": "c"}
    assert await refused(http, DEPLOYMENTS, spec=other | {"replicas": -1}) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        (
            'spec.template.metadata.labels: Invalid value: {"a":"c"}: '
            "`selector` does not match template `labels`"
        ),
    ]
    empty = DEPLOYMENT["spec"] | {"selector": {}}
    assert await refused(http, DEPLOYMENTS, spec=empty) == [
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment"
    ]


async def test_the_selector_of_a_deployment_stays(http: httpx.AsyncClient) -> None:
    assert (await http.post(DEPLOYMENTS, json=DEPLOYMENT)).status_code == 201
    labels = {"a": "b", "c": "d"}
    change = {
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}},
        }
    }
    answer = await http.patch(
        f"{DEPLOYMENTS}/d",
        json=change,
        headers={"Content-Type": "application/strategic-merge-patch+json"},
    )
    assert answer.json()["message"] == (
        'Deployment.apps "d" is invalid: spec.selector: Invalid value: '
        '{"matchLabels":{"a":"b","c":"d"}}: field is immutable'
    )


async def test_the_taints_of_a_node_differ(http: httpx.AsyncClient) -> None:
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "effect": "Never"},
        {"key": "a"},
    ]
    assert await refused(http, "/api/v1/nodes", spec={"taints": taints}) == [
        (
            'spec.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule",'
            '"TimeAdded":null}: taints must be unique by key and effect pair'
        ),
        (
            'spec.taints[2].effect: Unsupported value: "Never": supported values: '
            '"NoSchedule", "PreferNoSchedule", "NoExecute"'
        ),
        "spec.taints[3].effect: Required value",
    ]


async def test_the_range_of_a_node_is_one_and_stays(http: httpx.AsyncClient) -> None:
    assert await refused(http, "/api/v1/nodes", spec={"podCIDR": "x"}) == [
        (
            'spec.podCIDRs[0]: Invalid value: "x": '
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        )
    ]
    both = ["10.0.0.0/24", "10.0.1.0/24"]
    assert await refused(http, "/api/v1/nodes", spec={"podCIDRs": both}) == [
        (
            'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: '
            "may specify no more than one CIDR for each IP family"
        )
    ]
    made = await http.post("/api/v1/nodes", json={"metadata": {"name": "n"}})
    assert made.status_code == 201, made.text
    merge = {"Content-Type": "application/merge-patch+json"}

    async def given(text: str) -> httpx.Response:
        change = {"spec": {"podCIDR": text}}
        return await http.patch("/api/v1/nodes/n", json=change, headers=merge)

    assert (await given("10.0.0.0/24")).json()["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    answer = await given("10.0.1.0/24")
    assert answer.json()["message"] == (
        'Node "n" is invalid: spec.podCIDRs: Forbidden: node updates may not change podCIDR '
        'except from "" to valid'
    )
