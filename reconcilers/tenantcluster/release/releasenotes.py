"""Notes on an IPAllocation a fact about its Services that its release needs later.

The Services may be gone by then.

A load balancer may remember a Service that had an address, and act on that memory after the
Service and the range are gone. Then the adapter sets `ServiceView.release_note`. The note is kept
on the IPAllocation, so a restart of this process does not lose it. A Service that is created and
deleted between two passes is not noted.
"""

from collections.abc import Iterable
from itertools import product

from controller.client import Client
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import Service
from reconcilers.loadbalancers.port import ServiceViewer
from reconcilers.tenantcluster.allocations.annotations import annotate
from reconcilers.tenantcluster.elastic.demand import ReadingTurns, read_addresses


async def note_for_release(
    client: Client,
    allocations: Iterable[IPAllocation],
    services: Iterable[Service],
    view_service: ServiceViewer,
) -> None:
    """Note on allocations the release note of a Service that shows one of their addresses.

    An allocation keeps its first note: the notes of all Services of one load balancer are equal.

    Args:
        client: of the management cluster.
        allocations: of load-balancer addresses of one tenant.
        services: of that tenant.
        view_service: returns a Service as the load balancer sees it.

    Raises:
        Conflict: an allocation changed since it was read.
        ControllerError: the management cluster did not answer.
    """
    turns = ReadingTurns()
    without_note = {a.metadata.uid: a for a in allocations if not read_release_note(a)}
    for service in services:
        # Only an annotation gives a Service a release note: most Services are skipped here.
        note = view_service(service).release_note if service.metadata.annotations else ""
        if not note or not without_note:
            continue
        addresses = await read_addresses(service, turns)
        for allocation in list(without_note.values()):
            pairs = product(statusranges.list_held_ranges(allocation), addresses)
            if any(span.contains(address) for span, address in pairs):
                del without_note[allocation.metadata.uid]
                await annotate(client, allocation, {names.ANNOTATION_RELEASE_NOTE: note})


def read_release_note(allocation: IPAllocation) -> str:
    """Return the release note on an allocation; empty if it has none."""
    return allocation.metadata.annotations.get(names.ANNOTATION_RELEASE_NOTE, "")
