"""Output on terminals: tables that fit, cells of the map, colours, and watches."""

import json
import os
import signal
from pathlib import Path

import anyio
import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.api.crd import build_crds
from reconcilers.cli.cluster.drawing import draw_family
from reconcilers.cli.interrupts import run_until_interrupted
from reconcilers.cli.local.servers import run_api_server
from reconcilers.networkpool.picture import make_picture
from tests.controller.test_execplugin import is_running, write_waiting_plugin
from tests.polling import SECONDS, make_awaitable, until
from tests.reconcilers import make
from tests.reconcilers.cli import commandline
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.cli.commands import start
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster, run_on_files
from tests.reconcilers.cli.test_run import write_kubeconfig
from tests.reconcilers.cli.test_ui import POOLS, create_object, create_pool

SHOP = "team/shop-frontend-production"
OBJECTS = (
    make_pool("frankfurt-1", "10.40.0.0/20"),
    make_pool("frankfurt-2", "10.41.0.0/16"),
    make_pool("frankfurt-6", "fd00:10::/48"),
    make_holder(
        "team-shop-six",
        "fd00:10::",
        "fd00:10::ffff:ffff:ffff:ffff",
        pool="frankfurt-6",
        tenant=SHOP,
    ),
    make_saved_cluster("shop-frontend-production", "team", "u7"),
    make_holder("team-shop-lb", "10.40.0.0", "10.40.0.63", pool="frankfurt-1", tenant=SHOP),
)
COMMANDS = {
    "pools": ("pools",),
    "tenants": ("tenants",),
    "whois": ("whois", "10.40.0.9", "10.41.3.4", "fd00:10::1"),
}


def print_at_width(
    folder: Path, monkeypatch: pytest.MonkeyPatch, width: int | None, *arguments: str
) -> list[str]:
    """Return the lines that a command prints on a terminal of a width; None for a pipe."""
    monkeypatch.setattr("reconcilers.cli.output.find_terminal_width", lambda: width)
    return run_on_files(folder, *arguments, objects=OBJECTS).out.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_fits_eighty_columns_and_shows_more_columns_on_a_wider_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    heads = {}
    for width in (80, 120, 250):
        lines = print_at_width(tmp_path, monkeypatch, width, *COMMANDS[command])
        assert max(map(len, lines)) <= width
        heads[width] = lines[0].split()
    assert len(heads[80]) < len(heads[250])
    assert {"USED", "READY", "FREE"} <= {*heads[80]} or command != "pools"


