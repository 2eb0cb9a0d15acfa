"""What the commands that ask about a cluster say of pools of claims, on a server."""

import json

import pytest

from tests.contract.clusterapi.conftest import Server
from tests.contract.clusterapi.lab import Lab
from tests.reconcilers.cli.commandline import run_beside

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_pools_and_addresses_of_claims_are_found_on_a_server(
    server: Server, lab: Lab
) -> None:
    await lab.pool("p", "10.77.0.1")
    await lab.claim("a", "p")
    await lab.served("a")
    await lab.claim("b", "p")
    await lab.says("b", "PoolExhausted")
    await lab.counts("p", (1, 1, 0, 0))
    asked = (f"--kubeconfig={server.kubeconfig}", "-n", lab.namespace)
    pools = json.loads((await run_beside("pools", *asked, "-o", "json")).out)
    mine = next(one for one in pools["others"] if one["kind"] == "InClusterIPPool")
    assert mine == {
        "kind": "InClusterIPPool",
        "namespace": lab.namespace,
        "name": "p",
        "offers": "10.77.0.1",
        "total": 1,
        "used": 1,
        "free": 0,
        "outOfRange": 0,
        "waiting": 1,
        "ready": "True",
        "reason": "claims are served from this pool",
    }
    answer = (await run_beside("whois", "10.77.0.1", *asked)).out
    assert f"IPAddressClaim {lab.namespace}/a" in answer
    checked = json.loads((await run_beside("check", *asked, "-o", "json")).out)
    found = {one["subject"]["name"]: one["kind"] for one in checked["findings"]}
    assert not {"a", "b", "p"} & set(found)
