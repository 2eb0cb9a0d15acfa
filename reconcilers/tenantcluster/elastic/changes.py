"""Carries out a change of a tenant's size on the management cluster.

Each write has its precondition, so a decision on old data ends in a conflict, and the next pass
decides again.

A *mark* on an allocation says that its range is to be released. *Disuse* is the time in which no
Service used a range. A *stuck* request is one that its pool cannot serve.
"""

from collections.abc import Iterable

from controller.client import Client
from controller.conditions import format_rfc3339
from controller.loggers import get_logger
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.reporting.releaselog import release_fields
from reconcilers.tenantcluster.allocations.annotations import annotate
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.elastic.decisions import Created, SizeChange, SizeFacts

_log = get_logger(__name__)


async def carry_out(
    change: SizeChange,
    facts: SizeFacts,
    *,
    current: CurrentCluster,
    provider: ProviderConfig,
    client: Client,
    requester: Requester,
) -> Created:
    """Carry out a change of a tenant's size.

    The order matters if the pass ends in between. Marks are withdrawn first, because a range that
    stays may make a new one unnecessary. The Services that growth did not help are noted before
    their range is marked; otherwise the next pass would grow for them again.

    Args:
        change: the decision.
        facts: what it was decided from.
        client: the management cluster.
        requester: creates growth, and deletes stuck growth.

    Returns:
        How many allocations were created, and why no more, if a pool had no room.

    Raises:
        Conflict: something changed since it was read; begin again.
        ControllerError: the management cluster did not answer.
    """
    await withdraw_marks(client, change.marks_to_withdraw)
    number = await requester.grow(
        current.tenant, provider, number=change.growth_number, count=change.addresses
    )
    growth = [part.allocation for part in facts.ranges if part.is_growth]
    deleted_uids: frozenset[str] = frozenset()
    if change.should_move:
        deleted_uids = await requester.delete_stuck_growth(current, provider, growth)
    for disuse in change.disuse_notes:
        if disuse.allocation.metadata.uid not in deleted_uids:
            await annotate(client, disuse.allocation, {names.ANNOTATION_IDLE_SINCE: disuse.since})
    if change.new_unserved is not None:
        note = {names.ANNOTATION_GROWN_IN_VAIN: change.new_unserved.annotation}
        await current.annotate(note)
    for mark in change.new_marks:
        if mark.allocation.metadata.uid in deleted_uids:
            continue  # the request was deleted above
        fields = release_fields(mark.allocation, mark.reason)
        _log.info("elastic IPAM: shrinking unused allocation", **fields)
        await annotate(
            client, mark.allocation, {names.ANNOTATION_RELEASING: format_rfc3339(change.time)}
        )
    # A stuck request that no other pool fits is reported like growth that was not created.
    is_stuck = change.should_move and any(
        part.is_stuck and part.uid not in deleted_uids for part in facts.ranges if part.is_growth
    )
    if not is_stuck and number == change.growth_number:
        return Created(number)  # nothing is refused
    refusal = requester.find_growth_refusal(current.tenant, provider, change.addresses)
    return Created(number, is_stuck=is_stuck, refusal=refusal.sentence)


async def withdraw_marks(client: Client, marked: Iterable[IPAllocation]) -> None:
    """Remove the marks, and the noted times of disuse, of allocations that Services need again.

    Raises:
        Conflict: an allocation changed since it was read; begin again.
        ControllerError: the management cluster did not answer.
    """
    for allocation in marked:
        fields = release_fields(allocation, "Services need addresses")
        _log.info("elastic IPAM: shrink withdrawn", **fields)
        marks = {names.ANNOTATION_RELEASING: None, names.ANNOTATION_IDLE_SINCE: None}
        await annotate(client, allocation, marks)
