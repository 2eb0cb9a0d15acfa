"""The output of `pools`, `whois` and `check` for vitistack's networks, and a repair."""

import json
from pathlib import Path

import pytest

from tests.contract.product import Server
from tests.contract.vitistack.lab import VitistackLab
from tests.reconcilers.cli.commandline import run_in_thread

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_pools_whois_and_check_report_a_full_network_and_its_allocations(
    server: Server, lab: VitistackLab
) -> None:
    await lab.create_network(ipv4RangeStart="10.0.2.7", ipv4RangeEnd="10.0.2.7")
    await lab.create_allocation("a")
    await lab.wait_for_phase("a", "Allocated")
    await lab.create_allocation("b")
    await lab.wait_for_phase("b", "Error")
    options = (f"--kubeconfig={server.kubeconfig}", "-n", lab.namespace)
    pools = json.loads((await run_in_thread("pools", *options, "-o", "json")).out)
    [pool] = [item for item in pools["items"] if item["namespace"] == lab.namespace]
    head = ("kind", "name", "waiting", "ready")
    assert [pool[name] for name in head] == ["NetworkNamespace", "net", 1, "True"]
    figures = ("offers", "total", "allocated", "available", "outOfRange")
    assert [[family[name] for name in figures] for family in pool["families"]] == [
        ["10.0.2.7-10.0.2.7", 1, 1, 0, 0]
    ]
    answer = (await run_in_thread("whois", "10.0.2.7", *options)).out
    assert f"ipallocations.vitistack.io {lab.namespace}/a" in answer
    checked = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    findings = {(finding["kind"], finding["subject"]["name"]) for finding in checked["findings"]}
    # Networks of other tests, in other namespaces of this server, have the same addresses.
    overlaps = {("PoolsOverlap", "net")}
    assert {finding for finding in findings if finding[1] in {"a", "b", "net"}} - overlaps == {
        ("Unclaimed", "a"),
        ("Unclaimed", "b"),
        ("RequestsWait", "net"),
    }


async def test_a_repair_deletes_an_unclaimed_allocation_and_its_address_is_free(
    server: Server, lab: VitistackLab, tmp_path: Path
) -> None:
    await lab.create_network(ipv4RangeStart="10.0.2.7", ipv4RangeEnd="10.0.2.7")
    await lab.create_allocation("unclaimed")
    await lab.wait_for_phase("unclaimed", "Allocated")
    # The integration writes labels into it last; a report from before would be out of date.
    await lab.until(
        "IPAllocation", "unclaimed", lambda allocation: bool(allocation["metadata"].get("labels"))
    )
    options = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    report = json.loads((await run_in_thread("check", *options, "-o", "json")).out)
    [finding] = [entry for entry in report["findings"] if entry["subject"]["name"] == "unclaimed"]
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**report, "findings": [{**finding, "action": "delete"}]}))
    repaired = await run_in_thread("check", *options, "--repair", str(file))
    assert repaired.code == 0, repaired.err
    await lab.wait_until_gone("IPAllocation", "unclaimed")
    await lab.create_allocation("next")
    await lab.wait_for_address("next", "10.0.2.7")