@pytest.mark.parametrize("command", COMMANDS)
def test_pipes_and_output_wide_get_all_columns_whatever_the_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    piped = print_at_width(tmp_path, monkeypatch, None, *COMMANDS[command])
    assert "NAMESPACE" in piped[0] or command == "whois"
    wide = print_at_width(tmp_path, monkeypatch, 80, *COMMANDS[command], "-o", "wide")
    assert max(map(len, wide)) > 80, "-o wide prints all columns"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_map_fits_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    lines = print_at_width(tmp_path, monkeypatch, width, "map", "frankfurt-1")
    assert max(map(len, lines)) <= width
    cells = {60: 32, 80: 64, 100: 64}[width]
    assert lines[1].split() == ["10.40.0.0", "#" * (cells // 2) + "." * (cells // 2)]
    assert any(line.startswith("10.40.0.0 ") and "team-shop-lb" in line for line in lines[2:])


@given(spans=st.lists(st.tuples(st.integers(0, 4095), st.integers(1, 700)), max_size=8))
def test_a_cell_is_drawn_as_held_only_if_all_its_addresses_are_held(
    spans: list[tuple[int, int]],
) -> None:
    held_offsets: set[int] = set()
    allocations = []
    for number, (first, size) in enumerate(spans):
        last = min(first + size - 1, 4095)
        if held_offsets.isdisjoint(range(first, last + 1)):
            held_offsets |= set(range(first, last + 1))
            ends = (make.address(first), make.address(last))
            allocations.append(make.allocation(f"a{number}", phase="Allocated", held_range=ends))
    pool = make_picture(make.pool(cidr=make.cidr(12)), allocations)
    drawing = click.unstyle(draw_family(pool, pool.families[0]))
    grid, _, rest = drawing.partition("each cell: 2 addresses\n")
    cells = "".join(line.split()[1] for line in grid.splitlines()[1:])
    counts = [
        sum(offset in held_offsets for offset in (cell, cell + 1)) for cell in range(0, 4096, 2)
    ]
    assert cells == "".join(".o#"[count] for count in counts)
    assert ("a cell of which some addresses are held" in rest) == (1 in counts)


def test_whois_of_a_cidr_or_a_range_shows_each_part_of_it(tmp_path: Path) -> None:
    for query in ("10.40.0.48/28", "10.40.0.48-10.40.0.63", "10.40.0.48 - 10.40.0.63"):
        rows = run_on_files(tmp_path, "whois", query, objects=OBJECTS).out.splitlines()[1:]
        assert [row.split()[:5] for row in rows] == [
            [
                "10.40.0.48/28",
                "NetworkPool",
                "butler-system/frankfurt-1",
                "allocated",
                "butler-system/team-shop-lb",
            ]
        ]
    printed = run_on_files(
        tmp_path, "whois", "10.40.0.62-10.40.0.65", "-o", "json", objects=OBJECTS
    ).out
    document = json.loads(printed)["items"]
    assert [(row["address"], row["state"]) for row in document] == [
        ("10.40.0.62/31", "allocated"),
        ("10.40.0.64/31", "free"),
    ]


def test_whois_of_an_unknown_range_exits_with_1_and_of_an_invalid_one_with_2(
    tmp_path: Path,
) -> None:
    unknown = run_on_files(tmp_path, "whois", "192.0.2.0/28", objects=OBJECTS)
    assert unknown.code == 1
    assert "192.0.2.0/28" in unknown.errors[0]
    backwards = run_on_files(tmp_path, "whois", "10.0.0.9-10.0.0.1", objects=OBJECTS)
    assert backwards.code == 2


@pytest.mark.parametrize(
    ("force_color", "no_color", "is_coloured"),
    [("1", "", True), ("", "", False), ("0", "", False), ("1", "1", False)],
)
def test_force_color_colours_the_output_to_a_pipe_unless_no_color_is_set(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    force_color: str,
    no_color: str,
    is_coloured: bool,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", force_color)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\033[" in run_on_files(tmp_path, "pools", objects=OBJECTS).out) is is_coloured


async def test_a_watch_prints_the_table_or_the_map_again_when_a_pool_is_created(
    tmp_path: Path,
) -> None:
    async with run_api_server("management", build_crds()) as server:
        await create_pool(server)
        config = write_kubeconfig(server, tmp_path)
        async with (
            start("pools", "-w", config) as pools,
            start("map", "other", "-w", config) as named_pool,
        ):
            await pools.wait_for_output(r"lab +10\.0\.0\.0/24")
            await named_pool.wait_for_output("there is no pool 'other'")
            meta = {"name": "other", "namespace": "butler-system"}
            body = commandline.make_pool("other", "10.9.0.0/26")
            await create_object(server, POOLS, body | {"metadata": meta, "status": {}})
            await pools.wait_for_output(r"other +10\.9\.0\.0/26")
            await named_pool.wait_for_output(r"each cell: 1 address")
            assert await pools.stop(signal.SIGINT) == 130


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("pools", "-w", "-f", "saved.yaml"), "follows a cluster"),
        (("pools", "-w", "-o", "json"), "prints tables"),
        (("map", "-w", "--html", "-"), "butler-ipam ui"),
    ],
)
def test_watch_with_unsupported_flags_is_rejected(
    arguments: tuple[str, ...], complaint: str
) -> None:
    done = commandline.run(*arguments)
    assert done.code == 2
    assert complaint in done.err


@pytest.mark.parametrize("command", [["pools"], ["pools", "-w"], ["check", "--tenants"], ["run"]])
async def test_ctrl_c_while_an_exec_plugin_waits_ends_quietly_and_leaves_no_process(
    tmp_path: Path, command: list[str]
) -> None:
    file, pid_file = write_waiting_plugin(tmp_path)
    async with start(*command, "--kubeconfig", str(file)) as program:
        await until(make_awaitable(pid_file.exists), bool)
        os.killpg(program.process.pid, signal.SIGINT)  # as a terminal does
        with anyio.fail_after(SECONDS):
            assert await program.process.wait() == 130
    assert not is_running(int(pid_file.read_text()))
    assert (program.stdout, program.stderr.strip()) == ("", "")


def test_run_until_interrupted_raises_both_errors_of_an_exception_group() -> None:
    async def fail() -> None:
        raise ExceptionGroup("servers", [ValueError("no port"), LookupError("no folder")])

    with pytest.raises(ExceptionGroup) as caught:
        run_until_interrupted(fail)
    assert caught.value.__cause__ is None
    assert caught.group_contains(ValueError, match="no port")
    assert caught.group_contains(LookupError, match="no folder")
