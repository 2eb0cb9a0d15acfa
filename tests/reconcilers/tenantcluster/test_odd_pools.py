"""A pool of Cilium that a tenant spoilt does not outlast the teardown grace."""

from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.tenantcluster.ciliumtenants import TENANT, platform, run_passes


async def test_a_spoilt_pool_in_a_deleted_cluster_keeps_no_range_beyond_the_grace() -> None:
    lab, replica, tenant, _operator = platform()
    await run_passes(lab, replica, 3)
    for pool in tenant.all(POOLS):
        odd = {"spec": {"serviceSelector": {"matchExpressions": ["nonsense"]}}}
        tenant.edit(POOLS, pool["metadata"]["name"], odd, namespace="")
    lab.server.delete("tenantclusters", TENANT.name, namespace=TENANT.namespace)
    raised = 0
    for _ in range(4):
        for _ in range(5):
            for key in [TENANT]:
                try:
                    await replica.clusters.reconcile(key)
                except (AttributeError, TypeError):
                    raised += 1
            for allocation in list(replica.caches["ipallocations"]):
                try:
                    await replica.allocations.reconcile(allocation.metadata.key)
                except (AttributeError, TypeError):
                    raised += 1
            await lab.clock.advance(1)
        await lab.clock.advance(lab.settings.tenant.teardown_grace)
    assert [a["metadata"]["name"] for a in lab.server.all("ipallocations")] == []
    assert not raised
