"""A tenant asks for all that it lacks or for nothing, and a request that moves keeps its age."""

from typing import Any

import pytest

from controller.errors import NoAnswer
from reconcilers.api import names
from reconcilers.tenantcluster.allocations.requester import parse_moving
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

STAMP = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
SINCE = "2025-12-31T23:58:20+00:00"


def _lab(*pools: Any) -> Lab:
    lab = Lab()
    for pool in pools:
        lab.server.add("networkpools", pool)
    pool_names = [pool["metadata"]["name"] for pool in lab.server.all("networkpools")]
    lab.server.add("providerconfigs", make.provider(*pool_names))
    lab.server.add("tenantclusters", make.tenant())
    return lab


def _list_asked_pools(lab: Lab) -> dict[str, str]:
    return {
        allocation["metadata"]["name"]: allocation["spec"]["poolRef"]["name"]
        for allocation in lab.server.all("ipallocations")
    }


async def test_no_load_balancer_addresses_are_held_while_there_is_no_room_for_nodes() -> None:
    lab = _lab(make.pool(cidr="10.40.0.0/29"))
    await lab.cluster()
    assert _list_asked_pools(lab) == {}
    condition = lab.condition("tenantclusters", "a", kind="NetworkReady", namespace="team")
    assert (condition["reason"], condition["message"]) == (
        "PoolExhausted",
        (
            f"{NO_ROOM}: needs 5 node addresses in a row, beside 8 load-balancer addresses;"
            " lab: largest free block 0"
        ),
    )


async def test_two_clusters_do_not_wait_for_each_others_addresses() -> None:
    lab = _lab(make.pool(cidr="10.40.0.0/28"))
    lab.server.add("tenantclusters", make.tenant("b"))
    lab.tenant_server("a")
    lab.tenant_server("b")
    await lab.rounds()
    assert list(_list_asked_pools(lab)) == ["team-a-lb", "team-a-nodes"]
    assert lab.see("tenantclusters", "a", "team")["phase"] == "Ready"
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert lab.see("tenantclusters", "b", "team")["phase"] == "Ready"


