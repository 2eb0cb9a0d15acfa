"""Allocations whose TenantCluster is gone are deleted; one sweep over all pools a minute.

What a sweep reads comes from caches and costs no request; at rest nothing is sent. An orphan is
deleted in whatever phase; then its finalizer releases the range as after any deletion. Noting
owners and repairing labels is not urgent, so a sweep does a limited number of them, and only where
no promise becomes void by the write.

An *orphan* is an allocation whose TenantCluster, its *owner*, is gone. To *note* an owner is to
write its uid to the allocation. A *settled* allocation needs nothing until it or its owner
changes.

If too many owners of a pool's allocations are gone at once, no orphan is deleted. A backup that
was restored without its TenantClusters, or a CRD that was deleted and put back, makes every
allocation look orphaned. The pool then carries a condition, and people decide. Owners are counted,
not allocations: one cluster that was forced away may have many.
"""

from collections.abc import Callable, Sequence
from typing import Any

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import find_condition, is_true
from controller.errors import Conflict, ControllerError, NotFound
from controller.events import Recorder
from controller.loggers import get_logger
from controller.meta import Key, Version
from controller.statelog import StateLog
from reconcilers.api import names
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.configuration.settings import OrphanSettings
from reconcilers.networkpool.owners import (
    OWNER_FOUND,
    LiveOwners,
    OwnerState,
    UnsettledAllocations,
    find_owner_state,
    read_noted_uid,
)
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.networkpool.statuswriter import PoolStatusWriter
from reconcilers.networkpool.window import MinuteWindow
from reconcilers.reporting import allocationlabels
from reconcilers.reporting.conditions import (
    FOREIGN_MANAGER,
    ConditionFinding,
    render_conditions,
    with_findings,
)
from reconcilers.reporting.releaselog import release_fields
from reconcilers.reporting.wording import count_noun

SUSPENDED = "OrphanCollectionSuspended"
COLLECT = "CollectOrphans"
FULL_SWEEP_INTERVAL = 60
"""The number of sweeps after which one checks every allocation, whether it changed or not."""
Owner = tuple[Key, str]
"""A TenantCluster that was there once: its name, and its uid."""
MOST_SINGLE_EVENTS = 16
"""Up to so many allocations that a sweep deletes from one pool get an event each."""

_log = get_logger(__name__)

_SWEEP_TOPIC, _LIMIT_TOPIC = "sweep of the pool", "limit of deletions"
_DELETION_TOPIC, _REPAIR_TOPIC = "deletion of an orphan", "repair of an IPAllocation"
# The topics of the states of pools and allocations that are logged.


