"""What a log line says of a range that is released, or of a request that is withdrawn."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import anyio

from controller.cache import Cache, Change
from controller.loggers import get_logger
from controller.meta import Object
from reconcilers.addressing import statusranges
from reconcilers.api.ipallocation import IPAllocation

GONE = "it is gone"
"""The reason of a release that another program or a person brought about by a deletion."""
T = TypeVar("T", bound=Object)
_log = get_logger(__name__)


def holder_fields(
    holder: str, held_ranges: Iterable[str], pool: str, reason: str
) -> dict[str, str]:
    """Return the fields of a log line about a range that is released, whatever kind holds it.

    Args:
        holder: kind and name of the object.
        held_ranges: its ranges or addresses; none for a request that waits.
        pool: the pool of the range, with its kind unless that is NetworkPool.
        reason: why the range is released.
    """
    return {
        "holder": holder,
        "range": " and ".join(held_ranges) or "none",
        "pool": pool,
        "reason": reason,
    }


def release_fields(allocation: IPAllocation, reason: str) -> dict[str, str]:
    """Return the fields of a log line about an allocation that gives its range back.

    Args:
        allocation: the allocation; one that waits for a range has the range `none`.
        reason: why it is given back.
    """
    key = allocation.metadata.key
    held_ranges = (span.text for span in statusranges.list_held_ranges(allocation))
    return {
        "allocation": str(key),
        "tenant": str(allocation.spec.tenantClusterRef.key),
        **holder_fields(
            f"IPAllocation {key}", held_ranges, pool=str(allocation.pool_key), reason=reason
        ),
    }


class GoneHolders(Generic[T]):
    """Logs each object of a kind that is gone and held addresses until then.

    A cache shows each deletion once. A pass compares what it sees with what the pass before saw,
    so an object that comes and goes between two passes would have no line.

    Args:
        event: the line without its fields.
        describe: returns the fields of the line; None for an object that held nothing of ours.
        logged: the uids of objects whose release has a line, added before they are deleted. They
            are removed once the objects are gone.
    """

    def __init__(
        self,
        event: str,
        describe: Callable[[T], Mapping[str, str] | None],
        logged: set[str] | None = None,
    ) -> None:
        self._event = event
        self._describe = describe
        self._logged = set() if logged is None else logged

    def log(self, change: Change[T]) -> None:
        """Log the object that a change of the cache shows to be gone, unless it has a line."""
        old, new = change.old, change.new
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return
        is_logged = old.metadata.uid in self._logged
        self._logged.discard(old.metadata.uid)
        fields = None if is_logged else self._describe(old)
        if fields is not None:
            _log.info(self._event, **fields)

    async def run(self, cache: Cache[T]) -> None:
        """Log what goes from a cache until cancelled."""
        cache.subscribe(self.log)
        try:
            await anyio.sleep_forever()
        finally:
            cache.unsubscribe(self.log)
