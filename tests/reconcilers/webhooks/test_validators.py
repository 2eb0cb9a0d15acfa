"""Where the rules read objects: in caches where these suffice, else on the server."""

from typing import Any

import msgspec
import pytest

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.networkpool.offers import index_network_pools
from reconcilers.tenantcluster.provider import Providers
from reconcilers.webhooks.validators import (
    AllocationValidator,
    ClusterValidator,
    PoolValidator,
    ProviderValidator,
)
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica

LIMIT = 1 << 20
TENANT = {"ranges": [{"start": "10.40.0.0", "end": "10.40.0.31"}]}


@pytest.fixture
def lab() -> Lab:
    return Lab()


def pools(of: Replica) -> PoolValidator:
    caches = of.caches
    return PoolValidator(
        of.client,
        caches["networkpools"],
        allocations=caches["ipallocations"],
        clock=of.lab.clock,
        max_addresses=LIMIT,
        spaces=index_network_pools(caches["networkpools"], LIMIT),
    )


def allocations(of: Replica) -> AllocationValidator:
    caches = of.caches
    return AllocationValidator(
        *(of.client, caches["networkpools"], caches["ipallocations"], of.lab.clock, LIMIT),
        clusters=caches["tenantclusters"],
    )


def clusters(of: Replica) -> ClusterValidator:
    caches = of.caches
    providers = Providers(
        of.client, caches["providerconfigs"], clock=of.lab.clock, default_namespace=make.NAMESPACE
    )
    spaces = index_network_pools(caches["networkpools"], LIMIT)
    return ClusterValidator(
        of.client,
        providers,
        spaces=spaces,
        allocations=caches["ipallocations"],
        default_namespace=make.NAMESPACE,
    )


def providers(of: Replica) -> ProviderValidator:
    return ProviderValidator(of.client, of.caches["tenantclusters"], make.NAMESPACE)


def read_stored_pool(lab: Lab) -> NetworkPool:
    """Return the pool as the API server hands it to webhooks."""
    return msgspec.convert(lab.server.see("networkpools", "lab"), NetworkPool)


def lists(lab: Lab, plural: str = "ipallocations") -> int:
    return lab.server.count(verb="list", plural=plural)


NARROW = make.pool(tenant={"ranges": [{"start": "10.40.0.16", "end": "10.40.0.31"}]})


async def serve_allocation(lab: Lab) -> None:
    """Let an allocation get its range, and its promise be settled and dropped."""
    lab.server.add("networkpools", make.pool(tenant=TENANT))
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.pool()
    await lab.clock.advance(120)
    await lab.pool()
    assert not read_stored_pool(lab).status.assignments


async def test_a_narrowing_that_excludes_no_holder_costs_no_request(lab: Lab) -> None:
    await serve_allocation(lab)
    before = len(lab.server.requests)
    wide = make.pool(tenant={"ranges": [{"start": "10.40.0.0", "end": "10.40.0.15"}]})
    assert (await pools(lab).review_update(wide, read_stored_pool(lab))).allowed
    assert len(lab.server.requests) == before


async def test_a_range_that_was_just_assigned_counts_although_the_cache_lags(lab: Lab) -> None:
    slow = lab.another()
    slow.hold("ipallocations")
    await serve_allocation(lab)
    assert not slow.caches["ipallocations"].by_index("spec.poolRef.name", "butler-system/lab")
    verdict = await pools(slow).review_update(NARROW, read_stored_pool(lab))
    assert 'IPAllocation "a" has address 10.40.0.0 outside' in verdict.join_causes()
    assert not (await pools(slow).review_deletion(read_stored_pool(lab))).allowed


async def test_a_promised_range_counts_however_far_the_cache_lags(
    lab: Lab,
) -> None:
    slow = lab.another()
    slow.hold("ipallocations")
    late = make.allocation("late")
    promise = make.list_promise(make.promise(late, "10.40.0.0", "10.40.0.3"))
    old = make.pool(tenant=TENANT, status={"assignments": [promise]})
    verdict = await pools(slow).review_update(NARROW, old)
    assert 'IPAllocation "late" has address 10.40.0.0' in verdict.join_causes()


async def test_a_refusal_is_not_based_on_what_is_gone_already(lab: Lab) -> None:
    await serve_allocation(lab)
    slow = lab.another()
    slow.hold("ipallocations")
    lab.server.vanish("ipallocations", "a")
    assert (await pools(slow).review_update(NARROW, read_stored_pool(lab))).allowed
    assert (await pools(slow).review_deletion(read_stored_pool(lab))).allowed


async def test_a_pool_without_memory_is_judged_by_a_list(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool(tenant=TENANT, memory=None))
    lab.server.add("ipallocations", make.allocation("a", held_range=("10.40.0.0", "10.40.0.3")))
    before = lists(lab)
    assert not (await pools(lab).review_update(NARROW, read_stored_pool(lab))).allowed
    assert lists(lab) == before + 1


