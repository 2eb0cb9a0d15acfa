"""Releases all addresses of a TenantCluster that is being deleted, or is gone.

1. Its allocations are deleted. The deletion is a mark: every projection leaves out their ranges.
2. The ranges are removed from the tenant's load balancer.
3. A load-balancer allocation goes once the tenant has released it (check.py).
4. Our finalizer is removed when no load-balancer allocation is left. A cache that has read past
   the deletion shows that, or a live LIST.
5. The allocations of nodes go once the cluster is gone. Another controller's finalizer may keep
   the cluster.

Our finalizer keeps a cluster until its load-balancer addresses are released. A cluster can
*vanish* all the same: a person removes the finalizer, or a deletion that began before the
finalizer was added ends after that. kube-apiserver reads an object, decides by its finalizers how
to delete it, calls the webhooks, and then removes the object as it stands by that time. So a
finalizer is safe only after as long as one request may take.

The tenant of a vanished cluster may be alive and use its addresses, so they are released as for a
cluster that is being deleted. The last state of a vanished cluster is remembered; after a restart
its kubeconfig is looked for in the default Secret.

*Leftovers* are the allocations of a vanished cluster.
"""

from collections.abc import Iterable
from dataclasses import replace

from msgspec import structs

from controller.cache import Cache, Change
from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError, NotFound
from controller.finalizers import remove_finalizer
from controller.loggers import get_logger
from controller.meta import Key, ObjectMeta, Version
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER, Addons, LoadBalancerAddon
from reconcilers.api.tenantcluster import TenantCluster, TenantClusterSpec
from reconcilers.networkpool.owners import LiveOwners, read_noted_uid
from reconcilers.reporting.releaselog import release_fields
from reconcilers.tenantcluster.allocations.membership import is_foreign, list_members
from reconcilers.tenantcluster.allocations.unreadable_members import (
    list_unreadable_members,
    select_unreadable_members,
)
from reconcilers.tenantcluster.record.records import TenantRecord, TenantRecords

LATE_DELETION_SECONDS = 120.0
"""For how many seconds after a finalizer was added a deletion without it may still show: an API
server gives up a request after a minute (--request-timeout), and the watch shows the result a
while later."""
_ASSUMED_ANNOTATIONS = {names.ANNOTATION_PROJECTION_BEGUN: "unknown"}
"""Annotations of a vanished cluster: a projection may have begun after it was last seen."""


class VanishedClusters:
    """Remembers the last state of clusters that are gone while allocations of theirs exist.

    Args:
        clusters: the clusters; the last state of a cluster that leaves this cache is kept.
        allocations: show whether a cluster that is gone left any.
        records: keep the last states.
        clock: the time, for LATE_DELETION_SECONDS.
    """

    def __init__(
        self,
        clusters: Cache[TenantCluster],
        allocations: Cache[IPAllocation],
        records: TenantRecords,
        clock: Clock,
    ) -> None:
        self._clusters = clusters
        self._allocations = allocations
        self._records = records
        self._clock = clock
        # When this process gave new clusters our finalizer, by uid. The times are kept here, and
        # not in the records of the clusters. A pass that finds a cluster gone and without
        # allocations removes its record, and allocations may appear in the cache after that.
        self._finalizer_times: dict[str, float] = {}
        clusters.subscribe(self._note_vanished)

    def note_new(self, tenant: TenantCluster) -> None:
        """Note that a cluster without allocations was given our finalizer just now.

        Notes that are older than LATE_DELETION_SECONDS are dropped.
        """
        now = self._clock.monotonic()
        recent = {
            uid: added_at
            for uid, added_at in self._finalizer_times.items()
            if now - added_at < LATE_DELETION_SECONDS
        }
        self._finalizer_times = recent | {tenant.metadata.uid: now}

    def deletion_may_precede_finalizer(self, vanished: TenantCluster) -> bool:
        """Return whether a deletion may have begun before this process added our finalizer.

        If so, this process created all allocations of the cluster within LATE_DELETION_SECONDS,
        and they can be deleted without the limits of the orphan collector.
        """
        added_at = self._finalizer_times.get(vanished.metadata.uid)
        return added_at is not None and self._clock.monotonic() - added_at < LATE_DELETION_SECONDS

    def list_leftovers(self, key: Key) -> list[tuple[TenantCluster, list[IPAllocation]]]:
        """Return the vanished clusters of a name, each with the allocations that it left.

        The clusters are in the order of the last write to their allocations; the latest is last.
        """
        present = self._clusters.get(key)
        by_uid: dict[str, list[IPAllocation]] = {}
        for allocation in self._allocations.list_by_index(TENANT_INDEX, str(key)):
            uid = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
            if uid and (present is None or present.metadata.uid != uid):
                by_uid.setdefault(uid, []).append(allocation)
        ordered = sorted(
            by_uid.items(), key=lambda pair: max(a.metadata.revision for a in pair[1])
        )
        return [
            (self._find_last_state(key, uid, allocations), allocations)
            for uid, allocations in ordered
        ]

    def is_needed(self, record: TenantRecord) -> bool:
        """Return whether an allocation exists that is, or may be, of the cluster of a record.

        An allocation without a noted uid belongs to the present cluster, if there is one; else it
        may be of any cluster of that name. An unreadable allocation may be, too.
        """
        key = record.key
        present = self._clusters.get(key)
        uid_without_note = present.metadata.uid if present is not None else record.uid
        if any(
            (read_noted_uid(allocation) or uid_without_note) == record.uid
            for allocation in self._allocations.list_by_index(TENANT_INDEX, str(key))
        ):
            return True
        return bool(list_unreadable_members(self._allocations, key))

    def find_owner(self, allocation: IPAllocation) -> TenantCluster | None:
        """Return the last known state of an allocation's owner; None if it notes no owner."""
        uid = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
        key = allocation.spec.tenantClusterRef.key
        return self._find_last_state(key, uid, [allocation]) if uid else None

    def find_cluster(self, record: TenantRecord) -> TenantCluster:
        """Return the last known state of the vanished cluster to which a record belongs."""
        return self._find_last_state(record.key, record.uid, ())

    def _find_last_state(
        self, key: Key, uid: str, allocations: Iterable[IPAllocation]
    ) -> TenantCluster:
        """Return a cluster as this process last saw it, or a substitute if it never saw it.

        The substitute has the name and uid, the load balancer that is noted on the allocations,
        and _ASSUMED_ANNOTATIONS, so that the release check asks the tenant.
        """
        record = self._records.find(key, uid)
        if record is not None and record.last_seen is not None:
            return record.last_seen
        meta = ObjectMeta(key.name, key.namespace, uid, annotations=_ASSUMED_ANNOTATIONS)
        noted_providers = (
            a.load_balancer for a in allocations if a.spec.type == names.TYPE_LOADBALANCER
        )
        provider = next(noted_providers, DEFAULT_LOAD_BALANCER)
        addons = Addons(loadBalancer=LoadBalancerAddon(version="", provider=provider))
        # Version and replicas are required fields, and used by nothing here.
        return TenantCluster(meta, TenantClusterSpec("v0.0.0", {"replicas": 1}, addons=addons))

    def _note_vanished(self, change: Change[TenantCluster]) -> None:
        """Keep the last state of a TenantCluster that vanished while it had allocations."""
        old, new = change.old, change.new
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return  # the cluster appeared or changed
        key = old.metadata.key
        if self._allocations.list_by_index(TENANT_INDEX, str(key)) or list_unreadable_members(
            self._allocations, key
        ):
            # Annotations that were seen have precedence over the assumed ones.
            annotations = _ASSUMED_ANNOTATIONS | dict(old.metadata.annotations)
            meta = replace(old.metadata, annotations=annotations)
            self._records.get_or_create(old).last_seen = structs.replace(old, metadata=meta)


