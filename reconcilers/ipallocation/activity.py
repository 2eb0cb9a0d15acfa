"""Whether a pool is handing out ranges just now, as those who wait for it can tell.

In a burst everybody is served, but not in the first second. To mark each of them Pending would
cost as many writes as serving them; so those who wait are left alone while the pool is at it, and
told as soon as it is not: because it is stuck, without memory, or out of reach.
"""

from collections.abc import Container
from dataclasses import dataclass, field

from controller.cache import Cache
from controller.clock import Clock
from controller.meta import Key
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.settings import AllocationSettings


@dataclass(frozen=True, slots=True)
class _Seen:
    """A version of a pool, and since when it is the latest; None if it was the first seen."""

    version: tuple[str, str]
    since: float | None


@dataclass(slots=True)
class PoolActivity:
    """Watches pools move.

    Args:
        allocations: to see whether a promise is still open.
        clock: for the time.
        settings: what counts as just now, and for how long a batch may take.
    """

    allocations: Cache[IPAllocation]
    clock: Clock
    settings: AllocationSettings
    _seen: dict[Key, _Seen] = field(default_factory=dict)

    def busy(self, pool: NetworkPool) -> bool:
        """Return whether the pool's status moved just now, or its latest batch is under way."""
        if not pool.status.allocationsRevision:
            return False
        still = self._still(pool)
        if still is None:
            return False
        if still < self.settings.pending_after:
            return True
        return still < self.settings.pending_in_burst and self._writing(pool)

    def tidy(self, pools: Container[Key]) -> None:
        """Forget pools that are gone."""
        for key in [key for key in self._seen if key not in pools]:
            del self._seen[key]

    def _still(self, pool: NetworkPool) -> float | None:
        """Return for how long the pool has not moved; None if it was never seen to."""
        meta, now = pool.metadata, self.clock.monotonic()
        version = (meta.uid, meta.resourceVersion)
        seen = self._seen.get(meta.key)
        if seen is None or seen.version != version:
            same = seen is not None and seen.version[0] == meta.uid
            seen = self._seen[meta.key] = _Seen(version, now if same else None)
        return None if seen.since is None else now - seen.since

    def _writing(self, pool: NetworkPool) -> bool:
        """Whether the last promise is not kept yet: they are written in order."""
        if not pool.status.assignments:
            return False
        last = pool.status.assignments[-1]
        found = self.allocations.get(Key(pool.metadata.namespace, last.name))
        return found is not None and (found.metadata.uid, found.metadata.resourceVersion) == (
            last.uid,
            last.resourceVersion,
        )
