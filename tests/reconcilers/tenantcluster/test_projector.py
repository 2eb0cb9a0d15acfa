"""The objects that are written to a tenant with MetalLB, and the kubeconfig that is used."""

import base64
from typing import Any

import pytest

from controller.errors import NoAnswer, ServerFailure, Unauthorized
from controller.outcome import Again, Blocked
from reconcilers.api import names
from reconcilers.tenantcluster.projections import make_projection
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
BASIS = names.ANNOTATION_PROJECTION_BASIS
HELD_RANGE = ("10.40.0.0", "10.40.0.7")


def _make_lab(*allocations: Any, **status: Any) -> tuple[Lab, Server]:
    """Return a lab with a Ready cluster, on which no pass has run, and its tenant's API server.

    Args:
        allocations: of the cluster; none for one of load-balancer addresses.
        status: further fields of the status of the cluster.
    """
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"} | status))
    for allocation in allocations or (make.allocation("team-a-lb", held_range=HELD_RANGE),):
        lab.server.add("ipallocations", allocation)
    return lab, lab.start_tenant_server("a")


def _read_pool(tenant: Server) -> Json:
    """Return our IPAddressPool."""
    return tenant.see("ipaddresspools", "default-pool", namespace=METALLB)


def _read_condition(lab: Lab) -> tuple[str, str]:
    """Return status and reason of the condition LoadBalancerReady."""
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )
    return condition["status"], condition["reason"]


def test_entries_are_ordered_by_creation_without_ranges_that_are_being_released() -> None:
    projection = make_projection(
        [
            make.allocation("young", held_range=("10.40.0.0", "10.40.0.0"), age=1),
            make.allocation("b", held_range=("10.40.0.8", "10.40.0.9"), age=9),
            make.allocation("a", held_range=("10.40.0.16", "10.40.0.23"), age=9),
            make.allocation("nodes", held_range=("10.40.0.32", "10.40.0.39"), kind="nodes"),
            make.allocation("pending", age=20),
            make.allocation(
                "deleted",
                held_range=("10.40.0.64", "10.40.0.71"),
                age=30,
                resourceVersion="77",
                deletionTimestamp="2026-01-01T00:00:00Z",
            ),
            make.allocation(
                "marked",
                held_range=("10.40.0.72", "10.40.0.79"),
                resourceVersion="99",
                annotations={names.ANNOTATION_RELEASING: "yes"},
            ),
        ],
        position=500,
    )
    assert projection.entries == (
        "10.40.0.16-10.40.0.23",
        "10.40.0.8-10.40.0.9",
        "10.40.0.0-10.40.0.0",
    )
    assert (projection.basis, projection.needed) == (500, 99)


async def test_a_pool_notes_the_revision_of_the_cache_that_it_was_written_from() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    pool = _read_pool(tenant)
    assert pool["spec"]["addresses"] == ["10.40.0.0-10.40.0.7"]
    position = lab.caches["ipallocations"].position
    assert pool["metadata"]["annotations"][BASIS] == str(position)
    advertisement = tenant.see("l2advertisements", "default", namespace=METALLB)
    assert advertisement["spec"] == {"ipAddressPools": ["default-pool"]}


@pytest.mark.parametrize("phase", ["Ready", "Installing"])
async def test_the_first_projection_is_recorded_on_the_cluster_before_the_tenant_is_written(
    phase: str,
) -> None:
    nodes = make.allocation("team-a-nodes", kind="nodes", held_range=("10.40.0.8", "10.40.0.12"))
    lab, tenant = _make_lab(
        make.allocation("team-a-lb", held_range=HELD_RANGE), nodes, phase=phase
    )
    lab.server.fail(ServerFailure(500, "", "no"), verb="patch", plural="tenantclusters")
    with pytest.raises(ServerFailure):
        await lab.run_cluster_pass()
    assert not {request.verb for request in tenant.requests} - {"get", "list", "discover"}
    await lab.run_cluster_pass()
    meta = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert meta["annotations"][names.ANNOTATION_PROJECTION_BEGUN] == "2026-01-01T00:00:00Z"


async def test_no_pool_is_created_for_an_allocation_that_a_live_read_shows_as_deleted() -> None:
    lab, tenant = _make_lab()
    lab.hold_events("ipallocations")
    lab.server.delete("ipallocations", "team-a-lb")
    assert await lab.run_cluster_pass() == Again(1.0)
    assert tenant.all("ipaddresspools") == []


async def test_an_edited_pool_is_corrected_once_and_then_only_read() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    tenant.edit(
        "ipaddresspools",
        "default-pool",
        {"spec": {"addresses": ["10.9.9.0/24"]}},
        namespace=METALLB,
    )
    await lab.run_cluster_pass()
    assert _read_pool(tenant)["spec"]["addresses"] == ["10.40.0.0-10.40.0.7"]
    tenant.requests.clear()
    await lab.run_cluster_pass()
    assert {request.verb for request in tenant.requests} == {"get", "list"}


