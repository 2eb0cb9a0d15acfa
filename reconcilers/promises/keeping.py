"""Keeps promises: writes their ranges to their requests, and voids promises that cannot be kept.

To *void* a promise is to write its request so that it gets another resourceVersion. Then the
promise is over by the rule of settling (settling.py). This is done if the API server rejects the
write of a promise for good. The voiding write shows the user why the request waits. If it is
rejected as well, the promise stays open, and both writes are tried again after a resync. A resync
is the interval at which each pool gets a pass although nothing changed. `REFUSED` and `refused`
stand for a write that is rejected for good.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from controller.clock import Clock
from controller.errors import ControllerError
from controller.meta import Key, Object
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import DuePromises
from reconcilers.promises.journal import Identity, Promise
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Eligibility, Limits, Shares, TenantOf

RequestT = TypeVar("RequestT", bound=Object)
Request_co = TypeVar("Request_co", bound=Object, covariant=True)


@dataclass(frozen=True, slots=True)
class Kept(Generic[Request_co]):
    """A promise, and the result of the write that was to keep it.

    Args:
        request: the request at the version that the promise names.
        why: why the write failed, in a sentence; empty if it succeeded.
        retry_after: seconds for which nothing is promised to the request after its write was
            refused; None for one resync.
    """

    promise: Promise
    request: Request_co
    result: WriteResult
    why: str = ""
    retry_after: float | None = None


Granted = tuple[Promise, RequestT]
"""A promise, and its request at exactly the version that the promise names."""
Void = Callable[[Sequence[Kept[RequestT]]], Awaitable[Sequence[WriteResult]]]
"""Writes each request, so that its promise is void and its status says why; see `void_refused`."""


def build_refused_message(why: str, now: datetime) -> str:
    """Return the message of a request whose promise is voided because its write was refused.

    The server makes no new version of an unchanged object. The time, to the microsecond, makes the
    message differ from every earlier one. It comes first, because long messages are cut.

    Args:
        why: the sentence of the API server, or what is in the way.
        now: the time of the voiding write.
    """
    return f"It failed at {now.isoformat()} and is tried again: {why}"


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """What one process remembers of the promises of one pool.

    Args:
        due: which open promises this process writes now.
        shares: which requests may get a promise.
    """

    due: DuePromises
    shares: Shares


class PoolMemories:
    """What one process remembers of the promises of all pools of a kind.

    Args:
        clock: the time.
        patience: seconds until a promise of another replica is due.
        resync: seconds until a refused write is tried again.
        capacity: how many promises a journal has room for.
    """

    def __init__(self, clock: Clock, patience: float, resync: float, capacity: int) -> None:
        self._clock = clock
        self._patience = patience
        self._resync = resync
        self._capacity = capacity
        self._memories: dict[Key, PoolMemory] = {}

    def get_memory(self, pool: Object) -> PoolMemory:
        """Return the memory of a pool; an empty one at the first pass of this process over it."""
        memory = self._memories.get(pool.metadata.key)
        if memory is None:
            due = DuePromises(self._patience, self._resync, self._clock.monotonic())
            memory = PoolMemory(due, Shares(self._resync))
            self._memories[pool.metadata.key] = memory
        return memory

    def build_limits(self, pool: Object, get_tenant: TenantOf) -> Limits:
        """Return the limits on the requests of a pool that may get a promise in this pass.

        Args:
            get_tenant: returns the tenant of a request.
        """

        def build_eligibility(still_open: Collection[Promise]) -> Eligibility:
            """Return the rule by which requests of the pool may get a promise now."""
            # Looked up when a pass chooses, which may be long after the limits were made.
            shares, now = self.get_memory(pool).shares, self._clock.monotonic()
            return shares.build_eligibility(
                still_open, get_tenant, capacity=self._capacity, now=now
            )

        return Limits(build_eligibility, get_tenant)

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone, or that another replica works on from now on."""
        self._memories.pop(pool, None)


async def keep_each(
    granted: Sequence[Granted[RequestT]],
    write: Callable[[Promise, RequestT], Awaitable[object]],
    width: int,
) -> list[Kept[RequestT]]:
    """Write promises to their requests; return the result of each write, in order.

    A failed write is a result, not an error, so that the other promises are written all the same.

    Args:
        write: writes one promise to its request, with the promised version as precondition.
        width: the most writes at once.
    """

    async def keep_one(promise: Promise, request: RequestT) -> Kept[RequestT]:
        """Write one promise to its request; return the result, also that of a failed write."""
        try:
            await write(promise, request)
        except ControllerError as error:
            return Kept(promise, request, result=WriteResult.from_error(error), why=str(error))
        return Kept(promise, request, WriteResult.WRITTEN)

    return await run_concurrently([partial(keep_one, *entry) for entry in granted], width)


async def void_each(
    refused: Sequence[Kept[RequestT]],
    void: Callable[[Kept[RequestT]], Awaitable[object]],
    width: int,
) -> list[WriteResult]:
    """Void promises whose write was refused for good; return the results, in order.

    A failed write is a result, not an error, so that the other promises are voided all the same.

    Args:
        void: writes the request of one promise.
        width: the most writes at once.
    """

    async def void_one(entry: Kept[RequestT]) -> WriteResult:
        """Void one promise; return the result, also that of a failed write."""
        try:
            await void(entry)
        except ControllerError as error:
            return WriteResult.from_error(error)
        return WriteResult.WRITTEN

    return await run_concurrently([partial(void_one, entry) for entry in refused], width)


async def void_refused(
    kept: Sequence[Kept[RequestT]], void: Void[RequestT], memory: PoolMemory, clock: Clock
) -> list[Kept[RequestT]]:
    """Void the promises whose write was refused for good, and remember the results.

    If the promise is void, its request is deferred. A promise that can be neither kept nor voided
    is stuck (shares.py). Both writes are due again after a resync.

    Args:
        kept: the results of the writes of promises.
        void: writes requests; returns the results, in order.
        memory: remembers the results.
        clock: the time.

    Returns:
        The results of `kept`, with UNKNOWN in place of REFUSED if it is not known whether the
        promise is void.
    """
    refused = [entry for entry in kept if entry.result is WriteResult.REFUSED]
    void_results: dict[Identity, WriteResult] = {}
    if refused:
        identities = [entry.promise.identity for entry in refused]
        void_results.update(zip(identities, await void(refused), strict=True))
    now = clock.monotonic()
    updated_results = []
    for entry in kept:
        void_result = void_results.get(entry.promise.identity)
        if void_result is WriteResult.UNKNOWN:
            # Nothing is remembered, so the next pass tries the write at once, not after a resync.
            updated_results.append(replace(entry, result=WriteResult.UNKNOWN))
            continue
        if void_result is not None:
            memory.due.note_rejected(entry.promise.identity, now)
            if void_result is WriteResult.REFUSED:
                memory.shares.note_stuck(entry.promise)
            else:  # the request has another version or is gone, so the promise is void
                memory.shares.defer(entry.request.metadata, now, entry.retry_after)
        updated_results.append(entry)
    return updated_results
