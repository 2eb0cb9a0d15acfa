"""A tenant's requests are created, and moved to another pool where theirs cannot serve them.

An allocation's spec cannot be changed, so moving is deleting and asking again. The age that gives
the request its place in the queue would be lost if the process died in between; so it is written
on the TenantCluster first, by the allocation's name, and removed once the new one carries it.
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
from reconcilers.tenantcluster.allocations.membership import members
from reconcilers.tenantcluster.allocations.poolchoice import PoolChoice
from reconcilers.tenantcluster.allocations.refusals import RequestRefusal
from reconcilers.tenantcluster.allocations.requests import (
    AllocationState,
    NewAllocation,
    RequestPlanner,
    RequiredAllocation,
    count_in_any_pool,
    groups,
)
from reconcilers.tenantcluster.current_cluster import CurrentCluster

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Moving:
    """A request that is moved to another pool.

    Args:
        since: when it was first made.
        leaving: the uid of the allocation that is deleted for it.
    """

    since: str
    leaving: str


def moving(tenant: TenantCluster) -> dict[str, Moving]:
    """Return the requests that are moving, by the name of their allocation.

    An annotation that cannot be parsed names none.
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
    """Note on the cluster when `failed` was requested.

    Raises:
        Conflict: the cluster changed since it was read.
    """
    noted = moving(current.tenant)
    entry = Moving(failed.requested_at.isoformat(), failed.metadata.uid)
    if noted.get(failed.metadata.name) == entry:
        return
    await _write(current, noted | {failed.metadata.name: entry})


async def remove_moved(
    current: CurrentCluster, allocations: Cache[IPAllocation], namespace: str
) -> None:
    """Remove the notes whose new allocation exists.

    Raises:
        Conflict: the cluster changed since it was read.
    """
    noted = moving(current.tenant)
    remaining = {
        name: entry
        for name, entry in noted.items()
        if not _is_recreated(entry, allocations.get(Key(namespace, name)))
    }
    if remaining != noted:
        await _write(current, remaining)


def _is_recreated(entry: Moving, allocation: IPAllocation | None) -> bool:
    return allocation is not None and allocation.metadata.uid != entry.leaving


async def _write(current: CurrentCluster, noted: Mapping[str, Moving]) -> None:
    annotation = msgspec.json.encode(noted).decode() if noted else None
    await current.annotate({names.ANNOTATION_MOVING: annotation})


