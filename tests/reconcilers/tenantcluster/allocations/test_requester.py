"""A tenant requests all missing addresses or none; a request that moves keeps its age."""

from typing import Any

import pytest

from controller.errors import NoAnswer
from reconcilers.api import names
from reconcilers.tenantcluster.allocations.requester import parse_moving
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

OWNER = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
REQUESTED_AT = "2025-12-31T23:58:20+00:00"
"""When the request of `_make_failed_request` was created: 100 seconds before EPOCH."""


def _make_lab(*pools: Any) -> Lab:
    """Return a lab with these pools, a provider that lists them, and TenantCluster team/a."""
    lab = Lab()
    for pool in pools:
        lab.server.add("networkpools", pool)
    pool_names = [pool["metadata"]["name"] for pool in lab.server.all("networkpools")]
    lab.server.add("providerconfigs", make.provider(*pool_names))
    lab.server.add("tenantclusters", make.tenant())
    return lab


def _read_requested_pools(lab: Lab) -> dict[str, str]:
    """Return the name of the pool of each allocation, by allocation name."""
    return {
        allocation["metadata"]["name"]: allocation["spec"]["poolRef"]["name"]
        for allocation in lab.server.all("ipallocations")
    }


async def test_no_load_balancer_addresses_are_held_while_there_is_no_room_for_nodes() -> None:
    lab = _make_lab(make.pool(cidr="10.40.0.0/29"))
    await lab.run_cluster_pass()
    assert _read_requested_pools(lab) == {}
    condition = lab.find_condition("tenantclusters", "a", kind="NetworkReady", namespace="team")
    assert (condition["reason"], condition["message"]) == (
        "PoolExhausted",
        (
            f"{NO_ROOM}: needs 5 node addresses in a row, beside 8 load-balancer addresses;"
            " lab: largest free block 0"
        ),
    )


async def test_two_clusters_do_not_wait_for_each_others_addresses() -> None:
    lab = _make_lab(make.pool(cidr="10.40.0.0/28"))
    lab.server.add("tenantclusters", make.tenant("b"))
    lab.start_tenant_server("a")
    lab.start_tenant_server("b")
    await lab.run_until_at_rest()
    assert list(_read_requested_pools(lab)) == ["team-a-lb", "team-a-nodes"]
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "b", "team")["phase"] == "Ready"


