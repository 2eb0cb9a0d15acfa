"""Writes the pools of a tenant, so that a late write does no harm.

A *projection* is the set of ranges that the tenant should hold. Each IPAllocation has a pool of
its own. An annotation of the pool carries its *basis*: the position of the cache that the pool was
computed from. A projection reads all pools live. It gives up if a pool that it would write has a
newer basis, and it writes with the pool's resourceVersion.

A missing pool carries no basis. So it is created without blocks, which has no effect; then the
ranges are confirmed live; then they are filled in. The pools of allocations that are being
released belong to the release check (release.py). A pool without an allocation is a *leftover*: it
is emptied, and deleted once the operator has acknowledged the empty pool.

The release check begins when no Service shows an address of the allocation. If an allocation is
deleted while Services show its addresses, the Services lose them. Its pool is disabled; once the
operator has acknowledged the disabled pool, the pool is emptied. It is not emptied while one of
these Services has a sharing key: the operator would remember the address for that key. The same
happens if an allocation moves to another load balancer.

An edit by others is undone in both kinds of pools, ever less often if they repeat it
(corrections.py).

A pool that is right, but not acknowledged for a while, gets a nonce (nonces.py). Without a nonce,
the operator would never acknowledge a pool that others edited, and that was written back before
the operator read the edit.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator import AddressRange
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.api.services import Service
from reconcilers.api.tenantaddons import ServiceSelector
from reconcilers.loadbalancers.cilium.nonces import NoncePause
from reconcilers.loadbalancers.cilium.poolclient import PoolClient
from reconcilers.loadbalancers.cilium.pools import (
    CILIUM_POOL,
    CiliumPool,
    choose_nonce,
    is_acknowledged,
    is_ours,
    make_annotations,
    make_blocks,
    make_offer,
    make_pool_name,
    read_allocation_uid,
    read_basis,
)
from reconcilers.loadbalancers.cilium.services import find_sharing_key, list_shown_addresses
from reconcilers.loadbalancers.corrections import Corrections, describe_edit
from reconcilers.loadbalancers.port import (
    BEHIND,
    BalancerBlocked,
    Confirm,
    Offer,
    Permit,
    ProjectedRanges,
    Projection,
)

ListServices = Callable[[], Awaitable[Sequence[Service]]]


@dataclass(frozen=True, slots=True)
class IntendedPool:
    """The contents that a pool should have.

    Args:
        entries: the ranges, each `start-end`.
        selector: which Services the pool serves; None for all Services.
        is_disabled: whether Cilium gives no further addresses of the pool.
    """

    entries: tuple[str, ...]
    selector: ServiceSelector | None
    is_disabled: bool = False


class CiliumKeptState(Corrections):
    """The pools that this process keeps in one tenant, and its corrections there.

    Attributes:
        written: the contents of each pool when it was last as intended, by name. A difference from
            the same intended contents is an edit by others.
        pauses: the pause before the next nonce, for pools without an acknowledgement, by name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, IntendedPool] = {}
        self.pauses: dict[str, NoncePause] = {}

    def forget_pauses(self, pools: Mapping[str, CiliumPool]) -> None:
        """Forget the pauses of pools that are acknowledged, or gone.

        Args:
            pools: of the tenant, by name.
        """
        for name in list(self.pauses):
            if name not in pools or is_acknowledged(pools[name]):
                del self.pauses[name]

    def take_due_nonce(self, pool: CiliumPool, now: float) -> bool:
        """Return whether a nonce is due, because a pool was not acknowledged for too long.

        The caller then writes it: with the answer True, the pause before the next nonce begins.

        Args:
            pool: the pool by a live read.
            now: monotonic seconds.
        """
        if is_acknowledged(pool):
            return False
        return self.pauses.setdefault(pool.metadata.name, NoncePause()).end_if_due(pool, now)


