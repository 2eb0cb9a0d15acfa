"""Benchmarks of a whole controller, run with few objects: they measure what they say.

By counts: what took how long is not looked at.
"""

import json
import re
from pathlib import Path

import anyio
import pytest

from tests.bench import (
    bench_clusterapi,
    bench_commands,
    bench_controller,
    bench_failover,
    bench_families,
    bench_held,
    bench_kinds,
    bench_kopf,
    bench_page,
    bench_shards,
    bench_start,
    bench_status,
    bench_tenants,
    bench_typed,
)
from tests.bench.bench_envtest import server as serving
from tests.bench.comparison import FAMILIES
from tests.bench.driver import count_addresses
from tests.bench.places import list_places, start_embedded

pytestmark = pytest.mark.slow


async def test_a_restarted_controller_finds_all_allocations_and_serves_a_new_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_controller, "REST_SECONDS", 1.0)
    case = bench_controller.ControllerCase(20, 3, goal="none")
    with serving() as server:
        await bench_controller.prepare(server, case)
        await bench_controller.measure(server, case, "pod")
    printed = capsys.readouterr().out
    assert "26 allocations,     3 TenantClusters" in printed
    assert "goal: none" in printed


async def test_cpu_time_is_read_of_churn_and_of_filling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_held, "EACH_ROUND", 5)
    churn, filling = await bench_held.measure(start_embedded, 40)
    assert churn > 0
    assert filling > 0


async def test_allocations_of_one_family_and_of_both_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    costs = {
        families: await bench_families.measure(start_embedded, 20, families)
        for families in FAMILIES
    }
    expected = sum(map(count_addresses, range(20)))
    assert [cost.addresses for cost in costs.values()] == [expected, expected, 2 * expected]
    assert {cost.overlaps for cost in costs.values()} == {0}
    bench_families.show("embedded", costs)
    assert "IPv4 and IPv6 20 with" in capsys.readouterr().out


@pytest.mark.long
async def test_every_change_of_leaders_ends_with_a_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_failover, "HELD", 20)
    monkeypatch.setattr(bench_failover, "TURNS", 2)
    assert len(await bench_failover.measure(start_embedded)) == 2


async def test_replicas_hold_the_same_number_of_shards_and_all_of_them_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_shards, "NUMBER", 96)
    shared = await bench_shards.measure(start_embedded, 2)
    assert shared.shard_counts == [6, 6]
    assert all(used > 0 for used in shared.used)


@pytest.mark.parametrize("finalizers", [True, False], ids=["finalizers", "no finalizers"])
async def test_a_first_start_serves_all_pools_with_few_lists(
    finalizers: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    case = bench_start.StartCase(pools=12, allocations=60, tenants=2, finalizers=finalizers)
    took = await bench_start.measure(start_embedded, case)
    assert (took.served_count, took.overlaps) == (60, 0)
    assert 0 < took.lists <= took.pages
    assert took.longest > 0
    bench_start.show("embedded", case, took)
    assert "60 of 60 allocations" in capsys.readouterr().out


async def test_the_page_of_the_state_is_asked_for_in_few_requests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = bench_start.StartCase(pools=2, allocations=4, tenants=2)
    many = bench_start.StartCase(pools=2, allocations=4, tenants=8)
    costs = [await bench_status.measure(start_embedded, case) for case in (few, many)]
    assert len({status.requests for status, _ in costs}) == 1
    assert all(nothing.requests == 0 for _, nothing in costs)
    assert "8 TenantClusters" in costs[1][0].printed
    bench_status.show("embedded", many, *costs[1])
    assert "20 IPAllocations" in capsys.readouterr().out


@pytest.mark.parametrize("integration", ["clusterapi", "metal3"])
async def test_all_claims_are_served_and_all_addresses_released(integration: str) -> None:
    there = list_places(bench_clusterapi.list_definitions())
    phases = await bench_clusterapi.measure(there["embedded"], [12], integration)
    assert [(phase.name, phase.number) for phase in phases] == [
        ("filling", 12),
        ("releasing", 12),
        ("at once", 12),
    ]
    assert sum(phase.cpu for phase in phases) > 0
    # One pass over each claim that waits adds the finalizer; the pass over the pool serves it.
    assert max(phases[0].passes.values()) == 12


def test_tenants_grow_whether_others_answer_or_not() -> None:
    # In a loop of its own, as time there is virtual.
    cost = anyio.run(bench_tenants.measure, 10, 2)
    assert cost.grown <= 60
    # The difference says nothing here: the memory of a worker that other tests used may shrink.
    assert min(cost.mib_before, cost.mib_at_rest) > 0


async def test_the_page_of_a_small_cluster_is_measured_in_a_browser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_page, "TYPED", ("10.",))
    monkeypatch.setattr(bench_page, "KEY_SECONDS", 0.3)
    monkeypatch.setattr(bench_page, "SETTLE_SECONDS", 0.1)
    costs = await bench_page.measure(share=100, rest_seconds=0.1)
    assert costs.received < costs.decoded
    assert costs.key > 0
    assert 0 < costs.nodes <= 5_000


def test_commands_on_files_have_their_cpu_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "few.json"
    items = [*bench_commands.make_plan_manifests(2, 4)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    bench_commands.show("plan of four", ["plan", "-f", str(path)], goal=1.0, runs=1)
    [line] = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"plan of four +\d+\.\d\d s CPU \(goal 1\.00\) +\d+ modules", line)


async def test_an_operator_is_measured_from_its_start_to_the_last_deletion() -> None:
    figures = await bench_kopf.measure("controller", 3, 2)
    assert (len(figures.created), len(figures.scaled), len(figures.gone)) == (2, 2, 2)
    assert figures.edited is not None
    assert figures.removed is not None
    assert figures.many > 0
    assert figures.many_gone > 0


def test_each_way_to_decode_a_pod_that_is_installed_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench_typed.run()
    printed = capsys.readouterr().out
    for label in bench_typed.DECODERS:
        assert label in printed


@pytest.mark.parametrize("kind", bench_kinds.KINDS)
def test_a_change_is_counted_for_each_kind_that_hands_out_addresses(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench_kinds.run(["--kind", kind, "--held", "16", "--waiting", "48"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [kind] * 6
    calls = [int(line.split()[-2].replace(",", "")) for line in lines]
    assert min(calls[1:3] + calls[4:6]) > max(calls[0], calls[3])
