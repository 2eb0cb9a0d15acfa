"""Creates a tenant's requests, and moves a request to another pool if its pool cannot serve it.

A request is an allocation without a range. An allocation's spec cannot be changed, so a move
deletes the request in one pass and creates it for another pool in a later one. The request's age
decides its turn, and would be lost in between if the process died. So the age is first noted on
the TenantCluster, by the allocation's name. The note is removed when the new allocation exists,
which carries the age itself.

A request is *stuck* if its pool rejected it, is gone, or is being deleted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

import msgspec

from allocator import Family
from controller.cache import Cache
from controller.client import Client
from controller.errors import AlreadyExists
from controller.events import Recorder
from controller.loggers import get_logger
from controller.meta import Key, Version
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.metrics.counters import IpamMetrics
from reconcilers.reporting.releaselog import release_fields
from reconcilers.tenantcluster.allocations.membership import list_members
from reconcilers.tenantcluster.allocations.poolchoice import PoolChoice
from reconcilers.tenantcluster.allocations.refusals import RequestRefusal
from reconcilers.tenantcluster.allocations.requests import (
    AllocationState,
    NewAllocation,
    RequestPlanner,
    RequiredAllocation,
    group_missing,
    make_constant_count,
)
from reconcilers.tenantcluster.current_cluster import CurrentCluster

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Moving:
    """A request that is moved to another pool.

    Args:
        since: when the request was first made, in RFC 3339.
        leaving: the uid of the allocation that is deleted for the move.
    """

    since: str
    leaving: str


def parse_moving(tenant: TenantCluster) -> dict[str, Moving]:
    """Return the requests that are moving, by the name of their allocation.

    Empty if the annotation cannot be parsed: then requests lose their age, and nothing else.
    """
    noted = tenant.metadata.annotations.get(names.ANNOTATION_MOVING, "{}")
    try:
        return {
            name: request
            for name, request in msgspec.json.decode(noted, type=dict[str, Moving]).items()
            if datetime.fromisoformat(request.since).tzinfo is not None
        }
    except (msgspec.MsgspecError, ValueError):
        return {}


async def note_moving(current: CurrentCluster, failed: IPAllocation) -> None:
    """Note on the cluster when a stuck request was first made, unless the note is there already.

    Args:
        failed: the stuck request, which is about to be deleted for the move.

    Raises:
        Conflict: the cluster changed since it was read.
    """
    requests = parse_moving(current.tenant)
    entry = Moving(failed.requested_at.isoformat(), failed.metadata.uid)
    if requests.get(failed.metadata.name) == entry:
        return
    await _write_notes(current, requests | {failed.metadata.name: entry})


async def remove_moving_notes(
    current: CurrentCluster, allocations: Cache[IPAllocation], namespace: str
) -> None:
    """Remove the notes of requests whose new allocation exists: it carries the age itself.

    Args:
        allocations: all allocations.
        namespace: the namespace of the new allocations.

    Raises:
        Conflict: the cluster changed since it was read.
    """
    requests = parse_moving(current.tenant)
    remaining = {
        name: entry
        for name, entry in requests.items()
        if not _is_recreated(entry, allocations.get(Key(namespace, name)))
    }
    if remaining != requests:
        await _write_notes(current, remaining)


def _is_recreated(entry: Moving, allocation: IPAllocation | None) -> bool:
    """Return whether `allocation` is the new allocation of a moved request, not the deleted one.

    Args:
        entry: the note of the move.
        allocation: the allocation that has the name of the request now; None if there is none.
    """
    return allocation is not None and allocation.metadata.uid != entry.leaving


async def _write_notes(current: CurrentCluster, requests: Mapping[str, Moving]) -> None:
    """Write the moving requests to the cluster's annotation; remove it if there are none."""
    annotation = msgspec.json.encode(requests).decode() if requests else None
    await current.annotate({names.ANNOTATION_MOVING: annotation})


