"""The arithmetic of the benchmark on the real servers: what it counts is what happened."""

import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.crd import build_crds
from tests.bench import bench_real, tables
from tests.bench.bare import Bare, ServingDriver, measure_bare
from tests.bench.comparison import CHURN, FILLING, ControllerCosts, Phase, Start, measure
from tests.bench.driver import ALLOCATIONS, FINALIZER, GROUP, Driver, name_allocation
from tests.bench.overlaps import Overlaps
from tests.bench.places import REAL, connect_client, start_embedded, start_real
from tests.bench.processes import read_cpu_seconds
from tests.bench.writes import Write, count_accepted, count_writes

FEW = 20


def make_metric_line(value: int, **labels: str) -> str:
    """Return a line of /metrics; labels that are not given are those of a plain request."""
    defaults = {"code": "200", "dry_run": "", "group": "G", "resource": "as", "subresource": ""}
    labels_text = ",".join(f'{name}="{label}"' for name, label in (defaults | labels).items())
    return f"apiserver_request_total{{{labels_text}}} {value}"


def find_real_assets() -> Path:
    """Return the folder of the real programs; skip where the suite does not run on them."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        pytest.skip("only a real kube-apiserver counts its writes: set KUBEBUILDER_ASSETS")
    return Path(assets)


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    async with ControlPlane.start() as started:
        await started.install_crds(build_crds())
        yield started


@pytest.fixture
async def session(plane: Plane) -> AsyncIterator[ClientSession]:
    async with connect_client(plane) as opened:
        yield opened


class ManualController:
    """Sends the writes of a controller, one by one, as a test says."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def write_range(self, number: int, start: str, end: str) -> None:
        """Write a range to an allocation."""
        body = await self._read(number)
        body["status"] = {"phase": "Allocated", "startAddress": start, "endAddress": end}
        await self.driver.ask("PUT", f"{ALLOCATIONS}/{name_allocation(number)}/status", body)

    async def remove_finalizer(self, number: int) -> None:
        """Remove the finalizer of a deleted allocation."""
        body = await self._read(number)
        assert body["metadata"].pop("finalizers") == [FINALIZER]
        await self.driver.ask("PUT", f"{ALLOCATIONS}/{name_allocation(number)}", body)

    async def _read(self, number: int) -> dict[str, Any]:
        answer = await self.driver.ask("GET", f"{ALLOCATIONS}/{name_allocation(number)}")
        return msgspec.json.decode(answer, type=dict[str, Any])


async def play_controller_by_hand(driver: Driver) -> None:
    """Play a controller: two pairs of allocations overlap for a time, one until the end."""
    controller = ManualController(driver)
    await driver.prepare("10.0.0.0/24")
    await driver.change((), range(4))
    await controller.write_range(0, "10.0.0.0", "10.0.0.7")
    await controller.write_range(1, "10.0.0.8", "10.0.0.9")
    await controller.write_range(2, "10.0.0.7", "10.0.0.8")
    await controller.write_range(3, "10.0.0.16", "10.0.0.16")
    await driver.change([1, 3], [4])
    await controller.remove_finalizer(1)
    await controller.remove_finalizer(3)
    await controller.write_range(4, "10.0.0.9", "10.0.0.16")


async def test_the_driver_counts_overlaps_that_lasted_and_those_that_did_not(
    session: ClientSession,
) -> None:
    driver = Driver(session)
    async with driver.watching() as view:
        await play_controller_by_hand(driver)
        await driver.done()
        assert len(view.overlaps.pairs) == 2
        overlaps = Overlaps()
        for allocation in await driver.list_allocations():
            overlaps.note_ranges(allocation.metadata.uid, *allocation.status.ranges)
        assert len(overlaps.pairs) == 1
        created, allocated = view.find_served_times(name_allocation(4), since=0.0)
        assert created < allocated


async def test_writes_are_counted_as_the_api_server_served_them(session: ClientSession) -> None:
    find_real_assets()
    driver = Driver(session)
    async with driver.watching():
        await play_controller_by_hand(driver)
        await driver.done()
    async with session.get("/metrics") as answer:
        assert answer.status == 200
        counts = count_writes(await answer.text(), GROUP)
    assert counts == {
        Write("ipallocations", "POST"): 5,
        Write("ipallocations/status", "PUT"): 5,
        Write("ipallocations", "DELETE"): 2,
        Write("ipallocations", "PUT"): 2,
        Write("networkpools", "POST"): 1,
    }


def test_reads_dry_runs_and_other_groups_are_no_writes_and_refusals_change_nothing() -> None:
    lines = [
        "# HELP apiserver_request_total Counter of apiserver requests",
        make_metric_line(3, verb="POST", code="201"),
        make_metric_line(2, verb="PUT", subresource="status"),
        make_metric_line(1, verb="PUT", subresource="status", code="409"),
        make_metric_line(7, verb="PUT", dry_run="All"),
        make_metric_line(8, verb="LIST"),
        make_metric_line(9, verb="PUT", group=""),
        make_metric_line(10, verb="PUT").replace("request_total", "request_terminations_total"),
    ]
    counts = count_writes("\n".join(lines), "G")
    assert counts == {
        Write("as", "POST"): 3,
        Write("as/status", "PUT"): 2,
        Write("as/status", "PUT", refused=True): 1,
    }
    assert count_accepted(counts) == 5


