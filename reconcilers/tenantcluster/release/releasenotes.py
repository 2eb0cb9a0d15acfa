"""What the release of a range has to know of Services that may be gone by then.

A load balancer may remember a Service that had an address, and act on that after the Service and
the range are gone. The adapter says so in `ServiceView.release_note`. The note is kept on the
IPAllocation, so a restart of ours does not lose it. A Service that comes and goes between two
looks is not noted.
"""

from collections.abc import Iterable
from itertools import product

from controller.client import Client
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import Service
from reconcilers.loadbalancers.port import Serves
from reconcilers.tenantcluster.allocations.annotations import annotate
from reconcilers.tenantcluster.elastic.demand import ReadingTurns, read_addresses


async def note_for_release(
    client: Client,
    allocations: Iterable[IPAllocation],
    services: Iterable[Service],
    serves: Serves,
) -> None:
    """Note on allocations what their release has to know of the Services that use them.

    Args:
        client: of the management cluster.
        allocations: of load-balancer addresses of one tenant.
        services: of that tenant.
        serves: returns a Service as the load balancer sees it.

    Raises:
        Conflict: an allocation changed since it was read.
        ControllerError: the management cluster did not answer.
    """
    turns, without_note = (
        ReadingTurns(),
        {a.metadata.uid: a for a in allocations if not release_note(a)},
    )
    for service in services:
        note = serves(service).release_note if service.metadata.annotations else ""
        if not note or not without_note:
            continue
        addresses = await read_addresses(service, turns)
        for allocation in list(without_note.values()):
            pairs = product(statusranges.list_held_ranges(allocation), addresses)
            if any(span.contains(address) for span, address in pairs):
                del without_note[allocation.metadata.uid]
                await annotate(client, allocation, {names.ANNOTATION_RELEASE_NOTE: note})


def release_note(allocation: IPAllocation) -> str:
    """Return the note on an allocation about its release; empty if there is none."""
    return allocation.metadata.annotations.get(names.ANNOTATION_RELEASE_NOTE, "")
