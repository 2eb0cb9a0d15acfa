"""MetalLB in a tenant of memory: it gives Services addresses as soon as its pool has some."""

from typing import Any

import msgspec

from reconcilers.api.resources import Service
from reconcilers.cli.standin.controller import addresses, assignments
from reconcilers.cli.standin.pools import AddressPool, configuration
from tests.reconcilers.server import Happening, Json, Server

NAMESPACE = "metallb-system"


class Balancer:
    """Assigns addresses by the rules of the stand-in, at once and for as long as it is not paused.

    Args:
        tenant: the server that it looks at.
        refuses: names of Services that it never serves, for a reason of its own.
    """

    def __init__(self, tenant: Server, *refuses: str) -> None:
        self.tenant = tenant
        self.refuses = refuses
        self.paused = False
        self._busy = False
        tenant.listeners.append(self._hear)

    def resume(self) -> None:
        """Work again after a pause."""
        self.paused = False
        self.run()

    def run(self) -> None:
        """Look at everything once."""
        pools = configuration([msgspec.convert(o, AddressPool) for o in _all(self.tenant)])
        services = [msgspec.convert(o, Service) for o in self.tenant.all("services")]
        served = [one for one in services if one.metadata.name not in self.refuses]
        for one in assignments(served, pools):
            if addresses(one.service) != one.addresses:
                ingress = [{"ip": address} for address in one.addresses]
                self._show(one.service.metadata.name, ingress)

    def _show(self, name: str, ingress: list[Json]) -> None:
        status = {"status": {"loadBalancer": {"ingress": ingress}}}
        self.tenant.edit("services", name, status, namespace="default")

    def _hear(self, happening: Happening) -> None:
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
    """Return what MetalLB's pool holds; nothing if there is none."""
    found = [one for one in _all(tenant) if one["metadata"]["name"] == "default-pool"]
    entries: list[str] = found[0]["spec"]["addresses"] if found else []
    return entries


def address_of(tenant: Server, name: str) -> str | None:
    """Return the address that a Service shows."""
    status = tenant.see("services", name, namespace="default").get("status") or {}
    ingress = (status.get("loadBalancer") or {}).get("ingress") or []
    return ingress[0].get("ip") if ingress else None
