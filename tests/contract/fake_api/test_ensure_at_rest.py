"""Children at rest cause no write, whatever the server drops, defaults or normalises."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from controller import Client, Resource, Transport, Untyped, Version, connect, ensure
from envtest.plane import RunningControlPlane as Plane
from tests.contract.fake_api.counting import CountedTransport
from tests.contract.fake_api.gauges import CONFIG_MAPS

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
MAPS = Resource("", "v1", "ConfigMap", "configmaps", Untyped)
SECRETS = Resource("", "v1", "Secret", "secrets", Untyped)
SERVICES = Resource("", "v1", "Service", "services", Untyped)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Untyped)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", Untyped)
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", Untyped)
JOBS = Resource("batch", "v1", "Job", "jobs", Untyped)
CRON_JOBS = Resource("batch", "v1", "CronJob", "cronjobs", Untyped)
INGRESSES = Resource("networking.k8s.io", "v1", "Ingress", "ingresses", Untyped)
POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", Untyped)
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", Untyped)
ROLES = Resource(RBAC, "v1", "Role", "roles", Untyped)
CLUSTER_ROLES = Resource(RBAC, "v1", "ClusterRole", "clusterroles", Untyped, namespaced=False)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    Untyped,
    namespaced=False,
)


def make_pod_template(**container: Any) -> Json:
    """Return a Pod template of one container with further fields."""
    return {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.29", **container}]},
    }


def make_workload(spec: Json | None = None, **container: Any) -> Json:
    """Return a workload with further fields of its spec, and of its container."""
    selector = {"matchLabels": {"app": "x"}}
    return {
        "spec": {"selector": selector, "template": make_pod_template(**container), **(spec or {})}
    }


def make_job_spec() -> Json:
    """Return the fields of the spec of a Job that it requires."""
    container = {"name": "once", "image": "busybox:1.37"}
    return {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}


def make_port(number: int, protocol: str = "") -> Json:
    """Return a port of a container; no protocol means the default, TCP."""
    return {"containerPort": number} | ({"protocol": protocol} if protocol else {})


CLAIM_SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1024Mi"}},
}
CASES: dict[str, tuple[Resource[Untyped], Json]] = {
    "null data": (MAPS, {"data": None}),
    "null annotations": (MAPS, {"metadata": {"annotations": None}, "data": {"a": "b"}}),
    "empty annotations": (MAPS, {"metadata": {"annotations": {}}, "data": {"a": "b"}}),
    "empty data": (MAPS, {"data": {}}),
    "null creationTimestamp": (MAPS, {"metadata": {"creationTimestamp": None}}),
    "finalizers": (MAPS, {"metadata": {"finalizers": ["example.com/x"]}}),
    "binaryData": (MAPS, {"binaryData": {"a": "aGk="}}),
    "apiVersion and kind": (MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}),
    "stringData": (SECRETS, {"stringData": {"a": "b"}, "type": "Opaque"}),
    "empty stringData": (SECRETS, {"stringData": {}}),
    "nulls": (
        DEPLOYMENTS,
        make_workload({"strategy": None, "minReadySeconds": None}, env=None, resources=None),
    ),
    "empties": (
        DEPLOYMENTS,
        make_workload({"strategy": {}}, env=[], resources={}, securityContext={}, args=[]),
    ),
    "zeros": (DEPLOYMENTS, make_workload({"minReadySeconds": 0, "paused": False})),
    "empty text": (DEPLOYMENTS, make_workload(env=[{"name": "A", "value": ""}])),
    "quantities": (
        DEPLOYMENTS,
        make_workload(
            resources={"limits": {"cpu": "1000m", "memory": "0.5Gi"}, "requests": {"cpu": 1}}
        ),
    ),
    "probe": (
        DEPLOYMENTS,
        make_workload(
            livenessProbe={"httpGet": {"path": "/x", "port": "web"}, "initialDelaySeconds": 0},
            volumeMounts=[],
        ),
    ),
    "ports of two protocols": (
        DEPLOYMENTS,
        make_workload(ports=[make_port(53), make_port(53, "SCTP")]),
    ),
    "two protocols, default last": (
        DEPLOYMENTS,
        make_workload(ports=[make_port(53, "UDP"), make_port(53)]),
    ),
    "volumeClaimTemplates": (
        STATEFUL_SETS,
        make_workload(
            {
                "serviceName": "x",
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM_SPEC}],
            }
        ),
    ),
    "claim": (CLAIMS, {"spec": CLAIM_SPEC}),
    "service": (
        SERVICES,
        {
            "spec": {
                "selector": {"app": "x"},
                "ports": [
                    {"port": 80, "name": "a"},
                    {"port": 80, "name": "b", "protocol": "UDP"},
                ],
            }
        },
    ),
    "headless": (SERVICES, {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
    "empty selector": (SERVICES, {"spec": {"selector": {}, "ports": [{"port": 80}]}}),
    "job": (JOBS, {"spec": {"backoffLimit": 0, **make_job_spec()}}),
    "cron job": (
        CRON_JOBS,
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": make_job_spec()}}},
    ),
    "ingress": (
        INGRESSES,
        {"spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}},
    ),
    "deny all": (
        POLICIES,
        {
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [],
                "egress": [],
            }
        },
    ),
    "allow all": (POLICIES, {"spec": {"podSelector": {}, "ingress": [{}], "egress": []}}),
    "budget": (BUDGETS, {"spec": {"minAvailable": "50%", "selector": {}}}),
    "role without rules": (ROLES, {"rules": []}),
    "aggregated role": (
        CLUSTER_ROLES,
        {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, "rules": []},
    ),
    "webhook": (
        WEBHOOKS,
        {
            "webhooks": [
                {
                    "name": "a.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "clientConfig": {"service": {"name": "x", "namespace": "default"}},
                    "rules": [
                        {
                            "apiGroups": ["none.example.com"],
                            "apiVersions": ["v1"],
                            "resources": ["things"],
                            "operations": ["CREATE"],
                        }
                    ],
                }
            ]
        },
    ),
}
"""By description: a kind, and the body of a child without its name."""


@pytest_asyncio.fixture(loop_scope="module")
async def server(shared_plane: Plane, tmp_path: Path) -> AsyncIterator[CountedTransport]:
    """A transport to the server that records its requests."""
    transport = await connect(shared_plane.write_kubeconfig(tmp_path / "kubeconfig"))
    yield CountedTransport(transport)
    await transport.aclose()


def add_name(kind: Resource[Untyped], body: Json) -> Json:
    """Return the body with name, and namespace if the kind is namespaced."""
    place = {"name": "child"} | ({"namespace": "default"} if kind.namespaced else {})
    return {**body, "metadata": {**body.get("metadata", {}), **place}}


async def check_at_rest(
    server: CountedTransport, client: Client, kind: Resource[Untyped], body: Json
) -> None:
    """Check that two calls of `ensure` send a GET each and leave the child at its version."""
    versions = set()
    for _ in range(2):
        server.methods.clear()
        child = await ensure(client, kind, None, body, manager="me")
        assert (child.operation, child.fields, server.methods) == ("unchanged", (), ["GET"])
        versions.add(child.object.metadata.resourceVersion)
    assert len(versions) == 1


async def delete_child(client: Client, kind: Resource[Untyped], child: Untyped) -> None:
    """Delete a child at whatever version it has, without its finalizers."""
    current = await client.get(kind, child.metadata.key)
    without_finalizers = {"metadata": {"finalizers": None}}
    stored = await client.patch(kind, Version.from_object(current), without_finalizers)
    await client.delete(kind, Version.from_object(stored), propagation="Background")


@pytest.mark.parametrize("case", CASES)
async def test_a_created_child_is_at_rest(server: CountedTransport, case: str) -> None:
    kind, body = CASES[case]
    client, desired = Client(server), add_name(kind, body)
    created = await ensure(client, kind, None, desired, manager="me")
    assert created.operation == "created"
    await check_at_rest(server, client, kind=kind, body=desired)
    await delete_child(client, kind, created.object)


@pytest.mark.parametrize("case", CASES)
async def test_a_restart_costs_one_apply_at_most(server: CountedTransport, case: str) -> None:
    kind, body = CASES[case]
    desired = add_name(kind, body)
    created = await ensure(Client(server), kind, None, desired, manager="me")
    restarted = Client(server)
    server.methods.clear()
    child = await ensure(restarted, kind, None, desired, manager="me")
    assert server.methods in (["GET"], ["GET", "PATCH"])
    assert child.object.metadata.uid == created.object.metadata.uid
    await check_at_rest(server, restarted, kind=kind, body=desired)
    await delete_child(restarted, kind, created.object)


async def test_a_value_that_a_person_writes_in_place_of_an_empty_one_is_removed(
    server: CountedTransport,
) -> None:
    kind, body = CASES["deny all"]
    client, desired = Client(server), add_name(kind, body)
    created = await ensure(client, kind, None, desired, manager="me")
    allow_all: Json = {"spec": {"egress": [{}]}}
    await client.with_field_manager("person").patch(
        kind, Version.from_object(created.object), allow_all
    )
    repaired = await ensure(client, kind, None, desired, manager="me")
    assert (repaired.operation, repaired.fields) == ("updated", ("spec.egress",))
    assert not repaired.object.body["spec"].get("egress")
    await check_at_rest(server, client, kind=kind, body=desired)
    await delete_child(client, kind, created.object)


async def test_a_default_that_a_person_replaces_in_a_value_of_one_owner_is_restored(
    server: CountedTransport,
) -> None:
    kind = POLICIES
    desired = add_name(kind, {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}})
    client = Client(server)
    created = await ensure(client, kind, None, desired, manager="me")
    edit = {"spec": {"ingress": [{"ports": [{"port": 80, "protocol": "UDP"}]}]}}
    await client.with_field_manager("person").patch(
        kind, Version.from_object(created.object), edit
    )
    repaired = await ensure(client, kind, None, desired, manager="me")
    assert (repaired.operation, repaired.fields) == ("updated", ("spec.ingress",))
    (rule,) = repaired.object.body["spec"]["ingress"]
    assert rule["ports"][0].get("protocol", "TCP") == "TCP"
    await delete_child(client, kind, created.object)


@pytest.mark.parametrize("values", [None, {}])
async def test_null_and_empty_metadata_are_at_rest_on_the_fake_api_as_well(
    transport: Transport, values: Json | None
) -> None:
    counted = CountedTransport(transport)
    client = Client(counted)
    body = {
        "metadata": {"name": "child", "namespace": "default", "annotations": values},
        "data": {},
    }
    await ensure(client, CONFIG_MAPS, None, body, manager="me")
    counted.methods.clear()
    child = await ensure(client, CONFIG_MAPS, None, body, manager="me")
    assert (child.operation, counted.methods) == ("unchanged", ["GET"])
