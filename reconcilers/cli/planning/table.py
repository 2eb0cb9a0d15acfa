"""The outcome for people: pools with their bars, allocations, tenants, and what it comes to."""

from collections.abc import Iterator, Sequence

from allocator import AllocatorError
from controller.conditions import Condition, find
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api.ipallocation import ALLOCATED, FAILED, PENDING, RELEASED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.columns import Cell, bar, number, table
from reconcilers.cli.planning.ledger import Ledger
from reconcilers.cli.planning.whatif import Change
from reconcilers.conditions import READY
from reconcilers.networkpool.protocol import requested
from reconcilers.tenantcluster.status import NETWORK_READY

_COLOURS = {ALLOCATED: "green", FAILED: "red", PENDING: "yellow", RELEASED: None}


def render(
    ledger: Ledger, before: dict[Key, IPAllocation], changed: Sequence[Change], *, wide: bool
) -> str:
    """Return the tables.

    Args:
        ledger: the objects after the forecast.
        before: the allocations as they were in the input.
        changed: what becomes of the pools.
        wide: whether pools are told too that stay as they are.
    """
    allocations = sorted(ledger.allocations, key=_by_pool_and_place)
    parts = [
        _section("Pools", _pools(list(ledger.pools))),
        _section("Before and after", _changes(changed, wide=wide)),
        _section("Allocations", _allocations(allocations, before, ledger)),
        _section("Tenants", _tenants(list(ledger.tenants))),
        _sum(allocations, before),
    ]
    return "\n".join(part for part in parts if part)


def _section(title: str, lines: str) -> str:
    return f"{title}\n{_indented(lines)}" if lines else ""


def _indented(lines: str) -> str:
    return "".join(f"  {line}\n" for line in lines.splitlines())


def _pools(pools: Sequence[NetworkPool]) -> str:
    head = ("NAMESPACE", "NAME", "CIDR", "USED", "TOTAL", "ALLOCATED", "FREE", "LARGEST")
    rows = [
        (
            Cell(pool.metadata.namespace),
            Cell(pool.metadata.name),
            Cell(pool.spec.cidr),
            bar(pool.status.allocatedIPs, pool.status.totalIPs),
            number(pool.status.totalIPs),
            number(pool.status.allocatedIPs),
            number(pool.status.availableIPs),
            number(pool.status.largestFreeBlock),
            Cell(f"{pool.status.fragmentationPercent or 0}%", right=True),
            _state(pool.status.conditions),
        )
        for pool in pools
    ]
    return table((*head, "FRAGMENTED", "READY"), rows)


def _changes(changed: Sequence[Change], *, wide: bool) -> str:
    sizes = list(changed[0].after.fits) if changed else []
    head = ["NAMESPACE", "NAME", "ALLOCATED", "FREE", "LARGEST", "FRAGMENTED"]
    rows = [_change(one) for one in changed if wide or sizes or one.before != one.after]
    return table([*head, *(f"FITS {size.text}" for size in sizes)], rows)


def _change(one: Change) -> list[Cell]:
    old, new = one.before.capacity, one.after.capacity
    pairs = [
        (f"{old.allocated:,}", f"{new.allocated:,}"),
        (f"{old.available:,}", f"{new.available:,}"),
        (f"{old.largest_free:,}", f"{new.largest_free:,}"),
        (f"{old.fragmentation_percent}%", f"{new.fragmentation_percent}%"),
        *((f"{one.before.fits[size]:,}", f"{more:,}") for size, more in one.after.fits.items()),
    ]
    cells = [Cell(was if was == now else f"{was} -> {now}", right=True) for was, now in pairs]
    return [Cell(one.pool.metadata.namespace), Cell(one.pool.metadata.name), *cells]


def _state(conditions: Sequence[Condition]) -> Cell:
    ready = find(conditions, READY)
    if ready is None:
        return Cell("-")
    if ready.status == "True":
        return Cell("yes", "green")
    return Cell(f"no: {ready.message or ready.reason}", "red")


