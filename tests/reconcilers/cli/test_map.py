"""The map of a pool: its list of ranges, and its pictures in the terminal, as SVG and as page."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.picture import make_picture
from reconcilers.pictures.extents import AddressState
from tests.browser import browser
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import Outcome, make_pool
from tests.reconcilers.cli.saved import make_holder, run_on_files


def list_extents(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Return start, end and state of each range of the one pool in the JSON of `map`."""
    [pool] = json.loads(outcome.out)["items"]
    [family] = pool["families"]
    return [(e["start"], e["end"], e["state"]) for e in family["extents"]]


def test_excluded_network_and_broadcast_addresses_are_shown_with_their_reason(
    tmp_path: Path,
) -> None:
    network_pool = make_pool(cidr="10.0.0.0/29", exclude_edges=True)
    outcome = run_on_files(tmp_path, *("map", "lab", "-o", "json"), objects=(network_pool,))
    [pool_shown] = json.loads(outcome.out)["items"]
    [family] = pool_shown["families"]
    assert [(e["start"], e["end"], e["state"], e.get("note", "")) for e in family["extents"]] == [
        ("10.0.0.0", "10.0.0.0", "reserved", "network address"),
        ("10.0.0.1", "10.0.0.6", "free", ""),
        ("10.0.0.7", "10.0.0.7", "reserved", "broadcast address"),
    ]


def test_the_gateway_of_a_pool_is_shown_as_reserved(tmp_path: Path) -> None:
    network_pool = make_pool(cidr="10.0.0.0/29", reserved=["10.0.0.6/31"])
    network_pool["spec"]["gateway"] = "10.0.0.1"
    outcome = run_on_files(tmp_path, *("map", "lab", "-o", "json"), objects=(network_pool,))
    assert list_extents(outcome) == [
        ("10.0.0.0", "10.0.0.0", "free"),
        ("10.0.0.1", "10.0.0.1", "reserved"),
        ("10.0.0.2", "10.0.0.5", "free"),
        ("10.0.0.6", "10.0.0.7", "reserved"),
    ]


def test_the_map_lists_held_ranges_and_the_gaps_between_in_one_order(tmp_path: Path) -> None:
    outcome = run_on_files(
        tmp_path,
        *("map", "lab", "-o", "json"),
        objects=(
            make_pool(
                cidr="10.0.0.0/28",
                reserved=["10.0.0.0/31"],
                tenant_allocation={"ranges": [{"start": "10.0.0.0", "end": "10.0.0.11"}]},
            ),
            make_holder("a", "10.0.0.4", "10.0.0.5"),
            make_holder("b", "10.0.0.6", "10.0.0.6"),
        ),
    )
    assert list_extents(outcome) == [
        ("10.0.0.0", "10.0.0.1", "reserved"),
        ("10.0.0.2", "10.0.0.3", "free"),
        ("10.0.0.4", "10.0.0.5", "allocated"),
        ("10.0.0.6", "10.0.0.6", "allocated"),
        ("10.0.0.7", "10.0.0.11", "free"),
        ("10.0.0.12", "10.0.0.15", "outside"),
    ]


def test_overlaps_and_ranges_outside_the_pool_are_on_the_map(tmp_path: Path) -> None:
    outcome = run_on_files(
        tmp_path,
        *("map", "lab", "-o", "json"),
        objects=(
            make_pool(cidr="10.0.0.0/29"),
            make_holder("a", "10.0.0.0", "10.0.0.3"),
            make_holder("b", "10.0.0.3", "10.0.0.4"),
            make_holder("far", "10.9.0.0", "10.9.0.0"),
        ),
    )
    assert list_extents(outcome) == [
        ("10.0.0.0", "10.0.0.2", "allocated"),
        ("10.0.0.3", "10.0.0.3", "overlap"),
        ("10.0.0.4", "10.0.0.4", "allocated"),
        ("10.0.0.5", "10.0.0.7", "free"),
        ("10.9.0.0", "10.9.0.0", "stray"),
    ]


