"""A Cilium pool that cannot be parsed does not delay a deletion beyond the teardown grace."""

from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.tenantcluster.ciliumtenants import TENANT, make_cilium_tenant, run_passes


async def test_ranges_of_a_deleted_cluster_with_invalid_pools_are_released_after_the_grace() -> (
    None
):
    lab, replica, tenant, _operator = make_cilium_tenant()
    await run_passes(lab, replica, 3)
    for pool in tenant.all(POOLS):
        odd = {"spec": {"serviceSelector": {"matchExpressions": ["nonsense"]}}}
        tenant.edit(POOLS, pool["metadata"]["name"], odd, namespace="")
    lab.server.delete("tenantclusters", TENANT.name, namespace=TENANT.namespace)
    for _ in range(4):
        await run_passes(lab, replica, 5)
        await lab.clock.advance(lab.settings.tenant.teardown_grace)
    assert [a["metadata"]["name"] for a in lab.server.all("ipallocations")] == []
