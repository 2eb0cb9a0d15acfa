"""The map of saved pools, claims and IPAddresses of Cluster API."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reconcilers.addressmap import received
from tests.reconcilers.cli.test_claims import (
    RELEASED_METADATA,
    make_address,
    make_claim,
    make_ip_pool,
    make_saved_object,
    run_on_saved,
)


def test_map_shows_only_the_named_pool_with_its_holders(tmp_path: Path) -> None:
    outcome = run_on_saved(
        tmp_path,
        "map p",
        make_ip_pool("p", "10.0.0.10-10.0.0.12"),
        make_ip_pool("q", "10.0.1.10"),
        make_claim("a", "p"),
        make_address("a", "p", "10.0.0.11"),
    )
    title, row, *_ = lines = outcome.out.splitlines()
    assert title == "InClusterIPPool b/p  10.0.0.8/29"
    assert row == "10.0.0.8    .#.", "a cell for each address"
    assert [line.split()[:7] for line in lines if line.startswith("10.0.0.1")] == [
        ["10.0.0.10", "10.0.0.10", "1", "free", "-", "-", "-"],
        ["10.0.0.11", "10.0.0.11", "1", "allocated", "IPAddressClaim", "a", "b/a"],
        ["10.0.0.12", "10.0.0.12", "1", "free", "-", "-", "-"],
        ["10.0.0.13", "10.0.0.15", "3", "outside", "-", "-", "-"],
    ]


def test_ranges_of_pools_of_claims_are_in_the_json(tmp_path: Path) -> None:
    outcome = run_on_saved(
        tmp_path, "map p -o json", make_ip_pool("p", "10.0.0.10"), make_claim("a", "p")
    )
    [document] = yaml.safe_load(outcome.out)["items"]
    [extent] = document["families"][0]["extents"]
    assert (extent["start"], extent["end"], extent["state"]) == ("10.0.0.10", "10.0.0.10", "free")
    assert [request["name"] for request in document["requests"]] == ["a"]


def test_holders_of_a_global_pool_are_shown_with_their_namespace(tmp_path: Path) -> None:
    spec = {"addresses": ["10.0.0.10"], "prefix": 24}
    outcome = run_on_saved(
        tmp_path,
        "map",
        make_saved_object("GlobalInClusterIPPool", "p", spec=spec, version="v1alpha2"),
        make_claim("a", "p", "GlobalInClusterIPPool"),
        make_address("a", "p", ip="10.0.0.10", kind="GlobalInClusterIPPool"),
    )
    assert "allocated  IPAddressClaim b/a  b/a" in outcome.out


def read_page_pools(html: str) -> dict[str, Any]:
    """Return the pools that a page shows, by name."""
    state = received.read_page_state(html)
    return {state["pools"][key]["name"]: state["pools"][key] for key in state["order"]}


def test_the_page_shows_pools_of_claims_beside_network_pools(tmp_path: Path) -> None:
    outcome = run_on_saved(
        tmp_path,
        "map --html -",
        make_saved_object("NetworkPool", "p", {"cidr": "10.9.0.0/29"}),
        make_ip_pool("p", "10.0.0.10-10.0.0.13", gateway="10.0.0.9"),
        make_claim("a", "p"),
        make_address("a", "p", "10.0.0.10"),
        make_address("released", "p", "10.0.0.11", metadata=RELEASED_METADATA),
        make_address("out", "p", "10.0.0.9"),
        make_claim("waits", "p"),
        make_ip_pool("broken", "10.0.0.999"),
    )
    output = read_page_pools(outcome.out)
    assert list(output) == ["b/p", "InClusterIPPool b/broken", "InClusterIPPool b/p"]
    picture = output["InClusterIPPool b/p"]
    extents = [
        (part["start"], part["state"], [allocation for allocation, _, _ in part["holders"]])
        for part in received.list_extents(picture)
    ]
    assert extents == [
        ("10.0.0.8", "outside", []),
        ("10.0.0.9", "stray", ["IPAddress b/out"]),
        ("10.0.0.10", "allocated", ["IPAddressClaim b/a"]),
        ("10.0.0.11", "releasing", ["IPAddress b/released"]),
        ("10.0.0.12", "free", []),
        ("10.0.0.14", "outside", []),
    ]
    assert (picture["cidr"], picture["total"], picture["available"], picture["percent"]) == (
        "10.0.0.8/29",
        *(4, 2, 50),
    )
    assert list(picture["requests"]) == ["IPAddressClaim b/waits"]
    assert "10.0.0.999" in output["InClusterIPPool b/broken"]["fault"]


@pytest.mark.parametrize("metadata", [{}, {"creationTimestamp": None}], ids=["absent", "null"])
def test_the_page_shows_waiting_claims_without_a_creation_time(
    tmp_path: Path, metadata: dict[str, None]
) -> None:
    waiting = make_claim("waits", "p"), make_claim("second", "p")
    for request in waiting:
        request["metadata"] = {"name": request["metadata"]["name"], "namespace": "b", **metadata}
    outcome = run_on_saved(
        tmp_path, "map --html -", make_ip_pool("p", "10.0.0.10-10.0.0.13"), *waiting
    )
    output = read_page_pools(outcome.out)["InClusterIPPool b/p"]
    assert list(output["requests"]) == ["IPAddressClaim b/waits", "IPAddressClaim b/second"]


@pytest.mark.parametrize(
    ("pool", "argument", "title"),
    [
        (make_ip_pool("p", "10.0.0.10-10.0.0.13"), "p", "InClusterIPPool b/p  10.0.0.8/29"),
        (
            make_saved_object(
                "GlobalInClusterPrefixPool",
                "g",
                spec={"prefixes": ["2001:db8::/62"], "allocationPrefixLength": 64},
                version="v1alpha2",
            ),
            "g",
            "GlobalInClusterPrefixPool g  2001:db8::/62",
        ),
    ],
)
def test_a_pool_of_claims_is_drawn_as_a_picture(
    tmp_path: Path, pool: Any, argument: str, title: str
) -> None:
    outcome = run_on_saved(
        tmp_path, f"map {argument} --svg -", pool, make_ip_pool("other", "10.7.0.1")
    )
    assert outcome.code == 0
    assert f"<title>{title}</title>" in outcome.out


def test_a_pool_without_addresses_to_hand_out_cannot_be_drawn_as_svg(tmp_path: Path) -> None:
    empty = make_ip_pool("p", "10.0.0.1", gateway="10.0.0.1")
    outcome = run_on_saved(tmp_path, "map p --svg -", empty)
    assert outcome.code == 1
    assert outcome.errors == [
        "InClusterIPPool b/p cannot be drawn: nothing in this pool may be handed out"
    ]
