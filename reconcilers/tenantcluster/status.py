"""A tenant's phase and conditions: one verdict of a pass becomes one patch.

Pending        first seen
Provisioning   waiting for addresses, or for the kubeconfig Secret; the message says which
Installing     addresses are there, MetalLB in the tenant does not have them yet
Ready          the tenant can use its addresses
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.conditions import rfc3339
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import READY, Finding, rendered, with_findings

NETWORK_READY = "NetworkReady"
LOAD_BALANCER_READY = "LoadBalancerReady"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a pass found.

    Args:
        phase: where the cluster stands.
        findings: the conditions that the pass can judge.
        refs: names of the allocations, by the status field that refers to them; None for none.
    """

    phase: str
    findings: tuple[Finding, ...]
    refs: dict[str, str | None] = field(default_factory=dict)


def ready(message: str = "Cluster is ready") -> Finding:
    """Return the Ready condition of a cluster that is."""
    return Finding(READY, True, "Ready", message)


def degraded(message: str) -> Finding:
    """Return the Ready condition of a cluster that is, though not all of its care is."""
    return Finding(READY, True, "ReconcileDegraded", message)


def not_ready(reason: str, message: str) -> Finding:
    """Return the Ready condition of a cluster that is not."""
    return Finding(READY, False, reason, message)


def network(status: bool, reason: str, message: str) -> Finding:
    """Return the NetworkReady condition."""
    return Finding(NETWORK_READY, status, reason, message)


def load_balancer(status: bool, reason: str, message: str) -> Finding:
    """Return the LoadBalancerReady condition."""
    return Finding(LOAD_BALANCER_READY, status, reason, message)


def patch(tenant: TenantCluster, verdict: Verdict, now: datetime) -> dict[str, Any]:
    """Return the status patch that tells what `verdict` adds; empty if it adds nothing.

    Where another controller owns the phase, neither the phase nor Ready is touched.
    """
    findings: Sequence[Finding] = verdict.findings
    change: dict[str, Any] = {}
    if tenant.observed_only:
        findings = [finding for finding in findings if finding.type != READY]
    elif tenant.status.phase != verdict.phase:
        change["phase"] = verdict.phase
        change["lastTransitionTime"] = rfc3339(now)
    if not tenant.observed_only and tenant.status.observedGeneration != tenant.metadata.generation:
        change["observedGeneration"] = tenant.metadata.generation
    conditions = with_findings(tenant.status.conditions, findings, tenant.metadata.generation, now)
    if rendered(conditions) != rendered(tenant.status.conditions):
        change["conditions"] = rendered(conditions)
    for name, value in verdict.refs.items():
        current = getattr(tenant.status, name)
        if (current.name if current is not None else None) != value:
            change[name] = {"name": value} if value is not None else None
    return change
