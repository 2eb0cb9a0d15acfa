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
from reconcilers.api.tenantcluster import FAILED, TenantCluster
from reconcilers.conditions import READY, Finding, rendered, with_findings

NETWORK_READY = "NetworkReady"
LOAD_BALANCER_READY = "LoadBalancerReady"
METALLB_INSTALLED = "MetalLBInstalled"
DEMAND_MET = "LoadBalancerDemandMet"
RECONCILING = "Reconciling"
STALLED = "Stalled"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a pass found.

    Args:
        phase: where the cluster stands.
        findings: the conditions that the pass can judge.
        refs: names of the allocations, by the status field that refers to them; None for none.
        obsolete: types of conditions that do not apply any more.
    """

    phase: str
    findings: tuple[Finding, ...]
    refs: dict[str, str | None] = field(default_factory=dict)
    obsolete: tuple[str, ...] = ()


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


def installed(status: bool, reason: str, message: str) -> Finding:
    """Return the condition that says how far MetalLB's bundle is, where we install it."""
    return Finding(METALLB_INSTALLED, status, reason, message)


def demand(status: bool, reason: str, message: str) -> Finding:
    """Return the condition of an elastic tenant that says whether its Services have addresses."""
    return Finding(DEMAND_MET, status, reason, message)


def _progress(verdict: Verdict) -> Sequence[Finding]:
    """Return what tools that follow kstatus look for: present only while something is so."""
    overall = next((f for f in verdict.findings if f.type == READY), None)
    if overall is None or overall.status:
        return ()
    kind = STALLED if verdict.phase == FAILED else RECONCILING
    return (Finding(kind, True, overall.reason, overall.message),)


def patch(tenant: TenantCluster, verdict: Verdict, now: datetime) -> dict[str, Any]:
    """Return the status patch that tells what `verdict` adds; empty if it adds nothing.

    Where another controller owns the phase, neither the phase nor Ready is touched.
    """
    findings: Sequence[Finding] = verdict.findings
    obsolete = set(verdict.obsolete)
    change: dict[str, Any] = {}
    if tenant.observed_only:
        findings = [finding for finding in findings if finding.type != READY]
    else:
        if any(finding.type == READY for finding in findings):
            findings = [*findings, *_progress(verdict)]
            obsolete |= {RECONCILING, STALLED} - {finding.type for finding in findings}
        if tenant.status.phase != verdict.phase:
            change["phase"] = verdict.phase
            change["lastTransitionTime"] = rfc3339(now)
        if tenant.status.observedGeneration != tenant.metadata.generation:
            change["observedGeneration"] = tenant.metadata.generation
    kept = [one for one in tenant.status.conditions if one.type not in obsolete]
    conditions = with_findings(kept, findings, tenant.metadata.generation, now)
    if rendered(conditions) != rendered(tenant.status.conditions):
        change["conditions"] = rendered(conditions)
    for name, value in verdict.refs.items():
        current = getattr(tenant.status, name)
        if (current.name if current is not None else None) != value:
            change[name] = {"name": value} if value is not None else None
    return change
