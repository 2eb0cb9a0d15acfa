"""`explain` says why: the pools that were tried, the blocks that fit, and what is waited for."""

import json
from pathlib import Path
from typing import Any

from tests.reconcilers.cli.commandline import allocation, pool, thing
from tests.reconcilers.cli.saved import ask, cluster, held


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
    assert "1. NetworkPool butler-system/small: 5 node addresses; 4 IPv4 addresses free" in lines
    assert "2. NetworkPool butler-system/gone does not exist" in lines
    assert "3. NetworkPool butler-system/large: 5 node addresses; 256 IPv4" in lines


def test_a_range_is_told_with_the_block_that_it_lies_in_and_the_blocks_that_fit(
    tmp_path: Path,
) -> None:
    lines = _lines(
        tmp_path,
        "butler-system/mid",
        pool(cidr="10.40.0.0/26"),
        held("first", "10.40.0.0", "10.40.0.7"),
        held("mid", "10.40.0.8", "10.40.0.15"),
        held("last", "10.40.0.16", "10.40.0.31"),
    )
    assert "10.40.0.8/29: without it the free block there has 8 addresses" in lines
    assert "2 free blocks have room for 8, the smallest 8" in lines


def test_a_single_block_that_fits_is_counted_in_the_singular(tmp_path: Path) -> None:
    body = held("first", "10.40.0.0", "10.40.0.7")
    lines = _lines(tmp_path, "butler-system/first", pool(cidr="10.40.0.0/29"), body)
    assert "now 1 free block has room for 8, the smallest 8" in lines


def test_the_record_of_the_choice_is_shown(tmp_path: Path) -> None:
    message = "allocated 8 IPs: 10.40.0.0/29 from lab, out of the smallest free block that fits"
    body = held("first", "10.40.0.0", "10.40.0.7")
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": message}
    body["status"]["conditions"] = [ready | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]
    lines = _lines(tmp_path, "butler-system/first", pool(cidr="10.40.0.0/26"), body)
    assert f"recorded when it was chosen: {message}" in lines


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
