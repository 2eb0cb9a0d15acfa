"""The garbage collector deletes allocations of KKP and vitistack with their owners."""

from pathlib import Path

import pytest

from envtest import ControlPlane
from reconcilers.api import crd
from tests.contract.conftest import administrator
from tests.contract.kubermatic.lab import KubermaticLab, make_range_settings
from tests.contract.product import product
from tests.contract.vitistack.lab import VitistackLab

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.slow
async def test_allocations_are_collected_with_their_owners_and_their_addresses_are_free(
    tmp_path: Path,
) -> None:
    async with (
        ControlPlane.start(garbage_collector=True) as plane,
        administrator(plane) as admin,
    ):
        if "garbage" not in plane.controllers:
            pytest.skip("kube-controller-manager is not among the binaries")
        await plane.install_crds(crd.build_crds())
        for platform in ("kubermatic", "vitistack"):
            await plane.install_crds(DATA / platform / "crds.yaml")
        kubeconfig = plane.write_kubeconfig(tmp_path / "kubeconfig")
        with product("kubermatic", kubeconfig, tmp_path / "log", "--integration=vitistack"):
            await _check_kkp_allocations(KubermaticLab(admin, "t"))
            await _check_vitistack_allocations(VitistackLab(admin, "default"))


async def _check_kkp_allocations(lab: KubermaticLab) -> None:
    """Delete an IPAMPool with two allocations, and create it again with other addresses."""
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/29", 4))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    await lab.create_cluster("b")
    await lab.wait_for_ranges("b", "p", "10.0.0.4-10.0.0.7")
    await lab.delete(lab.build_pool_path("p"))
    for name in ("a", "b"):
        await lab.wait_until_gone(lab.build_allocation_path(name, "p"))
    await lab.create_pool("p", dc=make_range_settings("10.1.0.0/29", 4))
    await lab.wait_for_ranges("a", "p", "10.1.0.0-10.1.0.3")
    await lab.wait_for_ranges("b", "p", "10.1.0.4-10.1.0.7")


async def _check_vitistack_allocations(lab: VitistackLab) -> None:
    """Delete a NetworkConfiguration with two IPAllocations, one of them made by hand."""
    await lab.create_network()
    await lab.create_allocation("by-hand", interfaceName="eth1")
    await lab.create_configuration("vm", "eth0", "eth1")
    await lab.wait_until_configured("vm", "Ready")
    await lab.until(
        "IPAllocation", "by-hand", lambda allocation: "ownerReferences" in allocation["metadata"]
    )
    await lab.delete("NetworkConfiguration", "vm")
    for name in ("vm-eth0", "by-hand"):
        await lab.wait_until_gone("IPAllocation", name)
    summary = await lab.wait_for_summary(lambda counts: counts.get("allocatedCount") == 0)
    assert summary["availableCount"] == 253
