"""An IPAddress that cannot be read keeps its address, until it is corrected or deleted."""

import pytest

from tests.contract.clusterapi.lab import (
    ClusterApiLab,
    find_condition,
    get_reason,
    make_address_spec,
)
from tests.contract.loosening import create_loosely, loosen_field

pytestmark = pytest.mark.asyncio(loop_scope="package")
DEFINITION = "ipaddresses.ipam.cluster.x-k8s.io"


async def test_no_claim_gets_the_address_of_an_unreadable_ipaddress(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create_pool("q", "10.0.1.10")
    todo = f"IPAddress {lab.namespace}/odd cannot be read; correct or delete it"
    async with loosen_field(lab.admin, DEFINITION, "prefix"):
        body = {
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
            "kind": "IPAddress",
            "metadata": {"name": "odd"},
            "spec": make_address_spec("odd", "p", "10.0.0.10", prefix="many"),
        }
        await create_loosely(lab.admin, lab.build_path("IPAddress"), body)
        await lab.until("InClusterIPPool", "p", lambda pool: get_reason(pool) == "HoldersUnknown")
        await lab.create_claim("a", "p")
        await lab.create_claim("b", "q")
        assert await lab.wait_until_served("b") == "10.0.1.10"
        waiting_claim = await lab.wait_for_reason("a", "PoolNotReady")
        assert todo in find_condition(waiting_claim)["message"]
        assert todo in find_condition(await lab.find("InClusterIPPool", "p"))["message"]

        await lab.patch("IPAddress", "odd", {"spec": {"prefix": 24}})
        assert await lab.wait_until_served("a") == "10.0.0.11"
        await lab.until("InClusterIPPool", "p", lambda pool: get_reason(pool) == "Ready")
