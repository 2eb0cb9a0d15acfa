"""What will be free in a pool once everybody who waits for it was served, kept up to date.

Built once from all allocations of the pool, then moved on by every change: a request costs no
more in a pool of ten thousand allocations than in one of ten. Who waits is placed by best fit in
the order of arrival, as the pool's own pass is about to do. It is advice for choosing a pool, and
the pool has the last word: where a change contradicts a placement, all of it is built anew.
"""

from collections.abc import Callable, Iterable

from allocator import AddressRange, AllocatorError, Layout, Space
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import Assignment, NetworkPool
from reconcilers.networkpool.protocol import requested, waiting
from reconcilers.networkpool.view import View


class Outlook:
    """One pool as it will be.

    Args:
        pool: the pool.
        geometry: what its spec says.
        allocations: those that name it.
        position: how far the reader of those has read.
    """

    def __init__(
        self,
        pool: NetworkPool,
        geometry: Layout,
        allocations: Iterable[IPAllocation],
        position: int,
    ) -> None:
        self.generation = pool.metadata.generation
        self.stale = False
        """Whether a change contradicted a placement, so that it has to be built anew."""
        self._pool = pool
        self._promised = _promises(pool)
        self._placed: dict[str, AddressRange] = {}
        self._unplaced: dict[str, IPAllocation] = {}
        self._known: dict[str, IPAllocation] = {a.metadata.uid: a for a in allocations}
        for allocation in self._known.values():
            exact = self._exact(allocation)
            if exact is not None:
                self._placed[allocation.metadata.uid] = exact
        self._await_unseen(position)
        self._space = Space(geometry, self._placed.values())
        for allocation in self._in_order(self._known.values()):
            self._place(allocation)

    def fits(self, count: int, position: int) -> bool:
        """Return whether `count` addresses in a row will be free.

        Args:
            count: how many.
            position: how far the reader of the allocations has read by now.
        """
        self._give_up_unseen(position)
        return self._space.fits(count)

    def has_room_for(self, allocation: IPAllocation) -> bool:
        """Return whether an allocation of this pool has, or is about to get, a range."""
        return allocation.metadata.uid in self._placed

    def reserve(self, name: str, count: int) -> None:
        """Keep `count` addresses for a request that is about to be made, until `forget`."""
        if self._space.fits(count):
            self._placed[name] = self._space.allocate(count)

    def forget(self, name: str) -> None:
        """Let go of what an allocation, or a reservation, was thought to get."""
        self._unplaced.pop(name, None)
        placed = self._placed.pop(name, None)
        if placed is None:
            return
        self._try(lambda: self._space.release(placed))
        for allocation in self._in_order(self._unplaced.values()):
            self._place(allocation)

    def drop(self, allocation: IPAllocation) -> None:
        """Take in that an allocation is gone."""
        self._known.pop(allocation.metadata.uid, None)
        self.forget(allocation.metadata.uid)

    def note(self, allocation: IPAllocation) -> None:
        """Take in that an allocation is there, or changed."""
        before = self._known.get(allocation.metadata.uid)
        if before is not None and before.spec != allocation.spec:
            self.forget(allocation.metadata.uid)  # another CRD than ours let it be edited
        self._known[allocation.metadata.uid] = allocation
        self._settle([allocation])

    def note_pool(self, pool: NetworkPool) -> None:
        """Take in that the pool changed."""
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
        self._promised = promised
        # A promise to somebody that we do not know yet: rare, and only a reader lagging behind.
        self.stale = self.stale or bool(unseen)
        self._settle(moved)

    def _settle(self, changed: list[IPAllocation]) -> None:
        """Move the changed to where they are now: first all let go, then each takes its own."""
        exact = {a.metadata.uid: self._exact(a) for a in changed}
        moving = [
            a
            for a in changed
            if exact[a.metadata.uid] is None
            or exact[a.metadata.uid] != self._placed.get(a.metadata.uid)
        ]
        for allocation in moving:
            if exact[allocation.metadata.uid] is not None or not self._asks(allocation):
                self.forget(allocation.metadata.uid)
        for allocation in moving:
            wanted = exact[allocation.metadata.uid]
            if wanted is not None:
                self._hold(allocation.metadata.uid, wanted)
        for allocation in self._in_order(moving):
            self._place(allocation)

    def _place(self, allocation: IPAllocation) -> None:
        """Give one that waits the range that best fit gives it, if it has none yet."""
        uid = allocation.metadata.uid
        if uid in self._placed:
            return
        self._unplaced[uid] = allocation
        try:
            pinned = ranges.pinned(allocation)
            if pinned is not None:
                self._placed[uid] = self._space.pin(pinned)
            else:
                self._placed[uid] = self._space.allocate(requested(allocation, self._pool))
        except AllocatorError:
            return
        del self._unplaced[uid]

    def _hold(self, uid: str, exact: AddressRange) -> None:
        self._try(lambda: self._space.pin(exact))
        self._placed[uid] = exact

    def _try(self, change: Callable[[], object]) -> None:
        try:
            change()
        except AllocatorError:
            self.stale = True

    def _exact(self, allocation: IPAllocation) -> AddressRange | None:
        """Return the range that an allocation holds, or was promised and may still get."""
        held = ranges.held(allocation)
        promise = self._promised.get(allocation.metadata.uid)
        if held is not None or promise is None:
            return held
        still_open = allocation.metadata.revision <= int(promise.resourceVersion)
        return ranges.promised(promise) if still_open else None

    def _asks(self, allocation: IPAllocation) -> bool:
        return bool(self._in_order([allocation]))

    def _in_order(self, allocations: Iterable[IPAllocation]) -> list[IPAllocation]:
        view = View(0, tuple(allocations), lambda _: None)
        return [a for a in waiting(view, ()) if ranges.held(a) is None]

    def _await_unseen(self, position: int) -> None:
        """Hold what is promised to allocations that the reader cannot have seen go."""
        for uid, promise in self._promised.items():
            exact = ranges.promised(promise)
            version = int(promise.resourceVersion)
            if uid not in self._known and position < version and exact is not None:
                self._placed[uid] = exact

    def _give_up_unseen(self, position: int) -> None:
        for uid, promise in self._promised.items():
            unseen = uid in self._placed and uid not in self._known
            if unseen and position >= int(promise.resourceVersion):
                self.forget(uid)


def _promises(pool: NetworkPool) -> dict[str, Assignment]:
    return {
        promise.uid: promise
        for promise in pool.status.assignments
        if promise.resourceVersion.isdecimal() and ranges.promised(promise) is not None
    }
