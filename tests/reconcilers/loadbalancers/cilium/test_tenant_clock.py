"""The clock of a tenant may be slower than ours."""

from datetime import timedelta

from reconcilers.loadbalancers.port import Unprovable
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.loadbalancers.cilium.site import FIRST, Site
from tests.reconcilers.loadbalancers.cilium.test_takeover import _edit_lease, _empty_pool


async def test_a_takeover_counts_by_the_clock_of_the_tenant_alone() -> None:
    site = Site("services", "namespaces", POOLS, "leases")
    await site.project(FIRST)
    acquired = site.clock.now() - timedelta(seconds=60)
    renewed = acquired + timedelta(seconds=2)
    _edit_lease(
        site,
        acquireTime=acquired.isoformat(),
        renewTime=renewed.isoformat(),
        leaseTransitions=1,
    )
    assert isinstance(await _empty_pool(site), Unprovable), (
        "by the clock of the tenant, the operator has led for two seconds"
    )
