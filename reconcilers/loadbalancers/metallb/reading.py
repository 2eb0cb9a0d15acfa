"""Finds out whether MetalLB in a tenant runs: whether it has read our pool as it is stored.

A *projection* is the set of ranges that the tenant should hold, which were written to the pool.

From 0.15 on MetalLB counts the addresses of each pool in the pool's status. If it has counted as
many as we wrote, it runs and can use its configuration. So the tenant can use its addresses, and
more of them would help it. The count does not prove that MetalLB has read that a range is out;
uptake.py has that proof. An older MetalLB reports no counts, and is believed to run.

MetalLB takes a moment to count. If MetalLB was ready before, the caller believes for
READING_GRACE_SECONDS (port.py) that it still is.
"""

from dataclasses import dataclass

from controller.client import Client
from controller.clock import Clock
from controller.errors import NotFound
from controller.meta import Key
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.loadbalancers.metallb.kinds import (
    IP_ADDRESS_POOL,
    SERVICE_BGP_STATUS,
    IPAddressPool,
)
from reconcilers.loadbalancers.metallb.uptake import (
    compute_metallb_counts,
    count_reported_addresses,
    read_configuration_error,
)
from reconcilers.loadbalancers.port import (
    READING_GRACE_SECONDS,
    Health,
    HealthState,
    Projection,
    WatchedOffers,
)

NOT_RUNNING = "MetalLBNotRunning"
"""The reason while MetalLB has not read the pool, for longer than it takes one that runs."""
_COUNT_CHECK_SECONDS = 1.0
"""Seconds until the next check of the counts of a MetalLB that may be about to count."""


@dataclass(frozen=True, slots=True)
class UnreadEntries:
    """The entries of our pool that the MetalLB of a tenant has not read yet.

    Args:
        entries: the entries that the projection wrote.
        since: when they were first found to be unread, in monotonic seconds.
    """

    entries: tuple[str, ...]
    since: float


@dataclass(slots=True)
class ProjectionCheckMemory:
    """What is remembered of how the MetalLB of one tenant reads its pool.

    Args:
        unread: the entries that it has not read yet; None if it has read the pool.
        is_silent: whether MetalLB is so old that it does not count addresses.
    """

    unread: UnreadEntries | None = None
    is_silent: bool = False

    def compute_check_delay(self, now: float) -> float | None:
        """Return the seconds until the next check of the counts; None if no check is due.

        Args:
            now: monotonic seconds.
        """
        if self.unread is None:
            return None
        if now - self.unread.since >= READING_GRACE_SECONDS:
            return None  # it may not run at all: a watch, or the next pass, shows the change
        return _COUNT_CHECK_SECONDS


class ProjectionCheck:
    """Finds out whether the MetalLB of one tenant has read the projected pool.

    Args:
        client: of the tenant.
        namespace: MetalLB's namespace there.
        watched: shows the pool without a read of it; None if it is not watched.
        clock: the time.
        memory: of the tenant.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        watched: WatchedOffers | None,
        clock: Clock,
        memory: ProjectionCheckMemory,
    ) -> None:
        self._client = client
        self._pool = Key(namespace, names.METALLB_POOL)
        self._watched = watched
        self._clock = clock
        self._memory = memory

    async def read_health(self, projection: Projection) -> Health:
        """Return the health of MetalLB: whether it has read the pool, and since when it has not.

        Args:
            projection: the ranges that were just written to the pool.

        Raises:
            ControllerError: the tenant did not answer.
        """
        memory = self._memory
        if await self._check_if_read(projection):
            memory.unread = None
            return Health()
        now = self._clock.monotonic()
        if memory.unread is None or memory.unread.entries != projection.entries:
            memory.unread = UnreadEntries(projection.entries, now)
        since, why = memory.unread.since, ""
        # Earlier MetalLB may simply not have read the pool yet: its error may be an old one.
        if now - since >= READING_GRACE_SECONDS:
            why = await read_configuration_error(self._client, self._pool.namespace)
        message = (
            "MetalLB in the tenant has not read the pool: it does not run, or cannot use its"
            " configuration" + (f": {why}" if why else "")
        )
        return Health(HealthState.NOT_READING, NOT_RUNNING, message=message, since=since)

    async def _check_if_read(self, projection: Projection) -> bool:
        """Return whether MetalLB has counted the projected ranges, or does not count at all."""
        client, memory = self._client, self._memory
        watched_pool = self._watched.get(IP_ADDRESS_POOL, self._pool) if self._watched else None
        # A watch may be late or broken. So the live read is left out only if the watched pool
        # already shows that MetalLB has read it.
        if _has_counted(watched_pool, projection) or (
            memory.is_silent and _is_uncounted(watched_pool, projection)
        ):
            return True
        try:
            pool = await client.get(IP_ADDRESS_POOL, self._pool)
        except NotFound:
            return False
        if pool.status is not None:
            return _has_counted(pool, projection)
        if not memory.is_silent:
            if await client.is_served(SERVICE_BGP_STATUS):
                return False  # a MetalLB that counts has not counted yet
            memory.is_silent = True  # it is older than 0.15, and never counts
        return True


def _has_counted(pool: IPAddressPool | None, projection: Projection) -> bool:
    """Return whether MetalLB has counted all projected addresses in a pool.

    Versions of MetalLB count large ranges differently, so either of two counts is accepted.
    """
    if pool is None or pool.spec.addresses != projection.entries:
        return False
    spans = [
        span
        for entry in projection.entries
        if (span := addresstexts.parse_cidr_or_span(entry)) is not None
    ]
    return count_reported_addresses(pool.status) in compute_metallb_counts(spans)


def _is_uncounted(pool: IPAddressPool | None, projection: Projection) -> bool:
    """Return whether a pool has the projected ranges and no count."""
    return pool is not None and pool.status is None and pool.spec.addresses == projection.entries
