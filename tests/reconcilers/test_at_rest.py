"""Whatever is wrong for good, the controllers come to rest: said once, and looked at now and then.

Each case sets up trouble that is not mended, lets a few minutes pass, and then counts what is sent
in five more: nothing is written, and little is read.
"""

from collections.abc import Callable
from typing import Any

import pytest

from controller.errors import Invalid, NoAnswer
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.platform import Platform

HELD = ("10.40.0.0", "10.40.0.7")


def _healthy(platform: Platform) -> None:
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.tenant("a")
    platform.server.add("tenantclusters", make.tenant())


def _unsound_pool(platform: Platform) -> None:
    _healthy(platform)
    platform.server.add("networkpools", make.pool(reserved=["10.99.0.0/28"]))
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _missing_pool(platform: Platform) -> None:
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.server.add("tenantclusters", make.tenant())
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _leaving_pool(platform: Platform) -> None:
    _healthy(platform)
    platform.server.add("ipallocations", make.allocation("holder", tenant="x/y", held_range=HELD))
    platform.server.delete("networkpools", "lab")
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _no_room(platform: Platform) -> None:
    _healthy(platform)
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/30"))
    platform.server.add("ipallocations", make.allocation("waiting", tenant="x/y"))


def _pins_that_cannot_be(platform: Platform) -> None:
    _healthy(platform)
    for number, pin in enumerate([HELD, HELD, ("10.99.0.0", "10.99.0.1")]):
        allocation = make.allocation(f"pin{number}", tenant="x/y", pin=pin)
        platform.server.add("ipallocations", allocation)


def _no_provider(platform: Platform) -> None:
    platform.server.add("tenantclusters", make.tenant())


def _no_pool_refs(platform: Platform) -> None:
    platform.server.add("providerconfigs", make.provider())
    platform.server.add("tenantclusters", make.tenant())


def _no_credentials(platform: Platform) -> None:
    spec = {"provider": "aws", "credentialsRef": {"name": "missing"}}
    platform.server.add("providerconfigs", make.provider("lab", spec=spec))


def _no_kubeconfig(platform: Platform) -> None:
    _healthy(platform)
    platform.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")


def _no_metallb(platform: Platform) -> None:
    _healthy(platform)
    platform.tenants["a"].served = ("services",)


def _silent_tenant(platform: Platform) -> None:
    _healthy(platform)
    platform.tenants["a"].fail(NoAnswer("timed out"), times=10_000)


def _silent_tenant_of_a_deleted_cluster(platform: Platform) -> None:
    _silent_tenant(platform)
    begun = {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}
    platform.server.add("tenantclusters", make.tenant(annotations=begun))
    platform.server.add("ipallocations", make.allocation("team-a-lb", held_range=HELD))
    platform.server.delete("tenantclusters", "a", namespace="team")


def _clinging_service(platform: Platform) -> None:
    _healthy(platform)
    allocation = make.allocation("team-a-lb", held_range=HELD)
    platform.server.add("ipallocations", allocation)
    status = {"loadBalancer": {"ingress": [{"ip": "10.40.0.3"}]}}
    meta = {"name": "web", "namespace": "default"}
    spec = {"type": "LoadBalancer"}
    platform.tenants["a"].add("services", {"metadata": meta, "spec": spec, "status": status})
    platform.server.delete("ipallocations", "team-a-lb")


def _unreadable_allocation(platform: Platform) -> None:
    _healthy(platform)
    odd = {"metadata": {"name": "odd", "namespace": make.NAMESPACE}, "spec": {"count": "many"}}
    platform.server.add("ipallocations", odd)


def _refused_for_good(platform: Platform) -> None:
    _healthy(platform)
    platform.server.add("ipallocations", make.allocation("bad", tenant="x/y"))
    platform.server.fail(
        Invalid(422, "Invalid", "odd"),
        times=10_000,
        verb="patch",
        name="bad",
        subresource="status",
    )


def _a_phase_was_wiped(platform: Platform) -> None:
    _healthy(platform)
    wiped = make.allocation("wiped", tenant="x/y", held_range=HELD, phase="Pending")
    platform.server.add("ipallocations", wiped)


def _overlap_that_others_made(platform: Platform) -> None:
    _healthy(platform)
    for name in ("one", "two"):
        platform.server.add("ipallocations", make.allocation(name, tenant="x/y", held_range=HELD))


def _pools_amiss(platform: Platform) -> None:
    """Pools that overlap, one of them in bits and one nearly full, with ranges outside."""
    _healthy(platform)
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


