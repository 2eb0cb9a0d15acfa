"""A TenantCluster that is being deleted, or is gone, gives everything back.

1. its allocations are deleted: that is the mark which every projection leaves out
2. what we wrote to the tenant's load balancer is removed
3. each for load balancers goes once the tenant has released it (release.py)
4. our finalizer goes when a cache that has read past the deletion, or a live LIST, shows none left
5. those of nodes go once the cluster is gone, which another controller's finalizer may delay

Our finalizer keeps a cluster until its load balancers' addresses are back, but it can go all the
same: a person removes the finalizer, or a deletion overtakes it. (kube-apiserver reads an object,
decides from its finalizers how it is to go, asks the webhooks, and then removes what is there by
then; so the answer to the PATCH promises nothing for as long as a request may take.) The tenant
may be alive and use its addresses, so they are taken back as from a cluster that is being deleted.
The last state of such a cluster is remembered; after a restart its kubeconfig is looked for in the
default Secret.
"""

from collections.abc import Iterable
from dataclasses import replace

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
from reconcilers.networkpool.owners import LiveOwners, noted_uid
from reconcilers.reporting.releaselog import release_fields
from reconcilers.tenantcluster.allocations.membership import is_foreign, members
from reconcilers.tenantcluster.allocations.unreadable_members import (
    unreadable_in_list,
    unreadable_members,
)
from reconcilers.tenantcluster.record.records import TenantRecord, TenantRecords

OVERTAKEN_SECONDS = 120.0
"""How long after it was added a finalizer may turn out not to have held: an API server gives up a
request after a minute (--request-timeout), and we need a while to see what became of it."""
_ASSUMED = {names.ANNOTATION_PROJECTION_BEGUN: "unknown"}


class VanishedClusters:
    """Remembers clusters that are gone while allocations carry their uid.

    Args:
        clusters: the clusters; those that leave this cache are remembered.
        allocations: show whether anything is left of one.
        records: keep the last state of each.
        clock: the time, for how long a finalizer may be overtaken.
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
        # When this process gave new clusters our finalizer, by uid. Not in the record: allocations
        # may appear after the pass that sees the cluster gone.
        self._new: dict[str, float] = {}
        clusters.subscribe(self._note)

    def note_new(self, tenant: TenantCluster) -> None:
        """Note that a cluster which had nothing yet was given our finalizer just now."""
        now = self._clock.monotonic()
        recent = {u: at for u, at in self._new.items() if now - at < OVERTAKEN_SECONDS}
        self._new = recent | {tenant.metadata.uid: now}

    def was_overtaken(self, vanished: TenantCluster) -> bool:
        """Return whether a deletion may have overtaken the finalizer that this process added.

        Then all that the cluster left was made by us, for it, within that time.
        """
        since = self._new.get(vanished.metadata.uid)
        return since is not None and self._clock.monotonic() - since < OVERTAKEN_SECONDS

    def leftovers(self, key: Key) -> list[tuple[TenantCluster, list[IPAllocation]]]:
        """Return the clusters of a name that are gone, each with the allocations it left.

        The one whose allocations were written last comes last.
        """
        present = self._clusters.get(key)
        by_uid: dict[str, list[IPAllocation]] = {}
        for allocation in self._allocations.by_index(TENANT_INDEX, str(key)):
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
        """Return whether an allocation exists that is, or may be, of the cluster of a record."""
        key = record.key
        present = self._clusters.get(key)
        of_unnoted = present.metadata.uid if present is not None else record.uid
        if any(
            (noted_uid(allocation) or of_unnoted) == record.uid
            for allocation in self._allocations.by_index(TENANT_INDEX, str(key))
        ):
            return True
        return bool(unreadable_members(self._allocations, key))

    def owner(self, allocation: IPAllocation) -> TenantCluster | None:
        """Return the last known state of an allocation's owner; None if none is noted on it."""
        uid = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
        key = allocation.spec.tenantClusterRef.key
        return self._find_last_state(key, uid, [allocation]) if uid else None

    def cluster_of(self, record: TenantRecord) -> TenantCluster:
        """Return the last known state of the vanished cluster to which a record belongs."""
        return self._find_last_state(record.key, record.uid, ())

    def _find_last_state(
        self, key: Key, uid: str, allocations: Iterable[IPAllocation]
    ) -> TenantCluster:
        """Return a cluster as it was last seen.

        If it was not seen, return one with its name and uid, and with the load balancer that is
        noted on its allocations.
        """
        record = self._records.find(key, uid)
        if record is not None and record.last_seen is not None:
            return record.last_seen
        meta = ObjectMeta(key.name, key.namespace, uid, annotations=_ASSUMED)
        noted = (a.load_balancer for a in allocations if a.spec.type == names.TYPE_LOADBALANCER)
        provider = next(noted, DEFAULT_LOAD_BALANCER)
        addons = Addons(loadBalancer=LoadBalancerAddon(version="", provider=provider))
        return TenantCluster(meta, TenantClusterSpec("v0.0.0", {"replicas": 1}, addons=addons))

    def _note(self, change: Change[TenantCluster]) -> None:
        """Keep the last state of a TenantCluster that vanished while it had allocations."""
        old, new = change.old, change.new
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return
        key = old.metadata.key
        if self._allocations.by_index(TENANT_INDEX, str(key)) or unreadable_members(
            self._allocations, key
        ):
            # Whether anything was projected since it was last seen is unknown, so it is assumed.
            annotations = _ASSUMED | dict(old.metadata.annotations)
            meta = replace(old.metadata, annotations=annotations)
            self._records.of(old).last_seen = replace(old, metadata=meta)


