"""The operators in examples/ and their counterparts for kopf pass the same tests.

The tests run on the control plane that the environment selects.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import Manager, ManagerOptions, ObjectMeta, SystemClock, connect
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from examples import inventory, teams, websites
from tests.contract.conftest import administrator, ask
from tests.contract.test_controllers import wait_until_gone
from tests.contract.test_readme import MERGE, wait_for_object
from tests.controller.certs import create_authority_and_pair
from tests.polling import SECONDS

EXAMPLES = Path(teams.__file__).parent
WEBSITES = "/apis/example.com/v1/namespaces/default/websites"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"
TEAMS = "/apis/example.com/v2/teams"
OLD_TEAMS = "/apis/example.com/v1/teams"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/teams.example.com"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
Add = Callable[[Manager], object]
frameworks = pytest.mark.parametrize("framework", ["controller", "kopf"])


@asynccontextmanager
async def run_manager(
    plane: Plane, folder: Path, add: Add, options: ManagerOptions | None = None
) -> AsyncIterator[Manager]:
    """Run a manager of this framework with an example operator.

    Args:
        plane: the API server.
        folder: where the kubeconfig is written.
        add: adds the operator to the manager.
    """
    transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
    manager = Manager(transport, options=options)
    add(manager)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await manager.wait_serving()
            with anyio.fail_after(SECONDS):
                yield manager
            manager.stop()
    finally:
        await transport.aclose()


@asynccontextmanager
async def run_kopf(plane: Plane, folder: Path, name: str, **env: str) -> AsyncIterator[None]:
    """Run an example for kopf as a process; pytest shows its log if the test fails.

    Args:
        plane: the API server.
        folder: where the kubeconfig and the log are written.
        name: the module in examples/kopf.
        env: further environment variables.
    """
    config = str(plane.write_kubeconfig(folder / "kubeconfig"))
    path = EXAMPLES / "kopf" / f"{name}.py"
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "-A", str(path)]
    log = (folder / "kopf.log").open("wb")
    with log:
        async with await anyio.open_process(
            command,
            env={**os.environ, "KUBECONFIG": config, **env},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                with anyio.fail_after(SECONDS):
                    yield
            finally:
                process.kill()
                print((folder / "kopf.log").read_text()[-6000:])  # noqa: T201 - pytest shows it with a failure


async def install_example_kinds(plane: Plane, framework: str = "controller") -> None:
    """Install the definitions of the examples, without conversion if the framework is kopf."""
    definitions = list(yaml.safe_load_all((EXAMPLES / "manifests" / "crds.yaml").read_text()))
    if framework == "kopf":  # kopf serves no conversion webhook
        definitions = [
            {**definition, "spec": {**definition["spec"], "conversion": None}}
            for definition in definitions
        ]
    await plane.install_crds(definitions)


@frameworks
async def test_a_website_gets_a_deployment_a_host_and_a_status(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path, framework: str
) -> None:
    await install_example_kinds(plane)

    def add(manager: Manager) -> None:
        websites.Websites(manager, SystemClock())

    operator = run_manager(plane, tmp_path, add) if framework == "controller" else None
    async with operator or run_kopf(plane, tmp_path, "websites"):
        await create_object(admin, WEBSITES, make_website("blog", replicas=2))
        child = await wait_for_object(admin, DEPLOYMENTS, name="blog", holds=lambda _: True)
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Website", "blog", True)
        await wait_for_object(
            admin,
            MAPS,
            name="routes",
            holds=lambda config_map: read_routes(config_map) == {"blog.example": "blog"},
        )
        await wait_for_object(
            admin,
            WEBSITES,
            name="blog",
            holds=lambda site: read_ready(site) == ("False", "Starting"),
        )

        await patch_object(
            admin, f"{DEPLOYMENTS}/blog/status", {"status": {"replicas": 2, "readyReplicas": 2}}
        )
        await wait_for_object(
            admin,
            WEBSITES,
            name="blog",
            holds=lambda site: read_ready(site) == ("True", "Serving"),
        )
        await patch_object(admin, f"{WEBSITES}/blog", {"spec": {"replicas": 3}})
        await wait_for_object(
            admin,
            DEPLOYMENTS,
            name="blog",
            holds=lambda deployment: deployment["spec"]["replicas"] == 3,
        )

        await create_object(admin, WEBSITES, make_website("thief", host="blog.example"))
        await wait_for_object(
            admin,
            WEBSITES,
            name="thief",
            holds=lambda site: read_ready(site) == ("False", "HostTaken"),
        )
        assert (await admin.get(f"{DEPLOYMENTS}/thief")).status_code == 404

        assert (await admin.delete(f"{WEBSITES}/blog")).is_success
        await wait_for_object(
            admin,
            MAPS,
            name="routes",
            holds=lambda config_map: "blog" not in read_routes(config_map).values(),
        )
        if framework == "controller":  # kopf retries only after 60 s
            await wait_for_object(
                admin,
                MAPS,
                name="routes",
                holds=lambda config_map: read_routes(config_map) == {"blog.example": "thief"},
            )
            await wait_for_object(admin, DEPLOYMENTS, name="thief", holds=lambda _: True)
        await wait_until_gone(admin, f"{WEBSITES}/blog")


@frameworks
async def test_a_team_gets_defaults_rules_and_a_namespace(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path, framework: str
) -> None:
    await install_example_kinds(plane, framework)
    async with run_team_operator(framework, plane, admin=admin, folder=tmp_path):
        created = await create_once_served(admin, TEAMS, make_team("net", ["ann@example.com"]))
        assert created["spec"]["namespace"] == "team-net"
        space = await wait_for_object(
            admin, "/api/v1/namespaces", name="team-net", holds=lambda _: True
        )
        assert space["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]

        refused = await admin.post(TEAMS, json=make_team("ops", ["nobody"]))
        assert refused.status_code == 422
        assert "name the mail addresses" in refused.json()["message"]
        moved = await admin.patch(
            f"{TEAMS}/net", json={"spec": {"namespace": "other"}}, headers=MERGE
        )
        assert moved.status_code == 422
        assert "spec.namespace cannot change" in moved.json()["message"]

        await patch_object(admin, f"{TEAMS}/net", {"spec": {"owners": ["bo@x.com", "cy@x.com"]}})
        await wait_for_object(
            admin,
            "/api/v1/namespaces",
            name="team-net",
            holds=lambda namespace: read_owners(namespace) == "bo@x.com, cy@x.com",
        )
        if framework == "controller" and read_settings().kind != "embedded":
            await check_both_versions_of_team(admin)


async def check_both_versions_of_team(admin: httpx.AsyncClient) -> None:
    """Check that the team can be read and written as v1, and that the rules of v2 apply."""
    old = await read_converted(admin, f"{OLD_TEAMS}/net")
    assert old["spec"] == {"owner": "bo@x.com", "namespace": "team-net"}
    assert old["metadata"]["annotations"] == {teams.MORE_OWNERS: "cy@x.com"}
    await patch_object(admin, f"{OLD_TEAMS}/net", {"spec": {"owner": "di@x.com"}})
    new = (await admin.get(f"{TEAMS}/net")).json()
    assert new["spec"] == {"owners": ["di@x.com", "cy@x.com"], "namespace": "team-net"}
    assert "annotations" not in new["metadata"]
    await wait_for_object(
        admin,
        "/api/v1/namespaces",
        name="team-net",
        holds=lambda namespace: read_owners(namespace) == "di@x.com, cy@x.com",
    )
    refused = await admin.patch(f"{OLD_TEAMS}/net", json={"spec": {"owner": "x"}}, headers=MERGE)
    assert (refused.status_code, "name the mail addresses" in refused.text) == (422, True)


async def read_converted(admin: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Return an object in another version, once the server can call the conversion webhook."""
    while not (answer := await ask(admin, "GET", path)).is_success:
        assert "conversion webhook for example.com" in answer.text, answer.text
    body: dict[str, Any] = answer.json()
    return body


