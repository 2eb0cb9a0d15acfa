"""Every table fits terminals of 30 columns and more, and still shows the key facts."""

from dataclasses import replace
from pathlib import Path

import pytest
from click import unstyle

from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.cli.release import Preview
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import make_allocation, make_pool, make_provider
from tests.reconcilers.cli.saved import make_holder, run_on_files
from tests.reconcilers.cli.saved import make_saved_cluster as tenant
from tests.reconcilers.cli.test_claims import make_address, make_claim, make_ip_pool
from tests.reconcilers.cli.test_platforms import RANGE, make_ipam_pool, make_network
from tests.reconcilers.cli.test_terminal import OBJECTS, SHOP

WIDTHS = (30, 40, 60, 80, 120)
OBJECTS_OF_ALL_KINDS = (
    *OBJECTS,
    make_provider("prov", "frankfurt-1"),
    tenant("web", "team", "u9"),
    make_holder("twice", "10.40.0.32", "10.40.0.95", pool="frankfurt-1", tenant=SHOP),
    make_allocation("waits", 4, pool="frankfurt-1", tenant="team/web"),
    make_ip_pool("machines", "10.0.0.10-10.0.0.19"),
    make_address("node-1", "machines", "10.0.0.10"),
    make_claim("node-1", "machines"),
)
# Arguments of each command, and the facts that it must show without spaces and line breaks.
COMMANDS = {
    "pools": (("pools",), ("frankfurt-1", "10.40.0.0/20", "2%", "READY", "machines", "FREE")),
    "tenants": (("tenants",), ("shop-frontend-production", "web", "WAITING", "READY", "LB")),
    "whois": (
        ("whois", "10.40.0.9", "fd00:10::1", "10.0.0.10"),
        ("10.40.0.9", "frankfurt-1", "team-shop-lb", SHOP, "fd00:10::1", "b/node-1"),
    ),
    "map": (
        ("map", "frankfurt-1"),
        ("frankfurt-110.40.0.0/20", "eachcell:", "heldbyseveral", "team-shop-lb", "10.40.0.95"),
    ),
    "map of IPv6": (("map", "frankfurt-6"), ("fd00:10::/48", "eachcell:", "team-shop-six")),
    "status": (("status",), ("AREA", "addresses", "tenants", "pools", "error")),
    "check": (("check",), ("Overlap", "10.40.0.32", "error", "twice")),
    "plan": (
        ("plan", "--fit", "5+8"),
        ("frankfurt-6", "10.40.0.0/20", "FITS5+8", "307->306", "team-shop-lb", "b/node-1"),
    ),
    "explain": (
        ("explain", "tenantcluster/team/shop-frontend-production"),
        (SHOP, "team-shop-lb"),
    ),
}


def print_at_width(
    width: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> list[str]:
    """Return the lines that a command prints on a terminal of a width; None for a pipe."""
    monkeypatch.setattr("reconcilers.cli.output.find_terminal_width", lambda: width)
    return run_on_files(folder, *arguments, objects=OBJECTS_OF_ALL_KINDS).out.splitlines()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_longer_than_the_terminal_and_no_key_fact_is_lost(
    name: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, facts = COMMANDS[name]
    lines = print_at_width(width, tmp_path, monkeypatch, *arguments)
    assert [line for line in lines if len(line) > width] == []
    joined = "".join("".join(line.split()) for line in lines)
    assert [fact for fact in facts if fact not in joined] == []


def test_a_row_that_does_not_fit_is_a_block_with_a_line_for_each_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = print_at_width(36, tmp_path, monkeypatch, "whois", "10.40.0.9")
    assert lines[:5] == [
        "IP      10.40.0.9",
        "POOL    frankfurt-1",
        "STATE   allocated",
        "HOLDER  team-shop-lb",
        "TENANT",
    ]
    assert lines[5] == f"  {SHOP}"


def test_pools_of_all_kinds_are_one_table_on_eighty_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconcilers.cli.output.find_terminal_width", lambda: 80)
    platforms = (
        make_pool("site", "10.9.0.0/28"),
        make_ip_pool("machines", "10.0.0.10-10.0.0.13", "10.0.0.20-10.0.0.23", "10.0.0.30"),
        make_ipam_pool("metallb", east=RANGE),
        make_network(),
    )
    head, *rows = run_on_files(tmp_path, "pools", objects=platforms).out.splitlines()
    assert {"NAME", "OFFERS", "USED", "FREE", "READY"} <= {*head.split()}
    assert len(rows) == 4
    assert max(map(len, [head, *rows])) <= 80


def test_a_long_last_column_is_wrapped_below_its_heading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = print_at_width(120, tmp_path, monkeypatch, "check")
    column = lines[0].index("WHAT")
    further = [line for line in lines[1:] if not line[:column].strip()]
    assert further
    assert all(line[column] != " " for line in further)


def test_check_prints_one_line_for_each_finding_to_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = print_at_width(None, tmp_path, monkeypatch, "check")
    assert all(line.startswith(("SEVERITY", "error", "warning")) for line in lines)


def test_the_preview_of_a_release_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make.tenant(name="shop-frontend-production")
    allocation = make.allocation(
        "lb", held_range=("10.40.0.0", "10.40.0.7"), tenant=str(cluster.metadata.key)
    )
    objects = Objects(
        {},
        {allocation.metadata.key: allocation},
        clusters={cluster.metadata.key: cluster},
        providers={},
    )
    unreadable = {("IPAllocation", Key("b", "odd")): "spec.count: 'many' is no number"}
    broken = replace(objects, unreadable=unreadable)
    for width in WIDTHS:
        monkeypatch.setattr(
            "reconcilers.cli.output.find_terminal_width", lambda width=width: width
        )
        for read in (objects, broken):
            preview = Preview.from_objects(cluster, read).as_text()
            assert [line for line in preview.splitlines() if len(unstyle(line)) > width] == []
