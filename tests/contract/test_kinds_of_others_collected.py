"""What goes with its owner, of kinds of other platforms, where objects are garbage-collected."""

from pathlib import Path

import pytest

from envtest import ControlPlane
from reconcilers.api import crd
from tests.contract.conftest import administrator
from tests.contract.kubermatic.lab import Lab as KubermaticLab
from tests.contract.kubermatic.lab import ranges
from tests.contract.product import product
from tests.contract.vitistack.lab import Lab as VitistackLab

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.slow
async def test_allocations_go_with_their_owners_and_their_addresses_are_free(
    tmp_path: Path,
) -> None:
    async with (
        ControlPlane.start(garbage_collector=True) as plane,
        administrator(plane) as admin,
    ):
        if "garbage" not in plane.controllers:
            pytest.skip("kube-controller-manager is not among the binaries")
        await plane.install_crds(crd.crds())
        for platform in ("kubermatic", "vitistack"):
            await plane.install_crds(DATA / platform / "crds.yaml")
        kubeconfig = plane.write_kubeconfig(tmp_path / "kubeconfig")
        with product("kubermatic", kubeconfig, tmp_path / "log", "--integration=vitistack"):
            await _pools_of_kkp(KubermaticLab(admin, "t"))
            await _configurations_of_vitistack(VitistackLab(admin, "default"))


async def _pools_of_kkp(lab: KubermaticLab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/29", 4))
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    await lab.cluster("b")
    await lab.has("b", "p", "10.0.0.4-10.0.0.7")
    await lab.delete(lab.pools("p"))
    for name in ("a", "b"):
        await lab.wait_until_gone(lab.allocation(name, "p"))
    await lab.pool("p", dc=ranges("10.1.0.0/29", 4))
    await lab.has("a", "p", "10.1.0.0-10.1.0.3")
    await lab.has("b", "p", "10.1.0.4-10.1.0.7")


async def _configurations_of_vitistack(lab: VitistackLab) -> None:
    await lab.network()
    await lab.ask("by-hand", interfaceName="eth1")
    await lab.configuration("vm", "eth0", "eth1")
    await lab.wait_until_configured("vm", "Ready")
    await lab.until(
        "IPAllocation", "by-hand", lambda allocation: "ownerReferences" in allocation["metadata"]
    )
    await lab.delete("NetworkConfiguration", "vm")
    for name in ("vm-eth0", "by-hand"):
        await lab.wait_until_gone("IPAllocation", name)
    summary = await lab.summary(lambda shown_summary: shown_summary.get("allocatedCount") == 0)
    assert summary["availableCount"] == 253
