"""A tenant changes its load balancer: no range is in two of them, and none is given away early."""

from typing import Any

import pytest

from controller.meta import Key
from controller.testing import WriteRecord
from reconcilers.api import names
from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from reconcilers.tenantcluster.otherbalancers import LOOK_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, address_of, pool_entries, service
from tests.reconcilers.lab import TENANT_KINDS, Lab, Replica
from tests.reconcilers.lbipam import POOLS, LbIpam, offered_entries
from tests.reconcilers.server import Json

FIRST, SECOND = ("10.40.0.0", "10.40.0.7"), ("10.40.0.8", "10.40.0.15")
ENTRIES = ["10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"]
TENANT = Key("team", "a")
METALLB, CILIUM = "metallb", "cilium"


class Site:
    """A platform with one Ready tenant, in which both MetalLB and Cilium run.

    Args:
        provider: the load balancer that the tenant has at first.
    """

    def __init__(self, provider: str = METALLB) -> None:
        self.lab = lab = Lab()
        lab.server.add("networkpools", make.pool())
        lab.server.add("providerconfigs", make.provider("lab"))
        cluster = make.tenant(spec=_spec(provider), status={"phase": "Ready"})
        lab.server.add("tenantclusters", cluster)
        note = {} if provider == METALLB else {names.ANNOTATION_LOAD_BALANCER: provider}
        for name, held_range in (("team-a-lb", FIRST), ("team-a-lb-2", SECOND)):
            allocation = make.allocation(
                name, tenant="team/a", held_range=held_range, annotations=note
            )
            lab.server.add("ipallocations", allocation)
        self.tenant = lab.tenant_server("a", (*TENANT_KINDS, POOLS))
        self.metallb, self.cilium = Balancer(self.tenant), LbIpam(self.tenant)
        self.in_both = 0
        self.tenant.listeners.append(self._watch)
        self.replica = self.another()

    def another(self) -> Replica:
        """Return a replica that believes it leads."""
        replica = Replica(self.lab, kinds={CILIUM: CiliumKind(self.lab.clock, wait=0.0)})
        replica.gate.real = replica.tenant_gate
        return replica

    def _watch(self, _: WriteRecord) -> None:
        both = map(set, (pool_entries(self.tenant), offered_entries(self.tenant)))
        self.in_both += all(entries & set(ENTRIES) for entries in both)

    async def run(self, seconds: int = 40, replica: Replica | None = None) -> None:
        """Run passes over the pool, the tenant and its allocations, a second apart."""
        runs = replica or self.replica
        for _ in range(seconds):
            await runs.pools.reconcile(Key(make.NAMESPACE, "lab"))
            await runs.clusters.reconcile(TENANT)
            for allocation in list(runs.caches["ipallocations"]):
                await runs.allocations.reconcile(allocation.metadata.key)
            await self.lab.clock.advance(1)

    def choose(self, provider: str) -> None:
        """Name another load balancer in the spec."""
        self.lab.server.edit("tenantclusters", "a", {"spec": _spec(provider)}, namespace="team")

    def list_offered(self, provider: str) -> list[str]:
        """Return the ranges that one of the load balancers hands out."""
        read = pool_entries if provider == METALLB else offered_entries
        return sorted(read(self.tenant))

    def annotations(self, name: str = "team-a-lb") -> Json:
        """Return the annotations of an allocation."""
        stored = self.lab.server.see("ipallocations", name, namespace=make.NAMESPACE)
        return dict(stored["metadata"].get("annotations", {}))

    def condition(self) -> tuple[str, str, str]:
        """Return status, reason and message of LoadBalancerReady."""
        condition = self.lab.condition(
            "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
        )
        return condition["status"], condition["reason"], condition["message"]


def _spec(provider: str) -> Json:
    return {"addons": {"loadBalancer": {"version": "1", "provider": provider}}}


@pytest.fixture(params=[(METALLB, CILIUM), (CILIUM, METALLB)], ids=["to cilium", "to metallb"])
def direction(request: Any) -> tuple[str, str]:
    """The load balancer before and after the change."""
    old, new = request.param
    return old, new


async def test_all_ranges_move_and_are_never_in_both(direction: tuple[str, str]) -> None:
    old, new = direction
    site = Site(old)
    await site.run(5)
    for name in ("web", "shop"):
        service(site.tenant, name)
    assert site.list_offered(old) == ENTRIES
    site.choose(new)
    await site.run()
    if new == CILIUM:
        # As a person uninstalls it: while it runs it takes every address that it did not give.
        site.metallb.paused = True
        site.cilium.resume()
    assert (site.list_offered(old), site.list_offered(new)) == ([], ENTRIES)
    assert site.condition()[:2] == ("True", "Ready")
    assert site.in_both == 0
    addresses = {address_of(site.tenant, name) for name in ("web", "shop")}
    assert addresses == {"10.40.0.0", "10.40.0.1"}
    assert site.tenant.all(POOLS if old == CILIUM else "ipaddresspools") == []


async def test_the_allocations_stay_and_note_their_new_load_balancer(
    direction: tuple[str, str],
) -> None:
    old, new = direction
    site = Site(old)
    await site.run(5)
    uids = {o["metadata"]["uid"] for o in site.lab.server.all("ipallocations")}
    site.choose(new)
    await site.run()
    noted = None if new == METALLB else new
    assert site.annotations().get(names.ANNOTATION_LOAD_BALANCER) == noted
    assert names.ANNOTATION_LEAVING_BALANCER not in site.annotations()
    assert {o["metadata"]["uid"] for o in site.lab.server.all("ipallocations")} == uids


