"""`butler-ipam pools`, `tenants` and `whois`: tables of how full, what of whom, whose address."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import click

from allocator import AddressRange, AllocatorError
from reconcilers.addressing import statusranges
from reconcilers.addressmap.extents import Extent, Holder, Usage
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import network_pool_pictures, pool_pictures
from reconcilers.addressmap.tenants import Holding, holdings
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.cluster.drawing import state_cell
from reconcilers.cli.cluster.objects import (
    Scope,
    followed,
    read_all,
    read_shown,
    report_unreadable,
    scope,
    scope_options,
    watch_option,
)
from reconcilers.cli.output import (
    STATUS_COLOURS,
    Cell,
    Column,
    Form,
    Plain,
    bar,
    fitted,
    fitted_plain,
    output_option,
    percent,
    report,
    short,
    show,
    tables,
)
from reconcilers.cli.problems import EXIT_PROBLEM, say
from reconcilers.integrations.core.views import POOL_COLUMNS, PoolView, Stretch
from reconcilers.reporting.wording import name_with_count

FigureT = TypeVar("FigureT", Usage, Holding)
"""What has figures that are known only if all that they count may be read."""


def _if_known(
    value: Callable[[FigureT], Cell | str | int | None],
) -> Callable[[FigureT], Cell | str | int | None]:
    """Return what a column says of a figure: unknown where the user may not read all of it."""
    return lambda usage: Cell("unknown", right=True) if usage.not_read else value(usage)


_POOLS: Sequence[Column[Usage]] = (
    Column("NAMESPACE", lambda one: one.pool.metadata.namespace, drop=1),
    Column("NAME", lambda one: one.pool.metadata.name),
    Column("CIDR", lambda one: one.pool.spec.cidr),
    Column(
        "USED",
        _if_known(lambda usage: bar(usage.capacity.allocated, usage.capacity.total)),
        narrow=_if_known(lambda usage: bar(usage.capacity.allocated, usage.capacity.total, 10)),
    ),
    Column("TOTAL", lambda one: one.capacity.total, drop=4),
    Column("ALLOCATED", _if_known(lambda usage: usage.capacity.allocated), drop=3),
    Column("FREE", _if_known(lambda usage: usage.capacity.available)),
    Column("LARGEST", _if_known(lambda usage: usage.capacity.largest_free), drop=2),
    Column("FRAG", _if_known(lambda usage: percent(usage.capacity.fragmentation_percent)), drop=5),
    Column("WAITING", _if_known(lambda usage: usage.waiting)),
    Column("READY", lambda one: Cell(one.ready, STATUS_COLOURS.get(one.ready))),
    Column("ALLOCATIONS", _if_known(lambda usage: usage.allocations), wide=True),
    Column("TENANTS", _if_known(lambda usage: usage.tenants), wide=True),
    Column("WHY", lambda one: Cell(one.reason), wide=True),
)


@click.command()
@scope_options
@output_option()
@watch_option()
def pools(output: Form, watch: bool, **values: Any) -> None:
    """Show how full every NetworkPool is, and every pool of other platforms that is served.

    The figures are worked out from the allocations as they are; a pool's own status may be a
    moment behind.
    """
    where = scope(values)

    def as_text(objects: Objects) -> str:
        pools = pool_pictures(objects.within(where.namespace))
        usages = [pool.usage for pool in pools if pool.view is None]
        views = [pool.view for pool in pools if pool.view]
        others = fitted_plain(POOL_COLUMNS, views, output)
        return tables(fitted(_POOLS, usages, output), others) or "no pools were found\n"

    if watch:
        followed(where, output, as_text)
        return
    objects = read_shown(where)
    report_unreadable(objects, NETWORK_POOL, where.namespace)
    pictures = pool_pictures(objects)
    items = [pool.usage.document() for pool in pictures if pool.view is None]
    others = [pool.view.document() for pool in pictures if pool.view]
    listed = {"others": others} if others else {}
    document = partial(report, "PoolUsageList", items=items, **listed)
    named = ((pool.full_kind, pool.name.key.name) for pool in pictures)
    show(output, document, named, partial(as_text, objects))


def _sizes(
    kind: str, written: Callable[[int], str] = "{:,}".format
) -> Callable[[Holding], Cell | str | int | None]:
    """Return what says how many addresses there are, of each family if there are two."""
    return _if_known(
        lambda tenant: Cell(" + ".join(map(written, tenant.sizes(kind))) or "0", right=True)
    )


def _texts(held: Sequence[AddressRange]) -> str:
    return ", ".join(one.text for one in held)


_TENANTS: Sequence[Column[Holding]] = (
    Column("NAMESPACE", lambda one: one.key.namespace),
    Column("NAME", lambda one: one.key.name),
    Column("PHASE", lambda one: one.phase, drop=1),
    Column("NODES", _sizes(names.TYPE_NODES), narrow=_sizes(names.TYPE_NODES, short)),
    Column("LB", _sizes(names.TYPE_LOADBALANCER), narrow=_sizes(names.TYPE_LOADBALANCER, short)),
    Column("GROWN", _if_known(lambda tenant: tenant.grown), drop=2),
    Column("WAITING", _if_known(lambda tenant: tenant.waiting)),
    Column("SERVICES", lambda tenant: tenant.services_waiting, drop=3),
    Column("READY", lambda tenant: Cell(tenant.worst[0], STATUS_COLOURS.get(tenant.worst[0]))),
    Column(
        "NODE RANGES", _if_known(lambda tenant: _texts(tenant.ranges(names.TYPE_NODES))), wide=True
    ),
    Column(
        "LB RANGES",
        _if_known(lambda tenant: _texts(tenant.ranges(names.TYPE_LOADBALANCER))),
        wide=True,
    ),
    Column("WHY", lambda one: Cell(one.worst[1]), wide=True),
)


@click.command()
@scope_options
@output_option()
@watch_option()
def tenants(output: Form, watch: bool, **values: Any) -> None:
    """Show what every TenantCluster holds and waits for, and the worst of its conditions.

    With -n, those whose cluster is in that namespace; then the right to read TenantClusters there
    suffices. WAITING counts requests for addresses, SERVICES the tenant's Services without one.
    """
    where = scope(values)

    def of(objects: Objects) -> list[Holding]:
        return [one for one in holdings(objects) if where.namespace in {"", one.key.namespace}]

    def as_text(objects: Objects) -> str:
        return fitted(_TENANTS, of(objects), output) or "no TenantClusters were found\n"

    if watch:
        followed(where, output, as_text, required=(TENANT_CLUSTER,))
        return
    objects = read_all(where, required=(TENANT_CLUSTER,))
    report_unreadable(objects, TENANT_CLUSTER, where.namespace)
    found = of(objects)
    named = (("tenantcluster", one.key.name) for one in found)
    show(
        output,
        lambda: report("TenantHoldingList", items=map(_holding, found)),
        named,
        partial(as_text, objects),
    )


def _holding(one: Holding) -> dict[str, Any]:
    status, why = one.network
    limits = {"notRead": [str(limit) for limit in one.not_read]} if one.not_read else {}
    return {
        "namespace": one.key.namespace,
        "name": one.key.name,
        "phase": one.phase,
        "networkReady": status,
        "reason": why,
        "waiting": None if one.not_read else one.waiting,
        "servicesWaiting": one.services_waiting,
        "worstStatus": one.worst[0],
        "worstMessage": one.worst[1],
        **limits,
        "allocations": [
            {
                "name": str(allocation.metadata.key),
                "pool": str(allocation.pool_key),
                "type": allocation.spec.type,
                "role": one.role(allocation),
                "phase": allocation.status.phase,
                "range": held.text
                if (held := statusranges.find_held_range(allocation)) is not None
                else None,
                "size": held.size if held is not None else 0,
                "ranges": [span.text for span in statusranges.list_held_ranges(allocation)],
            }
            for allocation in one.allocations
        ],
    }


class Answer(NamedTuple):
    """What one pool says of what is asked, and of one of its holders; several if ranges overlap.

    `address` is what of it is in one range, in the pool's one state.
    """

    asked: AddressRange
    address: str
    pool: NetworkPool
    extent: Extent
    holder: Holder | None
    allocation: IPAllocation | None


def _address(text: str) -> AddressRange:
    """Return addresses as objects have them; ::ffff:10.40.0.1 is of IPv4, as Go reads it.

    Raises:
        BadParameter: the text is no address, no CIDR and no range.
    """
    start, _, end = text.partition("-")
    try:
        found = (
            AddressRange.parse_cidr(text)
            if "/" in text
            else AddressRange.parse(start.strip(), (end or start).strip())
        )
    except AllocatorError as wrong:
        hint = ""
        if text[:1].isalpha() and ":" not in text:
            hint = (
                "; whois takes addresses: for names, use `butler-ipam tenants` for TenantClusters,"
                f" `butler-ipam explain {text}` for a TenantCluster or an IPAllocation, and"
                f" `butler-ipam map {text}` for a pool"
            )
        raise click.BadParameter(f"{wrong}{hint}") from wrong
    return found.in_family(4) or found


@click.command(
    epilog="Exit code: 0 each of them is in some pool, 1 one is in none, 2 it is no address."
)
@click.argument("addresses", metavar="IP|CIDR|IP-IP...", nargs=-1, required=True, type=_address)
@scope_options
@output_option()
@click.pass_context
def whois(
    ctx: click.Context, /, addresses: tuple[AddressRange, ...], output: Form, **values: Any
) -> None:
    """Show who holds an address: the pool, the allocation, the tenant.

    Sites may use the same addresses, so several pools may answer. IP may be written in any way,
    ::ffff:10.40.0.1 too. Of a CIDR or a range, 10.40.0.0/28 or 10.40.0.0-10.40.0.9, each part is
    shown that a pool says something else of.
    """
    where = scope(values)
    objects = read_shown(where)
    found = [answer for address in addresses for answer in answers(objects, address)]
    others = {one: objects.integrations.at(one) for one in addresses}
    named = [("ipallocation", one.allocation.metadata.name) for one in found if one.allocation]
    rows = [(_words(asked), *one) for asked, some in others.items() for one in some]
    shown = tables(fitted(_ANSWERS, found, output), fitted_plain(_OTHERS, rows, output))
    more = [
        {"address": asked, "pool": pool.name, **stretch.document()}
        for asked, pool, stretch in rows
    ]
    listed = report("AddressList", items=[*_answers_by_address(found), *more])
    show(output, lambda: listed, named, lambda: shown)
    known = {one.asked for one in found} | {asked for asked, some in others.items() if some}
    unknown = [one for one in addresses if one not in known]
    for address in unknown:
        say("error", _describe_unknown(_words(address), where, objects))
    if unknown:
        ctx.exit(EXIT_PROBLEM)


def _describe_unknown(address: str, where: Scope, objects: Objects) -> str:
    """Return which pools were searched for an address in vain, where else it may be, what to do.

    Args:
        address: the address, CIDR or range.
        where: what the command was to read.
        objects: what it read of it.
    """
    readable = " that you may read" if objects.all_not_read else ""
    if where.namespace:
        searched = f" of namespace {where.namespace} or of the whole cluster"
    elif where.files:
        searched = " in the files"
    else:
        searched = "" if readable else " of any namespace"
    sentence = f"no pool{readable}{searched} contains {address}"
    unreadable = [f"NetworkPool {key}" for key in sorted(objects.unreadable_of(NETWORK_POOL))]
    if unreadable:
        sentence += f"; {name_with_count(unreadable)} cannot be read and may contain it"
    if readable:
        example = ", for example of another namespace," if where.namespace else ""
        return (
            f"{sentence}; a pool that you may not read{example} may contain it: ask a person who"
            f" may read all namespaces to run `butler-ipam whois {address}`"
        )
    if where.namespace:
        return (
            f"{sentence}; a pool of another namespace may contain it: run the command without -n,"
            " or with -A"
        )
    return sentence


def _words(one: AddressRange) -> str:
    return one.start_text if one.size == 1 else one.text


def answers(objects: Objects, asked: AddressRange) -> Iterator[Answer]:
    """Yield what every pool says that has something to say of addresses."""
    for pool in network_pool_pictures(objects):
        for extent in pool.picture.extents:
            part = extent.range.intersection(asked)
            if part is None:
                continue
            for holder in extent.holders or (None,):
                allocation = pool.request(holder.allocation) if holder else None
                yield Answer(asked, _words(part), pool.pool, extent, holder, allocation)


def _since(one: Answer) -> str | None:
    at = one.allocation.status.allocatedAt if one.allocation else None
    return at.isoformat() if at else None


_ANSWERS: Sequence[Column[Answer]] = (
    Column("IP", lambda one: one.address),
    Column(
        "POOL", lambda one: str(one.pool.metadata.key), narrow=lambda one: one.pool.metadata.name
    ),
    Column("STATE", lambda one: state_cell(one.extent.state)),
    Column(
        "ALLOCATION",
        lambda one: str(one.holder.allocation) if one.holder else None,
        narrow=lambda one: one.holder.allocation.name if one.holder else None,
    ),
    Column("TENANT", lambda one: str(one.holder.tenant) if one.holder else None),
    Column("TYPE", lambda one: one.holder.type if one.holder else None, drop=1),
    Column("RANGE", lambda one: one.extent.range.text, wide=True),
    Column(
        "PHASE", lambda one: one.allocation.status.phase if one.allocation else None, wide=True
    ),
    Column("SINCE", _since, wide=True),
    Column("NOTE", lambda one: one.extent.note, wide=True),
)


_OTHERS: Plain[tuple[str, PoolView, Stretch]] = (
    ("IP", lambda one: one[0]),
    ("POOL", lambda one: one[1].name),
    ("STATE", lambda one: one[2].state),
    ("HOLDERS", lambda one: ", ".join(one[2].holders) or None),
    ("RANGE", lambda one: one[2].range.text),
)


def _answers_by_address(found: Sequence[Answer]) -> Iterator[dict[str, Any]]:
    """Yield an entry for each pool and address, with all holders."""
    for (address, key), group in groupby(found, lambda one: (one.address, one.pool.metadata.key)):
        every = list(group)
        extent = every[0].extent
        head = {"address": address, "pool": str(key)} | extent.document()
        yield head | {
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
