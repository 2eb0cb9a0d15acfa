"""Writes the statuses of NetworkPools.

The journal of a pool is in its status, too. `promises/passes.py` writes it for pools of all kinds,
and the figures in the same write.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controller.client import Client
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.networkpool import status
from reconcilers.reporting.conditions import ConditionFinding, render_conditions, with_findings


class PoolStatusWriter:
    """Writes the status of a pool at the version that was read.

    Args:
        client: the management cluster.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

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
        return await self._client.patch_status(NETWORK_POOL, pool, new_status)

    async def write_condition(
        self, pool: NetworkPool, finding: ConditionFinding, now: datetime
    ) -> NetworkPool:
        """Write one condition of a pool; the rest of its status stays as it is.

        Args:
            pool: as it was read.
            finding: the condition to set.
            now: the transition time, if the status of the condition changes.

        Returns:
            The pool as it was written.

        Raises:
            Conflict: the pool has changed since it was read.
            ControllerError: the write failed.
        """
        conditions = with_findings(
            pool.status.conditions, [finding], generation=pool.metadata.generation, now=now
        )
        return await self._client.patch_status(
            NETWORK_POOL, pool, {"conditions": render_conditions(conditions)}
        )

    async def check_version(self, pool: NetworkPool) -> None:
        """Check that a pool is still as it was read, by a write that changes nothing.

        A reason is written to allocations only after that. So a replica with an old view of the
        pool cannot overwrite what another replica wrote to them.

        Raises:
            Conflict: the pool has changed since it was read.
            ControllerError: the write failed.
        """
        await self._client.patch_status(NETWORK_POOL, pool, {})
