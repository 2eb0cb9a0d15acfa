"""Log lines about ranges that are released, and about requests that are withdrawn.

A holder is the object that holds a range: an IPAllocation, or an object of an integration.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import anyio

from controller.cache import Cache, Change
from controller.loggers import get_logger
from controller.meta import Object
from reconcilers.addressing import statusranges
from reconcilers.api.ipallocation import IPAllocation

GONE = "it is gone"
"""The reason of a release that happened because another program or a person deleted the holder."""
T = TypeVar("T", bound=Object)
_log = get_logger(__name__)


def build_holder_fields(
    holder: str, held_ranges: Iterable[str], pool: str, reason: str
) -> dict[str, str]:
    """Return the fields of a log line about a range that is released, for a holder of any kind.

    Args:
        holder: the kind and name of the holder.
        held_ranges: its ranges or addresses; empty for a request that waits.
        pool: the pool of the range. A pool of another kind than NetworkPool begins with its kind.
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
        allocation: the allocation. If it still waits for a range, the field `range` is "none".
        reason: why the range is given back.
    """
    key = allocation.metadata.key
    held_ranges = (span.text for span in statusranges.list_held_ranges(allocation))
    return {
        "allocation": str(key),
        "tenant": str(allocation.spec.tenantClusterRef.key),
        **build_holder_fields(
            f"IPAllocation {key}", held_ranges, pool=str(allocation.pool_key), reason=reason
        ),
    }


class GoneHolders(Generic[T]):
    """Logs a line for each object of a kind that disappeared while it held addresses.

    The changes of the cache are logged, because the cache reports each deletion. A pass compares
    the present objects with those of the previous pass, so it would miss an object that is created
    and deleted between two passes.

    Args:
        event: the line without its fields.
        describe: returns the fields of the line; None if the object held none of our addresses.
        logged: the uids of objects whose release was logged already. The owner of the set adds a
            uid before it deletes the object; `log` removes it afterwards.
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
        """Log the old object of a change if it disappeared and its release was not logged yet."""
        old, new = change.old, change.new
        # A new uid means that the object was deleted and recreated with the same name.
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return
        is_logged = old.metadata.uid in self._logged
        self._logged.discard(old.metadata.uid)
        # None if the release was logged, or if the object held none of our addresses.
        fields = None if is_logged else self._describe(old)
        if fields is not None:
            _log.info(self._event, **fields)

    async def run(self, cache: Cache[T]) -> None:
        """Log the objects that disappear from a cache, until cancelled."""
        cache.subscribe(self.log)
        try:
            await anyio.sleep_forever()
        finally:
            cache.unsubscribe(self.log)
