"""The samples for metal3 get the addresses that their comments name, on a server and by `plan`."""

from pathlib import Path

import pytest

from tests.contract.metal3.lab import Metal3Lab
from tests.contract.product import Server
from tests.reconcilers.cli.commandline import run_in_thread
from tests.yamls import read_all_yaml

pytestmark = pytest.mark.asyncio(loop_scope="package")
SAMPLES = Path(__file__).parents[3] / "examples" / "metal3" / "pools.yaml"


async def test_claims_of_both_kinds_get_addresses_of_the_pool_of_the_samples(
    server: Server,
) -> None:
    lab = Metal3Lab(server.admin, "default")  # where the samples are
    for body in read_all_yaml(SAMPLES.read_text(encoding="utf-8")):
        await lab.create(body["kind"], body["metadata"]["name"], body["spec"])
    assert await lab.wait_until_served("control-plane-0") == "192.168.10.11"
    assert await lab.wait_until_served("worker-0", "IPAddressClaim") == "192.168.10.10"


async def test_a_plan_of_the_samples_shows_the_same_addresses() -> None:
    plan = await run_in_thread("plan", "-f", str(SAMPLES))
    assert plan.code == 0, plan.err
    lines = [line.split() for line in plan.out.splitlines()]
    address_by_claim = {
        line[1]: line[4] for line in lines if line[:1] in (["IPClaim"], ["IPAddressClaim"])
    }
    assert address_by_claim == {
        "default/control-plane-0": "192.168.10.11",
        "default/worker-0": "192.168.10.10",
    }
