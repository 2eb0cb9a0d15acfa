"""What is wrong with TenantClusters: addresses, the tenant, its Services and its size."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from controller.conditions import Condition, find
from reconcilers.addressmap.audit import Finding, Severity, Subject
from reconcilers.api.reasons import PASSING_REASONS
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import (
    DEMAND_MET,
    FAILED,
    LOAD_BALANCER_ANNOUNCED,
    LOAD_BALANCER_READY,
    LOAD_BALANCER_SIZED,
    NETWORK_READY,
    SINGLE_LOAD_BALANCER,
    TenantCluster,
)
from reconcilers.clusteraccess.tenantfailures import UNREACHABLE
from reconcilers.health.conditions import finding_of_condition
from reconcilers.reporting.conditions import READY

BUILT_SOON = timedelta(minutes=10)
"""How long the first build of a cluster may take before it is reported."""
BUILT_WITHIN = timedelta(hours=1)
"""How long it may take before that is an error."""


def tenant_findings(clusters: Iterable[TenantCluster], now: datetime) -> Iterator[Finding]:
    """Yield the findings about each TenantCluster that is not being deleted."""
    for cluster in clusters:
        if not cluster.metadata.terminating:
            yield from _addresses(cluster, now)
            yield from _tenant(cluster)
            yield from _beside(cluster)
            yield from _services(cluster)
            yield from _size(cluster)


def _addresses(cluster: TenantCluster, now: datetime) -> Iterator[Finding]:
    """Yield a finding if a cluster waits for addresses, or cannot ask for any."""
    network = find(cluster.status.conditions, NETWORK_READY)
    if network is not None and network.status == "False":
        reason = network.reason
        severity: Severity = "warning" if reason in PASSING_REASONS else "error"
        if severity == "error":
            waiting = cluster.status.network.waiting if cluster.status.network else ()
            since = min((request.since for request in waiting if request.since), default=None)
            yield _finding(
                "TenantWaitsForAddresses",
                severity,
                cluster=cluster,
                condition=network,
                prefix=f"{reason}: ",
                since=since,
            )
            return
    if cluster.status.phase == FAILED:
        ready = find(cluster.status.conditions, READY)
        yield _finding("TenantFailed", "error", cluster=cluster, condition=ready)
    elif not cluster.is_ready and not cluster.observed_only:
        yield from _still_building(cluster, now)


def _still_building(cluster: TenantCluster, now: datetime) -> Iterator[Finding]:
    """Yield a finding if a cluster should be Ready by now."""
    created = cluster.metadata.creationTimestamp
    if created is None or now - created < BUILT_SOON:
        return
    ready = find(cluster.status.conditions, READY)
    phase = cluster.status.phase or "Pending"
    severity: Severity = "error" if now - created > BUILT_WITHIN else "warning"
    yield _finding(
        "TenantBeingBuilt",
        severity,
        cluster=cluster,
        condition=ready,
        prefix=f"phase {phase}: ",
        since=created,
    )


def _tenant(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield a finding if a built cluster does not hold what it was given."""
    balancer = find(cluster.status.conditions, LOAD_BALANCER_READY)
    built = cluster.is_ready or cluster.observed_only
    if balancer is None or balancer.status != "False" or balancer.reason in PASSING_REASONS:
        return
    if balancer.reason == UNREACHABLE:
        yield _finding("TenantUnreachable", "error", cluster=cluster, condition=balancer)
    elif built:
        yield _finding(
            "TenantOutOfStep",
            "error",
            cluster=cluster,
            condition=balancer,
            prefix=f"{balancer.reason}: ",
        )


def _beside(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield findings about what disturbs or hides the addresses of a tenant.

    Another load balancer takes them from Services. Where nothing announces them, nobody outside
    reaches a Service; a network may route them without an announcement, so that is a warning.
    """
    conflict = find(cluster.status.conditions, SINGLE_LOAD_BALANCER)
    if conflict is not None and conflict.status == "False":
        yield _finding(conflict.reason, "error", cluster=cluster, condition=conflict)
    announced = find(cluster.status.conditions, LOAD_BALANCER_ANNOUNCED)
    if announced is not None and announced.status == "False":
        yield _finding("TenantNotAnnounced", "warning", cluster=cluster, condition=announced)


def _services(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield a finding if Services of the tenant have long been without an address."""
    demand = find(cluster.status.conditions, DEMAND_MET)
    if demand is None or demand.status != "False":
        return
    severity: Severity = "warning" if demand.reason in PASSING_REASONS else "error"
    yield _finding(
        "ServicesWait", severity, cluster=cluster, condition=demand, prefix=f"{demand.reason}: "
    )


def _size(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield a finding if a static tenant has not the size that it asks for."""
    size = find(cluster.status.conditions, LOAD_BALANCER_SIZED)
    if size is None or size.status != "False" or size.reason in PASSING_REASONS:
        return
    yield _finding(
        "TenantSizeNotMet", "warning", cluster=cluster, condition=size, prefix=f"{size.reason}: "
    )


def _finding(
    kind: str,
    severity: Severity,
    cluster: TenantCluster,
    condition: Condition | None,
    prefix: str = "",
    since: datetime | None = None,
) -> Finding:
    """Return a finding about a cluster; see finding_of_condition."""
    subject = Subject.from_object(TENANT_CLUSTER, cluster)
    return finding_of_condition(
        kind, severity, subject=subject, condition=condition, prefix=prefix, since=since
    )