OWNERS = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None, max_examples=50)
@given(st.lists(OWNERS, min_size=1), st.text(), st.dictionaries(st.text("ab"), st.text()))
def test_a_team_that_is_converted_to_v1_and_back_is_unchanged(
    owners: list[str], namespace: str, annotations: dict[str, str]
) -> None:
    meta = ObjectMeta(name="net", annotations=annotations)
    new = teams.Team(meta, teams.TeamSpec(tuple(owners), namespace))
    old = teams.to_v1(new)
    assert teams.to_v2(old) == new
    assert teams.to_v1(teams.to_v2(old)) == old


def test_an_annotation_of_more_owners_on_a_v2_object_adds_no_owner() -> None:
    meta = ObjectMeta(name="net", annotations={teams.MORE_OWNERS: "eve@x.com", "a": "b"})
    new = teams.Team(meta, teams.TeamSpec(("ann@x.com",), "team-net"))
    old = teams.to_v1(new)
    assert old.metadata.annotations == {"a": "b"}
    assert teams.to_v2(old).spec == new.spec


@asynccontextmanager
async def run_team_operator(
    framework: str, plane: Plane, admin: httpx.AsyncClient, folder: Path
) -> AsyncIterator[None]:
    """Run the operator of teams with its webhooks, by either framework."""
    if framework == "kopf":
        authority, pair = create_authority_and_pair()
        files = {
            "WEBHOOK_CA": authority,
            "WEBHOOK_CERTIFICATE": pair.certificate,
            "WEBHOOK_KEY": pair.key,
        }
        env = {}
        for name, data in files.items():
            (folder / name).write_bytes(data)
            env[name] = str(folder / name)
        async with run_kopf(plane, folder, "teams", **env):
            yield
        return
    assert teams.OPTIONS.webhook_self_signed is not None
    options = replace(
        teams.OPTIONS,
        webhook_bind="127.0.0.1:0",
        webhook_self_signed=replace(teams.OPTIONS.webhook_self_signed, names=("127.0.0.1",)),
    )
    async with run_manager(plane, folder, add=teams.Teams, options=options) as manager:
        content = (EXAMPLES / "manifests" / "webhooks.yaml").read_text()
        for document in yaml.safe_load_all(content):
            (hook,) = document["webhooks"]
            service = hook["clientConfig"].pop("service")  # no Service leads to this machine
            hook["clientConfig"]["url"] = (
                f"https://127.0.0.1:{manager.webhook_port}{service['path']}"
            )
            await create_object(admin, f"{ADMISSION}/{document['kind'].lower()}s", document)
        url = f"https://127.0.0.1:{manager.webhook_port}/convert-team"
        client = {"clientConfig": {"service": None, "url": url}}
        await patch_object(admin, DEFINITION, {"spec": {"conversion": {"webhook": client}}})
        yield


