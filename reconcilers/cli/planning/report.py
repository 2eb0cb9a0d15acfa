"""The outcome of a plan: tables for people, changes of pools, and how many more tenants fit.

A *block* is the part of a pool for one address family, as a NetworkPool of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from allocator import (
    AddressRange,
    AllocatorError,
    Capacity,
    InvalidPool,
    PoolExhausted,
    Space,
    utilization_percent,
)
from controller.conditions import Condition, find_condition
from controller.meta import Key
from reconcilers.addressing import poolgeometry, requestedranges, statusranges
from reconcilers.api.ipallocation import ALLOCATED, FAILED, PENDING, IPAllocation
from reconcilers.api.networkpool import NetworkPool, NetworkPoolStatus
from reconcilers.api.tenantcluster import NETWORK_READY, TenantCluster
from reconcilers.cli.forms import Form
from reconcilers.cli.output import (
    GAP,
    Cell,
    TableColumn,
    build_number_cell,
    build_percent_cell,
    build_report,
    draw_bar,
    fit_table,
    wrap_line,
)
from reconcilers.cli.planning.outcome import PlannedObjects
from reconcilers.cli.reading.manifests import Manifests
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.pictures.documents import build_capacity_document
from reconcilers.promises.journal import list_ranges
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_noun

T = TypeVar("T")

HeldByPool = Mapping[Key, Sequence[AddressRange]]
"""The held ranges of each pool, by its namespace and name."""


class Size(NamedTuple):
    """The addresses in a row that one tenant takes of a pool, by their use; 0 for none."""

    nodes: int
    balancers: int


class PoolSupply(NamedTuple):
    """Whether a pool hands out addresses, and whether all its holders are known.

    Args:
        is_open: whether the pool hands out its free addresses.
        unreadable: the objects that may hold addresses of the pool and cannot be decoded, as text;
            empty if there are none.
    """

    is_open: bool
    unreadable: str


class PoolStanding(NamedTuple):
    """The figures of a pool at one time, and how many more tenants of each size would fit."""

    capacity: Capacity
    fits: Mapping[Size, int]


class BlockChange(NamedTuple):
    """The change of one block of a pool.

    Args:
        pool: the block.
        before: the figures in the input.
        after: the figures after the plan.
        unreadable: the objects that may hold addresses of the pool and cannot be decoded, as text;
            empty if there are none. With such objects, held and free addresses are unknown.
    """

    pool: NetworkPool
    before: PoolStanding
    after: PoolStanding
    unreadable: str = ""


def list_changes(
    read: Manifests,
    planned: PlannedObjects,
    sizes: Sequence[Size],
    max_addresses: int,
    *,
    platform_held: tuple[HeldByPool, HeldByPool],
    find_supply: Callable[[NetworkPool], PoolSupply],
) -> list[BlockChange]:
    """Return the change of every block of a pool whose spec is valid.

    Args:
        read: the objects of the input.
        planned: the objects after the plan.
        sizes: the sizes of tenants to count.
        max_addresses: the largest pool that the controllers accept, in addresses.
        platform_held: the ranges that requests of other platforms hold, before and after the plan.
        find_supply: returns whether a pool hands out addresses.
    """
    platform_held_before, platform_held_after = platform_held
    held_before = _collect_held_ranges(
        [manifest.object for manifest in read.allocations], platform_held_before
    )
    held_after = _collect_held_ranges(planned.allocations, platform_held_after)
    input_pools = {manifest.key: manifest.object for manifest in read.pools}
    block_pairs = (
        pair
        for pool in planned.pools
        for pair in zip(input_pools[pool.metadata.key].blocks, pool.blocks, strict=True)
    )
    pool_changes = []
    for input_block, block in block_pairs:
        supply = find_supply(block)
        measure = partial(
            _measure_block, sizes=sizes, max_addresses=max_addresses, closed=not supply.is_open
        )
        before = measure(input_block, held_before)
        after = measure(block, held_after)
        if before is not None and after is not None:
            pool_changes.append(
                BlockChange(block, before, after=after, unreadable=supply.unreadable)
            )
    return pool_changes


def _collect_held_ranges(
    allocations: Iterable[IPAllocation], platform_held: HeldByPool
) -> HeldByPool:
    """Return the held ranges of each pool: those of allocations, and those in `platform_held`."""
    held_by_pool = {key: list(ranges) for key, ranges in platform_held.items()}
    for allocation in allocations:
        held_by_pool.setdefault(allocation.pool_key, []).extend(
            statusranges.list_held_ranges(allocation)
        )
    return held_by_pool


def _measure_block(
    pool: NetworkPool,
    held_by_pool: HeldByPool,
    sizes: Sequence[Size],
    max_addresses: int,
    *,
    closed: bool,
) -> PoolStanding | None:
    """Return the figures of a block; None if its spec is invalid.

    Held ranges count as taken, and so do ranges that the pool has promised to requests.

    Args:
        pool: the block.
        held_by_pool: the held ranges of all pools.
        sizes: the sizes of tenants to count.
        max_addresses: the largest pool that the controllers accept, in addresses.
        closed: whether the pool hands out nothing, so that no tenant fits.
    """
    try:
        layout = poolgeometry.parse_layout(pool.spec, max_addresses)
    except InvalidPool:
        return None
    promised = list_ranges(STATUS_JOURNALS.read(pool).promises)
    taken_ranges = [*held_by_pool.get(pool.metadata.key, ()), *promised]
    fits = {
        size: 0 if closed else count_tenants(Space(layout, taken_ranges), size) for size in sizes
    }
    return PoolStanding(Space(layout, taken_ranges).compute_capacity(), fits)


def count_tenants(space: Space, size: Size) -> int:
    """Return how many more tenants of a size fit, if the controllers choose their ranges.

    The function takes ranges from `space` until no further tenant fits.
    """
    counts = [count for count in (size.balancers, size.nodes) if count]
    if len(counts) == 1:
        return sum(extent.size // counts[0] for extent in space.free_extents())
    tenants = 0
    while True:
        # Best fit takes from the shortest free block with room. If that block has room for several
        # whole tenants, all their ranges come from it, so these tenants are counted at once.
        many = space.find_shortest_free_length(min(counts)) // sum(counts)
        try:
            for count in (many * sum(counts),) if many else counts:
                space.allocate(count)
        except PoolExhausted:
            return tenants
        tenants += many or 1


def build_document(pool_changes: Iterable[BlockChange]) -> dict[str, Any]:
    """Return the changes as a document for programs."""
    items = [
        {
            "namespace": change.pool.metadata.namespace,
            "name": change.pool.metadata.name,
            "cidr": change.pool.spec.cidr,
            "before": _build_figures(change.before, unreadable=change.unreadable),
            "after": _build_figures(change.after, unreadable=change.unreadable),
            **({"notRead": change.unreadable} if change.unreadable else {}),
        }
        for change in pool_changes
    ]
    return build_report("PoolForecastList", items=items)


def _build_figures(standing: PoolStanding, *, unreadable: str) -> dict[str, Any]:
    """Return the figures of a block for programs; a figure is None if holders are unreadable."""
    fits = [
        {
            "nodes": size.nodes,
            "loadBalancers": size.balancers,
            "tenants": None if unreadable else count,
        }
        for size, count in standing.fits.items()
    ]
    numbers: dict[str, int | None] = {**build_capacity_document(standing.capacity)}
    if unreadable:  # only the total does not depend on the holders
        numbers = {**dict.fromkeys(numbers), "total": standing.capacity.total}
    return {**numbers, "fits": fits}


_COLOURS: Mapping[str | None, str] = {ALLOCATED: "green", FAILED: "red", PENDING: "yellow"}


def render_plan(
    planned: PlannedObjects,
    before: Mapping[Key, IPAllocation],
    changed: Sequence[BlockChange],
    form: Form,
) -> str:
    """Return the tables for people.

    Args:
        planned: the objects after the plan.
        before: the allocations of the input.
        changed: the changes of blocks; unchanged blocks are listed with -o wide only.
        form: the output form.
    """
    allocations = sorted(planned.allocations, key=_build_allocation_sort_key)
    parts = [
        _render_section("Pools", _POOLS, rows=_list_pool_rows(planned, changed), form=form),
        _render_section(
            "Before and after", *_build_change_table(changed, wide=form == "wide"), form
        ),
        _render_section(
            "Allocations", _build_allocation_columns(before, planned), rows=allocations, form=form
        ),
        _render_section("Tenants", _TENANTS, rows=planned.tenants, form=form),
        _summarize(allocations, before),
    ]
    return "\n".join(part for part in parts if part)


def _render_section(
    title: str, columns: Sequence[TableColumn[T]], rows: Sequence[T], form: Form
) -> str:
    """Return a titled table; empty if it has no rows."""
    return f"{title}\n{fit_table(columns, rows, form, indent=GAP)}" if rows else ""


_UNKNOWN = Cell("unknown", right=True)


class PlannedPool(NamedTuple):
    """One block of a pool after the plan.

    Args:
        pool: the block, with the figures in its status.
        size: the number of its addresses, if unreadable holders make the other figures unknown;
            None if the figures are known.
    """

    pool: NetworkPool
    size: int | None


def _list_pool_rows(planned: PlannedObjects, changed: Sequence[BlockChange]) -> list[PlannedPool]:
    """Return a row for each block of all pools.

    Args:
        changed: the changes of blocks. If holders of a block are unreadable, its row has the size
            from here: the figures in the pool's status are not known then.
    """
    sizes = {
        (change.pool.metadata.key, change.pool.spec.cidr): change.after.capacity.total
        for change in changed
        if change.unreadable
    }
    return [
        PlannedPool(block, sizes.get((block.metadata.key, block.spec.cidr)))
        for pool in planned.pools
        for block in pool.blocks
    ]


def _show_if_known(
    figure: Callable[[NetworkPoolStatus], Cell | int],
) -> Callable[[PlannedPool], Cell | int]:
    """Return a function for a column: it shows a figure of a pool's status, or "unknown"."""
    return lambda row: _UNKNOWN if row.size is not None else figure(row.pool.status)


