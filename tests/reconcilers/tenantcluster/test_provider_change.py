"""A tenant changes its load balancer: no range is in both, and none is released early."""

from typing import Any

import pytest

from controller.meta import Key
from controller.testing import WriteRecord
from reconcilers.api import names
from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from reconcilers.tenantcluster.otherbalancers import OTHER_BALANCER_CHECK_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address, list_pool_entries
from tests.reconcilers.lab import TENANT_KINDS, Lab, Replica
from tests.reconcilers.lbipam import POOLS, LbIpam, list_offered_entries
from tests.reconcilers.server import Json

FIRST, SECOND = ("10.40.0.0", "10.40.0.7"), ("10.40.0.8", "10.40.0.15")
ENTRIES = ["10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"]
TENANT = Key("team", "a")
METALLB, CILIUM = "metallb", "cilium"
"""The names of the load balancers in specs of TenantClusters."""


class TwoBalancerSite:
    """A platform with one Ready tenant, in which both MetalLB and Cilium run.

    Args:
        provider: the load balancer that the TenantCluster names at first.
    """

    def __init__(self, provider: str = METALLB) -> None:
        self.lab = lab = Lab()
        lab.server.add("networkpools", make.pool())
        lab.server.add("providerconfigs", make.provider("lab"))
        cluster = make.tenant(spec=_make_spec(provider), status={"phase": "Ready"})
        lab.server.add("tenantclusters", cluster)
        note = {} if provider == METALLB else {names.ANNOTATION_LOAD_BALANCER: provider}
        for name, held_range in (("team-a-lb", FIRST), ("team-a-lb-2", SECOND)):
            allocation = make.allocation(
                name, tenant="team/a", held_range=held_range, annotations=note
            )
            lab.server.add("ipallocations", allocation)
        self.tenant = lab.start_tenant_server("a", (*TENANT_KINDS, POOLS))
        self.metallb, self.cilium = Balancer(self.tenant), LbIpam(self.tenant)
        self.overlap_count = 0
        """After how many writes both MetalLB's and Cilium's pools had ranges of ours."""
        self.tenant.listeners.append(self._check_overlap)
        self.replica = self.make_replica()

    def make_replica(self) -> Replica:
        """Return a replica that believes that it leads, with MetalLB and Cilium."""
        replica = Replica(self.lab, kinds={CILIUM: CiliumKind(self.lab.clock, wait=0.0)})
        replica.use_real_release_check()
        return replica

    def _check_overlap(self, _: WriteRecord) -> None:
        both = map(set, (list_pool_entries(self.tenant), list_offered_entries(self.tenant)))
        self.overlap_count += all(entries & set(ENTRIES) for entries in both)

    async def run_passes(self, seconds: int = 40, replica: Replica | None = None) -> None:
        """Run passes over the pool, the cluster and its allocations, once a second.

        Args:
            seconds: for how long, on the virtual clock.
            replica: runs the passes; None for the first replica.
        """
        replica = replica or self.replica
        for _ in range(seconds):
            await replica.pools.reconcile(Key(make.NAMESPACE, "lab"))
            await replica.clusters.reconcile(TENANT)
            for allocation in list(replica.caches["ipallocations"]):
                await replica.allocations.reconcile(allocation.metadata.key)
            await self.lab.clock.advance(1)

    def set_provider(self, provider: str) -> None:
        """Name another load balancer in the spec of the TenantCluster."""
        self.lab.server.edit(
            "tenantclusters", "a", {"spec": _make_spec(provider)}, namespace="team"
        )

    def list_ranges_in(self, provider: str) -> list[str]:
        """Return the ranges in the pools of a load balancer."""
        read = list_pool_entries if provider == METALLB else list_offered_entries
        return sorted(read(self.tenant))

    def read_annotations(self, name: str = "team-a-lb") -> Json:
        """Return the annotations of an allocation."""
        stored = self.lab.server.see("ipallocations", name, namespace=make.NAMESPACE)
        return dict(stored["metadata"].get("annotations", {}))

    def read_condition(self) -> tuple[str, str, str]:
        """Return status, reason and message of LoadBalancerReady."""
        condition = self.lab.find_condition(
            "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
        )
        return condition["status"], condition["reason"], condition["message"]


