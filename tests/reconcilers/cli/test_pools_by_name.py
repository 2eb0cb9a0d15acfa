"""Pools of all kinds by name, each with its holders of all kinds."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from reconcilers.api import crd
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.cluster.kindwords import list_kind_words
from reconcilers.cli.cluster.poolnames import find_common_namespace
from tests.reconcilers.cli.commandline import Outcome, make_held_status
from tests.reconcilers.cli.test_claims import (
    make_address,
    make_claim,
    make_ip_pool,
    make_saved_object,
    run_on_saved,
)
from tests.reconcilers.cli.test_claims_map import read_page_pools

POOL_WITH_CLAIMS = (
    make_saved_object("NetworkPool", "rack", {"cidr": "10.70.0.0/28"}),
    make_saved_object(
        "IPAllocation",
        "whole",
        {
            "poolRef": {"name": "rack"},
            "tenantClusterRef": {"name": "a", "namespace": "b"},
            "type": "nodes",
            "count": 14,
        },
        status=make_held_status("10.70.0.0", "10.70.0.13"),
    ),
    make_claim("m1", "rack", "NetworkPool"),
    make_address("m1", "rack", ip="10.70.0.14", kind="NetworkPool"),
    make_claim("m2", "rack", "NetworkPool"),
)
"""A NetworkPool of 16 addresses: an IPAllocation holds 14, a claim holds 1, a claim waits."""

POOLS_OF_ONE_NAME = (
    make_saved_object("NetworkPool", "machines", {"cidr": "10.63.0.0/28"}),
    make_ip_pool("machines", "10.63.1.8/29"),
    make_saved_object("NetworkPool", "other", {"cidr": "10.64.0.0/28"}),
)
"""Two pools of one name, of different kinds."""

TITLES = ["NetworkPool b/machines  10.63.0.0/28", "InClusterIPPool b/machines  10.63.1.8/29"]


def list_titles(outcome: Outcome) -> list[str]:
    """Return the titles of the pools that `map` has drawn in the terminal."""
    assert outcome.code == 0, outcome.err
    kinds = ("NetworkPool", "InClusterIPPool", "IPAMPool", "Global")
    return [line for line in outcome.out.splitlines() if line.startswith(kinds)]


def test_pools_shows_a_network_pool_with_claims_in_one_row(
    tmp_path: Path,
) -> None:
    table = run_on_saved(tmp_path, "pools", *POOL_WITH_CLAIMS).out
    assert table.count("rack") == 1
    head, row = (line.split() for line in table.replace("%", "").splitlines())
    cell_by_column = dict(zip(head[::-1], row[::-1], strict=False))
    assert (cell_by_column["ALLOCATED"], cell_by_column["FREE"], cell_by_column["WAITING"]) == (
        "15",
        "1",
        "1",
    )
    document = json.loads(run_on_saved(tmp_path, "pools -o json", *POOL_WITH_CLAIMS).out)
    (item,) = document["items"]
    (family,) = item["families"]
    assert (family["allocated"], family["available"], item["waiting"]) == (15, 1, 1)
    names = run_on_saved(tmp_path, "pools -o name", *POOL_WITH_CLAIMS).out
    assert names == "networkpool.butler.butlerlabs.dev/rack\n"


@pytest.mark.parametrize("name", ["rack", "b/rack", "networkpool/rack", "NetworkPool/b/rack"])
def test_map_shows_allocations_and_claims_of_a_network_pool(tmp_path: Path, name: str) -> None:
    outcome = run_on_saved(tmp_path, f"map {name}", *POOL_WITH_CLAIMS)
    assert list_titles(outcome) == ["NetworkPool b/rack  10.70.0.0/28"]
    listed = [line.split()[:6] for line in outcome.out.partition("START")[2].splitlines()[1:]]
    assert listed == [
        ["10.70.0.0", "10.70.0.13", "14", "allocated", "whole", "b/a"],
        ["10.70.0.14", "10.70.0.14", "1", "allocated", "IPAddressClaim", "m1"],
        ["10.70.0.15", "10.70.0.15", "1", "free", "-", "-"],
    ]


def test_json_svg_and_page_show_allocations_and_claims_of_a_network_pool(
    tmp_path: Path,
) -> None:
    document = json.loads(run_on_saved(tmp_path, "map rack -o json", *POOL_WITH_CLAIMS).out)
    (item,) = document["items"]
    assert [
        (part["start"], [(holder["kind"], holder["name"]) for holder in part["holders"]])
        for part in item["families"][0]["extents"]
    ] == [
        ("10.70.0.0", [("IPAllocation", "whole")]),
        ("10.70.0.14", [("IPAddressClaim", "m1")]),
        ("10.70.0.15", []),
    ]
    svg = ElementTree.fromstring(run_on_saved(tmp_path, "map rack --svg -", *POOL_WITH_CLAIMS).out)
    texts = [node.text or "" for node in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert any("IPAddressClaim b/m1" in label for label in texts)
    output = read_page_pools(run_on_saved(tmp_path, "map rack --html -", *POOL_WITH_CLAIMS).out)
    assert list(output) == ["b/rack"]
    assert (output["b/rack"]["allocated"], output["b/rack"]["available"]) == (15, 1)
    assert list(output["b/rack"]["requests"]) == ["IPAddressClaim b/m2"]


def test_the_forecast_of_a_network_pool_counts_addresses_of_claims(
    tmp_path: Path,
) -> None:
    document = json.loads(run_on_saved(tmp_path, "plan --fit 0+2 -o json", *POOL_WITH_CLAIMS).out)
    (item,) = document["items"]
    # The waiting claim gets the last address.
    figures = [
        (item[at]["allocated"], item[at]["available"], item[at]["fits"][0]["tenants"])
        for at in ("before", "after")
    ]
    assert figures == [(15, 1, 0), (16, 0, 0)]


@pytest.mark.parametrize("command", ["map", "map --svg -", "map --html -", "pools -o json"])
@pytest.mark.parametrize("name", ["machines", "b/machines"])
def test_a_name_that_two_pools_have_is_rejected_with_their_full_names(
    tmp_path: Path, command: str, name: str
) -> None:
    outcome = run_on_saved(tmp_path, f"{command} {name}", *POOLS_OF_ONE_NAME)
    assert (outcome.code, outcome.out) == (1, "")
    (error,) = outcome.errors
    assert error == (
        f"2 pools have the name '{name}': NetworkPool/b/machines, InClusterIPPool/b/machines;"
        " name one of them"
    )


def test_pools_of_all_kinds_are_rows_of_one_table(tmp_path: Path) -> None:
    lines = run_on_saved(tmp_path, "pools", *POOLS_OF_ONE_NAME).out.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["KIND", "NAMESPACE", "NAME", "OFFERS"],
        ["NetworkPool", "b", "machines", "10.63.0.0/28"],
        ["NetworkPool", "b", "other", "10.64.0.0/28"],
        ["InClusterIPPool", "b", "machines", "10.63.1.8/29"],
    ]
    for output in ("json", "yaml"):
        document = yaml.safe_load(
            run_on_saved(tmp_path, f"pools -o {output}", *POOLS_OF_ONE_NAME).out
        )
        assert [(pool["kind"], pool["name"]) for pool in document["items"]] == [
            ("NetworkPool", "machines"),
            ("NetworkPool", "other"),
            ("InClusterIPPool", "machines"),
        ]
        assert "others" not in document


def test_pools_with_a_name_shows_only_that_pool(tmp_path: Path) -> None:
    [_, row] = run_on_saved(
        tmp_path, "pools InClusterIPPool/machines", *POOLS_OF_ONE_NAME
    ).out.splitlines()
    assert row.split()[:3] == ["InClusterIPPool", "b", "machines"]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("NetworkPool/machines", 0),
        ("networkpool.butler.butlerlabs.dev/machines", 0),
        ("inclusterippool/machines", 1),
        ("InClusterIPPool/b/machines", 1),
    ],
)
def test_a_kind_before_a_name_selects_the_pool_of_that_kind(
    tmp_path: Path, name: str, index: int
) -> None:
    assert list_titles(run_on_saved(tmp_path, f"map {name}", *POOLS_OF_ONE_NAME)) == [
        TITLES[index]
    ]
    svg = run_on_saved(tmp_path, f"map {name} --svg -", *POOLS_OF_ONE_NAME)
    assert svg.code == 0, svg.err
    assert "10.63.0.0/28" in svg.out if index == 0 else "10.63.1.8/29" in svg.out


def test_the_error_about_svg_of_several_pools_lists_them(tmp_path: Path) -> None:
    outcome = run_on_saved(tmp_path, "map --svg -", *POOLS_OF_ONE_NAME)
    assert outcome.code == 1
    (error,) = outcome.errors
    assert error == (
        "--svg draws one pool of one family, and these are 3: NetworkPool/b/machines of"
        " 10.63.0.0/28, NetworkPool/b/other of 10.64.0.0/28, InClusterIPPool/b/machines of"
        " 10.63.1.8/29; name one of them, choose its --family, or use --html"
    )


def test_a_name_of_pools_in_two_namespaces_is_rejected_unless_a_namespace_is_chosen(
    tmp_path: Path,
) -> None:
    elsewhere: Any = make_saved_object("NetworkPool", "machines", {"cidr": "10.65.0.0/28"})
    elsewhere["metadata"]["namespace"] = "c"
    outcome = run_on_saved(tmp_path, "map NetworkPool/machines", POOLS_OF_ONE_NAME[0], elsewhere)
    (error,) = outcome.errors
    assert error == (
        "2 pools have the name 'NetworkPool/machines': NetworkPool/b/machines,"
        " NetworkPool/c/machines; name one of them"
    )
    only = run_on_saved(tmp_path, "map NetworkPool/machines -n c", POOLS_OF_ONE_NAME[0], elsewhere)
    assert list_titles(only) == ["NetworkPool c/machines  10.65.0.0/28"]


@pytest.mark.parametrize(
    "name", ["absent", "NetworkPool/absent", "GlobalInClusterIPPool/machines"]
)
def test_the_error_about_an_unknown_pool_lists_all_pools(tmp_path: Path, name: str) -> None:
    outcome = run_on_saved(tmp_path, f"map {name}", *POOLS_OF_ONE_NAME)
    assert outcome.code == 1
    (error,) = outcome.errors
    assert error == (
        f"there is no pool '{name}'; there are: NetworkPool/b/machines, NetworkPool/b/other,"
        " InClusterIPPool/b/machines"
    )


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("nets", "NetworkPool b/nets"),
        ("np/b/nets", "NetworkPool b/nets"),
        ("ips", "InClusterIPPool b/ips"),
    ],
)
def test_a_pool_that_cannot_be_read_is_not_called_missing(
    tmp_path: Path, name: str, full_name: str
) -> None:
    nets, ips = (
        make_saved_object("NetworkPool", "nets", {"cidr": 7}),
        make_ip_pool("ips", "10.0.0.1"),
    )
    ips["spec"]["prefix"] = "no number"
    outcome = run_on_saved(tmp_path, f"map {name}", *POOLS_OF_ONE_NAME, nets, ips)
    assert outcome.code == 1
    assert outcome.errors[-1] == (
        f"{full_name} cannot be read; correct or delete what `butler-ipam check` reports"
    )


def test_map_of_a_family_that_the_pool_lacks_says_so(tmp_path: Path) -> None:
    outcome = run_on_saved(tmp_path, "map NetworkPool/machines --family 6", *POOLS_OF_ONE_NAME)
    assert outcome.out == "no addresses of IPv6 were found\n"


def test_the_common_namespace_of_names_is_found() -> None:
    """If not all namespaces may be read, that namespace alone is read."""
    assert find_common_namespace(["site/lab", "NetworkPool/site/other"]) == "site"
    assert find_common_namespace(["site/lab", "elsewhere/lab"]) == ""
    assert find_common_namespace(["networkpool.butler.butlerlabs.dev/lab"]) == ""
    assert find_common_namespace(["site/lab", "lab"]) == ""
    assert find_common_namespace([]) == ""


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("np", TITLES[0]),
        ("networkpools", TITLES[0]),
        ("NetworkPools.butler.butlerlabs.dev", TITLES[0]),
        ("networkpool.butler.butlerlabs.dev", TITLES[0]),
        ("inclusterippools", TITLES[1]),
        ("inclusterippool.ipam.cluster.x-k8s.io", TITLES[1]),
    ],
)
def test_map_accepts_kinds_in_the_forms_that_kubectl_accepts_and_prints(
    kind: str, title: str, tmp_path: Path
) -> None:
    for name in (f"{kind}/machines", f"{kind}/b/machines"):
        assert list_titles(run_on_saved(tmp_path, f"map {name}", *POOLS_OF_ONE_NAME)) == [title]
        assert find_common_namespace([name]) in {"", "b"}


def test_short_names_of_kinds_are_those_of_the_definitions() -> None:
    resources = (TENANT_CLUSTER, IP_ALLOCATION, NETWORK_POOL)
    short_names = {kind.kind: {*kind.short_names} for kind in crd.KINDS}
    assert all(short_names[resource.kind] <= list_kind_words(resource) for resource in resources)
