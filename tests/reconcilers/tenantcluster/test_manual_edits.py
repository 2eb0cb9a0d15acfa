"""Edits of the objects that we write into a tenant: their spec is corrected and reported.

If another writer repeats its edit, we correct it less and less often. The condition
LoadBalancerReady has the reason Contested then.
"""

from typing import Any

import pytest

from controller.errors import NoAnswer, Unauthorized
from controller.outcome import Again, Blocked
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from tests.reconcilers import make
from tests.reconcilers.lab import SETTINGS_WITHOUT_WAITS, Lab
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
HELD_RANGE = ("10.40.0.0", "10.40.0.7")
OTHER_RANGE = ("10.40.0.8", "10.40.0.15")
POOL_PATH = ("ipaddresspools", "default-pool")
ADVERTISEMENT_PATH = ("l2advertisements", "default")
OUR_SPEC = {"addresses": ["10.40.0.0-10.40.0.7"]}
OVERWRITTEN = "ManualEditOverwritten"


async def _make_projected_lab() -> tuple[Lab, Server]:
    """Return a lab whose Ready cluster is projected, and the API server of its tenant."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add("ipallocations", make.allocation("team-a-lb", held_range=HELD_RANGE))
    tenant = lab.start_tenant_server("a")
    await lab.run_cluster_pass()
    return lab, tenant


def _read_spec(tenant: Server, object_path: tuple[str, str]) -> Json:
    """Return the spec of an object of MetalLB, by plural and name."""
    spec: Json = tenant.see(*object_path, namespace=METALLB)["spec"]
    return spec


def _edit(tenant: Server, object_path: tuple[str, str] = POOL_PATH, **spec: Any) -> None:
    """Change fields of the spec of an object, as a user would; by default turn autoAssign off."""
    tenant.edit(*object_path, {"spec": spec or {"autoAssign": False}}, namespace=METALLB)


async def repeat_foreign_edit(
    lab: Lab, tenant: Server, *, passes: int, seconds: float = 0.0
) -> None:
    """Have another writer turn autoAssign of our pool off before each pass over the cluster.

    Args:
        tenant: the API server of the tenant.
        passes: the number of edits, and of passes.
        seconds: the time that passes after each pass.
    """
    for _ in range(passes):
        _edit(tenant)
        await lab.run_cluster_pass()
        await lab.clock.advance(seconds)


def _read_condition(lab: Lab) -> tuple[str, str]:
    """Return status and reason of the condition LoadBalancerReady."""
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )
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
    lab, tenant = await _make_projected_lab()
    _edit(tenant, **edit)
    await lab.run_cluster_pass()
    assert _read_spec(tenant, POOL_PATH) == OUR_SPEC
    (event,) = [event for event in lab.recorded.events if event[1] == OVERWRITTEN]
    assert all(field in event[2] for field in edit)
    tenant.requests.clear()
    await lab.run_cluster_pass()
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
    lab, tenant = await _make_projected_lab()
    _edit(tenant, ADVERTISEMENT_PATH, **edit)
    await lab.run_cluster_pass()
    assert _read_spec(tenant, ADVERTISEMENT_PATH) == {"ipAddressPools": ["default-pool"]}
    assert lab.recorded.reasons.count(OVERWRITTEN) == 1


async def test_an_advertisement_that_others_replace_gets_our_spec_and_annotations_again() -> None:
    """`kubectl replace` leaves it with another spec, and without our annotations."""
    lab, tenant = await _make_projected_lab()
    before = tenant.see(*ADVERTISEMENT_PATH, namespace=METALLB)["metadata"]["annotations"]
    bare = {"metadata": {"annotations": dict.fromkeys(before)}}
    tenant.edit(*ADVERTISEMENT_PATH, bare, namespace=METALLB)
    _edit(tenant, ADVERTISEMENT_PATH, nodeSelectors=[{"matchLabels": {"a": "b"}}])
    await lab.run_cluster_pass()
    assert _read_spec(tenant, ADVERTISEMENT_PATH) == {"ipAddressPools": ["default-pool"]}
    noted = tenant.see(*ADVERTISEMENT_PATH, namespace=METALLB)["metadata"]["annotations"]
    assert noted.keys() == before.keys()
    assert lab.recorded.reasons.count(OVERWRITTEN) == 1


async def test_an_advertisement_of_others_that_announces_our_pool_is_not_changed() -> None:
    lab, tenant = await _make_projected_lab()
    tenant.vanish(*ADVERTISEMENT_PATH, namespace=METALLB)
    meta = {"name": "default", "namespace": METALLB}
    theirs = {"ipAddressPools": ["default-pool"], "interfaces": ["eth0"]}
    fresh = lab.make_replica()
    tenant.add("l2advertisements", {"metadata": meta, "spec": theirs})
    await fresh.clusters.reconcile(make.key("a", "team"))
    assert _read_spec(tenant, ADVERTISEMENT_PATH) == theirs


@pytest.mark.parametrize(
    "object_path", [POOL_PATH, ADVERTISEMENT_PATH], ids=["pool", "advertisement"]
)
async def test_objects_that_others_delete_are_recreated_and_recorded_as_events(
    object_path: tuple[str, str],
) -> None:
    lab, tenant = await _make_projected_lab()
    tenant.vanish(*object_path, namespace=METALLB)
    await lab.run_cluster_pass()
    assert tenant.has(*object_path, namespace=METALLB)
    assert lab.recorded.reasons.count(OVERWRITTEN) == 1


async def test_our_own_changes_are_not_recorded_as_corrections() -> None:
    lab, tenant = await _make_projected_lab()
    lab.server.add("ipallocations", make.allocation("team-a-lb-1", held_range=OTHER_RANGE))
    await lab.run_cluster_pass()
    lab.server.delete("ipallocations", "team-a-lb-1")
    await lab.run_cluster_pass()
    assert _read_spec(tenant, POOL_PATH) == OUR_SPEC
    assert OVERWRITTEN not in lab.recorded.reasons


async def test_the_event_names_the_field_manager_that_wrote() -> None:
    lab, tenant = await _make_projected_lab()
    writers = [
        {"manager": "butler-controller/ipam", "time": "2026-01-01T00:00:05Z"},
        {"manager": "helm", "time": "2026-01-01T00:00:01Z"},
        {"manager": "kubectl-edit", "time": "2026-01-01T00:00:04Z"},
        {"manager": "controller", "time": "2026-01-01T00:00:09Z", "subresource": "status"},
    ]
    change = {"metadata": {"managedFields": writers}, "spec": {"autoAssign": False}}
    tenant.edit(*POOL_PATH, change, namespace=METALLB)
    await lab.run_cluster_pass()
    (message,) = [note for _, reason, note in lab.recorded.events if reason == OVERWRITTEN]
    assert "IPAddressPool default-pool (autoAssign by kubectl-edit)" in message


async def test_a_writer_that_repeats_its_edit_is_corrected_less_and_less_and_reported() -> None:
    lab, tenant = await _make_projected_lab()
    written = 0
    for _ in range(600):
        _edit(tenant)
        before = tenant.revision
        await lab.run_cluster_pass()
        written += tenant.revision > before
        await lab.clock.advance(1)
    assert 5 < written < 15
    assert _read_condition(lab) == ("False", "Contested")
    message = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )["message"]
    assert "autoAssign" in message
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"


@pytest.mark.parametrize(
    "object_path", [POOL_PATH, ADVERTISEMENT_PATH], ids=["pool", "advertisement"]
)
async def test_a_writer_that_repeatedly_removes_our_annotation_is_corrected_less_and_less(
    object_path: tuple[str, str],
) -> None:
    lab, tenant = await _make_projected_lab()
    theirs: Json = {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BASIS: None}}}
    if object_path == ADVERTISEMENT_PATH:
        theirs |= {"spec": {"ipAddressPools": ["other"]}}
    written = 0
    for _ in range(600):
        tenant.edit(*object_path, theirs, namespace=METALLB)
        before = tenant.revision
        await lab.run_cluster_pass()
        written += tenant.revision > before
        await lab.clock.advance(1)
    assert 5 < written < 15
    assert _read_condition(lab) == ("False", "Contested")


async def test_a_contested_pool_is_written_at_once_when_a_range_is_added_or_removed() -> None:
    lab, tenant = await _make_projected_lab()
    await repeat_foreign_edit(lab, tenant, passes=20)
    assert _read_spec(tenant, POOL_PATH)["autoAssign"] is False
    lab.server.add("ipallocations", make.allocation("team-a-lb-1", held_range=OTHER_RANGE))
    await lab.run_cluster_pass()
    assert _read_spec(tenant, POOL_PATH) == {
        "addresses": ["10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"]
    }
    await repeat_foreign_edit(lab, tenant, passes=20)
    lab.server.delete("ipallocations", "team-a-lb-1")
    await lab.run_cluster_pass()
    assert _read_spec(tenant, POOL_PATH) == OUR_SPEC


async def test_a_contested_pool_is_corrected_and_ready_once_the_other_writer_stops() -> None:
    lab, tenant = await _make_projected_lab()
    await repeat_foreign_edit(lab, tenant, passes=60, seconds=1)
    assert _read_condition(lab) == ("False", "Contested")
    for _ in range(200):
        await lab.run_cluster_pass()
        await lab.clock.advance(1)
    assert _read_spec(tenant, POOL_PATH) == OUR_SPEC
    assert _read_condition(lab) == ("True", "Ready")


@pytest.mark.slow
@pytest.mark.parametrize(
    "object_path", [POOL_PATH, ADVERTISEMENT_PATH], ids=["pool", "advertisement"]
)
async def test_a_contested_object_is_ready_once_the_other_writer_reverts_its_last_edit(
    object_path: tuple[str, str],
) -> None:
    lab, tenant = await _make_projected_lab()
    field, theirs = ("autoAssign", False) if object_path == POOL_PATH else ("interfaces", ["eth0"])
    for _ in range(20):
        _edit(tenant, object_path, **{field: theirs})
        await lab.run_cluster_pass()
    assert _read_spec(tenant, object_path)[field] == theirs
    _edit(tenant, object_path, **{field: None})
    for _ in range(700):
        await lab.run_cluster_pass()
        await lab.clock.advance(1)
    assert _read_condition(lab) == ("True", "Ready")
    assert await lab.run_cluster_pass() == Again(lab.settings.tenant.requeue_young)


async def test_an_unreachable_tenant_with_a_contested_pool_is_retried_after_thirty_seconds() -> (
    None
):
    lab, tenant = await _make_projected_lab()
    await repeat_foreign_edit(lab, tenant, passes=20)
    tenant.fail(NoAnswer("no route to host"), times=10**6)
    await lab.clock.advance(1_000)
    await lab.run_cluster_pass()
    assert await lab.run_cluster_pass() == Blocked("TenantUnreachable", 30.0)


@pytest.mark.parametrize("has_secret", [True, False], ids=["refused", "without Secret"])
async def test_a_tenant_that_denies_access_to_a_contested_pool_is_retried_after_thirty_seconds(
    has_secret: bool,
) -> None:
    lab, tenant = await _make_projected_lab()
    await repeat_foreign_edit(lab, tenant, passes=20)
    tenant.fail(Unauthorized(401, "Unauthorized", "Unauthorized"), times=10**6)
    if not has_secret:
        (secret,) = lab.server.all("secrets")
        meta = secret["metadata"]
        lab.server.vanish("secrets", meta["name"], namespace=meta["namespace"])
    await lab.clock.advance(1_000)
    await lab.run_cluster_pass()
    reason = "Unauthorized" if has_secret else "KubeconfigMissing"
    assert await lab.run_cluster_pass() == Blocked(reason, 30.0)


@pytest.mark.parametrize("sizing", [None, {"allocationMode": "elastic"}], ids=str)
async def test_edits_and_deletions_are_corrected_within_two_seconds(sizing: Json | None) -> None:
    platform = Platform(SETTINGS_WITHOUT_WAITS)
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab", load_balancer=sizing))
    platform.server.add("tenantclusters", make.tenant())
    tenant = platform.tenant("a")
    async with platform.running() as manager:
        await platform.clock.advance(5)
        assert platform.phase(TENANT_CLUSTER.plural, "a", "team") == "Ready"
        our_spec = _read_spec(tenant, POOL_PATH)
        _edit(tenant)
        _edit(tenant, ADVERTISEMENT_PATH, interfaces=["eth0"])
        await platform.clock.advance(2)
        assert _read_spec(tenant, POOL_PATH) == our_spec
        assert _read_spec(tenant, ADVERTISEMENT_PATH) == {"ipAddressPools": ["default-pool"]}
        for object_path in (POOL_PATH, ADVERTISEMENT_PATH):
            tenant.vanish(*object_path, namespace=METALLB)
        await platform.clock.advance(2)
        assert _read_spec(tenant, POOL_PATH) == our_spec
        assert tenant.has(*ADVERTISEMENT_PATH, namespace=METALLB)
        corrections = {
            kind: manager.metrics.registry.get_sample_value(
                "butler_tenant_corrections_total", {"kind": kind}
            )
            for kind in ("IPAddressPool", "L2Advertisement")
        }
        assert corrections == {"IPAddressPool": 2.0, "L2Advertisement": 2.0}
