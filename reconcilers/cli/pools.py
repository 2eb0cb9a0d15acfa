"""`butler-ipam pools`: how full every pool is."""

from collections.abc import Sequence
from typing import Any

import click

from reconcilers.cli.columns import Cell, bar, number, table
from reconcilers.cli.survey.forms import (
    FORMS,
    Form,
    document,
    named,
    output_option,
    scope,
    scope_options,
)
from reconcilers.cli.survey.objects import survey
from reconcilers.cli.survey.usage import Usage, usages

_COLOURS = {"True": "green", "False": "red"}


@click.command()
@scope_options
@output_option(*FORMS)
def pools(output: Form, **values: Any) -> None:
    """Show how full every NetworkPool is.

    The figures are worked out from the allocations as they are; a pool's own status may be a
    moment behind.
    """
    found = usages(survey(scope(values)))
    click.echo(render(found, output), nl=False)


def render(found: Sequence[Usage], form: Form) -> str:
    """Return the figures in one of the forms."""
    if form == "name":
        return named("networkpool", (one.pool.metadata.name for one in found))
    if form in {"json", "yaml"}:
        return document("PoolUsageList", map(_item, found), form)
    if not found:
        return "no NetworkPools were found\n"
    head = ["NAMESPACE", "NAME", "CIDR", "USED", "TOTAL", "ALLOCATED", "FREE", "LARGEST"]
    head += ["FRAG", "WAITING", "READY"]
    if form == "wide":
        head += ["ALLOCATIONS", "TENANTS", "WHY"]
    return table(head, [_row(one, wide=form == "wide") for one in found])


def _row(one: Usage, *, wide: bool) -> list[Cell]:
    capacity, metadata = one.capacity, one.pool.metadata
    cells = [
        Cell(metadata.namespace),
        Cell(metadata.name),
        Cell(one.pool.spec.cidr),
        bar(capacity.allocated, capacity.total),
        number(capacity.total),
        number(capacity.allocated),
        number(capacity.available),
        number(capacity.largest_free),
        Cell(f"{capacity.fragmentation_percent}%", right=True),
        number(one.waiting),
        Cell(one.ready, _COLOURS.get(one.ready)),
    ]
    if wide:
        cells += [number(one.allocations), number(one.tenants), Cell(one.reason)]
    return cells


def _item(one: Usage) -> dict[str, Any]:
    capacity = one.capacity
    return {
        "namespace": one.pool.metadata.namespace,
        "name": one.pool.metadata.name,
        "cidr": one.pool.spec.cidr,
        "total": capacity.total,
        "allocated": capacity.allocated,
        "available": capacity.available,
        "largestFreeBlock": capacity.largest_free,
        "fragmentationPercent": capacity.fragmentation_percent,
        "utilizationPercent": one.percent,
        "allocations": one.allocations,
        "waiting": one.waiting,
        "tenants": one.tenants,
        "ready": one.ready,
        "reason": one.reason,
    }
