"""What services are refused for."""

from typing import Any

import httpx
import pytest

SERVICES = "/api/v1/namespaces/default/services"
HTTP = {"port": 80}


async def refused(http: httpx.AsyncClient, **spec: Any) -> list[str]:
    """Return the causes, each as field and message."""
    answer = await http.post(SERVICES, json={"metadata": {"name": "s"}, "spec": spec})
    assert answer.status_code == 422, answer.text
    assert (await http.get(f"{SERVICES}/s")).status_code == 404
    causes = answer.json()["details"]["causes"]
    return [f"{one['field']}: {one['message']}" for one in causes]


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, ["spec.ports: Required value"]),
        (
            {"ports": [{"port": 99999}]},
            [
                "spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive",
                ("spec.ports[0].targetPort: Invalid value: 99999: "
                "must be between 1 and 65535, inclusive"),
            ],
        ),
        (
            {"ports": [{"port": 1, "targetPort": "a--b", "protocol": "ICMP"}]},
            [
                ('spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", '
                '"TCP", "UDP"'),
                ('spec.ports[0].targetPort: Invalid value: "a--b": '
                "must not contain consecutive hyphens"),
            ],
        ),
        (
            {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "a"}]},
            [
                'spec.ports[1].name: Duplicate value: "a"',
                ('spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,'
                '"Port":1,"TargetPort":0,"NodePort":0}'),
            ],
        ),
        ({"ports": [HTTP, {"port": 81, "name": "b"}]}, ["spec.ports[0].name: Required value"]),
        (
            {"ports": [{**HTTP, "nodePort": 30000}]},
            [
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            ],
        ),
        (
            {"type": "NodePort", "ports": [{**HTTP, "nodePort": 80}]},
            [
                ("spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid "
                "range. The range of valid ports is 30000-32767")
            ],
        ),
        (
            {"type": "LoadBalancer", "clusterIP": "None", "ports": [HTTP]},
            [
                ('spec.clusterIPs[0]: Invalid value: "None": '
                "may not be set to 'None' for LoadBalancer services")
            ],
        ),
        (
            {"type": "LoadBalancer", "ports": [{"port": 10250}]},
            [
                ("spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since "
                "it is used by kubelet")
            ],
        ),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"sessionAffinity": "Never", "ports": [HTTP]},
            [
                ('spec.sessionAffinity: Unsupported value: "Never": supported values: "ClientIP", '
                '"None"')
            ],
        ),
    ],
)
async def test_a_service_without_sense_is_refused_with_every_reason(
    http: httpx.AsyncClient, spec: Any, causes: list[str]
) -> None:
    assert await refused(http, **spec) == causes


async def test_a_node_port_is_held_by_one_service(http: httpx.AsyncClient) -> None:
    spec = {"type": "NodePort", "ports": [{**HTTP, "nodePort": 30123}]}
    first = await http.post(SERVICES, json={"metadata": {"name": "first"}, "spec": spec})
    kept = await http.put(f"{SERVICES}/first", json=first.json())

    assert (first.status_code, kept.status_code) == (201, 200)
    assert await refused(http, **spec) == [
        "spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated"
    ]
