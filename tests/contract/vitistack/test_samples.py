"""The samples for vitistack are served as their comments say."""

from pathlib import Path

import pytest
import yaml

from tests.contract.product import Server
from tests.contract.vitistack.lab import Lab

pytestmark = pytest.mark.asyncio(loop_scope="package")
SAMPLES = Path(__file__).parents[3] / "examples" / "vitistack" / "networks.yaml"


async def test_machines_get_addresses_of_the_network_of_the_samples(server: Server) -> None:
    lab = Lab(server.admin, "default")  # where the samples are
    for one in yaml.safe_load_all(SAMPLES.read_text()):
        await lab.post(one["kind"], one["metadata"]["name"], one["spec"])
    await lab.provisioned("prod-net", "Ready")
    assert (await lab.has("web-0-virtual", "192.0.2.50"))["vlanId"] == 100
    found = {(await lab.shows(f"web-0-eth{n}", "Allocated"))["address"] for n in range(2)}
    assert found == {"192.0.2.10", "192.0.2.11"}
    await lab.configured("web-0", "Ready")
