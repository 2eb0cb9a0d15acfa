"""The output of `pools`, `whois` and `check` for KKP's pools, and a repair."""

import json
from pathlib import Path

import pytest

from tests.contract.kubermatic.lab import KubermaticLab, make_range_settings
from tests.contract.product import Server
from tests.reconcilers.cli.commandline import run_in_thread

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_pools_whois_and_check_report_a_full_ipampool_and_its_allocation(
    server: Server, lab: KubermaticLab
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.78.0.0/31", 2))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.78.0.0-10.78.0.1")
    await lab.create_cluster("b")
    await lab.wait_for_condition("b", "False", "PoolExhausted")
    options = (f"--kubeconfig={server.admin_kubeconfig}",)
    pools = json.loads((await run_in_thread("pools", *options, "-o", "json")).out)
    [pool] = [item for item in pools["items"] if item["name"] == lab.name("p")]
    [family] = pool.pop("families")
    assert pool == {
        "kind": "IPAMPool",
        "namespace": "",
        "name": lab.name("p"),
        "part": lab.name("dc"),
        "ready": "True",
        "reason": "",
        "waiting": 1,
    }
    figures = {"total": 2, "allocated": 2, "available": 0, "outOfRange": 0}
    assert family.items() >= {"offers": "10.78.0.0/31, 2 addresses each", **figures}.items()
    answer = (await run_in_thread("whois", "10.78.0.1", *options)).out
    assert f"IPAMAllocation {lab.namespace('a')}/{lab.name('p')}" in answer
    checked = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    kinds = [
        finding["kind"]
        for finding in checked["findings"]
        if finding["subject"]["name"] == lab.name("p")
    ]
    assert kinds == ["RequestsWait"]


async def test_a_pool_without_datacenters_is_reported_by_event_and_check(
    server: Server, lab: KubermaticLab
) -> None:
    await lab.create_pool("empty")
    await lab.wait_for_event(
        "IPAMPool", "empty", reason="InvalidPool", content="datacenters is empty"
    )
    options = (f"--kubeconfig={server.admin_kubeconfig}",)
    checked = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    (finding,) = [
        finding
        for finding in checked["findings"]
        if finding["subject"]["name"] == lab.name("empty")
    ]
    assert (finding["kind"], finding["severity"]) == ("InvalidPool", "error")
    assert "add one or delete the pool" in finding["sentence"]


async def test_a_repair_deletes_one_of_two_overlapping_allocations_which_is_recreated_elsewhere(
    server: Server, lab: KubermaticLab, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        await lab.create_cluster(name)
        await lab.create_allocation(name, "p", type="range", addresses=["10.77.0.0-10.77.0.3"])
    await lab.create_pool("p", dc=make_range_settings("10.77.0.0/24", 4))
    for name in ("a", "b"):
        # The integration writes an owner into them; a report from before would be out of date.
        path = lab.build_allocation_path(name, "p")
        await lab.until(path, lambda body: "ownerReferences" in body["metadata"])
    options = (f"--kubeconfig={server.admin_kubeconfig}",)
    report = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    for finding in report["findings"]:
        if finding["kind"] == "Overlap" and finding["subject"]["namespace"] == lab.namespace("b"):
            finding["action"] = "delete"
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    repaired = await run_in_thread("check", *options, "--repair", str(file))
    assert repaired.code == 0, repaired.err
    await lab.wait_for_ranges("b", "p", "10.77.0.4-10.77.0.7")
    await lab.wait_for_ranges("a", "p", "10.77.0.0-10.77.0.3")