async def test_the_new_load_balancer_waits_for_the_old_one_and_the_condition_says_so() -> None:
    site = Site(CILIUM)
    await site.run(5)
    site.cilium.paused = True
    site.choose(METALLB)
    await site.run(60)
    assert site.list_offered(METALLB) == []
    status, reason, message = site.condition()
    assert (status, reason) == ("False", "LoadBalancerChanging")
    assert message.startswith("ranges of the tenant change from Cilium to MetalLB, and Services")
    assert "Cilium may still have team-a-lb" in message
    site.cilium.resume()
    await site.run()
    assert (site.list_offered(CILIUM), site.list_offered(METALLB)) == ([], ENTRIES)


async def test_a_metallb_that_goes_on_taking_addresses_has_to_be_removed_first() -> None:
    site = Site()
    site.tenant.served = (*site.tenant.served, "deployments")
    meta = {"name": "controller", "namespace": "metallb-system"}
    labels = {"app.kubernetes.io/component": "controller"}
    site.tenant.add("deployments", {"metadata": meta | {"labels": labels}, "spec": {}})
    await site.run(5)
    site.choose(CILIUM)
    await site.run()
    assert (site.list_offered(METALLB), site.list_offered(CILIUM)) == ([], [])
    assert "MetalLB (Deployment metallb-system/controller) takes" in site.condition()[2]
    site.tenant.delete("deployments", "controller", namespace="metallb-system")
    await site.run()
    assert site.list_offered(CILIUM) == ENTRIES


async def test_a_change_that_is_taken_back_leaves_everything_as_it_was() -> None:
    site = Site(CILIUM)
    await site.run(5)
    site.cilium.paused = True
    site.choose(METALLB)
    await site.run(5)
    site.choose(CILIUM)
    site.cilium.resume()
    await site.run()
    assert (site.list_offered(CILIUM), site.list_offered(METALLB)) == (ENTRIES, [])
    assert names.ANNOTATION_LEAVING_BALANCER not in site.annotations()
    assert site.condition()[:2] == ("True", "Ready")


async def test_a_range_that_is_deleted_during_the_change_waits_for_the_load_balancer_that_has_it() -> (  # noqa: E501
    None
):
    site = Site(CILIUM)
    await site.run(5)
    site.cilium.paused = True
    site.choose(METALLB)
    await site.run(5)
    site.lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await site.run(20)
    assert site.lab.server.has("ipallocations", "team-a-lb-2")
    site.cilium.resume()
    await site.run()
    assert not site.lab.server.has("ipallocations", "team-a-lb-2")
    assert (site.list_offered(CILIUM), site.list_offered(METALLB)) == ([], ENTRIES[:1])


async def test_a_cluster_that_is_deleted_during_the_change_gives_back_all_ranges() -> None:
    site = Site(CILIUM)
    await site.run(5)
    site.choose(METALLB)
    await site.run(2)
    site.lab.server.delete("tenantclusters", "a", namespace="team")
    await site.run()
    assert site.lab.server.all("ipallocations") == []
    assert site.tenant.all(POOLS) == site.tenant.all("ipaddresspools") == []


async def test_a_replica_that_has_not_heard_of_the_change_gives_the_old_one_no_range_back(
    direction: tuple[str, str],
) -> None:
    old, new = direction
    site = Site(old)
    await site.run(5)
    late = site.another()
    await site.run(1, late)
    late.hold("tenantclusters", "ipallocations")
    site.choose(new)
    await site.run()
    await site.run(5, late)
    assert not set(site.list_offered(old)) & set(ENTRIES)
    late.flow()
    await site.run(5, late)
    await site.lab.clock.advance(LOOK_SECONDS)
    await site.run(5)
    assert (site.list_offered(old), site.list_offered(new)) == ([], ENTRIES)
    assert site.in_both == 0


async def test_pools_of_another_load_balancer_are_reported_until_they_are_gone() -> None:
    site = Site()
    await site.run(2)
    foreign = {"metadata": {"name": "by-hand"}, "spec": {"blocks": []}}
    site.tenant.add(POOLS, foreign)
    await site.lab.clock.advance(LOOK_SECONDS)
    await site.run(2)
    condition = site.lab.condition(
        "tenantclusters", "a", kind="SingleLoadBalancer", namespace="team"
    )
    assert (condition["status"], condition["reason"]) == ("False", "LoadBalancersConflict")
    assert "pools of Cilium: by-hand" in condition["message"]
    site.tenant.delete(POOLS, "by-hand", namespace="")
    await site.lab.clock.advance(LOOK_SECONDS)
    await site.run(2)
    assert (
        site.lab.condition("tenantclusters", "a", kind="SingleLoadBalancer", namespace="team")
        == {}
    )


async def test_a_tenant_to_which_nothing_was_written_yet_has_nothing_to_wait_for() -> None:
    site = Site()
    site.lab.server.edit("tenantclusters", "a", {"status": {"phase": "Pending"}}, namespace="team")
    site.choose(CILIUM)
    await site.run(4)
    assert site.list_offered(CILIUM) == ENTRIES


async def test_a_load_balancer_that_is_not_installed_any_more_counts_after_the_bounded_wait() -> (
    None
):
    site = Site(CILIUM)
    await site.run(5)
    site.tenant.served = TENANT_KINDS
    site.choose(METALLB)
    await site.run(10)
    assert site.list_offered(METALLB) == ENTRIES
