"""`butler-ipam pools`, `tenants` and `whois`: tables of pools, of tenants, and of addresses.

An *answer* is what one pool says about the addresses that a user asks `whois` about.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import click

from allocator import AddressRange, AllocatorError, Capacity
from reconcilers.addressing import statusranges
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import draw_pools
from reconcilers.addressmap.tenants import Holding, list_holdings
from reconcilers.api import names
from reconcilers.api.resources import NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli import names as completed
from reconcilers.cli.cluster.drawing import build_state_cell
from reconcilers.cli.cluster.findingnames import format_full_kind
from reconcilers.cli.cluster.follow import follow
from reconcilers.cli.cluster.objects import (
    ReadingScope,
    build_scope,
    read_all,
    read_namespace_objects,
    report_unreadable,
)
from reconcilers.cli.cluster.poolnames import draw_selected_pools, find_common_namespace
from reconcilers.cli.forms import Form
from reconcilers.cli.output import (
    STATUS_COLOURS,
    Cell,
    TableColumn,
    build_percent_cell,
    build_report,
    draw_bar,
    fit_table,
    shorten_number,
    show,
)
from reconcilers.cli.problems import EXIT_PROBLEM, print_problem
from reconcilers.cli.sharedflags import output_option, scope_options, watch_option
from reconcilers.pictures.documents import (
    build_extent_document,
    build_pool_document,
    build_pool_name_document,
)
from reconcilers.pictures.extents import AddressHolder, Extent
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture
from reconcilers.reporting.wording import name_with_count


class PoolRow(NamedTuple):
    """A row of the table of pools: one family of a pool."""

    pool: PoolPicture
    family: PoolFamily

    @property
    def not_read(self) -> Sequence[str]:
        """The lists and objects that may hold addresses of the pool and were not read."""
        return self.pool.not_read

    @property
    def capacity(self) -> Capacity:
        """The figures of the family: total, allocated, free."""
        return self.family.figures.capacity


FigureT = TypeVar("FigureT", PoolRow, Holding)
"""A row with figures that are known only if all objects that they count were read."""


def _show_if_known(
    value: Callable[[FigureT], Cell | str | int | None],
) -> Callable[[FigureT], Cell | str | int | None]:
    """Return a function for a column: it shows a figure, or "unknown" if holders were not read."""
    return lambda row: Cell("unknown", right=True) if row.not_read else value(row)


def _show_pool_name(row: PoolRow) -> str:
    """Return the name of a pool, with its part in brackets if it has parts."""
    name, part = row.pool.name.key.name, row.pool.part
    return f"{name} ({part})" if part else name


_POOLS: Sequence[TableColumn[PoolRow]] = (
    TableColumn("KIND", lambda row: row.pool.name.kind, drop=1),
    TableColumn("NAMESPACE", lambda row: row.pool.name.key.namespace, drop=2),
    TableColumn("NAME", _show_pool_name),
    TableColumn("OFFERS", lambda row: row.family.offers, narrow=lambda row: row.family.label),
    TableColumn(
        "USED",
        _show_if_known(lambda row: draw_bar(row.capacity.allocated, row.capacity.total)),
        narrow=_show_if_known(
            lambda row: draw_bar(row.capacity.allocated, row.capacity.total, 10)
        ),
    ),
    TableColumn("TOTAL", lambda row: row.capacity.total, drop=5),
    TableColumn("ALLOCATED", _show_if_known(lambda row: row.capacity.allocated), drop=4),
    TableColumn("FREE", _show_if_known(lambda row: row.capacity.available)),
    TableColumn("LARGEST", _show_if_known(lambda row: row.capacity.largest_free), drop=3),
    TableColumn(
        "FRAG",
        _show_if_known(lambda row: build_percent_cell(row.capacity.fragmentation_percent)),
        drop=6,
    ),
    TableColumn("WAITING", _show_if_known(lambda row: len(row.pool.waiting))),
    TableColumn("READY", lambda row: Cell(row.pool.ready, STATUS_COLOURS.get(row.pool.ready))),
    TableColumn("OUTSIDE", _show_if_known(lambda row: row.family.figures.outside), wide=True),
    TableColumn("HOLDERS", _show_if_known(lambda row: row.family.holder_count), wide=True),
    TableColumn("TENANTS", _show_if_known(lambda row: row.family.tenant_count), wide=True),
    TableColumn("WHY", lambda row: Cell(row.pool.reason), wide=True),
)


@click.command()
@click.argument("names", metavar="[POOL]...", nargs=-1, shell_complete=completed.complete_pools)
@scope_options
@output_option()
@watch_option()
def pools(names: tuple[str, ...], output: Form, watch: bool, **values: Any) -> None:
    """Show how full every pool is: NetworkPools, and the pools of other platforms.

    POOL is NAME or NAMESPACE/NAME, and may have KIND/ before it: NetworkPool/lab. A name that
    several pools have is rejected with their full names. Without a name, all pools are shown.
    The figures are computed from the objects that hold addresses; a pool's own status may be a
    moment behind. A pool that hands out prefixes is counted in prefixes, any other in addresses.
    """
    where = build_scope(values)
    # If all names are of one namespace, only that namespace is read: a user who may read one
    # namespace alone needs no -n beside NAMESPACE/NAME.
    read_from = replace(where, namespace=where.namespace or find_common_namespace(names))

    def as_text(objects: Objects) -> str:
        """Return the table of the selected pools."""
        selected = draw_selected_pools(objects.select_namespace(where.namespace), names)
        rows = [PoolRow(pool, family) for pool in selected for family in pool.families]
        return fit_table(_POOLS, rows, output) or "no pools were found\n"

    if watch:
        follow(read_from, output, as_text)
        return
    objects = read_all(read_from).select_namespace(where.namespace)
    report_unreadable(objects, NETWORK_POOL, where.namespace)
    pictures = draw_selected_pools(objects, names)
    show(
        output,
        lambda: build_report("PoolList", items=map(build_pool_document, pictures)),
        object_names=((pool.full_kind, pool.name.key.name) for pool in pictures),
        as_text=partial(as_text, objects),
    )


def _show_sizes(
    allocation_type: str, format_number: Callable[[int], str] = "{:,}".format
) -> Callable[[Holding], Cell | str | int | None]:
    """Return a function for a column: it shows a tenant's number of addresses for each family.

    The cell is "unknown" if the user may not read the tenant's allocations.

    Args:
        allocation_type: the type of the allocations that are counted.
        format_number: returns a number as text; by default with separators of thousands.
    """
    return _show_if_known(
        lambda tenant: Cell(
            " + ".join(map(format_number, tenant.count_by_family(allocation_type))) or "0",
            right=True,
        )
    )


def _join_ranges(ranges: Sequence[AddressRange]) -> str:
    """Return ranges as text, separated by commas."""
    return ", ".join(span.text for span in ranges)


_TENANTS: Sequence[TableColumn[Holding]] = (
    TableColumn("NAMESPACE", lambda holding: holding.key.namespace),
    TableColumn("NAME", lambda holding: holding.key.name),
    TableColumn("PHASE", lambda holding: holding.phase, drop=1),
    TableColumn(
        "NODES",
        _show_sizes(names.TYPE_NODES),
        narrow=_show_sizes(names.TYPE_NODES, shorten_number),
    ),
    TableColumn(
        "LB",
        _show_sizes(names.TYPE_LOADBALANCER),
        narrow=_show_sizes(names.TYPE_LOADBALANCER, shorten_number),
    ),
    TableColumn("GROWN", _show_if_known(lambda tenant: tenant.growth_count), drop=2),
    TableColumn("WAITING", _show_if_known(lambda tenant: tenant.waiting_count)),
    TableColumn("SERVICES", lambda tenant: tenant.waiting_service_count, drop=3),
    TableColumn(
        "READY",
        lambda tenant: Cell(
            tenant.worst_condition[0], STATUS_COLOURS.get(tenant.worst_condition[0])
        ),
    ),
    TableColumn(
        "NODE RANGES",
        _show_if_known(lambda tenant: _join_ranges(tenant.list_ranges(names.TYPE_NODES))),
        wide=True,
    ),
    TableColumn(
        "LB RANGES",
        _show_if_known(lambda tenant: _join_ranges(tenant.list_ranges(names.TYPE_LOADBALANCER))),
        wide=True,
    ),
    TableColumn("WHY", lambda holding: Cell(holding.worst_condition[1]), wide=True),
)


@click.command()
@scope_options
@output_option()
@watch_option()
def tenants(output: Form, watch: bool, **values: Any) -> None:
    """Show what every TenantCluster holds and waits for, and the worst of its conditions.

    With -n, only TenantClusters of that namespace are shown, and the right to read TenantClusters
    there suffices. In the table, WAITING counts requests for addresses, and SERVICES counts the
    tenant's Services without an address.
    """
    where = build_scope(values)

    def list_selected(objects: Objects) -> list[Holding]:
        """Return the holdings of the tenants in the namespace of -n."""
        return [
            holding
            for holding in list_holdings(objects)
            if where.namespace in {"", holding.key.namespace}
        ]

    def as_text(objects: Objects) -> str:
        """Return the table of the selected tenants."""
        selected = list_selected(objects)
        return fit_table(_TENANTS, selected, output) or "no TenantClusters were found\n"

    if watch:
        follow(where, output, as_text, required=(TENANT_CLUSTER,))
        return
    objects = read_all(where, required=(TENANT_CLUSTER,))
    report_unreadable(objects, TENANT_CLUSTER, where.namespace)
    tenant_holdings = list_selected(objects)
    names = (("tenantcluster", holding.key.name) for holding in tenant_holdings)
    show(
        output,
        lambda: build_report(
            "TenantHoldingList", items=map(_build_holding_document, tenant_holdings)
        ),
        object_names=names,
        as_text=partial(as_text, objects),
    )


def _build_holding_document(holding: Holding) -> dict[str, Any]:
    """Return the holding of a tenant for programs."""
    status, why = holding.network_ready
    limits = {"notRead": [str(limit) for limit in holding.not_read]} if holding.not_read else {}
    return {
        "namespace": holding.key.namespace,
        "name": holding.key.name,
        "phase": holding.phase,
        "networkReady": status,
        "reason": why,
        "waiting": None if holding.not_read else holding.waiting_count,
        "servicesWaiting": holding.waiting_service_count,
        "worstStatus": holding.worst_condition[0],
        "worstMessage": holding.worst_condition[1],
        **limits,
        "allocations": [
            {
                "name": str(allocation.metadata.key),
                "pool": str(allocation.pool_key),
                "type": allocation.spec.type,
                "role": holding.find_allocation_role(allocation),
                "phase": allocation.status.phase,
                "range": held_range.text
                if (held_range := statusranges.find_held_range(allocation)) is not None
                else None,
                "size": held_range.size if held_range is not None else 0,
                "ranges": [span.text for span in statusranges.list_held_ranges(allocation)],
            }
            for allocation in holding.allocations
        ],
    }


class PoolAnswer(NamedTuple):
    """The answer of one pool about addresses: a range of the pool, and one of its holders.

    If ranges overlap, there is one answer for each holder.

    Args:
        asked: the addresses that the user asks about.
        address: the part of them that is in the range.
        holder: None if nobody holds the range.
    """

    asked: AddressRange
    address: str
    pool: PoolPicture
    extent: Extent
    holder: AddressHolder | None


def _parse_address(addresses: str) -> AddressRange:
    """Return the addresses of an argument: an address, a CIDR or a range.

    An IPv6 address that stands for an IPv4 address, such as ::ffff:10.40.0.1, is returned as that
    IPv4 address, as in Go.

    Raises:
        BadParameter: the text is no address, no CIDR and no range.
    """
    start, _, end = addresses.partition("-")
    try:
        span = (
            AddressRange.parse_cidr(addresses)
            if "/" in addresses
            else AddressRange.parse(start.strip(), (end or start).strip())
        )
    except AllocatorError as error:
        hint = ""
        if addresses[:1].isalpha() and ":" not in addresses:
            hint = (
                "; whois takes addresses: for names, use `butler-ipam tenants` for TenantClusters,"
                f" `butler-ipam explain {addresses}` for a TenantCluster or an IPAllocation, and"
                f" `butler-ipam map {addresses}` for a pool"
            )
        raise click.BadParameter(f"{error}{hint}") from error
    return span.convert_to_family(4) or span


@click.command(
    epilog="Exit code: 0 if every address is in a pool, 1 if an address is in no pool, 2 if an"
    " argument is not an address."
)
@click.argument(
    "addresses", metavar="IP|CIDR|IP-IP...", nargs=-1, required=True, type=_parse_address
)
@scope_options
@output_option()
@click.pass_context
def whois(
    ctx: click.Context, /, addresses: tuple[AddressRange, ...], output: Form, **values: Any
) -> None:
    """Show who holds an address: the pool, the allocation, the tenant.

    Sites may use the same addresses, so several pools may answer. IP may be written in any way,
    ::ffff:10.40.0.1 too. A CIDR or a range, 10.40.0.0/28 or 10.40.0.0-10.40.0.9, is shown in
    parts: one for each range of a pool that overlaps it, free ranges included.
    """
    where = build_scope(values)
    objects = read_namespace_objects(where)
    pictures = draw_pools(objects)
    address_answers = [
        answer for address in addresses for answer in find_answers(pictures, address)
    ]
    show(
        output,
        lambda: build_report("AddressList", items=_build_documents(address_answers)),
        object_names=_list_holder_names(address_answers),
        as_text=lambda: fit_table(_ANSWERS, address_answers, output),
    )
    answered_addresses = {answer.asked for answer in address_answers}
    unknown_addresses = [address for address in addresses if address not in answered_addresses]
    for address in unknown_addresses:
        print_problem("error", _describe_unknown(_describe_addresses(address), where, objects))
    if unknown_addresses:
        ctx.exit(EXIT_PROBLEM)


def _describe_unknown(address: str, where: ReadingScope, objects: Objects) -> str:
    """Return a sentence: no pool that was read has an address; where else to look for it.

    Args:
        address: the address, CIDR or range.
        where: the cluster or the files that were read.
        objects: the objects that were read.
    """
    readable = " that you may read" if objects.all_not_read else ""
    if where.namespace:
        searched = f" of namespace {where.namespace} or of the whole cluster"
    elif where.files:
        searched = " in the files"
    else:
        searched = "" if readable else " of any namespace"
    sentence = f"no pool{readable}{searched} contains {address}"
    unreadable = [f"NetworkPool {key}" for key in sorted(objects.find_unreadable(NETWORK_POOL))]
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


def _describe_addresses(addresses: AddressRange) -> str:
    """Return a single address or a range as text."""
    return addresses.start_text if addresses.size == 1 else addresses.text


def find_answers(pictures: Iterable[PoolPicture], asked: AddressRange) -> Iterator[PoolAnswer]:
    """Yield the answers of all pools that have some of the addresses.

    Each range of a pool that overlaps them gives an answer for each of its holders; a range
    without holders gives one answer.
    """
    for pool in pictures:
        for extent in (extent for family in pool.families for extent in family.known_extents):
            part = extent.range.intersection(asked)
            if part is None:
                continue
            for holder in extent.holders or (None,):
                yield PoolAnswer(
                    asked, _describe_addresses(part), pool=pool, extent=extent, holder=holder
                )


def _list_holder_names(address_answers: Iterable[PoolAnswer]) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each holder, as `kubectl get -o name` prints them."""
    for holder in (answer.holder for answer in address_answers):
        if holder is not None:
            yield format_full_kind(holder.kind), holder.key.name


