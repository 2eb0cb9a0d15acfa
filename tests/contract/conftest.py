"""The control plane that the environment asks for, for cases that must hold on every one."""

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
    """The administrator's client of a server with our kinds, one for a module and version.

    For what differs between versions of Kubernetes, as the library of CEL does.
    """
    async with running(request.param) as started, administrator(started) as client:
        await started.install_crds(crd.crds())
        yield client


@asynccontextmanager
async def administrator(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the administrator."""
    async with httpx.AsyncClient(
        base_url=plane.url, verify=plane.tls(), headers=plane.admin_headers(), timeout=30
    ) as client:
        yield client


async def ask(
    admin: httpx.AsyncClient, method: str, path: str, **arguments: Any
) -> httpx.Response:
    """Return the answer to a request, sent again while the storage of its kind begins anew.

    Each change of a CRD does that. kube-apiserver then refuses what comes before the new storage
    is ready with 429, and what comes to the old one with 503; neither has been executed.

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
