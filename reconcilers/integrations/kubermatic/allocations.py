"""Write IPAMAllocations: create them without addresses, write promised addresses, repair, delete.

A create has no precondition, so an allocation is created without addresses. Addresses are written
only if the journal of the pool promises them to exactly that version of the allocation. So if a
replica freezes and sends its create late, the allocation holds no addresses.

To *void* a promise is to write the allocation once: the promise names the version before that
write, so it can never take effect.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from allocator import AddressRange
from controller.client import Client
from controller.clock import Clock
from controller.errors import (
    AlreadyExists,
    ControllerError,
)
from controller.loggers import get_logger
from controller.meta import OwnerReference, Version
from reconcilers.api import names
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.owners import make_owner_reference, render_owner_reference
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    GROUP,
    JOURNALS,
    POOLS,
    PREFIX,
    Datacenter,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.planning import ClusterGrant
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.fence import Fence
from reconcilers.promises.journal import Promise, PromisedRange
from reconcilers.promises.keeping import Granted, Kept, keep_each, void_each
from reconcilers.promises.refusedwrites import RefusedWrites
from reconcilers.promises.results import WriteResult
from reconcilers.reporting.releaselog import build_holder_fields

_log = get_logger(__name__)

VOIDED = names.ANNOTATION_PROMISES_VOID
"""Annotation: the time of the write that voided all earlier promises to an allocation.

The next write of addresses removes it.
"""


def release_fields(allocation: IPAMAllocation, reason: str) -> dict[str, str]:
    """Return the fields of a log line about the release of an allocation's addresses."""
    spec = allocation.spec
    held_texts = [spec.cidr] if spec.cidr else spec.addresses
    pool = f"IPAMPool {allocation.pool.name}"
    holder = f"IPAMAllocation {allocation.metadata.key}"
    return {
        **build_holder_fields(holder, held_texts, pool=pool, reason=reason),
        "datacenter": spec.dc,
    }


def is_pool_reference(owner: OwnerReference) -> bool:
    """Return whether an owner reference is to an IPAMPool, in any version."""
    return (owner.apiVersion.rpartition("/")[0], owner.kind) == (GROUP, POOLS.kind)


def is_owned(allocation: IPAMAllocation, pool: IPAMPool) -> bool:
    """Return whether a pool owns an allocation, and no other IPAMPool does."""
    owners = [
        reference.uid
        for reference in allocation.metadata.ownerReferences
        if is_pool_reference(reference)
    ]
    return owners == [pool.metadata.uid]


def render_owners_patch(allocation: IPAMAllocation, pool: IPAMPool) -> Mapping[str, Any]:
    """Return the patch that makes a pool the only IPAMPool among an allocation's owners.

    Returns:
        The patch of the metadata; empty if nothing is to be changed.
    """
    if is_owned(allocation, pool):
        return {}
    others = [
        render_owner_reference(reference)
        for reference in allocation.metadata.ownerReferences
        if not is_pool_reference(reference)
    ]
    return {"ownerReferences": [*others, make_owner_reference(pool, POOLS)]}


def render_content(
    allocation: IPAMAllocation,
    name: str,
    datacenter: Datacenter,
    ranges: Sequence[AddressRange],
) -> Mapping[str, Any]:
    """Return the spec that an allocation gets by a promise, as a merge patch.

    Args:
        allocation: at the version that the promise names.
        name: the name of the datacenter.
        datacenter: the settings of the datacenter in the pool.
        ranges: the promised ranges. They replace a prefix, and are added to single addresses of
            the same datacenter.
    """
    spec: dict[str, Any] = {"type": datacenter.type, "dc": name}
    if datacenter.type == PREFIX:
        return {**spec, "cidr": ranges[0].text, "addresses": None}
    kept = allocation.spec.addresses if allocation.spec.dc == name else ()
    added = [f"{span.start_text}-{span.end_text}" for span in ranges]
    return {**spec, "addresses": [*kept, *added], "cidr": None}


def make_promise(grant: ClusterGrant, allocation: IPAMAllocation) -> Promise:
    """Return the promise of a grant's ranges to the present version of an allocation."""
    meta = allocation.metadata
    promised = tuple(PromisedRange(granted, grant.datacenter) for granted in grant.ranges)
    return Promise(
        JOURNALS.kind,
        meta.key,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
        ranges=promised,
    )


def get_datacenter_name(promise: Promise) -> str:
    """Return the name of the datacenter in which all ranges of a promise lie."""
    return promise.ranges[0].space


def may_have_promise(allocation: IPAMAllocation) -> bool:
    """Return whether a promise that was lost with the pool's journal may name this version.

    If so, the allocation has to be written once, so that the promise cannot be kept any more. Also
    a complete allocation may have such a promise: it may have lacked addresses before the spec of
    the pool or the datacenter of the cluster was changed. An allocation that is being deleted has
    none: nothing is promised to it, and its deletion made a version that no earlier promise names.
    """
    return not allocation.metadata.is_terminating


