"""While an allocation of a tenant cannot be parsed, nothing is changed for the tenant."""

from typing import Any

import pytest

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server
from tests.reconcilers.tenantcluster.elastic.site import (
    make_elastic_platform,
    make_ready_with_services,
)

METALLB = "metallb-system"
MESSAGE = (
    "nothing is changed for this cluster: IPAllocation butler-system/team-a-lb cannot be read;"
    " correct or delete it"
)
COUNT = {"spec": {"count": "many"}}
REFERENCE: Json = {"spec": {"tenantClusterRef": {"name": 7}}}
WHOLE_SPEC: Json = {"spec": {"tenantClusterRef": None, "poolRef": 7}}
UNLABELLED: Json = {"metadata": {"labels": None, "annotations": None}, **WHOLE_SPEC}
DAMAGES = [COUNT, REFERENCE, WHOLE_SPEC, UNLABELLED]
"""Patches that make an allocation unreadable; the ids say how its tenant is still found."""
DAMAGE_IDS = ["by its reference", "by its labels", "by its labels without a pool", "by its name"]


async def _make_ready_platform() -> tuple[Platform, Server, list[str]]:
    """Return a stopped platform with a Ready cluster, its tenant, and the tenant's ranges."""
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.server.add("tenantclusters", make.tenant())
    tenant = platform.tenant("a")
    async with platform.running():
        await platform.clock.advance(60)
    assert platform.phase("tenantclusters", "a", "team") == "Ready"
    return platform, tenant, _list_pool_addresses(tenant)


def _list_pool_addresses(tenant: Server) -> list[str]:
    """Return the ranges in the tenant's IPAddressPool."""
    pool = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
    addresses: list[str] = pool["spec"]["addresses"]
    return addresses


def _list_allocations(platform: Platform) -> set[str]:
    """Return the names of all allocations."""
    return {allocation["metadata"]["name"] for allocation in platform.server.all("ipallocations")}


