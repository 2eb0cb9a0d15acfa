"""A server that serves widgets, and a hook that it can ask."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, parse_token_file
from envtest.plane import RunningControlPlane as Plane
from tests.envtest.admission.exchange import Stage
from tests.envtest.admission.hooks import Hook, serve_hook

DATA = Path(__file__).parents[2] / "data" / "transcripts" / "admission"
RECORDED: dict[str, Any] = json.loads((DATA / "admission.json").read_text(encoding="utf-8"))
TOKEN = 'admin-token,admin,1,"system:masters"\n'


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """The control plane that the environment asks for; it serves widgets."""
    async with ControlPlane.start(tokens=parse_token_file(TOKEN)) as started:
        await started.install_crds([RECORDED["crd"]])
        yield started


@pytest.fixture
async def client(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client."""
    async with httpx.AsyncClient(
        base_url=plane.url,
        # Without the client certificate by which a real server would know the administrator.
        verify=False,
        headers={"Authorization": "Bearer admin-token", "User-Agent": "transcript/1"},
        timeout=60,
    ) as async_client:
        await async_client.post("/api/v1/namespaces", json={"metadata": {"name": "lab"}})
        yield async_client


@pytest.fixture
def stage(client: httpx.AsyncClient, hook: Hook) -> Stage:
    """The server and the hook."""
    return Stage(client, hook)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    """Yield a webhook server on 127.0.0.1."""
    async with serve_hook() as started:
        yield started