def _by_pool_and_place(allocation: IPAllocation) -> tuple[Key, int, int, str]:
    """Sort by pool, then by address; those without one last."""
    held = ranges.held(allocation)
    place = (0, held.first) if held is not None else (1, 0)
    return (allocation.pool_key, *place, allocation.metadata.name)


def _allocations(
    allocations: Sequence[IPAllocation], before: dict[Key, IPAllocation], ledger: Ledger
) -> str:
    rows = []
    for allocation in allocations:
        phase = allocation.status.phase or "-"
        held = ranges.held(allocation)
        rows.append(
            (
                Cell(str(allocation.pool_key)),
                Cell(allocation.metadata.name),
                Cell(str(allocation.spec.tenantClusterRef.key)),
                Cell(allocation.spec.type),
                number(held.size if held is not None else _wanted(allocation, ledger)),
                Cell(held.text if held is not None else "-"),
                Cell(phase, _COLOURS.get(phase)),
                Cell("; ".join(_remarks(allocation, before, ledger))),
            )
        )
    head = ("POOL", "ALLOCATION", "TENANT", "TYPE", "COUNT", "RANGE", "PHASE", "REMARK")
    return table(head, rows)


def _wanted(allocation: IPAllocation, ledger: Ledger) -> int | None:
    """Return how many addresses an allocation asks for; None if only an absent pool could tell."""
    try:
        pin = ranges.pinned(allocation)
    except AllocatorError:
        return None
    if pin is not None:
        return pin.size
    pool = ledger.pools.cache.get(allocation.pool_key)
    return requested(allocation, pool) if pool is not None else allocation.spec.count


def _remarks(
    allocation: IPAllocation, before: dict[Key, IPAllocation], ledger: Ledger
) -> Iterator[str]:
    key = allocation.metadata.key
    if allocation.metadata.terminating:
        yield "being deleted"
    if ranges.held(allocation) is not None:
        yield "kept" if _kept(allocation, before) else "new"
    else:
        ready = find(allocation.status.conditions, READY)
        if ready is not None:
            yield f"{ready.reason}: {ready.message}"
    if allocation.spec.pinnedRange is not None:
        yield "pinned"
    if key in ledger.asked_by:
        yield "asked for by its TenantCluster"


def _kept(allocation: IPAllocation, before: dict[Key, IPAllocation]) -> bool:
    earlier = before.get(allocation.metadata.key)
    return earlier is not None and ranges.held(earlier) is not None


def _tenants(tenants: Sequence[TenantCluster]) -> str:
    rows = []
    for tenant in tenants:
        ready = find(tenant.status.conditions, NETWORK_READY)
        served = ready is not None and ready.status == "True"
        message = ready.message if ready is not None else "-"
        rows.append(
            (
                Cell(tenant.metadata.namespace),
                Cell(tenant.metadata.name),
                Cell("yes" if served else "no", "green" if served else "red"),
                Cell(message),
            )
        )
    return table(("NAMESPACE", "NAME", "NETWORK READY", "WHY"), rows)


def _sum(allocations: Sequence[IPAllocation], before: dict[Key, IPAllocation]) -> str:
    """Return one line on how many allocations came out how."""
    holding = [one for one in allocations if ranges.held(one) is not None]
    kept = sum(_kept(one, before) for one in holding)
    failed = sum(one.status.phase == FAILED for one in allocations)
    waiting = len(allocations) - len(holding) - failed
    counts = (
        (len(holding) - kept, "newly allocated"),
        (kept, "kept"),
        (failed, "failed"),
        (waiting, "waiting"),
    )
    found = ", ".join(f"{count} {what}" for count, what in counts if count)
    noun = "allocation" if len(allocations) == 1 else "allocations"
    return f"{len(allocations)} {noun}{': ' + found if found else ''}\n"