def _read_condition(platform: Platform, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition of the cluster."""
    cluster = platform.server.see("tenantclusters", "a", namespace="team")
    condition = next(c for c in cluster["status"]["conditions"] if c["type"] == kind)
    return condition["status"], condition["reason"], condition["message"]


@pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
@pytest.mark.parametrize("damage", DAMAGES, ids=DAMAGE_IDS)
async def test_the_range_of_an_unreadable_allocation_stays_and_no_other_is_requested(
    damage: Json, is_restarted: bool
) -> None:
    platform, tenant, addresses = await _make_ready_platform()
    names_before = _list_allocations(platform)
    if is_restarted:
        platform.server.edit("ipallocations", "team-a-lb", damage)
    async with platform.running():
        await platform.clock.advance(1)
        if not is_restarted:
            platform.server.edit("ipallocations", "team-a-lb", damage)
        await platform.clock.advance(600)
        assert _list_pool_addresses(tenant) == addresses
        assert _list_allocations(platform) == names_before
        condition = _read_condition(platform, "NetworkReady")
        assert condition == ("False", "UnreadableAllocation", MESSAGE)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        platform.server.requests.clear()
        await platform.clock.advance(600)
        cluster_requests = [r for r in platform.server.requests if r.plural == "tenantclusters"]
        assert not [r for r in cluster_requests if r.verb == "patch"], (
            "the condition is written once"
        )


async def test_a_repaired_allocation_ends_the_wait_at_once() -> None:
    platform, tenant, addresses = await _make_ready_platform()
    platform.server.edit("ipallocations", "team-a-lb", COUNT)
    async with platform.running():
        await platform.clock.advance(5)
        assert _read_condition(platform, "NetworkReady")[1] == "UnreadableAllocation"
        platform.server.edit("ipallocations", "team-a-lb", {"spec": {"count": 8}})
        await platform.clock.advance(2)
        assert _read_condition(platform, "NetworkReady")[:2] == ("True", "Ready")
        assert _list_pool_addresses(tenant) == addresses


async def test_an_unreadable_allocation_that_is_deleted_is_replaced_at_once() -> None:
    platform, tenant, _ = await _make_ready_platform()
    platform.server.edit("ipallocations", "team-a-lb", COUNT)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("ipallocations", "team-a-lb", {"metadata": {"finalizers": None}})
        platform.server.vanish("ipallocations", "team-a-lb")
        await platform.clock.advance(5)
        assert "team-a-lb" in _list_allocations(platform)
        assert _read_condition(platform, "NetworkReady")[:2] == ("True", "Ready")
        assert _list_pool_addresses(tenant)


async def test_an_unreadable_allocation_of_another_tenant_does_not_affect_a_cluster() -> None:
    platform, _, _ = await _make_ready_platform()
    body: dict[str, Any] = {
        "metadata": {"name": "other", "namespace": make.NAMESPACE},
        "spec": {
            "poolRef": {"name": "elsewhere"},
            "tenantClusterRef": {"name": "b", "namespace": "team"},
            "count": "many",
        },
    }
    platform.server.add("ipallocations", body)
    async with platform.running():
        await platform.clock.advance(60)
        assert _read_condition(platform, "NetworkReady")[:2] == ("True", "Ready")


@pytest.mark.parametrize("damage", DAMAGES, ids=DAMAGE_IDS)
async def test_a_deleted_cluster_waits_for_its_unreadable_allocation(damage: Json) -> None:
    platform, tenant, addresses = await _make_ready_platform()
    platform.server.edit("ipallocations", "team-a-lb", damage)
    platform.server.delete("tenantclusters", "a", namespace="team")
    async with platform.running():
        await platform.clock.advance(1800)
        assert platform.server.has("tenantclusters", "a", namespace="team")
        assert _list_pool_addresses(tenant) == addresses
        status, reason, message = _read_condition(platform, "Ready")
        assert (status, reason) == ("False", "UnreadableAllocation")
        assert "team-a-lb cannot be read; correct or delete it" in message


async def test_a_tenant_with_an_unreadable_allocation_neither_grows_nor_shrinks() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        await platform.clock.advance(60)
    before = _list_allocations(platform)
    assert "team-a-lb-1" in before
    addresses = _list_pool_addresses(tenant)
    platform.server.edit("ipallocations", "team-a-lb-1", COUNT)
    add_service(tenant, "four")
    async with platform.running():
        await platform.clock.advance(300)
        for name in ("two", "three", "four"):
            tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(3600)
        assert _list_allocations(platform) == before
        assert _list_pool_addresses(tenant) == addresses


@pytest.mark.parametrize("names_owner", [True, False], ids=["names its owner", "names none"])
async def test_a_pool_is_not_taken_over_from_a_cluster_with_an_unreadable_allocation(
    names_owner: bool,
) -> None:
    platform, tenant, addresses = await _make_ready_platform()
    if not names_owner:
        unnamed = dict.fromkeys(
            (names.ANNOTATION_PROJECTION_OWNER, names.ANNOTATION_PROJECTION_OWNER_UID)
        )
        change: Json = {"metadata": {"annotations": unnamed}}
        tenant.edit("ipaddresspools", "default-pool", change, namespace=METALLB)
    # Cluster a is gone, and its balancer allocation cannot be parsed; b leads to its tenant.
    platform.server.edit("ipallocations", "team-a-lb", COUNT)
    platform.server.vanish("ipallocations", "team-a-nodes")
    platform.server.vanish("tenantclusters", "a", namespace="team")
    platform.server.add("networkpools", make.pool("second", "10.41.0.0/24"))
    platform.server.add("providerconfigs", make.provider("second", name="second"))
    spec = {"providerConfigRef": {"name": "second"}}
    platform.server.add("tenantclusters", make.tenant("b", spec=spec))
    secret = platform.server.see("secrets", "a-admin-kubeconfig", namespace="team")
    meta = {"name": "b-admin-kubeconfig", "namespace": "team"}
    platform.server.add("secrets", {"metadata": meta, "data": secret["data"]})
    async with platform.running():
        await platform.clock.advance(600)
        assert _list_pool_addresses(tenant) == addresses
        metadata = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)["metadata"]
        owner = metadata["annotations"].get(names.ANNOTATION_PROJECTION_OWNER)
        assert owner == ("team/a" if names_owner else None)


async def test_a_cluster_that_becomes_unreadable_is_not_written_from_its_last_readable_version() -> (  # noqa: E501
    None
):
    platform, tenant, addresses = await _make_ready_platform()
    async with platform.running():
        await platform.clock.advance(5)
        broken = {"spec": {"networking": {"lbPoolSize": "many"}}}
        platform.server.edit("tenantclusters", "a", broken, namespace="team")
        platform.server.vanish("ipallocations", "team-a-nodes")
        platform.server.requests.clear()
        await platform.clock.advance(1800)
        written = [
            r
            for r in platform.server.requests
            if r.plural == "tenantclusters" and r.verb == "patch"
        ]
        assert not written
        assert _list_pool_addresses(tenant) == addresses


async def test_a_cluster_with_unknown_values_in_fields_of_other_controllers_is_served() -> None:
    """Only other controllers read these fields, so their format may be newer than our models."""
    platform, tenant, addresses = await _make_ready_platform()
    async with platform.running():
        later = {"spec": {"workers": {"replicas": "many"}, "addons": {"storage": {"version": 2}}}}
        platform.server.edit("tenantclusters", "a", later, namespace="team")
        platform.server.vanish("ipallocations", "team-a-nodes")
        await platform.clock.advance(1800)
        assert platform.server.has("ipallocations", "team-a-nodes"), "it is requested again"
        assert _list_pool_addresses(tenant) == addresses


async def test_deleted_node_addresses_stay_held_while_their_pool_cannot_serve_requests() -> None:
    platform, _, _ = await _make_ready_platform()
    body: dict[str, Any] = {
        "metadata": {"name": "other", "namespace": make.NAMESPACE},
        "spec": {
            "poolRef": {"name": "lab"},
            "tenantClusterRef": {"name": "b", "namespace": "team"},
            "count": "many",
        },
    }
    platform.server.add("ipallocations", body)
    async with platform.running():
        await platform.clock.advance(60)
        platform.server.delete("ipallocations", "team-a-nodes")
        await platform.clock.advance(600)
        # Its successor requests the range; if it were released now, another could get it.
        assert platform.server.has("ipallocations", "team-a-nodes")
        platform.server.vanish("ipallocations", "other")
        await platform.clock.advance(120)
        assert not platform.server.has("ipallocations", "team-a-nodes")


@pytest.mark.parametrize("has_successor", [False, True], ids=["alone", "beside a successor"])
async def test_an_unreadable_allocation_of_a_vanished_cluster_is_withdrawn_once_it_is_repaired(
    has_successor: bool,
) -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    # Only the status of the cluster names the namespace of the kubeconfig Secret.
    platform.server.add("tenantclusters", make.tenant(status={"tenantNamespace": "vault"}))
    tenant = platform.tenant("a", namespace="vault")
    async with platform.running():
        await platform.clock.advance(60)
    assert _list_pool_addresses(tenant)
    platform.server.edit("ipallocations", "team-a-lb", COUNT)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.vanish("ipallocations", "team-a-nodes")
        platform.server.vanish("tenantclusters", "a", namespace="team")
        await platform.clock.advance(600)
        assert _list_pool_addresses(tenant), "nothing is changed meanwhile"
        if has_successor:
            platform.server.add("tenantclusters", make.tenant(uid="successor"))
            await platform.clock.advance(600)
        platform.server.edit("ipallocations", "team-a-lb", {"spec": {"count": 8}})
        await platform.clock.advance(600)
        assert not platform.server.has("ipallocations", "team-a-lb")
        assert not tenant.all("ipaddresspools")