_POOLS: Sequence[TableColumn[PlannedPool]] = (
    TableColumn("NAMESPACE", lambda row: row.pool.metadata.namespace),
    TableColumn("NAME", lambda row: row.pool.metadata.name),
    TableColumn("CIDR", lambda row: row.pool.spec.cidr),
    TableColumn(
        "USED",
        _show_if_known(lambda status: draw_bar(status.allocated, status.total)),
        narrow=_show_if_known(
            lambda status: build_percent_cell(utilization_percent(status.allocated, status.total))
        ),
    ),
    TableColumn("TOTAL", lambda row: row.size or row.pool.status.total, drop=1),
    TableColumn("ALLOCATED", _show_if_known(lambda status: status.allocated), drop=2),
    TableColumn("FREE", _show_if_known(lambda status: status.available)),
    TableColumn("LARGEST", _show_if_known(lambda status: status.largest_free), drop=3),
    TableColumn(
        "FRAGMENTED",
        _show_if_known(lambda status: build_percent_cell(status.fragmentationPercent)),
        drop=4,
    ),
    TableColumn("READY", lambda row: _show_ready(row.pool.status.conditions), wraps=True),
)


def _show_ready(conditions: Sequence[Condition]) -> Cell | None:
    """Return a cell for the condition Ready; None if there is no such condition."""
    ready = find_condition(conditions, READY)
    if ready is None:
        return None
    if ready.status == "True":
        return Cell("yes", "green")
    return Cell(f"no: {ready.message or ready.reason}", "red")


