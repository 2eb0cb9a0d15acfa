"""Whether MetalLB in a tenant runs: it has read our pool as it stands.

From 0.15 on MetalLB counts the addresses of each pool in the pool's status, so one that has
counted as many as we wrote is there, and can use its configuration. That is no proof that it has
read that a range is out (uptake.py has one); it is enough to say that a tenant can use its
addresses, and whether more would help it. An older MetalLB shows nothing, and is believed to run.

MetalLB takes a moment to count. A tenant that had all it should have stays so for that long.
"""

from collections.abc import Callable
from dataclasses import dataclass

from controller.client import Client
from controller.clock import Clock
from controller.conditions import is_true
from controller.errors import NotFound
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.resources import IP_ADDRESS_POOL, SERVICE_BGP_STATUS, IPAddressPool
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY, TenantCluster
from reconcilers.loadbalancers.metallb.projection import Projection
from reconcilers.loadbalancers.metallb.uptake import (
    as_metallb_counts,
    configuration_error,
    counted,
)
from reconcilers.settings import TenantSettings

NOT_RUNNING = "MetalLBNotRunning"
"""The reason while MetalLB has not read the pool, for longer than it takes one that runs."""
MOMENT = 10.0
"""For how many seconds MetalLB is believed to be about to read the pool."""
_SOON = 1.0


@dataclass(frozen=True, slots=True)
class UnreadEntries:
    """What the MetalLB of a tenant has not read yet.

    Args:
        entries: the addresses that the pool was made to hold.
        since: when that was first seen, in monotonic seconds.
    """

    entries: tuple[str, ...]
    since: float


@dataclass(slots=True)
class ReadingMemory:
    """What is remembered of how the MetalLB of one tenant reads its pool.

    Args:
        unread: what it has not read yet; None if it has read the pool as it stands.
        is_silent: whether it is so old that it does not count addresses.
    """

    unread: UnreadEntries | None = None
    is_silent: bool = False


class Reading:
    """Finds out whether MetalLB has read what was written.

    Args:
        shown: returns the pool of a TenantCluster as its watch shows it; None without a watch.
        clock: the time.
        settings: where MetalLB lives.
    """

    def __init__(
        self,
        shown: Callable[[Key], IPAddressPool | None],
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._shown = shown
        self._clock = clock
        self._pool = Key(settings.metallb_namespace, names.METALLB_POOL)

    def due_in(self, memory: ReadingMemory) -> float | None:
        """Return seconds until the next look; None if a watch reports the change, or none is due.

        Args:
            memory: of the tenant.
        """
        unread = memory.unread
        if unread is None or self._clock.monotonic() - unread.since >= MOMENT:
            return None
        return _SOON

    async def problem(
        self, client: Client, tenant: TenantCluster, wanted: Projection, memory: ReadingMemory
    ) -> str:
        """Return why MetalLB is not known to run; empty if it is, or has a moment to show it.

        Args:
            client: of the tenant.
            tenant: its TenantCluster.
            wanted: what the pool has been made to hold.
            memory: of the tenant.

        Raises:
            ControllerError: the tenant did not answer.
        """
        if await self._is_read(client, tenant.metadata.key, wanted, memory):
            memory.unread = None
            return ""
        now = self._clock.monotonic()
        if memory.unread is None or memory.unread.entries != wanted.entries:
            memory.unread = UnreadEntries(wanted.entries, now)
        waited = now - memory.unread.since >= MOMENT
        if not waited and is_true(tenant.status.conditions, LOAD_BALANCER_READY):
            return ""
        why = await configuration_error(client, self._pool.namespace) if waited else ""
        return (
            "MetalLB in the tenant has not read the pool: it does not run, or cannot use its"
            " configuration" + (f": {why}" if why else "")
        )

    async def _is_read(
        self, client: Client, tenant: Key, wanted: Projection, memory: ReadingMemory
    ) -> bool:
        """Return whether MetalLB has counted what is wanted, or does not count at all.

        What the watch shows is believed if it says so; it may be late, or broken.
        """
        shown = self._shown(tenant)
        if _has_counted(shown, wanted) or (memory.is_silent and _is_uncounted(shown, wanted)):
            return True
        try:
            pool = await client.get(IP_ADDRESS_POOL, self._pool)
        except NotFound:
            return False
        if pool.status is not None:
            return _has_counted(pool, wanted)
        if not memory.is_silent:
            if await client.served(SERVICE_BGP_STATUS):
                return False
            memory.is_silent = True
        return True


def _has_counted(pool: IPAddressPool | None, wanted: Projection) -> bool:
    """Return whether MetalLB has counted as many addresses in a pool as are wanted there."""
    if pool is None or pool.spec.addresses != wanted.entries:
        return False
    found = [span for one in wanted.entries if (span := ranges.parsed_entry(one)) is not None]
    return counted(pool.status) == as_metallb_counts(found)


def _is_uncounted(pool: IPAddressPool | None, wanted: Projection) -> bool:
    """Return whether a pool has what is wanted, and no count."""
    return pool is not None and pool.status is None and pool.spec.addresses == wanted.entries
