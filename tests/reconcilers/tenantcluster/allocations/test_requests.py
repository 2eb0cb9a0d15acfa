"""The requests of a tenant: their sizes, their names, and the pools that are chosen for them."""

from typing import Any

import pytest

from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.api.tenantcluster import Networking
from reconcilers.reporting import allocationlabels
from reconcilers.tenantcluster.allocations import membership, requests
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

ELASTIC = {"allocationMode": "elastic"}


def _compute_balancer_count(tenant: Any, **provider: Any) -> int:
    """Return how many addresses a tenant requests for Services, by its provider."""
    config = make.provider("lab", **provider)
    return requests.compute_load_balancer_count(tenant, config.spec.networking)


def _make_ingress_addon(enabled: bool | None) -> dict[str, Any]:
    """Return the spec of a tenant with the ingress addon; None leaves `enabled` out."""
    return {"addons": {"ingress": {} if enabled is None else {"enabled": enabled}}}


@pytest.mark.parametrize(
    ("spec", "balancer", "quota", "expected"),
    [
        ({}, {}, {}, 8),
        ({}, {"defaultPoolSize": 4}, {}, 4),
        ({"networking": {"lbPoolSize": 12}}, {"defaultPoolSize": 4}, {}, 12),
        ({"networking": {"lbPoolSize": 12}}, {}, {"maxLoadBalancerIPs": 10}, 10),
        ({}, {}, {"maxLoadBalancerIPs": 3}, 3),
        ({}, ELASTIC, {}, 2),
        ({}, ELASTIC | {"initialPoolSize": 5}, {}, 5),
        ({"networking": {"lbPoolSize": 6}}, ELASTIC, {}, 6),
        (_make_ingress_addon(None), ELASTIC, {}, 2),
        (_make_ingress_addon(True), ELASTIC, {}, 2),
        (_make_ingress_addon(False), ELASTIC, {}, 0),
        (_make_ingress_addon(False), {}, {}, 8),
        (_make_ingress_addon(False) | {"networking": {"lbPoolSize": 1}}, ELASTIC, {}, 1),
    ],
)
def test_the_balancer_size_comes_from_cluster_provider_or_default_and_is_at_most_the_quota(
    spec: Any, balancer: Any, quota: Any, expected: int
) -> None:
    assert (
        _compute_balancer_count(make.tenant(spec=spec), load_balancer=balancer, quota=quota)
        == expected
    )


def test_the_schema_of_initial_pool_size_says_that_without_ingress_it_does_not_apply() -> None:
    definition = next(
        crd for crd in build_crds() if crd["spec"]["names"]["kind"] == "ProviderConfig"
    )
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    sizing = schema["properties"]["network"]["properties"]["loadBalancer"]["properties"]
    assert "addons.ingress.enabled false starts without addresses" in " ".join(
        sizing["initialPoolSize"]["description"].split()
    )


def test_the_node_size_is_the_pools_default_and_at_most_the_quota() -> None:
    pool = make.pool(tenant={"defaults": {"nodesPerTenant": 7}})
    network = make.provider("lab").spec.networking
    assert requests.compute_node_count(pool, network) == 7
    assert requests.compute_node_count(make.pool(), network) == 5
    limited = make.provider("lab", quota={"maxNodeIPs": 4}).spec.networking
    assert requests.compute_node_count(pool, limited) == 4


def test_tenants_whose_namespace_and_name_join_to_the_same_do_not_share_an_allocation() -> None:
    lab = Lab()
    tenant, other = make.tenant("c", "a-b"), make.tenant("b-c", "a")
    lab.server.add("ipallocations", make.allocation("a-b-c-lb", tenant="a-b/c"))
    cache = lab.caches["ipallocations"]
    assert (
        membership.find_free_name(
            tenant, "loadbalancer", allocations=cache, namespace=make.NAMESPACE
        )
        == "a-b-c-lb"
    )
    name = membership.find_free_name(
        other, "loadbalancer", allocations=cache, namespace=make.NAMESPACE
    )
    assert name == f"a-b-c-lb-{names.compute_short_hash('a/b-c')}"
    assert membership.list_members(cache, other) == []


def test_an_allocation_of_an_earlier_cluster_of_the_name_is_never_adopted() -> None:
    lab = Lab()
    tenant = make.tenant()
    owner = {names.ANNOTATION_TENANT_UID: "uid-of-the-earlier-one"}
    lab.server.add("ipallocations", make.allocation("team-a-lb", annotations=owner))
    cache = lab.caches["ipallocations"]
    assert membership.list_members(cache, tenant) == []
    name = membership.find_free_name(
        tenant, "loadbalancer", allocations=cache, namespace=make.NAMESPACE
    )
    assert name == f"team-a-lb-{names.compute_short_hash('team/a')}"