def _build_change_table(
    changed: Sequence[BlockChange], *, wide: bool
) -> tuple[Sequence[TableColumn[BlockChange]], Sequence[BlockChange]]:
    """Return the columns and the rows of the table "Before and after".

    A block without a change is a row only with -o wide, or if sizes of tenants are given.
    """
    # All blocks were measured for the same sizes.
    sizes = list(changed[0].after.fits) if changed else []
    columns: list[TableColumn[BlockChange]] = [
        TableColumn("NAMESPACE", lambda change: change.pool.metadata.namespace),
        TableColumn("NAME", lambda change: change.pool.metadata.name),
        TableColumn("CIDR", lambda change: change.pool.spec.cidr),
        TableColumn(
            "ALLOCATED", _show_before_and_after(lambda block: f"{block.capacity.allocated:,}")
        ),
        TableColumn("FREE", _show_before_and_after(lambda block: f"{block.capacity.available:,}")),
        TableColumn(
            "LARGEST", _show_before_and_after(lambda block: f"{block.capacity.largest_free:,}")
        ),
        TableColumn(
            "FRAGMENTED",
            _show_before_and_after(lambda block: f"{block.capacity.fragmentation_percent}%"),
        ),
    ]
    for size in sizes:
        fits = _show_before_and_after(partial(_show_fit, size))
        columns.append(TableColumn(f"FITS {size.nodes}+{size.balancers}", fits))
    return columns, [
        change for change in changed if wide or sizes or change.before != change.after
    ]


def _show_fit(size: Size, standing: PoolStanding) -> str:
    """Return how many more tenants of a size fit into a block, as text."""
    return f"{standing.fits[size]:,}"


def _show_before_and_after(figure: Callable[[PoolStanding], str]) -> Callable[[BlockChange], Cell]:
    """Return a function for a column: it shows a figure, and both values if it changes."""

    def build_cell(change: BlockChange) -> Cell:
        """Return the figure, or "unknown" if holders of the pool are unreadable."""
        if change.unreadable:
            return _UNKNOWN
        old, new = figure(change.before), figure(change.after)
        return Cell(old if old == new else f"{old} -> {new}", right=True)

    return build_cell


def _build_allocation_sort_key(allocation: IPAllocation) -> tuple[Key, int, int, str]:
    """Return the sort key of an allocation: pool, first address, name; without a range last."""
    span = statusranges.find_held_range(allocation)
    range_order = (0, span.first) if span is not None else (1, 0)
    return (allocation.pool_key, *range_order, allocation.metadata.name)


