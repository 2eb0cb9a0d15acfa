"""Chooses the pool of a request: the first in preference that has room after all waiting requests.

A *forecast* says which addresses of a pool will be free once its waiting requests were served. It
counts waiting requests, so that clusters which are created together do not all choose a pool that
has room for one of them. A forecast is computed once from all allocations of the pool, then
changed with each event. So a request costs no more in a pool of ten thousand allocations than in
one of ten.

A waiting request is *placed*: the forecast gives it the range that it is expected to get, by best
fit in the order of arrival, as the pool's own pass does. The forecast only helps to choose a pool;
the pool's pass decides. If an event contradicts a placement, the forecast is *stale* and computed
again. A *space* is the free addresses of one family in a pool.

A request that no free range fits waits in the *queue* of the forecast. Each *row* of the queue has
the requests that ask for the same, and `find_place` returns the turn of a request.

A *promise* is an entry in the pool's status: the pool's pass has chosen a range for a request and
is about to write it. An *unseen* promise is to a request that the cache does not show: the cache
is behind, the request is deleted, or it is of another kind than IPAllocation.
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
from reconcilers.networkpool.facts import KIND, find_place, is_unserved, make_row
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Promise, list_ranges
from reconcilers.promises.queue import Rows, Turns
from reconcilers.specrules.poolnamespaces import describe_refused_namespace
from reconcilers.tenantcluster.allocations.refusals import (
    PoolRefusal,
    PoolState,
    describe_free_blocks,
)


class PoolForecast:
    """Forecasts what will be free in one pool once all waiting requests were served.

    Args:
        geometry: the layout of the pool's addresses, for each family.
        allocations: the allocations that name the pool.
        position: the resourceVersion up to which `allocations` were read.
    """

    def __init__(
        self,
        pool: NetworkPool,
        geometry: Sequence[Layout],
        allocations: Iterable[IPAllocation],
        position: int,
    ) -> None:
        self.generation = pool.metadata.generation
        self.is_stale = False
        """Whether an event contradicted a placement, so that the forecast is computed again."""
        self._pool = pool
        self._promises_by_uid = _read_promises(pool)
        # The ranges that each allocation holds, is promised or is placed on, by its uid; and those
        # of each reservation, by its name.
        self._expected_ranges: dict[str, tuple[AddressRange, ...]] = {}
        self._unplaced_requests: dict[str, IPAllocation] = {}
        self._queue = Rows[tuple[datetime, Holder, str]]()
        self._allocations_by_uid: dict[str, IPAllocation] = {
            a.metadata.uid: a for a in allocations
        }
        for allocation in self._allocations_by_uid.values():
            certain = self._list_certain_ranges(allocation)
            if certain:
                self._expected_ranges[allocation.metadata.uid] = certain
        self._take_promised_to_unseen(position)
        ranges = list(chain.from_iterable(self._expected_ranges.values()))
        self._spaces = [Space(layout, ranges) for layout in geometry]
        for allocation in self._list_waiting(self._allocations_by_uid.values()):
            self._place_request(allocation)

    def check_room(
        self, count: int, position: int, family_request: Networking, *, all_families: bool
    ) -> bool:
        """Drop void promises; return whether a request has room in each family that it needs.

        A request has room if `count` addresses in a row will be free.

        Args:
            count: how many addresses in a row.
            position: the resourceVersion up to which the cache has read the allocations.
            family_request: the families that the request asks for.
            all_families: whether a family that is only preferred is needed, too.
        """
        self._free_promised_to_unseen(position)
        needed = self._list_needed_spaces(family_request, all_families=all_families)
        return bool(needed) and all(space.fits(count) for space in needed)

    def _list_needed_spaces(
        self, family_request: Networking, *, all_families: bool
    ) -> list[Space]:
        """Return the space of each family that a request needs; empty if the pool lacks one.

        Args:
            family_request: the families that the request asks for.
            all_families: whether a family that is only preferred is needed, too.
        """
        by_family = {space.layout.family: space for space in self._spaces}
        try:
            choice = familychoice.choose_cluster_families(
                family_request, self._pool, tuple(by_family)
            )
        except AllocatorError:
            return []  # the pool lacks a required family
        if (
            all_families
            and family_request.ipFamilyPolicy == PREFER_DUAL_STACK
            and len(choice.families) < 2
        ):
            return []  # the request prefers two families, and the pool has one
        needs_all = all_families or choice.second_required
        families = choice.families if needs_all else choice.families[:1]
        return [by_family[family] for family in families]

    def is_placed(self, allocation: IPAllocation) -> bool:
        """Return whether an allocation of this pool has a range, or is expected to get one."""
        return allocation.metadata.uid in self._expected_ranges

    def reserve(self, name: str, count: int, family_request: Networking) -> None:
        """Keep `count` addresses of each family for a request that is about to be created.

        If the pool has no room, nothing is kept. `forget` ends the reservation.
        """
        needed = self._find_serving_spaces(count, family_request)
        if needed:
            self._expected_ranges[name] = tuple(space.allocate(count) for space in needed)

    def describe_obstacle(self, count: int, position: int, family_request: Networking) -> str:
        """Drop void promises; return why the pool cannot serve a request.

        The reason is a missing family, or the free blocks, which are too small. If the pool has
        room by now, the text says so.

        Args:
            count: how many addresses in a row of each family the request needs.
            position: the resourceVersion up to which the cache has read the allocations.
            family_request: the families that the request asks for.
        """
        self._free_promised_to_unseen(position)
        needed = self._list_needed_spaces(family_request, all_families=False)
        if not needed:
            return "lacks a family of the request"
        if all(space.fits(count) for space in needed):
            # Addresses became free since no pool fitted: the next pass creates the request.
            return "has room"
        return describe_free_blocks({s.layout.family: s.largest_free for s in needed})

    def find_families(self, count: int, family_request: Networking) -> set[Family]:
        """Return the families of addresses that a request would get; empty if it would wait."""
        return {space.layout.family for space in self._find_serving_spaces(count, family_request)}

    def _find_serving_spaces(self, count: int, family_request: Networking) -> list[Space]:
        """Return the spaces that would serve a request; empty if it would wait.

        The spaces of all preferred families come first. If one of them has no room, the required
        families alone serve the request.
        """
        for all_families in (True, False):
            needed = self._list_needed_spaces(family_request, all_families=all_families)
            if needed and all(space.fits(count) for space in needed):
                return needed
        return []

    def forget(self, name: str) -> None:
        """Free the expected ranges of an allocation or reservation; place waiting requests there.

        Args:
            name: the uid of the allocation, or the name of the reservation.
        """
        self._remove_from_queue(name)
        ranges = self._expected_ranges.pop(name, None)
        if ranges is None:
            return  # no address becomes free, so no waiting request fits that did not before
        # A space ignores a range of the other family.
        for space, span in product(self._spaces, ranges):
            self._change_or_mark_stale(partial(space.release, span))
        self._place_queue()

    def note_deleted(self, allocation: IPAllocation) -> None:
        """Update for an allocation that is gone."""
        self._allocations_by_uid.pop(allocation.metadata.uid, None)
        self.forget(allocation.metadata.uid)

    def note_allocation(self, allocation: IPAllocation) -> None:
        """Update for an allocation that appeared or changed."""
        before = self._allocations_by_uid.get(allocation.metadata.uid)
        if before is not None and before.spec != allocation.spec:
            # Our CRD forbids a change of spec, but another version of the CRD may allow it.
            self.forget(allocation.metadata.uid)
        self._allocations_by_uid[allocation.metadata.uid] = allocation
        self._update_allocations([allocation])

    def note_pool(self, pool: NetworkPool) -> None:
        """Update for a change of the pool: of its spec, or of its promises."""
        if pool.metadata.generation != self.generation:
            self.is_stale = True  # another spec has another layout
            return
        promises = _read_promises(pool)
        self._pool = pool
        newly_promised = [
            self._allocations_by_uid[uid]
            for uid, promise in promises.items()
            if uid in self._allocations_by_uid and self._promises_by_uid.get(uid) != promise
        ]
        has_new_unseen = any(
            uid not in self._allocations_by_uid and uid not in self._promises_by_uid
            for uid in promises
        )
        # No event of an IPAllocation updates the placement of a request of another kind.
        has_changed_of_other_kind = any(
            promise.kind != KIND and promises.get(uid) != promise
            for uid, promise in self._promises_by_uid.items()
        )
        self._promises_by_uid = promises
        # Both cases are rare, so the forecast is computed again instead of updated.
        self.is_stale = self.is_stale or has_new_unseen or has_changed_of_other_kind
        self._update_allocations(newly_promised)

    def _update_allocations(self, changed: list[IPAllocation]) -> None:
        """Update the forecast for changed allocations.

        A *certain* range is held or promised; other expected ranges are placements. Expected
        ranges that are no longer right are freed before any certain range is taken, because the
        certain range of one allocation may have been the placement of another.
        """
        certain_ranges = {a.metadata.uid: self._list_certain_ranges(a) for a in changed}
        # Those without a certain range, or with another range than the forecast expects.
        unsettled = [
            a
            for a in changed
            if not certain_ranges[a.metadata.uid]
            or certain_ranges[a.metadata.uid] != self._expected_ranges.get(a.metadata.uid)
        ]
        for allocation in unsettled:
            # A request that waits keeps the range that is expected for it: its placement, or the
            # range of a promise that became void.
            if certain_ranges[allocation.metadata.uid] or not self._is_waiting(allocation):
                self.forget(allocation.metadata.uid)
        for allocation in unsettled:
            ranges = certain_ranges[allocation.metadata.uid]
            if ranges:
                self._take_ranges(allocation.metadata.uid, ranges)
        for allocation in self._list_waiting(unsettled):
            self._place_request(allocation)

    def _place_request(self, allocation: IPAllocation) -> None:
        """Place a waiting allocation by best fit; if no free range fits, add it to the queue."""
        uid = allocation.metadata.uid
        if uid in self._expected_ranges:
            return  # it is placed already
        # The queue may have an earlier version of it, in another row.
        self._remove_from_queue(uid)
        try:
            self._expected_ranges[uid] = rangetaking.take_ranges(
                self._pool, allocation, self._spaces
            )
        except AllocatorError:
            self._unplaced_requests[uid] = allocation
            self._queue.add(make_row(allocation), (*find_place(allocation), uid))

    def _place_queue(self) -> None:
        """Place the requests of the queue that fit now, oldest first.

        If a request does not fit, later requests that ask for the same are skipped: they do not
        fit either.
        """
        turns = Turns(self._queue)
        # A change of the queue would end `turns`, so placed requests leave the queue afterwards.
        placed: list[str] = []
        for *_, uid in turns:
            try:
                self._expected_ranges[uid] = rangetaking.take_ranges(
                    self._pool, self._unplaced_requests[uid], self._spaces
                )
            except AllocatorError:
                turns.leave_out()
            else:
                placed.append(uid)
        for uid in placed:
            self._remove_from_queue(uid)

    def _remove_from_queue(self, uid: str) -> None:
        """Remove a request from the queue, if it is there."""
        request = self._unplaced_requests.pop(uid, None)
        if request is not None:
            self._queue.remove(make_row(request), (*find_place(request), uid))

    def _take_ranges(self, uid: str, ranges: tuple[AddressRange, ...]) -> None:
        """Take the ranges that an allocation holds, or was promised, out of the free addresses."""
        for space, span in product(self._spaces, ranges):
            # In a pool of one family, a range of the other family contradicts the forecast: the
            # pin fails, and marks it as stale.
            if space.layout.family == span.family or len(self._spaces) == 1:
                self._change_or_mark_stale(partial(space.pin, span))
        self._expected_ranges[uid] = ranges

    def _change_or_mark_stale(self, change: Callable[[], object]) -> None:
        """Change a space; if the space contradicts the change, mark the forecast as stale."""
        try:
            change()
        except AllocatorError:
            self.is_stale = True

    def _list_certain_ranges(self, allocation: IPAllocation) -> tuple[AddressRange, ...]:
        """Return the ranges that an allocation holds, or was promised and may still get."""
        spans = statusranges.list_held_ranges(allocation)
        promise = self._promises_by_uid.get(allocation.metadata.uid)
        if spans or promise is None:
            return spans
        # A promise is for one version of the allocation; a newer version voids it.
        is_open = allocation.metadata.revision <= promise.revision
        return tuple(list_ranges([promise])) if is_open else ()

    def _is_waiting(self, allocation: IPAllocation) -> bool:
        """Return whether an allocation waits for a range."""
        return bool(self._list_waiting([allocation]))

    def _list_waiting(self, allocations: Iterable[IPAllocation]) -> list[IPAllocation]:
        """Return the allocations that wait for a range, in the order in which pools serve them."""
        return sorted(
            (a for a in allocations if is_unserved(a) and statusranges.find_held_range(a) is None),
            key=find_place,
        )

    def _take_promised_to_unseen(self, position: int) -> None:
        """Expect the ranges of unseen promises to be taken, so that they do not count as free.

        Otherwise another request would be placed on a promised range. A void promise takes none:
        the cache has read past the version that it names and lacks the request, so the request is
        deleted.

        Args:
            position: the resourceVersion up to which the cache has read the allocations.
        """
        for uid, promise in self._promises_by_uid.items():
            if uid not in self._allocations_by_uid and not _is_void_unseen(promise, position):
                self._expected_ranges[uid] = tuple(list_ranges([promise]))

    def _free_promised_to_unseen(self, position: int) -> None:
        """Free the ranges of unseen promises that are void now that the cache has read further.

        Args:
            position: the resourceVersion up to which the cache has read the allocations.
        """
        for uid, promise in self._promises_by_uid.items():
            is_unseen = uid in self._expected_ranges and uid not in self._allocations_by_uid
            if is_unseen and _is_void_unseen(promise, position):
                self.forget(uid)


def _read_promises(pool: NetworkPool) -> dict[str, Promise]:
    """Return the pool's open promises by uid."""
    return {promise.uid: promise for promise in STATUS_JOURNALS.read(pool).promises}


