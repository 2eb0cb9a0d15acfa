"""Finds Services that lost an address because shrink took its range out of the tenant.

Shrink *marks* an allocation whose range is to be released. Before the range leaves the load
balancer, the Services are read. Between that read and the write of the offers, a Service can take
an address of the range. The load balancer then clears the address. The allocation still holds the
range at that time, so its mark can be withdrawn, and the Service gets an address within the next
pass.

No load balancer says which Service lost an address. So a Service counts if it began to wait after
the first read, and if no free address of the tenant can serve it. It counts once for each mark, so
a Service that no range helps does not keep a range for ever.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from allocator import AddressRange
from reconcilers.addressing.addresstexts import parse_cidr_or_span
from reconcilers.api.services import Service
from reconcilers.loadbalancers.port import Offer, ServiceView, ServiceViewer
from reconcilers.tenantcluster.elastic.demand import (
    WORK_OF_SERVICE,
    AddressCounter,
    ReadingTurns,
    could_be_served,
    is_without_address,
    read_addresses,
)
from reconcilers.tenantcluster.record.gate import EarlierWaits

MOST_ENTRIES = 4_096
"""How many ranges of the tenant's offers are searched for free addresses."""


async def find_service_in_need(
    services: Sequence[Service],
    spans: Sequence[AddressRange],
    *,
    mark: str,
    earlier: EarlierWaits,
    offers: Iterable[Offer],
    view_service: ServiceViewer,
) -> Service | None:
    """Return a Service that may have lost an address of a marked range; None if there is none.

    The Services that wait at the first check of a mark are noted in `earlier`.

    Args:
        services: all Services of the tenant.
        spans: the ranges of the marked allocation.
        mark: the value of the annotation that marks it.
        earlier: the memory of the Services that waited at the first check of this mark.
        offers: the addresses that the tenant's load balancer may hand out.
        view_service: returns a Service as the load balancer sees it.
    """
    waiting: list[Service] = []
    addresses: list[AddressRange] = []
    turns = ReadingTurns()
    # All Services are read first: only all their addresses show which others are free.
    for service in services:
        addresses += await read_addresses(service, turns)
        if is_without_address(service):
            waiting.append(service)
    newcomers = earlier.find_newcomers(mark, waiting)
    if not newcomers:
        return None  # a Service that already waited has not lost an address by the mark
    free_elsewhere = _count_free(offers, spans, addresses)
    released = _count_sizes(spans)
    for service in newcomers:
        await turns.count(WORK_OF_SERVICE)
        view = view_service(service)
        # A Service for which the backend is not responsible gets no address of the range.
        if view.keeps_range and (
            _asks_for_range(view, spans)
            or _needs_range(service, view, released=released, free_elsewhere=free_elsewhere)
        ):
            return service
    return None


def _asks_for_range(view: ServiceView, spans: Sequence[AddressRange]) -> bool:
    """Return whether a Service asks for a fixed address that is in a marked range.

    The load balancer gives it no other address, so free addresses elsewhere do not help.
    """
    return any(span.overlaps(address) for span, address in product(spans, view.fixed_addresses))


def _needs_range(
    service: Service,
    view: ServiceView,
    released: Mapping[int, int],
    free_elsewhere: Mapping[int, int],
) -> bool:
    """Return whether the marked ranges could serve a Service, and free addresses elsewhere cannot.

    A Service with an obstacle waits for another reason, so no range helps it.

    Args:
        released: how many addresses the marked ranges have, by family.
        free_elsewhere: how many addresses are free in all other ranges, by family.
    """
    return (
        view.obstacle is None
        and could_be_served(service, released)
        and not could_be_served(service, free_elsewhere)
    )


def _count_free(
    offers: Iterable[Offer], spans: Sequence[AddressRange], addresses: Iterable[AddressRange]
) -> dict[int, int]:
    """Return how many addresses of the offers no Service shows, by family.

    Args:
        offers: the addresses that the load balancer may hand out.
        spans: the marked ranges, which do not count.
        addresses: the addresses that Services show.
    """
    # The number of entries is bounded, of each offer and of all: others in the tenant can write
    # offers of any length.
    entries = [entry for offer in offers for entry in offer.entries[:MOST_ENTRIES]]
    counter = AddressCounter(set(addresses))
    free = {4: 0, 6: 0}
    for entry in entries[:MOST_ENTRIES]:
        span = parse_cidr_or_span(entry)
        if span is not None and not any(map(span.overlaps, spans)):
            free[span.family] += span.size - counter.count_in(span)
    return free


def _count_sizes(spans: Iterable[AddressRange]) -> dict[int, int]:
    """Return how many addresses ranges have, by family."""
    sizes = {4: 0, 6: 0}
    for span in spans:
        sizes[span.family] += span.size
    return sizes
