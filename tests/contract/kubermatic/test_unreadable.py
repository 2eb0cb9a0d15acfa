"""An IPAMAllocation that cannot be read keeps its addresses, until it is corrected or deleted."""

import pytest

from tests.contract.kubermatic.lab import KubermaticLab, find_condition, make_range_settings
from tests.contract.loosening import create_loosely, loosen_field

pytestmark = pytest.mark.asyncio(loop_scope="package")
DEFINITION = "ipamallocations.kubermatic.k8c.io"


async def test_no_cluster_gets_the_addresses_of_an_unreadable_allocation(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/29", 4))
    await lab.create_namespace("odd")
    path = lab.build_allocation_path("odd", "p")
    async with loosen_field(lab.admin, DEFINITION, "type"):
        unreadable = {"type": 7, "dc": lab.name("dc"), "addresses": ["10.0.0.0-10.0.0.3"]}
        body = {
            "apiVersion": "kubermatic.k8c.io/v1",
            "kind": "IPAMAllocation",
            "metadata": {"name": lab.name("p")},
            "spec": unreadable,
        }
        await create_loosely(lab.admin, path.rpartition("/")[0], body)
        await lab.create_cluster("a")
        await lab.wait_for_condition("a", "False", "HoldersUnknown")
        cluster = await lab.find(lab.build_cluster_path("a"))
        assert cluster is not None
        todo = f"{lab.namespace('odd')}/{lab.name('p')} cannot be read; correct or delete it"
        assert todo in find_condition(cluster)["message"]
        assert await lab.find(lab.build_allocation_path("a", "p")) is None

        await lab.patch(path, {"spec": {"type": "range"}})
        await lab.wait_for_ranges("a", "p", "10.0.0.4-10.0.0.7")
