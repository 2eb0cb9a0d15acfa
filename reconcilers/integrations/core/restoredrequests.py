"""Requests that a restore from a backup created before their IPAddresses.

A restore creates claims and IPAddresses in any order, and claims without status. So only the
IPAddress shows which address a machine has. A client creates claims without our finalizer: a claim
with the finalizer in its first version was restored. If such a claim has no IPAddress, it gets no
address for half a minute, because the restore may still create its IPAddress.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.meta import Object, ObjectMeta

RESTORED_SECONDS = 30.0
"""Seconds that a restored claim waits for its IPAddress, and an IPAddress for its claim."""
RequestT = TypeVar("RequestT", bound=Object)


def compute_restore_wait(address: ObjectMeta, now: datetime) -> float:
    """Return how many more seconds an IPAddress without claim waits for a restored claim.

    0.0 if it has waited long enough, or if its age is unknown or negative.
    """
    if address.creationTimestamp is None:
        return 0.0
    age = (now - address.creationTimestamp).total_seconds()
    # A negative age comes from a clock that is behind: the wait could last for hours.
    return RESTORED_SECONDS - age if age >= 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Arrival:
    """The creation of a restored request.

    Args:
        at: when the watch showed the new request (monotonic seconds).
        spaces: the names of the spaces of its pool.
    """

    at: float
    spaces: frozenset[str]


class RestoredRequests(Generic[RequestT]):
    """Remembers the requests whose IPAddress a restore may still create.

    Requests that exist when the process starts do not count: their IPAddresses exist by then, too.

    Args:
        requests: all requests of the kind.
        clock: measures the time since a request was created.
        is_waiting: returns whether a request waits for an address, and has our finalizer.
        spaces: returns the names of the spaces of the pool that a request names.
    """

    def __init__(
        self,
        requests: Cache[RequestT],
        clock: Clock,
        is_waiting: Callable[[RequestT], bool],
        spaces: Callable[[RequestT], Iterable[str]],
    ) -> None:
        self._clock = clock
        self._is_waiting = is_waiting
        self._spaces = spaces
        self._arrivals: dict[str, _Arrival] = {}
        """By the uid of a request."""
        requests.subscribe(self._note)

    def seconds_left(self, request: RequestT) -> float:
        """Return for how many more seconds a request without an IPAddress must wait.

        0.0 if it was not restored, or has waited long enough.
        """
        arrival = self._arrivals.get(request.metadata.uid)
        return 0.0 if arrival is None else self._seconds_left(arrival)

    def seconds_until_next(self, space: str) -> float | None:
        """Return the seconds until the next restored request of a pool need not wait any longer.

        From then on the request may get any address, because no IPAddress was restored for it.

        Args:
            space: the name of the pool's space.

        Returns:
            None if no restored request of the pool waits for its IPAddress.
        """
        remaining = (
            self._seconds_left(arrival)
            for arrival in self._arrivals.values()
            if space in arrival.spaces
        )
        return min((seconds for seconds in remaining if seconds > 0), default=None)

    def _seconds_left(self, arrival: _Arrival) -> float:
        """Return how many seconds of the wait are left; 0.0 if it is over."""
        return max(0.0, arrival.at + RESTORED_SECONDS - self._clock.monotonic())

    def _note(self, change: Change[RequestT]) -> None:
        """Remember a request that was created with our finalizer, until it is served or gone."""
        old, new = change.old, change.new
        if old is not None and (new is None or not self._is_waiting(new)):
            self._arrivals.pop(old.metadata.uid, None)
        is_new = old is None or new is None or old.metadata.uid != new.metadata.uid
        # `is_waiting` requires our finalizer, which only a restored request has from the start.
        if new is not None and is_new and not change.initial and self._is_waiting(new):
            arrival = _Arrival(self._clock.monotonic(), frozenset(self._spaces(new)))
            self._arrivals[new.metadata.uid] = arrival