def _make_spec(provider: str) -> Json:
    return {"addons": {"loadBalancer": {"version": "1", "provider": provider}}}


@pytest.fixture(params=[(METALLB, CILIUM), (CILIUM, METALLB)], ids=["to cilium", "to metallb"])
def direction(request: Any) -> tuple[str, str]:
    """The providers before and after the change: MetalLB and Cilium, in both directions."""
    old, new = request.param
    return old, new


async def test_all_ranges_move_and_are_never_in_both_balancers(direction: tuple[str, str]) -> None:
    old, new = direction
    site = TwoBalancerSite(old)
    await site.run_passes(5)
    for name in ("web", "shop"):
        add_service(site.tenant, name)
    assert site.list_ranges_in(old) == ENTRIES
    site.set_provider(new)
    await site.run_passes()
    if new == CILIUM:
        # The user uninstalls MetalLB: while it runs, it clears addresses that it did not assign.
        site.metallb.paused = True
        site.cilium.resume()
    assert (site.list_ranges_in(old), site.list_ranges_in(new)) == ([], ENTRIES)
    assert site.read_condition()[:2] == ("True", "Ready")
    assert site.overlap_count == 0
    addresses = {find_address(site.tenant, name) for name in ("web", "shop")}
    assert addresses == {"10.40.0.0", "10.40.0.1"}
    assert site.tenant.all(POOLS if old == CILIUM else "ipaddresspools") == []


async def test_the_allocations_stay_and_note_their_new_load_balancer(
    direction: tuple[str, str],
) -> None:
    old, new = direction
    site = TwoBalancerSite(old)
    await site.run_passes(5)
    uids = {o["metadata"]["uid"] for o in site.lab.server.all("ipallocations")}
    site.set_provider(new)
    await site.run_passes()
    noted = None if new == METALLB else new
    assert site.read_annotations().get(names.ANNOTATION_LOAD_BALANCER) == noted
    assert names.ANNOTATION_LEAVING_BALANCER not in site.read_annotations()
    assert {o["metadata"]["uid"] for o in site.lab.server.all("ipallocations")} == uids


async def test_the_new_balancer_gets_no_range_while_the_old_one_may_have_it() -> None:
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    site.cilium.paused = True
    site.set_provider(METALLB)
    await site.run_passes(60)
    assert site.list_ranges_in(METALLB) == []
    status, reason, message = site.read_condition()
    assert (status, reason) == ("False", "LoadBalancerChanging")
    assert message.startswith("ranges of the tenant change from Cilium to MetalLB, and Services")
    assert "Cilium may still have team-a-lb" in message
    site.cilium.resume()
    await site.run_passes()
    assert (site.list_ranges_in(CILIUM), site.list_ranges_in(METALLB)) == ([], ENTRIES)


async def test_cilium_gets_no_range_before_the_deployment_of_metallb_is_removed() -> None:
    site = TwoBalancerSite()
    site.tenant.served = (*site.tenant.served, "deployments")
    meta = {"name": "controller", "namespace": "metallb-system"}
    labels = {"app.kubernetes.io/component": "controller"}
    site.tenant.add("deployments", {"metadata": meta | {"labels": labels}, "spec": {}})
    await site.run_passes(5)
    site.set_provider(CILIUM)
    await site.run_passes()
    assert (site.list_ranges_in(METALLB), site.list_ranges_in(CILIUM)) == ([], [])
    assert "MetalLB (Deployment metallb-system/controller) takes" in site.read_condition()[2]
    site.tenant.delete("deployments", "controller", namespace="metallb-system")
    await site.run_passes()
    assert site.list_ranges_in(CILIUM) == ENTRIES


