"""A tenant's phase and conditions: the verdict of a pass becomes one patch.

A *finding* is a condition without its times, as a pass has just found it.

Pending        first seen
Provisioning   waiting for addresses, or for the kubeconfig Secret; the message says which
Installing     addresses are there, the load balancer does not have them yet
Ready          the tenant can use its addresses
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.conditions import find_condition, format_rfc3339
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
from reconcilers.tenantcluster.networkstatus import make_network_change

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
        findings: the conditions that the pass can evaluate; others stay as they are.
        refs: names of the allocations, by the status field that refers to them; a name is None to
            clear its field.
        obsolete: types of the conditions to remove.
        network: the new status.network; None to leave it.
    """

    phase: str
    findings: tuple[ConditionFinding, ...]
    refs: dict[str, str | None] = field(default_factory=dict)
    obsolete: tuple[str, ...] = ()
    network: TenantNetwork | None = None


def make_ready(message: str = "Cluster is ready") -> ConditionFinding:
    """Return the Ready condition of a cluster that is Ready."""
    return ConditionFinding(READY, True, reason="Ready", message=message)


def make_degraded(message: str) -> ConditionFinding:
    """Return the Ready condition of a cluster that stays Ready though a pass cannot go on."""
    return ConditionFinding(READY, True, reason="ReconcileDegraded", message=message)


def make_ready_or_degraded(
    balancer_finding: ConditionFinding, *, is_behind: bool
) -> ConditionFinding:
    """Return the Ready condition of a cluster that stays Ready, with the reason if it is degraded.

    Args:
        balancer_finding: condition LoadBalancerReady by this pass.
        is_behind: whether another replica has just written the tenant's pool. The cluster is not
            degraded then: only this pass could not write, and the next one follows soon.
    """
    if balancer_finding.status or is_behind:
        return make_ready()
    return make_degraded(balancer_finding.message)


def make_not_ready(reason: str, message: str) -> ConditionFinding:
    """Return the Ready condition of a cluster that is not Ready."""
    return ConditionFinding(READY, False, reason=reason, message=message)