async def test_nothing_is_narrowed_while_some_allocations_cannot_be_read(lab: Lab) -> None:
    await serve_allocation(lab)
    cache = lab.caches["ipallocations"]
    cache.replace(list(cache), cache.position + 1, {make.key("odd"): "what is this?"})
    verdict = await pools(lab).review_update(NARROW, read_stored_pool(lab))
    assert "cannot tell whose addresses would be left out" in verdict.join_causes()
    assert "odd" in verdict.join_causes()


async def test_allocations_that_cannot_be_read_do_not_block_a_pools_deletion(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool())
    cache = lab.caches["ipallocations"]
    cache.replace([], cache.position + 1, {make.key("odd"): "what is this?"})
    verdict = await pools(lab).review_deletion(read_stored_pool(lab))
    assert verdict.allowed
    assert "the pool may stay until they are repaired or deleted" in verdict.warnings[0]


async def test_pools_that_share_addresses_are_found_in_the_cache(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool("other", "10.40.0.0/16"))
    [warning] = (await pools(lab).review_creation(make.pool())).warnings
    assert "addresses are also handed out by NetworkPool butler-system/other" in warning


async def test_a_request_is_judged_by_a_pool_that_is_not_in_the_cache_yet(lab: Lab) -> None:
    slow = lab.another()
    slow.hold("networkpools")
    lab.server.add("networkpools", make.pool())
    assert not (await allocations(slow).review_creation(make.allocation("a", size=500))).allowed
    assert (await allocations(slow).review_creation(make.allocation("a", size=4))).warnings == ()


