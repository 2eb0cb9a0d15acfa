"""What people see of IPAMPools, worked out from Clusters and IPAMAllocations.

Each datacenter of a pool hands out by itself, and is shown as a pool of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from allocator import AddressRange, InvalidPool, Space
from controller.meta import Key
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.integrations.core.drawings import Request, drawing, not_drawn
from reconcilers.integrations.core.stretches import HeldPart, stretches
from reconcilers.integrations.core.views import (
    HOST_BITS,
    Drawing,
    PoolFigures,
    PoolView,
    Severity,
    Trouble,
    Wanted,
    every_pool,
    hide_unknown,
    unreadable_troubles,
)
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    JOURNALS,
    POOLS,
    Cluster,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.holdings import (
    INVALID_ALLOCATION,
    OVERLAPPING,
    Held,
    held,
    problems,
)
from reconcilers.integrations.kubermatic.reading import (
    POOL_INDEX,
    KubermaticCaches,
    check_readable,
)
from reconcilers.integrations.kubermatic.rules import (
    describe_datacenter_fault,
    host_bit_warnings,
    list_pool_faults,
)
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace, space_of
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.reporting.wording import count_addresses
from reconcilers.spaces.offers import PoolName

METRICS = "butler_kkp_pool"
LABELS = ("pool", "datacenter")
_FINDINGS = {OVERLAPPING: "Overlap", INVALID_ALLOCATION: "Unreadable"}


@dataclass(frozen=True, slots=True)
class DatacenterContents:
    """What one datacenter of a pool may hand out, and what is held of it.

    Args:
        pool: the pool.
        name: of the datacenter.
        space: what it may hand out; None if its settings make no sense.
        fault: why, then.
        allocations: those of the pool whose `dc` is this one.
        waiting: the clusters that lack some.
        clusters: the names of clusters by their namespaces.
        unreadable: allocations of the pool that cannot be decoded.
    """

    pool: IPAMPool
    name: str
    space: DatacenterSpace | None
    fault: str
    allocations: tuple[IPAMAllocation, ...]
    waiting: tuple[Cluster, ...]
    clusters: Mapping[str, str]
    unreadable: Sequence[UnreadableObject] = ()

    def held(self) -> Iterator[HeldPart]:
        """Yield what is held and what is promised."""
        for one in self.allocations:
            for part in held(one.spec).ranges:
                yield _held(part, "held", one.metadata.key)
        by_uid = {one.metadata.uid: one for one in self.allocations}
        for promise in JOURNALS.read(self.pool).promises:
            found = by_uid.get(promise.uid)
            version = found.metadata.resourceVersion if found is not None else ""
            if version == promise.resourceVersion:
                for promised in promise.ranges:
                    yield _held(promised.range, "promised", promise.key)

    def blocks(self) -> list[AddressRange]:
        """Return what is held and what is promised, in blocks of the space."""
        if self.space is None:
            return []
        found = (self.space.blocks(one.range) for one in self.held())
        return [one for one in found if one is not None]


def _held(part: AddressRange, state: str, key: Key) -> HeldPart:
    return HeldPart(part, state, f"{ALLOCATIONS.kind} {key}", key)


def contents_of(
    caches: KubermaticCaches, wanted: Wanted = every_pool
) -> Iterator[DatacenterContents]:
    """Yield what every pool may hand out and what is held of it, by pool and datacenter.

    Args:
        caches: the objects.
        wanted: which pools.
    """
    clusters = {one.namespace: one.metadata.name for one in caches.clusters if one.namespace}
    for pool in sorted(caches.pools, key=lambda one: one.metadata.key):
        if not wanted(PoolName(POOLS.kind, pool.metadata.key)):
            continue
        check = partial(check_readable, pool.metadata.name, caches.allocations.unreadable)
        unreadable = find_unreadable(check)
        mine = list(caches.allocations.by_index(POOL_INDEX, pool.metadata.name))
        for name, settings in sorted(pool.spec.datacenters.items()):
            space, fault = None, ""
            try:
                space = space_of(settings)
            except InvalidPool as invalid:
                fault = "; ".join(invalid.messages)
            here = tuple(sorted((o for o in mine if o.spec.dc == name), key=_key))
            waiting = tuple(_waiting(caches, pool, name, space))
            yield DatacenterContents(pool, name, space, fault, here, waiting, clusters, unreadable)


def _key(one: IPAMAllocation) -> Key:
    return one.metadata.key


def _waiting(
    caches: KubermaticCaches, pool: IPAMPool, name: str, space: DatacenterSpace | None
) -> Iterator[Cluster]:
    """Yield the clusters of a datacenter that have less than they should."""
    for cluster in caches.served(name):
        one = caches.allocations.get(Key(cluster.namespace, pool.metadata.name))
        mine = held(one.spec) if one is not None and one.spec.dc == name else None
        if space is None or mine is None or not _has_all(mine, space):
            yield cluster


def _has_all(mine: Held, space: DatacenterSpace) -> bool:
    """Return whether an allocation has as much as it should have."""
    return mine.prefix is not None if space.prefixes else mine.count >= space.wanted


def figures_of(one: DatacenterContents, now: datetime) -> PoolFigures:
    """Return a datacenter of a pool in numbers."""
    labels = (one.pool.metadata.name, one.name)
    since = [c.metadata.creationTimestamp for c in one.waiting if c.metadata.creationTimestamp]
    oldest = max((now - min(since)).total_seconds(), 0.0) if since else 0.0
    if one.space is None:
        return PoolFigures(labels, 0, 0, 0, 0, len(one.waiting), oldest)
    free, total = Space(one.space.layout, one.blocks()).free, one.space.layout.total
    parts = {part.range for part in one.held()}
    outside = sum(not one.space.hands_out(part) for part in parts)
    known, waiting = not one.unreadable, len(one.waiting)
    return PoolFigures(labels, total, total - free, free, outside, waiting, oldest, known)


def view_of(one: DatacenterContents, now: datetime) -> PoolView:
    """Return what people see of a datacenter of a pool."""
    settings, space = one.pool.spec.datacenters[one.name], one.space
    by = f"/{settings.allocationPrefix}" if settings.allocationPrefix else ""
    by = by or count_addresses(settings.allocationRange)
    figures = figures_of(one, now)
    parts = list(one.held())
    free: Iterable[AddressRange] = ()
    if space is not None:
        extents = Space(space.layout, one.blocks()).free_extents()
        free = [space.addresses(blocks) for blocks in extents]
    shown = PoolView(
        POOLS.group,
        POOLS.kind,
        one.pool.metadata.key,
        f"{settings.poolCidr}, {by} each",
        figures.total,
        figures.used,
        figures.free,
        figures.outside,
        figures.waiting,
        "False" if one.fault else "True",
        one.fault,
        stretches(parts, free, lambda part: space is not None and space.hands_out(part)),
        part=one.name,
    )
    return hide_unknown(shown, one.unreadable)


def drawing_of(one: DatacenterContents, view: PoolView) -> Drawing:
    """Return a datacenter of a pool as pictures take it, with who holds and who waits."""
    meta, space = one.pool.metadata, one.space
    if space is None:
        return not_drawn(view, meta, one.fault)
    usable = [space.addresses(blocks) for blocks in space.layout.blocks]
    if not usable:
        return not_drawn(view, meta, "nothing in this datacenter may be handed out")
    whole = space.addresses(space.layout.cidr)
    return drawing(view, meta, whole, usable, list(_requests(one)))


def _requests(one: DatacenterContents) -> Iterator[IPAllocation]:
    """Yield who holds some of a datacenter, and who waits, in the form of IPAllocations."""
    pool, found = one.pool.metadata.name, {each.metadata.key: each for each in one.allocations}
    for part in one.held():
        owner = found.get(part.key)
        if owner is not None:
            tenant = one.clusters.get(part.key.namespace, part.key.namespace)
            request = Request(ALLOCATIONS.kind, owner.metadata, pool, Key("", tenant), "cluster")
            yield request.holding(part.range)
    for cluster in one.waiting:
        name = cluster.metadata.name
        yield Request(CLUSTERS.kind, cluster.metadata, pool, Key("", name), "cluster").waiting()


def audit(
    caches: KubermaticCaches,
    contents: Iterable[DatacenterContents],
    unreadable: Mapping[tuple[str, Key], str],
) -> Iterator[Trouble]:
    """Yield everything that is wrong.

    Args:
        caches: the objects.
        contents: the pools with their contents.
        unreadable: objects that could not be decoded, by kind and key, with the reason.
    """
    yield from unreadable_troubles(unreadable)
    for one in contents:
        yield from _of_datacenter(one)
    for pool in sorted(caches.pools, key=lambda one: one.metadata.key):
        for warning in host_bit_warnings(pool):
            yield Trouble(HOST_BITS, "warning", POOLS.kind, pool.metadata.key, warning)
        for fault in list_pool_faults(pool):
            yield Trouble("InvalidPool", "error", POOLS.kind, pool.metadata.key, fault)
    yield from _of_allocations(caches)


def _of_datacenter(one: DatacenterContents) -> Iterator[Trouble]:
    where = f"IPAMPool {one.pool.metadata.name} in datacenter {one.name}"
    if one.space is None:
        sentence = f"datacenter {one.name} hands out nothing: {one.fault}"
        yield Trouble("InvalidPool", "error", POOLS.kind, one.pool.metadata.key, sentence)
        return
    if fault := describe_datacenter_fault(one.pool, one.name):
        yield Trouble("InvalidPool", "error", POOLS.kind, one.pool.metadata.key, fault)
    found = {each.metadata.key: each for each in one.allocations}
    for key, problem in sorted(problems(one.allocations, one.space).items()):
        kind = _FINDINGS.get(problem.reason, "OutOfRange")
        severity: Severity = "warning" if kind == "OutOfRange" else "error"
        sentence = f"{where}: {problem.message}"
        yield _trouble(kind, severity, found[key], sentence)


def _trouble(kind: str, severity: Severity, one: IPAMAllocation, sentence: str) -> Trouble:
    """Return the trouble of an allocation; one that is deleted is made anew if it is used."""
    key = one.metadata.key
    return Trouble(kind, severity, ALLOCATIONS.kind, key, sentence, one, removable=True)


def _of_allocations(caches: KubermaticCaches) -> Iterator[Trouble]:
    """Yield the troubles of allocations that are not used, or cannot be."""
    for one in sorted(caches.allocations, key=_key):
        key, pool = one.metadata.key, caches.pools.get(one.pool)
        if one.empty:
            sentence = "has no addresses; MetalLB refuses a pool that is made of it"
            yield _trouble("NoAddresses", "warning", one, sentence)
        if pool is None:
            if one.pool not in caches.pools.unreadable:
                sentence = f"its IPAMPool {one.metadata.name} does not exist"
                yield _trouble("UnknownPool", "warning", one, sentence)
        elif one.spec.dc not in pool.spec.datacenters:
            sentence = f"is of datacenter {one.spec.dc}, which its IPAMPool does not have"
            yield _trouble("UnknownPool", "warning", one, sentence)
        named = any(cluster.namespace == key.namespace for cluster in caches.clusters)
        if not named and not caches.clusters.unreadable:  # the namespace is in a Cluster's status
            sentence = f"no {CLUSTERS.kind} has namespace {key.namespace}; it stays in use"
            yield _trouble("Unclaimed", "warning", one, sentence)