async def test_a_deleted_advertisement_is_recreated() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    tenant.vanish("l2advertisements", "default", namespace=METALLB)
    await lab.run_cluster_pass()
    assert tenant.has("l2advertisements", "default", namespace=METALLB)


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ({}, {}),
        ({"ipAddressPools": ["default-pool"]}, {"ipAddressPools": ["default-pool"]}),
        ({"ipAddressPools": ["other"]}, {"ipAddressPools": ["other", "default-pool"]}),
        (
            {"ipAddressPoolSelectors": [{"matchLabels": {"a": "b"}}]},
            {
                "ipAddressPoolSelectors": [{"matchLabels": {"a": "b"}}],
                "ipAddressPools": ["default-pool"],
            },
        ),
    ],
    ids=["all pools", "ours already", "another pool", "selected pools"],
)
async def test_an_advertisement_of_others_keeps_its_pools_and_announces_ours_too(
    theirs: Json, expected: Json
) -> None:
    lab, tenant = _make_lab()
    tenant.add(
        "l2advertisements", {"metadata": {"name": "default", "namespace": METALLB}, "spec": theirs}
    )
    await lab.run_cluster_pass()
    assert tenant.see("l2advertisements", "default", namespace=METALLB)["spec"] == expected


async def test_a_pass_does_not_overwrite_a_pool_that_was_written_from_a_newer_revision() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    newer = {
        "metadata": {"annotations": {BASIS: "999999"}},
        "spec": {"addresses": ["10.1.1.1/32"]},
    }
    tenant.edit("ipaddresspools", "default-pool", newer, namespace=METALLB)
    assert await lab.run_cluster_pass() == Again(1.0)
    assert _read_pool(tenant)["spec"]["addresses"] == ["10.1.1.1/32"]
    assert _read_condition(lab) == ("False", "Behind")


async def test_pool_and_advertisement_are_deleted_once_the_cluster_has_no_range() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    lab.server.vanish("ipallocations", "team-a-lb")
    elastic = {"network": {"mode": "ipam", "poolRefs": [{"name": "lab"}]}}
    elastic["network"]["loadBalancer"] = {"allocationMode": "elastic"}  # type: ignore[assignment]
    lab.server.edit("providerconfigs", "default", {"spec": elastic})
    without_ingress = {"spec": {"addons": {"ingress": {"enabled": False}}}}
    lab.server.edit("tenantclusters", "a", without_ingress, namespace="team")
    await lab.run_cluster_pass()
    assert tenant.all("ipaddresspools") == []
    assert tenant.all("l2advertisements") == []


async def test_a_pool_that_others_made_is_not_deleted() -> None:
    lab, tenant = _make_lab(make.allocation("team-a-lb", phase="Pending"))
    theirs = {"metadata": {"name": "default-pool", "namespace": METALLB}}
    tenant.add("ipaddresspools", theirs | {"spec": {"addresses": ["10.9.0.0/24"]}})
    await lab.run_cluster_pass()
    assert _read_pool(tenant)["spec"]["addresses"] == ["10.9.0.0/24"]


async def test_a_pool_of_others_with_exactly_our_range_is_taken_over() -> None:
    lab, tenant = _make_lab()
    theirs = {"metadata": {"name": "default-pool", "namespace": METALLB}}
    tenant.add("ipaddresspools", theirs | {"spec": {"addresses": ["10.40.0.0-10.40.0.7"]}})
    await lab.run_cluster_pass()
    assert BASIS in _read_pool(tenant)["metadata"]["annotations"]


async def test_a_missing_metallb_is_reported_in_a_condition_and_does_not_fail_the_pass() -> None:
    lab, tenant = _make_lab()
    tenant.served = ("services",)
    assert await lab.run_cluster_pass() == Blocked("MetalLBNotInstalled", 30.0)
    assert _read_condition(lab) == ("False", "MetalLBNotInstalled")


async def test_a_tenant_that_does_not_answer_is_retried_with_growing_delays() -> None:
    lab, tenant = _make_lab()
    tenant.fail(NoAnswer("timed out"), times=1000)
    seconds_of_requests = []
    for second in range(120):
        tenant.requests.clear()
        await lab.run_cluster_pass()
        if tenant.requests:
            seconds_of_requests.append(second)
        await lab.clock.advance(1)
    assert seconds_of_requests == [0, 5, 15, 35, 75]
    patches = lab.server.count(verb="patch", plural="tenantclusters")
    assert patches == 2, "the record of the first projection, and the condition"


async def test_after_a_rotation_of_credentials_the_secret_is_read_again() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    lab.server.requests.clear()
    tenant.fail(Unauthorized(401, "Unauthorized", "who are you"))
    assert await lab.run_cluster_pass() == Again(60.0)
    assert _read_condition(lab) == ("True", "Ready")
    assert lab.server.count(verb="get", plural="secrets") == 1
    assert tenant.closed == 1


