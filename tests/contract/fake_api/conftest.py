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
    get_version,
)
from tests.envtest.samples import build_gauge_definition


@asynccontextmanager
async def open_fake_api() -> AsyncIterator[Transport]:
    """Yield a fake API that serves the kinds of these tests."""
    api = FakeApi(SystemClock())
    api.serve(GAUGES, fields=("spec.place",))
    api.serve(SHELVES, schema=SHELF_SCHEMA)
    api.serve(PLAINS, status=False)
    api.serve(CONFIG_MAPS, status=False, generation=False)
    yield api


@asynccontextmanager
async def open_server(plane: Plane, folder: Path) -> AsyncIterator[Transport]:
    """Yield a transport to the server, and delete the objects of the test afterwards."""
    transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
    try:
        yield transport
        await delete_objects(Client(transport))
    finally:
        await transport.aclose()


async def delete_objects(client: Client) -> None:
    """Delete the objects that a test left on the server that all tests share."""
    for kind in (GAUGES, SHELVES, PLAINS):
        for obj in (await client.list(kind)).items:
            unblocked = await client.patch(
                kind, get_version(obj), {"metadata": {"finalizers": None}}
            )
            if not unblocked.metadata.is_terminating:
                await client.delete(kind, get_version(unblocked))
    for config_map in (await client.list(CONFIG_MAPS, namespace="default")).items:
        await client.delete(CONFIG_MAPS, get_version(config_map))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_plane() -> AsyncIterator[Plane]:
    """The server of all tests of a module, with the CRDs of Gauge, Shelf and Plain."""
    async with ControlPlane.start() as plane:
        await plane.install_crds([build_gauge_definition(), SHELF_CRD, PLAIN_CRD])
        yield plane


@pytest_asyncio.fixture(loop_scope="module", params=["fake", "server"])
async def transport(
    request: pytest.FixtureRequest, shared_plane: Plane, tmp_path: Path
) -> AsyncIterator[Transport]:
    """A transport to the fake API, or to the server: each test runs with both."""
    async with (
        open_fake_api()
        if request.param == "fake"
        else open_server(shared_plane, tmp_path) as opened
    ):
        yield opened


@pytest.fixture
def client(transport: Transport) -> Client:
    """A client of the fake API, or of the server."""
    return Client(transport)
