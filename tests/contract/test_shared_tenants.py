"""A kubeconfig that leads to the management cluster, or to another TenantCluster's tenant.

That TenantCluster may be one of another management cluster, too.
"""

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controller.client import Client
from controller.conditions import find
from controller.config import connect
from controller.errors import NotFound
from controller.meta import Key
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.resources import NETWORK_POOL, PROVIDER_CONFIG, SECRET, TENANT_CLUSTER
from reconcilers.cli.local.objects import NAMESPACE, delete
from reconcilers.cli.standin.pools import read_metallb_crds
from reconcilers.loadbalancers.metallb.kinds import (
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    IPAddressPool,
)
from tests.contract.test_static_flow import (
    HOME,
    PROJECTED,
    SETTINGS,
    Site,
    _cluster,
    site,
    site_on,
)
from tests.polling import until

__all__ = ["site"]

QUICK = replace(SETTINGS, tenant=replace(SETTINGS.tenant, requeue_not_ready=0.2))
THEIRS = "10.250.0.0-10.250.0.9"


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[tuple[Plane, Client]]:
    """Another cluster, with MetalLB's kinds, and a client of it."""
    async with ControlPlane.start() as plane:
        await plane.install_crds([*read_metallb_crds()])
        transport = await connect(plane.write_kubeconfig(tmp_path / "tenant"))
        client = Client(transport)
        await client.create(NAMESPACE, "", {"metadata": {"name": "metallb-system"}})
        yield plane, client
        await transport.aclose()


async def _pools(site: Site, cidr: str = "10.40.0.0/24") -> None:
    await site.create(NETWORK_POOL, HOME, "lab", spec={"cidr": cidr})
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}]}
    await site.create(
        PROVIDER_CONFIG, HOME, "default", spec={"provider": "local", "network": network}
    )


def _says(site: Site, name: str, reason: str) -> Callable[[], bool]:
    """Return a function that asks whether a cluster's LoadBalancerReady has a reason."""

    def says() -> bool:
        cluster = site.caches["tenantclusters"].get(Key("team", name))
        said = (
            find(cluster.status.conditions, "LoadBalancerReady") if cluster is not None else None
        )
        return said is not None and said.reason == reason

    return says


async def _delete(site: Site, name: str) -> None:
    await delete(site.client, TENANT_CLUSTER, Key("team", name))
    await site.until(lambda: site.phase("tenantclusters", name, "team") is None)


async def test_the_management_clusters_own_metallb_is_left_alone(site: Site) -> None:
    await _pools(site)
    await site.create(
        IP_ADDRESS_POOL, "metallb-system", "default-pool", spec={"addresses": [THEIRS]}
    )
    before = await site.client.get(IP_ADDRESS_POOL, PROJECTED)
    async with site.controllers(hidden=False):
        await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
        await site.until(_says(site, "a", "TenantIsManagementCluster"))
        await _delete(site, "a")
    assert await site.client.get(IP_ADDRESS_POOL, PROJECTED) == before
    assert (await site.client.list(L2_ADVERTISEMENT)).items == ()


async def _wait_for_pool(client: Client, prefix: str = "10.40.") -> IPAddressPool:
    """Return the tenant's pool once it has its ranges."""

    async def look() -> IPAddressPool | None:
        try:
            return await client.get(IP_ADDRESS_POOL, PROJECTED)
        except NotFound:
            return None

    balancer_pool = await until(
        look, lambda pool: bool(pool and pool.spec.addresses[0].startswith(prefix))
    )
    assert balancer_pool is not None
    return balancer_pool


async def test_of_two_clusters_in_one_tenant_the_second_waits_until_the_first_is_gone(
    site: Site, tenant: tuple[Plane, Client]
) -> None:
    plane, inside = tenant
    await _pools(site)
    encoded = base64.b64encode(plane.kubeconfig().encode()).decode()
    for name in ("one", "two"):
        data = {"admin.conf": encoded}
        await site.create(SECRET, "team", f"{name}-admin-kubeconfig", data=data)
    async with site.controllers(2, QUICK, hidden=False):
        await site.create(TENANT_CLUSTER, "team", "one", **_cluster())
        first = await _wait_for_pool(inside)
        await site.create(TENANT_CLUSTER, "team", "two", **_cluster())
        await site.until(_says(site, "two", "TenantShared"))
        await _delete(site, "two")
        assert await inside.get(IP_ADDRESS_POOL, PROJECTED) == first
        await site.create(TENANT_CLUSTER, "team", "two", **_cluster())
        await site.until(_says(site, "two", "TenantShared"))
        await _delete(site, "one")
        later = await _wait_for_pool(inside)
        assert later.metadata.uid != first.metadata.uid


async def test_of_two_management_clusters_over_one_tenant_the_second_waits_for_the_first(
    site: Site, tenant: tuple[Plane, Client], tmp_path: Path
) -> None:
    plane, inside = tenant
    data = {"admin.conf": base64.b64encode(plane.kubeconfig().encode()).decode()}
    async with (
        ControlPlane.start() as other,
        site_on(other, tmp_path / "other") as second,
        site.controllers(1, QUICK, hidden=False),
        second.controllers(1, QUICK, hidden=False),
    ):
        for here, cidr in ((site, "10.40.0.0/24"), (second, "10.41.0.0/24")):
            await _pools(here, cidr)
            await here.create(SECRET, "team", "shared-admin-kubeconfig", data=data)
        await site.create(TENANT_CLUSTER, "team", "shared", **_cluster())
        first = await _wait_for_pool(inside)
        await second.create(TENANT_CLUSTER, "team", "shared", **_cluster())
        await second.until(_says(second, "shared", "TenantShared"))
        await _delete(second, "shared")
        assert await inside.get(IP_ADDRESS_POOL, PROJECTED) == first
        await second.create(TENANT_CLUSTER, "team", "shared", **_cluster())
        await second.until(_says(second, "shared", "TenantShared"))
        await _delete(site, "shared")
        await _wait_for_pool(inside, "10.41.")