SPANS = st.tuples(st.integers(0, 40), st.integers(1, 12)).map(
    lambda start_and_size: (start_and_size[0], sum(start_and_size) - 1)
)
"""Offsets of the first and the last address of a range from the first address of a pool."""


def make_ends(span: tuple[int, int], family: int) -> tuple[str, str]:
    """Return the first and the last address of a range, whose offsets are `span`."""
    return make.address(span[0], family), make.address(span[1], family)


@given(
    held_spans=st.lists(SPANS, max_size=6),
    window=SPANS,
    reserved=st.integers(0, 7),
    family=st.sampled_from([4, 6]),
)
def test_the_map_gives_every_address_the_state_that_follows_from_all_objects(
    held_spans: list[tuple[int, int]], window: tuple[int, int], reserved: int, family: int
) -> None:
    network = make.pool(
        cidr=make.cidr(6, family),
        reserved=(f"{make.address(reserved * 8, family)}/{make.prefix_length(3, family)}",),
        tenant={"ranges": [dict(zip(("start", "end"), make_ends(window, family), strict=True))]},
    )
    allocations: list[IPAllocation] = [
        make.allocation(f"a{at}", phase="Allocated", held_range=make_ends(span, family))
        for at, span in enumerate(held_spans)
    ]
    [picture] = make_picture(network, allocations).families
    if picture.fault:  # a reserved block may straddle the window: such a pool is not drawn
        assert "straddles" in picture.fault
        return

    def expect_state(address: int) -> AddressState:
        """Return the state that the address at an offset must have."""
        holders = sum(first <= address <= last for first, last in held_spans)
        is_reserved = reserved * 8 <= address < reserved * 8 + 8
        is_inside = window[0] <= address <= window[1]
        if holders:
            if holders > 1:
                return AddressState.OVERLAP
            return AddressState.ALLOCATED if is_inside and not is_reserved else AddressState.STRAY
        if is_reserved:
            return AddressState.RESERVED
        return AddressState.FREE if is_inside else AddressState.OUTSIDE

    for address in range(64):
        extent = picture.find_extent(make.address(address, family))
        assert extent is not None
        assert extent.state is expect_state(address), address
    for before, after in zip(picture.extents, picture.extents[1:], strict=False):
        assert before.range.last + 1 == after.range.first
        assert (before.state, before.holders) != (after.state, after.holders)


def test_the_map_for_a_terminal_has_a_grid_a_legend_and_every_range(tmp_path: Path) -> None:
    objects = (make_pool(cidr="10.0.0.0/24"), make_holder("a", "10.0.0.64", "10.0.0.71"))
    out = run_on_files(tmp_path, "map", objects=objects).out
    lines = out.splitlines()
    assert lines[0] == "NetworkPool butler-system/lab  10.0.0.0/24"
    assert lines[2] == f"10.0.0.64   {'#' * 8}{'.' * 56}"
    assert "each cell: 1 address" in lines
    assert any(line.split()[:3] == ["#", "8", "held"] for line in lines)
    assert any(line.startswith("10.0.0.72") and "free" in line for line in lines)


def test_a_pool_of_ipv6_is_drawn_by_its_ranges_whatever_its_size(tmp_path: Path) -> None:
    objects = (
        make_pool(cidr="FD00::/64"),
        make_holder("a", "fd00::ffff:0:0:0", "fd00::ffff:0:0:7"),
    )
    out = run_on_files(tmp_path, "map", objects=objects).out
    assert f"each cell: {2**64 // 2048:,} addresses" in out
    listed = [line.split()[:4] for line in out.partition("START")[2].splitlines()[1:]]
    before, after = 0xFFFF << 48, (1 << 48) - 8
    assert listed == [
        ["fd00::", "fd00::fffe:ffff:ffff:ffff", f"{before:,}", "free"],
        ["fd00::ffff:0:0:0", "fd00::ffff:0:0:7", "8", "allocated"],
        ["fd00::ffff:0:0:8", "fd00::ffff:ffff:ffff:ffff", f"{after:,}", "free"],
    ]


