"""`butler-ipam pools`: how full every pool is."""

from collections.abc import Sequence
from typing import Any

import click

from reconcilers.cli.output import (
    STATUS_COLOURS,
    Cell,
    Column,
    Form,
    bar,
    output_option,
    percent,
    report,
    show,
    table,
)
from reconcilers.cli.survey.extents import Usage, usages
from reconcilers.cli.survey.objects import scope, scope_options, survey

_COLUMNS: Sequence[Column[Usage]] = (
    Column("NAMESPACE", lambda one: one.pool.metadata.namespace),
    Column("NAME", lambda one: one.pool.metadata.name),
    Column("CIDR", lambda one: one.pool.spec.cidr),
    Column("USED", lambda one: bar(one.capacity.allocated, one.capacity.total)),
    Column("TOTAL", lambda one: one.capacity.total),
    Column("ALLOCATED", lambda one: one.capacity.allocated),
    Column("FREE", lambda one: one.capacity.available),
    Column("LARGEST", lambda one: one.capacity.largest_free),
    Column("FRAG", lambda one: percent(one.capacity.fragmentation_percent)),
    Column("WAITING", lambda one: one.waiting),
    Column("READY", lambda one: Cell(one.ready, STATUS_COLOURS.get(one.ready))),
    Column("ALLOCATIONS", lambda one: one.allocations, wide=True),
    Column("TENANTS", lambda one: one.tenants, wide=True),
    Column("WHY", lambda one: Cell(one.reason), wide=True),
)


@click.command()
@scope_options
@output_option()
def pools(output: Form, **values: Any) -> None:
    """Show how full every NetworkPool is.

    The figures are worked out from the allocations as they are; a pool's own status may be a
    moment behind.
    """
    found = usages(survey(scope(values)))
    shown = table(_COLUMNS, found, wide=output == "wide") or "no NetworkPools were found\n"
    named = (("networkpool", one.pool.metadata.name) for one in found)
    show(output, lambda: report("PoolUsageList", items=map(_item, found)), named, lambda: shown)


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
