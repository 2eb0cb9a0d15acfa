"""Validators read objects from caches if these are recent enough, otherwise from the server."""

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
"""The largest number of addresses that a pool may have."""
TENANT = {"ranges": [{"start": "10.40.0.0", "end": "10.40.0.31"}]}


@pytest.fixture
def lab() -> Lab:
    return Lab()


def make_pool_validator(of: Replica) -> PoolValidator:
    """Return the validator of NetworkPools, on the caches of a replica."""
    caches = of.caches
    return PoolValidator(
        of.client,
        caches["networkpools"],
        allocations=caches["ipallocations"],
        clock=of.lab.clock,
        max_addresses=LIMIT,
        spaces=index_network_pools(caches["networkpools"], LIMIT),
    )


def make_allocation_validator(of: Replica) -> AllocationValidator:
    """Return the validator of IPAllocations, on the caches of a replica."""
    caches = of.caches
    return AllocationValidator(
        *(of.client, caches["networkpools"], caches["ipallocations"], of.lab.clock, LIMIT),
        clusters=caches["tenantclusters"],
    )


def make_cluster_validator(of: Replica) -> ClusterValidator:
    """Return the validator of TenantClusters, on the caches of a replica."""
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


def make_provider_validator(of: Replica) -> ProviderValidator:
    """Return the validator of ProviderConfigs, on the caches of a replica."""
    return ProviderValidator(of.client, of.caches["tenantclusters"], make.NAMESPACE)


def read_stored_pool(lab: Lab) -> NetworkPool:
    """Return the pool as the API server hands it to webhooks."""
    return msgspec.convert(lab.server.see("networkpools", "lab"), NetworkPool)


def count_lists(lab: Lab, plural: str = "ipallocations") -> int:
    """Return how often objects of a kind were listed."""
    return lab.server.count(verb="list", plural=plural)


NARROW = make.pool(tenant={"ranges": [{"start": "10.40.0.16", "end": "10.40.0.31"}]})


async def serve_allocation(lab: Lab) -> None:
    """Let an allocation get its range, and its promise be settled and dropped."""
    lab.server.add("networkpools", make.pool(tenant=TENANT))
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.run_pool_pass()
    await lab.clock.advance(120)
    await lab.run_pool_pass()
    assert not read_stored_pool(lab).status.assignments


async def test_a_narrowing_that_excludes_no_holder_costs_no_request(lab: Lab) -> None:
    await serve_allocation(lab)
    before = len(lab.server.requests)
    wide = make.pool(tenant={"ranges": [{"start": "10.40.0.0", "end": "10.40.0.15"}]})
    assert (await make_pool_validator(lab).review_update(wide, read_stored_pool(lab))).allowed
    assert len(lab.server.requests) == before


async def test_a_range_that_was_just_assigned_counts_even_if_the_cache_lags(lab: Lab) -> None:
    stale = lab.make_replica()
    stale.hold_events("ipallocations")
    await serve_allocation(lab)
    assert not stale.caches["ipallocations"].list_by_index(
        "spec.poolRef.name", "butler-system/lab"
    )
    verdict = await make_pool_validator(stale).review_update(NARROW, read_stored_pool(lab))
    assert 'IPAllocation "a" has address 10.40.0.0 outside' in verdict.join_causes()
    assert not (await make_pool_validator(stale).review_deletion(read_stored_pool(lab))).allowed


async def test_a_promised_range_counts_however_far_the_cache_lags(
    lab: Lab,
) -> None:
    stale = lab.make_replica()
    stale.hold_events("ipallocations")
    late = make.allocation("late")
    promise = make.render_promise(make.promise(late, "10.40.0.0", "10.40.0.3"))
    old = make.pool(tenant=TENANT, status={"assignments": [promise]})
    verdict = await make_pool_validator(stale).review_update(NARROW, old)
    assert 'IPAllocation "late" has address 10.40.0.0' in verdict.join_causes()


async def test_a_deleted_allocation_does_not_block_a_pool_even_if_the_cache_lags(lab: Lab) -> None:
    await serve_allocation(lab)
    stale = lab.make_replica()
    stale.hold_events("ipallocations")
    lab.server.vanish("ipallocations", "a")
    assert (await make_pool_validator(stale).review_update(NARROW, read_stored_pool(lab))).allowed
    assert (await make_pool_validator(stale).review_deletion(read_stored_pool(lab))).allowed


async def test_allocations_of_a_pool_without_a_journal_are_listed_live(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool(tenant=TENANT, memory=None))
    lab.server.add("ipallocations", make.allocation("a", held_range=("10.40.0.0", "10.40.0.3")))
    before = count_lists(lab)
    assert not (
        await make_pool_validator(lab).review_update(NARROW, read_stored_pool(lab))
    ).allowed
    assert count_lists(lab) == before + 1


