"""The objects, as a server would keep them: typed, in the caches of reconcilers, and as text.

A write is a merge patch of a status and makes a new resourceVersion. There is no precondition to
check, as nobody else writes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from controller.cache import Cache
from controller.codec import Deleted, Modified
from controller.indexes import IndexFunction
from controller.meta import Key, Object
from controller.resource import Resource
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

T = TypeVar("T", bound=Object)
Body = dict[str, Any]


@dataclass(slots=True)
class Counter:
    """Hands out resourceVersions and moments, each above all before."""

    revision: int
    moment: datetime

    def next(self) -> tuple[str, datetime]:
        """Return the next of both."""
        self.revision += 1
        self.moment += timedelta(microseconds=1)
        return str(self.revision), self.moment


class Shelf(Generic[T]):
    """The objects of one kind.

    Args:
        resource: the kind.
        manifests: what was read of it.
        counter: numbers the writes.
        indexes: as the kind's cache has them.
    """

    def __init__(
        self,
        resource: Resource[T],
        manifests: Iterable[Manifest[T]],
        counter: Counter,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> None:
        read = list(manifests)
        self._resource = resource
        self._counter = counter
        self._bodies: dict[Key, Body] = {one.key: one.body for one in read}
        self._metadata: dict[Key, Body] = {one.key: one.metadata for one in read}
        self._order = {one.key: one.number for one in read}
        self.cache = Cache(resource, indexes=indexes)
        known = [one.object for one in read]
        revisions = [
            obj.metadata.revision for obj in known if not obj.metadata.uid.startswith(UNBORN)
        ]
        self.read_up_to = max(revisions, default=0)
        """The highest resourceVersion in the input: how far it can be said to tell the story."""
        self.cache.replace(known, self.read_up_to)

    def __iter__(self) -> Iterator[T]:
        """Return the objects, oldest first, name as tie-break."""
        return iter(sorted(self.cache, key=_age))

    def numbered(self) -> Iterator[tuple[int, Body]]:
        """Yield the objects as text, with their place in the input; those made here come last."""
        last = max(self._order.values(), default=0) + 1_000_000_000
        for key, body in self._bodies.items():
            yield self._order.get(key, last), body

    def body(self, key: Key) -> Body:
        """Return an object as text."""
        return self._bodies[key]

    def is_new(self, key: Key) -> bool:
        """Whether an object was made here."""
        return key not in self._order

    def write_status(self, obj: T, patch: Mapping[str, Any]) -> T:
        """Merge `patch` into an object's status; return the object as it is then."""
        key = obj.metadata.key
        body = self._bodies[key]
        self._bodies[key] = body | {"status": _merged(body.get("status", {}), patch)}
        return self._show(key)

    def add_finalizer(self, obj: T, finalizer: str) -> T:
        """Add a finalizer, to the typed object only: it says nothing that the text has to tell."""
        key = obj.metadata.key
        if finalizer in obj.metadata.finalizers:
            return obj
        finalizers = [*obj.metadata.finalizers, finalizer]
        self._metadata[key] = self._metadata[key] | {"finalizers": finalizers}
        return self._show(key)

    def create(self, namespace: str, body: Body) -> T:
        """Add an object that a reconciler asks for."""
        version, moment = self._counter.next()
        meta = body["metadata"] | {"namespace": namespace}
        key = Key(namespace, meta["name"])
        head = {"apiVersion": self._resource.api_version, "kind": self._resource.kind}
        self._bodies[key] = head | body | {"metadata": _public(meta)}
        self._metadata[key] = meta | {
            "uid": f"{UNBORN}{version}",
            "generation": 1,
            "creationTimestamp": moment.isoformat(),
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
        version, _ = self._counter.next()
        meta = self._metadata[key] | {"resourceVersion": version}
        return msgspec.convert(self._bodies[key] | {"metadata": meta}, self._resource.type)


@dataclass(slots=True)
class Ledger:
    """All objects of ours."""

    pools: Shelf[NetworkPool]
    allocations: Shelf[IPAllocation]
    tenants: Shelf[TenantCluster]
    providers: Shelf[ProviderConfig]
    asked_by: dict[Key, Key] = field(default_factory=dict)
    """Which tenant asked for an allocation that was made here."""

    @classmethod
    def of(cls, read: Manifests) -> "Ledger":
        """Return the ledger of what was read."""
        every: list[Object] = [one.object for one in read.every()]
        counter = Counter(
            max((obj.metadata.revision for obj in every), default=0),
            max((_age(obj)[0] for obj in every), default=datetime.now(UTC)),
        )
        return cls(
            Shelf(NETWORK_POOL, read.pools, counter),
            Shelf(
                IP_ALLOCATION,
                read.allocations,
                counter,
                {POOL_INDEX: pool_index, TENANT_INDEX: tenant_index},
            ),
            Shelf(TENANT_CLUSTER, read.tenants, counter),
            Shelf(PROVIDER_CONFIG, read.providers, counter),
        )

    def bodies(self) -> list[Body]:
        """Return all objects as text, in the order of the input, those made here at the end."""
        shelves = (self.pools, self.allocations, self.tenants, self.providers)
        numbered = [one for shelf in shelves for one in shelf.numbered()]
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
