"""Allocations that users label or create by hand do not keep a cluster from becoming Ready."""

from typing import Any

import pytest

from reconcilers.api import names
from reconcilers.tenantcluster.allocations import membership
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address
from tests.reconcilers.lab import Lab
from tests.reconcilers.tenantcluster.elastic.site import (
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
)

GROWTH = {"metadata": {"labels": {names.LABEL_ROLE: names.ROLE_GROWTH}}}
NAME_MAKERS = (membership.make_base_name, membership.make_hashed_name, membership.make_own_name)


def _make_lab(**allocation: Any) -> Lab:
    """Return a lab with a new cluster, and allocation team-a-lb, which a user has created."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    lab.server.add("ipallocations", make.allocation("team-a-lb", **allocation))
    return lab


async def test_a_first_allocation_that_is_labelled_growth_stops_neither_growth_nor_shrink() -> (
    None
):
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        platform.server.edit("ipallocations", "team-a-lb", GROWTH)
        await platform.clock.advance(60)
        labels = platform.server.see("ipallocations", "team-a-lb")["metadata"]["labels"]
        assert labels[names.LABEL_ROLE] == "initial"
        add_service(tenant, "three")
        await platform.clock.advance(60)
        assert find_address(tenant, "three") is not None
        assert set(list_balancer_ranges(platform)) == {"team-a-lb", "team-a-lb-1"}
        for name in ("one", "two", "three"):
            tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(1800)
        assert set(list_balancer_ranges(platform)) == {"team-a-lb"}


async def test_an_allocation_for_the_cluster_that_is_labelled_growth_serves_it() -> None:
    lab = _make_lab(size=8, labels={names.LABEL_ROLE: names.ROLE_GROWTH})
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    allocation_names = [
        allocation["metadata"]["name"] for allocation in lab.server.all("ipallocations")
    ]
    assert allocation_names == ["team-a-lb", "team-a-nodes"]


@pytest.mark.parametrize(
    "other_holder",
    [
        {"kind": "nodes"},
        {"tenant": "other/b"},
        {"annotations": {names.ANNOTATION_TENANT_UID: "uid-of-another"}},
    ],
    ids=["for nodes", "of another tenant", "of an earlier cluster"],
)
async def test_a_cluster_uses_another_name_if_its_names_are_taken(
    other_holder: dict[str, Any],
) -> None:
    lab = _make_lab(held_range=("10.40.0.64", "10.40.0.64"), **other_holder)
    tenant = make.tenant()
    taken_names = [make_name(tenant, "loadbalancer") for make_name in NAME_MAKERS]
    for name in taken_names[1:]:
        lab.server.add("ipallocations", make.allocation(name, tenant="other/b"))
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    ref = lab.read_status("tenantclusters", "a", "team")["lbAllocationRef"]["name"]
    assert ref.startswith("team-a-lb-")
    assert ref not in taken_names


async def test_the_name_of_an_unreadable_allocation_is_not_used_for_a_new_one() -> None:
    lab = Lab()
    cache = lab.caches["ipallocations"]
    cache.replace([], lab.server.revision, {make.key("team-a-lb"): "spec.count: not a number"})
    name = membership.find_free_name(
        make.tenant(), "loadbalancer", allocations=cache, namespace=make.NAMESPACE
    )
    assert name == membership.make_hashed_name(make.tenant(), "loadbalancer")
