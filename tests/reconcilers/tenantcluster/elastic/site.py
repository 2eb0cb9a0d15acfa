"""A platform with one elastic tenant, and functions that read the tenant's state."""

from dataclasses import replace
from typing import Any

from reconcilers.configuration.settings import Settings
from tests.reconcilers import make
from tests.reconcilers.balancer import add_service
from tests.reconcilers.lab import SETTINGS_WITHOUT_WAITS
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server

ELASTIC = {"allocationMode": "elastic", "growthIncrement": 1}
TENANT = ("tenantclusters", "a")


def make_elastic_platform(
    *pools: Any, sizing: Any = None, quota: Any = None, **settings: Any
) -> tuple[Platform, Server]:
    """Return a platform that is not running yet, and the API server of its elastic tenant team/a.

    Args:
        pools: its NetworkPools; none for one of default size.
        sizing: fields of the provider's spec.network.loadBalancer beside elastic with increment 1.
        quota: the provider's spec.network.quotaPerTenant; None for none.
        settings: fields of TenantSettings that differ from those of AT_ONCE.
    """
    platform = Platform(Settings(tenant=replace(SETTINGS_WITHOUT_WAITS.tenant, **settings)))
    for pool in pools or (make.pool(),):
        platform.server.add("networkpools", pool)
    pool_names = [pool["metadata"]["name"] for pool in platform.server.all("networkpools")]
    provider = make.provider(*pool_names, load_balancer=ELASTIC | (sizing or {}), quota=quota)
    platform.server.add("providerconfigs", provider)
    platform.server.add("tenantclusters", make.tenant())
    return platform, platform.tenant("a")


def list_balancer_ranges(platform: Platform) -> dict[str, str]:
    """Return the first address of each load-balancer allocation, by name; "" if it has none."""
    return {
        allocation["metadata"]["name"]: (allocation.get("status") or {}).get("startAddress", "")
        for allocation in platform.server.all("ipallocations")
        if allocation["spec"]["type"] == "loadbalancer"
    }


def read_demand_condition(platform: Platform) -> tuple[str, str]:
    """Return status and reason of the tenant's condition LoadBalancerDemandMet."""
    conditions = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
    condition: Json = next(c for c in conditions if c["type"] == "LoadBalancerDemandMet")
    return condition["status"], condition["reason"]


def read_annotations(platform: Platform, name: str) -> dict[str, str]:
    """Return the annotations of an allocation."""
    meta = platform.server.see("ipallocations", name)["metadata"]
    annotations: dict[str, str] = meta.get("annotations") or {}
    return annotations


async def make_ready_with_services(platform: Platform, tenant: Server, *services: str) -> None:
    """Let a minute pass, so that the tenant becomes Ready and these new Services get addresses."""
    await platform.clock.advance(2)
    for name in services:
        add_service(tenant, name)
    await platform.clock.advance(60)
