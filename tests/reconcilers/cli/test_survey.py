"""What the commands that ask about a cluster say: on saved objects, and on a server."""

import io
import json
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.cli.survey.extents import State, picture
from reconcilers.cli.survey.objects import progress
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import Outcome, allocation, holding, pool, run, thing

FINALIZER = "butler.butlerlabs.dev/ipallocation"
UID = "butler.butlerlabs.dev/tenant-uid"


def labelled(name: str, of: str, tenant: str, kind: str = "loadbalancer") -> dict[str, str]:
    team, _, cluster = tenant.partition("/")
    return {
        "butler.butlerlabs.dev/network-pool": of,
        "butler.butlerlabs.dev/team": team,
        "butler.butlerlabs.dev/tenant": cluster,
        "butler.butlerlabs.dev/allocation-type": kind,
    }


def held(name: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    """Return an allocation that holds a range and lacks nothing."""
    tenant = more.get("tenant", "others/one")
    more.setdefault("labels", labelled(name, "lab", tenant))
    more.setdefault("finalizers", [FINALIZER])
    return allocation(name, 1, status=holding(start, end), uid=f"uid-{name}", **more)


def cluster(name: str = "one", namespace: str = "others", uid: str = "u1") -> dict[str, Any]:
    body = thing(
        "TenantCluster",
        name,
        {"kubernetesVersion": "v1.31.0", "workers": {"replicas": 1}},
        uid=uid,
    )
    body["metadata"]["namespace"] = namespace
    return body


def ask(folder: Path, *arguments: str, objects: tuple[Mapping[str, Any], ...]) -> Outcome:
    saved = folder / "saved.yaml"
    saved.write_text(yaml.safe_dump_all(objects, sort_keys=False))
    return run(*arguments, "-f", saved)


def extents(outcome: Outcome) -> list[tuple[str, str, str]]:
    [one] = json.loads(outcome.out)["items"]
    return [(e["start"], e["end"], e["state"]) for e in one["extents"]]


# --- telling of progress -----------------------------------------------------------------------


class Terminal(io.StringIO):
    """A terminal that says when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = Event()

    @override
    def isatty(self) -> bool:
        return True

    @override
    def write(self, text: str) -> int:
        size = super().write(text)
        self.written.set()
        return size


def test_what_takes_long_says_so_on_a_terminal_and_is_gone_when_it_ends() -> None:
    terminal = Terminal()
    with redirect_stderr(terminal), progress("reading files", every=0.01):
        assert terminal.written.wait(30)
    assert terminal.getvalue().startswith("\rreading files ... 0 s")
    assert terminal.getvalue().endswith("\r\033[K")


def test_nothing_is_told_where_nobody_looks_or_nothing_takes_long() -> None:
    terminal, file = Terminal(), io.StringIO()
    with redirect_stderr(terminal), progress("reading files", every=3600):
        pass
    with redirect_stderr(file), progress("reading files", every=0):
        pass
    assert (terminal.getvalue(), file.getvalue()) == ("", "")


# --- the picture -------------------------------------------------------------------------------


def test_the_map_lists_held_ranges_and_the_gaps_between_in_one_order(tmp_path: Path) -> None:
    outcome = ask(
        tmp_path,
        *("map", "lab", "-o", "json"),
        objects=(
            pool(
                cidr="10.0.0.0/28",
                reserved=["10.0.0.0/31"],
                tenant={"ranges": [{"start": "10.0.0.0", "end": "10.0.0.11"}]},
            ),
            held("a", "10.0.0.4", "10.0.0.5"),
            held("b", "10.0.0.6", "10.0.0.6"),
        ),
    )
    assert extents(outcome) == [
        ("10.0.0.0", "10.0.0.1", "reserved"),
        ("10.0.0.2", "10.0.0.3", "free"),
        ("10.0.0.4", "10.0.0.5", "allocated"),
        ("10.0.0.6", "10.0.0.6", "allocated"),
        ("10.0.0.7", "10.0.0.11", "free"),
        ("10.0.0.12", "10.0.0.15", "outside"),
    ]


def test_overlaps_and_ranges_outside_the_pool_are_on_the_map(tmp_path: Path) -> None:
    outcome = ask(
        tmp_path,
        *("map", "lab", "-o", "json"),
        objects=(
            pool(cidr="10.0.0.0/29"),
            held("a", "10.0.0.0", "10.0.0.3"),
            held("b", "10.0.0.3", "10.0.0.4"),
            held("far", "10.9.0.0", "10.9.0.0"),
        ),
    )
    assert extents(outcome) == [
        ("10.0.0.0", "10.0.0.2", "allocated"),
        ("10.0.0.3", "10.0.0.3", "overlap"),
        ("10.0.0.4", "10.0.0.4", "allocated"),
        ("10.0.0.5", "10.0.0.7", "free"),
        ("10.9.0.0", "10.9.0.0", "stray"),
    ]


spans = st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda s: (s[0], s[0] + s[1] - 1))


def in_last_octet(span: tuple[int, int]) -> tuple[str, str]:
    return f"10.0.0.{span[0]}", f"10.0.0.{span[1]}"


@given(held_spans=st.lists(spans, max_size=6), window=spans, reserved=st.integers(0, 7))
def test_the_map_says_of_every_address_what_a_look_at_all_objects_says(
    held_spans: list[tuple[int, int]], window: tuple[int, int], reserved: int
) -> None:
    network = make.pool(
        cidr="10.0.0.0/26",
        reserved=(f"10.0.0.{reserved * 8}/29",),
        tenant={"ranges": [dict(zip(("start", "end"), in_last_octet(window), strict=True))]},
    )
    allocations: list[IPAllocation] = [
        make.allocation(f"a{at}", phase="Allocated", held=in_last_octet(span))
        for at, span in enumerate(held_spans)
    ]
    found = picture(network, allocations)
    if found.fault:  # a reserved block may straddle the window: such a pool is not drawn
        assert "straddles" in found.fault
        return

    def expected(address: int) -> State:
        holders = sum(first <= address <= last for first, last in held_spans)
        kept = reserved * 8 <= address < reserved * 8 + 8
        inside = window[0] <= address <= window[1]
        if holders:
            if holders > 1:
                return State.OVERLAP
            return State.ALLOCATED if inside and not kept else State.STRAY
        if kept:
            return State.RESERVED
        return State.FREE if inside else State.OUTSIDE

    for address in range(64):
        extent = found.at(f"10.0.0.{address}")
        assert extent is not None
        assert extent.state is expected(address), address
    for before, after in zip(found.extents, found.extents[1:], strict=False):
        assert before.range.last + 1 == after.range.first
        assert (before.state, before.holders) != (after.state, after.holders)


def test_the_map_for_a_terminal_has_a_grid_a_legend_and_every_stretch(tmp_path: Path) -> None:
    objects = (pool(cidr="10.0.0.0/24"), held("a", "10.0.0.64", "10.0.0.71"))
    out = ask(tmp_path, "map", objects=objects).out
    lines = out.splitlines()
    assert lines[0] == "NetworkPool butler-system/lab  10.0.0.0/24"
    assert lines[2] == f"10.0.0.64   {'#' * 8}{'.' * 56}"
    assert "each cell: 1 address" in lines
    assert any(line.split()[:3] == ["#", "8", "held"] for line in lines)
    assert any(line.startswith("10.0.0.72") and "free" in line for line in lines)


def test_a_pool_of_a_million_addresses_fits_the_grid(tmp_path: Path) -> None:
    out = ask(tmp_path, "map", objects=(pool(cidr="10.0.0.0/12"),)).out
    assert "each cell: 512 addresses" in out
    assert len(out.splitlines()) < 50


def test_a_pool_that_contradicts_itself_says_why_it_cannot_be_drawn(tmp_path: Path) -> None:
    broken = pool(cidr="10.0.0.0/24", reserved=["10.1.0.0/24"])
    out = ask(tmp_path, "map", objects=(broken,)).out
    assert "cannot be drawn: reserved CIDR" in out


def test_a_picture_as_svg_is_well_formed_and_names_the_holders(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    objects = (pool(cidr="10.0.0.0/24"), held("a", "10.0.0.0", "10.0.0.7"))
    outcome = ask(tmp_path, "map", "lab", "--svg", "-", objects=objects)
    root = ElementTree.fromstring(outcome.out)
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(t and "butler-system/a for others/one" in t for t in titles)


def test_several_pools_are_too_many_for_one_svg(tmp_path: Path) -> None:
    objects = (pool("east", "10.0.0.0/24"), pool("west", "10.1.0.0/24"))
    outcome = ask(tmp_path, "map", "--svg", "-", objects=objects)
    assert outcome.code == 1
    assert "--svg draws one pool" in outcome.errors[0]


def test_the_page_is_self_contained_and_no_name_can_break_out_of_its_data(tmp_path: Path) -> None:
    evil = pool(cidr="10.0.0.0/29")
    evil["spec"]["reserved"] = [
        {"cidr": "10.0.0.0/31", "description": "</script><script>alert(1)</script>"}
    ]
    page = ask(tmp_path, "map", "--html", "-", objects=(evil,)).out
    assert page.count("</script>") == 1
    assert "alert(1)" in page
    assert "default-src 'none'" in page
    for reference in ("src=", "href=", "@import", "url("):
        assert reference not in page


def test_what_is_held_far_outside_a_pool_does_not_make_a_dot_of_it(tmp_path: Path) -> None:
    objects = (
        pool("lab", "10.0.0.0/24", reserved=["10.0.0.255/32"]),
        held("far", "1.0.0.0", "1.0.0.7"),
        held("across", "10.0.0.255", "10.0.1.7"),
    )
    seen = extents(ask(tmp_path, "map", "-o", "json", objects=objects))
    strays = [(start, end) for start, end, state in seen if state == "stray"]
    assert strays == [
        ("1.0.0.0", "1.0.0.7"),
        ("10.0.0.255", "10.0.0.255"),
        ("10.0.1.0", "10.0.1.7"),
    ]
    drawn = ask(tmp_path, "map", "--svg", "-", objects=objects).out
    assert "1.0.0.0" not in drawn.replace("10.0.0.0", "")
    assert ">10.0.0.248</text>" in drawn
    assert "1.0.0.0" in ask(tmp_path, "map", objects=objects).out, "it is in the list all the same"


def test_the_page_draws_itself_in_a_real_browser(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on this machine; the page is not opened")
    target = tmp_path / "map.html"
    objects = (
        pool("east", "10.0.0.0/24"),
        pool("west", "10.16.0.0/12"),
        pool("broken", "10.0.0.0/24", reserved=["1.0.0.0/24"]),
        held("a", "10.0.0.0", "10.0.0.7", of="east"),
    )
    assert ask(tmp_path, "map", "--html", str(target), objects=objects).code == 0
    seen = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *(f"--user-data-dir={tmp_path / 'profile'}", target.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert 'data-drawn="true"' in seen
    for name in ("butler-system/east", "butler-system/west", "butler-system/broken"):
        assert f'data-pool="{name}"' in seen
    assert "cannot be drawn" in seen
    assert 'name="allocated"' in seen


# --- figures -----------------------------------------------------------------------------------


def test_pools_are_shown_with_bars_and_figures_from_the_allocations(tmp_path: Path) -> None:
    objects = (
        pool(cidr="10.0.0.0/28"),
        held("a", "10.0.0.0", "10.0.0.11"),
        allocation("waits", 9),
    )
    lines = ask(tmp_path, "pools", objects=objects).out.splitlines()
    assert lines[1].split()[:3] == ["butler-system", "lab", "10.0.0.0/28"]
    assert "[###############-----]  75%" in lines[1]
    [one] = json.loads(ask(tmp_path, "pools", "-o", "json", objects=objects).out)["items"]
    figures = {"total": 16, "allocated": 12, "available": 4, "largestFreeBlock": 4, "waiting": 1}
    assert one.items() >= figures.items()


def test_pools_by_name_can_be_given_to_kubectl(tmp_path: Path) -> None:
    out = ask(tmp_path, "pools", "-o", "name", objects=(pool(), pool("other", "10.9.0.0/24"))).out
    assert out.splitlines() == [
        "networkpool.butler.butlerlabs.dev/lab",
        "networkpool.butler.butlerlabs.dev/other",
    ]


def test_whois_names_the_allocation_and_the_tenant_of_an_address(tmp_path: Path) -> None:
    objects = (pool(), held("a", "10.40.0.8", "10.40.0.15", tenant="team/shop"))
    row = ask(tmp_path, "whois", "10.40.0.9", objects=objects).out.splitlines()[1].split()
    assert row[:5] == [
        "10.40.0.9", "butler-system/lab", "allocated", "butler-system/a", "team/shop"
    ]  # fmt: skip


def test_whois_answers_for_every_site_that_uses_the_address(tmp_path: Path) -> None:
    objects = (pool("east", "10.0.0.0/24"), pool("west", "10.0.0.0/24"))
    found = json.loads(ask(tmp_path, "whois", "10.0.0.1", "-o", "json", objects=objects).out)
    assert [one["pool"] for one in found["items"]] == ["butler-system/east", "butler-system/west"]


def test_whois_of_an_unknown_address_is_a_problem_and_of_nonsense_a_wrong_call(
    tmp_path: Path,
) -> None:
    unknown = ask(tmp_path, "whois", "192.0.2.1", objects=(pool(),))
    assert (unknown.code, len(unknown.errors)) == (1, 1)
    assert "192.0.2.1" in unknown.errors[0]
    nonsense = ask(tmp_path, "whois", "10.0.0", objects=(pool(),))
    assert nonsense.code == 2
    assert "10.0.0" in nonsense.errors[0]


def test_tenants_are_shown_with_all_that_they_hold(tmp_path: Path) -> None:
    objects = (
        pool(),
        cluster("shop", "team", "u7"),
        held(
            "team-shop-lb", "10.40.0.0", "10.40.0.7", tenant="team/shop", annotations={UID: "u7"}
        ),
        held("team-shop-lb-1", "10.40.0.8", "10.40.0.9", tenant="team/shop"),
        held("theirs", "10.40.0.16", "10.40.0.17", tenant="team/shop", annotations={UID: "old"}),
    )
    [one] = json.loads(ask(tmp_path, "tenants", "-o", "json", objects=objects).out)["items"]
    assert [(a["name"], a["role"], a["size"]) for a in one["allocations"]] == [
        ("butler-system/team-shop-lb", "initial", 8),
        ("butler-system/team-shop-lb-1", "growth", 2),
    ]
    row = ask(tmp_path, "tenants", objects=objects).out.splitlines()[1].split()
    assert row[:2] + row[3:6] == ["team", "shop", "0", "10", "1"]


# --- check -------------------------------------------------------------------------------------


def findings(outcome: Outcome) -> dict[str, dict[str, Any]]:
    report = json.loads(outcome.out)
    assert report["kind"] == "CheckReport"
    return {f"{f['kind']} {f['subject']['name']}": f for f in report["findings"]}


def test_a_sound_cluster_passes_the_check(tmp_path: Path) -> None:
    objects = (pool(), cluster(), held("a", "10.40.0.0", "10.40.0.7", annotations={UID: "u1"}))
    outcome = ask(tmp_path, "check", objects=objects)
    assert (outcome.code, outcome.out) == (0, "nothing is wrong\n")


def test_overlaps_orphans_and_ranges_outside_are_errors(tmp_path: Path) -> None:
    objects = (
        pool(cidr="10.40.0.0/24", reserved=["10.40.0.0/29"]),
        cluster(),
        held("first", "10.40.0.16", "10.40.0.23", creationTimestamp="2026-01-01T00:00:00Z"),
        held("second", "10.40.0.20", "10.40.0.27", creationTimestamp="2026-02-01T00:00:00Z"),
        held("stray", "10.40.0.0", "10.40.0.1"),
        held("left", "10.40.0.32", "10.40.0.33", tenant="gone/team", annotations={UID: "x"}),
        held("other", "10.40.0.40", "10.40.0.41", annotations={UID: "earlier"}),
        allocation("lost", 1, of="nowhere", labels=labelled("lost", "nowhere", "others/one")),
    )
    outcome = ask(tmp_path, "check", "-o", "json", objects=objects)
    assert outcome.code == 1
    found = findings(outcome)
    assert {name for name, one in found.items() if one["severity"] == "error"} == {
        "Overlap second",
        "OutOfRange stray",
        "Orphan left",
        "Orphan other",
        "UnknownPool lost",
    }
    assert found["Overlap second"]["action"] == "none"
    assert found["Overlap second"]["choices"] == ["none", "delete"]
    assert "10.40.0.20" in found["Overlap second"]["sentence"]
    assert found["Orphan left"]["action"] == "delete"


def test_an_allocation_made_before_its_cluster_is_no_orphan(tmp_path: Path) -> None:
    objects = (pool(), cluster("elsewhere"), held("a", "10.40.0.0", "10.40.0.7"))
    assert ask(tmp_path, "check", objects=objects).code == 0


def test_drift_is_a_warning_and_counts_only_if_it_is_asked_to(tmp_path: Path) -> None:
    drifted = pool(status={"observedGeneration": 1, "totalIPs": 256, "availableIPs": 5})
    loose = held("a", "10.40.0.0", "10.40.0.7", labels={}, finalizers=[])
    objects = (drifted, loose)
    found = findings(ask(tmp_path, "check", "-o", "json", objects=objects))
    assert set(found) == {"StatusDrift lab", "LabelDrift a", "NoFinalizer a"}
    assert "availableIPs is 5, not 248" in found["StatusDrift lab"]["sentence"]
    assert ask(tmp_path, "check", objects=objects).code == 0
    assert ask(tmp_path, "check", "--strict", objects=objects).code == 1


def test_pools_that_share_addresses_are_told_of(tmp_path: Path) -> None:
    objects = (pool("a", "10.0.0.0/16"), pool("b", "10.0.4.0/24"), pool("c", "10.1.0.0/24"))
    assert set(findings(ask(tmp_path, "check", "-o", "json", objects=objects))) == {
        "PoolsOverlap b"
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "neither JSON nor YAML"),
        ("kind: List", "is no report"),
        (
            (
                "apiVersion: report.butler-ipam/v1\nkind: CheckReport\nfindings:\n"
                "- {kind: Orphan, severity: error, sentence: x, action: explode,\n"
                "   subject: {kind: IPAllocation, namespace: a, name: b}}\n"
            ),
            "findings.0.action",
        ),
    ],
)
def test_a_file_that_is_no_report_is_refused_with_its_place(
    tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "report").write_text(text)
    outcome = run("check", "--repair", tmp_path / "report")
    assert outcome.code == 1
    assert says in outcome.errors[0]


@pytest.mark.parametrize("command", [("pools",), ("check",), ("check", "--tenants")], ids=str)
def test_a_cluster_that_is_not_there_is_told_of_in_words(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"https://{address}"}}],
            "users": [{"name": "u", "user": {"token": "x"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        outcome = run(*command, "--kubeconfig", tmp_path / "kubeconfig")
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert address in outcome.err
    assert "object at 0x" not in outcome.err