def test_a_pool_of_a_million_addresses_fits_the_grid(tmp_path: Path) -> None:
    out = run_on_files(tmp_path, "map", objects=(make_pool(cidr="10.0.0.0/12"),)).out
    assert "each cell: 512 addresses" in out
    assert len(out.splitlines()) < 50


def test_the_map_of_an_invalid_pool_says_why_it_cannot_be_drawn(tmp_path: Path) -> None:
    broken = make_pool(cidr="10.0.0.0/24", reserved=["10.1.0.0/24"])
    out = run_on_files(tmp_path, "map", objects=(broken,)).out
    assert "cannot be drawn: reserved CIDR" in out


def test_a_picture_as_svg_is_well_formed_and_names_the_holders(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    objects = (make_pool(cidr="10.0.0.0/24"), make_holder("a", "10.0.0.0", "10.0.0.7"))
    outcome = run_on_files(tmp_path, "map", "lab", "--svg", "-", objects=objects)
    root = ElementTree.fromstring(outcome.out)
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(t and "butler-system/a for others/one" in t for t in titles)


def test_svg_of_several_pools_is_rejected(tmp_path: Path) -> None:
    objects = (make_pool("east", "10.0.0.0/24"), make_pool("west", "10.1.0.0/24"))
    outcome = run_on_files(tmp_path, "map", "--svg", "-", objects=objects)
    assert outcome.code == 1
    assert "--svg draws one pool" in outcome.errors[0]


def test_the_page_is_self_contained_and_no_name_can_break_out_of_its_data(tmp_path: Path) -> None:
    evil = make_pool(cidr="10.0.0.0/29")
    evil["spec"]["reserved"] = [
        {"cidr": "10.0.0.0/31", "description": "</script><script>alert(1)</script>"}
    ]
    page = run_on_files(tmp_path, "map", "--html", "-", objects=(evil,)).out
    assert page.count("</script>") == 2, "the end of the data, and of the script"
    assert "alert(1)" in page
    assert "default-src 'none'" in page
    assert "unsafe" not in page.partition("</head>")[0]
    for reference in (" src=", " href=", "@import", "://", "//cdn"):
        assert reference not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_range_far_outside_a_pool_is_listed_but_not_drawn_to_scale(tmp_path: Path) -> None:
    objects = (
        make_pool("lab", "10.0.0.0/24", reserved=["10.0.0.255/32"]),
        make_holder("far", "1.0.0.0", "1.0.0.7"),
        make_holder("across", "10.0.0.255", "10.0.1.7"),
    )
    seen = list_extents(run_on_files(tmp_path, "map", "-o", "json", objects=objects))
    strays = [(start, end) for start, end, state in seen if state == "stray"]
    assert strays == [
        ("1.0.0.0", "1.0.0.7"),
        ("10.0.0.255", "10.0.0.255"),
        ("10.0.1.0", "10.0.1.7"),
    ]
    drawn = run_on_files(tmp_path, "map", "--svg", "-", objects=objects).out
    assert "1.0.0.0" not in drawn.replace("10.0.0.0", "")
    assert ">10.0.0.240</text>" in drawn
    assert "1.0.0.0" in run_on_files(tmp_path, "map", objects=objects).out, "it is in the list"


async def test_a_real_browser_draws_the_page_with_all_its_pools(tmp_path: Path) -> None:
    target = tmp_path / "map.html"
    objects = (
        make_pool("east", "10.0.0.0/24"),
        make_pool("west", "10.16.0.0/12"),
        make_pool("broken", "10.0.0.0/24", reserved=["1.0.0.0/24"]),
        make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"),
    )
    assert run_on_files(tmp_path, "map", "--html", str(target), objects=objects).code == 0
    async with browser(tmp_path) as page:
        await page.call("Page.navigate", url=target.as_uri())
        await page.until("""document.querySelector('[data-drawn="true"]')""")
        seen = await page.value("document.documentElement.outerHTML")
    for name in ("butler-system/east", "butler-system/west", "butler-system/broken"):
        assert f'data-pool="{name}"' in seen
    assert "cannot be drawn" in seen
    assert 'name="allocated"' in seen