async def test_a_change_of_balancer_that_is_reverted_leaves_the_ranges_in_the_old_one() -> None:
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    site.cilium.paused = True
    site.set_provider(METALLB)
    await site.run_passes(5)
    site.set_provider(CILIUM)
    site.cilium.resume()
    await site.run_passes()
    assert (site.list_ranges_in(CILIUM), site.list_ranges_in(METALLB)) == (ENTRIES, [])
    assert names.ANNOTATION_LEAVING_BALANCER not in site.read_annotations()
    assert site.read_condition()[:2] == ("True", "Ready")


async def test_a_range_that_is_deleted_during_the_change_is_in_use_until_the_old_one_releases_it() -> (  # noqa: E501
    None
):
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    site.cilium.paused = True
    site.set_provider(METALLB)
    await site.run_passes(5)
    site.lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await site.run_passes(20)
    assert site.lab.server.has("ipallocations", "team-a-lb-2")
    site.cilium.resume()
    await site.run_passes()
    assert not site.lab.server.has("ipallocations", "team-a-lb-2")
    assert (site.list_ranges_in(CILIUM), site.list_ranges_in(METALLB)) == ([], ENTRIES[:1])


async def test_all_ranges_of_a_cluster_that_is_deleted_during_the_change_are_released() -> None:
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    site.set_provider(METALLB)
    await site.run_passes(2)
    site.lab.server.delete("tenantclusters", "a", namespace="team")
    await site.run_passes()
    assert site.lab.server.all("ipallocations") == []
    assert site.tenant.all(POOLS) == site.tenant.all("ipaddresspools") == []


async def test_a_replica_whose_cache_lacks_the_change_does_not_give_ranges_to_the_old_balancer(
    direction: tuple[str, str],
) -> None:
    old, new = direction
    site = TwoBalancerSite(old)
    await site.run_passes(5)
    stale = site.make_replica()
    await site.run_passes(1, stale)
    stale.hold_events("tenantclusters", "ipallocations")
    site.set_provider(new)
    await site.run_passes()
    await site.run_passes(5, stale)
    assert not set(site.list_ranges_in(old)) & set(ENTRIES)
    stale.deliver_events()
    await site.run_passes(5, stale)
    await site.lab.clock.advance(OTHER_BALANCER_CHECK_SECONDS)
    await site.run_passes(5)
    assert (site.list_ranges_in(old), site.list_ranges_in(new)) == ([], ENTRIES)
    assert site.overlap_count == 0


async def test_pools_of_the_balancer_that_is_not_chosen_are_reported_until_they_are_gone() -> None:
    site = TwoBalancerSite()
    await site.run_passes(2)
    foreign = {"metadata": {"name": "by-hand"}, "spec": {"blocks": []}}
    site.tenant.add(POOLS, foreign)
    await site.lab.clock.advance(OTHER_BALANCER_CHECK_SECONDS)
    await site.run_passes(2)
    condition = site.lab.find_condition(
        "tenantclusters", "a", kind="SingleLoadBalancer", namespace="team"
    )
    assert (condition["status"], condition["reason"]) == ("False", "LoadBalancersConflict")
    assert "pools of Cilium: by-hand" in condition["message"]
    site.tenant.delete(POOLS, "by-hand", namespace="")
    await site.lab.clock.advance(OTHER_BALANCER_CHECK_SECONDS)
    await site.run_passes(2)
    assert (
        site.lab.find_condition("tenantclusters", "a", kind="SingleLoadBalancer", namespace="team")
        == {}
    )


async def test_a_tenant_to_which_nothing_was_written_yet_changes_its_balancer_at_once() -> None:
    site = TwoBalancerSite()
    site.lab.server.edit("tenantclusters", "a", {"status": {"phase": "Pending"}}, namespace="team")
    site.set_provider(CILIUM)
    await site.run_passes(4)
    assert site.list_ranges_in(CILIUM) == ENTRIES


async def test_an_uninstalled_balancer_counts_as_having_released_ranges_after_the_bounded_wait() -> (  # noqa: E501
    None
):
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    site.tenant.served = TENANT_KINDS
    site.set_provider(METALLB)
    await site.run_passes(10)
    assert site.list_ranges_in(METALLB) == ENTRIES
