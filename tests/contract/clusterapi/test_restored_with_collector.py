"""Objects are restored from a backup while a garbage collector runs: claims keep addresses."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from envtest import ControlPlane
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import ADDRESS_FINALIZER, IPAM, ClusterApiLab
from tests.contract.clusterapi.test_restored import (
    check_keeps_address,
    make_owner_reference,
    restore_claim,
)
from tests.contract.conftest import administrator
from tests.contract.product import install_kinds, product

STALE_UID = "00000000-0000-4000-8000-00000000000"
"""A uid of the past, without its last digit."""
MACHINES = {"m1": 13, "m2": 10, "m3": 14, "m4": 12}
"""The last byte of the address of each machine, by the name of its claim."""


async def restore_address(lab: ClusterApiLab, name: str, last: int, pool_uid: str) -> None:
    """Create the IPAddress 10.0.0.LAST of a claim; the uid of its owning claim does not exist."""
    spec: dict[str, Any] = {
        "claimRef": {"name": name},
        "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "p"},
        "address": f"10.0.0.{last}",
        "prefix": 24,
    }
    owners = [
        make_owner_reference("IPAddressClaim", name, f"{STALE_UID}1"),
        make_owner_reference("InClusterIPPool", "p", uid=pool_uid, version="v1alpha2"),
    ]
    finalizers = [ADDRESS_FINALIZER]
    await lab.create("IPAddress", name, spec, finalizers=finalizers, ownerReferences=owners)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("controller", "pool_owner", "first"),
    [
        ("running", "stale", "claims"),
        ("running", "live", "addresses"),
        ("stopped", "stale", "addresses"),
        ("stopped", "live", "claims"),
    ],
)
async def test_each_restored_claim_keeps_its_address_beside_a_garbage_collector(
    tmp_path: Path, controller: str, pool_owner: str, first: str
) -> None:
    with ExitStack() as processes:
        async with (
            ControlPlane.start(garbage_collector=True) as plane,
            administrator(plane) as admin,
        ):
            if "garbage" not in plane.controllers:
                pytest.skip("kube-controller-manager is not among the binaries")
            await install_kinds(plane, "clusterapi", crds.build_pool_crds())
            kubeconfig = plane.write_kubeconfig(tmp_path / "kubeconfig")
            lab = ClusterApiLab(admin, "default")
            if controller == "running":
                processes.enter_context(product("clusterapi", kubeconfig, tmp_path / "log"))
                await lab.wait_until_settled()
            pool = await lab.create_pool("p", "10.0.0.10-10.0.0.14")
            uid = pool["metadata"]["uid"] if pool_owner == "live" else f"{STALE_UID}2"
            if first == "claims":
                for name in MACHINES:
                    await restore_claim(lab, name)
                if controller == "running":
                    await lab.wait_until_settled()
            for name, last in MACHINES.items():
                await restore_address(lab, name, last=last, pool_uid=uid)
            if first == "addresses":
                for name in MACHINES:
                    await restore_claim(lab, name)
            if controller == "stopped":
                await _wait_for_collector(lab)
                processes.enter_context(product("clusterapi", kubeconfig, tmp_path / "log"))
            for name, last in MACHINES.items():
                await check_keeps_address(lab, name, last)
            await lab.wait_for_counts("p", total=5, used=4, free=1, out_of_range=0)
            processes.close()


async def _wait_for_collector(lab: ClusterApiLab) -> None:
    """Wait until the garbage collector has deleted IPAddresses or removed stale owners."""

    def is_collected(address: dict[str, Any]) -> bool:
        metadata = address["metadata"]
        uids = [owner["uid"] for owner in metadata.get("ownerReferences", ())]
        return "deletionTimestamp" in metadata or f"{STALE_UID}1" not in uids

    for name in MACHINES:
        await lab.until("IPAddress", name, is_collected)
