"""What the commands that ask about a cluster say of KKP's pools, on a server."""

import json

import pytest

from tests.contract.kubermatic.conftest import Server
from tests.contract.kubermatic.lab import Lab, ranges
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
    [mine] = [one for one in pools["others"] if one["name"] == lab.name("p")]
    assert mine == {
        "kind": "IPAMPool",
        "namespace": "",
        "name": lab.name("p"),
        "offers": "10.78.0.0/31, 2 addresses each",
        "total": 2,
        "used": 2,
        "free": 0,
        "outOfRange": 0,
        "waiting": 1,
        "ready": "True",
        "reason": "",
        "part": lab.name("dc"),
    }
    answer = (await run_beside("whois", "10.78.0.1", *asked)).out
    assert f"IPAMAllocation {lab.namespace('a')}/{lab.name('p')}" in answer
    checked = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    assert lab.name("p") not in {one["subject"]["name"] for one in checked["findings"]}
