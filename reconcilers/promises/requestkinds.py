"""What a kind of requests adds to a pass over a pool that serves it.

A kind is one object with functions, `RequestKind`, which knows the type of its requests. A pass
never looks into a request, and a pool may serve kinds whose requests are of different types. So a
pass gets each kind as `ServedRequests`, which binds the kind with its type and writes promises.

To *keep* a promise is to write its ranges to its request. To *void* it is to give the request
another resourceVersion, so that the promise can no longer be kept. A *fence* voids all promises to
a kind that the journal does not record (fence.py). A *reading* has what one pass read of a pool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from controller.clock import Clock
from controller.meta import Object
from controller.resource import Resource
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept, PoolMemory, void_refused
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits

RequestT = TypeVar("RequestT", bound=Object)
Request_co = TypeVar("Request_co", bound=Object, covariant=True)
PoolT_contra = TypeVar("PoolT_contra", bound=Object, contravariant=True)
ReadingT_contra = TypeVar("ReadingT_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Fenced:
    """What a fence of one kind of requests has found.

    Args:
        revisions: by the full name of a kind, how far readers of the pool have to read from now
            on: of the fenced kind, and of the objects that are created for promises.
        requests: the requests of the kind, as the fence read or wrote them. They show all ranges
            that requests of the kind hold, until the pool makes a promise. None if the pass has to
            read them again.
    """

    revisions: Mapping[str, int]
    requests: object = None


class RequestKind(Protocol[PoolT_contra, RequestT, ReadingT_contra]):
    """Requests of one kind, as a pass finds, fences and writes them."""

    @property
    def request_resource(self) -> Resource[RequestT]:
        """The kind of the requests, whose full name stands in promises."""
        ...

    def needs_fence(
        self, pool: PoolT_contra, journal: Journal, reading: ReadingT_contra, limits: Limits
    ) -> bool:
        """Return whether earlier promises have to be voided before the pool allocates.

        True if the journal was never written, is lost, or was written in another cluster, or
        before the cluster was restored from a backup. A kind may put the fence off while no
        request waits. It must not do so for a journal of another history: the caches never reach
        its revision, so each pass would LIST until a fence replaces the journal.

        Args:
            pool: the pool as it was read.
            journal: the journal of the pool.
            reading: the reading of the pass, made by a LIST if the caches have not reached the
                revision of the journal.
            limits: the limits on promises in this pass, for a kind that fences only if the pass
                would promise something.
        """
        ...

    async def void_earlier(self, pool: PoolT_contra, reading: ReadingT_contra) -> Fenced:
        """Void every promise to requests of this kind that was made before the pool was read.

        Args:
            pool: as it was read. Its next write has this version as precondition, so no other
                replica promises anything meanwhile.
            reading: the reading for which `needs_fence` returned True.

        Returns:
            How far readers have to read from now on, and the requests as the fence left them.
        """
        ...

    def find_request(self, reading: ReadingT_contra, promise: Promise) -> RequestT | None:
        """Return the request of a promise; None if it is not at the promised version."""
        ...

    def is_request_paused(self, pool: PoolT_contra, request: RequestT) -> bool:
        """Return whether nothing is written to a request now: it is paused, or may be.

        Promises to it stay open, so that their ranges stay reserved. They are kept after the
        pause, unless the request has another version by then.
        """
        ...

    async def keep(
        self, pool: PoolT_contra, reading: ReadingT_contra, granted: Sequence[Granted[RequestT]]
    ) -> list[Kept[RequestT]]:
        """Write promises to their requests, each with the promised version as precondition.

        Args:
            pool: as it was written last.
            reading: of the pool.
            granted: promises to requests of this kind, which may be none.

        Returns:
            The result of the write of each promise.
        """
        ...

    async def void_refused(
        self, pool: PoolT_contra, refused: Sequence[Kept[RequestT]]
    ) -> Sequence[WriteResult]:
        """Void promises whose write was refused for good; return the results, in order."""
        ...


class ServedRequests(Generic[PoolT_contra, Request_co, ReadingT_contra]):
    """Requests of one kind as a pass sees them, whatever their type.

    Args:
        kind: the kind, which alone sees the requests.
    """

    def __init__(self, kind: RequestKind[PoolT_contra, Request_co, ReadingT_contra]) -> None:
        self._kind = kind
        self.request_kind = kind.request_resource.full_name
        """The kind of the requests, by its full name, as promises name it."""

    def needs_fence(
        self, pool: PoolT_contra, journal: Journal, reading: ReadingT_contra, limits: Limits
    ) -> bool:
        """Return whether earlier promises have to be voided before the pool allocates.

        They have to be if the journal does not record all promises to this kind.
        """
        return self._kind.needs_fence(pool, journal, reading=reading, limits=limits)

    async def void_earlier(self, pool: PoolT_contra, reading: ReadingT_contra) -> Fenced:
        """Void every promise to requests of this kind that was made before the pool was read.

        Args:
            pool: as it was read.
            reading: of the pool, for which `needs_fence` returned True.

        Returns:
            How far readers have to read from now on, and the requests as the fence left them.
        """
        return await self._kind.void_earlier(pool, reading)

    async def keep_promises(
        self,
        pool: PoolT_contra,
        reading: ReadingT_contra,
        *,
        due: Sequence[Promise],
        granted: Sequence[Granted[Object]] = (),
        memory: PoolMemory,
        clock: Clock,
    ) -> Sequence[Kept[Request_co]]:
        """Write promises to their requests; void those whose write is refused for good.

        Nothing is written to a paused request. A tool may be moving its Cluster to another API
        server meanwhile, and would not copy a write that comes now.

        Args:
            pool: as it was written last.
            reading: of the pool.
            due: the due promises of the journal, to requests of all kinds.
            granted: the promises that this pass made to requests of all kinds, with the requests.
            memory: remembers promises that are refused, voided or stuck.
            clock: the time.

        Returns:
            The result for each promise to this kind whose request may still be written: first of
            paused requests, then of the promises of earlier passes, then of new ones.
        """
        # The new promises are in `due` as well. Here they have the request that was chosen for,
        # which a reading need not have: it may have been created by this pass.
        new_promises = _list_granted(self._kind.request_resource, granted)
        new_identities = {promise.identity for promise, _ in new_promises}
        earlier = [
            (promise, request)
            for promise in due
            if promise.kind == self.request_kind
            and promise.identity not in new_identities
            and (request := self._kind.find_request(reading, promise)) is not None
        ]
        paused, to_write = list[Kept[Request_co]](), list[Granted[Request_co]]()
        for promise, request in [*earlier, *new_promises]:
            if self._kind.is_request_paused(pool, request):
                paused.append(Kept(promise, request, WriteResult.PAUSED))
            else:
                to_write.append((promise, request))
        written = await self._kind.keep(pool, reading, to_write)
        void = partial(self._kind.void_refused, pool)
        return [*paused, *await void_refused(written, void, memory=memory, clock=clock)]


def _list_granted(
    resource: Resource[RequestT], granted: Sequence[Granted[Object]]
) -> list[Granted[RequestT]]:
    """Return the promises to requests of one kind, with the requests."""
    of_kind: list[Granted[RequestT]] = []
    for promise, request in granted:
        if promise.kind == resource.full_name:
            assert isinstance(request, resource.type), "a promise names the kind of its request"
            of_kind.append((promise, request))
    return of_kind
