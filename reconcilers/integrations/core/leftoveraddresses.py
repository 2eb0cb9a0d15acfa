"""IPAddresses that were created for a claim, and that no promise and no claim names.

A create has no precondition: a replica that froze may send its create late, when the address
belongs to another claim. No claim's status ever names that IPAddress, because its own claim has
another address or none. But another claim may need its name or its address. Such an IPAddress is a
*leftover*.

A leftover is deleted once no promise and no claim has named it for a minute, and only after reads
from the server. First the pool is read, for its promises, then the claim. In this order no name is
missed: between the two reads a promise may become a status, but a status never becomes a promise.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.meta import Object
from reconcilers.promises.refusedwrites import RefusedWrites

PATIENCE_SECONDS = 60.0
"""For how many seconds nothing must name a leftover IPAddress before it is deleted."""
RETRY = 1.0
"""The fewest seconds between two calls of `LeftoverAddresses.remove_when_due` for an IPAddress."""

AddressT = TypeVar("AddressT", bound=Object)


class LeftoverAddresses(Generic[AddressT]):
    """Remembers for each IPAddress since when nothing names it, and deletes it after a minute.

    Args:
        addresses: all IPAddresses of the kind.
    """

    def __init__(self, addresses: Cache[AddressT], clock: Clock) -> None:
        self._clock = clock
        self._refused = RefusedWrites(clock, PATIENCE_SECONDS)
        self._since: dict[str, float] = {}
        """By uid of an IPAddress: since when (monotonic seconds) nothing is known to name it."""
        addresses.subscribe(self._forget_gone)

    async def remove_when_due(
        self,
        address: AddressT,
        is_unnamed: Callable[[], Awaitable[bool]],
        remove: Callable[[], Awaitable[None]],
    ) -> float:
        """Delete an IPAddress once no promise and no claim has named it for a minute.

        The first call notes the time from which nothing names it; `note_named` forgets that time.

        Args:
            address: an IPAddress that nothing names, as far as the caller has read.
            is_unnamed: returns, by live reads, whether still nothing names the IPAddress.
            remove: deletes the IPAddress.

        Returns:
            Seconds until this must be called again.
        """
        meta, now = address.metadata, self._clock.monotonic()
        since = self._since.setdefault(meta.uid, now)
        wait = max(since + PATIENCE_SECONDS - now, self._refused.wait_of(meta) or 0.0)
        if wait <= 0 and await is_unnamed():
            await self._refused.attempt(meta, remove)
            # 0.0 after a deletion, and if the IPAddress has changed: the next call looks again.
            wait = self._refused.wait_of(meta) or 0.0
        return max(wait, RETRY)

    def note_named(self, address: AddressT) -> None:
        """Note that something names an IPAddress, or that it is not to be deleted."""
        self._since.pop(address.metadata.uid, None)

    def _forget_gone(self, change: Change[AddressT]) -> None:
        """Forget an IPAddress that was deleted."""
        if change.new is None and change.old is not None:
            self.note_named(change.old)
