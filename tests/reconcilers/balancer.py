"""MetalLB in a tenant of memory: it gives Services addresses as soon as its pool has some."""

from contextlib import suppress
from typing import Any

import msgspec

from controller.testing import WriteRecord
from reconcilers.api.services import Service
from reconcilers.cli.standin.controller import assign_addresses
from reconcilers.cli.standin.pools import AddressPool, InvalidConfig, Pool, build_configuration
from reconcilers.cli.standin.serviceaddresses import addresses
from tests.reconcilers.server import Json, Server

NAMESPACE = "metallb-system"


class Balancer:
    """Assigns addresses by the rules of the stand-in, at once and for as long as it is not paused.

    One that counts is like MetalLB from 0.15 on: it writes how many addresses it found in a pool,
    and after a pause it serves what waited by the pools that it had read before, and reads then.

    Args:
        tenant: the server that it looks at.
        refuses: names of Services that it never serves, for a reason of its own.
        counts: whether it counts the addresses of pools.
    """

    def __init__(self, tenant: Server, *refuses: str, counts: bool = False) -> None:
        self.tenant = tenant
        self.refuses = refuses
        self.counts = counts
        self.paused = False
        self._busy = False
        self._pools: tuple[Pool, ...] = ()
        tenant.listeners.append(self._hear)

    def resume(self) -> None:
        """Work again after a pause."""
        self.paused = False
        self._busy = True
        try:
            if self.counts:
                self._serve()
            self.run()
        finally:
            self._busy = False

    def run(self) -> None:
        """Look at everything once; pools that are no configuration are left aside."""
        with suppress(InvalidConfig):
            read = [msgspec.convert(o, AddressPool) for o in _all(self.tenant)]
            self._pools = build_configuration(read)
        if self.counts:
            self._count()
        self._serve()

    def _count(self) -> None:
        sizes = {pool.name: sum(e.size for e in pool.entries.values()) for pool in self._pools}
        for pool in _all(self.tenant):
            meta = pool["metadata"]
            count = {"assignedIPv4": 0, "availableIPv4": sizes.get(meta["name"], 0)}
            if pool.get("status") != count and meta["name"] in sizes:
                change = {"status": count}
                self.tenant.edit(
                    "ipaddresspools", meta["name"], change, namespace=meta["namespace"]
                )

    def _serve(self) -> None:
        pools = self._pools
        services = [msgspec.convert(o, Service) for o in self.tenant.all("services")]
        allowed_services = [
            service for service in services if service.metadata.name not in self.refuses
        ]
        for assignment in assign_addresses(allowed_services, pools):
            if addresses(assignment.service) != assignment.addresses:
                ingress = [{"ip": address} for address in assignment.addresses]
                self._show(assignment.service.metadata.name, ingress)

    def _show(self, name: str, ingress: list[Json]) -> None:
        status = {"status": {"loadBalancer": {"ingress": ingress}}}
        self.tenant.edit("services", name, status, namespace="default")

    def _hear(self, happening: WriteRecord) -> None:
        if self.paused or self._busy or happening.plural not in {"services", "ipaddresspools"}:
            return
        self._busy = True
        try:
            self.run()
        finally:
            self._busy = False


def _all(tenant: Server) -> list[Json]:
    return tenant.all("ipaddresspools")


def service(tenant: Server, name: str, **parts: Any) -> Json:
    """Create a Service of type LoadBalancer; `spec`, `status` and metadata as given."""
    spec = {"type": "LoadBalancer"} | parts.pop("spec", {})
    body = {"spec": spec, "status": parts.pop("status", {})}
    meta = {"name": name, "namespace": "default"} | parts
    return tenant.add("services", {"metadata": meta, **body})


def pool_entries(tenant: Server) -> list[str]:
    """Return the entries of MetalLB's pool; empty if there is none."""
    offers = [offer for offer in _all(tenant) if offer["metadata"]["name"] == "default-pool"]
    entries: list[str] = offers[0]["spec"]["addresses"] if offers else []
    return entries


def address_of(tenant: Server, name: str) -> str | None:
    """Return the address that a Service shows."""
    status = tenant.see("services", name, namespace="default").get("status") or {}
    ingress = (status.get("loadBalancer") or {}).get("ingress") or []
    return ingress[0].get("ip") if ingress else None
