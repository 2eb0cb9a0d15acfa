"""Commands on a pool of two families: each family is shown."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reconcilers.addressmap.received import read_page_state
from tests.reconcilers.cli.commandline import make_allocation, make_pool
from tests.reconcilers.cli.saved import UID, make_holder, make_saved_cluster, run_on_files

REQUIRE_BOTH = {"ipFamilyPolicy": "RequireDualStack"}


def _make_dual_pool(**status: Any) -> dict[str, Any]:
    """Return pool `lab` with 16 IPv4 addresses and 2^64 - 16 IPv6 addresses to hand out."""
    network_pool = make_pool(cidr="10.0.0.0/28")
    if status:
        network_pool["status"] = status
    network_pool["spec"]["secondary"] = {"cidr": "fd00::/64", "reserved": [{"cidr": "fd00::/124"}]}
    return network_pool


def _make_dual_holder() -> dict[str, Any]:
    """Return an allocation that holds 12 addresses of each family."""
    holder = make_holder("a", "10.0.0.0", "10.0.0.11", annotations={UID: "u1"})
    holder["spec"] |= REQUIRE_BOTH
    holder["status"]["families"] = [
        {"family": "IPv4", "startAddress": "10.0.0.0", "endAddress": "10.0.0.11"},
        {"family": "IPv6", "startAddress": "fd00::10", "endAddress": "fd00::1b"},
    ]
    return holder


def test_pools_prints_figures_for_each_family_and_the_name_once(tmp_path: Path) -> None:
    objects = (_make_dual_pool(), _make_dual_holder())
    [document] = json.loads(run_on_files(tmp_path, "pools", "-o", "json", objects=objects).out)[
        "items"
    ]
    families = document["families"]
    assert [family["family"] for family in families] == ["IPv4", "IPv6"]
    assert [(family["cidr"], family["total"], family["allocated"]) for family in families] == [
        ("10.0.0.0/28", 16, 12),
        ("fd00::/64", str(2**64 - 16), 12),
    ]
    out = run_on_files(tmp_path, "pools", "-o", "name", objects=objects).out
    assert out.splitlines() == ["networkpool.butler.butlerlabs.dev/lab"]


def test_a_holder_of_one_family_is_not_counted_as_a_holder_or_request_of_the_other(
    tmp_path: Path,
) -> None:
    only_four = make_holder("b", "10.0.0.12", "10.0.0.13", tenant="others/two")
    objects = (_make_dual_pool(), _make_dual_holder(), only_four, make_allocation("waits", 9))
    [document] = json.loads(run_on_files(tmp_path, "pools", "-o", "json", objects=objects).out)[
        "items"
    ]
    assert [(family["holders"], family["tenants"]) for family in document["families"]] == [
        (2, 2),
        (1, 1),
    ]
    assert document["waiting"] == 1
    for drawn_pool in _read_page(tmp_path, objects)["pools"]:
        assert list(drawn_pool["requests"]) == ["butler-system/waits"]
        assert drawn_pool["waiting"] == 1


def test_the_page_contains_large_numbers_as_text_and_the_counts_of_a_tenant_by_family(
    tmp_path: Path,
) -> None:
    large = make_holder("b", "fd00::4000:0:0:0", "fd00::7fff:ffff:ffff:ffff", tenant="others/one")
    page = _read_page(tmp_path, (_make_dual_pool(), _make_dual_holder(), large))
    second = page["pools"][1]
    assert (second["size"], second["total"]) == (str(2**64), str(2**64 - 16))
    assert sum(int(extent["size"]) for extent in second["extents"].values()) == 2**64
    [tenant] = page["tenants"].values()
    assert tenant["loadbalancer"] == {"4": 12, "6": str(2**62 + 12)}


def test_whois_finds_the_holder_of_a_range_in_ipv4_mapped_ipv6_notation(tmp_path: Path) -> None:
    odd = make_holder("odd", "::ffff:10.0.0.12", "::FFFF:0a00:000d")
    out = run_on_files(
        tmp_path, "whois", "10.0.0.13", objects=(_make_dual_pool(), _make_dual_holder(), odd)
    ).out
    assert "butler-system/odd" in out


def _read_page(folder: Path, objects: tuple[dict[str, Any], ...], *more: str) -> dict[str, Any]:
    """Run `map --html`; return the data of the page, with its pools as a list."""
    state = read_page_state(run_on_files(folder, "map", "--html", "-", *more, objects=objects).out)
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
    out = run_on_files(
        tmp_path, "whois", written, objects=(_make_dual_pool(), _make_dual_holder())
    ).out
    assert out.splitlines()[1].split()[:5] == [
        *(expected, "NetworkPool", "butler-system/lab", "allocated", "butler-system/a")
    ]
    out = run_on_files(
        tmp_path, "whois", written, "-o", "json", objects=(_make_dual_pool(), _make_dual_holder())
    ).out
    assert [item["address"] for item in json.loads(out)["items"]] == [expected]


@pytest.mark.parametrize("wrong", ["fd00::1%eth0", "fd00:::1", "1/32", "fd00::1-10.0.0.1"])
def test_whois_of_an_invalid_address_exits_with_2(tmp_path: Path, wrong: str) -> None:
    outcome = run_on_files(
        tmp_path, "whois", wrong, objects=(_make_dual_pool(), _make_dual_holder())
    )
    assert outcome.code == 2
    assert "IP" in outcome.err


def test_the_ranges_of_both_families_are_counted_and_listed_for_a_tenant(tmp_path: Path) -> None:
    objects = (_make_dual_pool(), _make_dual_holder(), make_saved_cluster())
    [row] = run_on_files(tmp_path, "tenants", "-o", "wide", objects=objects).out.splitlines()[1:]
    assert "12 + 12" in row
    assert "10.0.0.0-10.0.0.11, fd00::10-fd00::1b" in row
    [document] = json.loads(run_on_files(tmp_path, "tenants", "-o", "json", objects=objects).out)[
        "items"
    ]
    assert document["allocations"][0]["ranges"] == ["10.0.0.0-10.0.0.11", "fd00::10-fd00::1b"]


def test_json_contains_counts_above_2_to_the_53_as_text(tmp_path: Path) -> None:
    out = run_on_files(
        tmp_path, "map", "lab", "-o", "json", objects=(_make_dual_pool(), _make_dual_holder())
    ).out
    [document] = json.loads(out)["items"]
    four, six = document["families"]
    assert four["addresses"]["free"] == 4
    assert six["addresses"] == {"reserved": 16, "allocated": 12, "free": str(2**64 - 28)}
    assert six["extents"][-1]["size"] == str(2**64 - 28)


def test_the_map_draws_each_family(tmp_path: Path) -> None:
    out = run_on_files(
        tmp_path, "map", "lab", objects=(_make_dual_pool(), _make_dual_holder())
    ).out
    titles = [line for line in out.splitlines() if line.startswith("NetworkPool")]
    assert titles == [
        "NetworkPool butler-system/lab  10.0.0.0/28",
        "NetworkPool butler-system/lab  fd00::/64",
    ]
    assert "fd00::10" in out


@pytest.mark.parametrize(("family", "start"), [("4", "10.0.0.0"), ("6", "fd00::10")])
def test_the_flag_family_selects_what_is_drawn(tmp_path: Path, family: str, start: str) -> None:
    objects = (_make_dual_pool(), _make_dual_holder())
    both = run_on_files(tmp_path, "map", "lab", "--svg", "-", objects=objects)
    assert both.code == 1
    assert "--family" in both.err
    out = run_on_files(
        tmp_path, "map", "lab", "--family", family, "--svg", "-", objects=objects
    ).out
    assert out.startswith("<svg")
    assert start in out
    out = run_on_files(tmp_path, "map", "lab", "--family", family, objects=objects).out
    assert out.count("NetworkPool butler-system/lab") == 1
    [pool] = _read_page(tmp_path, objects, "--family", family)["pools"]
    assert str(pool["family"]) == family


def test_map_of_a_family_that_no_pool_has_says_so(tmp_path: Path) -> None:
    alone = make_pool("lab", "10.0.0.0/28")
    outcome = run_on_files(tmp_path, "map", "lab", "--family", "6", objects=(alone,))
    assert (outcome.code, outcome.out) == (0, "no addresses of IPv6 were found\n")


def test_check_compares_the_status_of_each_family(tmp_path: Path) -> None:
    free = 2**64 - 28
    counts = {
        "totalIPs": free + 12,
        "allocatedIPs": 12,
        "availableIPs": free,
        "largestFreeBlock": free,
    }
    exact_counts = {name: str(count) for name, count in counts.items()}
    largest_int32 = 2**31 - 1
    ipv6 = {name: min(count, largest_int32) for name, count in counts.items()}
    ipv4 = {"totalIPs": 16, "allocatedIPs": 12, "availableIPs": 4, "largestFreeBlock": 4}

    def check_with_ipv6_counts(exact_counts: dict[str, str]) -> list[str]:
        """Return the sentences of `check` about a pool whose status has these IPv6 counts."""
        secondary = ipv6 | {"exactCounts": exact_counts}
        pool = _make_dual_pool(observedGeneration=1, **ipv4, secondary=secondary)
        objects = (pool, _make_dual_holder(), make_saved_cluster())
        out = run_on_files(tmp_path, "check", "-o", "json", objects=objects).out
        return [finding["sentence"] for finding in json.loads(out)["findings"]]

    assert check_with_ipv6_counts(exact_counts) == []
    [drift] = check_with_ipv6_counts(exact_counts | {"allocatedIPs": "13"})
    assert "allocatedIPs is 13, not 12" in drift


def test_plan_gives_a_request_for_both_families_both_or_none(tmp_path: Path) -> None:
    fits, too_large = make_allocation("b", 4), make_allocation("c", 8)
    for request in (fits, too_large):
        request["spec"] |= REQUIRE_BOTH
    out = run_on_files(
        tmp_path,
        "plan",
        "-o",
        "yaml",
        objects=(_make_dual_pool(), _make_dual_holder(), fits, too_large),
    ).out
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
def test_plan_reports_a_pinned_range_of_either_family_that_is_outside_the_pool(
    tmp_path: Path, last: str, code: int
) -> None:
    both = make_allocation("b")
    both["spec"] |= REQUIRE_BOTH | {
        "pinnedRanges": [
            {"startAddress": "10.0.0.12", "endAddress": "10.0.0.13"},
            {"startAddress": "fd00::20", "endAddress": last},
        ]
    }
    outcome = run_on_files(tmp_path, "plan", objects=(_make_dual_pool(), both))
    assert outcome.code == code
    [row] = [line for line in outcome.out.splitlines() if "/lab  b " in line]
    assert "pinned" in row
    assert ("spec.pinnedRanges[1]" in outcome.err) is bool(code)
