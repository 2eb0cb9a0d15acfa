"""The output of `pools`, `whois`, `map`, `check` and `status` for IPPools, and a repair."""

import json
from pathlib import Path

import pytest

from tests.contract.metal3.lab import CLAIM_KINDS, FINALIZERS, PAUSED, Metal3Lab, get_address_name
from tests.contract.metal3.test_adoption import make_address_status
from tests.contract.metal3.webhooks import without_webhooks
from tests.contract.product import Server
from tests.reconcilers.cli.commandline import run_in_thread

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_pools_whois_and_map_show_claims_of_both_kinds(
    lab: Metal3Lab, server: Server
) -> None:
    await lab.create_pool(
        "p",
        {"start": "10.0.0.1", "end": "10.0.0.3"},
        gateway="10.0.0.1",
        preAllocations={"b": "10.0.0.3"},
    )
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.2"
    await lab.create_claim("b", "p", "IPAddressClaim")
    assert await lab.wait_until_served("b", "IPAddressClaim") == "10.0.0.3"
    await lab.create_claim("c", "p")
    await lab.wait_until_refused("c", "Exhausted IP Pools")
    await lab.create_claim("paused", "p", annotations=PAUSED)
    options = (f"--kubeconfig={server.kubeconfig}", "-n", lab.namespace)
    pools = json.loads((await run_in_thread("pools", *options, "-o", "json")).out)
    [pool] = [item for item in pools["items"] if item["namespace"] == lab.namespace]
    head = ("kind", "name", "waiting", "ready")
    assert [pool[name] for name in head] == ["IPPool", "p", 1, "True"]
    figures = ("offers", "total", "allocated", "available", "outOfRange")
    assert [[family[name] for name in figures] for family in pool["families"]] == [
        ["10.0.0.1-10.0.0.3", 2, 2, 0, 0]
    ]
    answer = (await run_in_thread("whois", "10.0.0.3", *options)).out
    assert f"IPAddressClaim {lab.namespace}/b" in answer
    answer = (await run_in_thread("map", "p", *options)).out
    assert f"IPClaim {lab.namespace}/a" in answer or "a" in answer
    checked = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    kinds = {finding["kind"] for finding in checked["findings"]}
    assert "OutOfRange" not in kinds
    assert "RequestsWait" in kinds


@without_webhooks
async def test_check_reports_claims_that_name_one_ipaddress(
    lab: Metal3Lab, server: Server
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.8"})
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.create_claim("b", "elsewhere", finalizers=[FINALIZERS["IPClaim"]])
    other = {"name": "p-10-0-0-1", "namespace": lab.namespace}
    await lab.patch("IPClaim", "b", patch={"status": {"address": other}}, subresource="status")
    await lab.patch("IPClaim", "b", {"spec": {"pool": {"name": "p"}}})
    options = (f"--kubeconfig={server.kubeconfig}", "-n", lab.namespace)
    checked = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    claims = {(finding["kind"], finding["subject"]["name"]) for finding in checked["findings"]}
    assert ("Overlap", "b") in claims


async def test_status_reports_the_claims_that_wait_for_a_full_pool(
    lab: Metal3Lab, server: Server
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.1"})
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.create_claim("b", "p")
    await lab.wait_until_refused("b", "Exhausted IP Pools")
    options = (f"--kubeconfig={server.kubeconfig}", "-n", lab.namespace, "-o", "json")
    answer = json.loads((await run_in_thread("status", *options)).out)
    waiting = [finding for finding in answer["findings"] if finding["kind"] == "RequestsWait"]
    assert [finding["subject"]["name"] for finding in waiting] == ["p"]


@pytest.mark.parametrize("kind", CLAIM_KINDS)
async def test_a_repair_deletes_the_chosen_claim_of_two_with_one_address(
    lab: Metal3Lab, server: Server, tmp_path: Path, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.8"})
    await lab.create_claim("a", "p", kind)
    await lab.wait_until_served("a", kind)
    await lab.create_claim("b", "p", kind, finalizers=[FINALIZERS[kind]], annotations=PAUSED)
    await lab.patch(
        kind, "b", patch=make_address_status(lab, kind, "p-10-0-0-1"), subresource="status"
    )
    unpaused = {"cluster.x-k8s.io/paused": None}
    await lab.patch(kind, "b", {"metadata": {"annotations": unpaused}})
    options = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    report = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    overlaps = [
        {**finding, "action": "delete"}
        for finding in report["findings"]
        if (finding["kind"], finding["subject"]["name"]) == ("Overlap", "b")
    ]
    assert overlaps
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**report, "findings": overlaps[:1]}))
    repaired = await run_in_thread("check", *options, "--repair", str(file))
    assert repaired.code == 0, repaired.err
    await lab.wait_until_gone(kind, "b")
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    claim = await lab.find(kind, "a")
    assert claim is not None
    assert get_address_name(claim) == "p-10-0-0-1"