_log = get_logger(__name__)


class Teardown:
    """Deletes the allocations of clusters that are being deleted or gone."""

    def __init__(self, client: Client, allocations: Cache[IPAllocation]) -> None:
        self._client = client
        self._allocations = allocations

    async def delete_allocations(self, tenant: TenantCluster) -> int:
        """Delete the tenant's allocations; return how many for load balancers are still there.

        Those of nodes stay until the cluster is gone: it may be another's finalizer that holds it.

        Raises:
            Conflict: one changed since it was read; begin again.
            ControllerError: a delete failed; the others were tried all the same.
        """
        allocations = members(self._allocations, tenant)
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
        undeleted = [allocation for allocation in leftovers if not allocation.metadata.terminating]
        if undeleted and await LiveOwners(self._client).is_gone(meta.key, meta.uid):
            _log.info("TenantCluster was removed before its finalizer", uid=meta.uid)
            await self._delete(undeleted, "the TenantCluster is gone")

    async def _delete(self, allocations: Iterable[IPAllocation], reason: str) -> None:
        """Delete all of these allocations, then raise the first error, if there was one."""
        failures = []
        for allocation in allocations:
            if allocation.metadata.terminating:
                continue
            fields = release_fields(allocation, reason)
            _log.info("deleting IPAllocation during cleanup", **fields)
            try:
                await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
            except NotFound:
                continue
            except ControllerError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def remove_finalizer(self, tenant: TenantCluster, *, deleted_at: int) -> bool:
        """Remove our finalizer if nothing is left for load balancers; return whether that is so.

        The caller has seen none in the cache. Only a cache that is behind costs a LIST.

        Args:
            deleted_at: the first resourceVersion that showed its deletion.

        Raises:
            Conflict: the cluster changed since it was read; begin again.
            ControllerError: the LIST or the write failed.
        """
        if not self._has_read(deleted_at) and await self._is_any_left(tenant):
            return False
        await remove_finalizer(self._client, TENANT_CLUSTER, tenant, names.FINALIZER_TENANT)
        return True

    def _has_read(self, deleted_at: int) -> bool:
        """Return whether the cache of allocations has read past the deletion of the cluster.

        Then it shows every allocation that was created before it. Those that are created for a
        deleted cluster are its leftovers, with or without a LIST in between.
        """
        return self._allocations.history_confirmed and self._allocations.position >= deleted_at

    async def _is_any_left(self, tenant: TenantCluster) -> bool:
        """Return whether a live list shows load-balancer allocations of the cluster.

        One that cannot be read counts, because it may be for a load balancer.
        """
        page = await self._client.list(IP_ALLOCATION)
        key = tenant.metadata.key
        if unreadable_in_list(page.unreadable, key, tenant.metadata.uid):
            return True
        return any(
            a.spec.tenantClusterRef.key == key
            and a.spec.type == names.TYPE_LOADBALANCER
            and not is_foreign(a, tenant)
            for a in page.items
        )