def test_an_unstamped_allocation_that_names_the_tenant_is_its_own() -> None:
    lab = Lab()
    tenant = make.tenant()
    lab.server.add(
        "ipallocations", make.allocation("pinned-by-hand", pin=("10.40.0.9", "10.40.0.9"))
    )
    members = membership.list_members(lab.caches["ipallocations"], tenant)
    assert [a.metadata.name for a in members] == ["pinned-by-hand"]
    assert membership.find_initial(members, tenant, "loadbalancer") is members[0]


def test_an_allocation_with_an_empty_tenant_uid_is_adopted_and_gets_the_uid() -> None:
    lab = Lab()
    tenant = make.tenant()
    owner = {names.ANNOTATION_TENANT_UID: ""}
    lab.server.add("ipallocations", make.allocation("by-hand", annotations=owner))
    members = membership.list_members(lab.caches["ipallocations"], tenant)
    assert [a.metadata.name for a in members] == ["by-hand"]
    uid = tenant.metadata.uid
    change = membership.make_repair_patch(members[0], tenant, uid)["metadata"]["annotations"]
    assert change == {names.ANNOTATION_TENANT_UID: uid}


@pytest.mark.parametrize("kind", ["loadbalancer", "nodes"])
def test_names_and_labels_of_long_tenants_stay_within_the_limits(kind: str) -> None:
    tenant = make.tenant("n" * 253, "s" * 63)
    plain, hashed = (
        membership.make_base_name(tenant, kind),
        membership.make_hashed_name(tenant, kind),
    )
    assert len(plain) <= 253
    assert len(hashed) <= 253
    assert plain != hashed
    body = membership.build_request(tenant, kind, name=plain, pool="p" * 200, size=8)
    assert all(len(value) <= 63 for value in body["metadata"]["labels"].values())
    assert body["spec"]["tenantClusterRef"] == {"name": "n" * 253, "namespace": "s" * 63}


def test_long_tenant_names_that_differ_only_at_the_end_give_different_names_and_labels() -> None:
    first, other = (make.tenant("n" * 250 + end, "s") for end in ("one", "two"))
    assert membership.make_base_name(first, "nodes") != membership.make_base_name(other, "nodes")
    labels = [allocationlabels.build_labels(t.metadata.key, "p", "nodes") for t in (first, other)]
    assert labels[0][names.LABEL_TENANT] != labels[1][names.LABEL_TENANT]


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("team-a-lb", {}, "initial"),
        ("team-a-lb-3", {}, "growth"),
        ("odd", {}, "initial"),
        ("team-a-lb", {names.LABEL_ROLE: "growth"}, "initial"),
        ("odd", {names.LABEL_ROLE: "growth"}, "initial"),
        ("team-a-lb-3", {names.LABEL_ROLE: "initial"}, "initial"),
        ("team-a-lb-3", {names.LABEL_ROLE: "nonsense"}, "growth"),
    ],
)
def test_the_role_is_read_from_the_name_and_the_label_only_keeps_growth(
    name: str, labels: dict[str, str], expected: str
) -> None:
    allocation = make.allocation(name, labels=labels)
    assert membership.find_role(allocation, make.tenant()) == expected


def test_an_initial_allocation_whose_hash_is_a_number_is_not_taken_for_growth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "compute_short_hash", lambda output: "12345678")
    tenant = make.tenant()
    hashed = membership.make_hashed_name(tenant, "loadbalancer")
    assert hashed == "team-a-lb-12345678"
    assert membership.find_role(make.allocation(hashed), tenant) == "initial"


def test_growth_of_tenants_with_long_names_is_growth() -> None:
    tenant = make.tenant("n" * 253, "s" * 63)
    name = membership.find_free_growth_name(tenant, Lab().caches["ipallocations"], make.NAMESPACE)
    assert membership.find_role(make.allocation(name), tenant) == "growth"


def test_a_pinned_range_is_initial_whatever_its_name() -> None:
    pinned = make.allocation("team-a-lb-3", pin=("10.40.0.0", "10.40.0.1"))
    assert membership.find_role(pinned, make.tenant()) == "initial"


