"""What Cluster API's pools look like to people, worked out from claims and IPAddresses.

A pool's own status may be a moment behind.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from allocator import AddressRange, InvalidPool
from controller.conditions import find
from controller.meta import Key, ObjectMeta, TracedMeta
from controller.resource import Resource
from reconcilers.api.ipallocation import (
    ALLOCATED,
    IPAllocation,
    IPAllocationSpec,
    IPAllocationStatus,
    PoolReference,
    TenantReference,
)
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.conditions import READY
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.choosing import addresses_of
from reconcilers.integrations.clusterapi.networkpools import network_pool_space
from reconcilers.integrations.clusterapi.poolstatus import counts_of
from reconcilers.integrations.clusterapi.statuses import record_of
from reconcilers.integrations.clusterapi.world import (
    KINDS,
    World,
    address_holding,
    claim_holding,
    geometry_of,
    space_name,
)
from reconcilers.integrations.core.contents import SPACE_INDEX, Contents
from reconcilers.integrations.core.journal import journal_of
from reconcilers.integrations.core.views import PoolView, Stretch

CLAIM, ADDRESS = "IPAddressClaim", "IPAddress"
ALL_SIZES = 1 << 130
"""Views show pools of any size: the limit is the controllers' affair."""
Holders = Mapping[AddressRange, tuple[str, tuple[Key, ...]]]
"""By blocks of a pool's space: the state, and whose they are."""


@dataclass(frozen=True, slots=True)
class PoolContents:
    """A pool, what it may hand out, and what is held of it.

    Args:
        kind: of the pool.
        pool: the pool.
        space: what it may hand out; None if its spec makes no sense.
        fault: why, then.
        contents: what is held, and who waits.
        claims: those that name it, by key.
        addresses: those that name it, by key.
    """

    kind: Resource[Any]
    pool: Any
    space: PoolSpace | None
    fault: str
    contents: Contents | None
    claims: Mapping[Key, IPAddressClaim]
    addresses: Mapping[Key, IPAddress]

    def held(self) -> Holders:
        """Return what is held, by blocks, each with its state and the keys of its holders."""
        found: dict[AddressRange, dict[Key, str]] = {}
        if self.space is None:
            return {}
        for promise in journal_of(self.pool.metadata).promises:
            claim = self.claims.get(promise.key)
            if claim and promise.range and claim.metadata.uid == promise.uid:
                blocks = self.space.held(promise.startAddress, self.space.prefix)
                if blocks is not None and record_of(claim) is None:
                    found.setdefault(blocks, {})[promise.key] = "promised"
        for key, claim in self.claims.items():
            blocks = claim_holding(claim, self.space).blocks
            if blocks is not None:
                found.setdefault(blocks, {})[key] = "held"
        for key, address in self.addresses.items():
            blocks = address_holding(address, self.space).blocks
            if blocks is not None:
                rests = RELEASED_AT in address.metadata.annotations
                found.setdefault(blocks, {})[key] = "resting" if rests else "held"
        return {
            blocks: (self._state(blocks, by), tuple(sorted(by))) for blocks, by in found.items()
        }

    def _state(self, blocks: AddressRange, by: Mapping[Key, str]) -> str:
        assert self.space is not None, "it has blocks"
        if len(by) > 1:
            return "shared"
        return next(iter(by.values())) if self.space.layout.could_ever_pin(blocks) else "outside"

    def name_of(self, key: Key) -> str:
        """Return what people call the holder of a key: the claim if there is one."""
        return f"{CLAIM if key in self.claims else ADDRESS} {key}"


def pools_of(world: World) -> Iterator[PoolContents]:
    """Yield every pool with its contents, by kind, namespace and name.

    Of NetworkPools those that a claim or an IPAddress names.
    """
    for kind in KINDS:
        for pool in sorted(world.pools[kind.kind], key=lambda one: one.metadata.key):
            name = space_name(kind, pool.metadata.key)
            claims = {one.metadata.key: one for one in world.claims.by_index(SPACE_INDEX, name)}
            found = {one.metadata.key: one for one in world.addresses.by_index(SPACE_INDEX, name)}
            if kind != NETWORK_POOL or claims or found:
                yield _contents(kind, pool, claims, found)


