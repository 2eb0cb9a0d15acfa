"""`butler-ipam whois`: who holds an address."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import click

from allocator import AddressRange, AllocatorError
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.output import Column, Form, output_option, report, show, table
from reconcilers.cli.problems import EXIT_PROBLEM, say
from reconcilers.cli.survey.drawing import state_cell
from reconcilers.cli.survey.extents import Extent, Holder, picture
from reconcilers.cli.survey.objects import Objects, scope, scope_options, sorted_by_key, survey


class Answer(NamedTuple):
    """What one pool says of an address, and of one of its holders; several if ranges overlap."""

    address: str
    pool: NetworkPool
    extent: Extent
    holder: Holder | None
    allocation: IPAllocation | None


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
        try:
            AddressRange.parse(address, address)
        except AllocatorError as wrong:
            raise click.BadParameter(str(wrong), param_hint="IP") from wrong
    objects = survey(scope(values))
    found = [answer for address in addresses for answer in answers(objects, address)]
    named = [("ipallocation", one.allocation.metadata.name) for one in found if one.allocation]
    shown = table(_COLUMNS, found, wide=output == "wide")
    show(output, lambda: report("AddressList", items=_items(found)), named, lambda: shown)
    unknown = [one for one in addresses if not any(a.address == one for a in found)]
    for address in unknown:
        say("error", f"no NetworkPool that was read contains {address}")
    ctx.exit(EXIT_PROBLEM if unknown else 0)


def answers(objects: Objects, address: str) -> Iterator[Answer]:
    """Yield what every pool says that has something to say of an address."""
    of_pool = objects.by_pool()
    for pool in sorted_by_key(objects.pools):
        extent = picture(pool, of_pool[pool.metadata.key]).at(address)
        if extent is None:
            continue
        for holder in extent.holders or (None,):
            allocation = objects.allocations[holder.allocation] if holder else None
            yield Answer(address, pool, extent, holder, allocation)


def _since(one: Answer) -> str | None:
    at = one.allocation.status.allocatedAt if one.allocation else None
    return at.isoformat() if at else None


_COLUMNS: Sequence[Column[Answer]] = (
    Column("IP", lambda one: one.address),
    Column("POOL", lambda one: str(one.pool.metadata.key)),
    Column("STATE", lambda one: state_cell(one.extent.state)),
    Column("ALLOCATION", lambda one: str(one.holder.allocation) if one.holder else None),
    Column("TENANT", lambda one: str(one.holder.tenant) if one.holder else None),
    Column("TYPE", lambda one: one.holder.type if one.holder else None),
    Column("RANGE", lambda one: one.extent.range.text, wide=True),
    Column(
        "PHASE", lambda one: one.allocation.status.phase if one.allocation else None, wide=True
    ),
    Column("SINCE", _since, wide=True),
    Column("NOTE", lambda one: one.extent.note, wide=True),
)


def _items(found: Sequence[Answer]) -> Iterator[dict[str, Any]]:
    """Yield an entry for each pool and address, with all holders."""
    for (address, key), group in groupby(found, lambda one: (one.address, one.pool.metadata.key)):
        every = list(group)
        extent = every[0].extent
        yield {
            "address": address,
            "pool": str(key),
            "state": extent.state.value,
            "start": extent.range.start_text,
            "end": extent.range.end_text,
            "note": extent.note,
            "holders": [
                {
                    "allocation": str(one.holder.allocation),
                    "tenant": str(one.holder.tenant),
                    "type": one.holder.type,
                    "phase": one.allocation.status.phase,
                    "promised": one.holder.promised,
                    "releasing": one.holder.releasing,
                }
                for one in every
                if one.holder and one.allocation
            ],
        }
