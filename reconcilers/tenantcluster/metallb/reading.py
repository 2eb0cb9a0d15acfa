"""Whether MetalLB in a tenant runs: it has read our pool as it stands.

From 0.15 on MetalLB counts the addresses of each pool in the pool's status, so one that has
counted as many as we wrote is there, and can use its configuration. That is no proof that it has
read that a range is out (uptake.py has one); it is enough to say that a tenant can use its
addresses, and whether more would help it. An older MetalLB shows nothing, and is believed to run.

MetalLB takes a moment to count. A tenant that had all it should have stays so for that long.
"""

from controller.client import Client
from controller.clock import Clock
from controller.conditions import is_true
from controller.errors import NotFound
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.resources import IP_ADDRESS_POOL, SERVICE_BGP_STATUS, IPAddressPool
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY, TenantCluster
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.metallb.poolwatch import PoolWatches
from reconcilers.tenantcluster.metallb.projection import Projection
from reconcilers.tenantcluster.metallb.uptake import (
    as_metallb_counts,
    configuration_error,
    counted,
)

NOT_RUNNING = "MetalLBNotRunning"
"""The reason while MetalLB has not read the pool, for longer than it takes one that runs."""
MOMENT = 10.0
"""For how many seconds MetalLB is believed to be about to read the pool."""
_SOON = 1.0


class Reading:
    """Finds out whether MetalLB has read what was written.

    Args:
        watches: show the pool without a read of it.
        clock: the time.
        settings: where MetalLB lives.
    """

    def __init__(self, watches: PoolWatches, clock: Clock, settings: TenantSettings) -> None:
        self._watches = watches
        self._clock = clock
        self._pool = Key(settings.metallb_namespace, names.METALLB_POOL)
        # What is not read yet, and since when (monotonic seconds), by tenant.
        self._unread: dict[Key, tuple[str, tuple[str, ...], float]] = {}
        # The tenants, by uid, whose MetalLB does not count.
        self._silent: dict[Key, str] = {}

    def forget(self, key: Key) -> None:
        """Forget a tenant that is gone, or that is left alone from now on."""
        self._unread.pop(key, None)
        self._silent.pop(key, None)

    def due_in(self, key: Key) -> float | None:
        """Return in how many seconds to look again; None if a change is heard of, or none due."""
        unread = self._unread.get(key)
        if unread is None or self._clock.monotonic() - unread[2] >= MOMENT:
            return None
        return _SOON

    async def problem(self, client: Client, tenant: TenantCluster, wanted: Projection) -> str:
        """Return why MetalLB is not known to run; empty if it is, or has a moment to show it.

        Args:
            client: of the tenant.
            tenant: its TenantCluster.
            wanted: what the pool has been made to hold.

        Raises:
            ControllerError: the tenant did not answer.
        """
        key, uid = tenant.metadata.key, tenant.metadata.uid
        if await self._is_read(client, tenant, wanted):
            self._unread.pop(key, None)
            return ""
        now = self._clock.monotonic()
        before = self._unread.get(key, ("", (), now))
        since = before[2] if before[:2] == (uid, wanted.entries) else now
        self._unread[key] = (uid, wanted.entries, since)
        waited = now - since >= MOMENT
        if not waited and is_true(tenant.status.conditions, LOAD_BALANCER_READY):
            return ""
        why = await configuration_error(client, self._pool.namespace) if waited else ""
        return (
            "MetalLB in the tenant has not read the pool: it does not run, or cannot use its"
            " configuration" + (f": {why}" if why else "")
        )

    async def _is_read(self, client: Client, tenant: TenantCluster, wanted: Projection) -> bool:
        """Return whether MetalLB has counted what is wanted, or does not count at all.

        What the watch shows is believed if it says so; it may be late, or broken.
        """
        key, uid = tenant.metadata.key, tenant.metadata.uid
        silent = self._silent.get(key) == uid
        shown = self._shown(key)
        if _has_counted(shown, wanted) or (silent and _is_uncounted(shown, wanted)):
            return True
        try:
            pool = await client.get(IP_ADDRESS_POOL, self._pool)
        except NotFound:
            return False
        if pool.status is not None:
            return _has_counted(pool, wanted)
        if not silent:
            if await client.served(SERVICE_BGP_STATUS):
                return False
            self._silent[key] = uid
        return True

    def _shown(self, key: Key) -> IPAddressPool | None:
        """Return the pool as its watch shows it."""
        cache = self._watches.pools.cache(key)
        return cache.get(self._pool) if cache is not None else None


def _has_counted(pool: IPAddressPool | None, wanted: Projection) -> bool:
    """Return whether MetalLB has counted as many addresses in a pool as are wanted there."""
    if pool is None or pool.spec.addresses != wanted.entries:
        return False
    found = [span for one in wanted.entries if (span := ranges.parsed_entry(one)) is not None]
    return counted(pool.status) == as_metallb_counts(found)


def _is_uncounted(pool: IPAddressPool | None, wanted: Projection) -> bool:
    """Return whether a pool has what is wanted, and no count."""
    return pool is not None and pool.status is None and pool.spec.addresses == wanted.entries