async def test_balancer_and_node_addresses_may_come_from_different_pools() -> None:
    lab = _make_lab(make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/29"))
    await lab.run_cluster_pass()
    assert _read_requested_pools(lab) == {"team-a-lb": "one", "team-a-nodes": "two"}


async def _make_failed_request() -> Lab:
    """Return a lab where request team-a-lb has failed on full pool `one`; pool `two` has room."""
    lab = _make_lab(make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/24"))
    lab.server.add("ipallocations", make.allocation("taken", of="one", tenant="x/y", size=8))
    await lab.run_pool_pass("one")
    failed = make.allocation(
        "team-a-lb", of="one", size=8, phase="Failed", age=100, annotations=OWNER
    )
    lab.server.add("ipallocations", failed)
    return lab


async def test_the_age_of_a_request_is_written_to_its_cluster_before_it_is_deleted_to_move() -> (
    None
):
    lab = await _make_failed_request()
    lab.server.fail(NoAnswer("the process died"), verb="delete", plural="ipallocations")
    with pytest.raises(NoAnswer):
        await lab.run_cluster_pass()
    cluster = lab.caches["tenantclusters"].get(make.key("a", "team"))
    assert cluster is not None
    assert parse_moving(cluster)["team-a-lb"].since == REQUESTED_AT
    lab.server.vanish("ipallocations", "team-a-lb")
    restarted = lab.make_replica()
    await restarted.clusters.reconcile(make.key("a", "team"))
    annotations = lab.server.see("ipallocations", "team-a-lb")["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_REQUESTED_AT] == REQUESTED_AT


async def test_the_note_of_a_moving_request_is_removed_from_its_cluster_after_the_move() -> None:
    lab = await _make_failed_request()
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    assert _read_requested_pools(lab)["team-a-lb"] == "two"
    meta = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert names.ANNOTATION_MOVING not in meta["annotations"]


async def test_a_failed_request_that_its_own_pool_is_about_to_serve_stays() -> None:
    lab = await _make_failed_request()
    uid = lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"]
    lab.server.vanish("ipallocations", "taken")
    await lab.run_cluster_pass()
    assert lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"] == uid


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"a": 1}', '{"a": {"since": "x", "leaving": ""}}']
)
async def test_a_note_of_moving_requests_that_cannot_be_parsed_counts_as_absent(
    content: str,
) -> None:
    assert parse_moving(make.tenant(annotations={names.ANNOTATION_MOVING: content})) == {}


async def test_edited_labels_of_an_allocation_are_corrected_and_do_not_change_its_tenant() -> None:
    lab = _make_lab(make.pool())
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    wrong = {"metadata": {"labels": {names.LABEL_TENANT: "z", names.LABEL_POOL: None}}}
    lab.server.edit("ipallocations", "team-a-lb", wrong)
    await lab.run_until_at_rest()
    labels = lab.server.see("ipallocations", "team-a-lb")["metadata"]["labels"]
    assert (labels[names.LABEL_TENANT], labels[names.LABEL_POOL]) == ("a", "lab")
    assert list(_read_requested_pools(lab)) == ["team-a-lb", "team-a-nodes"]


async def test_tools_that_follow_kstatus_see_progress_and_its_end() -> None:
    lab = _make_lab(make.pool())

    def find_condition(kind: str) -> tuple[str | None, str | None]:
        condition = lab.find_condition("tenantclusters", "a", kind=kind, namespace="team")
        return condition.get("status"), condition.get("reason")

    await lab.run_cluster_pass()
    assert find_condition("Reconciling") == ("True", "Reconciling")
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    assert find_condition("Reconciling") == find_condition("Stalled") == (None, None)
    assert lab.read_status("tenantclusters", "a", "team")["observedGeneration"] == 1


async def test_a_mistake_in_the_provider_shows_as_stalled() -> None:
    lab = Lab()
    lab.server.add("providerconfigs", make.provider())
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_cluster_pass()
    stalled = lab.find_condition("tenantclusters", "a", kind="Stalled", namespace="team")
    assert (stalled["status"], stalled["reason"]) == ("True", "NetworkNotReady")


async def test_the_secret_of_a_deleted_cluster_is_read_less_often_while_its_tenant_is_silent() -> (
    None
):
    lab = _make_lab(make.pool())
    tenant = lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    tenant.fail(NoAnswer("timed out"), times=100_000)
    lab.server.delete("tenantclusters", "a", namespace="team")
    lab.server.requests.clear()
    lab.use_real_release_check()
    for _ in range(60):
        await lab.run_cluster_pass()
        for name in ("team-a-lb", "team-a-nodes"):
            await lab.run_allocation_pass(name)
        await lab.clock.advance(5)
    assert lab.server.count(verb="get", plural="secrets") <= 14


@pytest.mark.parametrize("is_namespace_gone", [True, False])
async def test_an_unreachable_deleted_cluster_is_torn_down_once_its_namespace_is_gone(
    is_namespace_gone: bool,
) -> None:
    lab = _make_lab(make.pool())
    tenant = lab.start_tenant_server("a")
    lab.server.add("namespaces", {"metadata": {"name": "a-1234"}})
    status = {"status": {"tenantNamespace": "a-1234"}}
    lab.server.edit("tenantclusters", "a", status, namespace="team")
    await lab.run_until_at_rest()
    tenant.fail(NoAnswer("timed out"), times=100_000)
    if is_namespace_gone:
        lab.server.vanish("namespaces", "a-1234", namespace="")
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert lab.server.has("tenantclusters", "a", namespace="team") is not is_namespace_gone


def _read_network_condition(lab: Lab) -> tuple[str, str]:
    """Return reason and message of the condition NetworkReady."""
    condition = lab.find_condition("tenantclusters", "a", kind="NetworkReady", namespace="team")
    return condition["reason"], condition["message"]


NO_ROOM = "no pool of ProviderConfig butler-system/default has room"
ABSENT = (
    "ProviderConfig butler-system/default names NetworkPool butler-system/lba,"
    " which does not exist"
)


async def test_a_pool_that_does_not_exist_is_named_and_not_called_exhausted() -> None:
    lab = Lab()
    lab.server.add("providerconfigs", make.provider("lba"))
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_cluster_pass()
    assert _read_network_condition(lab) == (
        "PoolNotFound",
        f"no configured pool exists: {ABSENT}",
    )


async def test_a_pool_that_does_not_exist_is_named_beside_a_full_pool() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/30"))
    lab.server.add("providerconfigs", make.provider("lba", "lab"))
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_cluster_pass()
    assert _read_network_condition(lab) == (
        "PoolExhausted",
        (
            f"{NO_ROOM}: needs 8 load-balancer addresses in a row; lba: does not exist;"
            " lab: largest free block 4"
        ),
    )
