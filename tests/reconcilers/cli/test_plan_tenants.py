"""The allocations that a plan creates for TenantClusters, and the pools that it chooses."""

from typing import Any

import pytest

from tests.reconcilers.cli.commandline import (
    Outcome,
    find_condition,
    make_allocation,
    make_cluster,
    make_held_status,
    make_object,
    make_pool,
    make_provider,
    plan,
)


def read_ranges(outcome: Outcome) -> dict[str, str]:
    """Return the CIDR of each allocation by name; its phase if it has no range."""
    return {
        name.removeprefix("IPAllocation/"): body["status"].get("cidr", body["status"]["phase"])
        for name, body in outcome.items.items()
        if body["kind"] == "IPAllocation"
    }


def read_counts(outcome: Outcome) -> dict[str, int]:
    """Return the requested number of addresses by type of the allocation."""
    return {
        body["spec"]["type"]: body["spec"]["count"]
        for body in outcome.items.values()
        if body["kind"] == "IPAllocation"
    }


def test_a_cluster_gets_load_balancer_and_node_addresses() -> None:
    outcome = plan(make_pool(), make_provider("prov", "lab"), make_cluster())
    assert outcome.code == 0
    assert read_ranges(outcome) == {
        "team-app-lb": "10.40.0.0/29",
        "team-app-nodes": "10.40.0.8-10.40.0.12",
    }
    status = outcome.items["TenantCluster/app"]["status"]
    assert status["lbAllocationRef"] == {"name": "team-app-lb"}
    assert status["ipAllocationRef"] == {"name": "team-app-nodes"}
    assert status["phase"] == "Provisioning"
    condition = find_condition(outcome.items["TenantCluster/app"], "NetworkReady")
    assert (condition["status"], condition["message"]) == (
        "True",
        "LB IPs allocated: 10.40.0.0/29",
    )


def test_an_allocation_for_a_cluster_has_all_fields_that_the_controller_writes() -> None:
    created = plan(make_pool(), make_provider("prov", "lab"), make_cluster()).items[
        "IPAllocation/team-app-lb"
    ]
    prefix = "butler.butlerlabs.dev"
    assert created["apiVersion"] == f"{prefix}/v1alpha1"
    assert created["metadata"] == {
        "name": "team-app-lb",
        "namespace": "butler-system",
        "labels": {
            f"{prefix}/team": "team",
            f"{prefix}/tenant": "app",
            f"{prefix}/network-pool": "lab",
            f"{prefix}/allocation-type": "loadbalancer",
            f"{prefix}/allocation-role": "initial",
            "app.kubernetes.io/managed-by": "butler",
        },
        "finalizers": [f"{prefix}/ipallocation"],
    }
    assert created["spec"] == {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "app", "namespace": "team"},
        "type": "loadbalancer",
        "count": 8,
    }


@pytest.mark.parametrize(
    ("network", "own", "expected"),
    [
        ({}, {}, 8),
        ({"loadBalancer": {"defaultPoolSize": 4}}, {}, 4),
        ({"loadBalancer": {"defaultPoolSize": 4}}, {"lbPoolSize": 6}, 6),
        ({"loadBalancer": {"allocationMode": "elastic"}}, {}, 2),
        ({"loadBalancer": {"allocationMode": "elastic", "initialPoolSize": 3}}, {}, 3),
        ({"quotaPerTenant": {"maxLoadBalancerIPs": 5}}, {}, 5),
        ({"quotaPerTenant": {"maxLoadBalancerIPs": 5}}, {"lbPoolSize": 6}, 5),
    ],
)
def test_the_size_of_the_cluster_overrides_the_providers_and_the_quota_limits_both(
    network: dict[str, Any], own: dict[str, int], expected: int
) -> None:
    outcome = plan(
        make_pool(), make_provider("prov", "lab", **network), make_cluster(networking=own)
    )
    assert read_counts(outcome)["loadbalancer"] == expected


def test_node_addresses_are_the_pools_default_within_the_quota() -> None:
    generous = make_pool(tenant_allocation={"defaults": {"nodesPerTenant": 10}})
    assert read_counts(plan(generous, make_provider("prov", "lab"), make_cluster()))["nodes"] == 10
    limited = make_provider("prov", "lab", quotaPerTenant={"maxNodeIPs": 3})
    assert read_counts(plan(generous, limited, make_cluster()))["nodes"] == 3


