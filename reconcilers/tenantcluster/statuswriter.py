"""Writes the verdict of a pass to the status of its TenantCluster, and records events of it.

A *verdict* is what the pass found: the phase, the conditions and status.network.
"""

from controller.clock import Clock
from controller.events import Recorder
from controller.meta import MetadataOnly, ObjectMeta
from reconcilers.api.resources import ALLOCATION_METADATA, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.api.tenantnetwork import TenantNetwork, TenantRange
from reconcilers.tenantcluster import status
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.networkstatus import find_added_ranges, find_removed_ranges


class StatusWriter:
    """Writes the status of TenantClusters, and records events of what changed in it.

    Args:
        recorder: takes the events.
        clock: the time.
    """

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    async def write(self, current: CurrentCluster, verdict: status.TenantVerdict) -> None:
        """Patch the status if it changed; record events of a new phase and of new warnings.

        Raises:
            Conflict: the cluster changed since it was read.
            ControllerError: the management cluster did not answer.
        """
        before = current.tenant
        change = status.make_patch(before, verdict, self._clock.now())
        if not change:
            return
        await current.patch_status(before, change)
        after = current.tenant
        if "phase" in change:
            self._record_phase(after, verdict)
        for reason, message in status.find_new_warnings(before, verdict):
            self._recorder.record(
                TENANT_CLUSTER, after, "Warning", reason, message, action="Project"
            )
        if verdict.network is not None and "network" in change:
            self._record_ranges(before, after, verdict.network)

    def _record_ranges(
        self, before: TenantCluster, after: TenantCluster, network: TenantNetwork
    ) -> None:
        """Record an event for each range that the cluster got or released."""
        if before.status.network is None and before.is_ready:
            # The cluster had its ranges before anything wrote status.network. They are not new.
            return
        for entry in find_added_ranges(before.status.network, network):
            self._record_range(after, "RangeAllocated", entry)
        for entry in find_removed_ranges(before.status.network, network):
            self._record_range(after, "RangeReleased", entry)

    def record_released(self, vanished: TenantCluster, network: TenantNetwork) -> None:
        """Record an event for each range that was released since a vanished cluster was seen.

        The events are about the cluster, though it is gone: `kubectl events --for` finds them.

        Args:
            vanished: the last known state of the cluster.
            network: status.network as the cluster's remaining allocations give it.
        """
        for entry in find_removed_ranges(vanished.status.network, network):
            self._record_range(vanished, "RangeReleased", entry)

    def _record_range(self, tenant: TenantCluster, reason: str, entry: TenantRange) -> None:
        """Record the event of one range.

        The allocation is its related object: events that differ in nothing but the message would
        be counted as one series.
        """
        meta = ObjectMeta(name=entry.allocation, namespace=entry.namespace)
        self._recorder.record(
            TENANT_CLUSTER,
            tenant,
            "Normal",
            reason,
            f"{entry.type} range {entry.range} of NetworkPool {entry.pool} ({entry.role})",
            action="Reconcile",
            related=(ALLOCATION_METADATA, MetadataOnly(metadata=meta)),
        )

    def _record_phase(self, tenant: TenantCluster, verdict: status.TenantVerdict) -> None:
        """Record the event of a new phase; its message is that of Ready, or the phase's name."""
        if verdict.phase not in status.EVENTS:
            return  # the phase Installing has no event of its own
        event_type, reason = status.EVENTS[verdict.phase]
        ready_findings = (finding for finding in verdict.findings if finding.type == "Ready")
        message = next((finding.message for finding in ready_findings), verdict.phase)
        self._recorder.record(
            TENANT_CLUSTER, tenant, event_type, reason, message, action="Reconcile"
        )
