"""Observe KKP: NetworkPools do not hand out addresses that IPAMAllocations of KKP hold.

In this mode KKP's own controllers allocate, and this program writes no object of KKP. NetworkPools
with the same addresses count the addresses of IPAMAllocations as in use. KKP does not know
NetworkPools, so an address can be held on both sides. Then the condition RangesOverlap of the
NetworkPool and an event on the IPAMAllocation report it. Pools that share addresses are reported
earlier; an IPAMPool gets an event.

An IPAMAllocation holds its addresses in every NetworkPool that contains them. Two sites may have
the same addresses, but no field tells the site of an address.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, product
from operator import itemgetter

from typing_extensions import override

from allocator import AddressRange
from allocator.addresses import union
from allocator.errors import MalformedText
from controller.cache import Cache, Change
from controller.client import Client
from controller.events import Recorder
from controller.informer import Informer
from controller.loggers import get_logger
from controller.meta import Key, Object
from controller.outcome import SETTLED, Blocked, Outcome
from controller.runner import Controller
from controller.triggers import KeyWatch, Watch, to_self
from controller.workqueue import LOW_PRIORITY
from reconcilers.addressing import statusranges
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.core.discovery import Work
from reconcilers.integrations.core.eventmemory import StateEvents
from reconcilers.integrations.core.serving import (
    AllKindsSteps,
    IntegrationParts,
    add_integration_service,
)
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, GROUP, POOLS, IPAMAllocation
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING, parse_holding, parse_outline
from reconcilers.integrations.kubermatic.reports import ACTION
from reconcilers.networkpool.otherholders import HeldRange, ObservedRanges, OtherHoldings
from reconcilers.promises.reading import Behind
from reconcilers.promises.unreadable import check_holders, find_unreadable
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName

_log = get_logger(__name__)

UNKNOWN_RETRY = 0.5
"""Seconds until the next pass over a pool while it is not known what IPAMAllocations hold."""


def list_cidrs(pool: NetworkPool) -> Iterable[AddressRange]:
    """Yield the CIDRs of a NetworkPool; leave out those that cannot be parsed."""
    second = pool.spec.secondary
    for cidr in (pool.spec.cidr, second.cidr if second is not None else ""):
        try:
            yield AddressRange.parse_cidr(cidr)
        except MalformedText:
            continue  # the reconciler of the NetworkPool reports it


class ObservedHolders(ObservedRanges):
    """Lists addresses of NetworkPools that IPAMAllocations hold, for passes over NetworkPools."""

    def __init__(self) -> None:
        self.is_discovered = False
        """Whether discovery has found out if the API server serves KKP's kinds."""
        self.informer: Informer[IPAMAllocation] | None = None
        """Watches the IPAMAllocations; None while the API server does not serve KKP's kinds."""

    @override
    def list_ranges(self, pool: NetworkPool) -> Sequence[AddressRange]:
        """Return the ranges of a pool that IPAMAllocations hold, joined and sorted.

        Raises:
            Behind: it is not known yet what IPAMAllocations hold.
            UnreadableHolders: undecodable IPAMAllocations may hold addresses of the pool.
        """
        unknown = self._describe_unknown()
        if unknown:
            raise Behind(UNKNOWN_RETRY, f"what IPAMAllocations hold of it is not known: {unknown}")
        if self.informer is not None:
            check_observed(pool, self.informer.cache.unreadable)
        # Two IPAMAllocations may hold the same address. The pool counts it as in use once.
        parts = sorted({(part.family, part.first, part.last) for _, part in self._parts(pool)})
        return [
            AddressRange(first, last, family)
            for family, family_parts in groupby(parts, key=itemgetter(0))
            for first, last in union((first, last) for _, first, last in family_parts)
        ]

    @override
    def list_ranges_with_holders(self, pool: NetworkPool) -> Sequence[HeldRange]:
        return _list_held_ranges(self._parts(pool))

    def _describe_unknown(self) -> str:
        """Return why the holdings of IPAMAllocations are unknown; empty if they are known."""
        if not self.is_discovered:
            return "the API server has not said whether it serves them"
        if self.informer is None:
            return ""  # the API server serves no IPAMAllocations, so nothing is held
        refusal = self.informer.refusal
        # The API server rejects the LIST or the watch, so the cache is not updated any more.
        if refusal is not None:
            return str(refusal)
        cache = self.informer.cache
        return "" if cache.is_synced and cache.is_history_confirmed else "they are being listed"

    def _parts(self, pool: NetworkPool) -> Iterator[tuple[IPAMAllocation, AddressRange]]:
        """Yield the ranges of a pool that IPAMAllocations hold."""
        return list_held_parts_of(pool, self.informer.cache if self.informer is not None else ())


