"""The samples for Cluster API are served as their comments say."""

from pathlib import Path

import pytest
import yaml

from tests.contract.clusterapi.lab import ClusterApiLab

pytestmark = pytest.mark.asyncio(loop_scope="package")
SAMPLES = Path(__file__).parents[3] / "examples" / "clusterapi"


async def test_the_claims_of_the_samples_get_addresses_of_their_pools(lab: ClusterApiLab) -> None:
    for name in ("pools", "claims"):
        for document in yaml.safe_load_all((SAMPLES / f"{name}.yaml").read_text()):
            await lab.create(document["kind"], document["metadata"]["name"], document["spec"])
    assert await lab.wait_until_served("machine-0") == "192.0.2.2"
    assert await lab.wait_until_served("machine-1") == "2001:db8:100::"
    assert await lab.wait_until_served("machine-2") == "203.0.113.66"
    await lab.wait_for_counts(
        "machines", total=64 - 2 - 4 + 21 + 1, used=1, free=79, out_of_range=0
    )
    await lab.wait_for_counts(
        "scattered", total=2, used=0, free=2, out_of_range=0, kind="GlobalInClusterIPPool"
    )