async def test_a_failure_of_the_management_cluster_is_not_reported_as_one_of_the_tenant() -> None:
    lab, tenant = _make_lab()
    lab.server.fail(NoAnswer("timed out"), verb="get", plural="ipallocations")
    with pytest.raises(NoAnswer) as caught:
        await lab.run_cluster_pass()
    assert caught.value.__cause__ is None, "it is the first error"
    await lab.run_cluster_pass()
    assert _read_condition(lab) == ("True", "Ready")
    assert tenant.closed == 0


def _make_secret(name: str, namespace: str, **data: bytes) -> Json:
    """Return a Secret; `_` in the name of an entry stands for a dot."""
    encoded = {k.replace("_", "."): base64.b64encode(v).decode() for k, v in data.items()}
    return {"metadata": {"name": name, "namespace": namespace}, "data": encoded}


@pytest.mark.parametrize(
    ("secrets", "expected"),
    [
        (
            [
                _make_secret("a-admin-kubeconfig", "a-1", admin_conf=b"first"),
                _make_secret("a-admin-kubeconfig", "team", admin_conf=b"second"),
                _make_secret("a-kubeconfig", "a-1", value=b"third"),
            ],
            b"first",
        ),
        (
            [
                _make_secret("a-admin-kubeconfig", "team", admin_conf=b"second"),
                _make_secret("a-kubeconfig", "a-1", value=b"third"),
            ],
            b"second",
        ),
        (
            [
                _make_secret("a-kubeconfig", "a-1", value=b"third"),
                _make_secret("a-kubeconfig", "team", value=b"fourth"),
            ],
            b"third",
        ),
        ([_make_secret("a-kubeconfig", "team", value=b"fourth")], b"fourth"),
    ],
)
async def test_the_kubeconfig_is_read_from_the_first_secret_that_exists(
    secrets: list[Json], expected: bytes
) -> None:
    lab = Lab()
    for secret in secrets:
        lab.server.add("secrets", secret)
    tenant = make.tenant(status={"tenantNamespace": "a-1"})
    assert await lab.tenants.read_kubeconfig(tenant) == expected


@pytest.mark.parametrize(
    ("data", "expected_words"),
    [
        (
            {"other": "eA=="},
            "Secret team/a-admin-kubeconfig has no entry 'admin.conf'; add it",
        ),
        (
            {"admin.conf": "not base64!"},
            "Secret team/a-admin-kubeconfig, entry 'admin.conf': ",
        ),
    ],
)
async def test_a_secret_that_cannot_be_used_is_refused_and_says_why(
    data: Json, expected_words: str
) -> None:
    lab, _ = _make_lab()
    meta = {"name": "a-admin-kubeconfig", "namespace": "team"}
    lab.server.add("secrets", {"metadata": meta, "data": data})
    assert await lab.run_cluster_pass() == Blocked("KubeconfigRefused", 30.0)
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )
    assert expected_words in condition["message"]


async def test_our_pool_is_deleted_even_if_another_tool_changed_its_managed_by_label() -> None:
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    labels = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    tenant.edit("ipaddresspools", "default-pool", labels, namespace=METALLB)
    lab.server.delete("ipallocations", "team-a-lb")
    await lab.run_cluster_pass()
    assert tenant.all("ipaddresspools") == []


async def test_a_cluster_whose_tenant_does_not_answer_stays_ready_and_reports_the_failure() -> (
    None
):
    lab, tenant = _make_lab()
    await lab.run_cluster_pass()
    tenant.fail(NoAnswer("timed out"), times=99)
    await lab.run_cluster_pass()
    condition = lab.find_condition("tenantclusters", "a", kind="Ready", namespace="team")
    assert (condition["status"], condition["reason"]) == ("True", "ReconcileDegraded")
    assert condition["message"] == "NoAnswer: timed out"
    tenant.recover()
    await lab.clock.advance(5)
    await lab.run_cluster_pass()
    condition = lab.find_condition("tenantclusters", "a", kind="Ready", namespace="team")
    assert (condition["reason"], condition["message"]) == ("Ready", "Cluster is ready")


async def test_a_first_projection_lists_no_pools_of_the_tenant() -> None:
    nodes = make.allocation("team-a-nodes", kind="nodes", held_range=("10.40.0.8", "10.40.0.12"))
    lab, tenant = _make_lab(
        make.allocation("team-a-lb", held_range=HELD_RANGE), nodes, phase="Installing"
    )
    await lab.run_cluster_pass()
    assert _read_pool(tenant)["spec"]["addresses"] == ["10.40.0.0-10.40.0.7"]
    assert tenant.count(verb="list", plural="ipaddresspools") == 0
