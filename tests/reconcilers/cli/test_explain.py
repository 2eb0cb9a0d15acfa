"""`explain` says why: the pools that were tried, the blocks that fit, and what is waited for."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.meta import Key
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
from tests.reconcilers.cli.commandline import allocation, pool, thing
from tests.reconcilers.cli.saved import ask, cluster, make_holder


def _provider(*pools: str, **network: Any) -> dict[str, Any]:
    refs = [{"name": name} for name in pools]
    spec = {"provider": "local", "network": {"mode": "ipam", "poolRefs": refs, **network}}
    return thing("ProviderConfig", "default", spec)


def _lines(tmp_path: Path, name: str, *objects: dict[str, Any]) -> str:
    outcome = ask(tmp_path, "explain", name, "-o", "json", objects=objects)
    assert (outcome.code, outcome.errors) == (0, [])
    [item] = json.loads(outcome.out)["items"]
    return "\n".join(item["lines"])


def test_a_tenant_is_told_what_it_asks_for_and_what_each_pool_has(tmp_path: Path) -> None:
    lines = _lines(
        tmp_path,
        "shop",
        pool("small", "10.0.0.0/30"),
        pool("large", "10.1.0.0/24"),
        _provider("small", "gone", "large"),
        cluster("shop", "team"),
    )
    assert "mode static: 8 load-balancer addresses in a row" in lines
    needed = "5 node addresses and 8 load-balancer addresses, 13 together"
    assert f"1. NetworkPool butler-system/small: {needed}; 4 IPv4 addresses free" in lines
    assert "2. NetworkPool butler-system/gone does not exist" in lines
    assert f"3. NetworkPool butler-system/large: {needed}; 256 IPv4" in lines


def _waiting(*requests: tuple[str, int], pools: Sequence[str]) -> dict[str, Any]:
    """Return a cluster that waits for addresses, each request with its type and number."""
    body = cluster("shop", "team")
    common = {
        "role": "initial",
        "reason": "PoolExhausted",
        "namespace": "butler-system",
        "pools": [*pools],
        "since": "2026-01-01T00:00:00Z",
    }
    waiting = [common | {"type": kind, "addresses": count} for kind, count in requests]
    return body | {"status": {"phase": "Provisioning", "network": {"waiting": waiting}}}


def test_a_pool_without_room_for_node_and_load_balancer_addresses_together_is_told_as_by_status(
    tmp_path: Path,
) -> None:
    objects = (
        pool("small", "10.0.0.0/29"),
        pool("large", "10.1.0.0/28"),
        _provider("small", "large"),
        _waiting(("nodes", 5), ("loadbalancer", 8), pools=("small", "large")),
    )
    lines = _lines(tmp_path, "shop", *objects).splitlines()
    [small] = [line for line in lines if line.startswith("1. NetworkPool butler-system/small")]
    assert "13 together, of which 13 wait; 8 IPv4 addresses free, largest block 8" in small
    assert small.endswith("; no room for 13")
    [large] = [line for line in lines if line.startswith("2. NetworkPool butler-system/large")]
    assert large.endswith("largest block 16")
    report = json.loads(ask(tmp_path, "status", "-o", "json", objects=objects).out)
    sentence = {
        finding["subject"]["name"]: finding["sentence"]
        for finding in report["findings"]
        if finding["kind"] == "PoolHasNoRoomForWaiting"
    }
    assert list(sentence) == ["small"]
    assert "the largest for 13 addresses; the largest free block is 8" in sentence["small"]


def test_only_the_requests_that_wait_need_room(tmp_path: Path) -> None:
    objects = (pool("small", "10.0.0.0/29"), _provider("small"))
    waits = _waiting(("loadbalancer", 8), pools=("small",))
    lines = _lines(tmp_path, "shop", *objects, waits)
    assert "13 together, of which 8 wait; 8 IPv4 addresses free, largest block 8" in lines
    assert "no room" not in lines


def test_a_range_is_told_with_the_block_that_it_lies_in_and_the_blocks_that_fit(
    tmp_path: Path,
) -> None:
    lines = _lines(
        tmp_path,
        "butler-system/mid",
        pool(cidr="10.40.0.0/26"),
        make_holder("first", "10.40.0.0", "10.40.0.7"),
        make_holder("mid", "10.40.0.8", "10.40.0.15"),
        make_holder("last", "10.40.0.16", "10.40.0.31"),
    )
    assert "10.40.0.8/29: without it the free block there has 8 addresses" in lines
    assert "2 free blocks have room for 8, the smallest 8" in lines


def test_a_single_block_that_fits_is_counted_in_the_singular(tmp_path: Path) -> None:
    body = make_holder("first", "10.40.0.0", "10.40.0.7")
    lines = _lines(tmp_path, "butler-system/first", pool(cidr="10.40.0.0/29"), body)
    assert "now 1 free block has room for 8, the smallest 8" in lines


def test_the_record_of_the_choice_is_shown(tmp_path: Path) -> None:
    message = "allocated 8 IPs: 10.40.0.0/29 from lab, out of the smallest free block that fits"
    body = make_holder("first", "10.40.0.0", "10.40.0.7")
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": message}
    body["status"]["conditions"] = [ready | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]
    lines = _lines(tmp_path, "butler-system/first", pool(cidr="10.40.0.0/26"), body)
    assert f"recorded when it was chosen: {message}" in lines


def test_a_request_for_named_addresses_needs_as_many_as_it_names(tmp_path: Path) -> None:
    body = allocation("first", 8)
    del body["spec"]["count"]
    body["spec"]["pinnedRange"] = {"startAddress": "10.40.0.9", "endAddress": "10.40.0.11"}
    lines = _lines(tmp_path, "first", pool(cidr="10.40.0.0/29"), body)
    assert "needs 3 addresses in a row of NetworkPool butler-system/lab" in lines


def test_a_request_that_waits_is_told_what_it_needs_and_who_is_before_it(tmp_path: Path) -> None:
    first, second = allocation("first", 100), allocation("second", 70)
    first["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    second["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    lines = _lines(tmp_path, "second", pool(cidr="10.40.0.0/26"), first, second)
    assert "needs 70 addresses in a row of NetworkPool butler-system/lab" in lines
    assert "the pool now has 64 IPv4 addresses free, largest block 64" in lines
    assert "1 older request waits" in lines


def test_a_name_of_several_objects_lists_them_and_an_unknown_one_says_where_to_look(
    tmp_path: Path,
) -> None:
    objects = (pool(), cluster("shop", "team"), cluster("shop", "other"), allocation("shop", 1))
    ambiguous = ask(tmp_path, "explain", "shop", objects=objects)
    assert ambiguous.code == 1
    assert "TenantCluster/other/shop" in ambiguous.errors[0]
    assert "IPAllocation/butler-system/shop" in ambiguous.errors[0]
    chosen = ask(tmp_path, "explain", "tenantcluster/team/shop", objects=objects)
    assert (chosen.code, chosen.out.splitlines()[0]) == (0, "TenantCluster team/shop")
    unknown = ask(tmp_path, "explain", "none", objects=objects)
    assert unknown.code == 1
    assert "butler-ipam tenants" in unknown.errors[0]


NOT_READ = [NotRead(kind.full_name) for kind in (IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG)]
RANGE = {
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
def test_what_may_not_be_read_is_not_called_absent_and_ranges_come_from_the_status(
    spec: dict[str, Any], provider: str
) -> None:
    tenant = make.tenant(spec=spec, status={"network": {"ranges": [RANGE]}})
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


def test_a_pool_that_may_not_be_read_is_not_called_absent() -> None:
    request = make.allocation("waits", size=4)
    objects = Objects(
        {}, {request.metadata.key: request}, clusters={}, providers={}, not_read=NOT_READ
    )
    assert "may not be read by you: it waits" in explain_allocation(request, objects).lines[-1]
    everything_read = Objects({}, {request.metadata.key: request}, clusters={}, providers={})
    assert "does not exist: it waits" in explain_allocation(request, everything_read).lines[-1]


def test_a_cluster_is_told_which_provider_config_it_names_and_that_it_does_not_exist(
    tmp_path: Path,
) -> None:
    body = cluster("shop", "team")
    body["spec"]["providerConfigRef"] = {"name": "gone"}
    lines = _lines(tmp_path, "shop", body)
    assert "names ProviderConfig butler-system/gone, which does not exist" in lines


def test_a_cluster_that_names_no_provider_config_is_told_of_the_first_of_the_namespace(
    tmp_path: Path,
) -> None:
    later, first = _provider("other"), _provider("lab")
    later["metadata"]["name"], first["metadata"]["name"] = "west", "east"
    lines = _lines(tmp_path, "shop", pool("lab", "10.1.0.0/24"), later, first, cluster("shop"))
    assert "ProviderConfig butler-system/east, mode static" in lines
    assert "1. NetworkPool butler-system/lab: 5 node addresses and 8 load-balancer" in lines


def _butler_config(name: str) -> dict[str, Any]:
    return thing("ButlerConfig", "butler", {"defaultProviderConfigRef": {"name": name}})


def test_a_cluster_that_names_no_provider_config_is_told_of_the_platforms_default(
    tmp_path: Path,
) -> None:
    default, platform = _provider("small"), _provider("lab")
    platform["metadata"]["name"] = "platform"
    objects = (pool("lab", "10.1.0.0/24"), default, platform, cluster("shop"))
    lines = _lines(tmp_path, "shop", *objects, _butler_config("platform"))
    assert "ProviderConfig butler-system/platform, mode static" in lines
    assert "1. NetworkPool butler-system/lab: 5 node addresses" in lines
    gone = _lines(tmp_path, "shop", *objects, _butler_config("gone"))
    assert "the platform's default is ProviderConfig butler-system/gone, which does not" in gone
    tenant_cluster = cluster("shop")
    tenant_cluster["spec"]["providerConfigRef"] = {"name": "default"}
    lines = _lines(tmp_path, "shop", *objects[:-1], tenant_cluster, _butler_config("platform"))
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
def test_a_kind_is_named_as_kubectl_takes_and_prints_it(name: str, tmp_path: Path) -> None:
    objects = (cluster("shop", "team"), allocation("shop", 1))
    assert ask(tmp_path, "explain", name, objects=objects).out.startswith("TenantCluster team/sh")
    printed = ask(tmp_path, "explain", name, "-o", "name", objects=objects).out
    assert ask(tmp_path, "explain", printed.strip(), objects=objects).code == 0


def test_the_namespace_of_a_name_is_read_if_not_all_may_be() -> None:
    assert find_namespace("team/shop") == "team"
    assert find_namespace("ipallocation/butler-system/lb") == "butler-system"
    assert find_namespace("tenantcluster/shop") == ""
    assert find_namespace("shop") == ""
    assert find_namespace("a/b/c/d") == ""


def test_a_name_that_may_be_of_what_is_not_read_is_not_called_unknown() -> None:
    tenant = make.tenant()
    objects = Objects(
        {}, {}, clusters={tenant.metadata.key: tenant}, providers={}, not_read=NOT_READ
    )
    with pytest.raises(CommandProblem, match="you may not read ipallocations"):
        select_object("team-a-lb", objects, "")
    kind, key = select_object(str(tenant.metadata.key), objects, "")
    assert (kind, key) == (TENANT_CLUSTER.kind, Key(key.namespace, key.name))


def test_the_audit_does_not_report_a_pool_as_absent_that_may_not_be_read() -> None:
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
    assert ["UnknownPool" in of_scope for of_scope in kinds] == [True, False]


def test_an_object_of_another_namespace_and_a_pool_are_named_as_what_they_are(
    tmp_path: Path,
) -> None:
    objects = (cluster("shop", "team"), pool("lab"))
    elsewhere = ask(tmp_path, "explain", "shop", "-n", "other", objects=objects)
    assert elsewhere.errors == [
        "namespace other has no 'shop'; elsewhere there is: TenantCluster/team/shop"
    ]
    of_pool = ask(tmp_path, "explain", "lab", objects=objects)
    assert "is a NetworkPool: `butler-ipam map butler-system/lab`" in of_pool.errors[0]