async def test_a_request_is_not_refused_by_a_pool_that_has_grown(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/30"))
    slow = lab.another()
    slow.hold("networkpools")
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
    assert (await allocations(slow).review_creation(make.allocation("a", size=16))).allowed


async def test_a_request_to_a_pool_that_is_nowhere_is_warned_of(lab: Lab) -> None:
    verdict = await allocations(lab).review_creation(make.allocation("a"))
    assert verdict.allowed
    assert "does not exist" in verdict.warnings[0]


def cluster(provider: str | None, **spec_fields: Any) -> Any:
    spec = {"providerConfigRef": {"name": provider}} if provider else {}
    return make.tenant(spec=spec, **spec_fields)


async def test_the_provider_of_a_cluster_with_addresses_is_found_by_reference(lab: Lab) -> None:
    lab.server.add("providerconfigs", make.provider("lab", name="default"))
    lab.server.add("providerconfigs", make.provider("lab", name="other"))
    lab.server.add("ipallocations", make.allocation("team-a-lb", labels={}))
    judge, old = clusters(lab), cluster(None)
    assert (await judge.review_update(cluster("default"), old)).allowed, (
        "named otherwise, still the same"
    )
    verdict = await judge.review_update(cluster("other"), old)
    assert [cause.field for cause in verdict.causes] == ["spec.providerConfigRef"]
    assert "IPAllocation team-a-lb" in verdict.join_causes()


async def test_a_cluster_may_turn_to_another_provider_once_its_addresses_are_gone(
    lab: Lab,
) -> None:
    for name in ("default", "other"):
        lab.server.add("providerconfigs", make.provider("lab", name=name))
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    slow = lab.another()
    slow.hold("ipallocations")
    lab.server.vanish("ipallocations", "team-a-lb")
    assert (await clusters(slow).review_update(cluster("other"), cluster("default"))).allowed
    earlier = {"butler.butlerlabs.dev/tenant-uid": "of an earlier cluster"}
    lab.server.add("ipallocations", make.allocation("old-lb", annotations=earlier))
    assert (await clusters(lab).review_update(cluster("other"), cluster("default"))).allowed


@pytest.mark.parametrize("uid", ["", "of an earlier cluster"], ids=["its own", "an earlier one's"])
@pytest.mark.parametrize("cached", [True, False], ids=["cached as unreadable", "cached as it was"])
async def test_a_cluster_with_an_unreadable_allocation_keeps_its_provider(
    lab: Lab, cached: bool, uid: str
) -> None:
    for name in ("default", "other"):
        lab.server.add("providerconfigs", make.provider("lab", name=name))
    notes = {names.ANNOTATION_TENANT_UID: uid} if uid else {}
    lab.server.add("ipallocations", make.allocation("team-a-lb", annotations=notes))
    judge: Replica = lab
    if not cached:
        judge = lab.another()
        judge.hold("ipallocations")
    lab.server.edit("ipallocations", "team-a-lb", {"spec": {"count": "many"}})
    verdict = await clusters(judge).review_update(cluster("other"), cluster("default"))
    assert verdict.allowed == bool(uid)
    assert uid or "IPAllocation team-a-lb" in verdict.join_causes()


async def test_a_cluster_does_not_turn_from_an_unreadable_provider_to_another(lab: Lab) -> None:
    for name in ("default", "other"):
        lab.server.add("providerconfigs", make.provider("lab", name=name))
        lab.server.edit("providerconfigs", name, {"spec": {"network": 7}})
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    judge, old = clusters(lab), cluster("default")
    assert not (await judge.review_update(cluster("other"), old)).allowed
    verdict = await judge.review_update(cluster("default"), cluster(None))
    assert verdict.allowed, "it is the default"
    [warning] = verdict.warnings
    assert warning == (
        "ProviderConfig butler-system/default cannot be read; correct or delete it; the cluster"
        " waits until it is known"
    )


async def test_another_load_balancer_for_a_cluster_with_addresses_is_a_warning(lab: Lab) -> None:
    lab.server.add("providerconfigs", make.provider("lab", name="default"))
    metallb, cilium = (
        make.tenant(spec={"addons": {"loadBalancer": {"version": "1", "provider": provider}}})
        for provider in ("metallb", "cilium")
    )
    assert (await clusters(lab).review_update(cilium, metallb)).warnings == ()
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    assert (await clusters(lab).review_update(metallb, make.tenant())).warnings == ()
    verdict = await clusters(lab).review_update(cilium, metallb)
    assert verdict.allowed
    [warning] = verdict.warnings
    assert warning == (
        "spec.addons.loadBalancer.provider: Services have no addresses until metallb has let go"
        " of the cluster's ranges and cilium has them, and may get other addresses then. The"
        " condition LoadBalancerReady says what is waited for. Moves IPAllocation team-a-lb"
    )


async def test_a_provider_that_is_read_live_and_cannot_be_decoded_is_a_warning(lab: Lab) -> None:
    slow = lab.another()
    slow.hold("providerconfigs")
    lab.server.add("providerconfigs", make.provider("lab", name="onprem"))
    lab.server.edit("providerconfigs", "onprem", {"spec": {"network": 7}})
    [warning] = (await clusters(slow).review_creation(cluster("onprem"))).warnings
    assert "ProviderConfig butler-system/onprem cannot be read" in warning


async def test_a_namespace_that_is_the_default_may_be_written_or_not(lab: Lab) -> None:
    lab.server.add("providerconfigs", make.provider("lab", name="onprem"))
    status = {"lbAllocationRef": {"name": "team-a-lb"}}
    full = {"providerConfigRef": {"name": "onprem", "namespace": make.NAMESPACE}}
    new, old = make.tenant(spec=full), cluster("onprem", status=status)
    assert (await clusters(lab).review_update(new, old)).allowed


async def test_a_provider_that_is_not_in_the_cache_yet_is_read_live(lab: Lab) -> None:
    slow = lab.another()
    slow.hold("providerconfigs")
    lab.server.add("providerconfigs", make.provider("lab", name="onprem"))
    assert (await clusters(slow).review_creation(cluster("onprem"))).warnings == ()
    [warning] = (await clusters(slow).review_creation(cluster("nowhere"))).warnings
    assert "ProviderConfig butler-system/nowhere does not exist" in warning


async def test_a_provider_is_kept_for_the_clusters_that_name_it(lab: Lab) -> None:
    lab.server.add("tenantclusters", cluster("onprem"))
    lab.server.add("tenantclusters", make.tenant("b"))
    verdict = await providers(lab).review_deletion(make.provider("lab", name="onprem"))
    assert "TenantCluster team/a still references it" in verdict.join_causes()
    assert (await providers(lab).review_deletion(make.provider("lab", name="default"))).allowed


async def test_a_provider_may_go_after_a_cluster_that_went_just_now(lab: Lab) -> None:
    lab.server.add("tenantclusters", cluster("onprem"))
    slow = lab.another()
    slow.hold("tenantclusters")
    lab.server.vanish("tenantclusters", "a", namespace="team")
    assert Key("team", "a") in slow.caches["tenantclusters"]
    assert (await providers(slow).review_deletion(make.provider("lab", name="onprem"))).allowed
    assert lists(lab, TENANT_CLUSTER.plural) == 1


async def test_deletions_of_all_other_kinds_are_allowed(lab: Lab) -> None:
    assert (await allocations(lab).review_deletion(make.allocation("a"))).allowed
    assert (await clusters(lab).review_deletion(make.tenant())).allowed


@pytest.mark.parametrize("owner", ["ours", "another"])
async def test_a_deletion_is_warned_about_by_the_cluster_that_the_allocation_is_of(
    lab: Lab, owner: str
) -> None:
    tenant = make.tenant(status={"phase": "Ready"})
    lab.server.add("tenantclusters", tenant)
    uid = tenant.metadata.uid if owner == "ours" else "of-a-cluster-before"
    allocation = make.allocation(
        "a", held_range=("10.40.0.0", "10.40.0.7"), annotations={names.ANNOTATION_TENANT_UID: uid}
    )
    verdict = await allocations(lab).review_deletion(allocation)
    assert verdict.allowed
    assert bool(verdict.warnings) is (owner == "ours")