def _contents(
    kind: Resource[Any],
    pool: Any,
    claims: Mapping[Key, IPAddressClaim],
    addresses: Mapping[Key, IPAddress],
) -> PoolContents:
    try:
        space = network_pool_space(pool, ALL_SIZES) if kind == NETWORK_POOL else geometry_of(pool)
    except InvalidPool as invalid:
        return PoolContents(kind, pool, None, "; ".join(invalid.messages), None, claims, addresses)
    contents = Contents(space.layout)
    for key, claim in claims.items():
        contents.put(CLAIM, key, claim_holding(claim, space))
    for key, address in addresses.items():
        contents.put(ADDRESS, key, address_holding(address, space))
    return PoolContents(kind, pool, space, "", contents, claims, addresses)


def view_of(one: PoolContents) -> PoolView:
    """Return what people see of a pool."""
    pool, spec = one.pool, one.pool.spec
    listed = getattr(spec, "addresses", None) or getattr(spec, "prefixes", None)
    view = partial(
        PoolView,
        one.kind.group,
        one.kind.kind,
        pool.metadata.key,
        ", ".join(listed or (spec.cidr,)),
    )
    if one.space is None or one.contents is None:
        return view(ready="False", reason=one.fault)
    counts = counts_of(one.space, one.contents)
    ready = find(pool.status.conditions, READY)
    return view(
        counts.total,
        counts.used,
        counts.free,
        counts.outOfRange,
        sum(record_of(claim) is None for claim in one.claims.values()),
        ready.status if ready else "Unknown",
        ready.message if ready else "its definition has no conditions, or it was not reconciled",
        tuple(_stretches(one, one.space, one.contents)),
    )


def _stretches(one: PoolContents, space: PoolSpace, contents: Contents) -> Iterator[Stretch]:
    """Yield what is held and what is free, ascending."""
    said = [
        Stretch(addresses_of(space, blocks), state, tuple(map(one.name_of, keys)))
        for blocks, (state, keys) in one.held().items()
    ]
    if one.kind != NETWORK_POOL:  # what is free of one, IPAllocations say too
        free = contents.space.free_extents()
        said += [Stretch(addresses_of(space, blocks), "free") for blocks in free]
    yield from sorted(said, key=lambda stretch: (stretch.range.first, stretch.range.last))


def _renamed(meta: ObjectMeta, name: str) -> TracedMeta:
    fields = {one.name: getattr(meta, one.name) for one in dataclasses.fields(ObjectMeta)}
    return TracedMeta(**{**fields, "name": name})


def as_allocations(one: PoolContents) -> Iterable[IPAllocation]:
    """Yield what claims hold of a NetworkPool in the form of IPAllocations.

    Their names begin with `ipaddressclaim/` or `ipaddress/`, which no object's name can.
    """
    assert one.space is not None, "it has blocks"
    for blocks, (_, keys) in one.held().items():
        for key in keys:
            held = addresses_of(one.space, blocks)
            claim = one.claims.get(key)
            source = claim or one.addresses[key]
            tenant = (claim.cluster if claim else None) or key
            name = f"{(CLAIM if claim else ADDRESS).lower()}/{key.name}"
            yield IPAllocation(
                _renamed(source.metadata, name),
                IPAllocationSpec(
                    PoolReference(one.pool.metadata.name),
                    TenantReference(tenant.name, tenant.namespace),
                    "claim",
                    held.size,
                ),
                IPAllocationStatus(
                    ALLOCATED,
                    cidr=held.text,
                    startAddress=held.start_text,
                    endAddress=held.end_text,
                    allocatedCount=held.size,
                ),
            )