async def test_nothing_is_narrowed_while_some_allocations_cannot_be_read(lab: Lab) -> None:
    await serve_allocation(lab)
    cache = lab.caches["ipallocations"]
    cache.replace(list(cache), cache.position + 1, {make.key("odd"): "what is this?"})
    verdict = await make_pool_validator(lab).review_update(NARROW, read_stored_pool(lab))
    assert "cannot tell whose addresses would be left out" in verdict.join_causes()
    assert "odd" in verdict.join_causes()


async def test_allocations_that_cannot_be_read_do_not_block_a_pools_deletion(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool())
    cache = lab.caches["ipallocations"]
    cache.replace([], cache.position + 1, {make.key("odd"): "what is this?"})
    verdict = await make_pool_validator(lab).review_deletion(read_stored_pool(lab))
    assert verdict.allowed
    assert "the pool may stay until they are repaired or deleted" in verdict.warnings[0]


async def test_pools_that_share_addresses_are_found_in_the_cache(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool("other", "10.40.0.0/16"))
    [warning] = (await make_pool_validator(lab).review_creation(make.pool())).warnings
    assert "addresses are also handed out by NetworkPool butler-system/other" in warning


async def test_a_request_is_checked_against_a_pool_that_is_not_in_the_cache_yet(lab: Lab) -> None:
    stale = lab.make_replica()
    stale.hold_events("networkpools")
    lab.server.add("networkpools", make.pool())
    assert not (
        await make_allocation_validator(stale).review_creation(make.allocation("a", size=500))
    ).allowed
    assert (
        await make_allocation_validator(stale).review_creation(make.allocation("a", size=4))
    ).warnings == ()


async def test_a_request_that_fits_only_the_current_spec_of_the_pool_is_allowed(lab: Lab) -> None:
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/30"))
    stale = lab.make_replica()
    stale.hold_events("networkpools")
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
    assert (
        await make_allocation_validator(stale).review_creation(make.allocation("a", size=16))
    ).allowed


async def test_a_request_to_a_missing_pool_has_a_warning(lab: Lab) -> None:
    verdict = await make_allocation_validator(lab).review_creation(make.allocation("a"))
    assert verdict.allowed
    assert "does not exist" in verdict.warnings[0]


def make_cluster(provider: str | None, **spec_fields: Any) -> Any:
    """Return TenantCluster team/a with this ProviderConfig; None for the default."""
    spec = {"providerConfigRef": {"name": provider}} if provider else {}
    return make.tenant(spec=spec, **spec_fields)


async def test_naming_the_default_provider_is_no_change_of_the_provider(lab: Lab) -> None:
    lab.server.add("providerconfigs", make.provider("lab", name="default"))
    lab.server.add("providerconfigs", make.provider("lab", name="other"))
    lab.server.add("ipallocations", make.allocation("team-a-lb", labels={}))
    validator, old = make_cluster_validator(lab), make_cluster(None)
    assert (await validator.review_update(make_cluster("default"), old)).allowed, (
        "the default is named explicitly"
    )
    verdict = await validator.review_update(make_cluster("other"), old)
    assert [cause.field for cause in verdict.causes] == ["spec.providerConfigRef"]
    assert "IPAllocation team-a-lb" in verdict.join_causes()


async def test_a_cluster_can_change_its_provider_once_its_addresses_are_released(
    lab: Lab,
) -> None:
    for name in ("default", "other"):
        lab.server.add("providerconfigs", make.provider("lab", name=name))
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    stale = lab.make_replica()
    stale.hold_events("ipallocations")
    lab.server.vanish("ipallocations", "team-a-lb")
    assert (
        await make_cluster_validator(stale).review_update(
            make_cluster("other"), make_cluster("default")
        )
    ).allowed
    earlier = {"butler.butlerlabs.dev/tenant-uid": "of an earlier cluster"}
    lab.server.add("ipallocations", make.allocation("old-lb", annotations=earlier))
    assert (
        await make_cluster_validator(lab).review_update(
            make_cluster("other"), make_cluster("default")
        )
    ).allowed


@pytest.mark.parametrize("uid", ["", "of an earlier cluster"], ids=["its own", "an earlier one's"])
@pytest.mark.parametrize(
    "is_cached", [True, False], ids=["cached as unreadable", "cached as it was"]
)
async def test_a_cluster_with_an_unreadable_allocation_keeps_its_provider(
    lab: Lab, is_cached: bool, uid: str
) -> None:
    for name in ("default", "other"):
        lab.server.add("providerconfigs", make.provider("lab", name=name))
    notes = {names.ANNOTATION_TENANT_UID: uid} if uid else {}
    lab.server.add("ipallocations", make.allocation("team-a-lb", annotations=notes))
    validator: Replica = lab
    if not is_cached:
        validator = lab.make_replica()
        validator.hold_events("ipallocations")
    lab.server.edit("ipallocations", "team-a-lb", {"spec": {"count": "many"}})
    verdict = await make_cluster_validator(validator).review_update(
        make_cluster("other"), make_cluster("default")
    )
    assert verdict.allowed == bool(uid)
    assert uid or "IPAllocation team-a-lb" in verdict.join_causes()


