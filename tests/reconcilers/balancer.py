"""A stand-in for MetalLB's controller, in a tenant whose API server is in memory."""

from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec

from controller.testing import WriteRecord
from reconcilers.api.services import Service
from reconcilers.cli.standin.controller import assign_addresses
from reconcilers.cli.standin.pools import AddressPool, InvalidConfig, Pool, build_configuration
from reconcilers.cli.standin.serviceaddresses import read_status_addresses
from tests.reconcilers.server import Json, Server

NAMESPACE = "metallb-system"


class Balancer:
    """Assigns addresses to Services at each change of a pool or Service, unless it is paused.

    MetalLB from 0.15 on writes the number of addresses to the status of each pool: see
    `counts_addresses`. After a pause the stand-in first serves the waiting Services from the pools
    that it had read before, and reads the pools then.

    Args:
        tenant: the API server with the pools and Services.
        refused_services: names of Services that it never serves.
        counts_addresses: whether it writes the number of addresses to the status of each pool.
    """

    def __init__(
        self,
        tenant: Server,
        *,
        refused_services: Collection[str] = (),
        counts_addresses: bool = False,
    ) -> None:
        self.tenant = tenant
        self.refused_services = refused_services
        self.counts_addresses = counts_addresses
        self.paused = False
        self._busy = False
        self._pools: tuple[Pool, ...] = ()
        tenant.listeners.append(self._handle_event)

    def resume(self) -> None:
        """Work again after a pause."""
        self.paused = False
        self._busy = True
        try:
            if self.counts_addresses:
                self._serve()
            self.run()
        finally:
            self._busy = False

    def run(self) -> None:
        """Read the pools, unless they are invalid, and serve all Services.

        Like MetalLB, it keeps the configuration that it has read before if the pools are invalid.
        """
        with suppress(InvalidConfig):
            pools = [msgspec.convert(stored, AddressPool) for stored in _list_pools(self.tenant)]
            self._pools = build_configuration(pools)
        if self.counts_addresses:
            self._write_counts()
        self._serve()

    def _write_counts(self) -> None:
        """Write the number of addresses to the status of each pool that was read."""
        sizes = {pool.name: sum(e.size for e in pool.entries.values()) for pool in self._pools}
        for pool in _list_pools(self.tenant):
            meta = pool["metadata"]
            count = {"assignedIPv4": 0, "availableIPv4": sizes.get(meta["name"], 0)}
            if pool.get("status") != count and meta["name"] in sizes:
                change = {"status": count}
                self.tenant.edit(
                    "ipaddresspools", meta["name"], change, namespace=meta["namespace"]
                )

    def _serve(self) -> None:
        """Assign addresses from the pools that were read, except to refused Services."""
        services = [msgspec.convert(o, Service) for o in self.tenant.all("services")]
        allowed_services = [
            service for service in services if service.metadata.name not in self.refused_services
        ]
        for assignment in assign_addresses(allowed_services, self._pools):
            if read_status_addresses(assignment.service) != assignment.addresses:
                ingress = [{"ip": address} for address in assignment.addresses]
                self._write_ingress(assignment.service.metadata.name, ingress)

    def _write_ingress(self, service: str, ingress: list[Json]) -> None:
        status = {"status": {"loadBalancer": {"ingress": ingress}}}
        self.tenant.edit("services", service, status, namespace="default")

    def _handle_event(self, record: WriteRecord) -> None:
        if self.paused or self._busy or record.plural not in {"services", "ipaddresspools"}:
            return
        self._busy = True
        try:
            self.run()
        finally:
            self._busy = False


def _list_pools(tenant: Server) -> list[Json]:
    return tenant.all("ipaddresspools")


def add_service(tenant: Server, name: str, **parts: Any) -> Json:
    """Create a Service of type LoadBalancer in the namespace `default`.

    Args:
        tenant: the API server.
        name: the name of the Service.
        parts: further fields of its `spec`, its `status`, and fields of its metadata.
    """
    spec = {"type": "LoadBalancer"} | parts.pop("spec", {})
    body = {"spec": spec, "status": parts.pop("status", {})}
    meta = {"name": name, "namespace": "default"} | parts
    return tenant.add("services", {"metadata": meta, **body})


def list_pool_entries(tenant: Server) -> list[str]:
    """Return the addresses of IPAddressPool `default-pool`; empty if it does not exist."""
    pools = [pool for pool in _list_pools(tenant) if pool["metadata"]["name"] == "default-pool"]
    entries: list[str] = pools[0]["spec"]["addresses"] if pools else []
    return entries


def find_address(tenant: Server, name: str) -> str | None:
    """Return the first address in the status of a Service; None if it has none."""
    status = tenant.see("services", name, namespace="default").get("status") or {}
    ingress = (status.get("loadBalancer") or {}).get("ingress") or []
    return ingress[0].get("ip") if ingress else None