class Requester:
    """Creates the allocations of tenants.

    Args:
        client: the management cluster.
        allocations: all allocations.
        choice: chooses pools.
        metrics: counts growth.
        recorder: takes an event when a deleted allocation of nodes is requested again.
    """

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        choice: PoolChoice,
        metrics: IpamMetrics,
        recorder: Recorder,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._choice = choice
        self._metrics = metrics
        self._recorder = recorder
        self._planner = RequestPlanner(allocations, choice)

    def list_required(
        self, tenant: TenantCluster, provider: ProviderConfig, backfill_nodes: bool
    ) -> list[RequiredAllocation]:
        """Return the allocations that `tenant` should have.

        Args:
            backfill_nodes: whether a Ready cluster that never had node addresses gets some.
        """
        return self._planner.list_required(tenant, provider, backfill_nodes)

    async def request_missing(
        self,
        current: CurrentCluster,
        provider: ProviderConfig,
        required: Sequence[RequiredAllocation],
    ) -> list[AllocationState]:
        """Create missing allocations; delete stuck ones; return the state of each required one.

        Raises:
            Conflict: the cache is behind; the pass ends, and begins again once it has caught up.
            ControllerError: a create or delete failed.
        """
        for request in required:
            if request.existing is None:
                continue  # created below, group by group
            if request.kind == names.TYPE_NODES and request.existing.metadata.is_terminating:
                # The machines live on with these addresses, so the range must stay the cluster's.
                await self._request_successor(current.tenant, request.existing)
            else:
                await self._delete_if_stuck(
                    current, provider, count=request.count, existing=request.existing
                )
        missing = [request for request in required if request.existing is None]
        created = [
            state
            for group in group_missing(current.tenant, missing)
            for state in await self._create_all(current.tenant, provider, group)
        ]
        await remove_moving_notes(current, self._allocations, provider.metadata.namespace)
        created_by_kind = {state.kind: state for state in created}
        return [
            created_by_kind.get(request.kind) or AllocationState(request.kind, request.existing)
            for request in required
        ]

    async def withdraw_requests(self, tenant: TenantCluster) -> None:
        """Delete the requests of a tenant in cloud mode, where it needs no addresses of ours.

        Pinned requests stay, because a person created them.

        Raises:
            Conflict: a request changed since it was read; begin again.
            ControllerError: a delete failed.
        """
        for allocation in list_members(self._allocations, tenant):
            is_request = statusranges.find_held_range(allocation) is None
            is_ours = not allocation.spec.is_pinned
            if is_request and is_ours and not allocation.metadata.is_terminating:
                _log.info(
                    "request withdrawn", **release_fields(allocation, "the mode is not ipam")
                )
                await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))

    async def grow(
        self, tenant: TenantCluster, provider: ProviderConfig, number: int, count: int
    ) -> int:
        """Create up to `number` growth allocations; return how many were created.

        It ends early when no pool has room for one more.

        Args:
            number: how many allocations.
            count: how many addresses each asks for.

        Raises:
            Conflict: the cache is behind; the pass ends, and begins again once it has caught up.
            ControllerError: a create failed.
        """
        for number_created in range(number):
            new = self._planner.plan_growth(tenant, provider, count)
            if new is None:
                return number_created
            with self._choice.keep_free(new.pool, new.count, tenant.networking):
                created = await self._create(tenant, new)
            self._metrics.count_grown(created.pool_key)
            _log.info(
                "elastic IPAM: created growth allocation",
                allocation=created.metadata.name,
                pool=created.spec.poolRef.name,
                count=new.count,
            )
        return number

    def find_growth_families(self, tenant: TenantCluster, provider: ProviderConfig) -> set[Family]:
        """Return the families of addresses that growth would add now; empty if no pool fits."""
        return self._planner.find_growth_families(tenant, provider)

    def find_growth_refusal(
        self, tenant: TenantCluster, provider: ProviderConfig, count: int
    ) -> RequestRefusal:
        """Return why no pool serves one more growth allocation of `count` addresses."""
        return self._planner.find_growth_refusal(tenant, provider, count)

    async def delete_stuck_growth(
        self, current: CurrentCluster, provider: ProviderConfig, grown: Iterable[IPAllocation]
    ) -> frozenset[str]:
        """Delete stuck growth requests that another pool fits now.

        If Services still wait, a later pass creates another request, in the pool that fits.

        Args:
            grown: the growth allocations of the cluster.

        Returns:
            The uids of the deleted requests.

        Raises:
            Conflict: a request or the cluster changed since it was read; begin again.
            ControllerError: a write failed.
        """
        increment = provider.spec.networking.sizing.growthIncrement
        deleted_uids = set()
        for allocation in grown:
            # Growth always sets a count. A request without one was created by a person.
            count = make_constant_count(allocation.spec.count or increment)
            if await self._delete_if_stuck(current, provider, count=count, existing=allocation):
                deleted_uids.add(allocation.metadata.uid)
        return frozenset(deleted_uids)

    def is_stuck(self, request: IPAllocation) -> bool:
        """Return whether a request has failed, or its pool is gone or being deleted.

        False for an allocation that holds a range: it is no request.
        """
        if not statusranges.waits_for_range(request):
            return False
        return request.status.phase == FAILED or not self._choice.may_serve(request.pool_key)

    async def _create_all(
        self, tenant: TenantCluster, provider: ProviderConfig, group: Sequence[RequiredAllocation]
    ) -> list[AllocationState]:
        """Create the allocations of a group if all have room; return their states.

        Until all are created, their addresses are kept from other choices of pools. After that the
        cache shows the allocations, and each choice counts them.
        """
        with ExitStack() as reserved:
            planned = self._planner.plan_group(tenant, provider, group=group, reserved=reserved)
            if isinstance(planned, RequestRefusal):
                return self._planner.make_refused_states(provider, group, planned)
            return [
                AllocationState(required.kind, await self._create(tenant, new))
                for required, new in zip(group, planned, strict=True)
            ]

    async def _create(self, tenant: TenantCluster, new: NewAllocation) -> IPAllocation:
        """Create an allocation; a request that is moved keeps the time when it was first made.

        Raises:
            AlreadyExists: the cache is behind; the pass begins again.
        """
        moving = parse_moving(tenant).get(new.name)
        if moving is not None:
            new = new.copy_with_request_time(moving.since)
        try:
            created = await self._client.create(IP_ALLOCATION, new.namespace, new.body)
        except AlreadyExists:
            _log.info("allocation exists, waiting for the cache to show it", allocation=new.name)
            raise
        type_name = "LB" if created.spec.type == names.TYPE_LOADBALANCER else "node"
        pool = new.pool.metadata.name
        _log.info(f"created {type_name} IPAllocation", allocation=new.name, pool=pool)
        return created

    async def _request_successor(self, tenant: TenantCluster, deleted: IPAllocation) -> None:
        """Request the range of a deleted allocation of nodes again: the machines live on.

        The release check lets the deleted allocation go only when its successor gets the range
        next. Nothing is requested if the deleted allocation holds no range.

        Raises:
            Conflict: the successor exists, and the cache does not show it yet.
            ControllerError: the create failed.
        """
        span = statusranges.find_held_range(deleted)
        if span is None:
            return  # there is no range to keep; a later pass creates a new allocation
        body = self._planner.build_successor(tenant, deleted)
        created = await self._client.create(IP_ALLOCATION, deleted.metadata.namespace, body)
        self._recorder.record(
            TENANT_CLUSTER,
            tenant,
            "Warning",
            "NodeAddressesDeleted",
            f"IPAllocation {deleted.metadata.name} was deleted, and the machines are there: asking"
            f" for {span.start_text}-{span.end_text} again as {created.metadata.name}",
            action="Reconcile",
            related=(IP_ALLOCATION, created),
        )

    async def _delete_if_stuck(
        self,
        current: CurrentCluster,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        existing: IPAllocation,
    ) -> bool:
        """Delete a stuck request of ours if another pool fits it now; return whether it did.

        The next pass creates it in that pool.
        """
        if not self.is_stuck(existing):
            return False
        if not self._planner.should_move(current.tenant, provider, count=count, stuck=existing):
            return False
        fields = release_fields(existing, "another pool has room for it now")
        _log.info("request withdrawn", **fields)
        # Before the deletion: a process that dies in between must not lose the request's age.
        await note_moving(current, existing)
        await self._client.delete(IP_ALLOCATION, Version.from_object(existing))
        return True
