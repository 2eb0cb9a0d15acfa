"""The record that a process keeps of a TenantCluster: it is deleted with the cluster."""

import pytest

from controller.errors import NoAnswer
from controller.meta import Key
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.tenantcluster.record.records import TenantRecords
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Server

CLUSTER = Key("team", "a")


async def _make_ready_lab() -> tuple[Lab, Server]:
    """Return a lab with a cluster that is Ready, and the tenant's API server."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    lab.use_real_release_check()
    tenant = lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    assert [record.uid for record in lab.records] == ["uid-team-a"]
    return lab, tenant


def test_a_recreated_cluster_has_a_record_of_its_own() -> None:
    records = TenantRecords()
    earlier = records.get_or_create(make.tenant())
    earlier.named_at = 1.0
    assert records.get_or_create(make.tenant()) is earlier
    assert records.get_or_create(make.tenant(uid="another")).named_at is None
    assert len(records) == 2
    assert records.retain(CLUSTER, {"another"}) == [earlier]
    assert records.retain(CLUSTER, ()) != []
    assert (len(records), records.list_keys()) == (0, [])


def test_a_replica_that_hands_a_cluster_over_keeps_what_the_release_check_needs() -> None:
    records = TenantRecords()
    record = records.get_or_create(make.tenant())
    record.named_at, record.last_seen = 1.0, make.tenant()
    access = record.access
    record.gate.get_or_create("uid-lb", now=10.0).held_since = 10.0
    record.elastic.in_place_since = 3.0
    records.end_work(CLUSTER)
    kept = records.get_or_create(make.tenant())
    assert kept.named_at is None
    assert kept.elastic.in_place_since is None
    assert kept.access is access
    assert kept.last_seen is not None
    assert kept.gate.get_or_create("uid-lb", now=700.0).held_since == 10.0


def test_an_allocation_that_is_not_checked_for_an_hour_is_forgotten() -> None:
    gate = TenantRecords().get_or_create(make.tenant()).gate
    gate.get_or_create("uid-lb", now=0.0).held_since = 0.0
    assert gate.get_or_create("uid-lb", now=3_599.0).held_since == 0.0
    gate.get_or_create("uid-other", now=7_199.0)
    assert gate.get_or_create("uid-lb", now=7_200.0).held_since is None


async def test_the_record_of_a_cluster_that_was_torn_down_is_deleted() -> None:
    lab, tenant = await _make_ready_lab()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []
    await lab.run_cluster_pass()  # the pass that the deletion of the last allocation triggers
    assert (len(lab.records), lab.tenants.list_open(), tenant.closed > 0) == (0, [], True)


async def test_the_record_of_a_cluster_that_lost_its_finalizer_goes_with_its_allocations() -> None:
    lab, tenant = await _make_ready_lab()
    lab.server.vanish("tenantclusters", "a", namespace="team")
    await lab.run_cluster_pass()
    [record] = lab.records
    assert record.last_seen is not None, "it is kept as long as the allocations exist"
    await lab.orphans.sweep()
    for _ in range(2):
        await lab.run_cluster_pass()
        await lab.run_until_at_rest()
    assert lab.server.all("ipallocations") == []
    await lab.run_cluster_pass()
    assert (len(lab.records), lab.tenants.list_open(), tenant.closed > 0) == (0, [], True)


async def test_the_record_of_an_earlier_cluster_goes_with_its_last_allocation() -> None:
    lab, _ = await _make_ready_lab()
    lab.server.vanish("tenantclusters", "a", namespace="team")
    lab.server.add("tenantclusters", make.tenant(uid="another"))
    await lab.run_cluster_pass()
    assert "uid-team-a" in {record.uid for record in lab.records}
    await lab.orphans.sweep()
    for _ in range(3):
        await lab.run_until_at_rest()
    await lab.run_cluster_pass()
    assert [record.uid for record in lab.records] == ["another"]


async def test_a_client_that_is_in_use_when_its_tenant_is_forgotten_is_closed_afterwards() -> None:
    lab, tenant = await _make_ready_lab()
    [record] = lab.records
    async with lab.tenants.open_client(make.tenant()):
        await lab.tenants.forget(record.access)
        assert tenant.closed == 0
    assert tenant.closed == 1


async def test_a_recreated_cluster_does_not_inherit_the_pause_after_a_failed_request() -> None:
    lab, tenant = await _make_ready_lab()
    tenant.fail(NoAnswer("timed out"), times=1)
    await lab.run_cluster_pass()
    with pytest.raises(TenantUnavailable):
        async with lab.tenants.open_client(make.tenant()):
            pytest.fail("the tenant must not be tried again so soon")
    async with lab.tenants.open_client(make.tenant(uid="another")):
        pass