_log = get_logger(__name__)


class Teardown:
    """Deletes the allocations of clusters that are being deleted or gone."""

    def __init__(self, client: Client, allocations: Cache[IPAllocation]) -> None:
        self._client = client
        self._allocations = allocations

    async def delete_allocations(self, tenant: TenantCluster) -> int:
        """Delete the tenant's allocations; return how many of them are for load balancers.

        Our finalizer waits for these alone. Allocations of nodes have our finalizer for
        allocations, which stays until the cluster is gone, so waiting for them would never end.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: a delete failed; the others were tried all the same.
        """
        allocations = list_members(self._allocations, tenant)
        await self._delete(allocations, "the TenantCluster is being deleted")
        return sum(allocation.spec.type == names.TYPE_LOADBALANCER for allocation in allocations)

    async def delete_leftovers(
        self, vanished: TenantCluster, leftovers: Iterable[IPAllocation]
    ) -> None:
        """Delete the allocations of a vanished cluster if a live read shows that it is gone.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the read or a delete failed.
        """
        meta = vanished.metadata
        undeleted = [
            allocation for allocation in leftovers if not allocation.metadata.is_terminating
        ]
        if undeleted and await LiveOwners(self._client).is_gone(meta.key, meta.uid):
            _log.info("TenantCluster was removed before its finalizer", uid=meta.uid)
            await self._delete(undeleted, "the TenantCluster is gone")

    async def _delete(self, allocations: Iterable[IPAllocation], reason: str) -> None:
        """Delete all allocations, even if some deletions fail; then raise the first failure."""
        failures = []
        for allocation in allocations:
            if allocation.metadata.is_terminating:
                continue  # it is deleted already, and waits for its release
            fields = release_fields(allocation, reason)
            _log.info("deleting IPAllocation during cleanup", **fields)
            try:
                await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
            except NotFound:
                continue  # another process has deleted it, and its range is released
            except ControllerError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def remove_finalizer(self, tenant: TenantCluster, *, deletion_revision: int) -> bool:
        """Remove our finalizer if no load-balancer allocation is left; return whether it did.

        The caller has seen no such allocation in the cache. If the cache may be behind, a live
        LIST decides.

        Args:
            deletion_revision: the first resourceVersion that showed the deletion of the cluster.

        Raises:
            Conflict: the cluster changed since it was read; begin again.
            ControllerError: the LIST or the write failed.
        """
        if not self._has_read(deletion_revision) and await self._is_any_left(tenant):
            return False
        await remove_finalizer(self._client, TENANT_CLUSTER, tenant, names.FINALIZER_TENANT)
        return True

    def _has_read(self, deletion_revision: int) -> bool:
        """Return whether the cache of allocations has read past the deletion of the cluster.

        If so, it shows every allocation that was created before the deletion. An allocation that
        is created later becomes a leftover, and a LIST would not prevent that.
        """
        return (
            self._allocations.is_history_confirmed
            and self._allocations.position >= deletion_revision
        )

    async def _is_any_left(self, tenant: TenantCluster) -> bool:
        """Return whether a live LIST shows load-balancer allocations of the cluster.

        An unreadable allocation counts, because it may be for a load balancer.
        """
        page = await self._client.list(IP_ALLOCATION)
        key = tenant.metadata.key
        if select_unreadable_members(page.unreadable, key, tenant.metadata.uid):
            return True
        return any(
            a.spec.tenantClusterRef.key == key
            and a.spec.type == names.TYPE_LOADBALANCER
            and not is_foreign(a, tenant)
            for a in page.items
        )
