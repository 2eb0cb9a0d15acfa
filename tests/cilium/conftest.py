"""What these tests need of the machine; without it they are skipped and say so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envtest.settings import read_settings
from tests.cilium.site import RealSite, find_program, real_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    """Return a tenant with the real LB-IPAM; skip where there is none."""
    if read_settings().kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    program = find_program()
    if program is None:
        pytest.skip("KUBEBUILDER_ASSETS has no cilium-lbipam: `make real` builds it")
    async with real_site(tmp_path, program) as found:
        yield found
