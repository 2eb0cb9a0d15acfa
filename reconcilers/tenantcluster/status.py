"""A tenant's phase and conditions: the verdict of a pass becomes one patch.

Pending        first seen
Provisioning   waiting for addresses, or for the kubeconfig Secret; the message says which
Installing     addresses are there, the load balancer does not have them yet
Ready          the tenant can use its addresses
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.conditions import find, rfc3339
from controller.events import EventType
from reconcilers.api import ipallocation, names
from reconcilers.api.tenantcluster import (
    DELETING,
    DEMAND_MET,
    FAILED,
    LOAD_BALANCER_READY,
    NETWORK_READY,
    PROVISIONING,
    TENANT_IDENTIFIED,
    TenantCluster,
)
from reconcilers.api.tenantcluster import READY as READY_PHASE
from reconcilers.api.tenantnetwork import TenantNetwork
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.reporting.conditions import (
    READY,
    ConditionFinding,
    render_conditions,
    with_findings,
)
from reconcilers.tenantcluster.allocations.requests import AllocationState
from reconcilers.tenantcluster.networkstatus import status_change

UNREADABLE_ALLOCATION = "UnreadableAllocation"
"""The reason while an allocation of the cluster cannot be read."""
RECONCILING = "Reconciling"
STALLED = "Stalled"
REF_FIELDS = {
    names.TYPE_LOADBALANCER: "lbAllocationRef",
    names.TYPE_NODES: "ipAllocationRef",
}
"""The status fields that name a tenant's allocations, by their type."""
EVENTS: dict[str, tuple[EventType, str]] = {
    PROVISIONING: ("Normal", "ClusterProvisioning"),
    READY_PHASE: ("Normal", "ClusterReady"),
    DELETING: ("Normal", "ClusterDeleting"),
    FAILED: ("Warning", "ClusterFailed"),
}
"""The type and reason of the event that is recorded when a phase begins."""
WARNED_REASONS = {
    UNREADABLE_ALLOCATION,
    "TenantIsManagementCluster",
    "TenantShared",
    "PoolMadeByOthers",
    "PoolExhausted",
    "PoolNotFound",
    "PoolUnreadable",
    "QuotaExceeded",
    "GrownInVain",
    "SizeReached",
    "AddressesInUse",
    "RangeNotDivisible",
    "KubeconfigRefused",
    "TenantUnreachable",
    "TenantRefused",
    "Unauthorized",
}
"""Reasons of conditions that are recorded as events of type Warning, too."""


@dataclass(frozen=True, slots=True)
class TenantVerdict:
    """What a pass found.

    Args:
        phase: the cluster's phase.
        findings: the conditions that the pass can evaluate.
        refs: names of the allocations, by the status field that refers to them; None for none.
        obsolete: types of conditions that do not apply any more.
        network: the new status.network; None to leave it.
    """

    phase: str
    findings: tuple[ConditionFinding, ...]
    refs: dict[str, str | None] = field(default_factory=dict)
    obsolete: tuple[str, ...] = ()
    network: TenantNetwork | None = None


def ready_finding(message: str = "Cluster is ready") -> ConditionFinding:
    """Return the Ready condition of a cluster that is."""
    return ConditionFinding(READY, True, reason="Ready", message=message)


def degraded_finding(message: str) -> ConditionFinding:
    """Return the Ready condition of a cluster that stays Ready though a pass cannot go on."""
    return ConditionFinding(READY, True, reason="ReconcileDegraded", message=message)


def ready_or_degraded(projected: ConditionFinding, *, is_behind: bool) -> ConditionFinding:
    """Return the Ready condition of a cluster that stays Ready, with the reason if it is degraded.

    Args:
        projected: condition LoadBalancerReady by this pass.
        is_behind: whether another replica has just written the tenant's pool. The cluster is not
            degraded then: only this pass could not write, and the next one follows soon.
    """
    if projected.status or is_behind:
        return ready_finding()
    return degraded_finding(projected.message)


def not_ready(reason: str, message: str) -> ConditionFinding:
    """Return the Ready condition of a cluster that is not."""
    return ConditionFinding(READY, False, reason=reason, message=message)


