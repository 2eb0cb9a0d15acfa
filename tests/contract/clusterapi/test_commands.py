"""What the commands that ask about a cluster say of pools of claims, on a server."""

import json
from pathlib import Path

import pytest

from tests.contract.clusterapi.lab import ADDRESS_FINALIZER, Lab
from tests.contract.clusterapi.test_release import by_hand
from tests.contract.product import Server
from tests.reconcilers.cli.commandline import run_beside

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_pools_and_addresses_of_claims_are_found_on_a_server(
    server: Server, lab: Lab
) -> None:
    await lab.pool("p", "10.77.0.1")
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.claim("b", "p")
    await lab.says("b", "PoolExhausted")
    await lab.counts("p", (1, 1, 0, 0))
    asked = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    pools = json.loads((await run_beside("pools", *asked, "-o", "json")).out)
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
    answer = (await run_beside("whois", "10.77.0.1", *asked)).out
    assert f"IPAddressClaim {lab.namespace}/a" in answer
    checked = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    kind = {finding["subject"]["name"]: finding["kind"] for finding in checked["findings"]}
    assert {name: kind[name] for name in ("a", "b", "p") if name in kind} == {"p": "RequestsWait"}


def deleting(address_name: str, kind: str, name: str, folder: Path) -> Path:
    """Write a report in which a person chose to delete the object of the one such finding."""
    report = json.loads(address_name)
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


async def test_an_address_without_a_claim_is_released_when_a_person_wants_it(
    server: Server, lab: Lab, tmp_path: Path
) -> None:
    """As `clusterctl move` leaves it: with the finalizer, and no claim that would take it off."""
    await lab.pool("p", "10.78.0.1-10.78.0.2")
    spec = by_hand("gone", "p", "10.78.0.1")
    await lab.create("IPAddress", "gone", spec, finalizers=[ADDRESS_FINALIZER])
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "10.78.0.2"
    asked = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    checked = await run_beside("check", *asked, "-o", "json")
    report = deleting(checked.out, "Unclaimed", name="gone", folder=tmp_path)
    done = await run_beside("check", *asked, "--repair", str(report))
    assert done.code == 0, done.err
    assert await lab.find("IPAddress", "gone") is None
    await lab.counts("p", (2, 1, 1, 0))


async def test_a_report_about_an_address_that_changed_since_is_not_carried_out(
    server: Server, lab: Lab, tmp_path: Path
) -> None:
    await lab.pool("p", "10.79.0.1")
    spec = by_hand("gone", "p", "10.79.0.1")
    await lab.create("IPAddress", "gone", spec, finalizers=[ADDRESS_FINALIZER])
    asked = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    await lab.counts("p", (1, 1, 0, 0))
    checked = await run_beside("check", *asked, "-o", "json")
    report = deleting(checked.out, "Unclaimed", name="gone", folder=tmp_path)
    await lab.patch("IPAddress", "gone", {"metadata": {"annotations": {"note": "mine"}}})
    done = await run_beside("check", *asked, "--repair", str(report))
    assert done.code == 1
    assert "changed since the report was made" in done.err
    assert await lab.find("IPAddress", "gone") is not None
    await lab.patch("IPAddress", "gone", {"metadata": {"finalizers": None}})


async def test_the_younger_of_two_holders_of_an_address_is_removed_when_a_person_wants_it(
    server: Server, lab: Lab, tmp_path: Path
) -> None:
    await lab.pool("p", "10.80.0.1-10.80.0.2")
    await lab.create("IPAddress", "by-hand", by_hand("by-hand", "p", "10.80.0.2"))
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "10.80.0.1"
    await lab.delete("IPAddress", "by-hand")
    await lab.create("IPAddress", "by-hand", by_hand("by-hand", "p", "10.80.0.1"))
    asked = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    checked = await run_beside("check", *asked, "-o", "json")
    assert checked.code == 1
    report = deleting(checked.out, "Overlap", name="by-hand", folder=tmp_path)
    done = await run_beside("check", *asked, "--repair", str(report))
    assert done.code == 0, done.err
    assert await lab.find("IPAddress", "by-hand") is None
    assert await lab.wait_until_served("a") == "10.80.0.1"