def make_network_ready(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the NetworkReady condition."""
    return ConditionFinding(NETWORK_READY, status, reason=reason, message=message)


def make_allocations_unreadable(message: str) -> ConditionFinding:
    """Return the NetworkReady condition of a cluster with allocations that cannot be read."""
    return make_network_ready(
        False, UNREADABLE_ALLOCATION, f"nothing is changed for this cluster: {message}"
    )


def make_problem_verdict(
    tenant: TenantCluster,
    problem: ConditionFinding,
    phase: str,
    network: TenantNetwork | None = None,
) -> TenantVerdict:
    """Return the verdict on a cluster that cannot request addresses.

    A cluster that was Ready stays Ready, because it has its addresses; otherwise it would go
    through all phases again after the problem ends.

    Args:
        problem: the condition that says why.
        phase: the phase of a cluster that was not Ready.
        network: the new status.network; None to leave it.
    """
    if tenant.is_ready:
        return TenantVerdict(
            READY_PHASE, (problem, make_degraded(problem.message)), network=network
        )
    findings = (problem, make_not_ready(problem.reason, problem.message))
    return TenantVerdict(phase, findings, network=network)


def make_load_balancer_ready(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the LoadBalancerReady condition."""
    return ConditionFinding(LOAD_BALANCER_READY, status, reason=reason, message=message)


def make_tenant_unavailable(tenant: TenantCluster, error: TenantUnavailable) -> ConditionFinding:
    """Return the LoadBalancerReady condition of a cluster whose tenant cannot be used.

    If `error` is remembered from an earlier try, the present condition stays in two cases: it
    reports a failure already, or it turned to True after that try. Another replica may have tried
    the tenant since. Two replicas that remember different failures would overwrite each other's
    condition without end.
    """
    present = find_condition(tenant.status.conditions, LOAD_BALANCER_READY)
    if present is not None and error.failed_at is not None:
        since = present.lastTransitionTime
        failed_at = error.failed_at.replace(microsecond=0)  # as precise as lastTransitionTime
        is_true = present.status == "True"
        if not is_true or (since is not None and since >= failed_at):
            return make_load_balancer_ready(is_true, present.reason, present.message)
    return make_load_balancer_ready(False, error.reason, error.message)


def make_demand_met(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the condition of an elastic tenant that says whether its Services have addresses."""
    return ConditionFinding(DEMAND_MET, status, reason=reason, message=message)


def describe_identity(
    is_identified: bool | None,
) -> tuple[tuple[ConditionFinding, ...], tuple[str, ...]]:
    """Return how to change condition TenantIdentified, which is present only during a problem.

    The problem is that nobody may read which cluster the kubeconfig leads to.

    Args:
        is_identified: whether it is known which cluster the kubeconfig leads to; None if the
            tenant was not asked yet.

    Returns:
        The conditions to set, and the types of the conditions to remove. One of them has one
        element; both are empty if the tenant was not asked yet.
    """
    message = (
        "the kubeconfig's user may not get the namespace kube-system in the tenant, so another"
        " TenantCluster that leads to the same cluster, or the management cluster itself, would"
        " not be noticed: allow it"
    )
    if is_identified is None:
        return describe_problem(TENANT_IDENTIFIED, "IdentityForbidden", problem=None)
    problem = "" if is_identified else message
    return describe_problem(TENANT_IDENTIFIED, "IdentityForbidden", problem)


def describe_problem(
    condition_type: str, reason: str, problem: str | None
) -> tuple[tuple[ConditionFinding, ...], tuple[str, ...]]:
    """Return how to change a condition that is present, and False, only during a problem.

    Args:
        condition_type: which condition; it is absent while nothing is wrong.
        reason: reason of the condition.
        problem: what is wrong, as a sentence; empty if nothing is wrong; None if that is not
            known, so that the condition stays as it is.

    Returns:
        The conditions to set, and the types of the conditions to remove. One of them has one
        element; both are empty if nothing is known.
    """
    if problem is None:
        return (), ()
    if not problem:
        return (), (condition_type,)
    return (ConditionFinding(condition_type, False, reason=reason, message=problem),), ()


def find_new_warnings(before: TenantCluster, verdict: TenantVerdict) -> Iterator[tuple[str, str]]:
    """Yield reason and message of each condition that has just turned to a warned reason.

    Ready repeats the reason of another condition, so it is left out.

    Args:
        before: the cluster before the verdict was written.
    """
    reasons_before = {condition.type: condition.reason for condition in before.status.conditions}
    for finding in verdict.findings:
        if finding.type == READY or finding.reason not in WARNED_REASONS:
            continue
        if reasons_before.get(finding.type) != finding.reason:
            yield finding.reason, finding.message


def _find_kstatus_conditions(verdict: TenantVerdict) -> Sequence[ConditionFinding]:
    """Return Reconciling or Stalled for a cluster that is not Ready; else nothing.

    kstatus reads both, and expects them to be present only while they are true:
    https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus
    """
    overall = next((f for f in verdict.findings if f.type == READY), None)
    if overall is None or overall.status:
        return ()
    condition_type = STALLED if verdict.phase == FAILED else RECONCILING
    return (
        ConditionFinding(condition_type, True, reason=overall.reason, message=overall.message),
    )


def make_patch(tenant: TenantCluster, verdict: TenantVerdict, now: datetime) -> dict[str, Any]:
    """Return the status patch for `verdict`; empty if the status shows it already.

    Where another controller owns the phase, neither the phase nor Ready is touched.
    """
    findings: Sequence[ConditionFinding] = verdict.findings
    obsolete = set(verdict.obsolete)
    change: dict[str, Any] = {}
    if tenant.observed_only:
        findings = [finding for finding in findings if finding.type != READY]
    else:
        # A verdict without Ready leaves Ready as it is, and with it Reconciling and Stalled.
        if any(finding.type == READY for finding in findings):
            findings = [*findings, *_find_kstatus_conditions(verdict)]
            obsolete |= {RECONCILING, STALLED} - {finding.type for finding in findings}
        if tenant.status.phase != verdict.phase:
            change["phase"] = verdict.phase
            change["lastTransitionTime"] = format_rfc3339(now)
        if tenant.status.observedGeneration != tenant.metadata.generation:
            change["observedGeneration"] = tenant.metadata.generation
    remaining = [
        condition for condition in tenant.status.conditions if condition.type not in obsolete
    ]
    conditions = with_findings(remaining, findings, generation=tenant.metadata.generation, now=now)
    # Rendered, so that two spellings of one time are equal.
    if render_conditions(conditions) != render_conditions(tenant.status.conditions):
        change["conditions"] = render_conditions(conditions)
    for field_name, allocation_name in verdict.refs.items():
        present_ref = getattr(tenant.status, field_name)
        if (present_ref.name if present_ref is not None else None) != allocation_name:
            # None removes the field: the patch is a JSON merge patch (RFC 7386).
            change[field_name] = {"name": allocation_name} if allocation_name is not None else None
    if verdict.network is not None:
        network_change = make_network_change(tenant, verdict.network)
        if network_change is not None:
            change["network"] = network_change
    return change


def judge_states(states: Sequence[AllocationState]) -> ConditionFinding:
    """Return the NetworkReady condition that follows from the states of the allocations.

    It is False for the first allocation that no pool serves. Without a refusal it is False for the
    first allocation that waits; otherwise it is True. A refusal comes first because a person has
    to act on it.
    """
    for state in states:
        if state.refusal is not None:
            return make_network_ready(False, state.refusal.reason, state.refusal.message)
    for state in states:
        if not state.is_served:
            return _make_waiting(state)
    balancer_state = next((s for s in states if s.kind == names.TYPE_LOADBALANCER), None)
    if balancer_state is None or balancer_state.allocation is None:
        return make_network_ready(True, "Ready", "no load-balancer IPs are needed yet")
    cidr = balancer_state.allocation.status.cidr
    return make_network_ready(True, "Ready", f"LB IPs allocated: {cidr}")


def _make_waiting(state: AllocationState) -> ConditionFinding:
    """Return condition NetworkReady for a cluster whose allocation is pending or has failed."""
    purpose = "LB" if state.kind == names.TYPE_LOADBALANCER else "node"
    allocation = state.allocation
    if allocation is not None and allocation.status.phase == ipallocation.FAILED:
        ready = next((c for c in allocation.status.conditions if c.type == READY), None)
        if ready is not None:
            return make_network_ready(
                False,
                ready.reason,
                f"{purpose} IP allocation {allocation.metadata.name} failed: {ready.message}",
            )
    return make_network_ready(False, "Reconciling", f"waiting for {purpose} IP allocation")


def list_refs(states: Sequence[AllocationState]) -> dict[str, str | None]:
    """Return the allocation's name by status field; None for a state without an allocation."""
    return {
        REF_FIELDS[state.kind]: (
            state.allocation.metadata.name if state.allocation is not None else None
        )
        for state in states
    }
