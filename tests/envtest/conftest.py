"""Control planes for tests: the embedded one, or the one that the environment asks for."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from tests.envtest.assets import Assets
from tests.envtest.samples import build_gauge_definition

_VARIABLES = (
    "KUBEBUILDER_ASSETS",
    "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT",
    "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT",
    "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT",
    "TEST_ASSET_ETCD",
    "TEST_ASSET_KUBE_APISERVER",
    "TEST_ASSET_KUBE_CONTROLLER_MANAGER",
    "TEST_ASSET_METALLB_CONTROLLER",
    "TEST_ASSET_CILIUM_LBIPAM",
    "USE_EXISTING_CLUSTER",
)


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Assets:
    """Stand-ins that the environment names, and a folder of their own for temporary files."""
    for variable in _VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    asset_folder = Assets(tmp_path / "assets")
    asset_folder.folder.mkdir()
    asset_folder.add("etcd")
    asset_folder.add("kube-apiserver")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(asset_folder.folder))
    return asset_folder


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """An embedded control plane that serves gauges."""
    async with ControlPlane.start(force_embedded=True) as started:
        await started.install_crds([build_gauge_definition()])
        yield started


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client."""
    async with create_admin_client(plane) as client:
        yield client


def create_admin_client(plane: Plane) -> httpx.AsyncClient:
    """Return a client of the administrator."""
    context: ssl.SSLContext = plane.create_admin_tls()
    headers = {**plane.build_admin_headers(), "User-Agent": "tests/1"}
    return httpx.AsyncClient(base_url=plane.url, verify=context, headers=headers, timeout=30)
