"""What is refused of IPAllocations.

    created   a range that is none; a request that its pool could never serve, even empty
    updated   any change of spec

A pool that does not exist (it may come later), hands out nothing now, or is only full is worth a
warning: the request waits. Deletion is never refused; the finalizer sees to its order.
"""

from collections.abc import Callable, Iterator

from allocator import AddressRange, AllocatorError, InvalidPool
from reconcilers import poolspec, ranges
from reconcilers.api.ipallocation import ONE_SIZE, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.protocol import settle
from reconcilers.networkpool.view import View
from reconcilers.webhooks.verdict import Verdict, forbidden, invalid

PINNED = ("spec", "pinnedRange")


def created(
    new: IPAllocation, pool: NetworkPool | None, view: Callable[[], View], max_addresses: int
) -> Verdict:
    """Validate a new request.

    Args:
        new: the request.
        pool: the pool that it names; None if there is none.
        view: reads the pool's allocations; called only if the verdict depends on them.
        max_addresses: the largest pool, in addresses.
    """
    alone = judged_alone(new)
    if not alone.allowed:
        return alone
    if pool is None:
        what = f"NetworkPool {new.pool_key} does not exist; the request waits until it does"
        return Verdict.from_causes(warnings=[f"spec.poolRef.name: {what}"])
    try:
        geometry = ranges.layout(pool.spec, max_addresses)
    except InvalidPool as contradicting:
        what = f"NetworkPool {new.pool_key} hands out nothing until its spec is corrected"
        return Verdict.from_causes(warnings=[f"spec.poolRef.name: {what}: {contradicting}"])
    impossible = poolspec.never(new, ranges.requested(new, pool), pool, geometry)
    if impossible is not None:
        return Verdict.from_causes([invalid(impossible.path, impossible.message)])
    return Verdict.from_causes(warnings=_waiting_warnings(new, pool, view))


def judged_alone(new: IPAllocation) -> Verdict:
    """Judge what a request says of itself, whatever pool it names."""
    try:
        ranges.pinned(new)
    except AllocatorError as malformed:
        return Verdict.from_causes([invalid(PINNED, str(malformed))])
    spec = new.spec
    if spec.prefixLength is not None and (spec.count is not None or spec.pinnedRange is not None):
        return Verdict.from_causes([forbidden(("spec", "prefixLength"), ONE_SIZE.message)])
    return Verdict()


def updated(new: IPAllocation, old: IPAllocation | None) -> Verdict:
    """Validate a change of spec: there is none. One that cannot be read may be repaired.

    Args:
        new: the request as it would be.
        old: the request as it is; None if it cannot be read.
    """
    if old is None or new.spec == old.spec:
        return Verdict()
    what = "spec cannot be changed: delete the IPAllocation, ask again"
    return Verdict.from_causes([forbidden(("spec",), what)])


def _waiting_warnings(
    new: IPAllocation, pool: NetworkPool, view: Callable[[], View]
) -> Iterator[str]:
    """Warn of what keeps a request waiting that could be served at another time."""
    key = pool.metadata.key
    if pool.metadata.terminating:
        yield f"spec.poolRef.name: NetworkPool {key} is being deleted and hands out nothing"
        return
    wanted = ranges.pinned(new)
    if wanted is None:
        yield from _full(new, pool)
        return
    if new.spec.count is not None and new.spec.count != wanted.size:
        yield f"spec.count: ignored, as pinnedRange names {wanted.size} addresses"
    for name, held in _held(pool, view()):
        if held.overlaps(wanted):
            yield (
                f"spec.pinnedRange: {wanted.text} is not free now: IPAllocation {name} has"
                f" {held.text}; the request waits"
            )
            return


def _full(new: IPAllocation, pool: NetworkPool) -> Iterator[str]:
    """Warn of a request that is larger than the largest free block of its pool."""
    status, count = pool.status, ranges.requested(new, pool)
    looked = status.observedGeneration == pool.metadata.generation
    if looked and count > status.largest_free:
        field = "count" if new.spec.prefixLength is None else "prefixLength"
        yield (
            f"spec.{field}: asks for {count} addresses in a row; NetworkPool"
            f" {pool.metadata.key} has {status.largest_free} free now; the request waits"
        )


def _held(pool: NetworkPool, view: View) -> Iterator[tuple[str, AddressRange]]:
    """Yield the ranges that allocations hold or are promised, with the allocations' names."""
    for one in view.of_pool:
        held = ranges.held(one)
        if held is not None:
            yield one.metadata.name, held
    for promise in settle(pool, view).open:
        promised = ranges.promised(promise)
        if promised is not None:
            yield promise.name, promised
