"""Conversion webhooks on the newest and the oldest API server; the embedded server calls none.

A kind is stored as v1 and is read and written as v2. Then it is stored as v2.
"""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from controller import Manager, ManagerOptions, SelfSigned, connect
from controller.webhooks import Conversion, Spoke
from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from tests.contract.conftest import administrator, ask
from tests.contract.test_readme import MERGE
from tests.controller.webhooks.conversions import (
    GIZMOS,
    Gizmo,
    OldGizmo,
    build_gizmo,
    to_v1,
    to_v2,
)
from tests.polling import SECONDS
from tests.servers import SERVERS, Server, program, running

NAME = "gizmos.example.com"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
V1, V2 = (f"/apis/example.com/{name}/namespaces/default/gizmos" for name in ("v1", "v2"))
SETTINGS = SelfSigned(
    namespace="default",
    service="gizmos",
    secret="gizmo-cert",
    converting=[NAME],
    names=["127.0.0.1"],
)
OPTIONS = ManagerOptions(webhook_bind="127.0.0.1:0", webhook_self_signed=SETTINGS)
pytestmark = pytest.mark.skipif(
    read_settings().kind == "embedded", reason="the embedded server calls no conversion webhooks"
)


def build_gizmo_crd(storage: str, port: int) -> dict[str, Any]:
    """Return the definition of gizmos, without the CA bundle that the manager has to write.

    Args:
        storage: the version that is stored.
        port: where the conversion webhook is served.
    """
    sizes = {"v1": {"size": {"type": "string"}}, "v2": {"centimetres": {"type": "integer"}}}
    common_fields = {"color": {"type": "string"}, "unnamed": {"type": "string"}}
    client = {"url": f"https://127.0.0.1:{port}/convert-gizmo"}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {**size, **common_fields}}
                    },
                }
            },
        }
        for name, size in sizes.items()
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo"},
            "versions": versions,
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    }


@asynccontextmanager
async def run_conversion_manager(plane: Plane, folder: Path) -> AsyncIterator[Manager]:
    """Run a manager that converts gizmos."""
    transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
    manager = Manager(transport, options=OPTIONS)
    spoke = Spoke("v1", OldGizmo, to_hub=to_v2, from_hub=to_v1)
    manager.add_webhook(Conversion("/convert-gizmo", GIZMOS, Gizmo, spoke))
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await manager.wait_serving()
            with anyio.fail_after(SECONDS):
                yield manager
            manager.stop()
    finally:
        await transport.aclose()


def make_object(version: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a gizmo of a version, with a label."""
    return {**build_gizmo(version, spec), "metadata": {"name": name, "labels": {"a": "b"}}}


async def read_converted(admin: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Return an object once the server converts it, which it does a moment after the CA bundle."""
    while not (answer := await ask(admin, "GET", path)).is_success:
        assert "conversion webhook for example.com/" in answer.text, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def run_failing_kubectl(folder: Path, *words: str) -> str:
    """Run a kubectl command that must fail; return its error message."""
    command = [program("kubectl"), f"--kubeconfig={folder / 'kubeconfig'}", *words]
    env = {**os.environ, "HOME": str(folder)}
    done = await anyio.run_process(command, env=env, check=False, stderr=subprocess.STDOUT)
    assert done.returncode == 1, done.stdout.decode()
    return done.stdout.decode()


@pytest.mark.survives_bugs
@pytest.mark.parametrize("server", SERVERS)
async def test_objects_are_served_in_both_versions_wherever_they_are_stored(
    server: Server, tmp_path: Path
) -> None:
    async with (
        running(server) as plane,
        administrator(plane) as admin,
        run_conversion_manager(plane, tmp_path) as manager,
    ):
        port = manager.webhook_port or 0
        await plane.install_crds([build_gizmo_crd("v1", port)])
        spec = {"size": "12cm", "color": "red", "unnamed": "kept"}
        response = await ask(admin, "POST", V1, json=make_object("v1", "one", spec))
        assert response.status_code == 201, response.text

        v2_gizmo = await read_converted(admin, f"{V2}/one")
        assert v2_gizmo["spec"] == {"centimetres": 12, "color": "red", "unnamed": "kept"}
        uid = response.json()["metadata"]["uid"]
        assert (v2_gizmo["metadata"]["uid"], v2_gizmo["metadata"]["labels"]) == (uid, {"a": "b"})
        patched = await ask(
            admin, "PATCH", f"{V2}/one", json={"spec": {"centimetres": 13}}, headers=MERGE
        )
        assert patched.is_success, patched.text
        assert (await read_converted(admin, f"{V1}/one"))["spec"] == {**spec, "size": "13cm"}

        versions_stored_as_v2 = [
            {**version, "storage": version["name"] == "v2"}
            for version in build_gizmo_crd("v1", port)["spec"]["versions"]
        ]
        changed = await ask(
            admin,
            "PATCH",
            DEFINITION,
            json={"spec": {"versions": versions_stored_as_v2}},
            headers=MERGE,
        )
        assert changed.json()["status"]["storedVersions"] == ["v1", "v2"]
        response = await ask(admin, "POST", V2, json=make_object("v2", "two", {"centimetres": 2}))
        assert response.status_code == 201, response.text
        for name, size in {"one": "13cm", "two": "2cm"}.items():
            assert (await read_converted(admin, f"{V1}/{name}"))["spec"]["size"] == size
            rewritten = await ask(
                admin, "PUT", f"{V2}/{name}", json=await read_converted(admin, f"{V2}/{name}")
            )
            assert rewritten.is_success, rewritten.text
        listed = (await read_converted(admin, V1))["items"]
        assert [shelf["spec"]["size"] for shelf in listed] == ["13cm", "2cm"]

        wide = make_object("v1", "wide", {"size": "wide"})
        while (
            refused := await ask(admin, "POST", V1, params={"dryRun": "All"}, json=wide)
        ).is_success:
            pass  # The server uses its new storage version, and so the conversion, after a moment.
        assert (refused.status_code, "Gizmo default/wide cannot be" in refused.text) == (500, True)
        failure = await run_failing_kubectl(
            tmp_path, "create", "--validate=false", "-f", write_object_file(tmp_path, wide)
        )
        assert (
            "conversion webhook for example.com/v1, Kind=Gizmo failed: Gizmo default/wide"
            in failure
        )
        assert (
            "from example.com/v1 to example.com/v2: ValueError: invalid literal for int()"
            in failure
        )


def write_object_file(folder: Path, body: dict[str, Any]) -> str:
    """Write an object to a file for kubectl; return the path."""
    path = folder / "object.json"
    path.write_text(json.dumps(body))
    return str(path)
