"""First-fit: how the stand-ins for load balancers choose addresses for Services."""

from collections.abc import Collection, Iterable

from allocator import AddressRange
from reconcilers.addressing import addresstexts
from reconcilers.api.services import Service

_FAMILY = {"IPv4": 4, "IPv6": 6}


def list_shown_addresses(service: Service) -> list[str]:
    """Return the addresses that the status of a Service shows."""
    return [ingress.ip for ingress in service.status.loadBalancer.ingress if ingress.ip]


def is_in_ranges(spans: Iterable[AddressRange], ip: str) -> bool:
    """Return whether an address is in one of the ranges."""
    address = addresstexts.parse_ends(ip, ip)
    return address is not None and any(span.contains(address) for span in spans)


def choose_first_free(
    service: Service, spans: Collection[AddressRange], taken_addresses: Collection[str]
) -> list[str | None]:
    """Return the first free address of each family of a Service; None if a family has none.

    Args:
        service: the Service; without ipFamilies it is of IPv4.
        spans: the ranges to choose from, in this order.
        taken_addresses: the addresses that are not free.
    """
    families = service.spec.ipFamilies or ("IPv4",)
    return [_find_first_free(_FAMILY[family], spans, taken_addresses) for family in families]


def _find_first_free(
    family: int, spans: Iterable[AddressRange], taken_addresses: Collection[str]
) -> str | None:
    """Return the first address of a family that is not taken; None if there is none."""
    for span in spans:
        if span.family != family:
            continue
        for number in range(span.first, span.last + 1):
            ip = AddressRange(number, number, span.family).start_text
            if ip not in taken_addresses:
                return ip
    return None