def _is_void_unseen(promise: Promise, read_up_to: int) -> bool:
    """Return whether an unseen promise is void, because its request is deleted.

    A promise names one version of its request. If the cache has read up to that version and lacks
    the request, the request was deleted, and the promise cannot take effect. Requests of other
    kinds are not in the cache at all: their promises count as long as the pool lists them.

    Args:
        promise: to a request that the cache does not show.
        read_up_to: the revision up to which the cache has read the allocations.
    """
    return promise.kind == KIND and read_up_to >= promise.revision


class PoolChoice:
    """Chooses pools by their forecasts.

    Args:
        pools: all pools.
        allocations: all allocations, indexed by pool.
        max_addresses: the size in addresses above which a pool is invalid.
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
        self._reservation_numbers = counter()
        # The size and families of each reservation, by pool and name. A forecast that is computed
        # again repeats the reservations.
        self._reservations: dict[Key, dict[str, tuple[int, Networking]]] = {}
        allocations.subscribe(self._note_allocation_change)
        pools.subscribe(self._note_pool_change)

    def find_first_fit(
        self,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        family_request: Networking,
    ) -> NetworkPool | None:
        """Return the first pool of `provider` with enough free addresses in a row; None for none.

        If the tenant prefers two families, a pool that has room in both precedes a pool that has
        room in one. Pools that follow an unreadable pool are not candidates: the unreadable pool
        may have room, and a tenant keeps its first range.

        Args:
            provider: lists the pools in order of preference.
            count: how many addresses the request needs from a pool.
            family_request: the families that the request asks for.
        """
        prefers_both = family_request.ipFamilyPolicy == PREFER_DUAL_STACK
        rounds = (True, False) if prefers_both else (False,)
        for all_families in rounds:
            for pool in self._list_candidates(provider):
                forecast, position = self._find_forecast(pool), self._allocations.position
                size = count(pool)
                if forecast is not None and forecast.check_room(
                    size, position, family_request, all_families=all_families
                ):
                    return pool
        return None

    def find_least_count(
        self, provider: ProviderConfig, count: Callable[[NetworkPool], int]
    ) -> int:
        """Return the smallest number that `count` returns for a usable pool; 0 without a pool."""
        return min(map(count, self._list_candidates(provider)), default=0)

    def list_refusals(
        self,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        family_request: Networking,
    ) -> tuple[PoolRefusal, ...]:
        """Return why each pool of `provider` does not serve a request, in order of preference.

        Args:
            count: returns how many addresses the request needs from a pool.
            family_request: the families that the request asks for.
        """
        namespace = provider.metadata.namespace
        refusals = []
        for name in provider.spec.networking.list_pools_in_order():
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
            refusals.append(
                PoolRefusal(name, size, self._describe_obstacle(pool, size, family_request))
            )
        return tuple(refusals)

    def _describe_obstacle(self, pool: NetworkPool, count: int, family_request: Networking) -> str:
        """Return why an existing pool does not serve a request."""
        if pool.metadata.is_terminating:
            return "is being deleted"
        if refused := self._describe_refused_namespace(pool):
            return refused
        forecast = self._find_forecast(pool)
        if forecast is None:
            return "its spec is invalid"
        return forecast.describe_obstacle(count, self._allocations.position, family_request)

    def find_families(
        self, pool: NetworkPool, count: int, family_request: Networking
    ) -> set[Family]:
        """Return the families of addresses that a request would get; empty if it would wait."""
        forecast = self._find_forecast(pool)
        return forecast.find_families(count, family_request) if forecast is not None else set()

    @contextmanager
    def keep_free(
        self, pool: NetworkPool, count: int, family_request: Networking
    ) -> Iterator[None]:
        """Keep `count` addresses of each family from other choices while the context lasts."""
        key, name = pool.metadata.key, f"reservation {next(self._reservation_numbers)}"
        self._reservations.setdefault(key, {})[name] = count, family_request
        self._change_forecast(key, lambda forecast: forecast.reserve(name, count, family_request))
        try:
            yield
        finally:
            del self._reservations[key][name]
            self._change_forecast(key, lambda forecast: forecast.forget(name))

    def will_serve(self, allocation: IPAllocation) -> bool:
        """Return whether the pool of an allocation is expected to serve it, by its forecast."""
        pool = self._pools.get(allocation.pool_key)
        forecast = self._find_forecast(pool) if pool and not pool.metadata.is_terminating else None
        return forecast is not None and forecast.is_placed(allocation)

    def may_serve(self, pool: Key) -> bool:
        """Return whether the pool of a request may serve it some time, so that it should stay.

        False if the pool is gone or being deleted.
        """
        if pool in self._pools.unreadable:
            return True  # a person corrects the pool, and its requests keep their turns
        stored = self._pools.get(pool)
        return stored is not None and not stored.metadata.is_terminating

    def _list_candidates(self, provider: ProviderConfig) -> Iterator[NetworkPool]:
        """Yield a provider's pools that may be chosen, in order of preference.

        These pools exist, are not being deleted, and are in an allowed namespace. The first
        unreadable pool ends the list.
        """
        namespace = provider.metadata.namespace
        for name in provider.spec.networking.list_pools_in_order():
            if Key(namespace, name) in self._pools.unreadable:
                return  # it may have room, so no pool of lower preference is chosen instead
            pool = self._pools.get(Key(namespace, name))
            if (
                pool is None
                or pool.metadata.is_terminating
                or self._describe_refused_namespace(pool)
            ):
                continue
            yield pool

    def _describe_refused_namespace(self, pool: NetworkPool) -> str:
        """Return why the namespace of a pool is not allowed; empty if it is."""
        return describe_refused_namespace(pool.metadata.namespace, self._namespaces)

    def _find_forecast(self, pool: NetworkPool) -> PoolForecast | None:
        """Return the forecast of a pool, computed now if stale; None if the spec is invalid."""
        key = pool.metadata.key
        forecast = self._forecasts.get(key)
        if forecast is not None and not forecast.is_stale:
            return forecast
        try:
            geometry = poolgeometry.parse_layouts(pool.spec, self._max_addresses)
        except InvalidPool:
            return None
        allocations = self._allocations.list_by_index(POOL_INDEX, str(key))
        forecast = PoolForecast(
            pool, geometry, allocations=allocations, position=self._allocations.position
        )
        for name, (count, family_request) in self._reservations.get(key, {}).items():
            forecast.reserve(name, count, family_request)
        self._forecasts[key] = forecast
        return forecast

    def _note_allocation_change(self, change: Change[IPAllocation]) -> None:
        """Update the forecasts of the pools that an allocation names or named."""
        old, new = change.old, change.new
        # A recreated allocation, or one for another pool, leaves the forecast of its old pool.
        if old is not None and (new is None or not _is_same_request(old, new)):
            self._change_forecast(old.pool_key, lambda forecast: forecast.note_deleted(old))
        if new is not None:
            self._change_forecast(new.pool_key, lambda forecast: forecast.note_allocation(new))

    def _note_pool_change(self, change: Change[NetworkPool]) -> None:
        """Update the forecast of a pool; drop it if the pool is gone or recreated."""
        old, new = change.old, change.new
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._forecasts.pop(old.metadata.key, None)
        elif new is not None:
            self._change_forecast(new.metadata.key, lambda forecast: forecast.note_pool(new))

    def _change_forecast(self, pool: Key, change: Callable[[PoolForecast], None]) -> None:
        """Change the forecast of a pool; a stale or absent one is computed when it is needed."""
        forecast = self._forecasts.get(pool)
        if forecast is not None and not forecast.is_stale:
            change(forecast)


def _is_same_request(old: IPAllocation, new: IPAllocation) -> bool:
    """Return whether two versions are of one allocation, for one pool."""
    return old.metadata.uid == new.metadata.uid and old.pool_key == new.pool_key
