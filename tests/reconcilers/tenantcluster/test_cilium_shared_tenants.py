"""Two TenantClusters of Cilium whose kubeconfigs lead to one cluster."""

from controller.meta import Key
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.lbipam import list_offered_entries
from tests.reconcilers.server import Server
from tests.reconcilers.tenantcluster.ciliumtenants import (
    CILIUM_SPEC,
    FIRST_ENTRY,
    SECOND_ENTRY,
    TENANT,
    make_cilium_tenant,
    run_passes,
)

OTHER = Key("team", "b")
OTHER_ENTRY = "10.40.0.16-10.40.0.23"


def _share_tenant() -> tuple[Lab, Replica, Server]:
    """Return a lab of clusters a with two ranges and b with one, a replica, and their tenant."""
    lab, replica, tenant, _ = make_cilium_tenant()
    lab.start_tenant_server("b")
    lab.tenant_servers["b"] = tenant
    lab.server.add("tenantclusters", make.tenant("b", spec=CILIUM_SPEC, status={"phase": "Ready"}))
    note = {names.ANNOTATION_LOAD_BALANCER: "cilium"}
    held_range = ("10.40.0.16", "10.40.0.23")
    body = make.allocation("team-b-lb", tenant="team/b", held_range=held_range, annotations=note)
    lab.server.add("ipallocations", body)
    return lab, replica, tenant


async def _run_both(lab: Lab, replica: Replica, seconds: int = 12) -> None:
    """Run passes over both clusters and all allocations, once a second."""
    for _ in range(seconds):
        await run_passes(lab, replica, 1)
        await replica.clusters.reconcile(OTHER)


def _read_reason(lab: Lab, name: str) -> str:
    """Return the reason of a cluster's condition LoadBalancerReady."""
    condition = lab.find_condition(
        "tenantclusters", name, kind="LoadBalancerReady", namespace="team"
    )
    return str(condition["reason"])


async def test_the_second_cluster_in_a_tenant_is_served_once_the_first_is_deleted() -> None:
    lab, replica, tenant = _share_tenant()
    await _run_both(lab, replica, 3)
    assert sorted(list_offered_entries(tenant)) == [FIRST_ENTRY, SECOND_ENTRY]
    assert (_read_reason(lab, "a"), _read_reason(lab, "b")) == ("Ready", "TenantShared")
    lab.server.delete("tenantclusters", TENANT.name, namespace=TENANT.namespace)
    await _run_both(lab, replica, 30)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert list_offered_entries(tenant) == [OTHER_ENTRY]
    assert _read_reason(lab, "b") == "Ready"


async def test_the_deletion_of_the_waiting_cluster_leaves_the_ranges_of_the_first_in_place() -> (
    None
):
    lab, replica, tenant = _share_tenant()
    await _run_both(lab, replica, 3)
    lab.server.delete("tenantclusters", OTHER.name, namespace=OTHER.namespace)
    await _run_both(lab, replica, 30)
    assert not lab.server.has("ipallocations", "team-b-lb")
    assert sorted(list_offered_entries(tenant)) == [FIRST_ENTRY, SECOND_ENTRY]
    assert _read_reason(lab, "a") == "Ready"
