"""The addresses that Services show, and the order in which Services are served."""

from collections.abc import Iterable

from allocator import AddressRange, AllocatorError
from reconcilers.api.services import Service


def read_status_addresses(service: Service) -> tuple[str, ...]:
    """Return the addresses that a Service's status shows."""
    return tuple(ingress.ip for ingress in service.status.loadBalancer.ingress if ingress.ip)


def build_age_key(service: Service) -> tuple[str, str]:
    """Return a sort key of a Service: the oldest first."""
    created = service.metadata.creationTimestamp
    return (created.isoformat() if created else "", str(service.metadata.key))


def parse_addresses(texts: Iterable[str]) -> list[AddressRange]:
    """Return addresses as ranges of one; empty if any of the texts cannot be parsed."""
    try:
        return [AddressRange.parse(address, address) for address in texts]
    except AllocatorError:
        return []
