"""What these tests need of the machine; without it they are skipped and say so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envtest.settings import read_settings
from tests.cilium.site import RealSite, find_newest, find_oldest, real_site


@pytest.fixture(params=["newest", "oldest"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RealSite]:
    """Return a tenant with the real LB-IPAM of the newest or the oldest Cilium; else skip."""
    if read_settings().kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    program = find_newest() if request.param == "newest" else find_oldest()
    if program is None:
        command = "make real"
        if request.param == "oldest":
            command = "python3 tests/realservers/build.py oldest/cilium-operator"
        pytest.skip(f"no {request.param} Cilium beside KUBEBUILDER_ASSETS: `{command}` builds it")
    async with real_site(tmp_path, program) as found:
        yield found