def test_an_overlap_counts_once_for_each_pair_however_many_addresses_and_changes() -> None:
    overlaps = Overlaps()
    overlaps.note_ranges("a", ("10.0.0.0", "10.0.0.9"))
    overlaps.note_ranges("b", ("10.0.0.5", "10.0.0.12"))
    overlaps.note_ranges("b", ("10.0.0.5", "10.0.0.12"))
    overlaps.note_ranges("c", ("10.0.0.9", "10.0.0.9"))
    assert overlaps.pairs == {frozenset("ab"), frozenset("ac"), frozenset("bc")}
    assert [overlaps.size(uid) for uid in "abcd"] == [10, 8, 1, 0]
    overlaps.note_ranges("d", ("10.1.0.0", "10.1.0.0"), ("fd00::", "fd00::7"))
    overlaps.note_ranges("e", ("10.1.0.1", "10.1.0.1"), ("fd00::7", "fd00::8"))
    assert frozenset("de") in overlaps.pairs
    assert overlaps.size("d") == 9


def test_a_range_is_free_when_its_holder_is_gone_or_shows_another() -> None:
    overlaps = Overlaps()
    overlaps.note_ranges("a", ("10.0.0.0", "10.0.0.3"))
    overlaps.note_ranges("b", ("10.0.0.4", "10.0.0.7"))
    overlaps.note_deletion("a")
    overlaps.note_ranges("c", ("10.0.0.0", "10.0.0.3"))
    overlaps.note_ranges("b", ("10.0.0.8", "10.0.0.8"))
    overlaps.note_ranges("d", ("10.0.0.4", "10.0.0.7"))
    overlaps.note_ranges("d", ("", ""))
    overlaps.note_ranges("e", ("10.0.0.4", "10.0.0.4"))
    assert overlaps.pairs == set()
    with pytest.raises(ValueError, match="ends before it starts"):
        overlaps.note_ranges("f", ("10.0.0.2", "10.0.0.1"))


def make_phase(seconds: float, cpu_seconds: float) -> Phase:
    """Return a phase of 100 allocations, all created at once, one served after the other."""
    return Phase(
        number=100,
        seconds=seconds,
        served_times=[(0.0, cpu_seconds * (at + 1)) for at in range(100)],
        writes=Counter({Write("as", "POST"): 100, Write("as", "PUT", refused=True): 50}),
        controller=0.2,
        server=0.5,
        resident=64.0,
        peak=65.0,
    )


