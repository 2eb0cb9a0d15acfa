"""Decides when kinds of claims that the journal of a pool names count as absent.

A kind that this replica does not see may have just been installed: another replica may see it,
and promise addresses to its claims in the journal. So a kind counts as absent only once its part
of the journal has not changed for long enough that every replica has looked up the served kinds.
"""

from collections.abc import Hashable

from controller.clock import Clock
from controller.meta import Key
from reconcilers.integrations.core.discovery import LOOK_AGAIN_SECONDS
from reconcilers.promises.reading import Behind

UNKNOWN_RETRY = 0.5
"""Seconds until a pass over a pool that waits for this is tried again."""
ABSENCE_SECONDS = 4 * LOOK_AGAIN_SECONDS
"""Seconds for which the entries of kinds in a journal must stay the same; then they are absent."""


class AbsentKinds:
    """Remembers for each pool since when its journal has the same entries of unserved kinds.

    Entries of other kinds change all the time, so they do not count.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Key, tuple[Hashable, float]] = {}
        """By pool: what its journal says of the kinds, and since when (monotonic seconds)."""

    def check(self, pool: Key, entry: Hashable, kinds: str) -> None:
        """Note the entry of unserved kinds; raise until it has not changed for long enough.

        Args:
            entry: all that the journal says of these kinds, to compare it.
            kinds: the names of the kinds, for the message.

        Raises:
            Behind: another replica may serve the kinds.
        """
        now = self._clock.monotonic()
        last_entry, since = self._entries.get(pool, (entry, now))
        since = since if last_entry == entry else now
        self._entries[pool] = entry, since
        if now - since < ABSENCE_SECONDS:
            raise Behind(
                UNKNOWN_RETRY,
                f"its journal shows that {kinds} were served, and the kind is absent; this is"
                f" believed once that part of the journal has not changed for"
                f" {ABSENCE_SECONDS:.0f} s",
            )

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone, or whose journal does not name such kinds."""
        self._entries.pop(pool, None)
