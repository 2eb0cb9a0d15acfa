"""The samples for vitistack are served as their comments say."""

from pathlib import Path

import pytest
import yaml

from tests.contract.product import Server
from tests.contract.vitistack.lab import VitistackLab

pytestmark = pytest.mark.asyncio(loop_scope="package")
SAMPLES = Path(__file__).parents[3] / "examples" / "vitistack" / "networks.yaml"


async def test_machines_get_addresses_of_the_network_of_the_samples(server: Server) -> None:
    lab = VitistackLab(server.admin, "default")  # where the samples are
    for document in yaml.safe_load_all(SAMPLES.read_text()):
        await lab.create(document["kind"], document["metadata"]["name"], document["spec"])
    await lab.set_phase("prod-net", "Ready")
    assert (await lab.wait_for_address("web-0-virtual", "192.0.2.50"))["vlanId"] == 100
    addresses = {
        (await lab.wait_for_phase(f"web-0-eth{n}", "Allocated"))["address"] for n in range(2)
    }
    assert addresses == {"192.0.2.10", "192.0.2.11"}
    await lab.wait_until_configured("web-0", "Ready")
