"""Inputs of the decision on a tenant's size, and the inputs after a decision is carried out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from controller.meta import ObjectMeta
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import (
    Ingress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.metallb.adapter import MetalLBKind
from reconcilers.tenantcluster.elastic.decisions import (
    RangeFacts,
    SizeChange,
    SizeFacts,
    UnservedGrowth,
    measure_size,
)
from reconcilers.tenantcluster.elastic.demand import Demand, compute_demand
from tests.clock import VirtualClock
from tests.reconcilers import make

KIND = MetalLBKind(VirtualClock(), TenantSettings())
"""The load balancer of tenants in tests."""
LONG = 3_600.0
"""One hour in seconds: longer than every threshold of the decision."""


def make_service(
    name: str = "web",
    *ips: str,
    seconds: float = 0.0,
    load_balancer_class: str | None = None,
) -> Service:
    """Return a Service of type LoadBalancer.

    Args:
        ips: the addresses that its status shows.
        seconds: when it was created, after make.EPOCH.
        load_balancer_class: its spec.loadBalancerClass; None for none.
    """
    created = make.EPOCH + timedelta(seconds=seconds)
    ingresses = tuple(Ingress(ip=ip) for ip in ips)
    return Service(
        ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", creationTimestamp=created),
        ServiceSpec(type="LoadBalancer", loadBalancerClass=load_balancer_class),
        ServiceStatus(LoadBalancerStatus(ingresses)),
    )


def compute_digests(services: Sequence[Service]) -> list[str]:
    """Return the digests of waiting Services, as the annotation for growth in vain lists them."""
    demand = compute_demand(services, KIND.view_service, {4})
    return [demand.make_digest(service) for service in demand.waiting]


def make_range_facts(allocation: IPAllocation, **options: Any) -> RangeFacts:
    """Return the facts of a growth range that has been in the tenant's pool for LONG.

    Args:
        options: further fields of RangeFacts, or other values of `is_growth` and `in_pool`.
    """
    return RangeFacts(
        allocation, measure_size(allocation, 1), **{"is_growth": True, "in_pool": LONG} | options
    )


def make_size_facts(
    parts: Iterable[RangeFacts] = (),
    services: Sequence[Service] = (),
    *,
    demand: Demand | None = None,
    waited: Mapping[str, float] | None = None,
    now: datetime = make.EPOCH,
    settings: TenantSettings | None = None,
    **options: Any,
) -> SizeFacts:
    """Return the facts of a tenant.

    Args:
        parts: its ranges and requests.
        services: its Services of type LoadBalancer.
        demand: what its Services need; None to compute it from `services`.
        waited: seconds for which Services wait, by uid; None if all have waited for LONG.
        now: the time of the decision.
        settings: None for the defaults.
        options: further fields of SizeFacts.
    """
    demand = demand or compute_demand(services, KIND.view_service, {4})
    without_address = [*demand.waiting, *(unmet.service for unmet in demand.unservable)]
    waited = waited or {service.metadata.uid: LONG for service in without_address}
    return SizeFacts(
        tuple(parts),
        demand,
        waited=waited,
        now=now,
        settings=settings or TenantSettings(),
        balancer=KIND.title,
        **options,
    )


def is_empty_change(change: SizeChange) -> bool:
    """Return whether carrying out a change writes nothing."""
    writes = change.marks_to_withdraw, change.growth_number, change.disuse_notes, change.new_marks
    return not any(writes) and change.new_unserved is None


def apply_change(facts: SizeFacts, change: SizeChange) -> SizeFacts:
    """Return the facts once a change is written, before a pool or the tenant has reacted to it."""
    notes: dict[str, dict[str, str | None]] = {}
    for allocation in change.marks_to_withdraw:
        notes[allocation.metadata.uid] = {
            names.ANNOTATION_RELEASING: None,
            names.ANNOTATION_IDLE_SINCE: None,
        }
    for disuse in change.disuse_notes:
        notes[disuse.allocation.metadata.uid] = {names.ANNOTATION_IDLE_SINCE: disuse.since}
    for mark in change.new_marks:
        notes[mark.allocation.metadata.uid] = {names.ANNOTATION_RELEASING: facts.now.isoformat()}
    parts = [
        replace(part, allocation=_annotate(part.allocation, notes.get(part.uid, {})))
        for part in facts.ranges
    ]
    number = len(facts.ranges)
    for index in range(number, number + change.growth_number):
        request = make.allocation(f"team-a-lb-{index + 100}", size=change.addresses)
        created = replace(request.metadata, creationTimestamp=facts.now)
        parts.append(make_range_facts(structs.replace(request, metadata=created), in_pool=None))
    unserved: UnservedGrowth = change.new_unserved or facts.unserved
    return replace(facts, ranges=tuple(parts), unserved=unserved)


def _annotate(allocation: IPAllocation, notes: Mapping[str, str | None]) -> IPAllocation:
    """Return an allocation with annotations set, or removed where the value is None."""
    annotations = {**allocation.metadata.annotations, **notes}
    present = {name: value for name, value in annotations.items() if value is not None}
    return structs.replace(allocation, metadata=replace(allocation.metadata, annotations=present))
