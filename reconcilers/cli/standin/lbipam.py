"""The stand-in for Cilium's LB-IPAM: which Service has which address, and the loop around it.

A Service keeps the address that it shows while a pool has it. Otherwise it gets the first free
address, from the oldest pool that has one; LB-IPAM chooses among pools at random from 1.20 on. A
pool that is disabled, or that overlaps an older pool, gives no new addresses. Without any pool the
stand-in writes nothing, as LB-IPAM does.

Services are written before the counts of pools. The conditions with the counts name the generation
of the pool. So a reader knows that Services have been written for that generation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

import yaml

from allocator import AddressRange
from controller.clock import Clock
from controller.conditions import format_rfc3339
from controller.manager import Manager
from controller.meta import Key, Version
from controller.outcome import SETTLED, Outcome
from controller.triggers import Watch
from reconcilers.api.services import LOAD_BALANCER, SERVICE, Service
from reconcilers.cli.standin.serviceaddresses import (
    build_age_key,
    parse_addresses,
    read_status_addresses,
)
from reconcilers.loadbalancers.cilium.pools import (
    CILIUM_POOL,
    IPS_TOTAL,
    IPS_USED,
    POOL_CONFLICT,
    CiliumPool,
    find_condition,
)
from reconcilers.loadbalancers.cilium.services import is_selected

COMPONENT = "lb-ipam-stand-in"
EVERYTHING = Key("", "pools and services")
ADDRESS_ANNOTATIONS = ("lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips")
"""Annotations of a Service that ask for addresses, separated by commas."""
PROXY_LABEL = "service.kubernetes.io/service-proxy-name"
"""The label of Services that Cilium leaves to another proxy."""
_IPS_AVAILABLE = "cilium.io/IPsAvailable"


def read_cilium_crds() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of pools, and of the kinds that announce addresses."""
    definitions = files(__package__).joinpath("cilium-crds.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(definitions))


@dataclass(frozen=True, slots=True)
class ReadPool:
    """A pool as the stand-in understands it.

    Args:
        spans: its blocks; those that cannot be parsed are left out.
        conflict: a sentence that names the older pool that it overlaps; empty for no overlap.
    """

    declared: CiliumPool
    spans: tuple[AddressRange, ...]
    conflict: str = ""

    @property
    def can_give_addresses(self) -> bool:
        """Whether Services get new addresses from it."""
        return not self.declared.spec.disabled and not self.conflict

    def selects(self, service: Service) -> bool:
        """Return whether the pool's selector selects a Service."""
        return is_selected(self.declared, service)

    def __contains__(self, address: AddressRange) -> bool:
        """Return whether the pool has an address."""
        return any(span.contains(address) for span in self.spans)


def read_pools(declared: Iterable[CiliumPool]) -> list[ReadPool]:
    """Return pools by age, the oldest first; if two overlap, the younger has the conflict.

    A pool with a conflict gives no addresses, so it causes no conflict in younger pools.
    """
    pools: list[ReadPool] = []
    for pool in sorted(declared, key=_build_pool_age_key):
        spans = tuple(block.span for block in pool.blocks if block.span is not None)
        rivals = [
            older.declared.metadata.name
            for older in pools
            if not older.conflict and _do_overlap(older.spans, spans)
        ]
        conflict = f"it overlaps CiliumLoadBalancerIPPool {rivals[0]}" if rivals else ""
        pools.append(ReadPool(pool, spans, conflict))
    return pools


def _build_pool_age_key(pool: CiliumPool) -> tuple[str, str]:
    """Return a sort key of a pool: the oldest first."""
    created = pool.metadata.creationTimestamp
    return (created.isoformat() if created else "", pool.metadata.name)


def _do_overlap(spans: Iterable[AddressRange], others: Sequence[AddressRange]) -> bool:
    """Return whether any of the spans shares an address with any of the others."""
    return any(span.overlaps(other) for span in spans for other in others)


def choose_addresses(
    services: Iterable[Service], pools: Sequence[ReadPool]
) -> list[tuple[Service, tuple[str, ...]]]:
    """Return the addresses of each Service that LB-IPAM serves, the oldest Service first."""
    served_services = sorted(
        (service for service in services if is_served(service)), key=build_age_key
    )
    taken_addresses: set[AddressRange] = set()
    # All Services keep their addresses before any Service gets a new one. Else a Service could get
    # an address that a younger Service has.
    kept_by_uid: dict[str, list[AddressRange]] = {}
    for service in served_services:
        requested = _parse_requested(service)
        shown_addresses = [
            address
            for address in parse_addresses(read_status_addresses(service))
            if any(address in pool for pool in pools if pool.selects(service))
            and address not in taken_addresses
            and (not requested or address in requested)
        ]
        kept_by_uid[service.metadata.uid] = shown_addresses
        taken_addresses.update(shown_addresses)
    chosen = []
    for service in served_services:
        shown_addresses = kept_by_uid[service.metadata.uid]
        # A Service that is being deleted keeps its addresses, and gets no new ones.
        added = (
            []
            if service.metadata.deletionTimestamp
            else _choose_new_addresses(
                service, shown_addresses, pools=pools, taken_addresses=taken_addresses
            )
        )
        taken_addresses.update(added)
        texts = tuple(address.start_text for address in [*shown_addresses, *added])
        chosen.append((service, texts))
    return chosen


def is_served(service: Service) -> bool:
    """Return whether LB-IPAM serves a Service: without a class, and not left to another proxy."""
    return (
        service.spec.type == LOAD_BALANCER
        and service.spec.loadBalancerClass is None
        and PROXY_LABEL not in service.metadata.labels
    )


def _parse_requested(service: Service) -> list[AddressRange]:
    """Return the addresses that a Service requests; empty if none, or if one cannot be parsed.

    The first annotation of ADDRESS_ANNOTATIONS that is not empty counts, else spec.loadBalancerIP.
    """
    annotations = service.metadata.annotations
    requested = next(
        (annotations[name] for name in ADDRESS_ANNOTATIONS if annotations.get(name)), ""
    )
    requested = requested or service.spec.loadBalancerIP
    return parse_addresses(part.strip() for part in requested.split(",")) if requested else []


def _choose_new_addresses(
    service: Service,
    shown_addresses: Sequence[AddressRange],
    pools: Iterable[ReadPool],
    taken_addresses: Collection[AddressRange],
) -> list[AddressRange]:
    """Return the new addresses of a Service.

    If a Service requests addresses, it gets the free addresses among them. Else it gets one
    address of each family in which it keeps no address.
    """
    open_pools = [pool for pool in pools if pool.can_give_addresses and pool.selects(service)]
    if requested := _parse_requested(service):
        return [
            address
            for address in requested
            if address not in taken_addresses and any(address in pool for pool in open_pools)
        ]
    kept_families = {address.family for address in shown_addresses}
    added = []
    for family in service.spec.ipFamilies or ("IPv4",):
        number = int(family.removeprefix("IPv"))
        free = (
            address
            for address in _list_addresses(open_pools, number)
            if address not in taken_addresses
        )
        if number not in kept_families and (address := next(free, None)) is not None:
            added.append(address)
    return added


def _list_addresses(pools: Iterable[ReadPool], family: int) -> Iterator[AddressRange]:
    """Yield the addresses of pools in a family, in the order in which Services get them."""
    for pool in pools:
        for span in pool.spans:
            if span.family == family:
                for number in range(span.first, span.last + 1):
                    yield AddressRange(number, number, family)


class LbIpamStandIn:
    """A stand-in for LB-IPAM in one tenant, added to that tenant's manager."""

    def __init__(self, manager: Manager, clock: Clock) -> None:
        self._client = manager.client
        self._clock = clock
        self._pools = manager.get_informer(CILIUM_POOL).cache
        self._services = manager.get_informer(SERVICE).cache
        informers = (manager.get_informer(CILIUM_POOL), manager.get_informer(SERVICE))
        watches = [Watch(informer, lambda _: (EVERYTHING,)) for informer in informers]
        manager.add_controller(COMPONENT, self.reconcile, watches=watches)

    async def reconcile(self, _: Key) -> Outcome:
        """Write the addresses of all Services that differ, then the counts of all pools."""
        pools = read_pools(self._pools)
        # Without any pool LB-IPAM writes nothing: Services keep the addresses that they show.
        if not pools:
            return SETTLED
        chosen = choose_addresses(self._services, pools)
        for service, chosen_addresses in chosen:
            if read_status_addresses(service) != chosen_addresses:
                ingress = [{"ip": address} for address in chosen_addresses] or None
                status = {"status": {"loadBalancer": {"ingress": ingress}}}
                at = Version.from_object(service)
                await self._client.patch(SERVICE, at, status, subresource="status")
        used = [address for _, texts in chosen for address in parse_addresses(texts)]
        for pool in pools:
            await self._write_counts(pool, used)
        return SETTLED

    async def _write_counts(self, pool: ReadPool, used: Iterable[AddressRange]) -> None:
        """Write the total, used and available addresses of a pool to its status if they differ."""
        declared = pool.declared
        total = sum(span.size for span in pool.spans)
        in_use = sum(address in pool for address in used)
        counts = {IPS_TOTAL: total, _IPS_AVAILABLE: total - in_use, IPS_USED: in_use}
        new_conditions = [
            {"type": kind, "status": "Unknown", "reason": "noreason", "message": str(number)}
            for kind, number in counts.items()
        ]
        new_conditions.append(
            {
                "type": POOL_CONFLICT,
                "status": "True" if pool.conflict else "False",
                "reason": "cidr_overlap" if pool.conflict else "resolved",
                "message": pool.conflict,
            }
        )
        if all(map(partial(_is_written, declared), new_conditions)):
            return
        stamp = {
            "lastTransitionTime": format_rfc3339(self._clock.now()),
            "observedGeneration": declared.generation,
        }
        conditions = [entry | stamp for entry in new_conditions]
        await self._client.patch_status(CILIUM_POOL, declared, {"conditions": conditions})


def _is_written(pool: CiliumPool, new_condition: Mapping[str, str]) -> bool:
    """Return whether a pool has a condition with this status and message for its generation."""
    stored = find_condition(pool, new_condition["type"])
    return (
        stored is not None
        and (stored.status, stored.message) == (new_condition["status"], new_condition["message"])
        and stored.observedGeneration == pool.generation
    )