class PoolProjection:
    """Writes the pools of one tenant.

    Args:
        pools: reads and writes the pools of the tenant.
        list_services: reads all Services of the tenant live.
        kept_state: the memory of our pools there, which shows edits by others.
        now: monotonic seconds.
    """

    def __init__(
        self,
        pools: PoolClient,
        list_services: ListServices,
        kept_state: CiliumKeptState,
        now: float,
    ) -> None:
        self._pools = pools
        self._list_services = list_services
        self._kept_state = kept_state
        self._now = now

    async def project(self, projection: Projection, confirm: Confirm, permit: Permit) -> None:
        """Make the tenant hold the ranges of `projection`, writing only what differs.

        Each allocation has a pool. Pools of allocations that are being released are left to the
        release check; but Services lose the addresses of `projection.evicting` here. Other pools
        of ours are leftovers, and are removed.

        Args:
            projection: from the cache.
            confirm: reads the projection live from the management cluster, before empty pools are
                given their ranges.
            permit: raises BalancerBlocked if a pool that is there must not be written.

        Raises:
            BalancerBlocked: the kind is not served, a pool is not ours, or a newer view has
                written.
            Conflict: a pool changed since it was read.
            ControllerError: the tenant did not answer.
        """
        by_name = {make_pool_name(ranges.allocation): ranges for ranges in projection.allocations}
        pools = await self._pools.list(frozenset(by_name))
        ours = await self._list_permitted(pools, by_name, projection=projection, permit=permit)
        evicted_names = {make_pool_name(ranges.allocation) for ranges in projection.evicting}
        # What was written for other allocations is forgotten: they hold no ranges here any more.
        for name in set(self._kept_state.written) - set(by_name) - evicted_names:
            del self._kept_state.written[name]
        self._kept_state.forget_pauses(pools)
        created = {
            name: await self._create(name, ranges, projection)
            for name, ranges in by_name.items()
            if name not in pools and self._request_creation(name)
        }
        confirmed = await self._confirm_projection(
            ours | created, by_name, projection=projection, confirm=confirm
        )
        await self._delete_unconfirmed(created, by_name, confirmed)
        for name, ranges in by_name.items():
            pool = created.get(name) or ours.get(name)
            # There is no pool if its creation is delayed. `_keep_pool` raises for an unconfirmed
            # pool.
            if pool is not None:
                await self._keep_pool(pool, ranges, projection=projection, confirmed=confirmed)
        remaining = [pool for name, pool in ours.items() if name not in by_name]
        # Of the remaining pools of ours, those without any allocation are leftovers.
        uids = {ranges.allocation.uid for ranges in projection.allocations} | projection.releasing
        for pool in remaining:
            if read_allocation_uid(pool) not in uids:
                await self._remove_leftover(pool, projection)
        await self._evict_services(remaining, projection)

    async def overwrite(
        self, projection: Projection, position: int, permit: Permit
    ) -> Offer | None:
        """Write `projection` over pools of the time before the management cluster was restored.

        Their basis is above `position`: no resourceVersion is that high any more. All pools are
        checked by `permit` before the first one is written.

        Args:
            projection: the ranges that the tenant is to hold.
            position: the resourceVersion of a LIST that has confirmed the ranges of `projection`.
            permit: raises if a pool must not be written.

        Returns:
            The first pool that was overwritten; None if none has such a basis.
        """
        by_name = {make_pool_name(ranges.allocation): ranges for ranges in projection.allocations}
        pools = await self._pools.list(frozenset(by_name))
        newer = [pool for pool in pools.values() if is_ours(pool) and read_basis(pool) > position]
        for pool in newer:
            await permit(make_offer(pool))
        for pool in newer:
            ranges = by_name.get(pool.metadata.name)
            # A pool without ranges is emptied; a later projection removes it.
            spans = parse_ranges(ranges) if ranges is not None else ()
            uid = read_allocation_uid(pool) if ranges is None else ranges.allocation.uid
            await self._write(pool, spans, projection=projection, uid=uid)
        return make_offer(newer[0]) if newer else None

    async def _list_permitted(
        self,
        pools: Mapping[str, CiliumPool],
        by_name: Mapping[str, ProjectedRanges],
        projection: Projection,
        permit: Permit,
    ) -> dict[str, CiliumPool]:
        """Return the pools that may be written, by name: ours, and others with a name of ours.

        If there are no ranges to write, a pool that `permit` refuses is left out.

        Raises:
            BalancerBlocked: a pool of ours must not be written, and there are ranges to write.
        """
        permitted = {}
        for name, pool in pools.items():
            if not is_ours(pool) and name not in by_name:
                continue  # others made it, and nothing of ours needs its name
            try:
                await permit(make_offer(pool))
            except BalancerBlocked:
                if projection.entries:
                    raise
                continue  # without ranges pools are only removed; this one stays
            permitted[name] = pool
        return permitted

    def _request_creation(self, name: str) -> bool:
        """Return whether to create a missing pool now.

        If others deleted it, the creation is noted as a correction. If they delete it again and
        again, it is created ever less often.
        """
        if name not in self._kept_state.written:
            return True  # this process has not created it before
        edit = f"{CILIUM_POOL.kind} {name} (deleted)"
        if not self._kept_state.request_correction(edit, self._now):
            return False
        self._kept_state.note_correction(CILIUM_POOL.kind, edit, self._now)
        return True

    async def _create(
        self, name: str, ranges: ProjectedRanges, projection: Projection
    ) -> CiliumPool:
        """Create a pool without blocks, which has no effect; its basis is that of the cache."""
        annotations = make_annotations(projection.basis, projection.owner, ranges.allocation.uid)
        spec = {"blocks": [], "disabled": False} | make_selector_patch({}, projection.selector)
        return await self._pools.create(name, annotations, spec)

    @staticmethod
    async def _confirm_projection(
        pools: Mapping[str, CiliumPool],
        by_name: Mapping[str, ProjectedRanges],
        projection: Projection,
        confirm: Confirm,
    ) -> Projection:
        """Return the projection that empty pools are filled from.

        If a pool is empty, it is read live, by `confirm`. Otherwise no live read is needed, and
        `projection` is returned as it is.
        """
        is_any_empty = any(not pool.blocks for name, pool in pools.items() if name in by_name)
        return await confirm() if is_any_empty else projection

    async def _delete_unconfirmed(
        self,
        created: Mapping[str, CiliumPool],
        by_name: Mapping[str, ProjectedRanges],
        confirmed: Projection,
    ) -> None:
        """Delete pools that were just created, but whose ranges the live read does not confirm.

        An empty pool hands out nothing. But it makes Cilium take the addresses from Services that
        another load balancer serves.
        """
        for name, pool in created.items():
            if by_name[name] not in confirmed.allocations:
                await self._pools.delete(pool)

    async def _keep_pool(
        self,
        pool: CiliumPool,
        ranges: ProjectedRanges,
        projection: Projection,
        confirmed: Projection,
    ) -> None:
        """Make the pool of one allocation hold its ranges.

        Args:
            projection: from the cache.
            confirmed: the projection that empty pools are filled from.

        Raises:
            BalancerBlocked: a newer view has written the pool, or a live read does not confirm the
                ranges of an empty pool.
        """
        _require_newest(pool, projection)
        if not pool.blocks and ranges not in confirmed.allocations:
            raise BalancerBlocked(BEHIND, "the cache is stale: a live read shows other ranges")
        if await self._ensure_intended(pool, ranges, projection):
            await self._ask_for_acknowledgement(pool, projection)

    async def _ensure_intended(
        self,
        pool: CiliumPool,
        ranges: ProjectedRanges,
        projection: Projection,
        *,
        is_disabled: bool = False,
    ) -> bool:
        """Write a pool unless it is as intended; remember what is intended.

        A change of ours is written at once. An edit that others repeat is undone ever less often.

        Args:
            is_disabled: whether Cilium should give no further addresses of the pool.

        Returns:
            Whether the pool was as intended. False after a write, and if the write has to wait.
        """
        name = pool.metadata.name
        intended = IntendedPool(ranges.entries, projection.selector, is_disabled)
        fields = _list_changed_fields(pool, ranges, intended)
        # The basis changes with every event, and alone it is no reason to write.
        annotations = make_annotations(projection.basis, projection.owner, ranges.allocation.uid)
        del annotations[names.ANNOTATION_PROJECTION_BASIS]
        if not fields and annotations.items() <= pool.metadata.annotations.items():
            self._kept_state.written[name] = intended
            return True
        # If something else was intended before, this is a change of ours that is still to be
        # written.
        is_edit = bool(fields) and self._kept_state.written.get(name) == intended
        edit = describe_edit(pool.metadata, CILIUM_POOL.kind, fields) if is_edit else ""
        if edit and not self._kept_state.request_correction(edit, self._now):
            return False  # `read_health` reports the contest
        await self._write(
            pool,
            parse_ranges(ranges),
            projection=projection,
            uid=ranges.allocation.uid,
            is_disabled=is_disabled,
        )
        if edit:
            self._kept_state.note_correction(CILIUM_POOL.kind, edit, self._now)
        self._kept_state.written[name] = intended
        return False

    async def _write(
        self,
        pool: CiliumPool,
        spans: Sequence[AddressRange],
        projection: Projection,
        uid: str,
        *,
        is_disabled: bool = False,
    ) -> CiliumPool:
        """Write the ranges and the selector of a pool; remove the fields that others have set.

        Args:
            uid: uid of the pool's allocation.
            is_disabled: whether Cilium should give no further addresses of the pool.
        """
        spec: dict[str, Any] = {"blocks": make_blocks(spans), "disabled": is_disabled}
        spec |= make_selector_patch(pool.spec.selector, projection.selector)
        # None removes a field.
        return await self._patch(
            pool, spec | dict.fromkeys(pool.spec.edited_fields), projection=projection, uid=uid
        )

    async def _patch(
        self, pool: CiliumPool, spec: Mapping[str, Any], projection: Projection, uid: str
    ) -> CiliumPool:
        """Patch the spec of a pool, with the basis and the owner of the projection.

        The annotation with the leader under which the pool was emptied is removed: it belongs to
        an earlier release.

        Args:
            uid: uid of the pool's allocation.
        """
        annotations: dict[str, str | None] = {
            **make_annotations(projection.basis, projection.owner, uid),
            names.ANNOTATION_EMPTIED_UNDER: None,
        }
        return await self._pools.patch(
            pool, {"metadata": {"annotations": annotations}, "spec": spec}
        )

    async def _evict_services(self, pools: Iterable[CiliumPool], projection: Projection) -> None:
        """Take the addresses of `projection.evicting` from the Services that show one.

        Args:
            pools: the pools of ours that have no ranges in `projection.allocations`.
        """
        ranges_by_uid = {ranges.allocation.uid: ranges for ranges in projection.evicting}
        pools_to_evict = [
            pool
            for pool in pools
            if read_allocation_uid(pool) in ranges_by_uid
            # Nothing is left to do in an empty pool, and a newer view has written a pool with a
            # higher basis.
            and pool.blocks
            and read_basis(pool) <= projection.basis
        ]
        if not pools_to_evict:
            return
        services = await self._list_services()
        for pool in pools_to_evict:
            ranges = ranges_by_uid[read_allocation_uid(pool)]
            await self._evict_from_pool(pool, ranges, projection=projection, services=services)

    async def _evict_from_pool(
        self,
        pool: CiliumPool,
        ranges: ProjectedRanges,
        projection: Projection,
        services: Sequence[Service],
    ) -> None:
        """Take the addresses of one pool from Services: disable the pool, then empty it.

        It is emptied once the operator has acknowledged the disabled pool, and no Service with a
        sharing key shows an address of it. While no Service at all shows one, nothing is written.
        An edit by others is undone: a pool with an unreadable block is never acknowledged.

        Args:
            services: all Services of the tenant, read after the pool.
        """
        spans_in_pool = [block.span for block in pool.blocks if block.span is not None]
        # Others may have edited the blocks, and Services may show addresses of either.
        spans = [*parse_ranges(ranges), *spans_in_pool]
        users = [service for service in services if _shows_address_of(service, spans)]
        if not users:
            return  # no Service shows an address: the release check empties the pool
        if not await self._ensure_intended(pool, ranges, projection, is_disabled=True):
            return  # the operator has to acknowledge a new write first
        if is_acknowledged(pool) and not any(map(find_sharing_key, users)):
            # With a sharing key in use, the operator would remember the address for a later
            # Service with that key.
            await self._patch(
                pool, {"blocks": []}, projection=projection, uid=read_allocation_uid(pool)
            )
        else:
            await self._ask_for_acknowledgement(pool, projection)

    async def _ask_for_acknowledgement(self, pool: CiliumPool, projection: Projection) -> None:
        """Write a nonce to a pool that the operator has not acknowledged for a while."""
        if self._kept_state.take_due_nonce(pool, self._now):
            nonce = {"allowFirstLastIPs": choose_nonce(pool)}
            await self._patch(pool, nonce, projection=projection, uid=read_allocation_uid(pool))

    async def _remove_leftover(self, pool: CiliumPool, projection: Projection) -> None:
        """Empty a pool without an allocation; once it is acknowledged as empty, delete it.

        Such a pool remains if a range was released while the tenant did not answer. The range no
        longer belongs to the tenant.
        """
        _require_newest(pool, projection)
        if pool.blocks:
            await self._write(pool, (), projection=projection, uid=read_allocation_uid(pool))
        elif is_acknowledged(pool):
            await self._pools.delete(pool)
        else:
            await self._ask_for_acknowledgement(pool, projection)