def _build_allocation_columns(
    before: Mapping[Key, IPAllocation], planned: PlannedObjects
) -> Sequence[TableColumn[IPAllocation]]:
    """Return the columns of the table "Allocations"."""
    return (
        TableColumn("POOL", lambda allocation: str(allocation.pool_key)),
        TableColumn("ALLOCATION", lambda allocation: allocation.metadata.name),
        TableColumn("TENANT", lambda allocation: str(allocation.spec.tenantClusterRef.key)),
        TableColumn("TYPE", lambda allocation: allocation.spec.type),
        TableColumn(
            "COUNT", lambda allocation: build_number_cell(_find_count(allocation, planned))
        ),
        TableColumn(
            "RANGE",
            lambda allocation: ", ".join(
                span.text for span in statusranges.list_held_ranges(allocation)
            ),
        ),
        TableColumn(
            "PHASE",
            lambda allocation: Cell(
                allocation.status.phase or "-", _COLOURS.get(allocation.status.phase)
            ),
        ),
        TableColumn(
            "REMARK",
            lambda allocation: Cell("; ".join(_list_remarks(allocation, before, planned))),
            wraps=True,
        ),
    )


def _find_count(allocation: IPAllocation, planned: PlannedObjects) -> int | None:
    """Return how many addresses an allocation holds or asks for; None if it is not known.

    It is not known if a pinned range is invalid, or if the number is the default of a pool that
    does not exist.
    """
    try:
        pin = statusranges.find_held_range(allocation) or requestedranges.parse_first_pin(
            allocation
        )
    except AllocatorError:
        return None
    if pin is not None:
        return pin.size
    pool = planned.find_pool(allocation.pool_key)
    return (
        requestedranges.count_requested(allocation, pool)
        if pool is not None
        else allocation.spec.count
    )


def _list_remarks(
    allocation: IPAllocation, before: Mapping[Key, IPAllocation], planned: PlannedObjects
) -> Iterator[str]:
    """Yield the remarks about an allocation: deletion, new or kept, why it waits, its origin."""
    key = allocation.metadata.key
    if allocation.metadata.is_terminating:
        yield "being deleted"
    if statusranges.find_held_range(allocation) is not None:
        yield "kept" if was_served(allocation, before) else "new"
    else:
        ready = find_condition(allocation.status.conditions, READY)
        if ready is not None:
            yield f"{ready.reason}: {ready.message}"
    if allocation.spec.is_pinned:
        yield "pinned"
    if key in planned.created:
        yield "asked for by its TenantCluster"


def was_served(allocation: IPAllocation, before: Mapping[Key, IPAllocation]) -> bool:
    """Return whether an allocation holds a range in the input."""
    earlier = before.get(allocation.metadata.key)
    return earlier is not None and statusranges.find_held_range(earlier) is not None


_TENANTS: Sequence[TableColumn[TenantCluster]] = (
    TableColumn("NAMESPACE", lambda tenant: tenant.metadata.namespace),
    TableColumn("NAME", lambda tenant: tenant.metadata.name),
    TableColumn("NETWORK READY", lambda tenant: _show_yes_or_no(_find_network_condition(tenant))),
    TableColumn(
        "WHY",
        lambda tenant: Cell(ready.message if (ready := _find_network_condition(tenant)) else "-"),
        wraps=True,
    ),
)


def _find_network_condition(tenant: TenantCluster) -> Condition | None:
    """Return the condition NetworkReady of a cluster; None if there is none."""
    return find_condition(tenant.status.conditions, NETWORK_READY)


def _show_yes_or_no(condition: Condition | None) -> Cell:
    """Return a cell that says whether a condition is True."""
    is_met = condition is not None and condition.status == "True"
    return Cell("yes", "green") if is_met else Cell("no", "red")


def _summarize(allocations: Sequence[IPAllocation], before: Mapping[Key, IPAllocation]) -> str:
    """Return one line with the numbers of new, kept, failed and waiting allocations."""
    holding = [
        allocation
        for allocation in allocations
        if statusranges.find_held_range(allocation) is not None
    ]
    kept_count = sum(was_served(allocation, before) for allocation in holding)
    failed = sum(allocation.status.phase == FAILED for allocation in allocations)
    waiting = len(allocations) - len(holding) - failed
    counts = (
        (len(holding) - kept_count, "newly allocated"),
        (kept_count, "kept"),
        (failed, "failed"),
        (waiting, "waiting"),
    )
    summary = ", ".join(f"{count} {outcome}" for count, outcome in counts if count)
    line = f"{count_noun(len(allocations), 'allocation')}{': ' + summary if summary else ''}"
    return wrap_line(line, GAP)
