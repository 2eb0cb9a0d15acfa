"""Stored objects that cannot be parsed: `plan` hands out no address that they may hold."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import (
    Outcome,
    allocation,
    cluster,
    find_condition,
    make_held_status,
    plan,
    plan_text,
    pool,
    provider,
)
from tests.reconcilers.cli.saved import run_on_files
from tests.reconcilers.cli.test_claims import address, claim, ip_pool
from tests.reconcilers.cli.test_platforms import (
    RANGE,
    VM,
    ipam_pool,
    kkp,
    network,
    request,
    vitistack,
)
from tests.reconcilers.cli.test_platforms import allocation as kkp_allocation
from tests.reconcilers.cli.test_platforms import cluster as kkp_cluster
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json
from tests.yamls import written_yaml

STORED: Json = {"resourceVersion": "7", "uid": "u7"}
SPOILT: dict[str, Json] = {
    "its pool is known": {"spec": {"count": "many"}},
    "its pool is unknown": {"spec": {"poolRef": 7}},
    "it is being deleted": {
        "spec": {"count": "many"},
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    },
}


def make_unreadable(name: str = "odd", of: str = "lab", **more: Any) -> Json:
    """Return an allocation that a cluster has stored and that cannot be parsed."""
    body = allocation(
        name, of=of, status=make_held_status("10.40.0.0", "10.40.0.7"), **STORED, **more
    )
    body["spec"]["count"] = "many"
    return body


def read_condition(body: Json, condition: str = "Ready") -> tuple[str, str, str]:
    """Return status, reason and message of a condition."""
    ready_condition = find_condition(body, condition)
    return ready_condition["status"], ready_condition["reason"], ready_condition["message"]


def read_ranges(outcome: Outcome) -> dict[str, str]:
    """Return the CIDR of each allocation by name; its phase if it has no range."""
    return {
        name.removeprefix("IPAllocation/"): body["status"].get("cidr", body["status"]["phase"])
        for name, body in outcome.items.items()
        if name.startswith("IPAllocation/")
    }


@pytest.mark.parametrize("spoilt", SPOILT)
async def test_a_plan_beside_an_unreadable_allocation_equals_the_writes_of_the_controllers(
    spoilt: str,
) -> None:
    platform = Platform()
    server = platform.server
    server.add("networkpools", make.pool("lab", "10.40.0.0/24"))
    server.add("networkpools", make.pool("next", "10.41.0.0/24"))
    finalizers: dict[str, Any] = {"finalizers": [names.FINALIZER_ALLOCATION]}
    server.add("ipallocations", make.allocation("odd", tenant="others/one", **finalizers))
    server.edit("ipallocations", "odd", SPOILT[spoilt])
    for number, of in enumerate(("lab", "next")):
        server.add("ipallocations", make.allocation(f"a{number}", of=of, tenant="others/one"))
    server.add("providerconfigs", make.provider("lab"))
    server.add("tenantclusters", make.tenant())
    platform.tenant("a")
    kinds = ("networkpools", "ipallocations", "tenantclusters", "providerconfigs")
    objects = [body for kind in kinds for body in server.all(kind)]
    outcome = await anyio.to_thread.run_sync(lambda: plan(*objects))
    async with platform.running():
        await platform.clock.advance(300)
    for kind in ("networkpools", "ipallocations"):
        for body in server.all(kind):
            name = body["metadata"]["name"]
            if name != "odd":
                assert read_condition(outcome.items[f"{body['kind']}/{name}"]) == read_condition(
                    body
                )
    assert outcome.code == 1


def test_a_pool_that_a_stored_unreadable_allocation_names_hands_out_nothing() -> None:
    objects = (pool(), pool("next", "10.41.0.0/24"), make_unreadable(), allocation("a", 4))
    outcome = plan(*objects, allocation("b", 4, of="next"))
    assert read_ranges(outcome) == {"a": "Pending", "b": "10.41.0.0/30"}
    assert read_condition(outcome.items["NetworkPool/lab"]) == (
        "False",
        "UnreadableAllocation",
        (
            "nothing is handed out until they are repaired or deleted: IPAllocations that cannot"
            " be read: odd"
        ),
    )


def test_an_unreadable_allocation_that_is_not_stored_yet_blocks_no_pool() -> None:
    body = make_unreadable()
    for name in STORED:
        del body["metadata"][name]
    outcome = plan(pool(), body, allocation("a", 4))
    assert read_ranges(outcome) == {"a": "10.40.0.0/30"}
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_stored_allocation_that_breaks_only_rules_of_the_crd_keeps_its_range() -> None:
    body = allocation("old", status=make_held_status("10.40.0.0", "10.40.0.7"), **STORED)
    body["spec"]["count"] = 100_000_000_000
    body["metadata"]["labels"] = {"team": "not a label value!"}
    outcome = plan(pool(), body, allocation("a", 4))
    assert read_ranges(outcome)["a"] == "10.40.0.8/30"
    assert any("is not a label value" in error for error in outcome.errors)


def test_the_summary_names_the_objects_that_cannot_be_read() -> None:
    manifests = written_yaml((pool(), make_unreadable(), allocation("a", 4)))
    outcome = plan_text(manifests)
    assert (
        "1 object cannot be read, and what depends on it is not planned: IPAllocation"
        " butler-system/odd" in outcome.out
    )


def test_the_forecast_of_a_pool_with_unknown_holders_is_unknown() -> None:
    manifests = written_yaml((pool(), make_unreadable(), allocation("a", 4)))
    out = plan_text(manifests, "--fit", "0+4", "-o", "wide").out
    [row] = [
        line for line in out.partition("Before and after")[2].splitlines() if "unknown" in line
    ]
    assert row.split()[3:] == ["unknown"] * 5


def test_a_cluster_with_an_unreadable_allocation_gets_no_new_allocations() -> None:
    outcome = plan(
        pool(),
        provider("prov", "lab"),
        cluster(),
        make_unreadable("team-app-lb", tenant="team/app"),
    )
    assert read_ranges(outcome) == {}
    assert read_condition(outcome.items["TenantCluster/app"], "NetworkReady") == (
        "False",
        "UnreadableAllocation",
        (
            "nothing is changed for this cluster: IPAllocation butler-system/team-app-lb cannot be"
            " read; correct or delete it"
        ),
    )


def test_a_cluster_with_an_unreadable_provider_gets_no_allocations() -> None:
    body = provider("prov", "lab")
    body["metadata"] |= STORED
    body["spec"]["network"]["poolRefs"] = 7
    outcome = plan(pool(), provider("other", "lab"), body, cluster())
    assert read_ranges(outcome) == {}
    assert read_condition(outcome.items["TenantCluster/app"], "NetworkReady") == (
        "False",
        "ProviderConfigUnreadable",
        "ProviderConfig butler-system/prov cannot be read; correct or delete it",
    )


def test_an_unreadable_pool_is_reported_as_unreadable_and_not_as_missing() -> None:
    body = pool("first") | {"spec": {"cidr": 7}}
    body["metadata"] |= STORED
    outcome = plan(
        body,
        pool("second", "10.41.0.0/24"),
        provider("prov", "first", "second"),
        cluster(),
        allocation("a", 4, of="first"),
    )
    assert read_ranges(outcome) == {"a": "Pending"}
    sentence = "NetworkPool butler-system/first cannot be read; correct or delete it"
    assert read_condition(outcome.items["IPAllocation/a"]) == ("False", "PoolUnreadable", sentence)
    network = read_condition(outcome.items["TenantCluster/app"], "NetworkReady")
    assert network[:2] == ("False", "PoolUnreadable")
    assert sentence in read_condition(outcome.items["ProviderConfig/prov"], "PoolAvailable")[2]
    assert read_condition(outcome.items["NetworkPool/second"], "Overlapping")[:2] == (
        "Unknown",
        "PoolsUnreadable",
    )


def _make_site() -> tuple[Json, Json]:
    """Return NetworkPool b/site, and an unreadable allocation of it, which is stored."""
    site = pool("site", "10.9.0.0/29", namespace="b")
    return site, make_unreadable(of="site", namespace="b")


def test_a_claim_on_a_pool_with_an_unreadable_allocation_waits(tmp_path: Path) -> None:
    site, unreadable = _make_site()
    outcome = run_on_files(
        tmp_path, "plan", objects=(site, unreadable, claim("c", "site", "NetworkPool"))
    )
    assert (
        "PoolNotReady: NetworkPool site is not ready: IPAllocations that cannot be read: odd"
        in outcome.out
    )


def test_an_allocation_of_a_pool_with_an_unreadable_ipaddress_waits(
    tmp_path: Path,
) -> None:
    site, _ = _make_site()
    broken = address("m", "site", content="10.9.0.0", kind="NetworkPool")
    broken["spec"]["prefix"] = "many"
    waiting = allocation("a", 2, of="site", namespace="b")
    outcome = plan(site, broken, waiting)
    assert read_ranges(outcome) == {"a": "Pending"}
    assert read_condition(outcome.items["NetworkPool/site"]) == (
        "False",
        "HoldersUnknown",
        (
            "nothing is handed out until they are repaired or deleted: IPAddress b/m cannot be"
            " read; correct or delete it"
        ),
    )
    assert any(error.startswith("IPAddress b/m cannot be read: ") for error in outcome.errors)
    table = run_on_files(tmp_path, "plan", objects=(site, broken, waiting)).out
    assert "and what depends on it is not planned: IPAddress b/m" in table


def test_a_claim_on_an_unreadable_pool_waits_and_names_the_pool(tmp_path: Path) -> None:
    broken = ip_pool("p", "10.0.0.1")
    broken["spec"]["prefix"] = "many"
    site, _ = _make_site()
    site = site | {"spec": {"cidr": 7}}
    site["metadata"] |= STORED
    claims = (claim("c", "p"), claim("d", "site", "NetworkPool"))
    out = run_on_files(tmp_path, "plan", objects=(broken, site, *claims)).out
    assert "PoolNotReady: InClusterIPPool p cannot be read; correct or delete it" in out
    assert "PoolNotReady: NetworkPool site cannot be read; correct or delete it" in out


def test_check_does_not_call_an_unreadable_object_missing(tmp_path: Path) -> None:
    broken = ip_pool("p", "10.0.0.1")
    broken["spec"]["prefix"] = "many"
    unreadable_claim = claim("m", "q")
    unreadable_claim["spec"] = {"poolRef": 7}
    ip_address = address(
        "m", "q", "10.0.1.1", metadata={"finalizers": ["ipam.cluster.x-k8s.io/ProtectAddress"]}
    )
    out = run_on_files(
        tmp_path,
        "check",
        objects=(broken, claim("c", "p"), ip_pool("q", "10.0.1.1"), unreadable_claim, ip_address),
    ).out
    assert "does not exist" not in out
    assert "cannot be read" in out


def test_explain_names_an_unreadable_allocation_and_its_effects(tmp_path: Path) -> None:
    objects = (
        pool(),
        make_unreadable(),
        allocation("a", 4),
        provider("default", "lab"),
        cluster(of=None),
    )
    waiting = run_on_files(tmp_path, "explain", "a", objects=objects).out
    assert "an unknown number of addresses free" in waiting
    assert "IPAllocation butler-system/odd cannot be read; correct or delete it" in waiting
    assert "addresses free, largest block" not in waiting
    itself = run_on_files(tmp_path, "explain", "odd", objects=objects).out
    assert "cannot be read: " in itself
    assert "its range is kept, and its pool hands out nothing" in itself
    tenant = run_on_files(
        tmp_path,
        "explain",
        "app",
        objects=(*objects, make_unreadable("team-app-lb", tenant="team/app")),
    ).out
    assert "nothing is changed for this cluster: IPAllocation butler-system/team-app-lb" in tenant


def test_explain_names_an_unreadable_pool_and_provider(tmp_path: Path) -> None:
    broken = pool() | {"spec": {"cidr": 7}}
    broken["metadata"] |= STORED
    lines = run_on_files(
        tmp_path, "explain", "app", objects=(broken, provider("prov", "lab"), cluster())
    ).out
    assert "1. NetworkPool butler-system/lab cannot be read; correct or delete it" in lines
    config = provider("prov", "lab")
    config["metadata"] |= STORED
    config["spec"]["network"] = 7
    lines = run_on_files(tmp_path, "explain", "app", objects=(pool(), config, cluster())).out
    assert "ProviderConfig butler-system/prov cannot be read; correct or delete it" in lines


MACHINE = vitistack("NetworkConfiguration", "vm", {"networkInterfaces": 7})
UNREADABLE_REFERENTS: dict[str, tuple[Json, ...]] = {
    "IPAMPool": (
        kkp("IPAMPool", "p", {"datacenters": 7}),
        kkp_cluster("x", "dc"),
        kkp_allocation("p", "x", "dc"),
    ),
    "Cluster of KKP": (
        ipam_pool("p", dc=RANGE),
        kkp("Cluster", "x", {"cloud": 7}),
        kkp_allocation("p", "x", "dc"),
    ),
    "NetworkNamespace": (
        vitistack("NetworkNamespace", "net", {"ipAllocation": 7}),
        VM,
        request("r"),
    ),
    "NetworkConfiguration": (network(), MACHINE, request("r")),
}


@pytest.mark.parametrize("unreadable", UNREADABLE_REFERENTS)
def test_check_does_not_call_an_unreadable_object_of_another_platform_missing(
    tmp_path: Path, unreadable: str
) -> None:
    out = run_on_files(tmp_path, "check", objects=UNREADABLE_REFERENTS[unreadable]).out
    assert "cannot be read: " in out
    assert "does not exist" not in out
    assert "it stays in use" not in out


def test_a_request_of_an_unreadable_network_waits_for_it(tmp_path: Path) -> None:
    out = run_on_files(tmp_path, "plan", objects=UNREADABLE_REFERENTS["NetworkNamespace"]).out
    assert 'NetworkNamespace "net" cannot be read; correct it' in out
    assert "not found" not in out


def test_the_table_shows_the_figures_of_a_pool_with_an_unreadable_holder_as_unknown() -> None:
    out = plan_text(written_yaml((pool(), make_unreadable()))).out
    heads, row = out.splitlines()[1:3]
    figures = dict(zip(heads.split(), row.split(), strict=False))
    assert figures["TOTAL"] == "256"
    names_of_figures = ("USED", "ALLOCATED", "FREE", "LARGEST", "FRAGMENTED")
    assert {figures[name] for name in names_of_figures} == {"unknown"}
    assert "no: nothing is handed out" in row
