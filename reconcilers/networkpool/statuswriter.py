"""Writes the statuses of NetworkPools, and records what each write changed."""

from collections.abc import Mapping
from typing import Any

from controller.client import Client
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.networkpool import status
from reconcilers.networkpool.events import PoolEvents


class PoolStatusWriter:
    """Writes the status of a pool at the version that was read, if the status differs.

    Args:
        client: the management cluster.
        events: takes what a write changed.
    """

    def __init__(self, client: Client, events: PoolEvents) -> None:
        self._client = client
        self._events = events

    async def write(self, pool: NetworkPool, new_status: Mapping[str, Any]) -> NetworkPool:
        """Write the status of a pool if it differs from the current one.

        Args:
            pool: as it was read.
            new_status: its status; fields that are absent stay as they are.

        Returns:
            The pool as it was written; `pool` itself if it was not.

        Raises:
            Conflict: the pool has changed since it was read.
            ControllerError: the write failed.
        """
        if not status.differs(pool.status, new_status):
            return pool
        written = await self._client.patch_status(NETWORK_POOL, pool, new_status)
        self._events.record_status_write(pool, written)
        return written

    async def check_version(self, pool: NetworkPool) -> None:
        """Check that a pool is still as it was read, by a write that changes nothing.

        A reason is written to allocations only after that. So a replica with an old view of the
        pool cannot overwrite what another replica wrote to them.

        Raises:
            Conflict: the pool has changed since it was read.
            ControllerError: the write failed.
        """
        await self._client.patch_status(NETWORK_POOL, pool, {})
