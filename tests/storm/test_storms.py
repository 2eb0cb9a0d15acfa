"""Each process is killed or frozen while people use three tenants; no address is held twice."""

from pathlib import Path

import pytest

from envtest.settings import read_settings
from tests.numbers import Note
from tests.storm.balancers import CiliumInTenants, MetalLBInTenants, TenantBalancer
from tests.storm.story import StormPlan, play_storm

pytestmark = pytest.mark.slow
STORMS = {"metallb": StormPlan(seed=2), "cilium": StormPlan(seed=42, tenants=1)}


def make_balancer(name: str) -> TenantBalancer:
    """Return a load balancer; skip the test where its program was not built."""
    settings = read_settings()
    if settings.kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    if name == "metallb":
        if settings.metallb is None:
            pytest.skip("KUBEBUILDER_ASSETS has no metallb-controller: `make real` builds it")
        return MetalLBInTenants()
    if settings.lbipam is None:
        pytest.skip("KUBEBUILDER_ASSETS has no cilium-lbipam: `make real` builds it")
    return CiliumInTenants(settings.lbipam)


@pytest.mark.parametrize("name", STORMS)
async def test_no_address_is_shown_or_held_twice_while_every_process_is_struck(
    name: str, tmp_path: Path, record_property: Note
) -> None:
    report = await play_storm(make_balancer(name), tmp_path, STORMS[name])
    assert report.findings == [], "\n".join([*report.faults, *report.findings])
    assert report.action_count > 0
    record_property(
        "storm", f"{len(report.faults)} faults, {report.action_count} actions; {report.summary}"
    )