def test_an_elastic_cluster_without_an_ingress_starts_with_no_load_balancer_addresses() -> None:
    elastic = make_provider("prov", "lab", loadBalancer={"allocationMode": "elastic"})
    without_ingress = make_cluster(addons={"ingress": {"enabled": False}})
    outcome = plan(make_pool(), elastic, without_ingress)
    assert list(read_ranges(outcome)) == ["team-app-nodes"]
    assert find_condition(outcome.items["TenantCluster/app"], "NetworkReady")["status"] == "True"


def test_clusters_use_the_next_pool_when_the_first_is_full() -> None:
    clusters = [make_cluster(f"c{n}") for n in range(3)]
    outcome = plan(
        make_pool("first", "10.0.0.0/28"),
        make_pool("second", "10.1.0.0/24"),
        make_provider("prov", "first", "second"),
        *clusters,
    )
    assert outcome.code == 0
    assert read_ranges(outcome) == {
        "team-c0-lb": "10.0.0.0/29",
        "team-c0-nodes": "10.0.0.8-10.0.0.12",
        "team-c1-lb": "10.1.0.0/29",
        "team-c1-nodes": "10.1.0.8-10.1.0.12",
        "team-c2-lb": "10.1.0.13-10.1.0.20",
        "team-c2-nodes": "10.1.0.21-10.1.0.25",
    }


def test_pools_are_tried_by_priority_and_not_in_the_order_of_the_list() -> None:
    config = make_object(
        "ProviderConfig",
        "prov",
        {
            "provider": "local",
            "network": {
                "mode": "ipam",
                "poolRefs": [{"name": "later", "priority": 10}, {"name": "sooner"}],
            },
        },
    )
    outcome = plan(
        make_pool("later", "10.1.0.0/24"),
        make_pool("sooner", "10.2.0.0/24"),
        config,
        make_cluster(),
    )
    assert read_ranges(outcome)["team-app-lb"] == "10.2.0.0/29"


def test_a_pool_without_a_large_enough_free_block_is_skipped() -> None:
    holes = [
        make_allocation(
            f"a{n}", pool="first", status=make_held_status(f"10.0.0.{n}", f"10.0.0.{n}")
        )
        for n in range(3, 32, 4)
    ]
    outcome = plan(
        make_pool("first", "10.0.0.0/27"),
        make_pool("second", "10.1.0.0/24"),
        make_provider("prov", "first", "second"),
        make_cluster(),
        *holes,
    )
    assert read_ranges(outcome)["team-app-lb"] == "10.1.0.0/29"


def test_a_cluster_reports_that_every_pool_is_full_and_gets_no_allocation() -> None:
    outcome = plan(make_pool(cidr="10.0.0.0/30"), make_provider("prov", "lab"), make_cluster())
    assert outcome.code == 0
    assert read_ranges(outcome) == {}
    condition = find_condition(outcome.items["TenantCluster/app"], "NetworkReady")
    assert (condition["reason"], condition["message"]) == (
        "PoolExhausted",
        (
            "no pool of ProviderConfig butler-system/prov has room: needs 8 load-balancer"
            " addresses in a row; lab: largest free block 4"
        ),
    )


def test_requests_of_the_input_are_served_before_requests_of_clusters() -> None:
    outcome = plan(
        make_provider("prov", "lab"), make_cluster(), make_pool(), make_allocation("a", 4)
    )
    assert read_ranges(outcome)["a"] == "10.40.0.0/30"


def test_a_pinned_allocation_that_names_a_cluster_is_its_load_balancer_allocation() -> None:
    pinned = make_allocation(
        "stable", pinned_range=("10.40.0.64", "10.40.0.71"), tenant="team/app"
    )
    outcome = plan(make_pool(), make_provider("prov", "lab"), make_cluster(), pinned)
    assert set(read_ranges(outcome)) == {"stable", "team-app-nodes"}
    assert outcome.items["TenantCluster/app"]["status"]["lbAllocationRef"] == {"name": "stable"}


def test_existing_allocations_of_a_cluster_are_not_requested_again() -> None:
    first = plan(make_pool(), make_provider("prov", "lab"), make_cluster())
    again = plan(*first.items.values())
    assert read_ranges(again) == read_ranges(first)


