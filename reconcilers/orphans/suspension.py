"""When so many allocations of a pool would go at once that something else must be wrong.

A backup restored without its TenantClusters, a CRD deleted and put back: then every allocation
looks orphaned, and giving all ranges away would be the worst answer. People decide then.
"""

from collections import deque
from dataclasses import dataclass, field

from controller.client import Client
from controller.clock import Clock
from controller.conditions import find, is_true
from controller.events import Recorder
from controller.meta import Key
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.conditions import Finding, rendered, with_findings
from reconcilers.settings import OrphanSettings

SUSPENDED = "OrphanCollectionSuspended"
WINDOW_SECONDS = 60.0


def limit(size: int, settings: OrphanSettings) -> int:
    """Return how many of a pool's `size` allocations may be collected in a minute."""
    return max(settings.most, size * settings.percent // 100)


@dataclass(slots=True)
class Pace:
    """How many allocations of each pool were collected during the last minute."""

    clock: Clock
    _collected: dict[Key, deque[float]] = field(default_factory=dict)

    def note(self, pool: Key) -> None:
        """Count one."""
        self._collected.setdefault(pool, deque()).append(self.clock.monotonic())

    def recent(self, pool: Key) -> int:
        """Return how many there were."""
        times = self._collected.get(pool, deque())
        while times and times[0] <= self.clock.monotonic() - WINDOW_SECONDS:
            times.popleft()
        if not times:
            self._collected.pop(pool, None)
        return len(times)


def too_many(count: int, size: int, allowed: int) -> Finding:
    """Return the condition of a pool whose orphans are not collected."""
    message = (
        f"{count} of {size} IPAllocations seem to have lost their TenantCluster, more than"
        f" {allowed} in a minute are not collected: bring the clusters back, or delete those"
        " allocations if they are really gone"
    )
    return Finding(SUSPENDED, True, "TooManyOrphans", message)


def resumed() -> Finding:
    """Return the condition of a pool whose orphans are collected again."""
    return Finding(SUSPENDED, False, "WithinLimit", "orphaned IPAllocations are collected")


class Notice:
    """Says on the pool that collection stands still, and that it goes on again."""

    def __init__(self, client: Client, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    async def put_up(self, pool: NetworkPool, finding: Finding) -> None:
        """Say so, with an event the first time.

        Raises:
            Conflict: the pool changed meanwhile; the next sweep says it.
            ControllerError: the write failed.
        """
        if is_true(pool.status.conditions, SUSPENDED):
            return  # the first numbers stand: those of the moment would be a write each minute
        written = await self._write(pool, finding)
        self._recorder.record(
            NETWORK_POOL, written, "Warning", SUSPENDED, finding.message, action="CollectOrphans"
        )

    async def take_down(self, pool: NetworkPool) -> None:
        """Say that collection goes on, if anybody was told otherwise.

        Raises:
            Conflict: the pool changed meanwhile; the next sweep says it.
            ControllerError: the write failed.
        """
        found = find(pool.status.conditions, SUSPENDED)
        if found is not None and found.status == "True":
            await self._write(pool, resumed())

    async def _write(self, pool: NetworkPool, finding: Finding) -> NetworkPool:
        conditions = with_findings(
            pool.status.conditions, [finding], pool.metadata.generation, self._clock.now()
        )
        return await self._client.patch_status(
            NETWORK_POOL, pool, {"conditions": rendered(conditions)}
        )
