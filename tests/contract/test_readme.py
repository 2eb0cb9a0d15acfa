"""The example controllers in the framework's README, run unchanged."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

import controller
from envtest.plane import RunningControlPlane as Plane
from tests.polling import SECONDS
from tests.streams import unwind_on_exit

README = Path(controller.__file__).with_name("README.md")
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
MAX_LINES = 25


def read_examples() -> list[str]:
    """Return the Python blocks of the README."""
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@asynccontextmanager
async def run_example(example: str, plane: Plane, folder: Path) -> AsyncIterator[None]:
    """Run an example as a process; at the end it must exit with status 0 after SIGTERM."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    env["KUBECONFIG"] = str(plane.write_kubeconfig(folder / "kubeconfig"))
    async with await anyio.open_process(
        [sys.executable, "-c", example], env=env, stderr=subprocess.STDOUT
    ) as process:
        with anyio.fail_after(SECONDS):
            yield
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


def test_the_first_example_is_short() -> None:
    assert len([line for line in read_examples()[0].splitlines() if line.strip()]) <= MAX_LINES


async def test_the_first_example_labels_config_maps_with_their_number_of_entries(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    created = await admin.post(MAPS, json={"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert created.status_code == 201
    async with run_example(read_examples()[0], plane, tmp_path):
        await wait_for_object(
            admin, MAPS, name="a", holds=lambda a: get_labels(a).get("entries") == "1"
        )
        await admin.patch(f"{MAPS}/a", json={"data": {"y": "2"}}, headers=MERGE)
        await wait_for_object(
            admin, MAPS, name="a", holds=lambda a: get_labels(a).get("entries") == "2"
        )


async def test_the_second_example_keeps_an_owned_config_map_in_labelled_namespaces(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    body = {"metadata": {"name": "blue", "labels": {"example.com/team": "net"}}}
    created = await admin.post("/api/v1/namespaces", json=body)
    assert created.status_code == 201
    owner = created.json()["metadata"]["uid"]
    maps = "/api/v1/namespaces/blue/configmaps"
    async with run_example(read_examples()[1], plane, tmp_path):
        first = await wait_for_object(
            admin, maps, name="team", holds=lambda team: team["data"] == {"team": "net"}
        )
        (reference,) = first["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["uid"]) == ("Namespace", owner)
        await admin.patch(f"{maps}/team", json={"data": {"team": "other"}}, headers=MERGE)
        await wait_for_object(
            admin, maps, name="team", holds=lambda team: team["data"] == {"team": "net"}
        )
        assert (await admin.delete(f"{maps}/team")).is_success
        uid = first["metadata"]["uid"]
        await wait_for_object(
            admin, maps, name="team", holds=lambda team: team["metadata"]["uid"] != uid
        )


def get_labels(obj: dict[str, Any]) -> dict[str, str]:
    """Return the labels of an object."""
    return obj["metadata"].get("labels") or {}


async def wait_for_object(
    admin: httpx.AsyncClient,
    collection: str,
    name: str,
    holds: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Watch an object until it exists and meets a condition; return it.

    Args:
        admin: the administrator's client.
        collection: the path of the collection.
        name: the name of the object.
        holds: returns whether the object meets the condition.
    """
    query = {"watch": "1", "fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}
    async with (
        admin.stream("GET", collection, params=query) as events,
        unwind_on_exit(events.aiter_lines()) as lines,
    ):
        async for line in lines:
            event = json.loads(line)
            obj: dict[str, Any] = event["object"]
            if event["type"] != "DELETED" and holds(obj):
                return obj
    raise AssertionError(f"the watch of {name} ended")
