"""The controller in the framework's README, run as it stands there."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx

import controller
from envtest.plane import ControlPlane as Plane
from tests.streams import unwound

README = Path(controller.__file__).with_name("README.md")
MAPS = "/api/v1/namespaces/default/configmaps"
LONGEST = 25


def example() -> str:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def test_it_is_short() -> None:
    assert len([line for line in example().splitlines() if line.strip()]) <= LONGEST


async def test_it_does_what_it_says(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    created = await admin.post(MAPS, json={"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert created.status_code == 201
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    env["KUBECONFIG"] = str(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    async with await anyio.open_process(
        [sys.executable, "-c", example()], env=env, stderr=subprocess.STDOUT
    ) as process:
        with anyio.fail_after(60):
            await label(admin, "a", "1")
            merge = {"Content-Type": "application/merge-patch+json"}
            await admin.patch(f"{MAPS}/a", json={"data": {"y": "2"}}, headers=merge)
            await label(admin, "a", "2")
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


async def label(admin: httpx.AsyncClient, name: str, entries: str) -> None:
    """Return once the ConfigMap says that it has so many entries."""
    query = {"watch": "1", "fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}
    async with (
        admin.stream("GET", MAPS, params=query) as events,
        unwound(events.aiter_lines()) as lines,
    ):
        async for line in lines:
            told: dict[str, Any] = json.loads(line)["object"]["metadata"].get("labels") or {}
            if told.get("entries") == entries:
                return
