"""`butler-ipam whois`: who holds an address."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from allocator import AddressRange, AllocatorError
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.output import Column, Form, output_option, printed, report, table
from reconcilers.cli.problems import EXIT_PROBLEM, say
from reconcilers.cli.survey.drawing import state_cell
from reconcilers.cli.survey.extents import Extent, Holder, picture
from reconcilers.cli.survey.objects import Objects, scope, scope_options, sorted_by_key, survey


@dataclass(frozen=True, slots=True)
class Answer:
    """What one pool says of an address.

    Args:
        address: the address.
        pool: the pool.
        extent: the stretch it lies in.
        allocations: of its holders, in the same order.
    """

    address: str
    pool: NetworkPool
    extent: Extent
    allocations: tuple[IPAllocation, ...]


_Row = tuple[Answer, Holder | None, IPAllocation | None]


@click.command(
    epilog="Exit code: 0 each address is in some pool, 1 one is in none, 2 it is no address."
)
@click.argument("addresses", metavar="IP...", nargs=-1, required=True)
@scope_options
@output_option()
@click.pass_context
def whois(ctx: click.Context, /, addresses: tuple[str, ...], output: Form, **values: Any) -> None:
    """Show who holds an address: the pool, the allocation, the tenant.

    Sites may use the same addresses, so several pools may answer.
    """
    for address in addresses:
        _check(address)
    objects = survey(scope(values))
    found = [answer for address in addresses for answer in answers(objects, address)]
    named = [("ipallocation", one.metadata.name) for each in found for one in each.allocations]
    shown = table(_COLUMNS, _rows(found), wide=output == "wide")
    click.echo(
        printed(
            output, lambda: report("AddressList", items=map(_item, found)), named, lambda: shown
        ),
        nl=False,
    )
    unknown = [one for one in addresses if not any(a.address == one for a in found)]
    for address in unknown:
        say("error", f"no NetworkPool that was read contains {address}")
    ctx.exit(EXIT_PROBLEM if unknown else 0)


def _check(address: str) -> None:
    try:
        AddressRange.parse(address, address)
    except AllocatorError as wrong:
        raise click.BadParameter(str(wrong), param_hint="IP") from wrong


def answers(objects: Objects, address: str) -> Iterator[Answer]:
    """Yield what every pool says that has something to say of an address."""
    of_pool = objects.by_pool()
    for pool in sorted_by_key(objects.pools):
        extent = picture(pool, of_pool[pool.metadata.key]).at(address)
        if extent is not None:
            held = tuple(objects.allocations[one.allocation] for one in extent.holders)
            yield Answer(address, pool, extent, held)


def _since(row: _Row) -> str | None:
    at = row[2].status.allocatedAt if row[2] else None
    return at.isoformat() if at else None


_COLUMNS: Sequence[Column[_Row]] = (
    Column("IP", lambda row: row[0].address),
    Column("POOL", lambda row: str(row[0].pool.metadata.key)),
    Column("STATE", lambda row: state_cell(row[0].extent.state)),
    Column("ALLOCATION", lambda row: str(row[1].allocation) if row[1] else None),
    Column("TENANT", lambda row: str(row[1].tenant) if row[1] else None),
    Column("TYPE", lambda row: row[1].type if row[1] else None),
    Column("RANGE", lambda row: row[0].extent.range.text, wide=True),
    Column("PHASE", lambda row: row[2].status.phase if row[2] else None, wide=True),
    Column("SINCE", _since, wide=True),
    Column("NOTE", lambda row: row[0].extent.note, wide=True),
)


def _rows(found: Sequence[Answer]) -> Iterator[_Row]:
    for answer in found:
        for holder, one in zip(answer.extent.holders, answer.allocations, strict=True):
            yield answer, holder, one
        if not answer.allocations:
            yield answer, None, None


def _item(answer: Answer) -> dict[str, Any]:
    extent = answer.extent
    return {
        "address": answer.address,
        "pool": str(answer.pool.metadata.key),
        "state": extent.state.value,
        "start": extent.range.start_text,
        "end": extent.range.end_text,
        "note": extent.note,
        "holders": [
            {
                "allocation": str(holder.allocation),
                "tenant": str(holder.tenant),
                "type": holder.type,
                "phase": allocation.status.phase,
                "promised": holder.promised,
                "releasing": holder.releasing,
            }
            for holder, allocation in zip(extent.holders, answer.allocations, strict=True)
        ],
    }