def _orphans_that_stay(platform: Platform) -> None:
    """An owner that was never seen, and more orphans at once than are collected."""
    _healthy(platform)
    platform.server.add("ipallocations", make.allocation("early", tenant="x/y"))
    stamped = {names.ANNOTATION_TENANT_UID: "gone"}
    for number in range(11):
        lost = make.allocation(f"lost{number}", tenant="x/z", size=1, annotations=stamped)
        platform.server.add("ipallocations", lost)


def _a_team_that_does_not_exist(platform: Platform) -> None:
    scope = {"type": "team", "teamRef": {"name": "missing"}}
    platform.server.served = (*platform.server.served, "teams")
    provider = make.provider("lab", spec={"provider": "local", "scope": scope})
    platform.server.add("providerconfigs", provider)


def _elastic(platform: Platform, *services: str, quota: int | None = None) -> None:
    _healthy(platform)
    sizing = {"allocationMode": "elastic", "growthIncrement": 1}
    limits = {"maxLoadBalancerIPs": quota} if quota else {}
    provider = make.provider("lab", load_balancer=sizing, quota=limits)
    platform.server.add("providerconfigs", provider)
    for name in services:
        meta = {"name": name, "namespace": "default"}
        spec = {"type": "LoadBalancer"}
        platform.tenants["a"].add("services", {"metadata": meta, "spec": spec})


def _an_elastic_tenant_without_services(platform: Platform) -> None:
    _elastic(platform)


def _an_elastic_tenant_over_its_quota(platform: Platform) -> None:
    _elastic(platform, "one", "two", "three", "four", quota=3)


def _an_elastic_tenant_whose_metallb_serves_no_service(platform: Platform) -> None:
    _elastic(platform, "one", "two", "three", "four")


def _an_elastic_tenant_without_room(platform: Platform) -> None:
    _elastic(platform, "one", "two", "three", "four")
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/29"))


def _a_silent_elastic_tenant(platform: Platform) -> None:
    _elastic(platform, "one")
    platform.tenants["a"].fail(NoAnswer("timed out"), times=10_000)


TROUBLES: list[tuple[Callable[[Platform], None], int, int]] = [
    # the trouble, requests to the management cluster, writes among them
    (_healthy, 0, 0),
    (_unsound_pool, 1, 0),
    (_missing_pool, 1, 0),
    (_leaving_pool, 1, 0),
    (_no_room, 1, 0),
    (_pins_that_cannot_be, 0, 0),
    (_no_provider, 1, 0),
    (_no_pool_refs, 1, 0),
    (_no_credentials, 11, 0),
    (_no_kubeconfig, 25, 0),
    (_no_metallb, 1, 0),
    (_silent_tenant, 12, 0),
    (_silent_tenant_of_a_deleted_cluster, 20, 0),
    (_an_elastic_tenant_without_services, 0, 0),
    (_an_elastic_tenant_over_its_quota, 0, 0),
    (_an_elastic_tenant_whose_metallb_serves_no_service, 0, 0),
    (_an_elastic_tenant_without_room, 1, 0),
    (_a_silent_elastic_tenant, 20, 0),
    (_clinging_service, 1, 0),
    (_unreadable_allocation, 2, 0),
    (_refused_for_good, 15, 15),
    (_a_phase_was_wiped, 0, 0),
    (_overlap_that_others_made, 0, 0),
    (_pools_amiss, 0, 0),
    (_orphans_that_stay, 0, 0),
    (_a_team_that_does_not_exist, 11, 0),
]


@pytest.mark.parametrize(
    ("trouble", "requests", "writes"), TROUBLES, ids=[case[0].__name__[1:] for case in TROUBLES]
)
async def test_a_failure_that_lasts_causes_no_endless_writes(
    trouble: Callable[[Platform], None], requests: int, writes: int
) -> None:
    platform = Platform()
    trouble(platform)
    async with platform.running():
        await platform.clock.advance(180)
        platform.server.requests.clear()
        before = [len(tenant.history) for tenant in platform.tenants.values()]
        await platform.clock.advance(300)
        sent = [r for r in platform.server.requests if r.verb != "watch"]
        sent = [r for r in sent if r.plural != "events"]
    # That the kind of the platform's default is absent takes two documents and the definitions.
    confirming = [r for r in sent if r.plural == "customresourcedefinitions"]
    confirming += [r for r in sent if r.verb == "discover"]
    assert len(confirming) <= 3, _sum_requests(confirming)
    sent = [r for r in sent if r not in confirming]
    written = [r for r in sent if r.verb in {"patch", "post", "delete"}]
    assert len(written) <= writes, _sum_requests(written)
    assert len(sent) <= requests, _sum_requests(sent)
    assert before == [len(tenant.history) for tenant in platform.tenants.values()]


def _sum_requests(sent: list[Any]) -> dict[Any, int]:
    return {request: sent.count(request) for request in sent}
