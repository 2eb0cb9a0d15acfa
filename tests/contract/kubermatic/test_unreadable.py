"""An IPAMAllocation that cannot be read keeps its addresses, until it is corrected or deleted."""

import pytest

from tests.contract.kubermatic.lab import Lab, condition, ranges
from tests.contract.loosening import create_loosely, loosen_field

pytestmark = pytest.mark.asyncio(loop_scope="package")
DEFINITION = "ipamallocations.kubermatic.k8c.io"


async def test_no_cluster_gets_the_addresses_of_an_unreadable_allocation(lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/29", 4))
    await lab.post_namespace("odd")
    path = lab.allocation("odd", "p")
    async with loosen_field(lab.admin, DEFINITION, "type"):
        unreadable = {"type": 7, "dc": lab.name("dc"), "addresses": ["10.0.0.0-10.0.0.3"]}
        body = {
            "apiVersion": "kubermatic.k8c.io/v1",
            "kind": "IPAMAllocation",
            "metadata": {"name": lab.name("p")},
            "spec": unreadable,
        }
        await create_loosely(lab.admin, path.rpartition("/")[0], body)
        await lab.cluster("a")
        await lab.says("a", "False", "HoldersUnknown")
        cluster = await lab.find(lab.clusters("a"))
        assert cluster is not None
        todo = f"{lab.namespace('odd')}/{lab.name('p')} cannot be read; correct or delete it"
        assert todo in condition(cluster)["message"]
        assert await lab.find(lab.allocation("a", "p")) is None

        await lab.patch(path, {"spec": {"type": "range"}})
        await lab.has("a", "p", "10.0.0.4-10.0.0.7")
