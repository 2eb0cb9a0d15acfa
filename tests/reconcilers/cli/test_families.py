"""What the commands show of a pool of two families: each of its blocks."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reconcilers.addressmap.received import of_page
from tests.reconcilers.cli.commandline import allocation, pool
from tests.reconcilers.cli.saved import UID, ask, cluster, make_holder

REQUIRE = {"ipFamilyPolicy": "RequireDualStack"}


def _pool(**status: Any) -> dict[str, Any]:
    network_pool = pool(cidr="10.0.0.0/28")
    if status:
        network_pool["status"] = status
    network_pool["spec"]["secondary"] = {"cidr": "fd00::/64", "reserved": [{"cidr": "fd00::/124"}]}
    return network_pool


def _both() -> dict[str, Any]:
    holder = make_holder("a", "10.0.0.0", "10.0.0.11", annotations={UID: "u1"})
    holder["spec"] |= REQUIRE
    holder["status"]["families"] = [
        {"family": "IPv4", "startAddress": "10.0.0.0", "endAddress": "10.0.0.11"},
        {"family": "IPv6", "startAddress": "fd00::10", "endAddress": "fd00::1b"},
    ]
    return holder


def test_each_block_is_a_row_of_the_pools_and_one_name(tmp_path: Path) -> None:
    objects = (_pool(), _both())
    [document] = json.loads(ask(tmp_path, "pools", "-o", "json", objects=objects).out)["items"]
    families = document["families"]
    assert [family["family"] for family in families] == ["IPv4", "IPv6"]
    assert [(family["cidr"], family["total"], family["allocated"]) for family in families] == [
        ("10.0.0.0/28", 16, 12),
        ("fd00::/64", str(2**64 - 16), 12),
    ]
    out = ask(tmp_path, "pools", "-o", "name", objects=objects).out
    assert out.splitlines() == ["networkpool.butler.butlerlabs.dev/lab"]


def test_who_holds_one_family_neither_counts_for_the_other_nor_waits_for_it(
    tmp_path: Path,
) -> None:
    only_four = make_holder("b", "10.0.0.12", "10.0.0.13", tenant="others/two")
    objects = (_pool(), _both(), only_four, allocation("waits", 9))
    [document] = json.loads(ask(tmp_path, "pools", "-o", "json", objects=objects).out)["items"]
    assert [(family["holders"], family["tenants"]) for family in document["families"]] == [
        (2, 2),
        (1, 1),
    ]
    assert document["waiting"] == 1
    for drawn_pool in _page(tmp_path, objects)["pools"]:
        assert list(drawn_pool["requests"]) == ["butler-system/waits"]
        assert drawn_pool["waiting"] == 1


def test_the_page_has_large_numbers_as_text_and_a_tenants_by_family(tmp_path: Path) -> None:
    large = make_holder("b", "fd00::4000:0:0:0", "fd00::7fff:ffff:ffff:ffff", tenant="others/one")
    page = _page(tmp_path, (_pool(), _both(), large))
    second = page["pools"][1]
    assert (second["size"], second["total"]) == (str(2**64), str(2**64 - 16))
    assert sum(int(extent["size"]) for extent in second["extents"].values()) == 2**64
    [tenant] = page["tenants"].values()
    assert tenant["loadbalancer"] == {"4": 12, "6": str(2**62 + 12)}


def test_an_address_of_ipv4_written_as_ipv6_is_drawn_where_it_is(tmp_path: Path) -> None:
    odd = make_holder("odd", "::ffff:10.0.0.12", "::FFFF:0a00:000d")
    out = ask(tmp_path, "whois", "10.0.0.13", objects=(_pool(), _both(), odd)).out
    assert "butler-system/odd" in out


def _page(folder: Path, objects: tuple[dict[str, Any], ...], *more: str) -> dict[str, Any]:
    """Return the data of the page."""
    state = of_page(ask(folder, "map", "--html", "-", *more, objects=objects).out)
    return {**state, "pools": list(state["pools"].values())}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("10.0.0.3", "10.0.0.3"),
        ("10.0.0.3/32", "10.0.0.3"),
        ("::ffff:10.0.0.3", "10.0.0.3"),
        ("::FFFF:a00:3", "10.0.0.3"),
        ("::ffff:10.0.0.3/128", "10.0.0.3"),
        ("fd00::12", "fd00::12"),
        ("FD00:0:0::0012", "fd00::12"),
        ("fd00:0000:0000:0000:0000:0000:0000:0012", "fd00::12"),
        ("fd00::0.0.0.18", "fd00::12"),
        ("FD00::12/128", "fd00::12"),
    ],
)
def test_whois_finds_an_address_of_either_family_in_any_spelling(
    tmp_path: Path, written: str, expected: str
) -> None:
    out = ask(tmp_path, "whois", written, objects=(_pool(), _both())).out
    assert out.splitlines()[1].split()[:5] == [
        *(expected, "NetworkPool", "butler-system/lab", "allocated", "butler-system/a")
    ]
    out = ask(tmp_path, "whois", written, "-o", "json", objects=(_pool(), _both())).out
    assert [item["address"] for item in json.loads(out)["items"]] == [expected]


@pytest.mark.parametrize("wrong", ["fd00::1%eth0", "fd00:::1", "1/32", "fd00::1-10.0.0.1"])
def test_whois_of_what_is_no_address_is_a_wrong_call(tmp_path: Path, wrong: str) -> None:
    outcome = ask(tmp_path, "whois", wrong, objects=(_pool(), _both()))
    assert outcome.code == 2
    assert "IP" in outcome.err


def test_the_ranges_of_both_families_are_counted_and_listed_for_a_tenant(tmp_path: Path) -> None:
    objects = (_pool(), _both(), cluster())
    [row] = ask(tmp_path, "tenants", "-o", "wide", objects=objects).out.splitlines()[1:]
    assert "12 + 12" in row
    assert "10.0.0.0-10.0.0.11, fd00::10-fd00::1b" in row
    [document] = json.loads(ask(tmp_path, "tenants", "-o", "json", objects=objects).out)["items"]
    assert document["allocations"][0]["ranges"] == ["10.0.0.0-10.0.0.11", "fd00::10-fd00::1b"]


def test_counts_that_few_programs_read_exactly_are_text(tmp_path: Path) -> None:
    out = ask(tmp_path, "map", "lab", "-o", "json", objects=(_pool(), _both())).out
    [document] = json.loads(out)["items"]
    four, six = document["families"]
    assert four["addresses"]["free"] == 4
    assert six["addresses"] == {"reserved": 16, "allocated": 12, "free": str(2**64 - 28)}
    assert six["extents"][-1]["size"] == str(2**64 - 28)


def test_the_map_draws_each_block(tmp_path: Path) -> None:
    out = ask(tmp_path, "map", "lab", objects=(_pool(), _both())).out
    titles = [line for line in out.splitlines() if line.startswith("NetworkPool")]
    assert titles == [
        "NetworkPool butler-system/lab  10.0.0.0/28",
        "NetworkPool butler-system/lab  fd00::/64",
    ]
    assert "fd00::10" in out


@pytest.mark.parametrize(("family", "start"), [("4", "10.0.0.0"), ("6", "fd00::10")])
def test_one_block_is_drawn_where_a_family_is_named(
    tmp_path: Path, family: str, start: str
) -> None:
    objects = (_pool(), _both())
    both = ask(tmp_path, "map", "lab", "--svg", "-", objects=objects)
    assert both.code == 1
    assert "--family" in both.err
    out = ask(tmp_path, "map", "lab", "--family", family, "--svg", "-", objects=objects).out
    assert out.startswith("<svg")
    assert start in out
    out = ask(tmp_path, "map", "lab", "--family", family, objects=objects).out
    assert out.count("NetworkPool butler-system/lab") == 1
    [pool] = _page(tmp_path, objects, "--family", family)["pools"]
    assert str(pool["family"]) == family


def test_a_pool_without_the_family_that_is_named_gets_a_sentence(tmp_path: Path) -> None:
    alone = pool("lab", "10.0.0.0/28")
    outcome = ask(tmp_path, "map", "lab", "--family", "6", objects=(alone,))
    assert (outcome.code, outcome.out) == (0, "no addresses of IPv6 were found\n")


def test_the_status_of_each_family_is_checked(tmp_path: Path) -> None:
    free = 2**64 - 28
    exact = {"totalIPs": free + 12, "allocatedIPs": 12, "availableIPs": free}
    texts = {name: str(count) for name, count in exact.items()} | {"largestFreeBlock": str(free)}
    most = 2**31 - 1
    second = dict.fromkeys(texts, most) | {"allocatedIPs": 12, "exactCounts": texts}
    first = {"totalIPs": 16, "allocatedIPs": 12, "availableIPs": 4, "largestFreeBlock": 4}
    status = {"observedGeneration": 1, **first, "secondary": second}

    def check(**changed: Any) -> list[str]:
        objects = (_pool(**status | changed), _both(), cluster())
        out = ask(tmp_path, "check", "-o", "json", objects=objects).out
        return [finding["sentence"] for finding in json.loads(out)["findings"]]

    assert check() == []
    [drift] = check(secondary=second | {"exactCounts": texts | {"allocatedIPs": "13"}})
    assert "allocatedIPs is 13, not 12" in drift


def test_a_plan_gives_both_or_nothing(tmp_path: Path) -> None:
    fits, too_large = allocation("b", 4), allocation("c", 8)
    for request in (fits, too_large):
        request["spec"] |= REQUIRE
    out = ask(tmp_path, "plan", "-o", "yaml", objects=(_pool(), _both(), fits, too_large)).out
    status = {
        item["metadata"]["name"]: item["status"]
        for item in yaml.safe_load(out)["items"]
        if item["kind"] == "IPAllocation"
    }
    assert [family["cidr"] for family in status["b"]["families"]] == [
        "10.0.0.12/30",
        "fd00::1c/126",
    ]
    assert status["c"]["phase"] == "Failed"
    assert "startAddress" not in status["c"]
    assert status["c"]["conditions"][0]["message"].startswith("IPv4: pool exhausted")


@pytest.mark.parametrize(("last", "code"), [("fd00::2f", 0), ("fd01::", 1)])
def test_a_plan_treats_two_pinned_ranges_like_one(tmp_path: Path, last: str, code: int) -> None:
    both = allocation("b")
    both["spec"] |= REQUIRE | {
        "pinnedRanges": [
            {"startAddress": "10.0.0.12", "endAddress": "10.0.0.13"},
            {"startAddress": "fd00::20", "endAddress": last},
        ]
    }
    outcome = ask(tmp_path, "plan", objects=(_pool(), both))
    assert outcome.code == code
    [row] = [line for line in outcome.out.splitlines() if "/lab  b " in line]
    assert "pinned" in row
    assert ("spec.pinnedRanges[1]" in outcome.err) is bool(code), "an address never moves"
