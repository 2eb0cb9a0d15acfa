"""Pools that hand out nothing, overlap, or have no room for what waits."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from controller.conditions import Condition, find
from controller.meta import Key
from reconcilers.addressing import requestedranges, statusranges
from reconcilers.addressmap.audit import Finding, Severity, Subject
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import PoolPicture
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.health.conditions import finding_of_condition
from reconcilers.integrations.core.views import Views
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_addresses, count_noun, name_with_count

MOST_NAMED = 3
"""Requests that one finding names."""
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


def largest_free_blocks(pictures: Iterable[PoolPicture]) -> dict[Key, int]:
    """Return the largest free block of each NetworkPool of which everything could be read."""
    return {
        picture.name.key: picture.usage.capacity.largest_free
        for picture in pictures
        if not picture.picture.fault and not picture.not_read
    }


def pool_findings(objects: Objects, largest_free: Mapping[Key, int]) -> Iterator[Finding]:
    """Yield what is wrong with the pools of all kinds.

    Args:
        objects: the objects.
        largest_free: the largest free block of each NetworkPool.
    """
    for pool in objects.pools.values():
        yield from _network_pool(pool)
    yield from _no_room(objects, largest_free)
    yield from _other_pools(objects.integrations)
    yield from _requests_of_other_kinds(objects, largest_free)


def _network_pool(pool: NetworkPool) -> Iterator[Finding]:
    """Yield what the conditions of a NetworkPool report."""
    conditions = pool.status.conditions
    ready = find(conditions, READY)
    if ready is not None and ready.status == "False":
        yield _finding("PoolNotReady", "error", pool, ready)
    for kind, severity in _TRUE_IS_WRONG.items():
        condition = find(conditions, kind)
        if condition is not None and condition.status == "True":
            yield _finding(f"Pool{kind}", severity, pool, condition)


def _finding(kind: str, severity: Severity, pool: NetworkPool, condition: Condition) -> Finding:
    """Return a finding about a pool; see finding_of_condition."""
    subject = Subject.from_object(NETWORK_POOL, pool)
    return finding_of_condition(kind, severity, subject, condition, f"{condition.reason}: ")


def _no_room(objects: Objects, largest_free: Mapping[Key, int]) -> Iterator[Finding]:
    """Yield the NetworkPools whose largest free block is smaller than a request that waits."""
    needs: dict[Key, list[int]] = defaultdict(list)
    for allocation in objects.allocations.values():
        pool = objects.pools.get(allocation.pool_key)
        if (
            pool is None
            or allocation.metadata.terminating
            or statusranges.find_held_range(allocation)
        ):
            continue
        needs[allocation.pool_key].append(requestedranges.count_requested(allocation, pool))
    for cluster in objects.clusters.values():
        waiting = cluster.status.network.waiting if cluster.status.network else ()
        for request in waiting:
            if request.allocation or request.reason != "PoolExhausted":
                continue
            for name in request.pools:
                needs[Key(request.namespace, name)].append(request.addresses)
    for key, counts in sorted(needs.items()):
        if key not in largest_free or max(counts) <= largest_free[key]:
            continue
        number = count_noun(len(counts), "request waits", "requests wait")
        sentence = (
            f"{number}, the largest for {count_addresses(max(counts))} in a row; the largest free"
            f" block is {largest_free[key]}: widen the pool, or add another to the ProviderConfig"
        )
        subject = Subject.from_object(NETWORK_POOL, objects.pools[key])
        yield Finding("PoolHasNoRoomForWaiting", "error", subject, sentence)


def _other_pools(views: Views) -> Iterator[Finding]:
    """Yield the pools of other platforms that are not ready, or full while requests wait.

    A pool of which the audit already reports what is wrong is left out.
    """
    reported = {(trouble.subject, trouble.key) for trouble in views.troubles}
    for pool in views.pools:
        subject = Subject(pool.kind, pool.key.namespace, pool.key.name)
        part = f" in {pool.part}" if pool.part else ""
        if pool.ready == "False" and (pool.kind, pool.key) not in reported:
            yield Finding("PoolNotReady", "error", subject, f"{pool.reason}{part}")
        if pool.waiting and not pool.free:
            number = count_noun(pool.waiting, "request waits", "requests wait")
            yield Finding("RequestsWait", "error", subject, f"{number}{part}; nothing is free")


def _requests_of_other_kinds(
    objects: Objects, largest_free: Mapping[Key, int]
) -> Iterator[Finding]:
    """Yield the full NetworkPools for which requests of other platforms wait.

    A pool of which not everything could be read is not called full.
    """
    for key, requests in sorted(objects.integrations.requests.items()):
        pool = objects.pools.get(key)
        waiting = [request for request in requests if not statusranges.list_held_ranges(request)]
        if pool is None or not waiting or largest_free.get(key) != 0:
            continue
        number = count_noun(len(waiting), "request waits", "requests wait")
        names = [request.metadata.name for request in waiting]
        named = name_with_count(names, named_at_most=MOST_NAMED)
        sentence = f"{number} for an address ({named}); nothing is free"
        yield Finding("RequestsWait", "error", Subject.from_object(NETWORK_POOL, pool), sentence)