class OrphanCollector:
    """Deletes orphaned allocations, notes owners, repairs labels.

    Args:
        client: the management cluster.
        allocations: the IPAllocations, indexed by pool and by TenantCluster.
        recorder: takes the events.
        clock: the time.
        settings: how often, and how much at once.
        count_collected: called with the pool of each deleted allocation; for a metric.
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
        count_collected: Callable[[Key], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._statuses = PoolStatusWriter(client)
        self._pools = pools
        self._allocations = allocations
        self._clusters = clusters
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._count_collected = count_collected
        self._collected = MinuteWindow[Owner](clock)
        self._unsettled = UnsettledAllocations(allocations, clusters)
        self._logged = StateLog()
        self._sweeps = 0

    async def run(self) -> None:
        """Sweep once per interval until cancelled."""
        while True:
            await self._clock.sleep(self._settings.resync)
            await self.sweep()

    async def sweep(self) -> None:
        """Check the allocations that are not settled, pool by pool.

        Allocations whose pool does not exist are checked as well.
        """
        self._sweeps += 1
        if self._sweeps % FULL_SWEEP_INTERVAL == 0:
            self._unsettled.add_all()
        owners = LiveOwners(self._client)
        writes_left = self._settings.batch
        unsettled = self._unsettled.list_by_pool()
        suspended = {
            network_pool.metadata.key
            for network_pool in self._pools
            if is_true(network_pool.status.conditions, SUSPENDED)
        }
        unsettled_keys = (
            allocation.metadata.key for group in unsettled.values() for allocation in group
        )
        self._logged.retain({*unsettled, *suspended, *unsettled_keys})
        for pool in sorted({*unsettled, *suspended}):
            # Looked up again: they may have changed while the sweep waited for the last pool.
            latest_versions = (
                self._allocations.get(allocation.metadata.key)
                for allocation in unsettled.get(pool, ())
            )
            allocations = [
                allocation
                for allocation in latest_versions
                if allocation is not None and allocation.pool_key == pool
            ]
            # Without its journal it is unknown which writes would void a promise. A foreign
            # controller may write these allocations as well.
            if pool in self._pools.unreadable or self._has_foreign_manager(pool):
                continue
            try:
                writes_left -= await self._repair_allocations(
                    pool, allocations, owners=owners, limit=writes_left
                )
                await self._collect_orphans(pool, allocations, owners)
                self._logged.end(pool, _SWEEP_TOPIC)
            except (Conflict, NotFound):
                continue  # the caches are behind; the next sweep sees what happened
            except ControllerError as error:
                if self._logged.begin(pool, _SWEEP_TOPIC, str(error)):
                    _log.warning("orphans not collected", pool=str(pool), error=str(error))

    def _has_foreign_manager(self, key: Key) -> bool:
        """Return whether another controller writes the statuses of the pool's allocations."""
        pool = self._pools.get(key)
        return pool is not None and is_true(pool.status.conditions, FOREIGN_MANAGER)

    async def _collect_orphans(
        self, key: Key, allocations: Sequence[IPAllocation], owners: LiveOwners
    ) -> None:
        """Delete the orphans of a pool, or suspend that if too many owners are gone.

        Owners whose orphans were deleted in the last minute count as well.
        """
        pool = self._pools.get(key)
        suspects = [
            allocation
            for allocation in allocations
            if find_owner_state(allocation, self._clusters) is OwnerState.MAYBE_GONE
        ]
        if suspects:
            owner_count = len(
                set(map(_get_owner, self._allocations.list_by_index(POOL_INDEX, str(key))))
            )
            allowed = compute_owner_limit(owner_count, self._settings)
            gone_owners = set(map(_get_owner, suspects))
            if len(gone_owners.union(self._collected.list_recent(key))) > allowed:
                if self._logged.begin(key, _LIMIT_TOPIC, str(len(suspects))):
                    _log.warning("too many orphans at once", pool=str(key), count=len(suspects))
                if pool is not None:
                    await self._suspend_collection(
                        pool, describe_suspension(len(gone_owners), owner_count, allowed)
                    )
                return  # nothing is deleted until people decide
        self._logged.end(key, _LIMIT_TOPIC)
        if pool is not None:
            await self._resume_collection(pool)
        collected = [
            allocation
            for allocation in suspects
            if await self._delete_if_orphaned(allocation, owners)
        ]
        if collected:
            _log.info(
                "garbage collected orphaned allocations", pool=str(key), count=len(collected)
            )
        if pool is not None:
            self._record_deletions(pool, collected)

    async def _delete_if_orphaned(self, allocation: IPAllocation, owners: LiveOwners) -> bool:
        """Delete an allocation if a live read confirms that its owner is gone.

        Returns:
            Whether it was deleted.
        """
        owner, name = allocation.spec.tenantClusterRef, allocation.metadata.name
        try:
            if not await owners.is_gone(owner.key, read_noted_uid(allocation)):
                return False
            _log.info(
                "garbage collecting orphaned IPAllocation",
                uid=read_noted_uid(allocation),
                **release_fields(allocation, "its TenantCluster is gone"),
            )
            await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
        except (Conflict, NotFound):
            return False  # it changed or is gone; the next sweep checks it again
        except ControllerError as error:
            # Returned as not deleted, so that the sweep goes on with the other orphans.
            if self._logged.begin(allocation.metadata.key, _DELETION_TOPIC, str(error)):
                _log.warning("orphan not collected", allocation=name, error=str(error))
            return False
        self._collected.add(allocation.pool_key, _get_owner(allocation))
        self._count_collected(allocation.pool_key)
        return True

    def _record_deletions(self, pool: NetworkPool, collected: Sequence[IPAllocation]) -> None:
        """Record an event for each of a few deletions, and one for all others."""
        for allocation in collected[:MOST_SINGLE_EVENTS]:
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
        if more := len(collected[MOST_SINGLE_EVENTS:]):
            self._recorder.record(
                NETWORK_POOL,
                pool,
                "Normal",
                "OrphanedAllocationGC",
                f"Garbage collected {count_noun(more, 'more IPAllocation')}"
                " (their TenantClusters no longer exist)",
                action=COLLECT,
            )

    async def _suspend_collection(self, pool: NetworkPool, finding: ConditionFinding) -> None:
        """Write the condition that collection is suspended, with an event the first time.

        Raises:
            Conflict: the pool changed meanwhile; the next sweep writes it.
            ControllerError: the write failed.
        """
        if is_true(pool.status.conditions, SUSPENDED):
            return  # the first numbers stay: present ones would be a write each minute
        written = await self._statuses.write_condition(pool, finding, self._clock.now())
        self._recorder.record(
            NETWORK_POOL, written, "Warning", SUSPENDED, finding.message, action=COLLECT
        )

    async def _resume_collection(self, pool: NetworkPool) -> None:
        """Turn the condition to False if collection was suspended.

        Raises:
            Conflict: the pool changed meanwhile; the next sweep writes it.
            ControllerError: the write failed.
        """
        if is_true(pool.status.conditions, SUSPENDED):
            message = "orphaned IPAllocations are collected"
            finding = ConditionFinding(SUSPENDED, False, reason="WithinLimit", message=message)
            await self._statuses.write_condition(pool, finding, self._clock.now())

    async def _repair_allocations(
        self, pool: Key, allocations: Sequence[IPAllocation], owners: LiveOwners, limit: int
    ) -> int:
        """Note owners and repair labels, for at most `limit` allocations.

        Returns:
            For how many allocations a write was tried.
        """
        repaired = 0
        promised = self._list_promised_versions(pool)
        for allocation in allocations:
            if repaired >= limit:
                break
            meta, phase = allocation.metadata, allocation.status.phase
            if (
                phase is None
                or meta.is_terminating
                or (meta.uid, meta.resourceVersion) in promised
            ):
                continue  # a write makes a new version, which voids a promise to the present one
            repaired += await self._repair_one(allocation, owners)
        return repaired

    def _list_promised_versions(self, key: Key) -> set[tuple[str, str]]:
        """Return uid and resourceVersion of each allocation that a pool has promised a range."""
        pool = self._pools.get(key)
        if pool is None:
            return set()
        return {promise.identity for promise in STATUS_JOURNALS.read(pool).promises}

    async def _repair_one(self, allocation: IPAllocation, owners: LiveOwners) -> bool:
        """Write what is missing on one allocation; return whether a write was tried.

        A failed request counts as a write, also if it was a read.
        """
        state = find_owner_state(allocation, self._clusters)
        if state is OwnerState.MAYBE_GONE:
            return False  # it may be deleted by this sweep
        try:
            uid = ""
            if state is OwnerState.NOT_NOTED:
                uid = await self._read_live_uid(allocation, owners)
            changed = await self._repair_metadata(allocation, uid)
            is_status_written = await self._write_owner_found(changed or allocation, state, uid)
            return is_status_written or changed is not None
        except (Conflict, NotFound):
            return True  # it changed or is gone; the next sweep checks it again
        except ControllerError as error:
            name = allocation.metadata.name
            if self._logged.begin(allocation.metadata.key, _REPAIR_TOPIC, str(error)):
                _log.warning("IPAllocation not repaired", allocation=name, error=str(error))
            return True

    async def _read_live_uid(self, allocation: IPAllocation, owners: LiveOwners) -> str:
        """Return the owner's uid to note; empty if there is no owner after all.

        Read live: a uid out of an old cache would later cost the allocation its range.
        """
        owner = await owners.get(allocation.spec.tenantClusterRef.key)
        return "" if owner is None or owner.metadata.is_terminating else owner.metadata.uid

    async def _repair_metadata(self, allocation: IPAllocation, uid: str) -> IPAllocation | None:
        """Correct missing or wrong labels; note `uid` as that of the owner if it is not empty.

        Returns:
            The allocation as it was written; None if there was nothing to write.
        """
        change: dict[str, Any] = {}
        if repairs := allocationlabels.find_label_repairs(allocation):
            change["labels"] = repairs
        if uid:
            change["annotations"] = {names.ANNOTATION_TENANT_UID: uid}
        if not change:
            return None
        return await self._client.patch(
            IP_ALLOCATION, Version.from_object(allocation), {"metadata": change}
        )

    async def _write_owner_found(
        self, allocation: IPAllocation, state: OwnerState, uid: str
    ) -> bool:
        """Write the OwnerFound condition if it changes; return whether it did.

        An allocation has it only if its owner was not found at some time.
        """
        present = find_condition(allocation.status.conditions, OWNER_FOUND)
        if state is OwnerState.NEVER_SEEN:
            finding = describe_never_seen(allocation)
        elif present is not None and (uid or read_noted_uid(allocation)):
            finding = ConditionFinding(
                OWNER_FOUND, True, reason="TenantClusterSeen", message="its TenantCluster was seen"
            )
        else:
            return False
        if present is not None and (present.status == "True") == finding.status:
            return False
        conditions = with_findings(
            allocation.status.conditions,
            [finding],
            generation=allocation.metadata.generation,
            now=self._clock.now(),
        )
        await self._client.patch_status(
            IP_ALLOCATION, allocation, {"conditions": render_conditions(conditions)}
        )
        return True


