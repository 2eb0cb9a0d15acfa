"""LISTs of IPAllocations from the server, shared by the pools that need one at the same time.

A LIST costs as much as there are allocations, and after a first start every pool needs one. So a
LIST serves all pools that asked before it began, and only these: what one pool needs to know is
everything that was written before its object was read. A pool that asks while a LIST is under way
gets the next one.

The first pool that asks sends the LIST and waits for it, as it would alone. The other pools come
back later, so that they keep no worker busy. The LIST is kept for each of them until a pass takes
it. It is kept for one version of the pool: a pass that reads a newer version asks again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyio.lowlevel import checkpoint

from controller.client import Client
from controller.codec import Page
from controller.meta import Key
from controller.unreadables import UnreadableObjects
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, index_by_pool
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION

SLICE = 2000
"""How many allocations are sorted into pools before other tasks run."""
PoolVersion = tuple[str, str]
"""The uid and the resourceVersion of a pool."""


@dataclass(frozen=True, slots=True)
class ListedAllocations:
    """What a LIST shows.

    Args:
        revision: the resourceVersion of the LIST.
        by_pool: the allocations that name each pool.
        by_key: all allocations.
        unreadable: those that cannot be decoded, with the reason, indexed by pool.
    """

    revision: int
    by_pool: Mapping[Key, Sequence[IPAllocation]]
    by_key: Mapping[Key, IPAllocation]
    unreadable: UnreadableObjects

    @classmethod
    async def from_page(cls, page: Page[IPAllocation]) -> "ListedAllocations":
        """Index the allocations of all pages of a LIST; let other tasks run between slices."""
        by_pool: dict[Key, list[IPAllocation]] = {}
        by_key: dict[Key, IPAllocation] = {}
        for number, allocation in enumerate(page.items, start=1):
            by_pool.setdefault(allocation.pool_key, []).append(allocation)
            by_key[allocation.metadata.key] = allocation
            if number % SLICE == 0:
                await checkpoint()
        unreadable = UnreadableObjects({POOL_INDEX: index_by_pool})
        for number, (key, reason) in enumerate(page.unreadable.items(), start=1):
            unreadable.put(key, reason)
            if number % SLICE == 0:
                await checkpoint()
        return cls(page.revision, by_pool, by_key=by_key, unreadable=unreadable)


class LiveLists:
    """Sends LISTs of allocations, one at a time, each for all pools that wait for one.

    Args:
        client: sends them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_listing = False
        self._asking: dict[Key, PoolVersion] = {}
        """The pools that the next LIST serves, at the version that was read."""
        self._waiting: dict[Key, PoolVersion] = {}
        """The pools that the LIST under way serves."""
        self._kept: dict[Key, tuple[PoolVersion, ListedAllocations]] = {}
        """By pool: for which version it asked, and a LIST that began after that."""

    async def read(self, pool: NetworkPool) -> ListedAllocations | None:
        """Return a LIST that began after `pool` was read; None if the pool has to ask again later.

        Args:
            pool: as the pass read it.

        Raises:
            ControllerError: the list failed. Every pool that waited for it asks again.
        """
        key, version = pool.metadata.key, _get_version(pool)
        kept_version, listed = self._kept.pop(key, (None, None))
        # Another pass sent this LIST after the pool had asked at this version.
        if kept_version == version:
            return listed
        self._asking[key] = version
        # The LIST under way began before this pool asked, so it may lack what the pool needs.
        if self._is_listing:
            return None
        listed = await self._list()
        # The other pools that the LIST serves take it in their next passes; this pool has it now.
        self._kept |= {other: (asked, listed) for other, asked in self._waiting.items()}
        self._kept.pop(key, None)
        return listed

    async def list_now(self, namespace: str) -> ListedAllocations:
        """Return a LIST of a namespace that begins now, or of all namespaces if it is empty.

        Raises:
            ControllerError: the list failed.
        """
        return await ListedAllocations.from_page(
            await self._client.list(IP_ALLOCATION, namespace=namespace)
        )

    async def _list(self) -> ListedAllocations:
        """Send a LIST for the pools that have asked; a pool that asks from now on is too late."""
        self._waiting, self._asking = self._asking, {}
        self._is_listing = True
        try:
            return await self.list_now(_find_common_namespace(self._waiting))
        finally:
            self._is_listing = False

    def forget(self, pool: Key) -> None:
        """Forget that a pool asked, and what is kept for it."""
        for by_pool in (self._asking, self._waiting, self._kept):
            by_pool.pop(pool, None)

    def forget_all(self) -> None:
        """Forget everything: the server may have another history than the LISTs show."""
        for by_pool in (self._asking, self._waiting, self._kept):
            by_pool.clear()


def _get_version(pool: NetworkPool) -> PoolVersion:
    """Return the uid and the resourceVersion of a pool."""
    return pool.metadata.uid, pool.metadata.resourceVersion


def _find_common_namespace(pools: Mapping[Key, PoolVersion]) -> str:
    """Return the namespace of all these pools; empty for all namespaces if they have several."""
    namespaces = {key.namespace for key in pools}
    return namespaces.pop() if len(namespaces) == 1 else ""
