"""From which pool: the first in priority whose free space fits, after all who wait were served.

Counting the waiting keeps clusters that are created together from all choosing a pool that has
room for one of them. What will be free is kept up to date: it is computed once from all
allocations of the pool, then changed with every event, so a request costs no more in a pool of ten
thousand allocations than in one of ten. Waiting requests are placed by best fit in the order of
arrival, as the pool's own pass is about to do. It is advice for choosing a pool, and the pool's
pass decides: where an event contradicts a placement, all of it is computed again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import chain, product
from itertools import count as counter

from allocator import AddressRange, AllocatorError, Family, InvalidPool, Layout, Space
from controller.cache import Cache, Change
from controller.meta import Key
from reconcilers.addressing import familychoice, poolgeometry, rangetaking, statusranges
from reconcilers.api.ipallocation import POOL_INDEX, PREFER_DUAL_STACK, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import Networking
from reconcilers.networkpool.facts import KIND, place, row, waits
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Promise, ranges_of
from reconcilers.promises.queue import Rows, Turns
from reconcilers.specrules.poolnamespaces import describe_refused_namespace
from reconcilers.tenantcluster.allocations.refusals import (
    PoolRefusal,
    PoolState,
    describe_free_blocks,
)


class PoolForecast:
    """What will be free in one pool once all waiting requests were served.

    Args:
        geometry: what its spec says, of each family.
        allocations: those that name it.
        position: how far the reader of those has read.
    """

    def __init__(
        self,
        pool: NetworkPool,
        geometry: Sequence[Layout],
        allocations: Iterable[IPAllocation],
        position: int,
    ) -> None:
        self.generation = pool.metadata.generation
        self.stale = False
        """Whether a change contradicted a placement, so that it has to be computed again."""
        self._pool = pool
        self._promised = _promises(pool)
        self._placed: dict[str, tuple[AddressRange, ...]] = {}
        self._unplaced: dict[str, IPAllocation] = {}
        self._queue = Rows[tuple[datetime, Holder, str]]()
        self._known: dict[str, IPAllocation] = {a.metadata.uid: a for a in allocations}
        for allocation in self._known.values():
            exact = self._list_known_ranges(allocation)
            if exact:
                self._placed[allocation.metadata.uid] = exact
        self._take_unseen(position)
        ranges = list(chain.from_iterable(self._placed.values()))
        self._spaces = [Space(layout, ranges) for layout in geometry]
        for allocation in self._in_order(self._known.values()):
            self._place(allocation)

    def fits(self, count: int, position: int, asked: Networking, *, whole: bool) -> bool:
        """Return whether `count` addresses in a row will be free of each family that is needed.

        Args:
            count: how many.
            position: how far the reader of the allocations has read by now.
            asked: of which families they should be.
            whole: whether a family that is only preferred is needed, too.
        """
        self._free_unseen(position)
        needed = self._list_needed_spaces(asked, whole=whole)
        return bool(needed) and all(space.fits(count) for space in needed)

    def _list_needed_spaces(self, asked: Networking, *, whole: bool) -> list[Space]:
        """Return the spaces of the families that are needed; none if the pool lacks one."""
        by_family = {space.layout.family: space for space in self._spaces}
        try:
            choice = familychoice.choose_cluster_families(asked, self._pool, tuple(by_family))
        except AllocatorError:
            return []
        if whole and asked.ipFamilyPolicy == PREFER_DUAL_STACK and len(choice.families) < 2:
            return []
        all_of_them = whole or choice.second_required
        families = choice.families if all_of_them else choice.families[:1]
        return [by_family[family] for family in families]

    def is_placed(self, allocation: IPAllocation) -> bool:
        """Return whether an allocation of this pool has, or is about to get, a range."""
        return allocation.metadata.uid in self._placed

    def reserve(self, name: str, count: int, asked: Networking) -> None:
        """Keep `count` addresses of each family for a request about to be made, until `forget`."""
        needed = self._served_from(count, asked)
        if needed:
            self._placed[name] = tuple(space.allocate(count) for space in needed)

    def obstacle(self, count: int, position: int, asked: Networking) -> str:
        """Return why the pool cannot serve a request: what it lacks, or its largest free blocks.

        Args:
            count: how many addresses in a row of each family the request needs.
            position: how far the reader of the allocations has read by now.
            asked: the families that the request needs.
        """
        self._free_unseen(position)
        needed = self._list_needed_spaces(asked, whole=False)
        if not needed:
            return "lacks a family of the request"
        if all(space.fits(count) for space in needed):
            return "has room"  # the request that was refused is about to be served
        return describe_free_blocks({s.layout.family: s.largest_free for s in needed})

    def families(self, count: int, asked: Networking) -> set[Family]:
        """Return of which families a request for `count` addresses would get some."""
        return {space.layout.family for space in self._served_from(count, asked)}

    def _served_from(self, count: int, asked: Networking) -> list[Space]:
        """Return the spaces that would serve a request, as it prefers; none if it would wait."""
        for whole in (True, False):
            needed = self._list_needed_spaces(asked, whole=whole)
            if needed and all(space.fits(count) for space in needed):
                return needed
        return []

    def forget(self, name: str) -> None:
        """Free what an allocation, or a reservation, was expected to get."""
        self._leave_queue(name)
        placed = self._placed.pop(name, None)
        if placed is None:
            return
        for space, span in product(self._spaces, placed):
            self._try(partial(space.release, span))
        self._place_queue()

    def drop(self, allocation: IPAllocation) -> None:
        """Update for an allocation that is gone."""
        self._known.pop(allocation.metadata.uid, None)
        self.forget(allocation.metadata.uid)

    def note(self, allocation: IPAllocation) -> None:
        """Update for an allocation that appeared or changed."""
        before = self._known.get(allocation.metadata.uid)
        if before is not None and before.spec != allocation.spec:
            self.forget(allocation.metadata.uid)  # another CRD than ours let it be edited
        self._known[allocation.metadata.uid] = allocation
        self._settle([allocation])

    def note_pool(self, pool: NetworkPool) -> None:
        """Update for a change of the pool."""
        if pool.metadata.generation != self.generation:
            self.stale = True
            return
        promised, self._pool = _promises(pool), pool
        moved = [
            self._known[uid]
            for uid, promise in promised.items()
            if uid in self._known and self._promised.get(uid) != promise
        ]
        unseen = [uid for uid in promised if uid not in self._known and uid not in self._promised]
        unseen += [
            uid
            for uid, promise in self._promised.items()
            if promise.kind != KIND and promised.get(uid) != promise
        ]
        self._promised = promised
        # A promise to an allocation that the cache does not show yet: rare, the cache is behind.
        self.stale = self.stale or bool(unseen)
        self._settle(moved)

    def _settle(self, changed: list[IPAllocation]) -> None:
        """Update the forecast for changed allocations.

        All their expected ranges are freed before any known range is taken, because a known range
        may be one that was expected for another of them.
        """
        known_ranges = {a.metadata.uid: self._list_known_ranges(a) for a in changed}
        outdated = [
            a
            for a in changed
            if not known_ranges[a.metadata.uid]
            or known_ranges[a.metadata.uid] != self._placed.get(a.metadata.uid)
        ]
        for allocation in outdated:
            if known_ranges[allocation.metadata.uid] or not self._waits(allocation):
                self.forget(allocation.metadata.uid)
        for allocation in outdated:
            ranges = known_ranges[allocation.metadata.uid]
            if ranges:
                self._take(allocation.metadata.uid, ranges)
        for allocation in self._in_order(outdated):
            self._place(allocation)

    def _place(self, allocation: IPAllocation) -> None:
        """Place a waiting allocation by best fit, if it has no place yet."""
        uid = allocation.metadata.uid
        if uid in self._placed:
            return
        self._leave_queue(uid)
        try:
            self._placed[uid] = rangetaking.take_ranges(self._pool, allocation, self._spaces)
        except AllocatorError:
            self._unplaced[uid] = allocation
            self._queue.add(row(allocation), (*place(allocation), uid))

    def _place_queue(self) -> None:
        """Place those that have no place, oldest first; one of those that ask for the same."""
        turns, placed = Turns(self._queue), []
        for *_, uid in turns:
            try:
                self._placed[uid] = rangetaking.take_ranges(
                    self._pool, self._unplaced[uid], self._spaces
                )
            except AllocatorError:
                turns.leave_out()
            else:
                placed.append(uid)
        for uid in placed:
            self._leave_queue(uid)

    def _leave_queue(self, uid: str) -> None:
        request = self._unplaced.pop(uid, None)
        if request is not None:
            self._queue.remove(row(request), (*place(request), uid))

    def _take(self, uid: str, ranges: tuple[AddressRange, ...]) -> None:
        """Take ranges that an allocation holds, or was promised, out of the free ones."""
        for space, span in product(self._spaces, ranges):
            if space.layout.family == span.family or len(self._spaces) == 1:
                self._try(partial(space.pin, span))
        self._placed[uid] = ranges

    def _try(self, change: Callable[[], object]) -> None:
        try:
            change()
        except AllocatorError:
            self.stale = True

    def _list_known_ranges(self, allocation: IPAllocation) -> tuple[AddressRange, ...]:
        """Return the ranges that an allocation holds, or was promised and may still get."""
        spans = statusranges.list_held_ranges(allocation)
        promise = self._promised.get(allocation.metadata.uid)
        if spans or promise is None:
            return spans
        still_open = allocation.metadata.revision <= promise.revision
        return tuple(ranges_of([promise])) if still_open else ()

    def _waits(self, allocation: IPAllocation) -> bool:
        return bool(self._in_order([allocation]))

    def _in_order(self, allocations: Iterable[IPAllocation]) -> list[IPAllocation]:
        return sorted(
            (a for a in allocations if waits(a) and statusranges.find_held_range(a) is None),
            key=place,
        )

    def _take_unseen(self, position: int) -> None:
        """Take what is promised to allocations that may exist though the cache lacks them."""
        for uid, promise in self._promised.items():
            if uid not in self._known and not _is_void_unseen(promise, position):
                self._placed[uid] = tuple(ranges_of([promise]))

    def _free_unseen(self, position: int) -> None:
        for uid, promise in self._promised.items():
            unseen = uid in self._placed and uid not in self._known
            if unseen and _is_void_unseen(promise, position):
                self.forget(uid)


def _promises(pool: NetworkPool) -> dict[str, Promise]:
    """Return the pool's open promises by uid."""
    return {promise.uid: promise for promise in STATUS_JOURNALS.read(pool).promises}


