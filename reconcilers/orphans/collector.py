"""One sweep over all allocations, once a minute: collect orphans, adopt, repair labels.

What a sweep sees comes from caches and costs no request; at rest nothing is sent. An allocation
whose owner is gone is deleted, in whatever phase: what follows is the way of every deletion, so
the range goes back when the tenant has let go. Adopting and repairing is not urgent, so it is
done a batch a sweep, and only where it gets in nobody's way.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import find, is_true
from controller.errors import Conflict, ControllerError, NotFound
from controller.events import Recorder
from controller.meta import Key, Version
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import FOREIGN_MANAGER, Finding, rendered, with_findings
from reconcilers.orphans import labels
from reconcilers.orphans.census import Standing, at_rest, by_pool, stamp, standing
from reconcilers.orphans.owners import Owners
from reconcilers.orphans.suspension import Notice, Pace, limit, too_many
from reconcilers.settings import OrphanSettings

OWNER_FOUND = "OwnerFound"
COLLECT = "CollectOrphans"
FEW = 16
"""So many allocations that a sweep collects from one pool get an event each."""

_log = structlog.get_logger(__name__)


class OrphanCollector:
    """Sweeps.

    Args:
        client: for what is not at rest.
        pools: to tell of what is collected, and what is promised.
        allocations: all of them.
        clusters: the owners.
        recorder: takes the events.
        clock: for the time.
        settings: how often, and how much at once.
        collected: told the pool of each allocation that is collected.
    """

    def __init__(  # noqa: PLR0913 - the caches it reads; the wiring is the one caller
        self,
        client: Client,
        *,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        clusters: Cache[TenantCluster],
        recorder: Recorder,
        clock: Clock,
        settings: OrphanSettings,
        collected: Callable[[Key], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._pools = pools
        self._allocations = allocations
        self._clusters = clusters
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._collected = collected
        self._pace = Pace(clock)
        self._notice = Notice(client, recorder, clock)

    async def run(self) -> None:
        """Sweep now and then until cancelled."""
        while True:
            await self._clock.sleep(self._settings.resync)
            await self.sweep()

    async def sweep(self) -> None:
        """Look at every allocation once."""
        owners = Owners(self._client)
        repairs = self._settings.batch
        for pool, found in by_pool(self._allocations).items():
            if self._left_to_others(pool):
                continue
            try:
                repairs -= await self._repair(self._pools.get(pool), found, owners, repairs)
                await self._collect(pool, found, owners)
            except (Conflict, NotFound):
                continue  # the caches are behind what happened; the next sweep sees it
            except ControllerError as error:
                _log.warning("orphans not looked for", pool=str(pool), error=str(error))

    def _left_to_others(self, where: Key) -> bool:
        """Whether another controller looks after the pool's allocations just now."""
        pool = self._pools.get(where)
        return pool is not None and is_true(pool.status.conditions, FOREIGN_MANAGER)

    async def _collect(self, where: Key, found: Sequence[IPAllocation], owners: Owners) -> None:
        pool = self._pools.get(where)
        nominated = [a for a in found if standing(a, self._clusters) is Standing.NOMINATED]
        allowed = limit(len(found), self._settings)
        if len(nominated) + self._pace.recent(where) > allowed:
            _log.warning("too many orphans at once", pool=str(where), count=len(nominated))
            if pool is not None:
                finding = too_many(len(nominated), len(found), allowed)
                await self._notice.put_up(pool, finding)
            return
        if pool is not None:
            await self._notice.take_down(pool)
        collected = [a for a in nominated if await self._judge(a, owners)]
        if collected:
            _log.info(
                "garbage collected orphaned allocations", pool=str(where), count=len(collected)
            )
        if pool is not None:
            self._tell(pool, collected)

    def _tell(self, pool: NetworkPool, collected: Sequence[IPAllocation]) -> None:
        """Record an event for each of a few, and one for all others."""
        for allocation in collected[:FEW]:
            owner = allocation.spec.tenantClusterRef.key
            self._recorder.record(
                NETWORK_POOL,
                pool,
                "Normal",
                "OrphanedAllocationGC",
                f"Garbage collected IPAllocation {allocation.metadata.name}"
                f" (TenantCluster {owner} no longer exists)",
                action=COLLECT,
                related=(IP_ALLOCATION, allocation),
            )
        if more := len(collected[FEW:]):
            self._recorder.record(
                NETWORK_POOL,
                pool,
                "Normal",
                "OrphanedAllocationGC",
                f"Garbage collected {more} more IPAllocations"
                " (their TenantClusters no longer exist)",
                action=COLLECT,
            )

    async def _judge(self, allocation: IPAllocation, owners: Owners) -> bool:
        """Delete a nominated allocation if a live read confirms it; return whether it did."""
        owner, name = allocation.spec.tenantClusterRef, allocation.metadata.name
        try:
            if not await owners.gone(owner.key, stamp(allocation)):
                return False
            _log.info(
                "garbage collecting orphaned IPAllocation",
                allocation=name,
                owner=str(owner.key),
                uid=stamp(allocation),
            )
            await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
        except (Conflict, NotFound):
            return False
        except ControllerError as error:
            _log.warning("orphan not collected", allocation=name, error=str(error))
            return False
        self._pace.note(allocation.pool_key)
        self._collected(allocation.pool_key)
        return True

    async def _repair(
        self,
        pool: NetworkPool | None,
        found: Sequence[IPAllocation],
        owners: Owners,
        most: int,
    ) -> int:
        """Adopt and repair at most `most` allocations; return how many it were."""
        repaired = 0
        for allocation in found:
            if repaired >= most:
                break
            if at_rest(allocation, pool):
                repaired += await self._mend(allocation, owners)
        return repaired

    async def _mend(self, allocation: IPAllocation, owners: Owners) -> bool:
        """Write what is missing on one allocation; return whether anything was."""
        how = standing(allocation, self._clusters)
        if how is Standing.NOMINATED:
            return False
        try:
            uid = await self._owner(allocation, owners) if how is Standing.ADOPTABLE else ""
            changed = await self._metadata(allocation, uid)
            return await self._status(changed or allocation, how, uid) or changed is not None
        except (Conflict, NotFound):
            return True
        except ControllerError as error:
            _log.warning(
                "IPAllocation not repaired", allocation=allocation.metadata.name, error=str(error)
            )
            return True

    async def _owner(self, allocation: IPAllocation, owners: Owners) -> str:
        """Return the uid to adopt; empty if there is none after all.

        Read live: a uid out of an old cache would later cost the allocation its range.
        """
        owner = await owners.find(allocation.spec.tenantClusterRef.key)
        return "" if owner is None or owner.metadata.terminating else owner.metadata.uid

    async def _metadata(self, allocation: IPAllocation, uid: str) -> IPAllocation | None:
        change: dict[str, Any] = {}
        if repairs := labels.missing(allocation):
            change["labels"] = repairs
        if uid:
            change["annotations"] = {names.ANNOTATION_TENANT_UID: uid}
        if not change:
            return None
        return await self._client.patch(
            IP_ALLOCATION, Version.from_object(allocation), {"metadata": change}
        )

    async def _status(self, allocation: IPAllocation, how: Standing, uid: str) -> bool:
        """Say whether the owner was ever seen, where there is or was a doubt."""
        said = find(allocation.status.conditions, OWNER_FOUND)
        if how is Standing.EXPECTING:
            finding = expecting(allocation)
        elif said is not None and (uid or stamp(allocation)):
            finding = Finding(OWNER_FOUND, True, "TenantClusterSeen", "its TenantCluster was seen")
        else:
            return False
        if said is not None and (said.status == "True") == finding.status:
            return False
        conditions = with_findings(
            allocation.status.conditions,
            [finding],
            allocation.metadata.generation,
            self._clock.now(),
        )
        await self._client.patch_status(
            IP_ALLOCATION, allocation, {"conditions": rendered(conditions)}
        )
        return True


def expecting(allocation: IPAllocation) -> Finding:
    """Return the condition of an allocation whose owner was never seen."""
    message = (
        f"TenantCluster {allocation.spec.tenantClusterRef.key} was never seen: the allocation is"
        " kept for it, delete it if it will not come"
    )
    return Finding(OWNER_FOUND, False, "TenantClusterNeverSeen", message)