def _list_changed_fields(
    pool: CiliumPool, ranges: ProjectedRanges, intended: IntendedPool
) -> list[str]:
    """Return the names of the fields in which a pool differs from what it should hold."""
    fields = list(pool.spec.edited_fields)
    if make_selector_patch(pool.spec.selector, intended.selector):
        fields.append("serviceSelector")
    if {block.span for block in pool.blocks} != set(parse_ranges(ranges)):
        fields.append("blocks")
    if pool.spec.disabled != intended.is_disabled:
        fields.append("disabled")
    if not is_ours(pool):
        fields.append("annotations")
    return fields


def _shows_address_of(service: Service, spans: Sequence[AddressRange]) -> bool:
    """Return whether a Service shows an address of some ranges."""
    return any(span.contains(ip) for ip in list_shown_addresses(service) for span in spans)


def parse_ranges(ranges: ProjectedRanges) -> list[AddressRange]:
    """Return the ranges of one allocation in a projection, parsed."""
    parsed = map(addresstexts.parse_cidr_or_span, ranges.entries)
    return [span for span in parsed if span is not None]


def make_selector_patch(
    stored: Mapping[str, Any], selector: ServiceSelector | None
) -> dict[str, Any]:
    """Return the merge patch of a pool's spec that sets its selector; empty if it is equal.

    A merge patch keeps the fields and labels that it does not name. So the patch names each field
    and label that has to go, with the value None.

    Args:
        stored: the selector of a pool, without empty fields.
        selector: the selector that the pool should have; None for all Services.
    """
    body = selector.body if selector is not None else {}
    if dict(stored) == body:
        return {}
    if not body:
        return {"serviceSelector": None}
    patch: dict[str, Any] = {**dict.fromkeys(stored), **body}
    # Labels that have to go are named as fields are. The stored value may be any JSON.
    labels = stored.get("matchLabels")
    if isinstance(labels, Mapping) and "matchLabels" in body:
        patch["matchLabels"] = {**dict.fromkeys(labels), **body["matchLabels"]}
    return {"serviceSelector": patch}


def _require_newest(pool: CiliumPool, projection: Projection) -> None:
    """Raise BalancerBlocked if a newer view of the management cluster has written the pool."""
    if read_basis(pool) > projection.basis:
        raise BalancerBlocked(BEHIND, "another replica has written a newer state of the pool")