def list_held_parts_of(
    pool: NetworkPool, allocations: Iterable[IPAMAllocation]
) -> Iterator[tuple[IPAMAllocation, AddressRange]]:
    """Yield the ranges of a NetworkPool's CIDRs that IPAMAllocations hold."""
    cidrs = [*list_cidrs(pool)]
    for allocation in allocations:
        for part, cidr in product(parse_holding(allocation.spec).ranges, cidrs):
            shared = part.intersection(cidr)
            if shared is not None:
                yield allocation, shared


async def list_observed_holdings(client: Client, pool: NetworkPool) -> OtherHoldings:
    """Return the ranges of a NetworkPool that IPAMAllocations hold, by a LIST request.

    Raises:
        ControllerError: the list failed.
    """
    if not await client.is_served(ALLOCATIONS):
        return OtherHoldings()  # without KKP there are none
    page = await client.list(ALLOCATIONS)
    holdings = _list_held_ranges(list_held_parts_of(pool, page.items))
    return OtherHoldings(
        tuple(
            sorted(
                holdings,
                key=lambda holding: (holding.range.family, holding.range.first, holding.holder),
            )
        ),
        find_unreadable(partial(check_observed, pool, page.unreadable)),
    )


def _list_held_ranges(parts: Iterable[tuple[IPAMAllocation, AddressRange]]) -> list[HeldRange]:
    """Return held ranges with their IPAMAllocations, marked as `foreign`: KKP allocated them."""
    return [
        HeldRange(f"IPAMAllocation {allocation.metadata.key}", part, foreign=True)
        for allocation, part in parts
    ]


def check_observed(pool: NetworkPool, unreadable: Mapping[Key, str]) -> None:
    """Raise if IPAMAllocations that cannot be decoded may hold addresses of a pool.

    If at least the addresses of such an IPAMAllocation can be read, it concerns only the pools
    that have these addresses.

    Args:
        unreadable: the IPAMAllocations that cannot be decoded, with the reason.

    Raises:
        UnreadableHolders: an undecodable IPAMAllocation may hold addresses of the pool.
    """
    if not unreadable:
        return  # the usual case, at each pass: nothing to parse
    cidrs = [*list_cidrs(pool)]

    def may_concern(_: Key, outline: Object | None) -> bool:
        """Return whether the addresses in the outline are the pool's, or cannot be parsed."""
        parts = parse_outline(outline)
        return parts is None or any(part.overlaps(cidr) for part, cidr in product(parts, cidrs))

    check_holders({ALLOCATIONS.kind: unreadable}, may_concern)


def list_pools_with_addresses(
    pools: Iterable[NetworkPool], allocation: IPAMAllocation
) -> Iterable[Key]:
    """Yield the NetworkPools that have addresses of an IPAMAllocation."""
    held_ranges = parse_holding(allocation.spec).ranges
    for pool in pools:
        if any(part.overlaps(cidr) for part, cidr in product(held_ranges, list_cidrs(pool))):
            yield pool.metadata.key


