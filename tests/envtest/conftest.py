"""Control planes for tests: the embedded one, or the one that the environment asks for."""

import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from envtest import ControlPlane
from envtest.plane import ControlPlane as Plane
from tests.envtest.samples import crd


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """An embedded control plane that serves gauges."""
    async with ControlPlane.start(force_embedded=True) as started:
        await started.install_crds([crd()])
        yield started


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client."""
    async with admin_client(plane) as client:
        yield client


def admin_client(plane: Plane) -> httpx.AsyncClient:
    """Return a client of the administrator."""
    context: ssl.SSLContext = plane.tls()
    headers = {**plane.admin_headers(), "User-Agent": "tests/1"}
    return httpx.AsyncClient(base_url=plane.url, verify=context, headers=headers, timeout=30)
