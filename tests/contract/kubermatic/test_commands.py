"""What the commands that ask about a cluster say of KKP's pools, on a server."""

import json
from pathlib import Path

import pytest

from tests.contract.kubermatic.lab import Lab, ranges
from tests.contract.product import Server
from tests.reconcilers.cli.commandline import run_beside

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_pools_and_addresses_of_kkp_are_found_on_a_server(server: Server, lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.78.0.0/31", 2))
    await lab.cluster("a")
    await lab.has("a", "p", "10.78.0.0-10.78.0.1")
    await lab.cluster("b")
    await lab.says("b", "False", "PoolExhausted")
    asked = (f"--kubeconfig={server.admin_kubeconfig}",)
    pools = json.loads((await run_beside("pools", *asked, "-o", "json")).out)
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
    answer = (await run_beside("whois", "10.78.0.1", *asked)).out
    assert f"IPAMAllocation {lab.namespace('a')}/{lab.name('p')}" in answer
    checked = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    kinds = [
        finding["kind"]
        for finding in checked["findings"]
        if finding["subject"]["name"] == lab.name("p")
    ]
    assert kinds == ["RequestsWait"]


async def test_a_pool_without_datacenters_is_reported_by_event_and_check(
    server: Server, lab: Lab
) -> None:
    await lab.pool("empty")
    await lab.until_event(
        "IPAMPool", "empty", reason="InvalidPool", content="datacenters is empty"
    )
    asked = (f"--kubeconfig={server.admin_kubeconfig}",)
    checked = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    (finding,) = [
        finding
        for finding in checked["findings"]
        if finding["subject"]["name"] == lab.name("empty")
    ]
    assert (finding["kind"], finding["severity"]) == ("InvalidPool", "error")
    assert "add one or delete the pool" in finding["sentence"]


async def test_what_a_person_reviewed_is_deleted_and_made_anew(
    server: Server, lab: Lab, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        await lab.cluster(name)
        await lab.allocate(name, "p", type="range", addresses=["10.77.0.0-10.77.0.3"])
    await lab.pool("p", dc=ranges("10.77.0.0/24", 4))
    for name in ("a", "b"):
        # The integration makes the pool their owner; a report of before is out of date by it.
        path = lab.allocation(name, "p")
        await lab.until(path, lambda path: "ownerReferences" in path["metadata"])
    asked = (f"--kubeconfig={server.admin_kubeconfig}",)
    report = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    for finding in report["findings"]:
        if finding["kind"] == "Overlap" and finding["subject"]["namespace"] == lab.namespace("b"):
            finding["action"] = "delete"
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    done = await run_beside("check", *asked, "--repair", str(file))
    assert done.code == 0, done.err
    await lab.has("b", "p", "10.77.0.4-10.77.0.7")
    await lab.has("a", "p", "10.77.0.0-10.77.0.3")
