"""Claims that a restore created, and whose IPAddresses it may create after them.

A backup has claims and IPAddresses in any order, and its claims have no status, so only the
IPAddress shows which address a machine has. A claim that a client creates has no finalizer of
ours; a claim that has it from its first version on was saved before. If no IPAddress has its name,
such a claim gets no address for half a minute.
"""

from dataclasses import dataclass

from controller.cache import Cache, Change
from controller.clock import Clock
from reconcilers.integrations.clusterapi.api import IPAddressClaim
from reconcilers.integrations.clusterapi.caches import space_of
from reconcilers.integrations.clusterapi.statuses import waits

RESTORED_SECONDS = 30.0
"""How long a restored claim waits for its IPAddress, and a restored IPAddress for its claim."""


@dataclass(frozen=True, slots=True)
class _Arrival:
    """When (monotonic seconds) a restored claim came, and the spaces of its pool."""

    at: float
    spaces: frozenset[str]


class RestoredClaims:
    """Knows which claims may still get an IPAddress from a restore.

    Claims that are there when the process starts do not count: their IPAddresses are there, too.

    Args:
        claims: all IPAddressClaims.
        clock: measures the time since a claim came.
    """

    def __init__(self, claims: Cache[IPAddressClaim], clock: Clock) -> None:
        self._clock = clock
        self._arrivals: dict[str, _Arrival] = {}
        """By the uid of a claim."""
        claims.subscribe(self._note)

    def seconds_left(self, claim: IPAddressClaim) -> float:
        """Return for how many seconds a claim without an IPAddress gets no address."""
        arrival = self._arrivals.get(claim.metadata.uid)
        return 0.0 if arrival is None else self._seconds_left(arrival)

    def seconds_until_next(self, space: str) -> float | None:
        """Return in how many seconds the first restored claim of a pool may get any address.

        Args:
            space: the name of the pool's space, as `space_name` gives it.

        Returns:
            None if no claim of the pool waits for its IPAddress.
        """
        remaining = (
            self._seconds_left(arrival)
            for arrival in self._arrivals.values()
            if space in arrival.spaces
        )
        return min((seconds for seconds in remaining if seconds > 0), default=None)

    def _seconds_left(self, arrival: _Arrival) -> float:
        return max(0.0, arrival.at + RESTORED_SECONDS - self._clock.monotonic())

    def _note(self, change: Change[IPAddressClaim]) -> None:
        """Note a claim that came with our finalizer, until the claim has an address or is gone."""
        old, new = change.old, change.new
        if old is not None and (new is None or not waits(new)):
            self._arrivals.pop(old.metadata.uid, None)
        is_new = old is None or new is None or old.metadata.uid != new.metadata.uid
        if new is not None and is_new and not change.initial and waits(new):
            arrival = _Arrival(self._clock.monotonic(), frozenset(space_of(new)))
            self._arrivals[new.metadata.uid] = arrival
