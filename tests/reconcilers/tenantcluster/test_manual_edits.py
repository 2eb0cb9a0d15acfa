"""All of spec of what we write into a tenant is ours: edits are written back, and reported."""

from typing import Any

import pytest

from controller.errors import NoAnswer, Unauthorized
from controller.outcome import Again, Blocked
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from tests.reconcilers import make
from tests.reconcilers.lab import AT_ONCE, Lab
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
HELD = ("10.40.0.0", "10.40.0.7")
OTHER = ("10.40.0.8", "10.40.0.15")
POOL = ("ipaddresspools", "default-pool")
ADVERTISEMENT = ("l2advertisements", "default")
RIGHT = {"addresses": ["10.40.0.0-10.40.0.7"]}
TOLD = "ManualEditOverwritten"


async def _project() -> tuple[Lab, Server]:
    """Return a cluster that is Ready, and its tenant, which has what it should have."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add("ipallocations", make.allocation("team-a-lb", held_range=HELD))
    tenant = lab.tenant_server("a")
    await lab.cluster()
    return lab, tenant


def _spec(tenant: Server, object_path: tuple[str, str]) -> Json:
    spec: Json = tenant.see(*object_path, namespace=METALLB)["spec"]
    return spec


def _edit(tenant: Server, object_path: tuple[str, str] = POOL, **spec: Any) -> None:
    tenant.edit(*object_path, {"spec": spec or {"autoAssign": False}}, namespace=METALLB)


def _read_condition(lab: Lab) -> tuple[str, str]:
    condition = lab.condition("tenantclusters", "a", kind="LoadBalancerReady", namespace="team")
    return condition["status"], condition["reason"]


@pytest.mark.parametrize(
    "edit",
    [
        {"autoAssign": False},
        {"avoidBuggyIPs": True},
        {"serviceAllocation": {"priority": 10, "namespaces": ["other"]}},
        {"addresses": ["10.99.0.0/24"]},
        {"addresses": ["10.99.0.0/24"], "autoAssign": False},
    ],
    ids=" and ".join,
)
async def test_edits_of_our_pool_by_others_are_undone_and_recorded_as_events(edit: Json) -> None:
    lab, tenant = await _project()
    _edit(tenant, **edit)
    await lab.cluster()
    assert _spec(tenant, POOL) == RIGHT
    (event,) = [event for event in lab.recorded.events if event[1] == TOLD]
    assert all(field in event[2] for field in edit)
    tenant.requests.clear()
    await lab.cluster()
    assert {request.verb for request in tenant.requests} == {"get", "list"}, "nothing to write"


@pytest.mark.parametrize(
    "edit",
    [
        {"ipAddressPools": ["other"]},
        {"ipAddressPools": None},
        {"interfaces": ["eth0"]},
        {"nodeSelectors": [{"matchLabels": {"a": "b"}}]},
        {"serviceSelectors": [{"matchLabels": {"a": "b"}}]},
        {"preferredNodeSelectors": [{"weight": 1, "preference": {"matchLabels": {"a": "b"}}}]},
        {"ipAddressPools": ["default-pool", "other"]},
    ],
    ids=str,
)
async def test_edits_of_our_advertisement_by_others_are_undone_and_recorded_as_events(
    edit: Json,
) -> None:
    lab, tenant = await _project()
    _edit(tenant, ADVERTISEMENT, **edit)
    await lab.cluster()
    assert _spec(tenant, ADVERTISEMENT) == {"ipAddressPools": ["default-pool"]}
    assert lab.recorded.reasons.count(TOLD) == 1


async def test_an_advertisement_of_ours_that_others_replace_is_ours_again() -> None:
    """As `kubectl replace` leaves it: with another spec, and without our annotations."""
    lab, tenant = await _project()
    before = tenant.see(*ADVERTISEMENT, namespace=METALLB)["metadata"]["annotations"]
    bare = {"metadata": {"annotations": dict.fromkeys(before)}}
    tenant.edit(*ADVERTISEMENT, bare, namespace=METALLB)
    _edit(tenant, ADVERTISEMENT, nodeSelectors=[{"matchLabels": {"a": "b"}}])
    await lab.cluster()
    assert _spec(tenant, ADVERTISEMENT) == {"ipAddressPools": ["default-pool"]}
    noted = tenant.see(*ADVERTISEMENT, namespace=METALLB)["metadata"]["annotations"]
    assert noted.keys() == before.keys()
    assert lab.recorded.reasons.count(TOLD) == 1


async def test_an_advertisement_of_others_that_has_our_pool_stays_as_it_is() -> None:
    lab, tenant = await _project()
    tenant.vanish(*ADVERTISEMENT, namespace=METALLB)
    meta = {"name": "default", "namespace": METALLB}
    theirs = {"ipAddressPools": ["default-pool"], "interfaces": ["eth0"]}
    fresh = lab.another()
    tenant.add("l2advertisements", {"metadata": meta, "spec": theirs})
    await fresh.clusters.reconcile(make.key("a", "team"))
    assert _spec(tenant, ADVERTISEMENT) == theirs


@pytest.mark.parametrize("object_path", [POOL, ADVERTISEMENT], ids=["pool", "advertisement"])
async def test_objects_that_others_delete_are_recreated_and_recorded_as_events(
    object_path: tuple[str, str],
) -> None:
    lab, tenant = await _project()
    tenant.vanish(*object_path, namespace=METALLB)
    await lab.cluster()
    assert tenant.has(*object_path, namespace=METALLB)
    assert lab.recorded.reasons.count(TOLD) == 1


async def test_our_own_changes_are_not_recorded_as_corrections() -> None:
    lab, tenant = await _project()
    lab.server.add("ipallocations", make.allocation("team-a-lb-1", held_range=OTHER))
    await lab.cluster()
    lab.server.delete("ipallocations", "team-a-lb-1")
    await lab.cluster()
    assert _spec(tenant, POOL) == RIGHT
    assert TOLD not in lab.recorded.reasons


async def test_the_event_names_the_field_manager_that_wrote() -> None:
    lab, tenant = await _project()
    writers = [
        {"manager": "butler-controller/ipam", "time": "2026-01-01T00:00:05Z"},
        {"manager": "helm", "time": "2026-01-01T00:00:01Z"},
        {"manager": "kubectl-edit", "time": "2026-01-01T00:00:04Z"},
        {"manager": "controller", "time": "2026-01-01T00:00:09Z", "subresource": "status"},
    ]
    change = {"metadata": {"managedFields": writers}, "spec": {"autoAssign": False}}
    tenant.edit(*POOL, change, namespace=METALLB)
    await lab.cluster()
    (message,) = [note for _, reason, note in lab.recorded.events if reason == TOLD]
    assert "IPAddressPool default-pool (autoAssign by kubectl-edit)" in message


async def test_a_writer_that_keeps_overwriting_is_corrected_ever_less_often_and_reported() -> None:
    lab, tenant = await _project()
    written = 0
    for _ in range(600):
        _edit(tenant)
        before = tenant.revision
        await lab.cluster()
        written += tenant.revision > before
        await lab.clock.advance(1)
    assert 5 < written < 15
    assert _read_condition(lab) == ("False", "Contested")
    message = lab.condition("tenantclusters", "a", kind="LoadBalancerReady", namespace="team")[
        "message"
    ]
    assert "autoAssign" in message
    assert lab.see("tenantclusters", "a", "team")["phase"] == "Ready"


@pytest.mark.parametrize(
    "object_path", [POOL, ADVERTISEMENT], ids=["annotations", "advertisement"]
)
async def test_a_writer_that_also_removes_our_annotation_is_treated_the_same(
    object_path: tuple[str, str],
) -> None:
    lab, tenant = await _project()
    theirs: Json = {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BASIS: None}}}
    if object_path == ADVERTISEMENT:
        theirs |= {"spec": {"ipAddressPools": ["other"]}}
    written = 0
    for _ in range(600):
        tenant.edit(*object_path, theirs, namespace=METALLB)
        before = tenant.revision
        await lab.cluster()
        written += tenant.revision > before
        await lab.clock.advance(1)
    assert 5 < written < 15
    assert _read_condition(lab) == ("False", "Contested")


async def test_what_is_contested_is_written_all_the_same_when_a_range_comes_or_goes() -> None:
    lab, tenant = await _project()
    for _ in range(20):
        _edit(tenant)
        await lab.cluster()
    assert _spec(tenant, POOL)["autoAssign"] is False
    lab.server.add("ipallocations", make.allocation("team-a-lb-1", held_range=OTHER))
    await lab.cluster()
    assert _spec(tenant, POOL) == {"addresses": ["10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"]}
    for _ in range(20):
        _edit(tenant)
        await lab.cluster()
    lab.server.delete("ipallocations", "team-a-lb-1")
    await lab.cluster()
    assert _spec(tenant, POOL) == RIGHT


async def test_a_contest_is_over_when_the_other_writer_stops() -> None:
    lab, tenant = await _project()
    for _ in range(60):
        _edit(tenant)
        await lab.cluster()
        await lab.clock.advance(1)
    assert _read_condition(lab) == ("False", "Contested")
    for _ in range(200):
        await lab.cluster()
        await lab.clock.advance(1)
    assert _spec(tenant, POOL) == RIGHT
    assert _read_condition(lab) == ("True", "Ready")


@pytest.mark.slow
@pytest.mark.parametrize("object_path", [POOL, ADVERTISEMENT], ids=["pool", "advertisement"])
async def test_a_contest_is_over_when_the_other_writer_takes_its_last_edit_back(
    object_path: tuple[str, str],
) -> None:
    lab, tenant = await _project()
    field, theirs = ("autoAssign", False) if object_path == POOL else ("interfaces", ["eth0"])
    for _ in range(20):
        _edit(tenant, object_path, **{field: theirs})
        await lab.cluster()
    assert _spec(tenant, object_path)[field] == theirs
    _edit(tenant, object_path, **{field: None})
    for _ in range(700):
        await lab.cluster()
        await lab.clock.advance(1)
    assert _read_condition(lab) == ("True", "Ready")
    assert await lab.cluster() == Again(lab.settings.tenant.requeue_young)


async def test_an_unreachable_tenant_is_not_looked_at_every_second_because_of_a_contest() -> None:
    lab, tenant = await _project()
    for _ in range(20):
        _edit(tenant)
        await lab.cluster()
    tenant.fail(NoAnswer("no route to host"), times=10**6)
    await lab.clock.advance(1_000)
    await lab.cluster()
    assert await lab.cluster() == Blocked("TenantUnreachable", 30.0)


@pytest.mark.parametrize("has_secret", [True, False], ids=["refused", "without Secret"])
async def test_a_tenant_that_cannot_be_entered_is_not_looked_at_every_second_because_of_a_contest(
    has_secret: bool,
) -> None:
    lab, tenant = await _project()
    for _ in range(20):
        _edit(tenant)
        await lab.cluster()
    tenant.fail(Unauthorized(401, "Unauthorized", "Unauthorized"), times=10**6)
    if not has_secret:
        (secret,) = lab.server.all("secrets")
        meta = secret["metadata"]
        lab.server.vanish("secrets", meta["name"], namespace=meta["namespace"])
    await lab.clock.advance(1_000)
    await lab.cluster()
    reason = "Unauthorized" if has_secret else "KubeconfigMissing"
    assert await lab.cluster() == Blocked(reason, 30.0)


@pytest.mark.parametrize("sizing", [None, {"allocationMode": "elastic"}], ids=str)
async def test_edits_are_seen_within_seconds_in_every_mode(sizing: Json | None) -> None:
    platform = Platform(AT_ONCE)
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab", load_balancer=sizing))
    platform.server.add("tenantclusters", make.tenant())
    tenant = platform.tenant("a")
    async with platform.running() as manager:
        await platform.clock.advance(5)
        assert platform.phase(TENANT_CLUSTER.plural, "a", "team") == "Ready"
        right = _spec(tenant, POOL)
        _edit(tenant)
        _edit(tenant, ADVERTISEMENT, interfaces=["eth0"])
        await platform.clock.advance(2)
        assert _spec(tenant, POOL) == right
        assert _spec(tenant, ADVERTISEMENT) == {"ipAddressPools": ["default-pool"]}
        for object_path in (POOL, ADVERTISEMENT):
            tenant.vanish(*object_path, namespace=METALLB)
        await platform.clock.advance(2)
        assert _spec(tenant, POOL) == right
        assert tenant.has(*ADVERTISEMENT, namespace=METALLB)
        counted = {
            kind: manager.metrics.registry.get_sample_value(
                "butler_tenant_corrections_total", {"kind": kind}
            )
            for kind in ("IPAddressPool", "L2Advertisement")
        }
        assert counted == {"IPAddressPool": 2.0, "L2Advertisement": 2.0}