@frameworks
async def test_the_nodes_of_another_cluster_are_counted(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path, framework: str
) -> None:
    def add(manager: Manager) -> None:
        inventory.Inventory(manager, SystemClock())

    async with ControlPlane.start() as other, administrator(other) as far:
        kubeconfig = other.write_kubeconfig(tmp_path / "other").read_bytes()
        operator = run_manager(plane, tmp_path, add) if framework == "controller" else None
        async with operator or run_kopf(plane, tmp_path, "inventory"):
            await add_node(far, "one", "True")
            secret = {
                "metadata": {"name": "far", "labels": {"example.com/cluster": "true"}},
                "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
            }
            response = await create_object(admin, "/api/v1/namespaces/default/secrets", secret)
            first = await wait_for_object(
                admin,
                MAPS,
                name="far-nodes",
                holds=lambda config_map: config_map["data"] == {"nodes": "1", "ready": "1"},
            )
            assert first["metadata"]["ownerReferences"][0]["uid"] == response["metadata"]["uid"]
            await add_node(far, "two", "False")
            await wait_for_object(
                admin,
                MAPS,
                name="far-nodes",
                holds=lambda config_map: config_map["data"] == {"nodes": "2", "ready": "1"},
            )
            assert (await far.delete("/api/v1/nodes/one")).is_success
            await wait_for_object(
                admin,
                MAPS,
                name="far-nodes",
                holds=lambda config_map: config_map["data"] == {"nodes": "1", "ready": "0"},
            )


def make_website(name: str, *, host: str = "", replicas: int = 1) -> dict[str, Any]:
    """Return a Website; its host is NAME.example if none is given."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": name},
        "spec": {"host": host or f"{name}.example", "replicas": replicas},
    }


def make_team(name: str, owners: list[str]) -> dict[str, Any]:
    """Return a Team of version v2."""
    return {
        "apiVersion": "example.com/v2",
        "kind": "Team",
        "metadata": {"name": name},
        "spec": {"owners": owners},
    }


async def add_node(http: httpx.AsyncClient, name: str, ready: str) -> None:
    """Create a Node with a status of its Ready condition."""
    await create_object(http, "/api/v1/nodes", {"metadata": {"name": name}})
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    await patch_object(http, f"/api/v1/nodes/{name}/status", {"status": status})


def read_ready(site: dict[str, Any]) -> tuple[str, str] | None:
    """Return status and reason of a Website's first condition; None if it has none."""
    conditions = site.get("status", {}).get("conditions") or []
    return next(((condition["status"], condition["reason"]) for condition in conditions), None)


def read_routes(config_map: dict[str, Any]) -> dict[str, str]:
    """Return the website of each host in the ConfigMap of routes."""
    hosts: dict[str, str] = config_map.get("data") or {}
    return hosts


def read_owners(namespace: dict[str, Any]) -> str | None:
    """Return the owners in the annotation of a team's namespace."""
    annotations: dict[str, str] = namespace["metadata"].get("annotations") or {}
    return annotations.get(teams.OWNERS)


async def create_object(
    http: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Create an object in a collection; return it."""
    answer = await http.post(path, json=body)
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


async def create_once_served(
    http: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Create an object once the server calls both webhooks, which takes a moment.

    Dry runs show it: the object gets a default, and an invalid variant is rejected.
    """
    bad = {**body, "spec": {"owners": ["nobody"]}}
    while True:
        good = await http.post(path, params={"dryRun": "All"}, json=body)
        worse = await http.post(path, params={"dryRun": "All"}, json=bad)
        if good.is_success and "namespace" in good.json()["spec"] and worse.status_code == 422:
            return await create_object(http, path, body)


async def patch_object(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Apply a merge patch to an object."""
    answer = await http.patch(path, content=json.dumps(body), headers=MERGE)
    assert answer.is_success, answer.text
