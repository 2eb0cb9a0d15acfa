"""What the API servers show, kept current by watches."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.informer import Informer
from controller.leases import LEASES, Lease
from controller.meta import Key, Object
from controller.resource import Resource
from controller.supervisor import Task
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.api.services import SERVICE
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.local.balancer import DEFINITION, LocalBalancer, wait_until_established
from reconcilers.cli.local.platform import LocalPlatform
from reconcilers.cli.local.servers import ApiServer
from reconcilers.cli.progress import show_progress
from reconcilers.ui.watched import READ_EVENTS, ReadEvent

T = TypeVar("T", bound=Object)
R = TypeVar("R")
P = ParamSpec("P")
Follow = Callable[[ApiServer, Resource[Any]], Cache[Any]]


class NotSeenYet(Exception):
    """A check does not hold yet; the message says what the API servers show instead."""


class Broken(Exception):
    """A promise was broken: the check can never hold, so waiting ends at once."""


class TenantView:
    """One tenant as its own API server shows it."""

    def __init__(self, server: ApiServer, balancer: LocalBalancer, follow: Follow) -> None:
        self.server = server
        self.balancer = balancer
        self.kinds = follow(server, DEFINITION)
        self.pools, *self.advertisements = [follow(server, kind) for kind in balancer.kinds]
        self.services = follow(server, SERVICE)

    def list_entries(self) -> list[str]:
        """Return the ranges that the load balancer has, as `start-end`."""
        return [entry for pool in self.pools for entry in self.balancer.list_entries(pool)]


class PlatformView:
    """The management cluster and the tenants of a platform, as they are now."""

    def __init__(self, platform: LocalPlatform, clock: Clock) -> None:
        self.management = platform.management
        self.replicas = platform.replicas
        self.balancer = platform.balancer
        self.definitions = platform.definitions
        self.watches: list[Task] = []
        """The tasks that keep the caches current; the caller runs them."""
        self._clock = clock
        self._changed = anyio.Event()
        follow = partial(self._follow, self.management)
        self.pools: Cache[NetworkPool] = follow(NETWORK_POOL)
        self.allocations: Cache[IPAllocation] = follow(IP_ALLOCATION)
        self.clusters: Cache[TenantCluster] = follow(TENANT_CLUSTER)
        self.providers: Cache[ProviderConfig] = follow(PROVIDER_CONFIG)
        self.leases: Cache[Lease] = follow(LEASES)
        self.events: Cache[ReadEvent] = follow(READ_EVENTS)
        self.uids: dict[Key, str] = {}
        """The uid of each TenantCluster that was ever seen."""
        self.clusters.subscribe(self._remember_uid)
        self.tenants = {
            key: TenantView(server, self.balancer, self._follow)
            for key, server in platform.tenants.items()
        }
        """The tenants that have an API server, by TenantCluster."""

    def _follow(self, server: ApiServer, resource: Resource[Any]) -> Cache[Any]:
        """Return the cache of a kind, and add the watch that fills it to `watches`."""
        informer = Informer(resource, server.transport, self._clock)
        informer.add_handler(lambda _: self.wake())
        # The story may install a tenant's load balancer late. Its kinds are not served until then.
        is_installed_late = resource in self.balancer.kinds
        self.watches.append(
            partial(self._watch_when_served, server, informer)
            if is_installed_late
            else informer.run
        )
        return informer.cache

    async def _watch_when_served(self, server: ApiServer, informer: Informer[Any]) -> None:
        """Watch a kind of the load balancer as soon as the tenant serves it."""
        await wait_until_established(server.transport, self._clock, self.definitions)
        await informer.run()

    def _remember_uid(self, change: Change[TenantCluster]) -> None:
        """Keep the uid of a cluster in `uids`, also after the cluster is deleted."""
        if change.new is not None:
            self.uids[change.new.metadata.key] = change.new.metadata.uid

    def wake(self) -> None:
        """Wake all tasks that wait for a change."""
        self._changed.set()
        self._changed = anyio.Event()

    def get_server(self, tenant: Key | None) -> ApiServer:
        """Return the API server of a tenant; the management cluster's for None."""
        return self.management if tenant is None else self.tenants[tenant].server

    def get_pool(self, name: str) -> NetworkPool:
        """Return a pool of the platform's namespace.

        Raises:
            NotSeenYet: it does not exist.
        """
        return get_existing(self.pools, Key(names.DEFAULT_NAMESPACE, name))

    def get_allocation(self, name: str) -> IPAllocation:
        """Return an allocation of the platform's namespace.

        Raises:
            NotSeenYet: it does not exist.
        """
        return get_existing(self.allocations, Key(names.DEFAULT_NAMESPACE, name))

    def now(self) -> float:
        """Return monotonic seconds, to measure how long something takes."""
        return self._clock.monotonic()

    async def wait_until(
        self, check: Callable[["PlatformView"], Sequence[str]], seconds: float = 30.0
    ) -> Sequence[str]:
        """Call a check after each change until it does not raise NotSeenYet; return its lines.

        Raises:
            NotSeenYet: the check still raised it after `seconds`.
        """
        while True:
            # This event is taken first, so that a change during the check ends the wait.
            changed = self._changed
            try:
                return check(self)
            except NotSeenYet as why:
                last_failure = why
            show_progress(f"waiting: {last_failure}")
            wait_began_at = self._clock.monotonic()
            with self._clock.move_on_after(seconds) as waiting:
                await changed.wait()
            seconds -= (
                self._clock.monotonic() - wait_began_at
            )  # the remaining time for further waits
            if waiting.cancelled_caught:
                raise last_failure


def take_view_later(
    function: Callable[Concatenate[PlatformView, P], R],
) -> Callable[P, Callable[[PlatformView], R]]:
    """Change a function so that it takes its other arguments first, and its view later.

    A story is built before its platform runs. So `check("a")` returns a function of the view,
    which is called at the end of the step.
    """

    def bind_arguments(*args: P.args, **kwargs: P.kwargs) -> Callable[[PlatformView], R]:
        """Return a function that calls `function` with a view and these arguments."""
        return lambda view: function(view, *args, **kwargs)

    return bind_arguments


def get_existing(cache: Cache[T], key: Key) -> T:
    """Return the object of a cache.

    Raises:
        NotSeenYet: it does not exist.
    """
    obj = cache.get(key)
    if obj is None:
        raise NotSeenYet(f"there is no {cache.resource.kind} {key}")
    return obj