async def test_each_of_the_two_is_looked_for_in_every_pool() -> None:
    lab = _lab(make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/29"))
    await lab.cluster()
    assert _list_asked_pools(lab) == {"team-a-lb": "one", "team-a-nodes": "two"}


async def _failed_on_one() -> Lab:
    lab = _lab(make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/24"))
    lab.server.add("ipallocations", make.allocation("taken", of="one", tenant="x/y", size=8))
    await lab.pool("one")
    failed = make.allocation(
        "team-a-lb", of="one", size=8, phase="Failed", age=100, annotations=STAMP
    )
    lab.server.add("ipallocations", failed)
    return lab


async def test_the_age_of_a_request_that_moves_is_durable_before_it_is_deleted() -> None:
    lab = await _failed_on_one()
    lab.server.fail(NoAnswer("the process died"), verb="delete", plural="ipallocations")
    with pytest.raises(NoAnswer):
        await lab.cluster()
    reported = lab.caches["tenantclusters"].get(make.key("a", "team"))
    assert reported is not None
    assert parse_moving(reported)["team-a-lb"].since == SINCE
    lab.server.vanish("ipallocations", "team-a-lb")
    another = lab.another()  # a process that knows nothing of the first one
    await another.clusters.reconcile(make.key("a", "team"))
    annotations = lab.server.see("ipallocations", "team-a-lb")["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_REQUESTED_AT] == SINCE


async def test_what_the_new_request_carries_is_taken_off_the_cluster_again() -> None:
    lab = await _failed_on_one()
    lab.tenant_server("a")
    await lab.rounds()
    assert _list_asked_pools(lab)["team-a-lb"] == "two"
    meta = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert names.ANNOTATION_MOVING not in meta["annotations"]


async def test_a_failed_request_that_its_own_pool_is_about_to_serve_stays() -> None:
    lab = await _failed_on_one()
    uid = lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"]
    lab.server.vanish("ipallocations", "taken")
    await lab.cluster()
    assert lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"] == uid


@pytest.mark.parametrize(
    "garbled", ["{", "[]", '{"a": 1}', '{"a": {"since": "x", "leaving": ""}}']
)
async def test_a_note_of_moving_requests_that_cannot_be_parsed_counts_as_absent(
    garbled: str,
) -> None:
    assert parse_moving(make.tenant(annotations={names.ANNOTATION_MOVING: garbled})) == {}


async def test_labels_are_put_right_and_decide_nothing() -> None:
    lab = _lab(make.pool())
    lab.tenant_server("a")
    await lab.rounds()
    wrong = {"metadata": {"labels": {names.LABEL_TENANT: "z", names.LABEL_POOL: None}}}
    lab.server.edit("ipallocations", "team-a-lb", wrong)
    await lab.rounds()
    labels = lab.server.see("ipallocations", "team-a-lb")["metadata"]["labels"]
    assert (labels[names.LABEL_TENANT], labels[names.LABEL_POOL]) == ("a", "lab")
    assert list(_list_asked_pools(lab)) == ["team-a-lb", "team-a-nodes"]


async def test_tools_that_follow_kstatus_see_progress_and_its_end() -> None:
    lab = _lab(make.pool())

    def find_condition(kind: str) -> tuple[str | None, str | None]:
        condition = lab.condition("tenantclusters", "a", kind=kind, namespace="team")
        return condition.get("status"), condition.get("reason")

    await lab.cluster()
    assert find_condition("Reconciling") == ("True", "Reconciling")
    lab.tenant_server("a")
    await lab.rounds()
    assert find_condition("Reconciling") == find_condition("Stalled") == (None, None)
    assert lab.see("tenantclusters", "a", "team")["observedGeneration"] == 1


async def test_a_mistake_in_the_provider_shows_as_stalled() -> None:
    lab = Lab()
    lab.server.add("providerconfigs", make.provider())
    lab.server.add("tenantclusters", make.tenant())
    await lab.cluster()
    stalled = lab.condition("tenantclusters", "a", kind="Stalled", namespace="team")
    assert (stalled["status"], stalled["reason"]) == ("True", "NetworkNotReady")


async def test_a_deleted_clusters_secret_is_read_ever_less_often() -> None:
    lab = _lab(make.pool())
    tenant = lab.tenant_server("a")
    await lab.rounds()
    tenant.fail(NoAnswer("timed out"), times=100_000)
    lab.server.delete("tenantclusters", "a", namespace="team")
    lab.server.requests.clear()
    lab.gate.real = lab.tenant_gate
    for _ in range(60):
        await lab.cluster()
        for name in ("team-a-lb", "team-a-nodes"):
            await lab.allocation(name)
        await lab.clock.advance(5)
    assert lab.server.count(verb="get", plural="secrets") <= 14


@pytest.mark.parametrize("gone", [True, False])
async def test_a_deleted_cluster_whose_namespace_is_gone_gives_everything_back(gone: bool) -> None:
    lab = _lab(make.pool())
    tenant = lab.tenant_server("a")
    lab.server.add("namespaces", {"metadata": {"name": "a-1234"}})
    status = {"status": {"tenantNamespace": "a-1234"}}
    lab.server.edit("tenantclusters", "a", status, namespace="team")
    await lab.rounds()
    tenant.fail(NoAnswer("timed out"), times=100_000)
    if gone:
        lab.server.vanish("namespaces", "a-1234", namespace="")
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert lab.server.has("tenantclusters", "a", namespace="team") is not gone


def _network(lab: Lab) -> tuple[str, str]:
    condition = lab.condition("tenantclusters", "a", kind="NetworkReady", namespace="team")
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
    await lab.cluster()
    assert _network(lab) == (
        "PoolNotFound",
        f"no configured pool exists: {ABSENT}",
    )


async def test_one_that_does_not_exist_is_named_beside_those_that_are_full() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/30"))
    lab.server.add("providerconfigs", make.provider("lba", "lab"))
    lab.server.add("tenantclusters", make.tenant())
    await lab.cluster()
    assert _network(lab) == (
        "PoolExhausted",
        (
            f"{NO_ROOM}: needs 8 load-balancer addresses in a row; lba: does not exist;"
            " lab: largest free block 4"
        ),
    )
