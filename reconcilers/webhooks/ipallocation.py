"""Rules for writes of IPAllocations.

    created   refused: a request that contradicts itself, or that its pool could never serve, even
              empty (reconcilers/specrules/requestspecs.py)
    updated   refused: any change of the spec

There is a warning if the pool is absent, hands out nothing now, or is full: the request waits.
Deletion is never refused, because the finalizer keeps the range until the tenant has released it.
If the range is in use, the deletion gets a warning that names its users.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from allocator import AddressRange, AllocatorError, InvalidPool, Layout
from reconcilers.addressing import familychoice, poolgeometry, requestedranges, statusranges
from reconcilers.api.ipallocation import (
    IPAllocation,
)
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.api.tenantnetwork import MOST_SERVICES
from reconcilers.networkpool.statusjournal import get_shown_kind, settle_pool_journal
from reconcilers.networkpool.view import AllocationsView
from reconcilers.reporting.wording import count_addresses
from reconcilers.specrules import requestspecs
from reconcilers.specrules.poolnamespaces import describe_refused_namespace
from reconcilers.specrules.verdict import (
    Verdict,
    build_forbidden_cause,
    build_invalid_cause,
    format_path,
)


def review_creation(
    new: IPAllocation,
    pool: NetworkPool | None,
    read_view: Callable[[], AllocationsView],
    max_addresses: int,
    namespaces: Sequence[str] = (),
) -> Verdict:
    """Return the verdict on a new request.

    Args:
        new: the request.
        pool: the pool that it names; None if there is none.
        read_view: reads the pool's allocations; called only if the verdict depends on them.
        max_addresses: the largest pool, in addresses.
        namespaces: the namespaces whose pools count; empty for all.
    """
    verdict = requestspecs.review_request(new)
    if not verdict.allowed:
        return verdict
    if pool is None:
        message = f"NetworkPool {new.pool_key} does not exist; the request waits until it does"
        return Verdict.from_causes(warnings=[f"spec.poolRef.name: {message}"])
    if refused := describe_refused_namespace(pool.metadata.namespace, namespaces):
        message = f"NetworkPool {new.pool_key} hands out nothing: {refused}"
        return Verdict.from_causes(warnings=[f"spec.poolRef.name: {message}"])
    try:
        geometry = poolgeometry.parse_layouts(pool.spec, max_addresses)
    except InvalidPool as contradicting:
        message = f"NetworkPool {new.pool_key} hands out nothing until its spec is corrected"
        return Verdict.from_causes(warnings=[f"spec.poolRef.name: {message}: {contradicting}"])
    count = requestedranges.count_requested(new, pool)
    impossible = requestspecs.find_impossibility(new, count, pool=pool, layouts=geometry)
    if impossible is not None:
        return Verdict.from_causes([build_invalid_cause(impossible.path, impossible.message)])
    return Verdict.from_causes(
        warnings=_list_waiting_warnings(new, pool, geometry=geometry, read_view=read_view)
    )


def review_update(new: IPAllocation, old: IPAllocation | None) -> Verdict:
    """Return the verdict on an edit: a changed spec is refused.

    The exception is a stored request that cannot be read: the edit may repair it.

    Args:
        new: the request as it would be.
        old: the request as it is; None if it cannot be read.
    """
    if old is None or new.spec == old.spec:
        return Verdict()
    message = "spec cannot be changed: delete the IPAllocation and create a new one"
    return Verdict.from_causes([build_forbidden_cause(("spec",), message)])


def review_deletion(old: IPAllocation, cluster: TenantCluster | None) -> Verdict:
    """Return a verdict that allows a deletion, with a warning if the range is in use.

    1. Services of the cluster use the range: the warning names them.
    2. The cluster is Ready: its Services or nodes may use the range.

    Args:
        old: the request.
        cluster: its TenantCluster, as the cache shows it; None if it has none.
    """
    held_ranges = statusranges.list_held_ranges(old)
    if not held_ranges or old.releasing or cluster is None or cluster.metadata.is_terminating:
        return Verdict()  # no range, or the range is leaving its cluster anyway
    ranges = " and ".join(span.text for span in held_ranges)
    where = f"IPAllocation {old.metadata.key} has {ranges}, which"
    key, network = cluster.metadata.key, cluster.status.network
    network_ranges = network.ranges if network is not None else ()
    services = dict.fromkeys(
        name
        for reported in network_ranges
        if (reported.namespace, reported.allocation) == old.metadata.key
        for name in reported.services
    )
    if services:
        names = list(services)[:MOST_SERVICES]
        # The status lists at most so many Services for each range.
        more = " and perhaps others" if len(services) >= MOST_SERVICES else ""
        message = f"{where} Services {', '.join(names)}{more} of TenantCluster {key} use"
        return Verdict.from_causes(warnings=[f"{message}; they lose these addresses"])
    if cluster.is_ready:
        message = f"{where} may be in use: TenantCluster {key} is Ready"
        return Verdict.from_causes(warnings=[message])
    return Verdict()


def _list_waiting_warnings(
    new: IPAllocation,
    pool: NetworkPool,
    geometry: Sequence[Layout],
    read_view: Callable[[], AllocationsView],
) -> Iterator[str]:
    """Yield warnings about a valid request: why it waits, and a count that is ignored.

    1. The pool is being deleted. No other warning follows.
    2. The pool lacks a family that the request needs. No other warning follows.
    3. Without a pinned range: no free block is large enough.
    4. The count contradicts the pinned range. It is ignored, so the request need not wait.
    5. A pinned range overlaps a held or promised range; only the first overlap is reported.
    """
    key = pool.metadata.key
    if pool.metadata.is_terminating:
        yield f"spec.poolRef.name: NetworkPool {key} is being deleted and hands out nothing"
        return
    try:
        asked = familychoice.choose_families(new, pool, [layout.family for layout in geometry])
    except AllocatorError as refused:
        yield f"spec: {refused}; the request waits"
        return
    pins = requestedranges.parse_pins(new)
    if not pins:
        yield from _list_full_pool_warnings(new, pool, asked=asked, geometry=geometry)
        return
    if new.spec.count is not None and new.spec.count != pins[0].size:
        pin_field = format_path(requestspecs.locate_pin_field(new)).removeprefix("spec.")
        yield f"spec.count: ignored, as {pin_field} names {count_addresses(pins[0].size)}"
    for (name, held_range), (index, pin) in product(
        _list_held_ranges(pool, read_view()), enumerate(pins)
    ):
        if held_range.overlaps(pin):
            message = f"{pin.text} is not free now: {name} has {held_range.text}"
            path = requestspecs.locate_pin_field(new, index)
            yield f"{format_path(path)}: {message}; the request waits"
            return


def _list_full_pool_warnings(
    new: IPAllocation,
    pool: NetworkPool,
    asked: familychoice.FamilyChoice,
    geometry: Sequence[Layout],
) -> Iterator[str]:
    """Yield a warning for each family whose largest free block is too small for a request.

    The blocks are those in the pool's status. A family without a figure there gets no warning.

    Args:
        asked: the families of the request.
        geometry: the parsed blocks of the pool.
    """
    status, count = pool.status, requestedranges.count_requested(new, pool)
    if status.observedGeneration != pool.metadata.generation:
        return  # the figures in the status are those of an earlier spec
    free = {geometry[0].family: status.largest_free}
    if status.secondary is not None:
        free[geometry[-1].family] = status.secondary.largest_free
    for family in asked.families:
        if count > free.get(family, count):
            is_required = asked.second_required or family == asked.families[0]
            consequence = "the request waits" if is_required else "the request does without it"
            field_name = "count" if new.spec.prefixLength is None else "prefixLength"
            word = f" of {familychoice.FAMILY_NAMES[family]}" if new.spec.names_families else ""
            yield (
                f"spec.{field_name}: asks for {count_addresses(count)} in a row; NetworkPool"
                f" {pool.metadata.key} has {free[family]}{word} free now; {consequence}"
            )


def _list_held_ranges(
    pool: NetworkPool, view: AllocationsView
) -> Iterator[tuple[str, AddressRange]]:
    """Yield each range of a pool that is held or promised, after kind and name of its holder."""
    for allocation in view.of_pool:
        holder = f"IPAllocation {allocation.metadata.name}"
        yield from (
            (holder, held_range) for held_range in statusranges.list_held_ranges(allocation)
        )
    for promise in settle_pool_journal(pool, view).promises:
        holder = f"{get_shown_kind(promise)} {promise.key.name}"
        yield from ((holder, promised.range) for promised in promise.ranges)
