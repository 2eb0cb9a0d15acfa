"""Faults of TenantClusters: addresses, load balancer, Services and size."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from controller.conditions import Condition, find_condition
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
from reconcilers.health.conditions import build_condition_finding
from reconcilers.reporting.conditions import READY

BUILT_SOON = timedelta(minutes=10)
"""A first build of a cluster that takes longer is reported as a warning."""
BUILT_WITHIN = timedelta(hours=1)
"""A first build of a cluster that takes longer is an error."""


def list_tenant_findings(clusters: Iterable[TenantCluster], now: datetime) -> Iterator[Finding]:
    """Yield the findings about each TenantCluster that is not being deleted."""
    for cluster in clusters:
        if not cluster.metadata.is_terminating:
            yield from _find_missing_addresses(cluster, now)
            yield from _find_projection_fault(cluster)
            yield from _find_disturbances(cluster)
            yield from _find_waiting_services(cluster)
            yield from _find_size_fault(cluster)


def _find_missing_addresses(cluster: TenantCluster, now: datetime) -> Iterator[Finding]:
    """Yield at most one finding about a cluster that is not served or not built.

    1. NetworkReady is False for a reason that does not pass by itself.
    2. The cluster has failed.
    3. The cluster is not Ready, and its build takes too long. A cluster that is only observed is
       not built by us.
    """
    network = find_condition(cluster.status.conditions, NETWORK_READY)
    if network is not None and network.status == "False" and network.reason not in PASSING_REASONS:
        waiting = cluster.status.network.waiting if cluster.status.network else ()
        since = min((request.since for request in waiting if request.since), default=None)
        yield _build_finding(
            "TenantWaitsForAddresses",
            "error",
            cluster=cluster,
            condition=network,
            prefix=f"{network.reason}: ",
            since=since,
        )
        return
    if cluster.status.phase == FAILED:
        ready = find_condition(cluster.status.conditions, READY)
        yield _build_finding("TenantFailed", "error", cluster=cluster, condition=ready)
    elif not cluster.is_ready and not cluster.observed_only:
        yield from _find_late_build(cluster, now)


def _find_late_build(cluster: TenantCluster, now: datetime) -> Iterator[Finding]:
    """Yield a finding if a cluster that is not Ready was created longer than BUILT_SOON ago."""
    created = cluster.metadata.creationTimestamp
    if created is None or now - created < BUILT_SOON:
        return
    ready = find_condition(cluster.status.conditions, READY)
    phase = cluster.status.phase or "Pending"
    severity: Severity = "error" if now - created > BUILT_WITHIN else "warning"
    yield _build_finding(
        "TenantBeingBuilt",
        severity,
        cluster=cluster,
        condition=ready,
        prefix=f"phase {phase}: ",
        since=created,
    )


def _find_projection_fault(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield a finding if a tenant's load balancer does not have the tenant's ranges.

    1. The tenant does not answer: TenantUnreachable.
    2. Another fault of a cluster that is built: TenantOutOfStep. While a cluster is being built,
       its load balancer may not run yet.
    """
    balancer = find_condition(cluster.status.conditions, LOAD_BALANCER_READY)
    # In mode Observe another controller writes the phase, so the cluster counts as built.
    is_built = cluster.is_ready or cluster.observed_only
    if balancer is None or balancer.status != "False" or balancer.reason in PASSING_REASONS:
        return  # no fault, or a fault that passes by itself
    if balancer.reason == UNREACHABLE:
        yield _build_finding("TenantUnreachable", "error", cluster=cluster, condition=balancer)
    elif is_built:
        yield _build_finding(
            "TenantOutOfStep",
            "error",
            cluster=cluster,
            condition=balancer,
            prefix=f"{balancer.reason}: ",
        )


def _find_disturbances(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield findings about a tenant whose addresses are disturbed or not announced.

    1. Another load balancer in the tenant takes addresses from Services.
    2. Nothing announces an address, so nobody outside reaches the Service. That is a warning only,
       because a network may route addresses without an announcement.
    """
    conflict = find_condition(cluster.status.conditions, SINGLE_LOAD_BALANCER)
    if conflict is not None and conflict.status == "False":
        yield _build_finding(conflict.reason, "error", cluster=cluster, condition=conflict)
    announced = find_condition(cluster.status.conditions, LOAD_BALANCER_ANNOUNCED)
    if announced is not None and announced.status == "False":
        yield _build_finding("TenantNotAnnounced", "warning", cluster=cluster, condition=announced)


def _find_waiting_services(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield a finding if Services of the tenant have long been without an address."""
    demand = find_condition(cluster.status.conditions, DEMAND_MET)
    if demand is None or demand.status != "False":
        return
    severity: Severity = "warning" if demand.reason in PASSING_REASONS else "error"
    yield _build_finding(
        "ServicesWait", severity, cluster=cluster, condition=demand, prefix=f"{demand.reason}: "
    )


def _find_size_fault(cluster: TenantCluster) -> Iterator[Finding]:
    """Yield a finding if a static tenant has fewer addresses than it asks for."""
    size = find_condition(cluster.status.conditions, LOAD_BALANCER_SIZED)
    if size is None or size.status != "False" or size.reason in PASSING_REASONS:
        return  # no fault, or a fault that passes by itself
    yield _build_finding(
        "TenantSizeNotMet", "warning", cluster=cluster, condition=size, prefix=f"{size.reason}: "
    )


def _build_finding(
    kind: str,
    severity: Severity,
    cluster: TenantCluster,
    condition: Condition | None,
    prefix: str = "",
    since: datetime | None = None,
) -> Finding:
    """Return a finding about a cluster with the message of one of its conditions."""
    subject = Subject.from_object(TENANT_CLUSTER, cluster)
    return build_condition_finding(
        kind, severity, subject=subject, condition=condition, prefix=prefix, since=since
    )
