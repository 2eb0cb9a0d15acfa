"""The fake API, and the server that the environment asks for, which a module's cases share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from controller import Client, SystemClock, Transport, connect
from controller.testing import FakeApi
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from tests.contract.fake_api.gauges import (
    CONFIG_MAPS,
    GAUGES,
    PLAIN_CRD,
    PLAINS,
    SHELF_CRD,
    SHELF_SCHEMA,
    SHELVES,
    at,
)
from tests.envtest.samples import build_gauge_definition


@asynccontextmanager
async def fake() -> AsyncIterator[Transport]:
    api = FakeApi(SystemClock())
    api.serve(GAUGES, fields=("spec.place",))
    api.serve(SHELVES, schema=SHELF_SCHEMA)
    api.serve(PLAINS, status=False)
    api.serve(CONFIG_MAPS, status=False, generation=False)
    yield api


@asynccontextmanager
async def real(plane: Plane, folder: Path) -> AsyncIterator[Transport]:
    transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
    try:
        yield transport
        await clean(Client(transport))
    finally:
        await transport.aclose()


async def clean(client: Client) -> None:
    """Delete what a test left on the server that all share."""
    for kind in (GAUGES, SHELVES, PLAINS):
        for obj in (await client.list(kind)).items:
            free = await client.patch(kind, at(obj), {"metadata": {"finalizers": None}})
            if not free.metadata.terminating:
                await client.delete(kind, at(free))
    for other in (await client.list(CONFIG_MAPS, namespace="default")).items:
        await client.delete(CONFIG_MAPS, at(other))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_plane() -> AsyncIterator[Plane]:
    async with ControlPlane.start() as plane:
        await plane.install_crds([build_gauge_definition(), SHELF_CRD, PLAIN_CRD])
        yield plane


@pytest_asyncio.fixture(loop_scope="module", params=["fake", "server"])
async def transport(
    request: pytest.FixtureRequest, shared_plane: Plane, tmp_path: Path
) -> AsyncIterator[Transport]:
    async with fake() if request.param == "fake" else real(shared_plane, tmp_path) as opened:
        yield opened


@pytest.fixture
def client(transport: Transport) -> Client:
    return Client(transport)
