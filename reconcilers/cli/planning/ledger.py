"""In-memory store of the planned objects: typed in caches, and as manifests for the output.

A write is a merge patch of a status and makes a new resourceVersion. There is no precondition to
check, as there is no other writer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf
from typing import Any, Generic, TypeVar

import msgspec

from allocator import AddressRange
from controller.cache import Cache
from controller.codec import Deleted, Modified
from controller.indexes import IndexFunction
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import (
    POOL_INDEX,
    TENANT_INDEX,
    IPAllocation,
    pool_index,
    tenant_index,
)
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.reading.manifests import UNBORN, Manifest, Manifests
from reconcilers.networkpool.view import UnreadableAllocations, unreadable_near

T = TypeVar("T", bound=Object)
Body = dict[str, Any]


class Kept(Generic[T]):
    """The objects of one kind.

    Args:
        resource: the kind.
        manifests: the objects in the input.
        versions: gives each write a resourceVersion above all before.
        unreadable: the objects in the input that cannot be decoded, with the reason.
        indexes: of the cache.
    """

    def __init__(
        self,
        resource: Resource[T],
        manifests: Sequence[Manifest[T]],
        versions: Iterator[int],
        unreadable: Mapping[Key, str],
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> None:
        self._resource = resource
        self._versions = versions
        self._bodies: dict[Key, Body] = {one.key: one.body for one in manifests}
        self._metadata: dict[Key, Body] = {one.key: one.metadata for one in manifests}
        self._order = {one.key: one.number for one in manifests}
        self.cache = Cache(resource, indexes=indexes)
        known = [one.object for one in manifests]
        self._youngest = max((_age(one)[0] for one in known), default=datetime.now(UTC))
        given = [one for one in known if not one.metadata.uid.startswith(UNBORN)]
        self.read_up_to = max((one.metadata.revision for one in given), default=0)
        """The highest resourceVersion in the input."""
        self.cache.replace(known, self.read_up_to, unreadable)

    def __iter__(self) -> Iterator[T]:
        """Return the objects, oldest first, name as tie-break."""
        return iter(sorted(self.cache, key=_age))

    def numbered(self) -> Iterator[tuple[float, Body]]:
        """Yield the objects as text, with their place in the input; those made here come last."""
        for key, body in self._bodies.items():
            yield self._order.get(key, inf), body

    def write_status(self, obj: T, patch: Mapping[str, Any]) -> T:
        """Merge `patch` into an object's status; return the object as it is then."""
        key = obj.metadata.key
        body = self._bodies[key]
        self._bodies[key] = body | {"status": _merged(body.get("status", {}), patch)}
        return self._show(key)

    def add_finalizer(self, obj: T, finalizer: str) -> T:
        """Add a finalizer, to the typed object only: a plan does not print it."""
        key = obj.metadata.key
        if finalizer in obj.metadata.finalizers:
            return obj
        finalizers = [*obj.metadata.finalizers, finalizer]
        self._metadata[key] = self._metadata[key] | {"finalizers": finalizers}
        return self._show(key)

    def create(self, namespace: str, body: Body) -> T:
        """Add an object that a reconciler asks for; it is younger than all that are there."""
        meta = body["metadata"] | {"namespace": namespace}
        key = Key(namespace, meta["name"])
        head = {"apiVersion": self._resource.api_version, "kind": self._resource.kind}
        self._bodies[key] = head | body | {"metadata": _public(meta)}
        number = next(self._versions)
        self._youngest += timedelta(microseconds=1)
        self._metadata[key] = meta | {
            "uid": f"{UNBORN}{number}",
            "generation": 1,
            "creationTimestamp": self._youngest.isoformat(),
        }
        return self._show(key)

    def delete(self, obj: T) -> None:
        """Remove an object."""
        key = obj.metadata.key
        gone = self._typed(key)
        del self._bodies[key], self._metadata[key]
        self._order.pop(key, None)
        self.cache.apply(Deleted(gone))

    def _show(self, key: Key) -> T:
        changed = self._typed(key)
        self.cache.apply(Modified(changed))
        return changed

    def _typed(self, key: Key) -> T:
        meta = self._metadata[key] | {"resourceVersion": str(next(self._versions))}
        return msgspec.convert(self._bodies[key] | {"metadata": meta}, self._resource.type)


@dataclass(slots=True)
class Ledger:
    """The objects of the four kinds that `plan` works on, in memory."""

    pools: Kept[NetworkPool]
    allocations: Kept[IPAllocation]
    tenants: Kept[TenantCluster]
    providers: Kept[ProviderConfig]
    asked_by: dict[Key, Key] = field(default_factory=dict)
    """Which tenant asked for an allocation that was made here."""

    @classmethod
    def from_manifests(cls, manifests: Manifests) -> "Ledger":
        """Return a ledger of the objects in `manifests`; writes get versions above theirs."""
        highest = max((one.object.metadata.revision for one in manifests.every()), default=0)
        versions = count(highest + 1)
        indexes = {POOL_INDEX: pool_index, TENANT_INDEX: tenant_index}
        unreadable = manifests.unreadable_of
        return cls(
            Kept(NETWORK_POOL, manifests.pools, versions, unreadable(NETWORK_POOL.kind)),
            Kept(
                IP_ALLOCATION,
                manifests.allocations,
                versions,
                unreadable(IP_ALLOCATION.kind),
                indexes,
            ),
            Kept(TENANT_CLUSTER, manifests.tenants, versions, unreadable(TENANT_CLUSTER.kind)),
            Kept(PROVIDER_CONFIG, manifests.providers, versions, unreadable(PROVIDER_CONFIG.kind)),
        )

    def check_allocations(self, pool: Key) -> None:
        """Raise if allocations that cannot be decoded may hold ranges of a pool.

        Raises:
            UnreadableAllocations: there are some.
        """
        if unreadable := unreadable_near(self.allocations.cache.unreadable, pool):
            raise UnreadableAllocations(unreadable)

    def held_of(self, pool: NetworkPool) -> list[AddressRange]:
        """Return what allocations hold of a pool.

        Raises:
            UnreadableAllocations: some that may be the pool's cannot be decoded.
        """
        key = pool.metadata.key
        self.check_allocations(key)
        of_pool = self.allocations.cache.by_index(POOL_INDEX, str(key))
        return [
            held for allocation in of_pool for held in statusranges.list_held_ranges(allocation)
        ]

    def bodies(self) -> list[Body]:
        """Return all objects as text, in the order of the input, those made here at the end."""
        kinds = (self.pools, self.allocations, self.tenants, self.providers)
        numbered = [one for kind in kinds for one in kind.numbered()]
        return [body for _, body in sorted(numbered, key=lambda one: one[0])]


def _age(obj: Object) -> tuple[datetime, Key]:
    created = obj.metadata.creationTimestamp
    assert created is not None, "filled in when it was read"
    return created, obj.metadata.key


def _merged(status: Mapping[str, Any], patch: Mapping[str, Any]) -> Body:
    """Return a status with a merge patch (RFC 7386) of its fields applied."""
    merged = {**status, **patch}
    return {name: value for name, value in merged.items() if value is not None}


def _public(meta: Body) -> Body:
    """Return metadata without what no server has said yet."""
    annotations = {
        name: value
        for name, value in meta.get("annotations", {}).items()
        if not (name == names.ANNOTATION_TENANT_UID and value.startswith(UNBORN))
    }
    rest = {name: value for name, value in meta.items() if name != "annotations"}
    return rest | ({"annotations": annotations} if annotations else {})