class ConflictReconciler:
    """Records on IPAMAllocations which of their addresses IPAllocations hold, too.

    Args:
        observed: all IPAMAllocations.
        pools: all NetworkPools.
        allocations: all IPAllocations, indexed by pool.
        recorder: takes the events.
    """

    def __init__(
        self,
        observed: Cache[IPAMAllocation],
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        recorder: Recorder,
    ) -> None:
        self._observed = observed
        self._pools = pools
        self._allocations = allocations
        self._events = StateEvents(recorder, ACTION)

    async def reconcile(self, key: Key) -> Outcome:
        """Record which IPAllocations hold addresses of an IPAMAllocation, if that has changed."""
        if key in self._observed.unreadable:
            # The cache has an older version, whose addresses may have changed.
            return Blocked("Unreadable")
        allocation = self._observed.get(key)
        holders = sorted(self._find_conflicts(allocation)) if allocation is not None else []
        if allocation is None or not holders:
            self._events.forget(ALLOCATIONS, key)
            return SETTLED
        message = f"addresses of this allocation are also held by {', '.join(holders)}"
        self._events.report(ALLOCATIONS, allocation, reason=OVERLAPPING, message=message)
        return SETTLED

    def list_overlapping(self, allocation: IPAllocation) -> Iterable[Key]:
        """Yield the IPAMAllocations that hold addresses of an IPAllocation."""
        held_ranges = statusranges.list_held_ranges(allocation)
        if held_ranges:
            for ipam_allocation in self._observed:
                if any(
                    part.overlaps(other)
                    for part, other in product(
                        held_ranges, parse_holding(ipam_allocation.spec).ranges
                    )
                ):
                    yield ipam_allocation.metadata.key

    def _find_conflicts(self, allocation: IPAMAllocation) -> set[str]:
        """Return the IPAllocations with addresses of an IPAMAllocation, as `Kind namespace/name`.

        Only NetworkPools that have its addresses are searched.
        """
        held_ranges = parse_holding(allocation.spec).ranges
        return {
            f"IPAllocation {other.metadata.key}"
            for pool in list_pools_with_addresses(self._pools, allocation)
            for other in self._allocations.list_by_index(POOL_INDEX, str(pool))
            if any(
                part.overlaps(other_part)
                for part, other_part in product(held_ranges, statusranges.list_held_ranges(other))
            )
        }


class SharedPoolReconciler:
    """Records on IPAMPools which other pools hand out their addresses.

    Args:
        client: reads the pool that an event is about.
        spaces: what pools of all kinds hand out.
        recorder: takes the events.
    """

    def __init__(self, client: Client, spaces: SpaceIndex, recorder: Recorder) -> None:
        self._client = client
        self._spaces = spaces
        self._events = StateEvents(recorder, ACTION)

    async def reconcile(self, key: Key) -> Outcome:
        """Record an event about the pools that share addresses with an IPAMPool, if it is new."""
        # Most pools share nothing, and need no read.
        pool = await self._client.find(POOLS, key) if self._describe_sharing(key) else None
        # Described again, because the other pools may have changed during the read.
        message = self._describe_sharing(key)
        if pool is None or not message:
            self._events.forget(POOLS, key)
        else:
            self._events.report(POOLS, pool, reason=OVERLAPPING, message=message)
        return SETTLED

    def _describe_sharing(self, key: Key) -> str:
        """Describe the pools that share addresses with a pool; empty if none do."""
        return "; ".join(self._list_sentences(key))

    def _list_sentences(self, key: Key) -> Iterator[str]:
        """Yield a sentence for each datacenter of a pool that shares addresses."""
        for offer in self._spaces.get_offers(PoolName(POOLS.kind, key)):
            if sentence := self._spaces.find_sharing([offer]).sentence:
                yield f"datacenter {offer.part}: {sentence}"


