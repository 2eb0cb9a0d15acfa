"""Prints what was measured of several controllers side by side, with the goals beside it."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from tests.bench.bare import Bare
from tests.bench.comparison import CHURN, FILLING, ControllerCosts, Phase
from tests.bench.writes import count_accepted

_LABEL = 40
_COLUMN = 13
_RATIO = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a number of each phase.

    Attributes:
        label: the name of the number.
        value: returns the number of a phase.
        filling: the goal in the phase FILLING; empty for none.
        churn: the goal in the phase CHURN; empty for none.
    """

    label: str
    value: Callable[[Phase], float]
    filling: str = ""
    churn: str = ""


ROWS: Sequence[Row] = (
    Row("allocations/s", lambda phase: phase.rate, filling="ratio >= 2", churn="ratio >= 2"),
    Row("last fifth's rate / second's", lambda phase: phase.steadiness, ">= 0.8 with 10,000"),
    Row("p50 to Allocated, ms", lambda phase: 1000 * phase.latency(50)),
    Row("p99 to Allocated, ms", lambda phase: 1000 * phase.latency(99), "ratio <= 0.5"),
    Row("writes each", lambda phase: count_accepted(phase.writes) / phase.number, "<= 2.1"),
    Row("controller's CPU each, ms", lambda phase: 1000 * phase.controller / phase.number),
    Row(
        "API server's CPU each, ms",
        lambda phase: 1000 * phase.server / phase.number,
        filling="ratio < 1",
        churn="ratio < 1",
    ),
    Row("resident memory at the end, MiB", lambda phase: phase.resident, "<= 170 with 10,000"),
    Row("its peak until then, MiB", lambda phase: phase.peak),
)


def show(number: int, results: Mapping[str, ControllerCosts]) -> None:
    """Print all numbers of all controllers.

    Args:
        number: how many allocations were created at once.
        results: the costs by the name of the controller.
    """
    half = number // 2
    click.echo(
        f"{number:,} IPAllocations created at once (filling), then {half:,} deleted and {half:,}"
        f" created anew (churn); {os.cpu_count()} cores"
    )
    for name in (FILLING, CHURN):
        phases = [measured.phases[name] for measured in results.values()]
        _print_heading(name, results)
        unknown = "writes each" if not phases[0].writes else ""
        for row in ROWS:
            if row.label == unknown:
                continue
            goal = row.filling if name == FILLING else row.churn
            _print_line(row.label, [row.value(phase) for phase in phases], goal, ratio=True)
        click.echo("  writes each, by kind" if not unknown else "  writes are not counted here")
        for write in sorted(set().union(*(phase.writes for phase in phases))):
            _print_line(f"  {write}", [phase.writes[write] / phase.number for phase in phases])
    _print_heading("both", results)
    measured = list(results.values())
    _print_line(
        "resident memory at rest, MiB", [run.idle for run in measured], "<= 110", ratio=True
    )
    _print_line("overlapping pairs, as watched", [run.overlaps for run in measured], "0")
    _print_line("overlapping pairs in the end", [run.overlaps_left for run in measured], "0")


def show_bare(
    measured: Mapping[str, Mapping[str, Bare]], results: Mapping[str, ControllerCosts], peer: str
) -> None:
    """Print the most that any controller can reach.

    Args:
        measured: the costs without a controller, by how they were measured and by phase.
        results: the costs of controllers, by name.
        peer: the name of the controller whose rate ours should double.
    """
    click.echo("the most that any controller can reach here: the requests, and one write for each")
    for name in (FILLING, CHURN):
        _print_heading(name, measured, goal=False)
        phases = [phases[name] for phases in measured.values()]
        _print_line("allocations/s", [phase.rate for phase in phases])
        _print_line(
            "API server's CPU each, ms", [1000 * phase.server / phase.number for phase in phases]
        )
        _print_line("etcd's CPU each, ms", [1000 * phase.store / phase.number for phase in phases])
        rates = {name_of_result: of.phases[name].rate for name_of_result, of in results.items()}
        if peer in rates:
            twice = 2 * rates[peer]
            needed = [phase.compute_processors(twice) for phase in phases]
            _print_line(f"processors of both for {twice:.0f}/s", needed)
            click.echo(f"  {_describe_reach(twice, phases, max(rates.values()))}")


def _describe_reach(twice: float, phases: Sequence[Bare], fastest: float) -> str:
    """Return a sentence on whether twice the peer's rate can be reached on this machine."""
    if fastest > max(phase.rate for phase in phases):
        return "a controller was faster: something else used the processors; measure again"
    there = os.cpu_count() or 1
    least = min(phase.compute_processors(twice) for phase in phases)
    word = "out of reach" if least >= there else "not ruled out"
    return f"twice the peer's rate is {word} on {there} processors"


def _print_heading(content: str, names: Iterable[str], *, goal: bool = True) -> None:
    columns = "".join(f"{name:>{_COLUMN}}" for name in names)
    click.echo(f"{content:{_LABEL}}{columns}" + (f"{'ratio':>{_RATIO}}  goal" if goal else ""))


def _print_line(
    label: str, values: Sequence[float], goal: str = "", *, ratio: bool = False
) -> None:
    cells = "".join(f"{value:{_COLUMN}.2f}" for value in values)
    share = ""
    if ratio and len(values) == 2 and values[1]:
        share = f"{values[0] / values[1]:.2f}"
    click.echo(f"  {label:{_LABEL - 2}}{cells}{share:>{_RATIO}}  {goal}".rstrip())
