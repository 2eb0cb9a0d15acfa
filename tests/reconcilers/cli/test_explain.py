"""`explain`: the pools that a cluster tries, the choice of a range, the needs of a request."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reconcilers.addressmap.audit import audit
from reconcilers.addressmap.objects import Objects, PlatformDefault
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.cli.cluster.objectnames import find_namespace, select_object
from reconcilers.cli.problems import CommandProblem
from reconcilers.health.explanation import explain_allocation, explain_tenant
from reconcilers.integrations.core.scopedlists import NotRead
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import make_allocation, make_object, make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster, run_on_files


def _make_provider(*pools: str, **network: Any) -> dict[str, Any]:
    """Return ProviderConfig `default` with these pools."""
    refs = [{"name": name} for name in pools]
    spec = {"provider": "local", "network": {"mode": "ipam", "poolRefs": refs, **network}}
    return make_object("ProviderConfig", "default", spec)


def _explain(tmp_path: Path, name: str, *objects: dict[str, Any]) -> str:
    """Return the lines in which `explain NAME` explains one object."""
    outcome = run_on_files(tmp_path, "explain", name, "-o", "json", objects=objects)
    assert (outcome.code, outcome.errors) == (0, [])
    [item] = json.loads(outcome.out)["items"]
    return "\n".join(item["lines"])


def test_the_explanation_of_a_cluster_lists_its_pools_with_what_they_have_free(
    tmp_path: Path,
) -> None:
    lines = _explain(
        tmp_path,
        "shop",
        make_pool("small", "10.0.0.0/30"),
        make_pool("large", "10.1.0.0/24"),
        _make_provider("small", "gone", "large"),
        make_saved_cluster("shop", "team"),
    )
    assert "mode static: 8 load-balancer addresses in a row" in lines
    needed = "5 node addresses and 8 load-balancer addresses, 13 together"
    assert f"1. NetworkPool butler-system/small: {needed}; 4 IPv4 addresses free" in lines
    assert "2. NetworkPool butler-system/gone does not exist" in lines
    assert f"3. NetworkPool butler-system/large: {needed}; 256 IPv4" in lines


def _make_waiting_cluster(*requests: tuple[str, int], pools: Sequence[str]) -> dict[str, Any]:
    """Return cluster team/shop, which waits for addresses.

    Args:
        requests: the type and the number of addresses of each waiting request.
        pools: the names of the pools that were tried.
    """
    body = make_saved_cluster("shop", "team")
    common = {
        "role": "initial",
        "reason": "PoolExhausted",
        "namespace": "butler-system",
        "pools": [*pools],
        "since": "2026-01-01T00:00:00Z",
    }
    waiting = [common | {"type": kind, "addresses": count} for kind, count in requests]
    return body | {"status": {"phase": "Provisioning", "network": {"waiting": waiting}}}


def test_explain_and_status_name_a_pool_without_room_for_all_waiting_requests_of_a_cluster(
    tmp_path: Path,
) -> None:
    objects = (
        make_pool("small", "10.0.0.0/29"),
        make_pool("large", "10.1.0.0/28"),
        _make_provider("small", "large"),
        _make_waiting_cluster(("nodes", 5), ("loadbalancer", 8), pools=("small", "large")),
    )
    lines = _explain(tmp_path, "shop", *objects).splitlines()
    [small] = [line for line in lines if line.startswith("1. NetworkPool butler-system/small")]
    assert "13 together, of which 13 wait; 8 IPv4 addresses free, largest block 8" in small
    assert small.endswith("; no room for 13")
    [large] = [line for line in lines if line.startswith("2. NetworkPool butler-system/large")]
    assert large.endswith("largest block 16")
    report = json.loads(run_on_files(tmp_path, "status", "-o", "json", objects=objects).out)
    sentence = {
        finding["subject"]["name"]: finding["sentence"]
        for finding in report["findings"]
        if finding["kind"] == "PoolHasNoRoomForWaiting"
    }
    assert list(sentence) == ["small"]
    assert "the largest for 13 addresses; the largest free block is 8" in sentence["small"]


def test_a_pool_with_room_for_the_waiting_request_alone_is_not_called_full(tmp_path: Path) -> None:
    objects = (make_pool("small", "10.0.0.0/29"), _make_provider("small"))
    waits = _make_waiting_cluster(("loadbalancer", 8), pools=("small",))
    lines = _explain(tmp_path, "shop", *objects, waits)
    assert "13 together, of which 8 wait; 8 IPv4 addresses free, largest block 8" in lines
    assert "no room" not in lines


def test_the_explanation_of_a_range_counts_the_free_blocks_that_would_fit(
    tmp_path: Path,
) -> None:
    lines = _explain(
        tmp_path,
        "butler-system/mid",
        make_pool(cidr="10.40.0.0/26"),
        make_holder("first", "10.40.0.0", "10.40.0.7"),
        make_holder("mid", "10.40.0.8", "10.40.0.15"),
        make_holder("last", "10.40.0.16", "10.40.0.31"),
    )
    assert "10.40.0.8/29: without it the free block there has 8 addresses" in lines
    assert "2 free blocks have room for 8, the smallest 8" in lines


def test_a_single_block_that_fits_is_counted_in_the_singular(tmp_path: Path) -> None:
    body = make_holder("first", "10.40.0.0", "10.40.0.7")
    lines = _explain(tmp_path, "butler-system/first", make_pool(cidr="10.40.0.0/29"), body)
    assert "now 1 free block has room for 8, the smallest 8" in lines


def test_the_explanation_of_a_range_quotes_the_message_of_its_choice(tmp_path: Path) -> None:
    message = "allocated 8 IPs: 10.40.0.0/29 from lab, out of the smallest free block that fits"
    body = make_holder("first", "10.40.0.0", "10.40.0.7")
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": message}
    body["status"]["conditions"] = [ready | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]
    lines = _explain(tmp_path, "butler-system/first", make_pool(cidr="10.40.0.0/26"), body)
    assert f"recorded when it was chosen: {message}" in lines


def test_a_request_with_a_pinned_range_needs_as_many_addresses_as_the_range_has(
    tmp_path: Path,
) -> None:
    body = make_allocation("first", 8)
    del body["spec"]["count"]
    body["spec"]["pinnedRange"] = {"startAddress": "10.40.0.9", "endAddress": "10.40.0.11"}
    lines = _explain(tmp_path, "first", make_pool(cidr="10.40.0.0/29"), body)
    assert "needs 3 addresses in a row of NetworkPool butler-system/lab" in lines


def test_the_explanation_of_a_waiting_request_counts_older_requests(tmp_path: Path) -> None:
    first, second = make_allocation("first", 100), make_allocation("second", 70)
    first["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    second["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    lines = _explain(tmp_path, "second", make_pool(cidr="10.40.0.0/26"), first, second)
    assert "needs 70 addresses in a row of NetworkPool butler-system/lab" in lines
    assert "the pool now has 64 IPv4 addresses free, largest block 64" in lines
    assert "1 older request waits" in lines


def test_the_errors_about_ambiguous_and_unknown_names_say_how_to_name_an_object(
    tmp_path: Path,
) -> None:
    objects = (
        make_pool(),
        make_saved_cluster("shop", "team"),
        make_saved_cluster("shop", "other"),
        make_allocation("shop", 1),
    )
    ambiguous = run_on_files(tmp_path, "explain", "shop", objects=objects)
    assert ambiguous.code == 1
    assert "TenantCluster/other/shop" in ambiguous.errors[0]
    assert "IPAllocation/butler-system/shop" in ambiguous.errors[0]
    chosen = run_on_files(tmp_path, "explain", "tenantcluster/team/shop", objects=objects)
    assert (chosen.code, chosen.out.splitlines()[0]) == (0, "TenantCluster team/shop")
    unknown = run_on_files(tmp_path, "explain", "none", objects=objects)
    assert unknown.code == 1
    assert "butler-ipam tenants" in unknown.errors[0]


NOT_READ = [NotRead(kind.full_name) for kind in (IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG)]
"""Every kind but TenantCluster, as kinds that the user may not read."""
RANGE_IN_STATUS = {
    "allocation": "team-a-lb",
    "namespace": "butler-system",
    "pool": "lab",
    "type": "loadbalancer",
    "role": "initial",
    "family": "IPv4",
    "range": "10.40.0.0-10.40.0.7",
    "services": ["default/web"],
}


@pytest.mark.parametrize(
    ("spec", "provider"),
    [
        ({}, "the platform's default ProviderConfig"),
        ({"providerConfigRef": {"name": "prov"}}, "ProviderConfig butler-system/prov"),
    ],
)
def test_a_provider_that_may_not_be_read_is_not_called_missing_and_ranges_come_from_the_status(
    spec: dict[str, Any], provider: str
) -> None:
    tenant = make.tenant(spec=spec, status={"network": {"ranges": [RANGE_IN_STATUS]}})
    objects = Objects(
        {}, {}, clusters={tenant.metadata.key: tenant}, providers={}, not_read=NOT_READ
    )
    lines = "\n".join(explain_tenant(tenant, objects).lines)
    assert f"you may not read {provider}" in lines
    assert "could be found" not in lines
    assert (
        "IPAllocation butler-system/team-a-lb: loadbalancer 10.40.0.0-10.40.0.7 of"
        " butler-system/lab, used by default/web" in lines
    )


def test_a_pool_that_may_not_be_read_is_not_called_missing() -> None:
    request = make.allocation("waits", size=4)
    objects = Objects(
        {}, {request.metadata.key: request}, clusters={}, providers={}, not_read=NOT_READ
    )
    assert "may not be read by you: it waits" in explain_allocation(request, objects).lines[-1]
    everything_read = Objects({}, {request.metadata.key: request}, clusters={}, providers={})
    assert "does not exist: it waits" in explain_allocation(request, everything_read).lines[-1]


def test_the_explanation_of_a_cluster_names_its_missing_provider_config(
    tmp_path: Path,
) -> None:
    body = make_saved_cluster("shop", "team")
    body["spec"]["providerConfigRef"] = {"name": "gone"}
    lines = _explain(tmp_path, "shop", body)
    assert "names ProviderConfig butler-system/gone, which does not exist" in lines


def test_a_cluster_that_names_no_provider_config_is_explained_by_the_first_of_the_namespace(
    tmp_path: Path,
) -> None:
    west, east = _make_provider("other"), _make_provider("lab")
    west["metadata"]["name"], east["metadata"]["name"] = "west", "east"
    lines = _explain(
        tmp_path, "shop", make_pool("lab", "10.1.0.0/24"), west, east, make_saved_cluster("shop")
    )
    assert "ProviderConfig butler-system/east, mode static" in lines
    assert "1. NetworkPool butler-system/lab: 5 node addresses and 8 load-balancer" in lines


def _make_butler_config(name: str) -> dict[str, Any]:
    """Return the ButlerConfig whose default is the ProviderConfig with this name."""
    return make_object("ButlerConfig", "butler", {"defaultProviderConfigRef": {"name": name}})


def test_a_cluster_that_names_no_provider_config_is_explained_by_the_platforms_default(
    tmp_path: Path,
) -> None:
    default, platform = _make_provider("small"), _make_provider("lab")
    platform["metadata"]["name"] = "platform"
    objects = (make_pool("lab", "10.1.0.0/24"), default, platform, make_saved_cluster("shop"))
    lines = _explain(tmp_path, "shop", *objects, _make_butler_config("platform"))
    assert "ProviderConfig butler-system/platform, mode static" in lines
    assert "1. NetworkPool butler-system/lab: 5 node addresses" in lines
    gone = _explain(tmp_path, "shop", *objects, _make_butler_config("gone"))
    assert "the platform's default is ProviderConfig butler-system/gone, which does not" in gone
    tenant_cluster = make_saved_cluster("shop")
    tenant_cluster["spec"]["providerConfigRef"] = {"name": "default"}
    lines = _explain(
        tmp_path, "shop", *objects[:-1], tenant_cluster, _make_butler_config("platform")
    )
    assert "ProviderConfig butler-system/default, mode static" in lines


def test_a_platforms_default_that_is_not_known_is_not_guessed() -> None:
    tenant, provider = make.tenant(), make.provider("lab")
    request = make.allocation("waits", size=4)
    objects = Objects(
        {},
        {request.metadata.key: request},
        clusters={tenant.metadata.key: tenant},
        providers={provider.metadata.key: provider},
        platform_default=PlatformDefault(unknown="you may not read ButlerConfig butler"),
    )
    assert explain_tenant(tenant, objects).lines[0] == (
        "the platform's default ProviderConfig is not known: you may not read ButlerConfig butler;"
        " which pools the cluster tries is not known"
    )
    assert "ProviderConfig" not in "".join(explain_allocation(request, objects).lines)
    naming_tenant = make.tenant(spec={"providerConfigRef": {"name": "default"}})
    assert (
        explain_tenant(naming_tenant, objects)
        .lines[0]
        .startswith("ProviderConfig butler-system/def")
    )


@pytest.mark.parametrize(
    "name",
    [
        "tenantcluster.butler.butlerlabs.dev/shop",
        "tenantclusters.butler.butlerlabs.dev/team/shop",
        "TenantClusters/shop",
        "tc/shop",
        "tc/team/shop",
        "tenantcluster/team/shop",
    ],
)
def test_explain_accepts_kinds_in_the_forms_that_kubectl_accepts_and_prints(
    name: str, tmp_path: Path
) -> None:
    objects = (make_saved_cluster("shop", "team"), make_allocation("shop", 1))
    assert run_on_files(tmp_path, "explain", name, objects=objects).out.startswith(
        "TenantCluster team/sh"
    )
    printed = run_on_files(tmp_path, "explain", name, "-o", "name", objects=objects).out
    assert run_on_files(tmp_path, "explain", printed.strip(), objects=objects).code == 0


def test_the_namespace_in_a_name_is_found() -> None:
    """If not all namespaces may be read, that namespace alone is read."""
    assert find_namespace("team/shop") == "team"
    assert find_namespace("ipallocation/butler-system/lb") == "butler-system"
    assert find_namespace("tenantcluster/shop") == ""
    assert find_namespace("shop") == ""
    assert find_namespace("a/b/c/d") == ""


def test_explain_names_the_kinds_that_were_not_read_instead_of_an_unknown_object() -> None:
    objects = Objects({}, {}, clusters={}, providers={}, not_read=NOT_READ)
    with pytest.raises(CommandProblem, match="you may not read ipallocations"):
        select_object("team-a-lb", objects, "")


def test_explain_finds_a_tenant_although_other_kinds_were_not_read() -> None:
    tenant = make.tenant()
    clusters = {tenant.metadata.key: tenant}
    objects = Objects({}, {}, clusters=clusters, providers={}, not_read=NOT_READ)
    selected = select_object(str(tenant.metadata.key), objects, "")
    assert selected == (TENANT_CLUSTER.kind, tenant.metadata.key)


def test_the_audit_does_not_report_a_pool_that_may_not_be_read_as_missing() -> None:
    request = make.allocation("waits", size=4)
    kinds = [
        {
            finding.kind
            for finding in audit(
                Objects(
                    {},
                    {request.metadata.key: request},
                    clusters={},
                    providers={},
                    not_read=not_read,
                ),
                [],
            )
        }
        for not_read in ([], NOT_READ)
    ]
    assert ["UnknownPool" in found_kinds for found_kinds in kinds] == [True, False]


def test_the_errors_about_an_object_of_another_namespace_and_about_a_pool_name_them(
    tmp_path: Path,
) -> None:
    objects = (make_saved_cluster("shop", "team"), make_pool("lab"))
    elsewhere = run_on_files(tmp_path, "explain", "shop", "-n", "other", objects=objects)
    assert elsewhere.errors == [
        "namespace other has no 'shop'; elsewhere there is: TenantCluster/team/shop"
    ]
    of_pool = run_on_files(tmp_path, "explain", "lab", objects=objects)
    assert "is a NetworkPool: `butler-ipam map butler-system/lab`" in of_pool.errors[0]
