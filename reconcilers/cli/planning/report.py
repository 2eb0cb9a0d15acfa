"""The outcome of a plan: tables for people, what becomes of the pools, and what more would fit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, starmap
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
from controller.conditions import Condition, find
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
    bar,
    fit_table,
    number,
    percent,
    report,
    wrap_line,
)
from reconcilers.cli.planning.outcome import PlannedObjects
from reconcilers.cli.reading.manifests import Manifests
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.pictures.documents import capacity_document
from reconcilers.promises.journal import ranges_of
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_noun

T = TypeVar("T")

HeldByPool = Mapping[Key, Sequence[AddressRange]]
"""What is held of pools, by their namespaces and names."""


class Size(NamedTuple):
    """What one tenant takes of a pool, in addresses in a row; 0 for none."""

    nodes: int
    balancers: int


class PoolSupply(NamedTuple):
    """What a pool gives.

    Args:
        is_open: whether it hands out what it has free.
        unreadable: which objects that may hold addresses of it cannot be decoded; empty for none.
    """

    is_open: bool
    unreadable: str


class PoolStanding(NamedTuple):
    """A pool's space at one time, and how many more tenants of each size find room in it."""

    capacity: Capacity
    fits: Mapping[Size, int]


class BlockChange(NamedTuple):
    """What becomes of one block of a pool.

    Args:
        pool: the block.
        before: as it was.
        after: as it would be.
        unreadable: which objects that may hold addresses of it cannot be decoded; empty for none.
            What is held and what is free of it is unknown then.
    """

    pool: NetworkPool
    before: PoolStanding
    after: PoolStanding
    unreadable: str = ""


def changes(
    read: Manifests,
    planned: PlannedObjects,
    sizes: Sequence[Size],
    most: int,
    *,
    also_held: tuple[HeldByPool, HeldByPool],
    find_supply: Callable[[NetworkPool], PoolSupply],
) -> list[BlockChange]:
    """Return the change of every pool that can be served from.

    Args:
        read: the objects as they were.
        planned: the objects as they would be.
        sizes: of tenants to try.
        most: the largest pool that the controllers accept, in addresses.
        also_held: what requests of other kinds hold of pools, before and after.
        find_supply: returns whether a pool hands out what it has free.
    """
    earlier = _held_by_pool([manifest.object for manifest in read.allocations], also_held[0])
    later = _held_by_pool(planned.allocations, also_held[1])
    statuses = {manifest.key: manifest.object for manifest in read.pools}
    pool_changes = []
    both = ((statuses[pool.metadata.key].blocks, pool.blocks) for pool in planned.pools)
    for was, pool in chain.from_iterable(starmap(partial(zip, strict=True), both)):
        supply = find_supply(pool)
        before = _standing(was, earlier, sizes=sizes, most=most, closed=not supply.is_open)
        after = _standing(pool, later, sizes=sizes, most=most, closed=not supply.is_open)
        if before is not None and after is not None:
            pool_changes.append(
                BlockChange(pool, before, after=after, unreadable=supply.unreadable)
            )
    return pool_changes


def _held_by_pool(allocations: Iterable[IPAllocation], also_held: HeldByPool) -> HeldByPool:
    """Return the ranges of each pool that allocations and requests of other kinds hold."""
    held_by_pool = {key: list(ranges) for key, ranges in also_held.items()}
    for allocation in allocations:
        held_by_pool.setdefault(allocation.pool_key, []).extend(
            statusranges.list_held_ranges(allocation)
        )
    return held_by_pool


def _standing(
    pool: NetworkPool,
    held_by_pool: HeldByPool,
    sizes: Sequence[Size],
    most: int,
    *,
    closed: bool,
) -> PoolStanding | None:
    """Return the space of a block as it is; None if its spec is invalid.

    Args:
        pool: the block.
        held_by_pool: what is held.
        sizes: of tenants to try.
        most: the largest pool that the controllers accept, in addresses.
        closed: whether the pool hands out nothing.
    """
    try:
        layout = poolgeometry.parse_layout(pool.spec, most)
    except InvalidPool:
        return None
    promised = ranges_of(STATUS_JOURNALS.read(pool).promises)
    taken_ranges = [*held_by_pool.get(pool.metadata.key, ()), *promised]
    fits = {size: 0 if closed else more(Space(layout, taken_ranges), size) for size in sizes}
    return PoolStanding(Space(layout, taken_ranges).capacity(), fits)


