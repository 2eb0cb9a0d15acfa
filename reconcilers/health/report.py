"""All findings of health, and what each area comes to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from controller.resource import Resource
from reconcilers.addressmap.audit import Finding, Subject, audit, finding_order
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import network_pool_pictures
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.health.pools import POOL_OVERLAPPING, largest_free_blocks, pool_findings
from reconcilers.health.requests import request_findings
from reconcilers.health.tenants import tenant_findings
from reconcilers.integrations.core.views import POOLS_OVERLAP
from reconcilers.pictures.poolpicture import PoolPicture
from reconcilers.reporting.wording import count_noun

State = Literal["ok", "warning", "error", "unknown"]

AREAS: Sequence[tuple[str, tuple[str, ...]]] = (
    (
        "addresses",
        (
            "TenantWaitsForAddresses",
            "TenantFailed",
            "TenantBeingBuilt",
            "UnknownProviderConfig",
        ),
    ),
    (
        "tenants",
        (
            "TenantUnreachable",
            "TenantOutOfStep",
            "LoadBalancersConflict",
            "TenantNotAnnounced",
        ),
    ),
    ("services", ("ServicesWait", "TenantSizeNotMet")),
    ("requests", ("RequestWaits", "RequestsWait")),
    ("releases", ("ReleaseWaits", "StuckRelease")),
    ("controllers", ("ControllersNotReady", "NoLeader", "WebhooksNotReady")),
)
"""The kinds of findings of each area; all others are of the area pools."""
POOLS = "pools"
_KIND_BY_AREA: Mapping[str, Resource[Any]] = {
    "requests": IP_ALLOCATION,
    "releases": IP_ALLOCATION,
    POOLS: NETWORK_POOL,
}
"""The kind whose objects an area is about, where a user may lack the right to read it."""
_AREA_BY_SUBJECT: Mapping[tuple[str, str], str] = {
    ("Unreadable", TENANT_CLUSTER.kind): "tenants",
    ("Unreadable", IP_ALLOCATION.kind): "requests",
    ("UnknownPool", IP_ALLOCATION.kind): "requests",
}
"""The area of findings whose kind alone does not say it, by kind and the subject's kind."""


@dataclass(frozen=True, slots=True)
class AreaState:
    """What the findings of one area come to.

    Args:
        area: its name.
        state: the gravest severity among its findings; unknown if it could not be read.
        summary: a sentence.
    """

    area: str
    state: State
    summary: str


def all_findings(objects: Objects, now: datetime) -> list[Finding]:
    """Return objects that wait or fail, and all findings of the audit, gravest first.

    An overlap that the audit finds is not reported a second time by the pool's condition. Where
    the user may not read everything, it is: the condition may name pools that the audit lacks.
    """
    pictures = network_pool_pictures(objects)
    audited = audit(objects, pictures)
    overlapping = {finding.subject for finding in audited if finding.kind == POOLS_OVERLAP}
    reported = set[Subject]() if objects.all_not_read else overlapping
    findings = [
        finding
        for finding in _health_findings(objects, pictures, now)
        if finding.kind != POOL_OVERLAPPING or finding.subject not in reported
    ]
    return sorted([*audited, *findings], key=finding_order)


def status_findings(objects: Objects, now: datetime) -> list[Finding]:
    """Return objects that wait or fail, and the errors of the audit, gravest first.

    Of the audit's warnings those are included that are about something that waits.
    """
    pictures = network_pool_pictures(objects)
    audited = [
        finding
        for finding in audit(objects, pictures)
        if finding.severity == "error" or area_of(finding) != POOLS
    ]
    return sorted([*_health_findings(objects, pictures, now), *audited], key=finding_order)


def findings_in(namespace: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings about a namespace and about the whole cluster.

    Args:
        namespace: which; empty for all.
        findings: the findings, from the objects of all namespaces.
    """
    namespaces = {"", namespace}
    return [
        finding for finding in findings if not namespace or finding.subject.namespace in namespaces
    ]


def _health_findings(
    objects: Objects, pictures: Sequence[PoolPicture], now: datetime
) -> Iterator[Finding]:
    """Yield a finding for each object that waits or fails."""
    largest_free = largest_free_blocks(pictures)
    allocations = objects.allocations.values()
    yield from tenant_findings(objects.clusters.values(), now)
    yield from pool_findings(objects, largest_free)
    yield from request_findings(allocations, objects.pools, largest_free=largest_free, now=now)


def area_of(finding: Finding) -> str:
    """Return the area of a finding."""
    by_subject = _AREA_BY_SUBJECT.get((finding.kind, finding.subject.kind))
    return by_subject or next((area for area, kinds in AREAS if finding.kind in kinds), POOLS)


def area_states(
    objects: Objects,
    findings: Sequence[Finding],
    controllers: AreaState | None,
    namespace: str = "",
) -> list[AreaState]:
    """Return the state of each area; unknown if the user may not read its objects.

    Args:
        objects: the objects that the findings are about.
        controllers: the state of the controllers; None if it was not asked for.
        namespace: the namespace that the states are about; empty for all.
    """
    others = {pool.name for pool in objects.integrations.pictures}
    clusters = len(objects.clusters) + len(objects.unreadable_of(TENANT_CLUSTER))
    allocations = len(objects.allocations) + len(objects.unreadable_of(IP_ALLOCATION))
    pools = len(objects.pools) + len(objects.unreadable_of(NETWORK_POOL))
    totals = {
        "addresses": count_noun(clusters, "TenantCluster"),
        "requests": count_noun(allocations, "IPAllocation"),
        POOLS: count_noun(pools, "NetworkPool")
        + (f", {count_noun(len(others), 'other pool')}" if others else ""),
    }
    areas = [area for area, _ in AREAS if area != "controllers"]
    not_read = {
        area: ", ".join(map(str, objects.limits_of(kind, namespace)))
        for area, kind in _KIND_BY_AREA.items()
    }
    states = [
        _state(area, findings, total=totals.get(area, ""), not_read=not_read.get(area, ""))
        for area in [*areas, POOLS]
    ]
    return [*states, controllers] if controllers is not None else states


def _state(area: str, findings: Iterable[Finding], total: str, not_read: str) -> AreaState:
    """Return the state of an area, and how many findings of each kind it has.

    Args:
        area: its name.
        findings: all findings.
        total: how many objects it is about; empty if that is not said.
        not_read: what the user may not read of it; empty for nothing.
    """
    of_area = [finding for finding in findings if area_of(finding) == area]
    counts = ", ".join(_counts(of_area))
    if not_read:
        state: State = state_of(of_area) if of_area else "unknown"
        return AreaState(
            area, state, "; ".join(filter(None, [counts, f"you may not read {not_read}"]))
        )
    return AreaState(
        area, state_of(of_area), "; ".join(filter(None, [total, counts])) or "nothing waits"
    )


def state_of(findings: Sequence[Finding]) -> State:
    """Return the gravest severity among findings; ok if there are none."""
    if any(finding.severity == "error" for finding in findings):
        return "error"
    return "warning" if findings else "ok"


def _counts(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield each kind of finding with its number."""
    for kind in dict.fromkeys(finding.kind for finding in findings):
        yield f"{sum(finding.kind == kind for finding in findings)} {kind}"
