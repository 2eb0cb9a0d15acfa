"""`butler-ipam whois`: who holds an address."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from allocator import AddressRange, AllocatorError
from controller.meta import Key
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.columns import Cell, table
from reconcilers.cli.problems import EXIT_PROBLEM, say
from reconcilers.cli.survey.extents import Extent, Holder, picture
from reconcilers.cli.survey.forms import Form, document, output_option, scope, scope_options
from reconcilers.cli.survey.objects import Objects, sorted_by_key, survey
from reconcilers.cli.survey.palette import COLOURS


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


@click.command(
    epilog="Exit code: 0 each address is in some pool, 1 one is in none, 2 it is no address."
)
@click.argument("addresses", metavar="IP...", nargs=-1, required=True)
@scope_options
@output_option("table", "wide", "json", "yaml", "name")
@click.pass_context
def whois(ctx: click.Context, /, addresses: tuple[str, ...], output: Form, **values: Any) -> None:
    """Show who holds an address: the pool, the allocation, the tenant.

    Sites may use the same addresses, so several pools may answer.
    """
    for address in addresses:
        _check(address)
    objects = survey(scope(values))
    found = [answer for address in addresses for answer in answers(objects, address)]
    click.echo(_rendered(found, output), nl=False)
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


def _rendered(found: Sequence[Answer], form: Form) -> str:
    if form == "name":
        keys: list[Key] = [one.metadata.key for answer in found for one in answer.allocations]
        return "".join(f"ipallocation.butler.butlerlabs.dev/{key.name}\n" for key in keys)
    if form in {"json", "yaml"}:
        return document("AddressList", map(_item, found), form)
    head = ["IP", "POOL", "STATE", "ALLOCATION", "TENANT", "TYPE"]
    if form == "wide":
        head += ["RANGE", "PHASE", "SINCE", "NOTE"]
    rows = [row for answer in found for row in _rows(answer, wide=form == "wide")]
    return table(head, rows)


def _rows(answer: Answer, *, wide: bool) -> Iterator[list[Cell]]:
    state = answer.extent.state
    held: list[tuple[Holder | None, IPAllocation | None]] = list(
        zip(answer.extent.holders, answer.allocations, strict=True)
    )
    for holder, allocation in held or [(None, None)]:
        cells = [
            Cell(answer.address),
            Cell(str(answer.pool.metadata.key)),
            Cell(state.value, COLOURS[state].terminal),
            Cell(str(holder.allocation) if holder else "-"),
            Cell(str(holder.tenant) if holder else "-"),
            Cell(holder.type if holder else "-"),
        ]
        if wide:
            status = allocation.status if allocation else None
            since = status.allocatedAt.isoformat() if status and status.allocatedAt else "-"
            cells += [
                Cell(answer.extent.range.text),
                Cell((status.phase if status else None) or "-"),
                Cell(since),
                Cell(answer.extent.note or "-"),
            ]
        yield cells


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
