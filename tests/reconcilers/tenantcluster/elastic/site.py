"""A platform with one elastic tenant, and what tests read of it."""

from dataclasses import replace
from typing import Any

from reconcilers.configuration.settings import Settings
from tests.reconcilers import make
from tests.reconcilers.balancer import service
from tests.reconcilers.lab import AT_ONCE
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server

ELASTIC = {"allocationMode": "elastic", "growthIncrement": 1}
TENANT = ("tenantclusters", "a")


def elastic_platform(
    *pools: Any, sizing: Any = None, quota: Any = None, **settings: Any
) -> tuple[Platform, Server]:
    platform = Platform(Settings(tenant=replace(AT_ONCE.tenant, **settings)))
    for pool in pools or (make.pool(),):
        platform.server.add("networkpools", pool)
    pool_names = [pool["metadata"]["name"] for pool in platform.server.all("networkpools")]
    provider = make.provider(*pool_names, load_balancer=ELASTIC | (sizing or {}), quota=quota)
    platform.server.add("providerconfigs", provider)
    platform.server.add("tenantclusters", make.tenant())
    return platform, platform.tenant("a")


def balancer_ranges(platform: Platform) -> dict[str, str]:
    """Return the ranges of the tenant's load-balancer allocations, by name."""
    return {
        allocation["metadata"]["name"]: (allocation.get("status") or {}).get("startAddress", "")
        for allocation in platform.server.all("ipallocations")
        if allocation["spec"]["type"] == "loadbalancer"
    }


def demand_condition(platform: Platform) -> tuple[str, str]:
    conditions = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
    condition: Json = next(c for c in conditions if c["type"] == "LoadBalancerDemandMet")
    return condition["status"], condition["reason"]


def annotations_of(platform: Platform, name: str) -> dict[str, str]:
    meta = platform.server.see("ipallocations", name)["metadata"]
    annotations: dict[str, str] = meta.get("annotations") or {}
    return annotations


async def become_ready(platform: Platform, tenant: Server, *services: str) -> None:
    """Let the cluster become Ready, with Services that use its addresses."""
    await platform.clock.advance(2)
    for name in services:
        service(tenant, name)
    await platform.clock.advance(60)
