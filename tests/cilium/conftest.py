"""What these tests need of the machine; without it they are skipped and say so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envtest.settings import read_settings
from tests.cilium.operators import find_newest, find_oldest
from tests.cilium.site import RealSite, real_site

COMMANDS = {
    "newest": "make real",
    "oldest": "python3 tests/realservers/build.py oldest/cilium-operator",
}
"""By the version of Cilium: what builds its operator."""


def require_operator(version: str) -> Path:
    """Return the operator of the newest or the oldest Cilium; skip the test without it."""
    if read_settings().kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    program = find_newest() if version == "newest" else find_oldest()
    if program is None:
        command = COMMANDS[version]
        pytest.skip(f"no {version} Cilium beside KUBEBUILDER_ASSETS: `{command}` builds it")
    return program


@pytest.fixture(params=[*COMMANDS])
def program(request: pytest.FixtureRequest) -> Path:
    """Return the operator of the newest or the oldest Cilium."""
    return require_operator(request.param)


@pytest.fixture
async def site(program: Path, tmp_path: Path) -> AsyncIterator[RealSite]:
    """Return a tenant with the real LB-IPAM of the newest or the oldest Cilium."""
    async with real_site(tmp_path, program) as opened_site:
        yield opened_site
