"""The laws of tenants: for every moment, and for the end of a run."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from allocator import AddressRange
from controller.errors import ControllerError
from controller.meta import Key
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.loadbalancers.metallb.projection import NO_ADDRESS
from tests.reconcilers.balancer import list_pool_entries
from tests.reconcilers.lab import Replica
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.lbipam import list_offered_entries as list_cilium_entries
from tests.reconcilers.memorybalancer.offers import list_offered_entries
from tests.reconcilers.server import Json, Server

Tenants = Mapping[str, Server]


async def try_pass(reconciler: Any, key: Key) -> None:
    """Run one pass; ignore a fault, after which the seed decides when the pass is repeated."""
    with suppress(ControllerError):
        await reconciler.reconcile(key)


@dataclass(frozen=True)
class Orphans:
    """The collection of orphans as a reconciler, which needs no key."""

    replica: Replica

    async def reconcile(self, key: Key) -> None:
        """Collect the orphans once."""
        await self.replica.orphans.sweep()


def find_misplaced(server: Server, tenants: Tenants) -> str | None:
    """Return an address that is at a wrong place, None if there is none.

    Each address that a tenant has, in its pool or on a Service, is held by an allocation of this
    tenant. No two allocations hold one address.
    """
    allocations = [
        span
        for allocation in server.all("ipallocations")
        for span in parse_held_ranges(allocation)
    ]
    clash = next((x.text for x, y in combinations(allocations, 2) if x.overlaps(y)), None)
    if clash:
        return f"two allocations hold {clash}"
    for name, tenant in tenants.items():
        own = list_held_ranges(server, name)
        for span in list_pool_ranges(tenant):
            if not any(held_range.contains(span) for held_range in own):
                return f"{span.text} is in {name}'s pool and may be given away"
        for offer in list_holding_allocations(server, name):
            if (
                len(set(parse_held_ranges(offer)) & set(list_pool_ranges(tenant)))
                == 1
                < len(parse_held_ranges(offer))
            ):
                return f"{name}'s pool has one of the ranges of {offer['metadata']['name']}"
        for span in list_shown_addresses(tenant):
            if not any(held_range.contains(span) for held_range in own):
                return f"{span.text} is on a Service of {name} and may be given away"
    return None


def find_unserved(server: Server, tenants: Tenants) -> str | None:
    """Return a cluster whose Services or addresses are wrong at rest, None if all are right."""
    for allocation in server.all("ipallocations"):
        marked = names.ANNOTATION_RELEASING in (allocation["metadata"].get("annotations") or {})
        if marked or "deletionTimestamp" in allocation["metadata"]:
            return f"{allocation['metadata']['name']} is on its way out for ever"
    taken_ranges = (span for name in tenants for span in list_held_ranges(server, name))
    free = 4 - sum(span.size for span in taken_ranges if span.family == 4)
    for name, tenant in tenants.items():
        own = list_held_ranges(server, name)
        if _sort_texts(list_pool_ranges(tenant)) != _sort_texts(own):
            return (
                f"{name}'s pool has {_sort_texts(list_pool_ranges(tenant))} of {_sort_texts(own)}"
            )
        cluster = server.see("tenantclusters", name, namespace="team")
        unserved = names.ANNOTATION_GROWN_IN_VAIN in (cluster["metadata"].get("annotations") or {})
        waiting = sum(not _list_ingress(service) for service in tenant.all("services"))
        if (
            waiting
            and free
            and len(list_holding_allocations(server, name)) < _QUOTA
            and not unserved
        ):
            return f"{waiting} Services of {name} wait although {free} addresses are free"
    return None


def find_leak(server: Server, tenants: Tenants) -> str | None:
    """Return an object that is left after the last cluster was deleted, None if there is none."""
    for plural in ("tenantclusters", "ipallocations"):
        remaining = [allocation["metadata"]["name"] for allocation in server.all(plural)]
        if remaining:
            return f"{plural} are left: {remaining}"
    for name, tenant in tenants.items():
        remaining = [o["metadata"]["name"] for k in _OFFERS for o in tenant.all(k)]
        if remaining:
            return f"{name} still has {remaining}"
    status = server.see("networkpools", "lab")["status"]
    for counts in (status, *([status["secondary"]] if "secondary" in status else [])):
        if (counts["availableIPs"], counts["totalIPs"]) != (4, 4):
            return f"the pool counts {counts['availableIPs']} of {counts['totalIPs']} as free"
    return None


def report_places(server: Server, tenants: Tenants) -> str:
    """Return a sentence about all ranges in pools of tenants and in allocations."""
    texts = {name: _sort_texts(list_pool_ranges(tenant)) for name, tenant in tenants.items()}
    allocations = [_summarize_allocation(obj) for obj in server.all("ipallocations")]
    return f"pools {texts}, allocations {allocations}"


def parse_held_ranges(allocation: Json) -> tuple[AddressRange, ...]:
    """Return the ranges in an allocation's status."""
    status = allocation.get("status") or {}
    spans = (
        addresstexts.parse_ends(part.get("startAddress") or "", part.get("endAddress") or "")
        for part in (status, *status.get("families", ()))
    )
    return tuple(dict.fromkeys(span for span in spans if span is not None))


