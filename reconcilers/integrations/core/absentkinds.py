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
"""Seconds until a pass is retried while it is unknown whether a kind is absent."""
ABSENCE_SECONDS = 4 * LOOK_AGAIN_SECONDS
"""Seconds for which the entries of kinds in a journal must stay the same; then they are absent."""


class AbsentKinds:
    """Decides for each pool whether the unserved kinds that its journal names are absent.

    They are absent once the journal's entries of these kinds have not changed for
    ABSENCE_SECONDS. Entries of other kinds change all the time, so they do not count.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_entries: dict[Key, tuple[Hashable, float]] = {}
        """By pool: its journal's entries of unserved kinds, and since when (monotonic seconds)."""

    def check(self, pool: Key, entries: Hashable, kinds: str) -> None:
        """Raise until a journal has had the same entries of unserved kinds for ABSENCE_SECONDS.

        The entries are noted, so each pass over the pool has to call this.

        Args:
            pool: the pool of the journal.
            entries: the journal's revisions of these kinds, and its promises to them.
            kinds: the names of the kinds, for the message.

        Raises:
            Behind: another replica may serve the kinds.
        """
        now = self._clock.monotonic()
        last_entries, since = self._last_entries.get(pool, (entries, now))
        if entries != last_entries:
            since = now
        self._last_entries[pool] = entries, since
        if now - since < ABSENCE_SECONDS:
            raise Behind(
                UNKNOWN_RETRY,
                f"its journal shows that {kinds} were served, and the kind is absent; this is"
                f" believed once that part of the journal has not changed for"
                f" {ABSENCE_SECONDS:.0f} s",
            )

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone, or whose journal names no unserved kind."""
        self._last_entries.pop(pool, None)