def has_changed_addresses(change: Change[IPAllocation]) -> bool:
    """Return whether an IPAllocation holds other addresses than before."""
    old, new = change.old, change.new
    old_ranges = statusranges.list_held_ranges(old) if old is not None else ()
    new_ranges = statusranges.list_held_ranges(new) if new is not None else ()
    return old_ranges != new_ranges


class KubermaticObserver:
    """Keeps NetworkPools from handing out addresses that KKP has allocated.

    Args:
        parts: the objects of the process that every integration needs.
    """

    def __init__(self, parts: IntegrationParts) -> None:
        self._parts = parts
        self.holders = ObservedHolders()
        """What KKP holds of NetworkPools, for the reconciler of NetworkPools."""
        self._networkpool_controller: Controller | None = None
        self._steps = AllKindsSteps(
            parts.manager.client,
            (ALLOCATIONS,),
            missing="IPAMAllocations",
            make_work=self._make_work,
            log=_log,
        )

    def enqueue_networkpools(self, controller: Controller) -> None:
        """Let changes of IPAMAllocations enqueue NetworkPools in this controller.

        It is called before the integration begins to work, because that makes the watches.
        """
        self._networkpool_controller = controller

    async def find_served(self) -> bool:
        """Return whether IPAMAllocations are served.

        Raises:
            DiscoveryIncomplete: that is unknown.
        """
        return await self._steps.find_served()

    def is_sufficient(self, is_served: bool) -> bool:
        """Return the answer itself: True if IPAMAllocations are served."""
        return self._steps.is_sufficient(is_served)

    def begin(self, is_served: bool) -> Work | None:
        """Return the work if IPAMAllocations are served; note that discovery has found that out.

        Passes over NetworkPools wait for that note.
        """
        self.end()
        work = self._steps.begin(is_served)
        self.holders.is_discovered = True
        return work

    def end(self) -> None:
        """Let NetworkPools hand out nothing until it is known again what KKP holds."""
        self.holders.is_discovered, self.holders.informer = False, None

    def _make_work(self) -> Work:
        """Set up the observation of KKP; return the work that runs it.

        The observation is the cache of IPAMAllocations, the two controllers that record events,
        and the watch that enqueues NetworkPools.
        """
        _log.info("Observing IPAMAllocations of KKP")
        extension = self._parts.manager.create_extension(sharded=True)
        observed = extension.get_informer(ALLOCATIONS)
        self.holders.informer = observed
        reconciler = ConflictReconciler(
            observed.cache,
            self._parts.networkpools.cache,
            allocations=self._parts.allocations.cache,
            recorder=self._parts.recorder,
        )
        watches: list[Watch[IPAMAllocation] | Watch[IPAllocation]] = [
            Watch(observed, to_self),
            Watch(self._parts.allocations, reconciler.list_overlapping, has_changed_addresses),
        ]
        extension.add_controller("kubermatic-observed", reconciler.reconcile, watches=watches)
        shared = SharedPoolReconciler(extension.client, self._parts.spaces, self._parts.recorder)
        announced = KeyWatch(self._parts.overlaps.get_pools_of_kind(POOLS.kind), LOW_PRIORITY)
        extension.add_controller("kubermatic-shared", shared.reconcile, watches=[announced])
        if self._networkpool_controller is not None:
            pools = self._parts.networkpools.cache

            def list_all_pools(_: Key) -> Iterable[Key]:
                # The addresses of an IPAMAllocation that cannot be decoded are unknown.
                return (pool.metadata.key for pool in pools)

            watch = Watch(
                observed,
                lambda allocation: list_pools_with_addresses(pools, allocation),
                unreadable=list_all_pools,
            )
            watch.connect(self._networkpool_controller.queue)
        return extension.run


def add_observer(parts: IntegrationParts) -> KubermaticObserver:
    """Add the service that observes IPAMAllocations to the manager; return its steps."""
    observer = KubermaticObserver(parts)
    add_integration_service(
        parts, observer, service="kubermatic", groups=(GROUP,), every_replica=True
    )
    return observer
