"""`ensure` creates and repairs children, only reads them at rest, and refuses a second owner."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from controller import (
    Client,
    FieldManagerConflict,
    Key,
    ObjectMeta,
    OwnedByAnother,
    Owner,
    Resource,
    Transport,
    Untyped,
    Version,
    connect,
    ensure,
)
from envtest.plane import RunningControlPlane as Plane
from tests.contract.fake_api.counting import CountedTransport
from tests.contract.fake_api.gauges import (
    CONFIG_MAPS,
    GAUGES,
    HOLD,
    SHELVES,
    Gauge,
    create_gauge,
    get_version,
)
from tests.envtest.samples import GROUP, build_definition

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
BODY: Json = {"metadata": {"name": "child"}, "data": {"a": "1", "b": "2"}}
CHILD = Key("default", "child")


@dataclass(frozen=True, slots=True)
class Region:
    """A Namespace, as a cluster-scoped kind of children and owners."""

    metadata: ObjectMeta
    spec: dict[str, str] = field(default_factory=dict)


NAMESPACES = Resource("", "v1", "Namespace", "namespaces", Region, namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", Untyped)
SERVICES = Resource("", "v1", "Service", "services", Untyped)
SECRETS = Resource("", "v1", "Secret", "secrets", Untyped)


@pytest_asyncio.fixture(loop_scope="module")
async def owner(client: Client) -> Owner:
    """A Gauge `owner` that exists, as the owner of children."""
    return Owner(await create_gauge(client, "owner"), GAUGES)


@asynccontextmanager
async def open_client(plane: Plane, folder: Path) -> AsyncIterator[Client]:
    """Yield a client of the server."""
    transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
    try:
        yield Client(transport)
    finally:
        await transport.aclose()


async def test_a_missing_child_is_created_with_its_owner(client: Client, owner: Owner) -> None:
    result = await ensure(client, CONFIG_MAPS, owner, BODY)
    assert (result.operation, result.fields) == ("created", ())
    stored = await client.get(CONFIG_MAPS, CHILD)
    assert stored == result.object
    assert stored.data == {"a": "1", "b": "2"}
    (reference,) = stored.metadata.ownerReferences
    assert (reference.uid, reference.controller) == (owner.object.metadata.uid, True)


async def test_a_child_at_rest_is_read_and_not_written(transport: Transport, owner: Owner) -> None:
    counted = CountedTransport(transport)
    client = Client(counted)
    first = await ensure(client, CONFIG_MAPS, owner, BODY)
    counted.methods.clear()
    second = await ensure(client, CONFIG_MAPS, owner, BODY)
    assert (second.operation, second.object) == ("unchanged", first.object)
    assert counted.methods == ["GET"]


async def test_changed_and_deleted_fields_are_restored_and_dropped_fields_are_removed(
    client: Client, owner: Owner
) -> None:
    first = await ensure(client, CONFIG_MAPS, owner, BODY)
    edit = {"data": {"a": "edited", "b": None, "c": "of another"}}
    await client.with_field_manager("person").patch(CONFIG_MAPS, get_version(first.object), edit)
    repaired = await ensure(client, CONFIG_MAPS, owner, BODY)
    assert repaired.operation == "updated"
    assert set(repaired.fields) == {"data.a", "data.b"}
    assert repaired.object.data == {"a": "1", "b": "2", "c": "of another"}

    less = {**BODY, "data": {"a": "1"}}
    dropped = await ensure(client, CONFIG_MAPS, owner, less)
    assert (dropped.operation, dropped.fields) == ("updated", ("data.b",))
    assert dropped.object.data == {"a": "1", "c": "of another"}
    assert (await ensure(client, CONFIG_MAPS, owner, less)).operation == "unchanged"


async def test_labels_of_others_stay_and_our_removed_labels_and_owner_are_restored(
    client: Client, owner: Owner
) -> None:
    body: Json = {**BODY, "metadata": {"name": "child", "labels": {"app": "x"}}}
    first = await ensure(client, CONFIG_MAPS, owner, body)
    edit: Json = {"metadata": {"labels": {"app": None, "team": "net"}, "ownerReferences": None}}
    await client.with_field_manager("person").patch(CONFIG_MAPS, get_version(first.object), edit)
    repaired = await ensure(client, CONFIG_MAPS, owner, body)
    assert repaired.object.metadata.labels == {"app": "x", "team": "net"}
    assert repaired.object.metadata.ownerReferences[0].uid == owner.object.metadata.uid
    assert (await ensure(client, CONFIG_MAPS, owner, body)).operation == "unchanged"


async def test_entries_of_sets_and_map_lists_are_compared_by_their_keys_and_not_by_position(
    client: Client, owner: Owner
) -> None:
    """Boards are a map by name, tags are a set: their order does not matter."""

    def make_shelf(*boards: Json, tags: list[str]) -> Json:
        spec = {"boards": list(boards), "tags": tags, "rows": ["x", "y"]}
        return {"metadata": {"name": "child"}, "spec": spec}

    low, high = {"name": "low", "width": 3}, {"name": "high", "width": 4}
    await ensure(client, SHELVES, owner, make_shelf(low, high, tags=["wet", "red"]))
    await client.apply(
        SHELVES, CHILD, {"spec": {"boards": [{"name": "mid", "width": 1}]}}, manager="other"
    )
    same = await ensure(client, SHELVES, owner, make_shelf(high, low, tags=["red", "wet"]))
    assert same.operation == "unchanged"

    wider = {"name": "low", "width": 5}
    changed = await ensure(client, SHELVES, owner, make_shelf(wider, tags=["red"]))
    assert changed.operation == "updated"
    assert sorted(changed.fields) == [
        'spec.boards[{"name":"high"}]',
        'spec.boards[{"name":"low"}].width',
        'spec.tags["wet"]',
    ]
    boards = {board["name"]: board["width"] for board in changed.object.spec["boards"]}
    assert boards == {"low": 5, "mid": 1}
    assert changed.object.spec["tags"] == ["red"]


async def test_a_child_of_another_owner_is_refused_and_not_changed(
    client: Client, owner: Owner
) -> None:
    await ensure(client, CONFIG_MAPS, owner, BODY)
    second_owner = Owner(await create_gauge(client, "second"), GAUGES)
    with pytest.raises(OwnedByAnother, match=r"ConfigMap default/child .* owner is Gauge owner"):
        await ensure(client, CONFIG_MAPS, second_owner, {**BODY, "data": {}})
    assert (await client.get(CONFIG_MAPS, CHILD)).data == {"a": "1", "b": "2"}


async def test_the_child_of_an_earlier_owner_of_that_name_is_refused(
    client: Client, owner: Owner
) -> None:
    await ensure(client, CONFIG_MAPS, owner, BODY)
    assert isinstance(owner.object, Gauge)
    await client.delete(GAUGES, get_version(owner.object))
    recreated = Owner(await create_gauge(client, "owner"), GAUGES)
    with pytest.raises(OwnedByAnother, match="an earlier Gauge owner, which was deleted"):
        await ensure(client, CONFIG_MAPS, recreated, BODY)


async def test_an_object_without_an_owner_is_adopted(client: Client, owner: Owner) -> None:
    await client.create(CONFIG_MAPS, "default", BODY)
    result = await ensure(client, CONFIG_MAPS, owner, BODY)
    assert result.operation == "updated"
    assert result.object.metadata.ownerReferences[0].uid == owner.object.metadata.uid


async def test_without_force_a_field_of_another_manager_is_a_conflict(
    client: Client, owner: Owner
) -> None:
    first = await ensure(client, CONFIG_MAPS, owner, BODY)
    edit = {"data": {"a": "edited"}}
    await client.with_field_manager("person").patch(CONFIG_MAPS, get_version(first.object), edit)
    with pytest.raises(FieldManagerConflict, match="person"):
        await ensure(client, CONFIG_MAPS, owner, BODY, force=False)


async def test_impossible_bodies_and_owners_are_refused_with_the_reason(
    client: Client, owner: Owner
) -> None:
    with pytest.raises(ValueError, match="Namespace x is cluster-scoped and cannot be owned by"):
        await ensure(client, NAMESPACES, owner, {"metadata": {"name": "x"}})
    with pytest.raises(ValueError, match=r"ConfigMap to ensure needs metadata\.name"):
        await ensure(client, CONFIG_MAPS, owner, {"metadata": {"generateName": "x-"}})
    with pytest.raises(ValueError, match=r"the status is no part of .* Client\.patch_status"):
        await ensure(client, SHELVES, owner, {**BODY, "status": {}})
    with pytest.raises(ValueError, match=r"child has no owner to take the namespace from"):
        await ensure(client, CONFIG_MAPS, None, BODY, manager="me")
    cluster_scoped = Region(ObjectMeta("default", uid="uid"))
    with pytest.raises(ValueError, match="its owner, Namespace default, which is cluster-scoped"):
        await ensure(client, CONFIG_MAPS, Owner(cluster_scoped, NAMESPACES), BODY)
    with_namespace = {"metadata": {"name": "child", "namespace": "default"}}
    with pytest.raises(ValueError, match="pass manager="):
        await ensure(client, CONFIG_MAPS, None, with_namespace)
    with pytest.raises(ValueError, match=r"get configmaps child: the kind is namespaced"):
        await client.get(CONFIG_MAPS, Key("", "child"))
    with pytest.raises(ValueError, match=r"create configmaps child: the kind is namespaced"):
        await client.create(CONFIG_MAPS, "", BODY)
    with pytest.raises(TypeError, match=r"must be Owner\(object, KIND\) or None, not a Gauge"):
        await ensure(client, CONFIG_MAPS, owner.object, BODY)  # type: ignore[arg-type]
    other_namespace = {"metadata": {"name": "x", "namespace": "elsewhere"}}
    with pytest.raises(ValueError, match="an owner is in the same namespace"):
        await ensure(client, CONFIG_MAPS, owner, other_namespace)


async def test_a_dry_run_creates_nothing(client: Client, owner: Owner) -> None:
    result = await ensure(client.with_dry_run(), CONFIG_MAPS, owner, BODY)
    assert result.operation == "created"
    assert await client.find(CONFIG_MAPS, CHILD) is None


CONTAINER = {
    "name": "web",
    "image": "nginx:1.29",
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"memory": "64Mi"}},
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}
DEPLOYMENT = {
    "metadata": {"name": "child"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [CONTAINER], "volumes": [{"name": "scratch", "emptyDir": {}}]},
        },
    },
}
SERVICE = {
    "metadata": {"name": "child"},
    "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
}
SECRET = {"metadata": {"name": "child"}, "stringData": {"password": "x"}}


@pytest.mark.parametrize(
    ("kind", "body"),
    [(DEPLOYMENTS, DEPLOYMENT), (SERVICES, SERVICE), (SECRETS, SECRET)],
    ids=["deployment", "service", "secret"],
)
async def test_built_in_kinds_with_defaults_are_at_rest_after_one_write(
    shared_plane: Plane, tmp_path: Path, kind: Resource[Untyped], body: Json
) -> None:
    async with open_client(shared_plane, tmp_path) as client:
        owner = Owner(await create_gauge(client, "owner"), GAUGES)
        first = await ensure(client, kind, owner, body)
        try:
            again = await ensure(client, kind, owner, body)
            assert (again.operation, again.fields) == ("unchanged", ())
            revision = first.object.metadata.resourceVersion
            assert again.object.metadata.resourceVersion == revision
            if kind is SECRETS:
                value = base64.b64encode(b"x").decode()
                assert again.object.body["data"] == {"password": value}
        finally:
            await client.delete(kind, Version.from_object(again.object))
            await client.delete(GAUGES, Version.from_object(owner.object))


async def test_a_child_that_is_being_deleted_is_not_written_and_recreated_once_it_is_gone(
    client: Client, owner: Owner
) -> None:
    body: Json = {**BODY, "metadata": {"name": "child", "finalizers": [HOLD]}}
    first = await ensure(client, CONFIG_MAPS, owner, body)
    terminating = await client.delete(CONFIG_MAPS, get_version(first.object))
    assert terminating is not None
    kept = await ensure(client, CONFIG_MAPS, owner, body)
    assert (kept.operation, kept.object.metadata.is_terminating) == ("unchanged", True)
    without_finalizers = {"metadata": {"finalizers": None}}
    await client.patch(CONFIG_MAPS, get_version(kept.object), without_finalizers)
    again = await ensure(client, CONFIG_MAPS, owner, BODY)
    assert again.operation == "created"
    assert again.object.metadata.uid != first.object.metadata.uid


def make_pod_template(**container: Any) -> Json:
    """Return a Pod template of one container with further fields."""
    return {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.29", **container}]},
    }


def make_workload(**spec: Any) -> Json:
    """Return a Deployment or StatefulSet with further fields of its spec."""
    selector = {"matchLabels": {"app": "x"}}
    return {"metadata": {"name": "child"}, "spec": {"selector": selector, **spec}}


def make_template_with_env(source: str, value: Json) -> Json:
    """Return a Pod template whose variable A comes from a source."""
    return make_pod_template(env=[{"name": "A", "valueFrom": {source: value}}])


DOWNWARD = make_pod_template()
DOWNWARD["spec"]["volumes"] = [
    {
        "name": "info",
        "downwardAPI": {
            "items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}],
        },
    },
]
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", Untyped)
POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", Untyped)
POLICY = {
    "metadata": {"name": "child"},
    "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]},
}
QUANTITIES = {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}}
NAME = {"fieldPath": "metadata.name"}
LIMIT = {"resource": "limits.cpu"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (
            STATEFUL_SETS,
            make_workload(
                serviceName="x", template=make_pod_template(), volumeClaimTemplates=[CLAIM]
            ),
        ),
        (DEPLOYMENTS, make_workload(template=make_template_with_env("fieldRef", NAME))),
        (DEPLOYMENTS, make_workload(template=make_template_with_env("resourceFieldRef", LIMIT))),
        (DEPLOYMENTS, make_workload(template=DOWNWARD)),
        (POLICIES, POLICY),
        (DEPLOYMENTS, make_workload(template=make_pod_template(resources=QUANTITIES))),
    ],
    ids=[
        "volumeClaimTemplates",
        "fieldRef",
        "resourceFieldRef",
        "downwardAPI",
        "policy ports",
        "quantities",
    ],
)
async def test_values_that_the_server_rewrites_are_at_rest_after_a_second_ensure(
    shared_plane: Plane, tmp_path: Path, kind: Resource[Untyped], body: Json
) -> None:
    async with open_client(shared_plane, tmp_path) as client:
        body = {**body, "metadata": {"name": "child", "namespace": "default"}}
        child = (await ensure(client, kind, None, body, manager="me")).object
        try:
            await ensure(client, kind, None, body, manager="me")
            await check_at_rest(client, kind, body)
        finally:
            await client.delete(kind, Version.from_object(child))


_TEXT = {"type": "string"}
_PORT = {
    "type": "object",
    "properties": {
        "port": {"type": "integer"},
        "note": _TEXT,
        "protocol": {**_TEXT, "default": "TCP"},
    },
}
RACK_CRD = build_definition(
    {"plural": "racks", "singular": "rack", "kind": "Rack"},
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"label": _TEXT, "ports": {"type": "array", "items": _PORT}},
            },
        },
    },
)
RACKS = Resource(GROUP, "v1", "Rack", "racks", Untyped)


def make_rack(*ports: Json) -> Json:
    """Return a Rack with these ports."""
    return {"metadata": {"name": "child", "namespace": "default"}, "spec": {"ports": [*ports]}}


async def check_at_rest(client: Client, kind: Resource[Untyped], body: Json) -> None:
    """Assert that `ensure` sends only a GET for a child.

    Args:
        client: has learned the defaults that the server sets.
        kind: the kind of the child.
        body: the desired fields of the child.
    """
    counted = CountedTransport(client._transport)
    reader = Client(counted)
    reader.applied_values = client.applied_values
    result = await ensure(reader, kind, None, body, manager="me")
    assert (result.operation, result.fields, counted.methods) == ("unchanged", (), ["GET"])


async def test_fields_dropped_from_a_value_with_defaults_are_removed(
    shared_plane: Plane, tmp_path: Path
) -> None:
    await shared_plane.install_crds([RACK_CRD])
    async with open_client(shared_plane, tmp_path) as client:
        await ensure(client, RACKS, None, make_rack({"port": 80, "note": "old"}), manager="me")
        await ensure(client, RACKS, None, make_rack({"port": 80, "note": "old"}), manager="me")
        await check_at_rest(client, RACKS, make_rack({"port": 80, "note": "old"}))
        smaller = await ensure(client, RACKS, None, make_rack({"port": 80}), manager="me")
        assert (smaller.operation, smaller.fields) == ("updated", ("spec.ports",))
        assert smaller.object.body["spec"]["ports"] == [{"port": 80, "protocol": "TCP"}]
        await ensure(client, RACKS, None, make_rack({"port": 80}), manager="me")
        await check_at_rest(client, RACKS, make_rack({"port": 80}))

        written = {"spec": {"ports": [{"port": 81}]}}
        await client.patch(RACKS, Version.from_object(smaller.object), written)
        repaired = await ensure(client, RACKS, None, make_rack({"port": 80}), manager="me")
        assert (repaired.operation, repaired.fields) == ("updated", ("spec.ports",))
        await check_at_rest(client, RACKS, make_rack({"port": 80}))  # by defaults learned above
        await client.delete(RACKS, Version.from_object(repaired.object))


async def test_a_quantity_that_others_or_the_body_change_is_written(
    shared_plane: Plane, tmp_path: Path
) -> None:
    def make_limited(cpu: str) -> Json:
        """Return a Deployment with a limit of CPU."""
        body = make_workload(template=make_pod_template(resources={"limits": {"cpu": cpu}}))
        return {**body, "metadata": {"name": "child", "namespace": "default"}}

    async with open_client(shared_plane, tmp_path) as client:
        child = (
            await ensure(client, DEPLOYMENTS, None, make_limited("1000m"), manager="me")
        ).object
        try:
            await ensure(client, DEPLOYMENTS, None, make_limited("1000m"), manager="me")
            await check_at_rest(client, DEPLOYMENTS, make_limited("1000m"))
            changed = await ensure(client, DEPLOYMENTS, None, make_limited("2000m"), manager="me")
            assert changed.operation == "updated"
            await ensure(client, DEPLOYMENTS, None, make_limited("2000m"), manager="me")
            await check_at_rest(client, DEPLOYMENTS, make_limited("2000m"))
            other = make_limited("1")
            await client.apply(DEPLOYMENTS, CHILD, other, manager="person", force=True)
            repaired = await ensure(client, DEPLOYMENTS, None, make_limited("2000m"), manager="me")
            (container,) = repaired.object.body["spec"]["template"]["spec"]["containers"]
            assert repaired.operation == "updated"
            assert container["resources"]["limits"]["cpu"] in {"2", "2000m"}
        finally:
            live = await client.get(DEPLOYMENTS, CHILD)
            await client.delete(DEPLOYMENTS, Version.from_object(live))
            assert child.metadata.uid == live.metadata.uid


async def test_a_dry_run_learns_no_defaults(shared_plane: Plane, tmp_path: Path) -> None:
    await shared_plane.install_crds([RACK_CRD])
    async with open_client(shared_plane, tmp_path) as client:
        await ensure(client, RACKS, None, make_rack({"port": 80, "note": "old"}), manager="me")
        dry_run_client = client.with_dry_run()
        for _ in range(2):
            await ensure(dry_run_client, RACKS, None, make_rack({"port": 80}), manager="me")
        client.applied_values = dry_run_client.applied_values
        smaller = await ensure(client, RACKS, None, make_rack({"port": 80}), manager="me")
        assert smaller.operation == "updated"
        await client.delete(RACKS, Version.from_object(smaller.object))