def list_holding_allocations(server: Server, tenant: str) -> list[Json]:
    """Return a tenant's load-balancer allocations that hold a range."""
    return [
        allocation
        for allocation in server.all("ipallocations")
        if allocation["spec"]["tenantClusterRef"]["name"] == tenant
        and allocation["spec"]["type"] == names.TYPE_LOADBALANCER
        and parse_held_ranges(allocation)
    ]


def list_held_ranges(server: Server, tenant: str) -> list[AddressRange]:
    """Return the ranges of a tenant's load-balancer allocations."""
    return [
        span
        for allocation in list_holding_allocations(server, tenant)
        for span in parse_held_ranges(allocation)
    ]


def has_earlier_allocations(server: Server, tenant: str, uid: str) -> bool:
    """Return whether there are allocations of an earlier cluster of a tenant's name."""
    return any(
        allocation["spec"]["tenantClusterRef"]["name"] == tenant
        and (allocation["metadata"].get("annotations") or {}).get(names.ANNOTATION_TENANT_UID)
        not in {None, uid}
        for allocation in server.all("ipallocations")
    )


def list_pool_ranges(tenant: Server) -> list[AddressRange]:
    """Return the ranges that a tenant's load balancer may hand out."""
    texts = [pool_entry for pool_entry in list_pool_entries(tenant) if pool_entry != NO_ADDRESS]
    texts += [*list_offered_entries(tenant), *list_cilium_entries(tenant)]
    return [
        span for entry in texts if (span := addresstexts.parse_cidr_or_span(entry)) is not None
    ]


def list_shown_addresses(tenant: Server) -> list[AddressRange]:
    """Return the addresses that a tenant's Services show."""
    addresses = [
        ingress.get("ip") or ""
        for service in tenant.all("services")
        for ingress in _list_ingress(service)
    ]
    return [span for ip in addresses if (span := addresstexts.parse_ends(ip, ip)) is not None]


def _list_ingress(service: Json) -> list[Json]:
    """Return the entries of a Service's load-balancer status."""
    status = (service.get("status") or {}).get("loadBalancer") or {}
    return status.get("ingress") or []


def _sort_texts(spans: list[AddressRange]) -> list[str]:
    """Return ranges as sorted texts."""
    return sorted(span.text for span in spans)


def _summarize_allocation(allocation: Json) -> tuple[str, str, str | None]:
    """Return the name, the ranges and the phase of an allocation."""
    held_text = " and ".join(span.text for span in parse_held_ranges(allocation))
    phase = (allocation.get("status") or {}).get("phase")
    return allocation["metadata"]["name"], held_text or "-", phase


_QUOTA = 3
_OFFERS = ("ipaddresspools", "l2advertisements", "addressoffers", POOLS)