def test_the_table_shows_numbers_for_each_allocation_and_ratios(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fast, slow = make_phase(1.0, 0.01), make_phase(2.0, 0.02)
    tables.show(
        100,
        {
            "fast": ControllerCosts(
                60.0, {FILLING: fast, CHURN: fast}, overlaps=0, overlaps_left=0
            ),
            "slow": ControllerCosts(
                30.0, {FILLING: slow, CHURN: slow}, overlaps=3, overlaps_left=1
            ),
        },
    )
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for expected in (
        "allocations/s 100.00 50.00 2.00 ratio >= 2",
        "last fifth's rate / second's 1.00 1.00 1.00 >= 0.8 with 10,000",
        "p50 to Allocated, ms 505.00 1010.00 0.50",
        "writes each 1.00 1.00 1.00 <= 2.1",
        "PUT as refused 0.50 0.50",
        "controller's CPU each, ms 2.00 2.00 1.00",
        "API server's CPU each, ms 5.00 5.00 1.00 ratio < 1",
        "resident memory at rest, MiB 60.00 30.00 2.00 <= 110",
        "overlapping pairs, as watched 0.00 3.00 0",
        "overlapping pairs in the end 0.00 1.00 0",
    ):
        assert expected.split() in lines, expected


def make_bare_phases(rate: float, cpu: float) -> dict[str, Bare]:
    """Return phases of 100 allocations, with so many ms of the servers' CPU for each."""
    measured = Bare(number=100, seconds=100 / rate, server=cpu / 20, store=cpu / 20)
    return {FILLING: measured, CHURN: measured}


@pytest.mark.parametrize(
    ("rate", "cpu", "verdict"),
    [
        (160.0, 11.0, "twice the peer's rate is out of reach on 2 processors"),
        (160.0, 9.0, "twice the peer's rate is not ruled out on 2 processors"),
        (
            140.0,
            11.0,
            "a controller was faster: something else used the processors; measure again",
        ),
    ],
)
def test_the_table_says_whether_twice_the_peers_rate_can_be_reached(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rate: float,
    cpu: float,
    verdict: str,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    fast, slow = make_phase(1 / 1.5, 0.01), make_phase(1.0, 0.01)
    results = {
        "ours": ControllerCosts(60.0, {FILLING: fast, CHURN: fast}, overlaps=0, overlaps_left=0),
        "peer": ControllerCosts(60.0, {FILLING: slow, CHURN: slow}, overlaps=0, overlaps_left=0),
    }
    most = {
        "no watch": make_bare_phases(rate, cpu),
        "one watch": make_bare_phases(rate / 2, cpu * 2),
    }
    tables.show_bare(most, results, "peer")
    lines = capsys.readouterr().out.splitlines()
    for expected in (
        f"allocations/s {rate:.2f} {rate / 2:.2f}",
        f"API server's CPU each, ms {cpu / 2:.2f} {cpu:.2f}",
        f"etcd's CPU each, ms {cpu / 2:.2f} {cpu:.2f}",
        f"processors of both for 200/s {cpu / 5:.2f} {2 * cpu / 5:.2f}",
        verdict,
    ):
        assert [line.split() for line in lines].count(expected.split()) == 2, expected
    tables.show_bare(most, {}, "peer")
    assert "processors" not in capsys.readouterr().out


async def test_without_a_controller_each_request_costs_one_more_write_and_each_deletion_too(
    session: ClientSession,
) -> None:
    find_real_assets()
    driver = ServingDriver(session)
    async with driver.watching():
        await driver.prepare("10.0.0.0/24")
        await driver.change((), range(4))
        await driver.change([1, 3], [4])
        await driver.done()
    async with session.get("/metrics") as answer:
        counts = count_writes(await answer.text(), GROUP)
    assert counts == {
        Write("ipallocations", "POST"): 5,
        Write("ipallocations/status", "PATCH"): 5,
        Write("ipallocations", "DELETE"): 2,
        Write("ipallocations", "PATCH"): 2,
        Write("networkpools", "POST"): 1,
    }


def test_the_cpu_time_of_a_process_counts_what_is_shorter_than_a_tick() -> None:
    before = time.process_time()
    cpu_seconds = read_cpu_seconds(os.getpid())
    assert before < cpu_seconds < time.process_time()


@pytest.mark.slow
@pytest.mark.parametrize("watched", [False, True])
async def test_a_small_run_without_a_controller_gives_every_allocation_its_addresses(
    watched: bool,
) -> None:
    phases = await measure_bare(start_embedded, FEW, "nodes", watched=watched)
    assert {name: phase.number for name, phase in phases.items()} == {
        FILLING: FEW,
        CHURN: FEW // 2,
    }
    for phase in phases.values():
        assert phase.server > 0
        assert phase.store == 0, "there is no etcd"
        assert phase.rate > 0


def test_missing_real_servers_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    bench_real.run()
    assert "not measured: no etcd and kube-apiserver" in capsys.readouterr().out


def _find_start(name: str) -> Start:
    """Return the function that makes a controller's command; skip if the peer is not built."""
    if name == bench_real.OURS:
        return bench_real.make_our_command
    program = REAL / bench_real.PEER
    if not program.exists():
        pytest.skip(f"{program} is not there: `make real` builds it")
    return partial(bench_real.make_peer_command, program)


@pytest.mark.slow
@pytest.mark.parametrize("name", [bench_real.OURS, bench_real.CLIENT_GO])
async def test_a_small_run_serves_every_allocation_and_counts_the_writes_of_the_controller(
    name: str,
) -> None:
    measured = await measure(
        _find_start(name), partial(start_real, find_real_assets()), number=FEW, kind="nodes"
    )
    assert (measured.overlaps, measured.overlaps_left) == (0, 0)
    filling, churn = measured.phases[FILLING], measured.phases[CHURN]
    assert (filling.number, churn.number) == (FEW, FEW // 2)
    assert (len(filling.served_times), len(churn.served_times)) == (FEW, FEW // 2)
    created, deleted = Write("ipallocations", "POST"), Write("ipallocations", "DELETE")
    assert (filling.writes[created], filling.writes[deleted]) == (FEW, 0)
    assert (churn.writes[created], churn.writes[deleted]) == (FEW // 2, FEW // 2)
    # At least the range, or Released and the finalizer's removal, and the pool's counters.
    for phase_result, own in ((filling, FEW), (churn, 3 * FEW // 2)):
        driven = phase_result.writes[created] + phase_result.writes[deleted]
        assert count_accepted(phase_result.writes) - driven > own
        assert 0 < phase_result.resident <= phase_result.peak


@pytest.mark.slow
async def test_a_small_run_on_the_embedded_server_serves_every_allocation() -> None:
    measured = await measure(bench_real.make_our_command, start_embedded, number=FEW, kind="nodes")
    assert (measured.overlaps, measured.overlaps_left) == (0, 0)
    filling, churn = measured.phases[FILLING], measured.phases[CHURN]
    assert (len(filling.served_times), len(churn.served_times)) == (FEW, FEW // 2)
    assert not filling.writes, "it does not count them"