def test_a_failed_request_of_a_cluster_moves_to_a_pool_with_room() -> None:
    owner_uid = {"butler.butlerlabs.dev/tenant-uid": "u1"}
    failed = make_allocation(
        "team-app-lb",
        8,
        pool="full",
        tenant="team/app",
        annotations=owner_uid,
        creationTimestamp="2026-01-01T00:00:00Z",
        status={"phase": "Failed"},
    )
    outcome = plan(
        make_pool("full", "10.0.0.0/30"),
        make_pool("free", "10.1.0.0/24"),
        make_provider("prov", "full", "free"),
        make_cluster(uid="u1"),
        failed,
    )
    moved = outcome.items["IPAllocation/team-app-lb"]
    assert moved["spec"]["poolRef"] == {"name": "free"}
    # The pass that deletes it requests the nodes; the next pass requests it again.
    assert read_ranges(outcome)["team-app-nodes"] == "10.1.0.0-10.1.0.4"
    assert moved["status"]["cidr"] == "10.1.0.5-10.1.0.12"
    annotations = moved["metadata"]["annotations"]
    assert annotations["butler.butlerlabs.dev/requested-at"] == "2026-01-01T00:00:00+00:00"


def test_a_cluster_without_a_uid_owns_stored_allocations_that_name_it() -> None:
    """The cluster comes from a repository, the allocations from a running cluster."""
    owner_uid = {"butler.butlerlabs.dev/tenant-uid": "u1"}
    holder = make_allocation(
        "team-app-lb",
        8,
        tenant="team/app",
        annotations=owner_uid,
        status=make_held_status("10.40.0.0", "10.40.0.7"),
    )
    outcome = plan(make_pool(), make_provider("prov", "lab"), make_cluster(), holder)
    assert set(read_ranges(outcome)) == {"team-app-lb", "team-app-nodes"}


def test_a_ready_cluster_gets_node_addresses_only_with_the_backfill_flag() -> None:
    running = make_cluster(status={"phase": "Ready"})
    holder = make_allocation(
        "team-app-lb", 8, tenant="team/app", status=make_held_status("10.40.0.0", "10.40.0.7")
    )
    objects = (make_pool(), make_provider("prov", "lab"), running, holder)
    assert "IPAllocation/team-app-nodes" not in plan(*objects).items
    backfilled = plan(*objects, options=["--backfill-node-allocations"])
    assert "IPAllocation/team-app-nodes" in backfilled.items
    assert backfilled.items["TenantCluster/app"]["status"]["phase"] == "Ready"


def test_a_cluster_in_cloud_mode_gets_no_allocations() -> None:
    cloud = make_object(
        "ProviderConfig", "prov", {"provider": "local", "network": {"mode": "cloud"}}
    )
    outcome = plan(make_pool(), cloud, make_cluster())
    assert read_ranges(outcome) == {}
    assert outcome.items["TenantCluster/app"]["status"]["phase"] == "Ready"
    assert find_condition(outcome.items["TenantCluster/app"], "NetworkReady")["message"] == (
        "cloud networking mode"
    )


def test_a_cluster_that_is_being_deleted_gets_no_allocations() -> None:
    deleted = make_cluster(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
    outcome = plan(make_pool(), make_provider("prov", "lab"), deleted)
    assert read_ranges(outcome) == {}


def test_a_cluster_that_names_no_provider_gets_the_platforms_default() -> None:
    platform = {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ButlerConfig",
        "metadata": {"name": "butler"},
        "spec": {"defaultProviderConfigRef": {"name": "chosen"}},
    }
    outcome = plan(
        make_pool(),
        make_pool("other", "10.1.0.0/24"),
        make_provider("alphabetically-first", "lab"),
        make_provider("chosen", "other"),
        platform,
        make_cluster(provider=None),
    )
    assert outcome.code == 0
    assert read_ranges(outcome)["team-app-lb"] == "10.1.0.0/29"


def test_two_clusters_whose_namespace_and_name_join_to_the_same_do_not_share_an_allocation() -> (
    None
):
    outcome = plan(
        make_pool(),
        make_provider("prov", "lab"),
        make_cluster("b-c", namespace="a"),
        make_cluster("c", namespace="a-b"),
    )
    allocations = [body for body in outcome.items.values() if body["kind"] == "IPAllocation"]
    assert len(allocations) == 4
    assert len({body["metadata"]["name"] for body in allocations}) == 4


def test_a_provider_reports_the_capacity_of_its_pools_after_the_plan() -> None:
    outcome = plan(make_pool(), make_provider("prov", "lab"), make_cluster())
    status = outcome.items["ProviderConfig/prov"]["status"]
    assert status["capacity"] == {"availableIPs": 243, "estimatedTenants": 18}
    assert find_condition(outcome.items["ProviderConfig/prov"], "PoolAvailable")["message"] == (
        "243 IPs available (~18 tenants)"
    )
