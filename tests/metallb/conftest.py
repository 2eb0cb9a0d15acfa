"""What these tests need of the machine; without it they are skipped and say so."""

import pytest

from envtest.metallb import read_metallb_definitions
from envtest.settings import read_settings


@pytest.fixture
def real_programs() -> None:
    """Skip where the environment names no real API server, or no MetalLB."""
    settings = read_settings()
    if settings.kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    if settings.metallb is None:
        pytest.skip("KUBEBUILDER_ASSETS has no metallb-controller: `make real` builds it")


@pytest.fixture
def counting_metallb() -> None:
    """Skip where MetalLB does not show what it has read."""
    kinds = {
        definition["spec"]["names"]["plural"]
        for definition in read_metallb_definitions(read_settings())
    }
    if "servicebgpstatuses" not in kinds:
        pytest.skip("this MetalLB is older than 0.15: it does not show what it has read")
