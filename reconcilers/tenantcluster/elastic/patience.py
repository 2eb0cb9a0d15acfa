"""Since when a Service waits for an address.

Its creation time is the first answer, and the only one after a restart. It is wrong for a Service
that had an address and lost it, or that became a load balancer late: one that was there at the
last look and did not wait begins to wait when it is first seen to.
"""

from collections.abc import Iterable
from datetime import datetime

from reconcilers.api.resources import Service


class Patience:
    """Remembers for one tenant who waits since when, as far as this process has seen."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}
        self._last_look: datetime | None = None

    def look(self, waiting: Iterable[Service], now: datetime) -> dict[str, float]:
        """Return for how many seconds each Service has waited, by uid.

        A clock of the tenant's that is ahead of ours makes nobody wait longer than from now on.
        """
        before, last = self._since, self._last_look
        self._since = {
            service.metadata.uid: before.get(service.metadata.uid) or _begun(service, last, now)
            for service in waiting
        }
        self._last_look = now
        return {uid: (now - since).total_seconds() for uid, since in self._since.items()}


def _begun(service: Service, last_look: datetime | None, now: datetime) -> datetime:
    created = service.metadata.creationTimestamp
    if created is None or created > now or (last_look is not None and created < last_look):
        return now
    return created
