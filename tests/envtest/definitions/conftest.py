"""A server without any kinds of its own."""

from collections.abc import AsyncIterator

import httpx
import pytest

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from tests.envtest.conftest import create_admin_client


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """The control plane that the environment asks for."""
    async with ControlPlane.start() as started:
        yield started


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client."""
    async with create_admin_client(plane) as client:
        yield client
