"""A backup is created again while a garbage collector runs: no machine gets another address."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from envtest import ControlPlane
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import ADDRESS_FINALIZER, IPAM, Lab
from tests.contract.clusterapi.test_restored import check_recreated, owner, restored_claim
from tests.contract.conftest import administrator
from tests.contract.product import install_kinds, product

STALE = "00000000-0000-4000-8000-00000000000"
MACHINES = {"m1": 13, "m2": 10, "m3": 14, "m4": 12}


async def restored_address(lab: Lab, name: str, last: int, pool_uid: str) -> None:
    """Create an IPAddress whose claim of before does not exist any more."""
    spec: dict[str, Any] = {
        "claimRef": {"name": name},
        "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "p"},
        "address": f"10.0.0.{last}",
        "prefix": 24,
    }
    owners = [
        owner("IPAddressClaim", name, f"{STALE}1"),
        owner("InClusterIPPool", "p", uid=pool_uid, version="v1alpha2"),
    ]
    finalizers = [ADDRESS_FINALIZER]
    await lab.create("IPAddress", name, spec, finalizers=finalizers, ownerReferences=owners)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("controller", "pool_owner", "first"),
    [
        ("running", "of before", "claims"),
        ("running", "of now", "addresses"),
        ("stopped", "of before", "addresses"),
        ("stopped", "of now", "claims"),
    ],
)
async def test_every_machine_keeps_its_address(
    tmp_path: Path, controller: str, pool_owner: str, first: str
) -> None:
    with ExitStack() as processes:
        async with (
            ControlPlane.start(garbage_collector=True) as plane,
            administrator(plane) as admin,
        ):
            if "garbage" not in plane.controllers:
                pytest.skip("kube-controller-manager is not among the binaries")
            await install_kinds(plane, "clusterapi", crds.crds())
            kubeconfig = plane.write_kubeconfig(tmp_path / "kubeconfig")
            lab = Lab(admin, "default")
            if controller == "running":
                processes.enter_context(product("clusterapi", kubeconfig, tmp_path / "log"))
                await lab.wait_until_settled()
            pool = await lab.pool("p", "10.0.0.10-10.0.0.14")
            uid = pool["metadata"]["uid"] if pool_owner == "of now" else f"{STALE}2"
            if first == "claims":
                for name in MACHINES:
                    await restored_claim(lab, name)
                if controller == "running":
                    await lab.wait_until_settled()
            for name, last in MACHINES.items():
                await restored_address(lab, name, last=last, pool_uid=uid)
            if first == "addresses":
                for name in MACHINES:
                    await restored_claim(lab, name)
            if controller == "stopped":
                await _wait_for_collector(lab)
                processes.enter_context(product("clusterapi", kubeconfig, tmp_path / "log"))
            for name, last in MACHINES.items():
                await check_recreated(lab, name, last)
            await lab.counts("p", (5, 4, 1, 0))
            processes.close()


async def _wait_for_collector(lab: Lab) -> None:
    """Wait until the garbage collector has looked at the restored IPAddresses."""

    def is_collected(address: dict[str, Any]) -> bool:
        metadata = address["metadata"]
        uids = [owner["uid"] for owner in metadata.get("ownerReferences", ())]
        return "deletionTimestamp" in metadata or f"{STALE}1" not in uids

    for name in MACHINES:
        await lab.until("IPAddress", name, is_collected)
