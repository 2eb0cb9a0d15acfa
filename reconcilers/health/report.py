"""The findings about objects that wait or fail, and the state of each area.

An *area* is a group of findings that `status` shows on one line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from controller.resource import Resource
from reconcilers.addressmap.audit import Finding, Subject, audit, build_finding_sort_key
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import draw_network_pools
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.health.pools import POOL_OVERLAPPING, find_largest_free_blocks, list_pool_findings
from reconcilers.health.requests import list_request_findings
from reconcilers.health.tenants import list_tenant_findings
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
"""The kinds of findings of each area. All other kinds are of the area `pools`."""
POOLS = "pools"
_KIND_BY_AREA: Mapping[str, Resource[Any]] = {
    "requests": IP_ALLOCATION,
    "releases": IP_ALLOCATION,
    POOLS: NETWORK_POOL,
}
"""The kind that an area shows; without the right to read it, the area's state is unknown."""
_AREA_BY_SUBJECT: Mapping[tuple[str, str], str] = {
    ("Unreadable", TENANT_CLUSTER.kind): "tenants",
    ("Unreadable", IP_ALLOCATION.kind): "requests",
    ("UnknownPool", IP_ALLOCATION.kind): "requests",
}
"""The area by the kind of the finding and the kind of its subject, where both decide."""


@dataclass(frozen=True, slots=True)
class AreaState:
    """The state of one area, from its findings.

    Args:
        area: its name.
        state: the gravest severity among its findings; unknown if it could not be read.
        summary: a sentence.
    """

    area: str
    state: State
    summary: str


def list_check_findings(objects: Objects, now: datetime) -> list[Finding]:
    """Return the findings for `check`: objects that wait or fail, and all of the audit.

    The gravest come first. The audit and the pool's condition may report the same overlap; then
    only the audit's finding is returned. If the user may not read all objects, both are returned,
    because the condition may name pools that the audit did not read.
    """
    pictures = draw_network_pools(objects)
    audited = audit(objects, pictures)
    overlapping = {finding.subject for finding in audited if finding.kind == POOLS_OVERLAP}
    reported = set[Subject]() if objects.all_not_read else overlapping
    findings = [
        finding
        for finding in _list_health_findings(objects, pictures, now)
        if finding.kind != POOL_OVERLAPPING or finding.subject not in reported
    ]
    return sorted([*audited, *findings], key=build_finding_sort_key)


def list_status_findings(objects: Objects, now: datetime) -> list[Finding]:
    """Return the findings for `status`: objects that wait or fail, and most of the audit.

    The gravest come first. The audit's warnings about pools are left out: they keep no request
    waiting.
    """
    pictures = draw_network_pools(objects)
    audited = [
        finding
        for finding in audit(objects, pictures)
        if finding.severity == "error" or find_area(finding) != POOLS
    ]
    return sorted(
        [*_list_health_findings(objects, pictures, now), *audited], key=build_finding_sort_key
    )


def select_findings(namespace: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings about a namespace and about the whole cluster.

    Args:
        namespace: the namespace of the findings to keep; empty for all.
        findings: the findings, from the objects of all namespaces.
    """
    namespaces = {"", namespace}
    return [
        finding for finding in findings if not namespace or finding.subject.namespace in namespaces
    ]


def _list_health_findings(
    objects: Objects, pictures: Sequence[PoolPicture], now: datetime
) -> Iterator[Finding]:
    """Yield a finding for each object that waits or fails."""
    largest_free = find_largest_free_blocks(pictures)
    allocations = objects.allocations.values()
    yield from list_tenant_findings(objects.clusters.values(), now)
    yield from list_pool_findings(objects, largest_free)
    yield from list_request_findings(
        allocations, objects.pools, largest_free=largest_free, now=now
    )


def find_area(finding: Finding) -> str:
    """Return the area of a finding; `pools` if no area lists its kind."""
    by_subject = _AREA_BY_SUBJECT.get((finding.kind, finding.subject.kind))
    return by_subject or next((area for area, kinds in AREAS if finding.kind in kinds), POOLS)


def list_area_states(
    objects: Objects,
    findings: Sequence[Finding],
    controllers: AreaState | None,
    namespace: str = "",
) -> list[AreaState]:
    """Return the state of each area; unknown if the user may not read its objects.

    Args:
        objects: the objects that the findings are about.
        controllers: the state of the controllers, from `read_controllers`; None to leave it out.
        namespace: the namespace that the states are about; empty for all.
    """
    others = {pool.name for pool in objects.integrations.pictures}
    clusters = len(objects.clusters) + len(objects.find_unreadable(TENANT_CLUSTER))
    allocations = len(objects.allocations) + len(objects.find_unreadable(IP_ALLOCATION))
    pools = len(objects.pools) + len(objects.find_unreadable(NETWORK_POOL))
    totals = {
        "addresses": count_noun(clusters, "TenantCluster"),
        "requests": count_noun(allocations, "IPAllocation"),
        POOLS: count_noun(pools, "NetworkPool")
        + (f", {count_noun(len(others), 'other pool')}" if others else ""),
    }
    areas = [area for area, _ in AREAS if area != "controllers"]
    not_read = {
        area: ", ".join(map(str, objects.find_unread_lists(kind, namespace)))
        for area, kind in _KIND_BY_AREA.items()
    }
    states = [
        _build_area_state(
            area, findings, total=totals.get(area, ""), not_read=not_read.get(area, "")
        )
        for area in [*areas, POOLS]
    ]
    return [*states, controllers] if controllers is not None else states


def _build_area_state(
    area: str, findings: Iterable[Finding], total: str, not_read: str
) -> AreaState:
    """Return the state of an area, with the number of findings of each kind in its summary.

    Args:
        area: its name.
        findings: the findings of all areas.
        total: the number of its objects, as text; empty if the area shows no number.
        not_read: the lists of its kind that the user may not read; empty if there are none.
    """
    of_area = [finding for finding in findings if find_area(finding) == area]
    counts = ", ".join(_list_counts(of_area))
    if not_read:
        # The unread objects may have findings, so the state is known only if others have some.
        # The total is left out, because it does not count the unread objects.
        state: State = find_gravest_state(of_area) if of_area else "unknown"
        return AreaState(
            area, state, "; ".join(filter(None, [counts, f"you may not read {not_read}"]))
        )
    return AreaState(
        area,
        find_gravest_state(of_area),
        "; ".join(filter(None, [total, counts])) or "nothing waits",
    )


def find_gravest_state(findings: Sequence[Finding]) -> State:
    """Return the gravest severity among findings; ok if there are none."""
    if any(finding.severity == "error" for finding in findings):
        return "error"
    return "warning" if findings else "ok"


def _list_counts(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the number of findings of each kind: "2 RequestWaits"."""
    for kind in dict.fromkeys(finding.kind for finding in findings):
        yield f"{sum(finding.kind == kind for finding in findings)} {kind}"
