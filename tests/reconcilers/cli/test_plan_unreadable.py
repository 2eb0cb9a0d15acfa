"""Stored objects that cannot be parsed: `plan` hands out no address that they may hold."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import (
    Outcome,
    find_condition,
    make_allocation,
    make_cluster,
    make_held_status,
    make_pool,
    make_provider,
    plan,
    plan_text,
)
from tests.reconcilers.cli.saved import run_on_files
from tests.reconcilers.cli.test_claims import make_address, make_claim, make_ip_pool
from tests.reconcilers.cli.test_platforms import (
    RANGE,
    VM,
    make_ipam_pool,
    make_kkp_object,
    make_network,
    make_vitistack_object,
    make_vitistack_request,
)
from tests.reconcilers.cli.test_platforms import make_ipam_allocation as kkp_allocation
from tests.reconcilers.cli.test_platforms import make_kkp_cluster as kkp_cluster
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json
from tests.yamls import written_yaml

STORED: Json = {"resourceVersion": "7", "uid": "u7"}
"""Metadata that only a stored object has."""
DAMAGES: dict[str, Json] = {
    "its pool is known": {"spec": {"count": "many"}},
    "its pool is unknown": {"spec": {"poolRef": 7}},
    "it is being deleted": {
        "spec": {"count": "many"},
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    },
}


def make_unreadable(name: str = "odd", pool: str = "lab", **more: Any) -> Json:
    """Return a stored allocation whose spec.count cannot be parsed; it holds a range of a pool."""
    body = make_allocation(
        name, pool=pool, status=make_held_status("10.40.0.0", "10.40.0.7"), **STORED, **more
    )
    body["spec"]["count"] = "many"
    return body


def read_condition(body: Json, condition: str = "Ready") -> tuple[str, str, str]:
    """Return status, reason and message of the condition of a type."""
    ready_condition = find_condition(body, condition)
    return ready_condition["status"], ready_condition["reason"], ready_condition["message"]


def read_ranges(outcome: Outcome) -> dict[str, str]:
    """Return the CIDR of each allocation by name; its phase if it has no range."""
    return {
        name.removeprefix("IPAllocation/"): body["status"].get("cidr", body["status"]["phase"])
        for name, body in outcome.items.items()
        if name.startswith("IPAllocation/")
    }


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_plan_beside_an_unreadable_allocation_equals_the_writes_of_the_controllers(
    damage: str,
) -> None:
    platform = Platform()
    server = platform.server
    server.add("networkpools", make.pool("lab", "10.40.0.0/24"))
    server.add("networkpools", make.pool("next", "10.41.0.0/24"))
    finalizers: dict[str, Any] = {"finalizers": [names.FINALIZER_ALLOCATION]}
    server.add("ipallocations", make.allocation("odd", tenant="others/one", **finalizers))
    server.edit("ipallocations", "odd", DAMAGES[damage])
    for number, pool in enumerate(("lab", "next")):
        server.add("ipallocations", make.allocation(f"a{number}", of=pool, tenant="others/one"))
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
    objects = (
        make_pool(),
        make_pool("next", "10.41.0.0/24"),
        make_unreadable(),
        make_allocation("a", 4),
    )
    outcome = plan(*objects, make_allocation("b", 4, pool="next"))
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
    outcome = plan(make_pool(), body, make_allocation("a", 4))
    assert read_ranges(outcome) == {"a": "10.40.0.0/30"}
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_stored_allocation_that_breaks_only_rules_of_the_crd_keeps_its_range() -> None:
    body = make_allocation("old", status=make_held_status("10.40.0.0", "10.40.0.7"), **STORED)
    body["spec"]["count"] = 100_000_000_000
    body["metadata"]["labels"] = {"team": "not a label value!"}
    outcome = plan(make_pool(), body, make_allocation("a", 4))
    assert read_ranges(outcome)["a"] == "10.40.0.8/30"
    assert any("is not a label value" in error for error in outcome.errors)


def test_the_summary_names_the_objects_that_cannot_be_read() -> None:
    manifests = written_yaml((make_pool(), make_unreadable(), make_allocation("a", 4)))
    outcome = plan_text(manifests)
    assert (
        "1 object cannot be read, and what depends on it is not planned: IPAllocation"
        " butler-system/odd" in outcome.out
    )


def test_the_forecast_of_a_pool_with_unknown_holders_is_unknown() -> None:
    manifests = written_yaml((make_pool(), make_unreadable(), make_allocation("a", 4)))
    out = plan_text(manifests, "--fit", "0+4", "-o", "wide").out
    [row] = [
        line for line in out.partition("Before and after")[2].splitlines() if "unknown" in line
    ]
    assert row.split()[3:] == ["unknown"] * 5


def test_a_cluster_with_an_unreadable_allocation_gets_no_new_allocations() -> None:
    outcome = plan(
        make_pool(),
        make_provider("prov", "lab"),
        make_cluster(),
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
    body = make_provider("prov", "lab")
    body["metadata"] |= STORED
    body["spec"]["network"]["poolRefs"] = 7
    outcome = plan(make_pool(), make_provider("other", "lab"), body, make_cluster())
    assert read_ranges(outcome) == {}
    assert read_condition(outcome.items["TenantCluster/app"], "NetworkReady") == (
        "False",
        "ProviderConfigUnreadable",
        "ProviderConfig butler-system/prov cannot be read; correct or delete it",
    )


def test_an_unreadable_pool_is_reported_as_unreadable_and_not_as_missing() -> None:
    body = make_pool("first") | {"spec": {"cidr": 7}}
    body["metadata"] |= STORED
    outcome = plan(
        body,
        make_pool("second", "10.41.0.0/24"),
        make_provider("prov", "first", "second"),
        make_cluster(),
        make_allocation("a", 4, pool="first"),
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
    site = make_pool("site", "10.9.0.0/29", namespace="b")
    return site, make_unreadable(pool="site", namespace="b")


def test_a_claim_on_a_pool_with_an_unreadable_allocation_waits(tmp_path: Path) -> None:
    site, unreadable = _make_site()
    outcome = run_on_files(
        tmp_path, "plan", objects=(site, unreadable, make_claim("c", "site", "NetworkPool"))
    )
    assert (
        "PoolNotReady: NetworkPool site is not ready: IPAllocations that cannot be read: odd"
        in outcome.out
    )


def test_an_allocation_of_a_pool_with_an_unreadable_ipaddress_waits(
    tmp_path: Path,
) -> None:
    site, _ = _make_site()
    broken = make_address("m", "site", ip="10.9.0.0", kind="NetworkPool")
    broken["spec"]["prefix"] = "many"
    waiting = make_allocation("a", 2, pool="site", namespace="b")
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
    broken = make_ip_pool("p", "10.0.0.1")
    broken["spec"]["prefix"] = "many"
    site, _ = _make_site()
    site = site | {"spec": {"cidr": 7}}
    site["metadata"] |= STORED
    claims = (make_claim("c", "p"), make_claim("d", "site", "NetworkPool"))
    out = run_on_files(tmp_path, "plan", objects=(broken, site, *claims)).out
    assert "PoolNotReady: InClusterIPPool p cannot be read; correct or delete it" in out
    assert "PoolNotReady: NetworkPool site cannot be read; correct or delete it" in out


def test_check_does_not_call_an_unreadable_object_missing(tmp_path: Path) -> None:
    broken = make_ip_pool("p", "10.0.0.1")
    broken["spec"]["prefix"] = "many"
    unreadable_claim = make_claim("m", "q")
    unreadable_claim["spec"] = {"poolRef": 7}
    ip_address = make_address(
        "m", "q", "10.0.1.1", metadata={"finalizers": ["ipam.cluster.x-k8s.io/ProtectAddress"]}
    )
    out = run_on_files(
        tmp_path,
        "check",
        objects=(
            broken,
            make_claim("c", "p"),
            make_ip_pool("q", "10.0.1.1"),
            unreadable_claim,
            ip_address,
        ),
    ).out
    assert "does not exist" not in out
    assert "cannot be read" in out


def test_explain_names_an_unreadable_allocation_and_its_effects(tmp_path: Path) -> None:
    objects = (
        make_pool(),
        make_unreadable(),
        make_allocation("a", 4),
        make_provider("default", "lab"),
        make_cluster(provider=None),
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
    broken = make_pool() | {"spec": {"cidr": 7}}
    broken["metadata"] |= STORED
    lines = run_on_files(
        tmp_path, "explain", "app", objects=(broken, make_provider("prov", "lab"), make_cluster())
    ).out
    assert "1. NetworkPool butler-system/lab cannot be read; correct or delete it" in lines
    config = make_provider("prov", "lab")
    config["metadata"] |= STORED
    config["spec"]["network"] = 7
    lines = run_on_files(
        tmp_path, "explain", "app", objects=(make_pool(), config, make_cluster())
    ).out
    assert "ProviderConfig butler-system/prov cannot be read; correct or delete it" in lines


MACHINE = make_vitistack_object("NetworkConfiguration", "vm", {"networkInterfaces": 7})
UNREADABLE_REFERENTS: dict[str, tuple[Json, ...]] = {
    "IPAMPool": (
        make_kkp_object("IPAMPool", "p", {"datacenters": 7}),
        kkp_cluster("x", "dc"),
        kkp_allocation("p", "x", "dc"),
    ),
    "Cluster of KKP": (
        make_ipam_pool("p", dc=RANGE),
        make_kkp_object("Cluster", "x", {"cloud": 7}),
        kkp_allocation("p", "x", "dc"),
    ),
    "NetworkNamespace": (
        make_vitistack_object("NetworkNamespace", "net", {"ipAllocation": 7}),
        VM,
        make_vitistack_request("r"),
    ),
    "NetworkConfiguration": (make_network(), MACHINE, make_vitistack_request("r")),
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
    out = plan_text(written_yaml((make_pool(), make_unreadable()))).out
    heads, row = out.splitlines()[1:3]
    figures = dict(zip(heads.split(), row.split(), strict=False))
    assert figures["TOTAL"] == "256"
    names_of_figures = ("USED", "ALLOCATED", "FREE", "LARGEST", "FRAGMENTED")
    assert {figures[name] for name in names_of_figures} == {"unknown"}
    assert "no: nothing is handed out" in row
