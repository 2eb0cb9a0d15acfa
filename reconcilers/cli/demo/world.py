"""What the API servers show, kept current by watching; nobody polls and nobody sleeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.eventkind import EVENTS
from controller.informer import Informer
from controller.jobs import Task
from controller.leases import LEASES, Lease
from controller.meta import Key, Object, ObjectMeta
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ADDRESS_POOL,
    IP_ALLOCATION,
    L2_ADVERTISEMENT,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    SERVICE,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.local.platform import Platform
from reconcilers.cli.local.servers import ApiServer
from reconcilers.cli.standin import api as standin
from reconcilers.cli.standin.presence import DEFINITION, wait_served

T = TypeVar("T", bound=Object)
Follow = Callable[[ApiServer, Resource[Any]], Cache[Any]]


@dataclass(frozen=True, slots=True)
class Regarding:
    """What an event is about."""

    kind: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """An Event, as people read it."""

    metadata: ObjectMeta
    type: str = ""
    reason: str = ""
    note: str = ""
    regarding: Regarding = field(default_factory=Regarding)


TOLD = Resource(EVENTS.group, EVENTS.version, EVENTS.kind, EVENTS.plural, Told)


class NotYet(Exception):
    """What is waited for is not so yet; the message says what is seen instead."""


class TenantView:
    """One tenant as its own API server shows it."""

    def __init__(self, server: ApiServer, follow: Follow) -> None:
        self.server = server
        self.kinds = follow(server, DEFINITION)
        self.pools = follow(server, IP_ADDRESS_POOL)
        self.advertisements = follow(server, L2_ADVERTISEMENT)
        self.services = follow(server, SERVICE)


class World:
    """The management cluster and the tenants, as they are now.

    Args:
        platform: what is watched.
        clock: for the watches.
    """

    def __init__(self, platform: Platform, clock: Clock) -> None:
        self.management = platform.management
        self.replicas = platform.replicas
        self.metallb = platform.metallb
        self.watches: list[Task] = []
        """What has to run, for all this to be current."""
        self._clock = clock
        self._moved = anyio.Event()
        self.pools: Cache[NetworkPool] = self._follow(self.management, NETWORK_POOL)
        self.allocations: Cache[IPAllocation] = self._follow(self.management, IP_ALLOCATION)
        self.clusters: Cache[TenantCluster] = self._follow(self.management, TENANT_CLUSTER)
        self.providers: Cache[ProviderConfig] = self._follow(self.management, PROVIDER_CONFIG)
        self.leases: Cache[Lease] = self._follow(self.management, LEASES)
        self.events: Cache[Told] = self._follow(self.management, TOLD)
        self.uids: dict[Key, str] = {}
        """The uid of each TenantCluster that was ever seen."""
        self.clusters.subscribe(self._remember)
        self._tenants = {
            key: TenantView(server, self._follow) for key, server in platform.tenants.items()
        }

    def _follow(self, server: ApiServer, resource: Resource[T]) -> Cache[T]:
        informer = Informer(resource, server.transport, self._clock)
        informer.add_handler(lambda _: self.wake())
        later = resource.group == standin.GROUP
        self.watches.append(partial(self._served, server, informer) if later else informer.run)
        return informer.cache

    async def _served(self, server: ApiServer, informer: Informer[Any]) -> None:
        """Watch a kind of MetalLB's from when it is there."""
        await wait_served(server.transport, self._clock)
        await informer.run()

    def _remember(self, change: Change[TenantCluster]) -> None:
        if change.new is not None:
            self.uids[change.new.metadata.key] = change.new.metadata.uid

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._moved.set()
        self._moved = anyio.Event()

    def tenant(self, cluster: Key) -> TenantView:
        """Return the tenant that a TenantCluster is."""
        return self._tenants[cluster]

    def has_tenant(self, cluster: Key) -> bool:
        """Return whether a TenantCluster has an API server."""
        return cluster in self._tenants

    def pool(self, name: str) -> NetworkPool:
        """Return a pool of the platform's namespace.

        Raises:
            NotYet: it is not there.
        """
        return there(self.pools, Key(names.DEFAULT_NAMESPACE, name))

    def allocation(self, name: str) -> IPAllocation:
        """Return an allocation of the platform's namespace.

        Raises:
            NotYet: it is not there.
        """
        return there(self.allocations, Key(names.DEFAULT_NAMESPACE, name))

    def now(self) -> float:
        """Return seconds that never go back, for what is to be told of how long things took."""
        return self._clock.monotonic()

    async def until(
        self, look: Callable[["World"], Sequence[str]], seconds: float
    ) -> Sequence[str]:
        """Return what `look` tells as soon as it does not say NotYet.

        Raises:
            NotYet: it did for `seconds`; the message is its last.
        """
        while True:
            moved = self._moved
            try:
                return look(self)
            except NotYet as why:
                last = why
            before = self._clock.monotonic()
            with self._clock.move_on_after(seconds) as waiting:
                await moved.wait()
            seconds -= self._clock.monotonic() - before
            if waiting.cancelled_caught:
                raise last


def there(cache: Cache[T], key: Key) -> T:
    """Return the object of a cache.

    Raises:
        NotYet: it is not there.
    """
    found = cache.get(key)
    if found is None:
        raise NotYet(f"there is no {cache.resource.kind} {key}")
    return found