def more(space: Space, size: Size) -> int:
    """Return how many tenants of a size find room, by the controllers' own choice of ranges.

    The counting uses up `space`.
    """
    counts = [count for count in (size.balancers, size.nodes) if count]
    if len(counts) == 1:
        return sum(extent.size // counts[0] for extent in space.free_extents())
    tenants = 0
    while True:
        # The shortest block that any range goes into serves tenants alone while it has both.
        many = space.shortest_free(min(counts)) // sum(counts)
        try:
            for count in (many * sum(counts),) if many else counts:
                space.allocate(count)
        except PoolExhausted:
            return tenants
        tenants += many or 1


def document(pool_changes: Iterable[BlockChange]) -> dict[str, Any]:
    """Return the changes as a document for programs."""
    items = [
        {
            "namespace": change.pool.metadata.namespace,
            "name": change.pool.metadata.name,
            "cidr": change.pool.spec.cidr,
            "before": _figures(change.before, unreadable=change.unreadable),
            "after": _figures(change.after, unreadable=change.unreadable),
            **({"notRead": change.unreadable} if change.unreadable else {}),
        }
        for change in pool_changes
    ]
    return report("PoolForecastList", items=items)


def _figures(standing: PoolStanding, *, unreadable: str) -> dict[str, Any]:
    """Return the figures for programs; those that are not known are None."""
    fits = [
        {
            "nodes": size.nodes,
            "loadBalancers": size.balancers,
            "tenants": None if unreadable else count,
        }
        for size, count in standing.fits.items()
    ]
    numbers: dict[str, int | None] = {**capacity_document(standing.capacity)}
    if unreadable:
        numbers = {**dict.fromkeys(numbers), "total": standing.capacity.total}
    return {**numbers, "fits": fits}


_COLOURS: Mapping[str | None, str] = {ALLOCATED: "green", FAILED: "red", PENDING: "yellow"}


def render(
    planned: PlannedObjects,
    before: Mapping[Key, IPAllocation],
    changed: Sequence[BlockChange],
    form: Form,
) -> str:
    """Return the tables for people; with -o wide, pools that stay as they are are listed, too."""
    allocations = sorted(planned.allocations, key=_by_pool_and_place)
    parts = [
        _section("Pools", _POOLS, rows=_pool_rows(planned, changed), form=form),
        _section("Before and after", *_changes(changed, wide=form == "wide"), form),
        _section("Allocations", _allocation_columns(before, planned), rows=allocations, form=form),
        _section("Tenants", _TENANTS, rows=planned.tenants, form=form),
        _sum(allocations, before),
    ]
    return "\n".join(part for part in parts if part)


def _section(title: str, columns: Sequence[TableColumn[T]], rows: Sequence[T], form: Form) -> str:
    return f"{title}\n{fit_table(columns, rows, form, indent=GAP)}" if rows else ""


_UNKNOWN = Cell("unknown", right=True)


class PlannedPool(NamedTuple):
    """One block of a pool, as its status would be.

    Args:
        pool: the block.
        size: how many addresses it has if it is not known which are free; None if that is known.
    """

    pool: NetworkPool
    size: int | None


def _pool_rows(planned: PlannedObjects, changed: Sequence[BlockChange]) -> list[PlannedPool]:
    """Return the blocks of all pools."""
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


def _if_known(
    figure: Callable[[NetworkPoolStatus], Cell | int],
) -> Callable[[PlannedPool], Cell | int]:
    """Return a column's value for a pool: a figure of its status, or unknown."""
    return lambda row: _UNKNOWN if row.size is not None else figure(row.pool.status)


_POOLS: Sequence[TableColumn[PlannedPool]] = (
    TableColumn("NAMESPACE", lambda row: row.pool.metadata.namespace),
    TableColumn("NAME", lambda row: row.pool.metadata.name),
    TableColumn("CIDR", lambda row: row.pool.spec.cidr),
    TableColumn(
        "USED",
        _if_known(lambda status: bar(status.allocated, status.total)),
        narrow=_if_known(
            lambda status: percent(utilization_percent(status.allocated, status.total))
        ),
    ),
    TableColumn("TOTAL", lambda row: row.size or row.pool.status.total, drop=1),
    TableColumn("ALLOCATED", _if_known(lambda status: status.allocated), drop=2),
    TableColumn("FREE", _if_known(lambda status: status.available)),
    TableColumn("LARGEST", _if_known(lambda status: status.largest_free), drop=3),
    TableColumn(
        "FRAGMENTED", _if_known(lambda status: percent(status.fragmentationPercent)), drop=4
    ),
    TableColumn("READY", lambda row: _ready(row.pool.status.conditions), wraps=True),
)


def _ready(conditions: Sequence[Condition]) -> Cell | None:
    ready = find(conditions, READY)
    if ready is None:
        return None
    if ready.status == "True":
        return Cell("yes", "green")
    return Cell(f"no: {ready.message or ready.reason}", "red")


def _changes(
    changed: Sequence[BlockChange], *, wide: bool
) -> tuple[Sequence[TableColumn[BlockChange]], Sequence[BlockChange]]:
    """Return the columns and the rows of what changes."""
    sizes = list(changed[0].after.fits) if changed else []
    columns: list[TableColumn[BlockChange]] = [
        TableColumn("NAMESPACE", lambda change: change.pool.metadata.namespace),
        TableColumn("NAME", lambda change: change.pool.metadata.name),
        TableColumn("CIDR", lambda change: change.pool.spec.cidr),
        TableColumn("ALLOCATED", _before_and_after(lambda at: f"{at.capacity.allocated:,}")),
        TableColumn("FREE", _before_and_after(lambda at: f"{at.capacity.available:,}")),
        TableColumn("LARGEST", _before_and_after(lambda at: f"{at.capacity.largest_free:,}")),
        TableColumn(
            "FRAGMENTED", _before_and_after(lambda at: f"{at.capacity.fragmentation_percent}%")
        ),
    ]
    for size in sizes:
        fits = _before_and_after(partial(_fits, size))
        columns.append(TableColumn(f"FITS {size.nodes}+{size.balancers}", fits))
    return columns, [
        change for change in changed if wide or sizes or change.before != change.after
    ]


def _fits(size: Size, at: PoolStanding) -> str:
    return f"{at.fits[size]:,}"


def _before_and_after(figure: Callable[[PoolStanding], str]) -> Callable[[BlockChange], Cell]:
    """Return a column's value for a figure: both values where it changes."""

    def cell(change: BlockChange) -> Cell:
        if change.unreadable:
            return _UNKNOWN
        was, now = figure(change.before), figure(change.after)
        return Cell(was if was == now else f"{was} -> {now}", right=True)

    return cell


def _by_pool_and_place(allocation: IPAllocation) -> tuple[Key, int, int, str]:
    """Sort by pool, then by address; those without one last."""
    span = statusranges.find_held_range(allocation)
    place = (0, span.first) if span is not None else (1, 0)
    return (allocation.pool_key, *place, allocation.metadata.name)


def _allocation_columns(
    before: Mapping[Key, IPAllocation], planned: PlannedObjects
) -> Sequence[TableColumn[IPAllocation]]:
    return (
        TableColumn("POOL", lambda allocation: str(allocation.pool_key)),
        TableColumn("ALLOCATION", lambda allocation: allocation.metadata.name),
        TableColumn("TENANT", lambda allocation: str(allocation.spec.tenantClusterRef.key)),
        TableColumn("TYPE", lambda allocation: allocation.spec.type),
        TableColumn("COUNT", lambda allocation: number(_find_count(allocation, planned))),
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
            lambda allocation: Cell("; ".join(_remarks(allocation, before, planned))),
            wraps=True,
        ),
    )


