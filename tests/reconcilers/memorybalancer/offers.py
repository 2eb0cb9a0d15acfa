"""The AddressOffer of a tenant, and the process there that hands out its addresses.

The process works by the offer that it has read. When it has served all Services by it, it writes
the offer's generation as `status.observedGeneration`, as Cilium does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from allocator import AddressRange
from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from controller.testing import WriteRecord
from reconcilers.addressing import addresstexts
from reconcilers.api.services import LOAD_BALANCER, Service
from tests.reconcilers.firstfit import choose_first_free, is_in_ranges, list_shown_addresses
from tests.reconcilers.server import Json, Server

OFFER_KEY = Key("kube-system", "offer")


@dataclass(frozen=True, slots=True)
class OfferSpec:
    """What is handed out, each `start-end`."""

    entries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferStatus:
    """The generation that the process acts on."""

    observedGeneration: int = 0


@dataclass(frozen=True, slots=True)
class AddressOffer:
    """The addresses that one tenant's balancer hands out."""

    metadata: ObjectMeta
    spec: OfferSpec = field(default_factory=OfferSpec)
    status: OfferStatus = field(default_factory=OfferStatus)


ADDRESS_OFFER = Resource("balancer.example", "v1", "AddressOffer", "addressoffers", AddressOffer)


class OfferBalancer:
    """Serves the Services of a tenant by its offer, at once unless it is paused.

    Args:
        tenant: the server that it looks at.
    """

    def __init__(self, tenant: Server) -> None:
        self.tenant = tenant
        self.paused = False
        self._spans: list[AddressRange] = []
        self._busy = False
        tenant.listeners.append(self._handle_event)

    def resume(self) -> None:
        """Work again after a pause, first by what was read before it."""
        self.paused = False
        self._busy = True
        try:
            self._serve()
            self.run()
        finally:
            self._busy = False

    def run(self) -> None:
        """Read the offer, serve all Services by it, and acknowledge it."""
        stored = self._read_stored()
        self._spans = list(_spans(stored["spec"].get("entries", ()))) if stored else []
        self._serve()
        if stored is None:
            return
        seen = {"observedGeneration": stored["metadata"]["generation"]}
        if stored.get("status") != seen:
            self.tenant.edit(
                "addressoffers",
                OFFER_KEY.name,
                {"status": seen},
                namespace=OFFER_KEY.namespace,
            )

    def _read_stored(self) -> Json | None:
        key = ("addressoffers", OFFER_KEY.namespace, OFFER_KEY.name)
        return self.tenant.objects.get(key)

    def _serve(self) -> None:
        services = [msgspec.convert(o, Service) for o in self.tenant.all("services")]
        taken_addresses: set[str] = set()
        kept: dict[str, list[str]] = {}
        for service in services:
            service_addresses = list_shown_addresses(service)
            kept[service.metadata.name] = [
                ip for ip in service_addresses if is_in_ranges(self._spans, ip)
            ]
            taken_addresses.update(kept[service.metadata.name])
        for service in services:
            name = service.metadata.name
            expected = kept[name]
            if service.spec.type == LOAD_BALANCER and not expected:
                expected = self._choose(service, taken_addresses)
                taken_addresses.update(expected)
            if list_shown_addresses(service) != expected:
                ingress = [{"ip": ip} for ip in expected]
                status = {"status": {"loadBalancer": {"ingress": ingress}}}
                self.tenant.edit("services", name, status, namespace="default")

    def _choose(self, service: Service, taken_addresses: set[str]) -> list[str]:
        """Return a free address of each family that a Service has; none if one is missing."""
        chosen = choose_first_free(service, self._spans, taken_addresses)
        free = [ip for ip in chosen if ip is not None]
        is_content = len(free) == len(chosen) or (
            service.spec.ipFamilyPolicy == "PreferDualStack" and free
        )
        return free if is_content else []

    def _handle_event(self, record: WriteRecord) -> None:
        if self.paused or self._busy or record.plural not in {"services", "addressoffers"}:
            return
        self._busy = True
        try:
            self.run()
        finally:
            self._busy = False


def list_offered_entries(tenant: Server) -> list[str]:
    """Return the entries of a tenant's offer; empty if there is none."""
    return [
        entry
        for offer in tenant.all("addressoffers")
        for entry in offer["spec"].get("entries", ())
    ]


def _spans(entries: Iterable[str]) -> Iterable[AddressRange]:
    parsed = (addresstexts.parse_cidr_or_span(entry) for entry in entries)
    return (span for span in parsed if span is not None)
