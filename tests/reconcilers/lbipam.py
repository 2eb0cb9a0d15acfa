"""A stand-in for Cilium's LB-IPAM, the part of a tenant's operator that serves Services.

It assigns addresses first-fit from the pools that it has read. Then it writes the counts of each
pool whose spec has changed, with the generation that it has acted on. These observed behaviours of
the operator are reproduced:

- It can stop for a while (`paused`), and lose a write of counts (`loses_counts`).
- If the write of a Service's status is refused, it believes that the Service shows those
  addresses, and counts them, until the Service changes.
- An edit with an unreadable block is acknowledged, but the earlier blocks stay in effect.
- If the block of an address is removed while a Service with a sharing key shows the address, a
  later Service with that key gets the address, until the operator is restarted.

A change of a Service's sharing key is not reproduced. Two leaders at once are two stand-ins.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from allocator import AddressRange
from controller.testing import WriteRecord
from reconcilers.addressing import addresstexts
from reconcilers.api.services import LOAD_BALANCER, Service
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.cilium.pools import CiliumPool
from reconcilers.loadbalancers.cilium.services import find_sharing_key, is_selected
from tests.reconcilers.firstfit import choose_first_free, is_in_ranges, list_shown_addresses
from tests.reconcilers.server import Json, Server

POOLS = "ciliumloadbalancerippools"


@dataclass
class _ReadPool:
    """A pool as the stand-in has read it.

    Args:
        generation: the generation that the stand-in acknowledges.
        created: the creation timestamp; the younger of two overlapping pools is not used.
        spans: the ranges in effect; an edit with an unreadable block leaves the earlier ones.
        conflict: why the pool is not used; empty if it is.
    """

    uid: str
    spec: Json
    generation: int
    created: str
    pool: CiliumPool
    spans: list[AddressRange] = field(default_factory=list)
    is_disabled: bool = False
    conflict: str = ""


@dataclass(frozen=True, slots=True)
class _RememberedAddress:
    """An address that outlived its block in the memory of the operator.

    Args:
        address: as text.
        before: uids of the Services that were there when the block went; a later one gets it.
    """

    address: str
    before: frozenset[str]


@dataclass(frozen=True, slots=True)
class _RefusedWrite:
    """A refused write of a Service's status, which the operator believes to have succeeded.

    Args:
        version: the resourceVersion of the Service when the write was refused.
        addresses: the addresses in the refused write.
    """

    version: str
    addresses: list[str]


class LbIpam:
    """Serves the Services of a tenant by its pools, at once unless it is paused.

    Args:
        tenant: the API server with the pools and Services.
    """

    def __init__(self, tenant: Server) -> None:
        self.tenant = tenant
        self.paused = False
        self.loses_counts = False
        """Whether the next write of counts is lost; like the operator, it is not retried."""
        self.services_with_refused_write: set[str] = set()
        """Names of Services whose next status write is refused, and retried once they change."""
        self._refused_writes: dict[str, _RefusedWrite] = {}
        self._remembered: dict[str, _RememberedAddress] = {}
        self._starts = 0
        self._lost: tuple[str, int] | None = None
        self._read_pools: dict[str, _ReadPool] = {}
        self._busy = False
        tenant.listeners.append(self._handle_event)
        self._take_lease()

    def resume(self) -> None:
        """Work again after a pause, first by what was read before it."""
        self.paused, self._busy = False, True
        try:
            self._serve()
        finally:
            self._busy = False
        self._work()

    def restart(self) -> None:
        """Restart without memory, under a new leader identity."""
        self._read_pools, self._remembered, self._refused_writes, self.paused = {}, {}, {}, False
        self._take_lease()
        self._work()

    def _take_lease(self) -> None:
        """Write a new holder identity into the leader's Lease, if the tenant serves Leases."""
        self._starts += 1
        if "leases" not in self.tenant.served:
            return
        spec = {"spec": {"holderIdentity": f"operator-{self._starts}"}}
        if self.tenant.has("leases", LEASE_NAME, namespace="kube-system"):
            self.tenant.edit("leases", LEASE_NAME, spec, namespace="kube-system")
        else:
            meta = {"name": LEASE_NAME, "namespace": "kube-system"}
            self.tenant.add("leases", {"metadata": meta} | spec)

    def _handle_event(self, record: WriteRecord) -> None:
        if record.plural in {"services", POOLS}:
            self._work()

    def _work(self) -> None:
        """Read pools, serve Services and write counts, unless paused or already doing so."""
        if self.paused or self._busy:
            return
        self._busy = True
        try:
            self._read_new_specs()
            self._serve()
            self._write_counts()
        finally:
            self._busy = False

    def _read_new_specs(self) -> None:
        """Read all pools whose spec is new, and find conflicts between pools.

        A pool whose spec has not changed keeps the generation that was read with it.
        """
        stored = {pool["metadata"]["name"]: pool for pool in self.tenant.all(POOLS)}
        for name in set(self._read_pools) - set(stored):
            del self._read_pools[name]
        for name, pool in stored.items():
            read_pool, meta = self._read_pools.get(name), pool["metadata"]
            if read_pool is not None and (read_pool.uid, read_pool.spec) == (
                meta["uid"],
                pool["spec"],
            ):
                continue
            typed = msgspec.convert(pool, CiliumPool)
            spans = [block.span for block in typed.blocks]
            is_disabled = typed.spec.disabled
            if None in spans and read_pool is not None:
                spans, is_disabled = list(read_pool.spans), read_pool.is_disabled
            self._read_pools[name] = _ReadPool(
                uid=meta["uid"],
                spec=pool["spec"],
                generation=meta["generation"],
                created=meta["creationTimestamp"],
                pool=typed,
                spans=[span for span in spans if span is not None],
                is_disabled=is_disabled,
            )
        oldest_first = sorted(
            self._read_pools.items(), key=lambda pair: (pair[1].created, pair[0])
        )
        for number, (_, read_pool) in enumerate(oldest_first):
            older = [(name, other) for name, other in oldest_first[:number] if not other.conflict]
            older_overlapping = [
                name for name, other in older if _overlap(other.spans, read_pool.spans)
            ]
            read_pool.conflict = f"overlaps {older_overlapping[0]}" if older_overlapping else ""

    def _serve(self) -> None:
        """Clear addresses that no pool has, and assign free addresses to Services without one."""
        services = [msgspec.convert(stored, Service) for stored in self.tenant.all("services")]
        handled_services = [service for service in services if not service.spec.loadBalancerClass]
        spans = [span for read_pool in self._read_pools.values() for span in read_pool.spans]
        self._remember(handled_services, spans)
        kept_addresses = {
            service.metadata.name: [
                ip
                for ip in self._list_believed_addresses(service)
                if is_in_ranges(self._list_spans(service), ip) or self._is_remembered(service, ip)
            ]
            for service in handled_services
        }
        taken_addresses = {ip for addresses in kept_addresses.values() for ip in addresses}
        for service in handled_services:
            expected = kept_addresses[service.metadata.name]
            if service.spec.type == LOAD_BALANCER and not expected:
                expected = self._choose(service, taken_addresses)
                taken_addresses.update(expected)
            if self._list_believed_addresses(service) == expected or not self._read_pools:
                continue  # without a pool, the operator does not write Services
            if service.metadata.name in self.services_with_refused_write:
                self.services_with_refused_write.discard(service.metadata.name)
                version = service.metadata.resourceVersion
                self._refused_writes[service.metadata.uid] = _RefusedWrite(version, expected)
                continue
            ingress = [{"ip": ip} for ip in expected]
            status = {"status": {"loadBalancer": {"ingress": ingress}}}
            namespace = service.metadata.namespace
            self.tenant.edit("services", service.metadata.name, status, namespace=namespace)

    def _list_believed_addresses(self, service: Service) -> list[str]:
        """Return the addresses that the operator believes a Service shows."""
        refused = self._refused_writes.get(service.metadata.uid)
        if refused is not None and refused.version == service.metadata.resourceVersion:
            return refused.addresses
        return list_shown_addresses(service)

    def _list_spans(self, service: Service) -> list[AddressRange]:
        """Return the ranges of the pools that select a Service."""
        read_pool = self._read_pools.values()
        return [
            span for pool in read_pool if is_selected(pool.pool, service) for span in pool.spans
        ]

    def _remember(self, services: Iterable[Service], spans: list[AddressRange]) -> None:
        """Remember the addresses of Services with a sharing key whose block is gone."""
        present = frozenset(service.metadata.uid for service in services)
        for service in services:
            for ip in self._list_believed_addresses(service):
                if find_sharing_key(service) and not is_in_ranges(spans, ip):
                    self._remembered.setdefault(
                        find_sharing_key(service), _RememberedAddress(ip, present)
                    )

    def _is_remembered(self, service: Service, ip: str) -> bool:
        """Return whether `ip` is remembered for the key of a Service that was created later."""
        entry = self._remembered.get(find_sharing_key(service))
        return (
            entry is not None and entry.address == ip and service.metadata.uid not in entry.before
        )

    def _write_counts(self) -> None:
        """Write the counts and the conflict of each pool for which they have changed."""
        used_addresses = [
            address
            for stored in self.tenant.all("services")
            for ip in self._list_believed_addresses(msgspec.convert(stored, Service))
            if (address := addresstexts.parse_ends(ip, ip)) is not None
        ]
        for name, read_pool in self._read_pools.items():
            used = sum(any(span.contains(ip) for span in read_pool.spans) for ip in used_addresses)
            total = sum(span.size for span in read_pool.spans)
            counts = {"IPsTotal": total, "IPsAvailable": total - used, "IPsUsed": used}
            conditions: list[Json] = [
                {
                    "type": f"cilium.io/{kind}",
                    "status": "Unknown",
                    "reason": "noreason",
                    "message": str(number),
                    "observedGeneration": read_pool.generation,
                }
                for kind, number in counts.items()
            ]
            conflict = {
                "status": "True" if read_pool.conflict else "False",
                "message": read_pool.conflict,
            }
            conditions.append({"type": "cilium.io/PoolConflict", "reason": "any", **conflict})
            status = {"conditions": conditions}
            stored = self.tenant.see(POOLS, name, namespace="")
            if stored.get("status") == status or self._is_lost(read_pool):
                continue
            self.tenant.edit(POOLS, name, {"status": status}, namespace="")

    def _is_lost(self, read_pool: _ReadPool) -> bool:
        """Return whether the write of a pool's counts is lost, for this generation of the pool."""
        if self.loses_counts:
            self.loses_counts = False
            self._lost = (read_pool.uid, read_pool.generation)
        return self._lost == (read_pool.uid, read_pool.generation)

    def _choose(self, service: Service, taken_addresses: set[str]) -> list[str]:
        """Return the remembered address of a Service, or a free address for each of its families.

        A family without a free address is left out.
        """
        remembered = self._remembered.get(find_sharing_key(service))
        if remembered is not None and self._is_remembered(service, remembered.address):
            return [remembered.address]
        usable = [k for k in self._read_pools.values() if not k.is_disabled and not k.conflict]
        selecting = [read_pool for read_pool in usable if is_selected(read_pool.pool, service)]
        spans = [span for read_pool in selecting for span in read_pool.spans]
        return [ip for ip in choose_first_free(service, spans, taken_addresses) if ip is not None]


def list_offered_entries(tenant: Server) -> list[str]:
    """Return the blocks of all Cilium pools of a tenant, as `start-stop`."""
    return [
        f"{block['start']}-{block['stop']}"
        for pool in tenant.all(POOLS)
        for block in pool["spec"].get("blocks", ())
    ]


def _overlap(address_ranges: Iterable[AddressRange], other: Iterable[AddressRange]) -> bool:
    theirs = list(other)
    return any(span.overlaps(their) for span in address_ranges for their in theirs)
