"""What must hold of tenants at every moment, and in the end."""

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
from tests.reconcilers.balancer import pool_entries
from tests.reconcilers.lab import Replica
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.lbipam import offered_entries as pooled_entries
from tests.reconcilers.memorybalancer.offers import offered_entries
from tests.reconcilers.server import Json, Server

Tenants = Mapping[str, Server]


async def attempt(reconciler: Any, key: Key) -> None:
    """Run one pass; a fault is the runner's business, and here the seed's."""
    with suppress(ControllerError):
        await reconciler.reconcile(key)


@dataclass(frozen=True)
class Orphans:
    """The collection of orphans as a reconciler of one key."""

    replica: Replica

    async def reconcile(self, key: Key) -> None:
        """Look for orphans once."""
        await self.replica.orphans.sweep()


def misplaced(server: Server, tenants: Tenants) -> str | None:
    """Return which address is somewhere it must not be, None if none is.

    Wherever a tenant has an address, in its pool or on a Service, one of its own allocations holds
    it; and no two allocations hold one address.
    """
    held = [span for one in server.all("ipallocations") for span in holding(one)]
    clash = next((x.text for x, y in combinations(held, 2) if x.overlaps(y)), None)
    if clash:
        return f"two allocations hold {clash}"
    for name, tenant in tenants.items():
        own = holdings(server, name)
        for span in entries(tenant):
            if not any(one.contains(span) for one in own):
                return f"{span.text} is in {name}'s pool and may be given away"
        for one in of_tenant(server, name):
            if len(set(holding(one)) & set(entries(tenant))) == 1 < len(holding(one)):
                return f"{name}'s pool has one of the ranges of {one['metadata']['name']}"
        for span in shown(tenant):
            if not any(one.contains(span) for one in own):
                return f"{span.text} is on a Service of {name} and may be given away"
    return None


def unmet(server: Server, tenants: Tenants) -> str | None:
    """Return whose Services or addresses are not as they should be at rest, None if all are."""
    for one in server.all("ipallocations"):
        marked = names.ANNOTATION_RELEASING in (one["metadata"].get("annotations") or {})
        if marked or "deletionTimestamp" in one["metadata"]:
            return f"{one['metadata']['name']} is on its way out for ever"
    taken = (span for name in tenants for span in holdings(server, name))
    free = 4 - sum(span.size for span in taken if span.family == 4)
    for name, tenant in tenants.items():
        own = holdings(server, name)
        if _texts(entries(tenant)) != _texts(own):
            return f"{name}'s pool has {_texts(entries(tenant))} of {_texts(own)}"
        cluster = server.see("tenantclusters", name, namespace="team")
        unserved = names.ANNOTATION_GROWN_IN_VAIN in (cluster["metadata"].get("annotations") or {})
        waiting = sum(not _ingress(one) for one in tenant.all("services"))
        if waiting and free and len(of_tenant(server, name)) < _QUOTA and not unserved:
            return f"{waiting} Services of {name} wait although {free} addresses are free"
    return None


def leaked(server: Server, tenants: Tenants) -> str | None:
    """Return what is left after the last cluster went, None if nothing is."""
    for plural in ("tenantclusters", "ipallocations"):
        left = [one["metadata"]["name"] for one in server.all(plural)]
        if left:
            return f"{plural} are left: {left}"
    for name, tenant in tenants.items():
        left = [o["metadata"]["name"] for k in _OFFERS for o in tenant.all(k)]
        if left:
            return f"{name} still has {left}"
    status = server.see("networkpools", "lab")["status"]
    for counts in (status, *([status["secondary"]] if "secondary" in status else [])):
        if (counts["availableIPs"], counts["totalIPs"]) != (4, 4):
            return f"the pool counts {counts['availableIPs']} of {counts['totalIPs']} as free"
    return None


def reported(server: Server, tenants: Tenants) -> str:
    """Return where everything is, for people."""
    found = {name: _texts(entries(tenant)) for name, tenant in tenants.items()}
    return f"pools {found}, allocations {[_brief(o) for o in server.all('ipallocations')]}"


def holding(allocation: Json) -> tuple[AddressRange, ...]:
    """Return the ranges in an allocation's status."""
    status = allocation.get("status") or {}
    found = (
        addresstexts.parse_ends(one.get("startAddress") or "", one.get("endAddress") or "")
        for one in (status, *status.get("families", ()))
    )
    return tuple(dict.fromkeys(one for one in found if one is not None))


def of_tenant(server: Server, tenant: str) -> list[Json]:
    """Return a tenant's load-balancer allocations that hold something."""
    return [
        one
        for one in server.all("ipallocations")
        if one["spec"]["tenantClusterRef"]["name"] == tenant
        and one["spec"]["type"] == names.TYPE_LOADBALANCER
        and holding(one)
    ]


def holdings(server: Server, tenant: str) -> list[AddressRange]:
    """Return the ranges of a tenant's load-balancer allocations."""
    return [span for one in of_tenant(server, tenant) for span in holding(one)]


def left_behind(server: Server, tenant: str, uid: str) -> bool:
    """Return whether there are allocations of an earlier cluster of a tenant's name."""
    return any(
        one["spec"]["tenantClusterRef"]["name"] == tenant
        and (one["metadata"].get("annotations") or {}).get(names.ANNOTATION_TENANT_UID)
        not in {None, uid}
        for one in server.all("ipallocations")
    )


def entries(tenant: Server) -> list[AddressRange]:
    """Return the ranges that a tenant's load balancer may hand out."""
    texts = [text for text in pool_entries(tenant) if text != NO_ADDRESS]
    texts += [*offered_entries(tenant), *pooled_entries(tenant)]
    return [span for text in texts if (span := addresstexts.parse_cidr_or_span(text)) is not None]


def shown(tenant: Server) -> list[AddressRange]:
    """Return the addresses that a tenant's Services show."""
    found = [one.get("ip") or "" for each in tenant.all("services") for one in _ingress(each)]
    return [span for ip in found if (span := addresstexts.parse_ends(ip, ip)) is not None]


def _ingress(service: Json) -> list[Json]:
    status = (service.get("status") or {}).get("loadBalancer") or {}
    return status.get("ingress") or []


def _texts(spans: list[AddressRange]) -> list[str]:
    return sorted(span.text for span in spans)


def _brief(allocation: Json) -> tuple[str, str, str | None]:
    held = " and ".join(span.text for span in holding(allocation))
    phase = (allocation.get("status") or {}).get("phase")
    return allocation["metadata"]["name"], held or "-", phase


_QUOTA = 3
_OFFERS = ("ipaddresspools", "l2advertisements", "addressoffers", POOLS)
