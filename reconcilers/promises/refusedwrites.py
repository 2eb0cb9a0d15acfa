"""Writes of single objects that the API server rejects for good; the pass goes on without them.

A quota, a policy or an admission webhook may reject every write of one object. Such an object must
not end the pass over its pool, because other requests wait for the same pool. So the pass goes on
without the write, and the write is due again after one resync. `refused` stands for such a write.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from controller.clock import Clock
from controller.errors import ControllerError
from controller.loggers import get_logger
from controller.meta import ObjectMeta
from reconcilers.promises.results import WriteResult

_log = get_logger(__name__)

ResultT = TypeVar("ResultT")


def result_beside_promise(error: ControllerError) -> WriteResult:
    """Return the result of a failed write of an object that no promise names.

    Such an object may change or be absent while the promise can still be kept, so the result is
    never SETTLED.
    """
    result = WriteResult.from_error(error)
    return WriteResult.UNKNOWN if result is WriteResult.SETTLED else result


class RefusedWrites:
    """Writes objects, and remembers for one resync which of them cannot be written.

    It is kept in memory only: another replica, or the next process, tries each write once more.

    Args:
        clock: the time.
        resync: seconds until a refused write is tried again.
    """

    def __init__(self, clock: Clock, resync: float) -> None:
        self._clock = clock
        self._resync = resync
        self._until: dict[str, float] = {}
        """By uid: until when (monotonic seconds) an object is not written."""

    async def attempt(
        self, meta: ObjectMeta, write: Callable[[], Awaitable[ResultT]]
    ) -> ResultT | None:
        """Write an object, unless its last write was refused less than one resync ago.

        Args:
            write: sends the write.

        Returns:
            What `write` returns. None if the object is not written: the write is not due yet, the
            object has moved on, or the API server refuses the write for good.

        Raises:
            ControllerError: it is unknown whether the object is written.
        """
        if self.wait_of(meta) is not None:
            return None
        # A refused write is not raised: that would end the pass, which serves other requests, too.
        try:
            return await write()
        except ControllerError as error:
            result = WriteResult.from_error(error)
            if result is WriteResult.UNKNOWN:
                raise
            if result is WriteResult.REFUSED:
                self.note_refused(meta, error)
            return None

    def wait_of(self, meta: ObjectMeta) -> float | None:
        """Return for how many seconds an object is not written; None if it may be written now."""
        wait = self._until.get(meta.uid, 0.0) - self._clock.monotonic()
        return wait if wait > 0 else None

    def next_in(self, metas: Iterable[ObjectMeta]) -> float | None:
        """Return in how many seconds the first of these objects is due; None if none waits."""
        # There may be thousands of objects; they are examined only if a write was ever refused.
        waits = map(self.wait_of, metas if self._until else ())
        return min((wait for wait in waits if wait is not None), default=None)

    def note_refused(self, meta: ObjectMeta, error: ControllerError) -> None:
        """Note that the API server refused a write of an object for good."""
        now = self._clock.monotonic()
        # Expired entries are dropped here, because nothing asks for deleted objects any more.
        self._until = {uid: until for uid, until in self._until.items() if until > now}
        self._until[meta.uid] = now + self._resync
        _log.warning(
            "The API server refuses a write; it is tried again after a resync",
            request=error.request,
            error=str(error),
        )