class Requester:
    """Creates the allocations of tenants.

    Args:
        client: the management cluster.
        allocations: what is there already.
        choice: chooses pools.
        metrics: counts growth.
        recorder: takes an event when node addresses have to be asked for again.
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
        """Return the allocations that `tenant` should have; see RequestPlanner."""
        return self._planner.list_required(tenant, provider, backfill_nodes)

    async def request(
        self,
        current: CurrentCluster,
        provider: ProviderConfig,
        required: Sequence[RequiredAllocation],
    ) -> list[AllocationState]:
        """Create the allocations that are missing; return the state of each.

        Raises:
            Conflict: the cache is behind; the pass ends, and begins again once it has caught up.
            ControllerError: a create or delete failed.
        """
        for request in required:
            if request.existing is None:
                continue
            if request.kind == names.TYPE_NODES and request.existing.metadata.terminating:
                await self._replace(current.tenant, request.existing)
            else:
                await self._move_if_stuck(
                    current, provider, count=request.count, existing=request.existing
                )
        missing = [request for request in required if request.existing is None]
        created = [
            state
            for group in groups(current.tenant, missing)
            for state in await self._create_all(current.tenant, provider, group)
        ]
        await remove_moved(current, self._allocations, provider.metadata.namespace)
        created_by_kind = {state.kind: state for state in created}
        return [
            created_by_kind.get(request.kind) or AllocationState(request.kind, request.existing)
            for request in required
        ]

    async def withdraw(self, tenant: TenantCluster) -> None:
        """Delete the tenant's requests that hold no range: it is served in another way now.

        Pinned ones stay, as a person made them.

        Raises:
            Conflict: one changed since it was read; begin again.
            ControllerError: a delete failed.
        """
        for allocation in members(self._allocations, tenant):
            idle = (
                statusranges.find_held_range(allocation) is None and not allocation.spec.is_pinned
            )
            if idle and not allocation.metadata.terminating:
                _log.info(
                    "request withdrawn", **release_fields(allocation, "the mode is not ipam")
                )
                await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))

    async def grow(
        self, tenant: TenantCluster, provider: ProviderConfig, number: int, count: int
    ) -> int:
        """Create up to `number` growth allocations; return how many pools had room for.

        Args:
            number: how many allocations.
            count: how many addresses each asks for.

        Raises:
            Conflict: the cache is behind; the pass ends, and begins again once it has caught up.
            ControllerError: a create failed.
        """
        for number_created in range(number):
            new = self._planner.growth(tenant, provider, count)
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

    def families_of_growth(self, tenant: TenantCluster, provider: ProviderConfig) -> set[Family]:
        """Return of which families a growth allocation would bring addresses; none if it waits."""
        return self._planner.families_of_growth(tenant, provider)

    def growth_refusal(
        self, tenant: TenantCluster, provider: ProviderConfig, count: int
    ) -> RequestRefusal:
        """Return why no pool serves one more growth allocation of `count` addresses."""
        return self._planner.growth_refusal(tenant, provider, count)

    async def move_growth(
        self, current: CurrentCluster, provider: ProviderConfig, grown: Iterable[IPAllocation]
    ) -> frozenset[str]:
        """Delete growth requests that are stuck and that another pool fits now.

        Returns:
            The uids of the deleted requests.

        Raises:
            Conflict: one changed, or the cluster did.
            ControllerError: a write failed.
        """
        increment = provider.spec.networking.sizing.growthIncrement
        moved = set()
        for allocation in grown:
            count = count_in_any_pool(allocation.spec.count or increment)
            if await self._move_if_stuck(current, provider, count=count, existing=allocation):
                moved.add(allocation.metadata.uid)
        return frozenset(moved)

    def is_stuck(self, request: IPAllocation) -> bool:
        """Return whether the pool of a request refused it, or does not serve any."""
        if not statusranges.waits_for_range(request):
            return False
        return request.status.phase == FAILED or not self._choice.serves(request.pool_key)

    async def _create_all(
        self, tenant: TenantCluster, provider: ProviderConfig, group: Sequence[RequiredAllocation]
    ) -> list[AllocationState]:
        """Create the allocations of a group if there is room for every one of them.

        Their addresses are kept from other choices until the cache shows the allocations.
        """
        with ExitStack() as reserved:
            planned = self._planner.new_allocations(
                tenant, provider, group=group, reserved=reserved
            )
            if isinstance(planned, RequestRefusal):
                return self._planner.states_of_refused(provider, group, planned)
            return [
                AllocationState(required.kind, await self._create(tenant, new))
                for required, new in zip(group, planned, strict=True)
            ]

    async def _create(self, tenant: TenantCluster, new: NewAllocation) -> IPAllocation:
        """Create an allocation; one that was moved keeps the time of its first request."""
        moved = moving(tenant).get(new.name)
        if moved is not None:
            new = new.requested_at(moved.since)
        try:
            created = await self._client.create(IP_ALLOCATION, new.namespace, new.body)
        except AlreadyExists:
            _log.info("allocation exists, waiting for the cache to show it", allocation=new.name)
            raise
        type_name = "LB" if created.spec.type == names.TYPE_LOADBALANCER else "node"
        pool = new.pool.metadata.name
        _log.info(f"created {type_name} IPAllocation", allocation=new.name, pool=pool)
        return created

    async def _replace(self, tenant: TenantCluster, deleted: IPAllocation) -> None:
        """Ask again for the range of a deleted allocation of nodes: the machines live on.

        The deleted one keeps the range until the new one is the first in the pool's queue for it.

        Raises:
            Conflict: it was asked for, and the cache does not show that yet.
            ControllerError: the create failed.
        """
        span = statusranges.find_held_range(deleted)
        if span is None:
            return
        body = self._planner.successor(tenant, deleted)
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

    async def _move_if_stuck(
        self,
        current: CurrentCluster,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        existing: IPAllocation,
    ) -> bool:
        """Delete a request of ours that is stuck if another pool fits it now.

        Returns:
            Whether it was deleted.
        """
        if not self.is_stuck(existing):
            return False
        if not self._planner.should_move(current.tenant, provider, count=count, failed=existing):
            return False
        fields = release_fields(existing, "another pool has room for it now")
        _log.info("request withdrawn", **fields)
        await note_moving(current, existing)
        await self._client.delete(IP_ALLOCATION, Version.from_object(existing))
        return True