def _is_void_unseen(promise: Promise, read_up_to: int) -> bool:
    """Return whether a promise is void because the cache should show its request, and does not.

    A promise names one version of its request. A cache that has read up to that version and does
    not have the request shows that it was deleted since, so nobody can keep the promise. Requests
    of other kinds are not read at all: their promises hold addresses as long as the pool has them.

    Args:
        promise: to a request that the cache does not show.
        read_up_to: the revision up to which the cache has read the allocations.
    """
    return promise.kind == KIND and read_up_to >= promise.revision


class PoolChoice:
    """Chooses pools by what will be free in them.

    Args:
        pools: all of them.
        allocations: all of them, indexed by pool.
        max_addresses: the largest pool, in addresses.
        namespaces: the namespaces whose pools count; empty for all.
    """

    def __init__(
        self,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        max_addresses: int,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._namespaces = namespaces
        self._pools = pools
        self._allocations = allocations
        self._max_addresses = max_addresses
        self._forecasts: dict[Key, PoolForecast] = {}
        self._numbers = counter()
        self._reserved: dict[Key, dict[str, tuple[int, Networking]]] = {}
        allocations.subscribe(self._allocation_changed)
        pools.subscribe(self._pool_changed)

    def find_first_fit(
        self,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        asked: Networking,
    ) -> NetworkPool | None:
        """Return the first pool of `provider` with enough free addresses in a row; None for none.

        If the tenant prefers two families, a pool that has room in both precedes a pool that has
        room in one. Pools that follow an unreadable pool are not candidates: the unreadable pool
        may have room, and a tenant keeps its first range.

        Args:
            provider: lists the pools in order of preference.
            count: how many addresses the request needs from a pool.
            asked: the families that the request needs.
        """
        preferred = asked.ipFamilyPolicy == PREFER_DUAL_STACK
        for whole in (True, False) if preferred else (False,):
            for pool in self._candidates(provider):
                forecast, position = self._forecast(pool), self._allocations.position
                size = count(pool)
                if forecast is not None and forecast.fits(size, position, asked, whole=whole):
                    return pool
        return None

    def least_count(self, provider: ProviderConfig, count: Callable[[NetworkPool], int]) -> int:
        """Return the smallest number that `count` answers for a pool of `provider`; 0 for none."""
        return min(map(count, self._candidates(provider)), default=0)

    def refusals(
        self,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        asked: Networking,
    ) -> tuple[PoolRefusal, ...]:
        """Return why each pool of `provider` does not serve a request, in order of preference."""
        namespace = provider.metadata.namespace
        refusals = []
        for name in provider.spec.networking.pools_in_order():
            pool = self._pools.get(Key(namespace, name))
            if Key(namespace, name) in self._pools.unreadable:
                obstacle = "cannot be read; correct or delete it"
                refusals.append(
                    PoolRefusal(name, 0, obstacle=obstacle, state=PoolState.UNREADABLE)
                )
                continue
            if pool is None:
                refusals.append(
                    PoolRefusal(name, 0, obstacle="does not exist", state=PoolState.ABSENT)
                )
                continue
            size = count(pool)
            refusals.append(PoolRefusal(name, size, self._obstacle(pool, size, asked)))
        return tuple(refusals)

    def _obstacle(self, pool: NetworkPool, count: int, asked: Networking) -> str:
        """Return why an existing pool does not serve a request."""
        if pool.metadata.terminating:
            return "is being deleted"
        if refused := self._refused_namespace(pool):
            return refused
        forecast = self._forecast(pool)
        if forecast is None:
            return "its spec is invalid"
        return forecast.obstacle(count, self._allocations.position, asked)

    def families(self, pool: NetworkPool, count: int, asked: Networking) -> set[Family]:
        """Return of which families a request of a pool for `count` addresses would get some."""
        forecast = self._forecast(pool)
        return forecast.families(count, asked) if forecast is not None else set()

    @contextmanager
    def keep_free(self, pool: NetworkPool, count: int, asked: Networking) -> Iterator[None]:
        """Keep `count` addresses of each family from other choices while the context lasts."""
        key, name = pool.metadata.key, f"reservation {next(self._numbers)}"
        self._reserved.setdefault(key, {})[name] = count, asked
        self._update(key, lambda forecast: forecast.reserve(name, count, asked))
        try:
            yield
        finally:
            del self._reserved[key][name]
            self._update(key, lambda forecast: forecast.forget(name))

    def will_serve(self, allocation: IPAllocation) -> bool:
        """Return whether the pool of an allocation is about to serve it."""
        pool = self._pools.get(allocation.pool_key)
        forecast = self._forecast(pool) if pool and not pool.metadata.terminating else None
        return forecast is not None and forecast.is_placed(allocation)

    def serves(self, pool: Key) -> bool:
        """Return whether a pool is there and not being deleted, or cannot be read.

        What waits for a pool that cannot be read keeps its place.
        """
        if pool in self._pools.unreadable:
            return True
        stored = self._pools.get(pool)
        return stored is not None and not stored.metadata.terminating

    def _candidates(self, provider: ProviderConfig) -> Iterator[NetworkPool]:
        """Yield a provider's pools that exist and are not deleted, in order of preference.

        None behind one that cannot be read.
        """
        namespace = provider.metadata.namespace
        for name in provider.spec.networking.pools_in_order():
            if Key(namespace, name) in self._pools.unreadable:
                return
            pool = self._pools.get(Key(namespace, name))
            if pool is None or pool.metadata.terminating or self._refused_namespace(pool):
                continue
            yield pool

    def _refused_namespace(self, pool: NetworkPool) -> str:
        return describe_refused_namespace(pool.metadata.namespace, self._namespaces)

    def _forecast(self, pool: NetworkPool) -> PoolForecast | None:
        """Return the forecast of a pool; None if its spec is invalid."""
        key = pool.metadata.key
        known = self._forecasts.get(key)
        if known is not None and not known.stale:
            return known
        try:
            geometry = poolgeometry.parse_layouts(pool.spec, self._max_addresses)
        except InvalidPool:
            return None
        allocations = self._allocations.by_index(POOL_INDEX, str(key))
        forecast = PoolForecast(
            pool, geometry, allocations=allocations, position=self._allocations.position
        )
        for name, (count, asked) in self._reserved.get(key, {}).items():
            forecast.reserve(name, count, asked)
        self._forecasts[key] = forecast
        return forecast

    def _allocation_changed(self, change: Change[IPAllocation]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or not _same_request(old, new)):
            self._update(old.pool_key, lambda forecast: forecast.drop(old))
        if new is not None:
            self._update(new.pool_key, lambda forecast: forecast.note(new))

    def _pool_changed(self, change: Change[NetworkPool]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._forecasts.pop(old.metadata.key, None)
        elif new is not None:
            self._update(new.metadata.key, lambda forecast: forecast.note_pool(new))

    def _update(self, pool: Key, change: Callable[[PoolForecast], None]) -> None:
        forecast = self._forecasts.get(pool)
        if forecast is not None and not forecast.stale:
            change(forecast)


def _same_request(old: IPAllocation, new: IPAllocation) -> bool:
    return old.metadata.uid == new.metadata.uid and old.pool_key == new.pool_key
