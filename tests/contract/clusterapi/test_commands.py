"""The output of `pools`, `whois` and `check` for pools of Cluster API, and repairs by `check`."""

import json
from pathlib import Path

import pytest

from tests.contract.clusterapi.lab import (
    ADDRESS_FINALIZER,
    ClusterApiLab,
    make_address_spec,
)
from tests.contract.product import Server
from tests.reconcilers.cli.commandline import run_in_thread

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_pools_whois_and_check_report_a_full_in_cluster_pool_and_its_claims(
    server: Server, lab: ClusterApiLab
) -> None:
    await lab.create_pool("p", "10.77.0.1")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.create_claim("b", "p")
    await lab.wait_for_reason("b", "PoolExhausted")
    await lab.wait_for_counts("p", total=1, used=1, free=0, out_of_range=0)
    options = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    pools = json.loads((await run_in_thread("pools", *options, "-o", "json")).out)
    pool = next(item for item in pools["items"] if item["kind"] == "InClusterIPPool")
    [family] = pool.pop("families")
    assert pool == {
        "kind": "InClusterIPPool",
        "namespace": lab.namespace,
        "name": "p",
        "ready": "True",
        "reason": "claims are served from this pool",
        "waiting": 1,
    }
    figures = {"total": 1, "allocated": 1, "available": 0, "outOfRange": 0}
    assert family.items() >= {"offers": "10.77.0.1", **figures}.items()
    answer = (await run_in_thread("whois", "10.77.0.1", *options)).out
    assert f"IPAddressClaim {lab.namespace}/a" in answer
    checked = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    kind = {finding["subject"]["name"]: finding["kind"] for finding in checked["findings"]}
    assert {name: kind[name] for name in ("a", "b", "p") if name in kind} == {"p": "RequestsWait"}


def write_repair_report(checked: str, kind: str, name: str, folder: Path) -> Path:
    """Write a report for `check --repair` that chooses the deletion of a finding's object.

    Args:
        checked: the output of `check -o json`.
        kind: of the finding.
        name: of the object of the finding.
        folder: for the report.
    """
    report = json.loads(checked)
    [finding] = [
        entry
        for entry in report["findings"]
        if (entry["kind"], entry["subject"]["name"]) == (kind, name)
    ]
    assert (finding["action"], finding["choices"]) == ("none", ["none", "delete"])
    finding["action"] = "delete"
    target = folder / "report.json"
    target.write_text(json.dumps(report))
    return target


async def test_a_repair_releases_an_ipaddress_without_a_claim(
    server: Server, lab: ClusterApiLab, tmp_path: Path
) -> None:
    """`clusterctl move` leaves such an IPAddress: it has the finalizer, and no claim exists."""
    await lab.create_pool("p", "10.78.0.1-10.78.0.2")
    spec = make_address_spec("gone", "p", "10.78.0.1")
    await lab.create("IPAddress", "gone", spec, finalizers=[ADDRESS_FINALIZER])
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.78.0.2"
    options = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    checked = await run_in_thread("check", *options, "-o", "json")
    report = write_repair_report(checked.out, "Unclaimed", name="gone", folder=tmp_path)
    repaired = await run_in_thread("check", *options, "--repair", str(report))
    assert repaired.code == 0, repaired.err
    assert await lab.find("IPAddress", "gone") is None
    await lab.wait_for_counts("p", total=2, used=1, free=1, out_of_range=0)


async def test_a_repair_refuses_a_report_about_an_ipaddress_that_changed_since(
    server: Server, lab: ClusterApiLab, tmp_path: Path
) -> None:
    await lab.create_pool("p", "10.79.0.1")
    spec = make_address_spec("gone", "p", "10.79.0.1")
    await lab.create("IPAddress", "gone", spec, finalizers=[ADDRESS_FINALIZER])
    options = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    await lab.wait_for_counts("p", total=1, used=1, free=0, out_of_range=0)
    checked = await run_in_thread("check", *options, "-o", "json")
    report = write_repair_report(checked.out, "Unclaimed", name="gone", folder=tmp_path)
    await lab.patch("IPAddress", "gone", {"metadata": {"annotations": {"note": "mine"}}})
    repaired = await run_in_thread("check", *options, "--repair", str(report))
    assert repaired.code == 1
    assert "changed since the report was made" in repaired.err
    assert await lab.find("IPAddress", "gone") is not None
    await lab.patch("IPAddress", "gone", {"metadata": {"finalizers": None}})


async def test_a_repair_deletes_the_younger_of_two_ipaddresses_with_one_address(
    server: Server, lab: ClusterApiLab, tmp_path: Path
) -> None:
    await lab.create_pool("p", "10.80.0.1-10.80.0.2")
    await lab.create("IPAddress", "by-hand", make_address_spec("by-hand", "p", "10.80.0.2"))
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.80.0.1"
    await lab.delete("IPAddress", "by-hand")
    await lab.create("IPAddress", "by-hand", make_address_spec("by-hand", "p", "10.80.0.1"))
    options = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    checked = await run_in_thread("check", *options, "-o", "json")
    assert checked.code == 1
    report = write_repair_report(checked.out, "Overlap", name="by-hand", folder=tmp_path)
    repaired = await run_in_thread("check", *options, "--repair", str(report))
    assert repaired.code == 0, repaired.err
    assert await lab.find("IPAddress", "by-hand") is None
    assert await lab.wait_until_served("a") == "10.80.0.1"