def _get_owner(allocation: IPAllocation) -> Owner:
    """Return the owner of an allocation, with the noted uid; the uid is empty if none is noted."""
    return allocation.spec.tenantClusterRef.key, read_noted_uid(allocation)


def compute_owner_limit(size: int, settings: OrphanSettings) -> int:
    """Return how many of a pool's `size` owners may lose their allocations in a minute."""
    return max(settings.most, size * settings.percent // 100)


def describe_suspension(count: int, size: int, allowed: int) -> ConditionFinding:
    """Return condition OrphanCollectionSuspended of a pool: True, with the numbers of owners."""
    message = (
        f"{count} of {size} TenantClusters that hold addresses seem to be gone; more than"
        f" {allowed} in a minute are not collected: bring the clusters back, or delete their"
        " IPAllocations if they are really gone"
    )
    return ConditionFinding(SUSPENDED, True, reason="TooManyOrphans", message=message)


def describe_never_seen(allocation: IPAllocation) -> ConditionFinding:
    """Return condition OwnerFound, as False, of an allocation whose owner was never seen."""
    message = (
        f"TenantCluster {allocation.spec.tenantClusterRef.key} was never seen: the allocation is"
        " kept for it, delete it if it will not come"
    )
    return ConditionFinding(OWNER_FOUND, False, reason="TenantClusterNeverSeen", message=message)
