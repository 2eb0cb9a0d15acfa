"""What the commands that ask about a cluster say of vitistack's networks, on a server."""

import json
from pathlib import Path

import pytest

from tests.contract.product import Server
from tests.contract.vitistack.lab import Lab
from tests.reconcilers.cli.commandline import run_beside

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_networks_and_their_addresses_are_found_on_a_server(
    server: Server, lab: Lab
) -> None:
    await lab.network(ipv4RangeStart="10.0.2.7", ipv4RangeEnd="10.0.2.7")
    await lab.ask("a")
    await lab.shows("a", "Allocated")
    await lab.ask("b")
    await lab.shows("b", "Error")
    asked = (f"--kubeconfig={server.kubeconfig}", "-n", lab.namespace)
    pools = json.loads((await run_beside("pools", *asked, "-o", "json")).out)
    [pool] = [item for item in pools["items"] if item["namespace"] == lab.namespace]
    head = ("kind", "name", "waiting", "ready")
    assert [pool[name] for name in head] == ["NetworkNamespace", "net", 1, "True"]
    figures = ("offers", "total", "allocated", "available", "outOfRange")
    assert [[family[name] for name in figures] for family in pool["families"]] == [
        ["10.0.2.7-10.0.2.7", 1, 1, 0, 0]
    ]
    answer = (await run_beside("whois", "10.0.2.7", *asked)).out
    assert f"ipallocations.vitistack.io {lab.namespace}/a" in answer
    checked = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    findings = {(finding["kind"], finding["subject"]["name"]) for finding in checked["findings"]}
    # The networks of other tests, in other namespaces of this server, have the same addresses.
    others = {("PoolsOverlap", "net")}
    assert {finding for finding in findings if finding[1] in {"a", "b", "net"}} - others == {
        ("Unclaimed", "a"),
        ("Unclaimed", "b"),
        ("RequestsWait", "net"),
    }


async def test_what_a_person_reviewed_is_deleted_and_free(
    server: Server, lab: Lab, tmp_path: Path
) -> None:
    await lab.network(ipv4RangeStart="10.0.2.7", ipv4RangeEnd="10.0.2.7")
    await lab.ask("unclaimed")
    await lab.shows("unclaimed", "Allocated")
    # The integration labels what others made, last; a report of before is out of date by it.
    await lab.until(
        "IPAllocation", "unclaimed", lambda allocation: bool(allocation["metadata"].get("labels"))
    )
    asked = (f"--kubeconfig={server.admin_kubeconfig}", "-n", lab.namespace)
    report = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    [finding] = [entry for entry in report["findings"] if entry["subject"]["name"] == "unclaimed"]
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**report, "findings": [{**finding, "action": "delete"}]}))
    done = await run_beside("check", *asked, "--repair", str(file))
    assert done.code == 0, done.err
    await lab.wait_until_gone("IPAllocation", "unclaimed")
    await lab.ask("next")
    await lab.has("next", "10.0.2.7")
