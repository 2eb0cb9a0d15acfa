"""A sweep for orphans checks only allocations that changed, or whose owner did."""

from typing import Any

import pytest

from controller.codec import Unreadable
from reconcilers.api import names
from reconcilers.networkpool import orphans, owners
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica

LABELS = {
    names.LABEL_POOL: "lab",
    names.LABEL_TEAM: "team",
    names.LABEL_TYPE: "loadbalancer",
    names.LABEL_MANAGED_BY: "butler",
}


def _make_allocation(name: str, tenant: str, number: int, **more: Any) -> Any:
    """Return an adopted allocation of team/`tenant` that holds the address 10.40.0.`number`."""
    labels = LABELS | {names.LABEL_TENANT: tenant}
    annotations = {names.ANNOTATION_TENANT_UID: f"uid-team-{tenant}"}
    held_range = (f"10.40.0.{number}", f"10.40.0.{number}")
    fields_of_allocation = {
        "labels": labels,
        "annotations": annotations,
        "held_range": held_range,
    } | more
    return make.allocation(name, tenant=f"team/{tenant}", **fields_of_allocation)


@pytest.fixture
def checked_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each allocation when a sweep checks its owner."""
    keys: list[str] = []
    is_settled = owners.is_settled

    def record_check(allocation: Any, clusters: Any) -> bool:
        keys.append(allocation.metadata.name)
        return is_settled(allocation, clusters)

    monkeypatch.setattr(owners, "is_settled", record_check)
    return keys


def _start_replica() -> Replica:
    """Return a replica with eight TenantClusters, and an adopted allocation of each."""
    lab = Lab()
    lab.server.listeners.clear()
    lab.server.add("networkpools", make.pool())
    for number, tenant in enumerate("abcdefgh"):
        lab.server.add("tenantclusters", make.tenant(tenant))
        lab.server.add("ipallocations", _make_allocation(f"{tenant}-lb", tenant, number))
    return lab.make_replica()


def _list_deleted(replica: Replica) -> list[str]:
    """Return the names of the allocations that are being deleted."""
    metadata_list = [obj["metadata"] for obj in replica.lab.server.all("ipallocations")]
    return [meta["name"] for meta in metadata_list if "deletionTimestamp" in meta]


async def test_a_settled_allocation_is_checked_once(checked_names: list[str]) -> None:
    replica = _start_replica()
    await replica.orphans.sweep()
    assert checked_names == [f"{tenant}-lb" for tenant in "abcdefgh"]
    checked_names.clear()
    await replica.orphans.sweep()
    assert checked_names == []
    assert replica.lab.server.requests == []


async def test_only_allocations_of_a_deleted_cluster_are_checked(
    checked_names: list[str],
) -> None:
    replica = _start_replica()
    await replica.orphans.sweep()
    checked_names.clear()
    replica.lab.server.edit(
        "tenantclusters", "d", {"metadata": {"labels": {"a": "b"}}}, namespace="team"
    )
    replica.lab.server.vanish("tenantclusters", "c", namespace="team")
    await replica.orphans.sweep()
    assert checked_names == ["c-lb"]
    assert _list_deleted(replica) == ["c-lb"]


async def test_a_new_cluster_does_not_own_the_allocations_of_a_deleted_one_with_its_name() -> None:
    replica = _start_replica()
    await replica.orphans.sweep()
    replica.lab.server.vanish("tenantclusters", "c", namespace="team")
    replica.lab.server.add("tenantclusters", make.tenant("c", uid="another"))
    await replica.orphans.sweep()
    assert _list_deleted(replica) == ["c-lb"]


async def test_a_label_that_is_changed_later_is_repaired() -> None:
    replica = _start_replica()
    await replica.orphans.sweep()
    wrong = {"metadata": {"labels": {names.LABEL_POOL: "wrong"}}}
    replica.lab.server.edit("ipallocations", "b-lb", wrong)
    await replica.orphans.sweep()
    labels = replica.lab.server.see("ipallocations", "b-lb")["metadata"]["labels"]
    assert labels[names.LABEL_POOL] == "lab"


async def test_the_deletion_of_an_owner_that_could_not_be_decoded_is_noticed() -> None:
    replica = _start_replica()
    server, clusters = replica.lab.server, replica.caches["tenantclusters"]
    server.add("ipallocations", _make_allocation("x-lb", "x", 99))
    odd = make.key("x", "team")
    clusters.apply(Unreadable(odd, server.revision + 1, "odd"))
    await replica.orphans.sweep()
    await replica.orphans.sweep()
    assert _list_deleted(replica) == [], "an object that cannot be decoded may be the owner"
    clusters.apply(Unreadable(odd, server.revision + 2, "odd", deleted=True))
    await replica.orphans.sweep()
    assert _list_deleted(replica) == ["x-lb"]


async def test_an_allocation_whose_owner_was_never_seen_is_settled_by_its_condition(
    checked_names: list[str],
) -> None:
    replica = _start_replica()
    pinned = _make_allocation("y-lb", "y", 98, annotations={})
    replica.lab.server.add("ipallocations", pinned)
    await replica.orphans.sweep()
    await replica.orphans.sweep()
    checked_names.clear()
    await replica.orphans.sweep()
    assert checked_names == []
    replica.lab.server.add("tenantclusters", make.tenant("y"))
    await replica.orphans.sweep()
    meta = replica.lab.server.see("ipallocations", "y-lb")["metadata"]
    assert meta["annotations"][names.ANNOTATION_TENANT_UID] == "uid-team-y"


async def test_all_allocations_are_checked_periodically(checked_names: list[str]) -> None:
    replica = _start_replica()
    for _ in range(orphans.FULL_SWEEP_INTERVAL - 1):
        await replica.orphans.sweep()
    checked_names.clear()
    await replica.orphans.sweep()
    assert len(checked_names) == 8