def test_a_new_allocation_is_complete_from_the_start() -> None:
    body = membership.build_request(
        make.tenant(), "loadbalancer", name="team-a-lb", pool="lab", size=8
    )
    assert body["metadata"]["finalizers"] == ["butler.butlerlabs.dev/ipallocation"]
    assert body["metadata"]["annotations"] == {names.ANNOTATION_TENANT_UID: "uid-team-a"}
    assert body["metadata"]["labels"] == {
        "butler.butlerlabs.dev/team": "team",
        "butler.butlerlabs.dev/tenant": "a",
        "butler.butlerlabs.dev/network-pool": "lab",
        "butler.butlerlabs.dev/allocation-type": "loadbalancer",
        "butler.butlerlabs.dev/allocation-role": "initial",
        "app.kubernetes.io/managed-by": "butler",
    }


class TestPoolChoice:
    """The first pool by priority that has room once all waiting requests are served."""

    def _choose(self, lab: Lab, provider: Any, count: int = 8) -> str | None:
        """Return the name of the pool chosen for a request of `count` addresses; None for none."""
        first_fit = lab.choice.find_first_fit(provider, lambda _: count, Networking())
        return first_fit.metadata.name if first_fit else None

    def _lab(self, *pools: Any) -> Lab:
        """Return a lab with these pools."""
        lab = Lab()
        for pool in pools:
            lab.server.add("networkpools", pool)
        return lab

    def test_priority_goes_before_list_order(self) -> None:
        lab = self._lab(make.pool("one"), make.pool("two", "10.41.0.0/24"))
        assert self._choose(lab, make.provider(("one", 5), ("two", 1))) == "two"

    def test_ties_go_in_list_order(self) -> None:
        lab = self._lab(make.pool("one"), make.pool("two", "10.41.0.0/24"))
        assert self._choose(lab, make.provider("two", "one")) == "two"

    def test_pools_that_do_not_exist_or_are_being_deleted_are_skipped(self) -> None:
        deleted = make.pool("deleted", deletionTimestamp="2026-01-01T00:00:00Z")
        lab = self._lab(deleted, make.pool("two", "10.41.0.0/24"))
        assert self._choose(lab, make.provider("missing", "deleted", "two")) == "two"

    def test_a_pool_with_an_invalid_cidr_is_skipped(self) -> None:
        lab = self._lab(make.pool("odd", "10.40.0.0/99"), make.pool("two", "10.41.0.0/24"))
        assert self._choose(lab, make.provider("odd", "two")) == "two"

    def test_the_largest_free_block_counts_and_not_the_sum(self) -> None:
        lab = self._lab(make.pool("one", "10.40.0.0/28"), make.pool("two", "10.41.0.0/24"))
        middle = make.allocation("m", of="one", held_range=("10.40.0.7", "10.40.0.8"))
        lab.server.add("ipallocations", middle)
        assert self._choose(lab, make.provider("one", "two"), 7) == "one"
        assert self._choose(lab, make.provider("one", "two"), 8) == "two"

    def test_waiting_requests_and_promises_count_as_allocated(self) -> None:
        lab = self._lab(make.pool("one", "10.40.0.0/28"), make.pool("two", "10.41.0.0/24"))
        lab.server.add("ipallocations", make.allocation("w", of="one", size=8))
        assert self._choose(lab, make.provider("one", "two")) == "one"
        promised = make.allocation("p", of="one", size=8)
        allocation = lab.server.add("ipallocations", promised)
        version = allocation["metadata"]["resourceVersion"]
        entry = make.promise(promised, "10.40.0.0", "10.40.0.7", version=version)
        stored = lab.server.see("networkpools", "one")
        lab.server.edit(
            "networkpools", "one", make.replace_promises(stored, make.render_promise(entry))
        )
        assert self._choose(lab, make.provider("one", "two")) == "two"

    def test_a_promise_to_an_allocation_that_is_gone_reserves_no_addresses(self) -> None:
        lab = self._lab(make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/24"))
        gone = make.allocation("gone", of="one")
        entry = make.promise(gone, "10.40.0.0", "10.40.0.7", version="50")
        stored = lab.server.see("networkpools", "one")
        lab.server.edit(
            "networkpools", "one", make.replace_promises(stored, make.render_promise(entry))
        )
        assert self._choose(lab, make.provider("one", "two")) == "one"

    def test_no_pool_is_chosen_where_none_has_room(self) -> None:
        lab = self._lab(make.pool("one", "10.40.0.0/30"))
        assert self._choose(lab, make.provider("one")) is None
