"""The controllers come to rest with faults that last: they report them once, and retry rarely.

Each case sets up a fault that is not repaired, lets three minutes pass, and then counts the
requests of five more: (nearly) nothing is written, and little is read.
"""

from collections.abc import Callable
from typing import Any

import pytest

from controller.errors import Invalid, NoAnswer
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.platform import Platform

FIRST_EIGHT = ("10.40.0.0", "10.40.0.7")


def _add_healthy_cluster(platform: Platform) -> None:
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.tenant("a")
    platform.server.add("tenantclusters", make.tenant())


def _add_invalid_pool(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    platform.server.add("networkpools", make.pool(reserved=["10.99.0.0/28"]))
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _omit_pool(platform: Platform) -> None:
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.server.add("tenantclusters", make.tenant())
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _add_terminating_pool(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    platform.server.add(
        "ipallocations", make.allocation("holder", tenant="x/y", held_range=FIRST_EIGHT)
    )
    platform.server.delete("networkpools", "lab")
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _add_full_pool(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/30"))
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _add_pins_that_cannot_be_served(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    for number, pin in enumerate([FIRST_EIGHT, FIRST_EIGHT, ("10.99.0.0", "10.99.0.1")]):
        allocation = make.allocation(f"pin{number}", tenant="x/y", pin=pin)
        platform.server.add("ipallocations", allocation)


def _omit_provider(platform: Platform) -> None:
    platform.server.add("tenantclusters", make.tenant())


def _omit_pool_refs(platform: Platform) -> None:
    platform.server.add("providerconfigs", make.provider())
    platform.server.add("tenantclusters", make.tenant())


def _omit_credentials(platform: Platform) -> None:
    spec = {"provider": "aws", "credentialsRef": {"name": "missing"}}
    platform.server.add("providerconfigs", make.provider("lab", spec=spec))


def _remove_kubeconfig(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    platform.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")


def _remove_metallb(platform: Platform) -> None:
    """Let a tenant serve Services only, not the kinds of MetalLB."""
    _add_healthy_cluster(platform)
    platform.tenants["a"].served = ("services",)


def _make_tenant_unreachable(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    platform.tenants["a"].fail(NoAnswer("timed out"), times=10_000)


def _make_tenant_of_deleted_cluster_unreachable(platform: Platform) -> None:
    _make_tenant_unreachable(platform)
    begun = {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}
    platform.server.add("tenantclusters", make.tenant(annotations=begun))
    platform.server.add("ipallocations", make.allocation("team-a-lb", held_range=FIRST_EIGHT))
    platform.server.delete("tenantclusters", "a", namespace="team")


def _keep_service_with_released_address(platform: Platform) -> None:
    """Delete an allocation while a Service of its tenant still shows one of its addresses."""
    _add_healthy_cluster(platform)
    allocation = make.allocation("team-a-lb", held_range=FIRST_EIGHT)
    platform.server.add("ipallocations", allocation)
    status = {"loadBalancer": {"ingress": [{"ip": "10.40.0.3"}]}}
    meta = {"name": "web", "namespace": "default"}
    spec = {"type": "LoadBalancer"}
    platform.tenants["a"].add("services", {"metadata": meta, "spec": spec, "status": status})
    platform.server.delete("ipallocations", "team-a-lb")


def _add_unreadable_allocation(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    odd = {"metadata": {"name": "odd", "namespace": make.NAMESPACE}, "spec": {"count": "many"}}
    platform.server.add("ipallocations", odd)


def _refuse_status_of_allocation(platform: Platform) -> None:
    """Add an allocation whose status is refused as invalid in each write."""
    _add_healthy_cluster(platform)
    platform.server.add("ipallocations", make.allocation("bad", tenant="x/y"))
    platform.server.fail(
        Invalid(422, "Invalid", "odd"),
        times=10_000,
        verb="patch",
        name="bad",
        subresource="status",
    )


def _reset_phase(platform: Platform) -> None:
    """Add an allocation that holds a range, but whose phase another writer set to Pending."""
    _add_healthy_cluster(platform)
    wiped = make.allocation("wiped", tenant="x/y", held_range=FIRST_EIGHT, phase="Pending")
    platform.server.add("ipallocations", wiped)


def _add_overlapping_allocations(platform: Platform) -> None:
    _add_healthy_cluster(platform)
    for name in ("one", "two"):
        platform.server.add(
            "ipallocations", make.allocation(name, tenant="x/y", held_range=FIRST_EIGHT)
        )


def _add_overlapping_and_fragmented_pools(platform: Platform) -> None:
    """Add two overlapping pools, one nearly full with a range outside, and a fragmented one."""
    _add_healthy_cluster(platform)
    platform.server.add("networkpools", make.pool("other", cidr="10.40.0.0/28"))
    platform.server.add("networkpools", make.pool("bits", cidr="10.60.0.0/27"))
    for number in range(0, 32, 2):
        held_range = (f"10.60.0.{number}", f"10.60.0.{number}")
        allocation = make.allocation(
            f"bit{number}", of="bits", tenant="x/y", held_range=held_range
        )
        platform.server.add("ipallocations", allocation)
    for name, held_range in (
        ("full", ("10.40.0.0", "10.40.0.14")),
        ("out", ("10.99.0.0", "10.99.0.1")),
    ):
        allocation = make.allocation(name, of="other", tenant="x/y", held_range=held_range)
        platform.server.add("ipallocations", allocation)


def _add_orphans_that_are_kept(platform: Platform) -> None:
    """Add an allocation whose owner was never seen, and more orphans than are deleted at once."""
    _add_healthy_cluster(platform)
    platform.server.add("ipallocations", make.allocation("early", tenant="x/y"))
    stamped = {names.ANNOTATION_TENANT_UID: "gone"}
    for number in range(11):
        lost = make.allocation(f"lost{number}", tenant="x/z", size=1, annotations=stamped)
        platform.server.add("ipallocations", lost)


def _name_missing_team(platform: Platform) -> None:
    scope = {"type": "team", "teamRef": {"name": "missing"}}
    platform.server.served = (*platform.server.served, "teams")
    provider = make.provider("lab", spec={"provider": "local", "scope": scope})
    platform.server.add("providerconfigs", provider)


def _add_elastic_tenant(platform: Platform, *services: str, quota: int | None = None) -> None:
    """Add a healthy tenant whose range grows with its Services, which no MetalLB serves.

    Args:
        platform: where the tenant is added.
        services: the names of Services of type LoadBalancer in the tenant.
        quota: the most load balancer addresses of the tenant; None means no limit.
    """
    _add_healthy_cluster(platform)
    sizing = {"allocationMode": "elastic", "growthIncrement": 1}
    limits = {"maxLoadBalancerIPs": quota} if quota else {}
    provider = make.provider("lab", load_balancer=sizing, quota=limits)
    platform.server.add("providerconfigs", provider)
    for name in services:
        meta = {"name": name, "namespace": "default"}
        spec = {"type": "LoadBalancer"}
        platform.tenants["a"].add("services", {"metadata": meta, "spec": spec})


def _add_elastic_tenant_without_services(platform: Platform) -> None:
    _add_elastic_tenant(platform)


def _add_elastic_tenant_over_quota(platform: Platform) -> None:
    _add_elastic_tenant(platform, "one", "two", "three", "four", quota=3)


def _add_elastic_tenant_without_working_metallb(platform: Platform) -> None:
    _add_elastic_tenant(platform, "one", "two", "three", "four")


def _add_elastic_tenant_in_full_pool(platform: Platform) -> None:
    _add_elastic_tenant(platform, "one", "two", "three", "four")
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/29"))


def _add_unreachable_elastic_tenant(platform: Platform) -> None:
    _add_elastic_tenant(platform, "one")
    platform.tenants["a"].fail(NoAnswer("timed out"), times=10_000)


FAULTS: list[tuple[Callable[[Platform], None], int, int]] = [
    # what sets up the fault, the most requests to the management cluster, and writes among them
    (_add_healthy_cluster, 0, 0),
    (_add_invalid_pool, 1, 0),
    (_omit_pool, 1, 0),
    (_add_terminating_pool, 1, 0),
    (_add_full_pool, 1, 0),
    (_add_pins_that_cannot_be_served, 0, 0),
    (_omit_provider, 1, 0),
    (_omit_pool_refs, 1, 0),
    (_omit_credentials, 11, 0),
    (_remove_kubeconfig, 25, 0),
    (_remove_metallb, 1, 0),
    (_make_tenant_unreachable, 12, 0),
    (_make_tenant_of_deleted_cluster_unreachable, 20, 0),
    (_add_elastic_tenant_without_services, 0, 0),
    (_add_elastic_tenant_over_quota, 0, 0),
    (_add_elastic_tenant_without_working_metallb, 0, 0),
    (_add_elastic_tenant_in_full_pool, 1, 0),
    (_add_unreachable_elastic_tenant, 20, 0),
    (_keep_service_with_released_address, 1, 0),
    (_add_unreadable_allocation, 2, 0),
    (_refuse_status_of_allocation, 15, 15),
    (_reset_phase, 0, 0),
    (_add_overlapping_allocations, 0, 0),
    (_add_overlapping_and_fragmented_pools, 0, 0),
    (_add_orphans_that_are_kept, 0, 0),
    (_name_missing_team, 11, 0),
]


@pytest.mark.parametrize(
    ("set_up_fault", "requests", "writes"), FAULTS, ids=[case[0].__name__[1:] for case in FAULTS]
)
async def test_a_failure_that_lasts_causes_no_endless_writes(
    set_up_fault: Callable[[Platform], None], requests: int, writes: int
) -> None:
    """In five minutes few requests are sent, besides watches and events, and no tenant is changed.

    Args:
        set_up_fault: adds objects and a fault to an empty platform.
        requests: the most requests to the management cluster.
        writes: the most writes among them.
    """
    platform = Platform()
    set_up_fault(platform)
    async with platform.running():
        await platform.clock.advance(180)
        platform.server.requests.clear()
        changes_before = [len(tenant.history) for tenant in platform.tenants.values()]
        await platform.clock.advance(300)
        sent = [r for r in platform.server.requests if r.verb != "watch"]
        sent = [r for r in sent if r.plural != "events"]
    # To confirm that the kind ButlerConfig is absent takes two discovery documents and one LIST.
    confirming = [r for r in sent if r.plural == "customresourcedefinitions"]
    confirming += [r for r in sent if r.verb == "discover"]
    assert len(confirming) <= 3, _count_equal_requests(confirming)
    sent = [r for r in sent if r not in confirming]
    written = [r for r in sent if r.verb in {"patch", "post", "delete"}]
    assert len(written) <= writes, _count_equal_requests(written)
    assert len(sent) <= requests, _count_equal_requests(sent)
    assert changes_before == [len(tenant.history) for tenant in platform.tenants.values()]


def _count_equal_requests(sent: list[Any]) -> dict[Any, int]:
    """Return how often each request was sent, to be shown when a test fails."""
    return {request: sent.count(request) for request in sent}
