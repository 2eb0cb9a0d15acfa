"""Reports edits by others that were undone in tenants."""

from collections.abc import Iterable

from controller.events import Recorder
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.loadbalancers.port import Correction
from reconcilers.metrics.counters import IpamMetrics


class CorrectionReports:
    """Reports corrections by an event on the TenantCluster, and a metric.

    Args:
        recorder: takes the events.
        metrics: takes the counts.
    """

    def __init__(self, recorder: Recorder, metrics: IpamMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics

    def report(self, tenant: TenantCluster, corrections: Iterable[Correction]) -> None:
        """Record an event on the TenantCluster, and count the metric, for each correction."""
        for correction in corrections:
            self._metrics.count_corrected(correction.kind)
            self._recorder.record(
                TENANT_CLUSTER,
                tenant,
                "Warning",
                "ManualEditOverwritten",
                f"In the tenant, {correction.description} was changed; the change was undone",
                action="Project",
            )