def _show_since(answer: PoolAnswer) -> str | None:
    """Return the time since which the holder has the range.

    None if the range has no holder, or the time is not known.
    """
    since = answer.holder.since if answer.holder else None
    return since.isoformat() if since else None


_ANSWERS: Sequence[TableColumn[PoolAnswer]] = (
    TableColumn("IP", lambda answer: answer.address),
    TableColumn(
        "POOL", lambda answer: answer.pool.title, narrow=lambda row: row.pool.name.key.name
    ),
    TableColumn("STATE", lambda answer: build_state_cell(answer.extent.state)),
    TableColumn(
        "HOLDER",
        lambda answer: answer.holder.text if answer.holder else None,
        narrow=lambda answer: answer.holder.key.name if answer.holder else None,
    ),
    TableColumn("TENANT", lambda answer: answer.holder.tenant if answer.holder else None),
    TableColumn("TYPE", lambda answer: answer.holder.purpose if answer.holder else None, drop=1),
    TableColumn("RANGE", lambda answer: answer.extent.range.text, wide=True),
    TableColumn(
        "PHASE",
        lambda answer: (answer.holder.phase or None) if answer.holder else None,
        wide=True,
    ),
    TableColumn("SINCE", _show_since, wide=True),
    TableColumn("NOTE", lambda answer: answer.extent.note, wide=True),
)


def _build_documents(address_answers: Iterable[PoolAnswer]) -> Iterator[dict[str, Any]]:
    """Yield a document for each range of a pool that has some of the addresses.

    The answers about one range differ in their holders only. The document has all holders.
    """
    # The answers about one range follow each other. A pool is told by its identity here, because
    # an IPAMPool has a picture for each datacenter, all with one name.
    for _, group in groupby(
        address_answers, lambda answer: (answer.asked, answer.address, id(answer.pool))
    ):
        answer = next(group)  # any answer of the group: they have the same extent
        yield {
            "address": answer.address,
            "pool": build_pool_name_document(answer.pool),
            **build_extent_document(answer.extent),
        }
