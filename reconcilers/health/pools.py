"""Pools that hand out nothing, overlap, or have no room for waiting requests."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from allocator import Family
from controller.conditions import Condition, find_condition
from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.addressing.poolneeds import sum_pool_needs
from reconcilers.addressmap.audit import Finding, Severity, Subject
from reconcilers.addressmap.objects import Objects
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.health.conditions import build_condition_finding
from reconcilers.integrations.core.views import Views
from reconcilers.pictures.poolpicture import PoolPicture, PoolRequest
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_addresses, count_noun, name_with_count

MOST_NAMED = 3
"""The most requests that one finding names."""
POOL_OVERLAPPING = "PoolOverlapping"
"""The kind of the finding that condition Overlapping of a NetworkPool is True."""
FreeBlocks = Mapping[Family, int]
"""The number of addresses in the largest free block, for each family of a pool."""
_TRUE_IS_WRONG: Mapping[str, Severity] = {
    "Overlapping": "warning",
    "RangesOverlap": "error",
    "OutOfRange": "error",
    "ForeignManager": "error",
    "OrphanCollectionSuspended": "error",
    "CapacityExhausted": "warning",
    "Degraded": "warning",
}
"""Conditions of NetworkPools that report something wrong while they are True."""


def find_largest_free_blocks(pictures: Iterable[PoolPicture]) -> dict[Key, FreeBlocks]:
    """Return the largest free block of each family, by the key of the NetworkPool.

    A pool is left out if its spec is invalid, or if holders of its addresses could not be read:
    then addresses that look free may be held.
    """
    blocks: dict[Key, dict[Family, int]] = defaultdict(dict)
    incomplete = set[Key]()
    for picture in pictures:
        key = picture.name.key
        if picture.fault or picture.not_read:
            incomplete.add(key)
            continue
        for family in picture.families:
            assert family.family is not None, "only a picture with a fault has no family"
            blocks[key][family.family] = family.figures.capacity.largest_free
    return {key: sizes for key, sizes in blocks.items() if key not in incomplete}


def list_pool_findings(
    objects: Objects, largest_free: Mapping[Key, FreeBlocks]
) -> Iterator[Finding]:
    """Yield the findings about the pools of all kinds.

    Args:
        largest_free: the largest free blocks of each NetworkPool for which they are known.
    """
    for pool in objects.pools.values():
        yield from _list_condition_findings(pool)
    yield from _find_pools_without_room(objects, largest_free)
    yield from _list_other_pool_findings(objects.integrations)
    yield from _find_full_pools(objects, largest_free)


def _list_condition_findings(pool: NetworkPool) -> Iterator[Finding]:
    """Yield the findings that the conditions of a NetworkPool report."""
    conditions = pool.status.conditions
    ready = find_condition(conditions, READY)
    if ready is not None and ready.status == "False":
        yield _build_finding("PoolNotReady", "error", pool=pool, condition=ready)
    for kind, severity in _TRUE_IS_WRONG.items():
        condition = find_condition(conditions, kind)
        if condition is not None and condition.status == "True":
            yield _build_finding(f"Pool{kind}", severity, pool=pool, condition=condition)


def _build_finding(
    kind: str, severity: Severity, pool: NetworkPool, condition: Condition
) -> Finding:
    """Return a finding about a pool with reason and message of one of its conditions."""
    subject = Subject.from_object(NETWORK_POOL, pool)
    return build_condition_finding(
        kind, severity, subject=subject, condition=condition, prefix=f"{condition.reason}: "
    )


def _find_pools_without_room(
    objects: Objects, largest_free: Mapping[Key, FreeBlocks]
) -> Iterator[Finding]:
    """Yield a finding for each NetworkPool whose largest free block is too small for a request.

    Requests are the waiting IPAllocations and the clusters that wait for a pool.
    """
    waiting = filter(statusranges.waits_for_range, objects.allocations.values())
    clusters = (
        cluster for cluster in objects.clusters.values() if not cluster.metadata.is_terminating
    )
    needs = sum_pool_needs(clusters, objects.pools, waiting)
    for (key, family), need in sorted(needs.items()):
        if key not in largest_free or need.largest <= largest_free[key][family]:
            continue  # the free addresses are not known, or there is room
        pool = objects.pools[key]
        family_name = FAMILY_NAMES[family] if pool.spec.secondary is not None else ""
        number = count_noun(need.requests, "request waits", "requests wait")
        block = f"largest free {family_name} block" if family_name else "largest free block"
        sentence = (
            f"{number}, the largest for {count_addresses(need.largest, family_name)}; the {block}"
            f" is {largest_free[key][family]}: widen the pool, or add another to the"
            " ProviderConfig"
        )
        subject = Subject.from_object(NETWORK_POOL, pool)
        yield Finding("PoolHasNoRoomForWaiting", "error", subject=subject, sentence=sentence)


def _list_other_pool_findings(views: Views) -> Iterator[Finding]:
    """Yield findings about other platforms' pools.

    1. The pool is not ready, and the audit has no finding about it.
    2. The pool is full, and requests wait for it.
    """
    reported = {(trouble.subject, trouble.key) for trouble in views.troubles}
    for pool in views.pictures:
        subject = Subject(pool.name.kind, pool.name.key.namespace, pool.name.key.name)
        part = f" in {pool.part}" if pool.part else ""
        # A PoolName equals the pair of kind and key.
        if pool.ready == "False" and pool.name not in reported:
            yield Finding(
                "PoolNotReady", "error", subject=subject, sentence=f"{pool.reason}{part}"
            )
        is_full = not any(family.figures.capacity.available for family in pool.families)
        if pool.waiting and is_full:
            number = count_noun(len(pool.waiting), "request waits", "requests wait")
            yield Finding(
                "RequestsWait",
                "error",
                subject=subject,
                sentence=f"{number}{part}; nothing is free",
            )


def _find_full_pools(
    objects: Objects, largest_free: Mapping[Key, FreeBlocks]
) -> Iterator[Finding]:
    """Yield a finding for each NetworkPool that has no address for waiting requests.

    The requests are those of other platforms. A pool is left out if it does not exist, or if
    holders of its addresses could not be read: then addresses that look free may be held.
    """
    for key, holders in sorted(objects.integrations.holders.items()):
        pool = objects.pools.get(key)
        if pool is None or key not in largest_free:
            continue
        waiting = [
            request
            for request in holders.waiting
            if not _has_free_address(largest_free[key], request)
        ]
        if not waiting:
            continue
        number = count_noun(len(waiting), "request waits", "requests wait")
        names = [f"{request.kind} {request.key.name}" for request in waiting]
        request_names = name_with_count(names, named_at_most=MOST_NAMED)
        sentence = f"{number} for an address ({request_names}); nothing is free"
        yield Finding(
            "RequestsWait",
            "error",
            subject=Subject.from_object(NETWORK_POOL, pool),
            sentence=sentence,
        )


def _has_free_address(largest_free: FreeBlocks, request: PoolRequest) -> bool:
    """Return whether a pool has a free address of each family that a request needs."""
    return all(largest_free[family] for family in request.families)