def network_ready(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the NetworkReady condition."""
    return ConditionFinding(NETWORK_READY, status, reason=reason, message=message)


def allocations_unreadable(message: str) -> ConditionFinding:
    """Return the NetworkReady condition of a cluster with allocations that cannot be read."""
    return network_ready(
        False, UNREADABLE_ALLOCATION, f"nothing is changed for this cluster: {message}"
    )


def problem_verdict(
    tenant: TenantCluster,
    problem: ConditionFinding,
    phase: str,
    network: TenantNetwork | None = None,
) -> TenantVerdict:
    """Return the verdict on a cluster that cannot request addresses.

    A cluster that was Ready stays so, or it would begin again.

    Args:
        problem: the condition that says why.
        phase: the phase of a cluster that was not Ready.
        network: the new status.network; None to leave it.
    """
    if tenant.is_ready:
        return TenantVerdict(
            READY_PHASE, (problem, degraded_finding(problem.message)), network=network
        )
    findings = (problem, not_ready(problem.reason, problem.message))
    return TenantVerdict(phase, findings, network=network)


def load_balancer_ready(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the LoadBalancerReady condition."""
    return ConditionFinding(LOAD_BALANCER_READY, status, reason=reason, message=message)


def tenant_unavailable(tenant: TenantCluster, error: TenantUnavailable) -> ConditionFinding:
    """Return the LoadBalancerReady condition of a cluster whose tenant cannot be entered.

    If the tenant was not tried now, the condition stays where it reports a failure already, or
    where it turned to True after ours. Another replica may have tried the tenant since, and two
    that remember different failures would overwrite each other's without end.
    """
    before = find(tenant.status.conditions, LOAD_BALANCER_READY)
    if before is not None and error.failed_at is not None:
        since = before.lastTransitionTime
        failed_at = error.failed_at.replace(microsecond=0)
        if before.status != "True" or (since is not None and since >= failed_at):
            return load_balancer_ready(before.status == "True", before.reason, before.message)
    return load_balancer_ready(False, error.reason, error.message)


def demand_met(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the condition of an elastic tenant that says whether its Services have addresses."""
    return ConditionFinding(DEMAND_MET, status, reason=reason, message=message)


def describe_identity(known: bool | None) -> tuple[tuple[ConditionFinding, ...], tuple[str, ...]]:
    """Return the condition, and the obsolete one, that say whether a tenant is identified.

    Args:
        known: whether it is known which cluster it is; None if that was not asked yet.
    """
    message = (
        "the kubeconfig's user may not get the namespace kube-system in the tenant, so another"
        " TenantCluster that leads to the same cluster, or the management cluster itself, would"
        " not be noticed: allow it"
    )
    problem = None if known is None else "" if known else message
    return describe_problem(TENANT_IDENTIFIED, "IdentityForbidden", problem)


def describe_problem(
    kind: str, reason: str, problem: str | None
) -> tuple[tuple[ConditionFinding, ...], tuple[str, ...]]:
    """Return a condition that is present, and False, only while something is wrong.

    Args:
        kind: type of the condition.
        reason: of the condition.
        problem: what is wrong, as a sentence; empty for nothing, None while that is not known.

    Returns:
        The condition, and the type of the obsolete one.
    """
    if problem is None:
        return (), ()
    return (
        ((ConditionFinding(kind, False, reason=reason, message=problem),), ())
        if problem
        else ((), (kind,))
    )


def warnings(before: TenantCluster, verdict: TenantVerdict) -> Iterator[tuple[str, str]]:
    """Yield reason and message of each condition that has just turned to a warned reason.

    Ready repeats the reason of another condition, so it is left out.
    """
    known = {condition.type: condition.reason for condition in before.status.conditions}
    for finding in verdict.findings:
        if finding.type == READY or finding.reason not in WARNED_REASONS:
            continue
        if known.get(finding.type) != finding.reason:
            yield finding.reason, finding.message


def _progress(verdict: TenantVerdict) -> Sequence[ConditionFinding]:
    """Return Reconciling or Stalled, which kstatus reads: present only while they are true."""
    overall = next((f for f in verdict.findings if f.type == READY), None)
    if overall is None or overall.status:
        return ()
    kind = STALLED if verdict.phase == FAILED else RECONCILING
    return (ConditionFinding(kind, True, reason=overall.reason, message=overall.message),)


def patch(tenant: TenantCluster, verdict: TenantVerdict, now: datetime) -> dict[str, Any]:
    """Return the status patch for `verdict`; empty if the status shows it already.

    Where another controller owns the phase, neither the phase nor Ready is touched.
    """
    findings: Sequence[ConditionFinding] = verdict.findings
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
    kept = [known for known in tenant.status.conditions if known.type not in obsolete]
    conditions = with_findings(kept, findings, generation=tenant.metadata.generation, now=now)
    if render_conditions(conditions) != render_conditions(tenant.status.conditions):
        change["conditions"] = render_conditions(conditions)
    for name, value in verdict.refs.items():
        current = getattr(tenant.status, name)
        if (current.name if current is not None else None) != value:
            change[name] = {"name": value} if value is not None else None
    network = status_change(tenant, verdict.network) if verdict.network is not None else None
    if network is not None:
        change["network"] = network
    return change


def addresses(states: Sequence[AllocationState]) -> ConditionFinding:
    """Return the NetworkReady condition that follows from the states of the allocations."""
    for state in states:
        if state.refusal is not None:
            return network_ready(False, state.refusal.reason, state.refusal.message)
    for state in states:
        if not state.is_served:
            return _waiting_finding(state)
    balancer = next((s for s in states if s.kind == names.TYPE_LOADBALANCER), None)
    if balancer is None or balancer.allocation is None:
        return network_ready(True, "Ready", "no load-balancer IPs are needed yet")
    return network_ready(True, "Ready", f"LB IPs allocated: {balancer.allocation.status.cidr}")


def _waiting_finding(state: AllocationState) -> ConditionFinding:
    """Return condition NetworkReady for a cluster whose allocation is pending or has failed."""
    purpose = "LB" if state.kind == names.TYPE_LOADBALANCER else "node"
    allocation = state.allocation
    if allocation is not None and allocation.status.phase == ipallocation.FAILED:
        ready = next((c for c in allocation.status.conditions if c.type == READY), None)
        if ready is not None:
            return network_ready(
                False,
                ready.reason,
                f"{purpose} IP allocation {allocation.metadata.name} failed: {ready.message}",
            )
    return network_ready(False, "Reconciling", f"waiting for {purpose} IP allocation")


def refs(states: Sequence[AllocationState]) -> dict[str, str | None]:
    """Return the status fields that name the tenant's allocations; None where there is none."""
    return {
        REF_FIELDS[s.kind]: s.allocation.metadata.name if s.allocation is not None else None
        for s in states
    }
