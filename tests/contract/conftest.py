"""The control plane that the environment asks for, for cases that must hold on every one."""

from collections.abc import AsyncIterator

import httpx
import pytest

from envtest import ControlPlane
from envtest.plane import ControlPlane as Plane


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """A control plane of its own for every test: embedded, or real binaries."""
    async with ControlPlane.start() as started:
        yield started


@pytest.fixture
async def admin(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client."""
    async with httpx.AsyncClient(
        base_url=plane.url, verify=plane.tls(), headers=plane.admin_headers(), timeout=30
    ) as client:
        yield client