def _find_count(allocation: IPAllocation, planned: PlannedObjects) -> int | None:
    """Return how many addresses an allocation has or asks for.

    None if that depends on a pool that is absent.
    """
    try:
        pin = statusranges.find_held_range(allocation) or requestedranges.parse_first_pin(
            allocation
        )
    except AllocatorError:
        return None
    if pin is not None:
        return pin.size
    pool = planned.pool(allocation.pool_key)
    return (
        requestedranges.count_requested(allocation, pool)
        if pool is not None
        else allocation.spec.count
    )


def _remarks(
    allocation: IPAllocation, before: Mapping[Key, IPAllocation], planned: PlannedObjects
) -> Iterator[str]:
    key = allocation.metadata.key
    if allocation.metadata.terminating:
        yield "being deleted"
    if statusranges.find_held_range(allocation) is not None:
        yield "kept" if was_served(allocation, before) else "new"
    else:
        ready = find(allocation.status.conditions, READY)
        if ready is not None:
            yield f"{ready.reason}: {ready.message}"
    if allocation.spec.is_pinned:
        yield "pinned"
    if key in planned.created:
        yield "asked for by its TenantCluster"


def was_served(allocation: IPAllocation, before: Mapping[Key, IPAllocation]) -> bool:
    """Return whether an allocation held a range in the input already."""
    earlier = before.get(allocation.metadata.key)
    return earlier is not None and statusranges.find_held_range(earlier) is not None


_TENANTS: Sequence[TableColumn[TenantCluster]] = (
    TableColumn("NAMESPACE", lambda tenant: tenant.metadata.namespace),
    TableColumn("NAME", lambda tenant: tenant.metadata.name),
    TableColumn("NETWORK READY", lambda tenant: _yes_or_no(_network(tenant))),
    TableColumn(
        "WHY",
        lambda tenant: Cell(ready.message if (ready := _network(tenant)) else "-"),
        wraps=True,
    ),
)


def _network(tenant: TenantCluster) -> Condition | None:
    return find(tenant.status.conditions, NETWORK_READY)


def _yes_or_no(condition: Condition | None) -> Cell:
    met = condition is not None and condition.status == "True"
    return Cell("yes", "green") if met else Cell("no", "red")


def _sum(allocations: Sequence[IPAllocation], before: Mapping[Key, IPAllocation]) -> str:
    """Return one line on how many allocations came out how."""
    holding = [
        allocation
        for allocation in allocations
        if statusranges.find_held_range(allocation) is not None
    ]
    kept = sum(was_served(allocation, before) for allocation in holding)
    failed = sum(allocation.status.phase == FAILED for allocation in allocations)
    waiting = len(allocations) - len(holding) - failed
    counts = (
        (len(holding) - kept, "newly allocated"),
        (kept, "kept"),
        (failed, "failed"),
        (waiting, "waiting"),
    )
    summary = ", ".join(f"{count} {outcome}" for count, outcome in counts if count)
    line = f"{count_noun(len(allocations), 'allocation')}{': ' + summary if summary else ''}"
    return wrap_line(line, GAP)
