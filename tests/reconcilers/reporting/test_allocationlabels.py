"""Labels of allocations follow one policy, whichever reconciler repairs them."""

import pytest

from reconcilers.api import names
from reconcilers.reporting import allocationlabels
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

ROLE = {names.LABEL_ROLE: "initial"}
EXPECTED = {
    names.LABEL_POOL: "lab",
    names.LABEL_TEAM: "team",
    names.LABEL_TENANT: "a",
    names.LABEL_TYPE: "loadbalancer",
}


def test_labels_follow_the_spec_and_those_of_others_stay() -> None:
    allocation = make.allocation("lb", labels=EXPECTED | {names.LABEL_POOL: "x", "theirs": "y"})
    assert allocationlabels.find_label_repairs(allocation) == {
        names.LABEL_POOL: "lab",
        names.LABEL_MANAGED_BY: "butler",
    }


def test_the_role_is_repaired_only_where_a_role_is_given() -> None:
    managed = {names.LABEL_MANAGED_BY: "butler"}
    allocation = make.allocation("lb", labels=EXPECTED | managed | {names.LABEL_ROLE: "growth"})
    assert allocationlabels.find_label_repairs(allocation) == {}
    assert allocationlabels.find_label_repairs(allocation, "initial") == ROLE


@pytest.mark.parametrize("repairer", ["the sweep", "the reconciler of TenantClusters"])
async def test_another_tools_managed_by_label_stays_when_labels_are_repaired(
    repairer: str,
) -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    theirs = {names.LABEL_MANAGED_BY: "Helm", names.LABEL_POOL: "wrong"}
    lab.server.edit("ipallocations", "team-a-lb", {"metadata": {"labels": theirs}})
    if repairer == "the sweep":
        await lab.orphans.sweep()
    else:
        await lab.run_cluster_pass()
    labels = lab.server.see("ipallocations", "team-a-lb")["metadata"]["labels"]
    assert labels == EXPECTED | ROLE | {names.LABEL_MANAGED_BY: "Helm"}


async def test_another_tools_managed_by_stays_on_a_pinned_allocation_from_the_start() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    theirs = {names.LABEL_MANAGED_BY: "Helm"}
    pin = ("10.40.0.32", "10.40.0.39")
    pinned = make.allocation("ingress", pin=pin, labels=theirs, finalizers=[])
    lab.server.add("ipallocations", pinned)
    await lab.run_until_at_rest()
    lab.server.add("tenantclusters", make.tenant())
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    await lab.orphans.sweep()
    labels = lab.server.see("ipallocations", "ingress")["metadata"]["labels"]
    assert labels == EXPECTED | ROLE | theirs
