"""Fixtures: the control plane that the environment names, and clients of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd
from tests.servers import SERVERS, running


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """A control plane of its own for every test: embedded, or real binaries."""
    async with ControlPlane.start() as started:
        yield started


@pytest.fixture
async def admin(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client."""
    async with administrator(plane) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVERS)
async def shared_admin(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client of a server with our kinds, which a module's tests share.

    The tests run on the newest and the oldest Kubernetes, because CEL, for example, differs.
    """
    async with running(request.param) as started, administrator(started) as client:
        await started.install_crds(crd.build_crds())
        yield client


@asynccontextmanager
async def administrator(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the administrator."""
    async with httpx.AsyncClient(
        base_url=plane.url,
        verify=plane.create_admin_tls(),
        headers=plane.build_admin_headers(),
        timeout=30,
    ) as client:
        yield client


async def ask(
    admin: httpx.AsyncClient, method: str, path: str, **arguments: Any
) -> httpx.Response:
    """Send a request, again while the storage of its kind is being replaced; return the answer.

    Each change of a CRD replaces the storage. Meanwhile kube-apiserver refuses requests with 429,
    or with 503 if they came to the old storage; neither were executed.

    Args:
        method: of HTTP.
        path: of the object or collection.
        arguments: of the request, as httpx names them.
    """
    while True:
        answer = await admin.request(method, path, **arguments)
        stopped = answer.status_code == 503 and "apiserver is shutting down" in answer.text
        if answer.status_code != 429 and not stopped:
            return answer
