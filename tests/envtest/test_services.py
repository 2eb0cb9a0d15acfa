"""What services are refused for."""

from typing import Any

import httpx
import pytest

from envtest.builtins.services import NODE_PORTS

SERVICES = "/api/v1/namespaces/default/services"
HTTP = {"port": 80}


async def list_causes(http: httpx.AsyncClient, **spec: Any) -> list[str]:
    """Return the causes, each as field and message."""
    answer = await http.post(SERVICES, json={"metadata": {"name": "s"}, "spec": spec})
    assert answer.status_code == 422, answer.text
    assert (await http.get(f"{SERVICES}/s")).status_code == 404
    causes = answer.json()["details"]["causes"]
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, ["spec.ports: Required value"]),
        (
            {"ports": [{"port": 99999}]},
            ["spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive"],
        ),
        (
            {"ports": [{"port": 1, "protocol": "ICMP"}]},
            [
                (
                    'spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", '
                    '"TCP", "UDP"'
                ),
            ],
        ),
        (
            {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "a"}]},
            ['spec.ports[1].name: Duplicate value: "a"'],
        ),
        ({"ports": [HTTP, {"port": 81, "name": "b"}]}, ["spec.ports[0].name: Required value"]),
        (
            {"type": "NodePort", "ports": [{**HTTP, "nodePort": 80}]},
            [
                (
                    "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid "
                    "range. The range of valid ports is 30000-32767"
                )
            ],
        ),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
    ],
)
async def test_a_service_without_sense_is_refused_with_every_reason(
    http: httpx.AsyncClient, spec: Any, causes: list[str]
) -> None:
    assert await list_causes(http, **spec) == causes


@pytest.mark.parametrize("empty", [0, ""])
async def test_an_empty_target_port_is_the_port(http: httpx.AsyncClient, empty: object) -> None:
    ports = [{"port": 80, "targetPort": empty}]

    answer = await http.post(SERVICES, json={"metadata": {"name": "s"}, "spec": {"ports": ports}})

    assert answer.json()["spec"]["ports"][0]["targetPort"] == 80


async def test_a_node_port_is_held_by_one_service(http: httpx.AsyncClient) -> None:
    spec = {"type": "NodePort", "ports": [{**HTTP, "nodePort": 30123}]}
    first = await http.post(SERVICES, json={"metadata": {"name": "first"}, "spec": spec})
    kept = await http.put(f"{SERVICES}/first", json=first.json())

    assert (first.status_code, kept.status_code) == (201, 200)
    assert await list_causes(http, **spec) == [
        "spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated"
    ]


async def create_load_balancer(http: httpx.AsyncClient, **spec: Any) -> None:
    spec_fields = {"type": "LoadBalancer", "loadBalancerClass": "a.io/b", "ports": [HTTP], **spec}
    answer = await http.post(SERVICES, json={"metadata": {"name": "s"}, "spec": spec_fields})
    assert answer.status_code == 201, answer.text


async def patch_service(http: httpx.AsyncClient, path: str, body: Any) -> httpx.Response:
    merge = {"Content-Type": "application/merge-patch+json"}
    return await http.patch(f"{SERVICES}/{path}", json=body, headers=merge)


async def test_a_service_that_needs_more_node_ports_than_there_are_is_refused(
    http: httpx.AsyncClient,
) -> None:
    ports = [{"port": number, "name": f"p{number}"} for number in range(1, len(NODE_PORTS) + 2)]
    body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    answer = await http.post(SERVICES, json=body)
    assert answer.status_code == 500
    message = "Internal error occurred: failed to allocate a nodePort: range is full"
    assert answer.json()["message"] == message
    assert (await http.get(f"{SERVICES}/s")).status_code == 404


async def test_a_value_that_is_no_address_is_refused_in_a_status(http: httpx.AsyncClient) -> None:
    await create_load_balancer(http)

    ingress = [{"ip": "1.2.3.4"}, {"ip": "x"}, {"hostname": "a.example.com"}]
    answer = await patch_service(
        http, "s/status", {"status": {"loadBalancer": {"ingress": ingress}}}
    )

    assert answer.status_code == 422
    assert answer.json()["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": (
                'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
            ),
            "field": "status.loadBalancer.ingress[1].ip",
        }
    ]


async def test_only_a_load_balancer_has_an_address_in_its_status(http: httpx.AsyncClient) -> None:
    await http.post(SERVICES, json={"metadata": {"name": "s"}, "spec": {"ports": [HTTP]}})

    status = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}]}}
    answer = await patch_service(http, "s/status", {"status": status})

    assert answer.json()["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
            "field": "status.loadBalancer.ingress",
        }
    ]


async def test_the_class_of_a_load_balancer_cannot_be_changed(http: httpx.AsyncClient) -> None:
    await create_load_balancer(http)

    answer = await patch_service(http, "s", {"spec": {"loadBalancerClass": "c.io/d"}})

    assert answer.status_code == 422
    assert answer.json()["message"] == (
        'Service "s" is invalid: spec.loadBalancerClass: Invalid value: "c.io/d": '
        "may not change once set"
    )
    await http.delete(f"{SERVICES}/s")
    assert await list_causes(http, ports=[HTTP], loadBalancerClass="a") == [
        "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"
    ]


async def test_a_service_that_is_balanced_no_more_keeps_nothing_of_it(
    http: httpx.AsyncClient,
) -> None:
    await create_load_balancer(http)
    ingress = [{"ip": "1.2.3.4"}]
    response = await patch_service(
        http, "s/status", {"status": {"loadBalancer": {"ingress": ingress}}}
    )
    assert response.json()["status"]["loadBalancer"]["ingress"] == [
        {"ip": "1.2.3.4", "ipMode": "VIP"}
    ]

    remaining = await patch_service(http, "s", {"spec": {"type": "ClusterIP"}})

    assert remaining.status_code == 200, remaining.text
    assert remaining.json()["status"] == {"loadBalancer": {}}
    gone = {"allocateLoadBalancerNodePorts", "externalTrafficPolicy", "loadBalancerClass"}
    assert not gone & remaining.json()["spec"].keys()


async def test_the_server_has_a_service_of_its_own(http: httpx.AsyncClient) -> None:
    own = (await http.get(f"{SERVICES}/kubernetes")).json()

    assert own["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert own["spec"]["clusterIPs"] == ["10.96.0.1"]
    assert own["spec"]["type"] == "ClusterIP"
    here = http.base_url.port
    ports = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": here}]
    assert own["spec"]["ports"] == ports
