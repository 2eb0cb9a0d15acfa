"""Kubeconfigs that lead to the management cluster, or to the tenant of another TenantCluster.

The other TenantCluster is in the same management cluster or in another management cluster.
"""

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controller.client import Client
from controller.conditions import find_condition
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
    ManagementCluster,
    make_cluster_body,
    management,
    run_management_cluster,
)
from tests.polling import until

__all__ = ["management"]

QUICK = replace(SETTINGS, tenant=replace(SETTINGS.tenant, requeue_not_ready=0.2))
FOREIGN_RANGE = "10.250.0.0-10.250.0.9"


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[tuple[Plane, Client]]:
    """The control plane of a tenant with MetalLB's kinds, and a client of the tenant."""
    async with ControlPlane.start() as plane:
        await plane.install_crds([*read_metallb_crds()])
        transport = await connect(plane.write_kubeconfig(tmp_path / "tenant"))
        client = Client(transport)
        await client.create(NAMESPACE, "", {"metadata": {"name": "metallb-system"}})
        yield plane, client
        await transport.aclose()


async def _create_platform(management: ManagementCluster, cidr: str = "10.40.0.0/24") -> None:
    """Create the NetworkPool `lab` and the ProviderConfig `default` that uses it."""
    await management.create(NETWORK_POOL, HOME, "lab", spec={"cidr": cidr})
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}]}
    await management.create(
        PROVIDER_CONFIG, HOME, "default", spec={"provider": "local", "network": network}
    )


def _has_reason(management: ManagementCluster, name: str, reason: str) -> Callable[[], bool]:
    """Return a predicate: the condition LoadBalancerReady of a TenantCluster has this reason."""

    def has_reason() -> bool:
        cluster = management.caches["tenantclusters"].get(Key("team", name))
        condition = (
            find_condition(cluster.status.conditions, "LoadBalancerReady")
            if cluster is not None
            else None
        )
        return condition is not None and condition.reason == reason

    return has_reason


async def _delete_cluster(management: ManagementCluster, name: str) -> None:
    """Delete a TenantCluster, and wait until it is gone."""
    await delete(management.client, TENANT_CLUSTER, Key("team", name))
    await management.until(lambda: management.get_phase("tenantclusters", name, "team") is None)


async def test_the_management_clusters_own_metallb_is_left_alone(
    management: ManagementCluster,
) -> None:
    await _create_platform(management)
    await management.create(
        IP_ADDRESS_POOL, "metallb-system", "default-pool", spec={"addresses": [FOREIGN_RANGE]}
    )
    before = await management.client.get(IP_ADDRESS_POOL, PROJECTED)
    async with management.run_controllers(hidden=False):
        await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
        await management.until(_has_reason(management, "a", "TenantIsManagementCluster"))
        await _delete_cluster(management, "a")
    assert await management.client.get(IP_ADDRESS_POOL, PROJECTED) == before
    assert (await management.client.list(L2_ADVERTISEMENT)).items == ()


async def _wait_for_pool(client: Client, prefix: str = "10.40.") -> IPAddressPool:
    """Return the tenant's IPAddressPool once its first range begins with a prefix."""

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
    management: ManagementCluster, tenant: tuple[Plane, Client]
) -> None:
    plane, tenant_client = tenant
    await _create_platform(management)
    encoded = base64.b64encode(plane.get_kubeconfig().encode()).decode()
    for name in ("one", "two"):
        data = {"admin.conf": encoded}
        await management.create(SECRET, "team", f"{name}-admin-kubeconfig", data=data)
    async with management.run_controllers(2, QUICK, hidden=False):
        await management.create(TENANT_CLUSTER, "team", "one", **make_cluster_body())
        first = await _wait_for_pool(tenant_client)
        await management.create(TENANT_CLUSTER, "team", "two", **make_cluster_body())
        await management.until(_has_reason(management, "two", "TenantShared"))
        await _delete_cluster(management, "two")
        assert await tenant_client.get(IP_ADDRESS_POOL, PROJECTED) == first
        await management.create(TENANT_CLUSTER, "team", "two", **make_cluster_body())
        await management.until(_has_reason(management, "two", "TenantShared"))
        await _delete_cluster(management, "one")
        later = await _wait_for_pool(tenant_client)
        assert later.metadata.uid != first.metadata.uid


async def test_of_two_management_clusters_over_one_tenant_the_second_waits_for_the_first(
    management: ManagementCluster, tenant: tuple[Plane, Client], tmp_path: Path
) -> None:
    plane, tenant_client = tenant
    data = {"admin.conf": base64.b64encode(plane.get_kubeconfig().encode()).decode()}
    async with (
        ControlPlane.start() as other,
        run_management_cluster(other, tmp_path / "other") as second,
        management.run_controllers(1, QUICK, hidden=False),
        second.run_controllers(1, QUICK, hidden=False),
    ):
        for platform, cidr in ((management, "10.40.0.0/24"), (second, "10.41.0.0/24")):
            await _create_platform(platform, cidr)
            await platform.create(SECRET, "team", "shared-admin-kubeconfig", data=data)
        await management.create(TENANT_CLUSTER, "team", "shared", **make_cluster_body())
        first = await _wait_for_pool(tenant_client)
        await second.create(TENANT_CLUSTER, "team", "shared", **make_cluster_body())
        await second.until(_has_reason(second, "shared", "TenantShared"))
        await _delete_cluster(second, "shared")
        assert await tenant_client.get(IP_ADDRESS_POOL, PROJECTED) == first
        await second.create(TENANT_CLUSTER, "team", "shared", **make_cluster_body())
        await second.until(_has_reason(second, "shared", "TenantShared"))
        await _delete_cluster(management, "shared")
        await _wait_for_pool(tenant_client, "10.41.")