class Allocations:
    """Writes IPAMAllocations.

    Args:
        client: for the writes.
        clock: the time.
        settings: how much is done at once, and when a refused write is tried again.
    """

    def __init__(self, client: Client, clock: Clock, settings: PoolSettings) -> None:
        self._client = client
        self._clock = clock
        self._width = settings.width
        self._refused = RefusedWrites(clock, settings.resync)
        self.fence = Fence(
            client,
            ALLOCATIONS,
            may_have_promise=may_have_promise,
            void=self._void,
            width=settings.width,
        )
        """Voids promises that a pool made before it was read."""

    async def create_missing(
        self, grants: Sequence[ClusterGrant], pool: IPAMPool
    ) -> tuple[
        list[tuple[ClusterGrant, IPAMAllocation]], list[tuple[ClusterGrant, ControllerError]]
    ]:
        """Create the missing allocations of the clusters of grants, without addresses.

        Returns:
            Two lists: the grants with their allocations, existing or created, and the grants whose
            allocation could not be created, with the error. A grant whose allocation another
            client has just created is in neither.
        """
        created: list[tuple[ClusterGrant, IPAMAllocation]] = []
        failed: list[tuple[ClusterGrant, ControllerError]] = []

        async def create_allocation(grant: ClusterGrant) -> None:
            """Create the allocation of a grant if it has none; note the result."""
            if grant.allocation is not None:
                created.append((grant, grant.allocation))
                return
            kind = pool.spec.datacenters[grant.datacenter].type
            body = {
                "metadata": {
                    "name": pool.metadata.name,
                    "ownerReferences": [make_owner_reference(pool, POOLS)],
                },
                "spec": {"type": kind, "dc": grant.datacenter},
            }
            try:
                allocation = await self._client.create(ALLOCATIONS, grant.cluster.namespace, body)
            except AlreadyExists:
                return  # created by another replica or by hand; its event leads to the next pass
            except ControllerError as error:
                failed.append((grant, error))
            else:
                created.append((grant, allocation))

        await run_concurrently(
            [partial(create_allocation, grant) for grant in grants], self._width
        )
        return created, failed

    async def keep(
        self, granted: Sequence[Granted[IPAMAllocation]], pool: IPAMPool
    ) -> list[Kept[IPAMAllocation]]:
        """Write promised addresses to allocations; return the outcome of each write."""

        async def write(promise: Promise, allocation: IPAMAllocation) -> None:
            """Write the ranges of a promise to its allocation."""
            # The cluster's own datacenter may be another one by now: it may have moved since the
            # promise was made, or the cache may be behind.
            datacenter = get_datacenter_name(promise)
            promised = promise.list_ranges_in_space(datacenter)
            spec = render_content(
                allocation,
                datacenter,
                datacenter=pool.spec.datacenters[datacenter],
                ranges=promised,
            )
            metadata = {**render_owners_patch(allocation, pool), "annotations": {VOIDED: None}}
            # Most allocations do not have the annotation; their patch does not mention it.
            if VOIDED not in allocation.metadata.annotations:
                del metadata["annotations"]
            patch = {"metadata": metadata, "spec": spec}
            await self._client.patch(ALLOCATIONS, Version.from_object(allocation), patch)

        return await keep_each(granted, write, self._width)

    async def repair(self, repairs: Sequence[tuple[IPAMAllocation, str]], pool: IPAMPool) -> None:
        """Correct the type and the owner of allocations that have their addresses.

        A write that the API server rejects is tried again at the next resync.

        Args:
            repairs: the allocations to correct, each with its right type.
        """

        async def repair_allocation(allocation: IPAMAllocation, kind: str) -> None:
            """Correct the type and the owner of an allocation."""
            patch: dict[str, Any] = {}
            if owners := render_owners_patch(allocation, pool):
                patch["metadata"] = owners
            if allocation.spec.type != kind:
                patch["spec"] = {"type": kind}
            if patch:
                version = Version.from_object(allocation)
                await self._refused.attempt(
                    allocation.metadata, lambda: self._client.patch(ALLOCATIONS, version, patch)
                )

        await run_concurrently(
            [
                partial(repair_allocation, *allocation_with_type)
                for allocation_with_type in repairs
            ],
            self._width,
        )

    async def void_refused(self, refused: Sequence[Kept[IPAMAllocation]]) -> list[WriteResult]:
        """Void promises whose write the API server rejected for good; return the results."""
        return await void_each(refused, lambda entry: self._void(entry.request), self._width)

    async def _void(self, allocation: IPAMAllocation) -> IPAMAllocation:
        """Write an allocation once, so that no promise to its present version can be kept."""
        patch = {"metadata": {"annotations": {VOIDED: self._clock.now().isoformat()}}}
        return await self._client.patch(ALLOCATIONS, Version.from_object(allocation), patch)

    async def delete(self, allocations: Sequence[IPAMAllocation], reason: str) -> None:
        """Delete allocations if they still have the version that was read.

        A delete that the API server rejects is tried again at the next resync.

        Args:
            reason: why the addresses are released, for the log.
        """

        async def delete_allocation(allocation: IPAMAllocation) -> None:
            """Delete an allocation, unless a delete was rejected a short time ago."""

            async def log_and_delete() -> None:
                """Log the release and send the delete."""
                _log.info("releasing IPAMAllocation", **release_fields(allocation, reason))
                await self._client.delete(ALLOCATIONS, Version.from_object(allocation))

            await self._refused.attempt(allocation.metadata, log_and_delete)

        await run_concurrently(
            [partial(delete_allocation, allocation) for allocation in allocations], self._width
        )

    def seconds_until_retry(self, allocations: Iterable[IPAMAllocation]) -> float | None:
        """Return the seconds until the first rejected write of these allocations is retried.

        None if none of them had a write that was rejected.
        """
        return self._refused.next_in(allocation.metadata for allocation in allocations)
