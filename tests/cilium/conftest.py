"""What these tests need of the machine; without it they are skipped and say so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envtest.settings import read_settings
from tests.cilium.operators import find_newest, find_oldest
from tests.cilium.site import RealSite, real_site

NEWEST, OLDEST = "newest", "oldest"
BY_HAND = pytest.mark.by_hand
on_both = pytest.mark.parametrize("program", [NEWEST, OLDEST], indirect=True)
"""`make test-real` plays such a test on both versions of Cilium, not on the newest alone."""
on_the_oldest = pytest.mark.parametrize(
    "program", [pytest.param(NEWEST, marks=BY_HAND), OLDEST], indirect=True
)
"""`make test-real` plays such a test on the oldest version of Cilium, not on the newest."""
from_the_oldest = pytest.mark.parametrize("before", [pytest.param(NEWEST, marks=BY_HAND), OLDEST])
"""`make test-real` has such a test replace the oldest operator by the newest one."""


def require_operator(version: str) -> Path:
    """Return the operator of the newest or the oldest Cilium; skip the test without it."""
    if read_settings().kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    program = find_newest() if version == NEWEST else find_oldest()
    if program is None:
        pytest.skip(f"no {version} Cilium beside KUBEBUILDER_ASSETS: `make real` builds it")
    return program


@pytest.fixture(params=[NEWEST, pytest.param(OLDEST, marks=BY_HAND)])
def program(request: pytest.FixtureRequest) -> Path:
    """Return the operator of the newest or the oldest Cilium."""
    return require_operator(request.param)


@pytest.fixture
async def site(program: Path, tmp_path: Path) -> AsyncIterator[RealSite]:
    """Return a tenant with the real LB-IPAM of the newest or the oldest Cilium."""
    async with real_site(tmp_path, program) as opened_site:
        yield opened_site