async def test_a_cluster_with_an_unreadable_provider_cannot_change_to_another(lab: Lab) -> None:
    for name in ("default", "other"):
        lab.server.add("providerconfigs", make.provider("lab", name=name))
        lab.server.edit("providerconfigs", name, {"spec": {"network": 7}})
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    validator, old = make_cluster_validator(lab), make_cluster("default")
    assert not (await validator.review_update(make_cluster("other"), old)).allowed
    verdict = await validator.review_update(make_cluster("default"), make_cluster(None))
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
    assert (await make_cluster_validator(lab).review_update(cilium, metallb)).warnings == ()
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    assert (await make_cluster_validator(lab).review_update(metallb, make.tenant())).warnings == ()
    verdict = await make_cluster_validator(lab).review_update(cilium, metallb)
    assert verdict.allowed
    [warning] = verdict.warnings
    assert warning == (
        "spec.addons.loadBalancer.provider: Services have no addresses until metallb has let go"
        " of the cluster's ranges and cilium has them, and may get other addresses then. The"
        " condition LoadBalancerReady says what is waited for. Moves IPAllocation team-a-lb"
    )


async def test_a_provider_that_is_read_live_and_cannot_be_decoded_is_a_warning(lab: Lab) -> None:
    stale = lab.make_replica()
    stale.hold_events("providerconfigs")
    lab.server.add("providerconfigs", make.provider("lab", name="onprem"))
    lab.server.edit("providerconfigs", "onprem", {"spec": {"network": 7}})
    [warning] = (
        await make_cluster_validator(stale).review_creation(make_cluster("onprem"))
    ).warnings
    assert "ProviderConfig butler-system/onprem cannot be read" in warning


async def test_naming_the_default_namespace_of_the_provider_is_no_change(lab: Lab) -> None:
    lab.server.add("providerconfigs", make.provider("lab", name="onprem"))
    status = {"lbAllocationRef": {"name": "team-a-lb"}}
    full = {"providerConfigRef": {"name": "onprem", "namespace": make.NAMESPACE}}
    new, old = make.tenant(spec=full), make_cluster("onprem", status=status)
    assert (await make_cluster_validator(lab).review_update(new, old)).allowed


async def test_a_provider_that_is_not_in_the_cache_yet_is_read_live(lab: Lab) -> None:
    stale = lab.make_replica()
    stale.hold_events("providerconfigs")
    lab.server.add("providerconfigs", make.provider("lab", name="onprem"))
    assert (
        await make_cluster_validator(stale).review_creation(make_cluster("onprem"))
    ).warnings == ()
    [warning] = (
        await make_cluster_validator(stale).review_creation(make_cluster("nowhere"))
    ).warnings
    assert "ProviderConfig butler-system/nowhere does not exist" in warning


async def test_only_a_provider_that_no_cluster_names_can_be_deleted(lab: Lab) -> None:
    lab.server.add("tenantclusters", make_cluster("onprem"))
    lab.server.add("tenantclusters", make.tenant("b"))
    verdict = await make_provider_validator(lab).review_deletion(
        make.provider("lab", name="onprem")
    )
    assert "TenantCluster team/a still references it" in verdict.join_causes()
    assert (
        await make_provider_validator(lab).review_deletion(make.provider("lab", name="default"))
    ).allowed


async def test_a_provider_can_be_deleted_after_its_cluster_even_if_the_cache_lags(
    lab: Lab,
) -> None:
    lab.server.add("tenantclusters", make_cluster("onprem"))
    stale = lab.make_replica()
    stale.hold_events("tenantclusters")
    lab.server.vanish("tenantclusters", "a", namespace="team")
    assert Key("team", "a") in stale.caches["tenantclusters"]
    assert (
        await make_provider_validator(stale).review_deletion(make.provider("lab", name="onprem"))
    ).allowed
    assert count_lists(lab, TENANT_CLUSTER.plural) == 1


async def test_deletions_of_all_other_kinds_are_allowed(lab: Lab) -> None:
    assert (await make_allocation_validator(lab).review_deletion(make.allocation("a"))).allowed
    assert (await make_cluster_validator(lab).review_deletion(make.tenant())).allowed


@pytest.mark.parametrize("owner", ["ours", "another"])
async def test_the_deletion_of_an_allocation_warns_only_if_its_own_cluster_exists(
    lab: Lab, owner: str
) -> None:
    tenant = make.tenant(status={"phase": "Ready"})
    lab.server.add("tenantclusters", tenant)
    uid = tenant.metadata.uid if owner == "ours" else "of-a-cluster-before"
    allocation = make.allocation(
        "a", held_range=("10.40.0.0", "10.40.0.7"), annotations={names.ANNOTATION_TENANT_UID: uid}
    )
    verdict = await make_allocation_validator(lab).review_deletion(allocation)
    assert verdict.allowed
    assert bool(verdict.warnings) is (owner == "ours")
