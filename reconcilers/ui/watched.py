"""The objects that the page shows, kept current by watches."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.eventkind import EVENTS
from controller.informer import Informer
from controller.meta import Key, Object, ObjectMeta
from controller.resource import Resource
from controller.supervisor import Task
from controller.transport import Transport
from reconcilers.addressmap.objects import Objects
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.integrations.core.scopedlists import NotRead, find_readable_namespace
from reconcilers.integrations.core.views import Views, Wanted, want_every_pool
from reconcilers.spaces.offers import PoolName

if TYPE_CHECKING:  # imported at run time only if pools of other platforms are shown
    from reconcilers.integrations.live import LiveViews


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """How often an event was repeated, and when last."""

    count: int = 0
    lastObservedTime: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """An Event, with the fields that the page shows."""

    metadata: ObjectMeta
    type: str = ""
    reason: str = ""
    note: str = ""
    regarding: Regarding = field(default_factory=Regarding)
    eventTime: datetime | None = None
    series: Series | None = None

    @property
    def at(self) -> datetime | None:
        """When the event happened last; None if the Event has no time."""
        repeated_at = self.series.lastObservedTime if self.series else None
        return repeated_at or self.eventTime or self.metadata.creationTimestamp


READ_EVENTS = Resource(EVENTS.group, EVENTS.version, EVENTS.kind, EVENTS.plural, ReadEvent)
OUR_EVENTS = f"reportingController={names.COMPONENT}"
"""The field selector of the events that our controllers record."""


@dataclass(frozen=True, slots=True)
class PageInformers:
    """Informers of all objects that the page shows.

    Args:
        events: the events of our controllers.
        others: pools of other platforms; None if they are not shown.
        pool_namespace: the namespace whose pools are shown, with cluster-scoped pools; empty for
            all.
        not_read: the lists that the user may not read.
    """

    pools: Informer[NetworkPool]
    allocations: Informer[IPAllocation]
    clusters: Informer[TenantCluster]
    providers: Informer[ProviderConfig]
    events: Informer[ReadEvent]
    others: "LiveViews | None" = None
    pool_namespace: str = ""
    not_read: Sequence[NotRead] = ()

    @classmethod
    def from_transport(
        cls,
        transport: Transport,
        clock: Clock,
        *,
        pool_namespace: str = "",
        not_read: Sequence[NotRead] = (),
    ) -> "PageInformers":
        """Return informers of a cluster, with those of all platforms; the caller runs them.

        Args:
            transport: a connection to the cluster's API server.
            clock: the time.
            pool_namespace: the namespace whose pools are shown; empty for all.
            not_read: the lists that the user may not read; they are not watched.
        """
        # Imported here, because only this constructor shows all platforms.
        from reconcilers.integrations.live import LiveViews  # noqa: PLC0415

        def make_informer(resource: Resource[Any]) -> Informer[Any]:
            """Return an informer of the namespaces of a kind that the user may read."""
            namespace = find_readable_namespace(resource, not_read) or ""
            return Informer(resource, transport, clock, namespace=namespace, streams=True)

        pools = make_informer(NETWORK_POOL)
        return cls(
            pools,
            make_informer(IP_ALLOCATION),
            clusters=make_informer(TENANT_CLUSTER),
            providers=make_informer(PROVIDER_CONFIG),
            events=make_event_informer(
                transport, clock, namespace=find_readable_namespace(NETWORK_POOL, not_read) or ""
            ),
            others=LiveViews(transport, clock, pools.cache, not_read=not_read),
            pool_namespace=pool_namespace,
            not_read=not_read,
        )

    @property
    def kinds(self) -> Sequence[Informer[Any]]:
        """The informers of our kinds that the user may read, at least in one namespace."""
        return [
            informer
            for informer in (self.pools, self.allocations, self.clusters, self.providers)
            if find_readable_namespace(informer.resource, self.not_read) is not None
        ]

    async def wait_until_read(self) -> None:
        """Wait until each kind has been listed, or a request for it has failed."""
        for informer in self.kinds:
            await informer.wait_attempted()

    @property
    def other_pool_tasks(self) -> list[Task]:
        """The tasks that keep other platforms' pools current; empty if they are not shown."""
        return [self.others.run] if self.others is not None else []

    @property
    def names(self) -> list[PoolName]:
        """The pools that can be shown now, in order: NetworkPools first."""
        network_pools = sorted(pool.metadata.key for pool in self.pools.cache)
        others = self.others.list_pool_names() if self.others is not None else []
        names_of_pools = [*(PoolName(NETWORK_POOL.kind, key) for key in network_pools), *others]
        return [name for name in names_of_pools if self._is_namespace_shown(name.key.namespace)]

    def _is_namespace_shown(self, namespace: str) -> bool:
        """Return whether pools of a namespace are shown; cluster-scoped pools always are."""
        return not namespace or self.pool_namespace in {"", namespace}

    def collect_objects(self, is_wanted: Wanted = want_every_pool) -> Objects:
        """Return the current objects of all caches.

        Args:
            is_wanted: returns whether the views of other platforms include a pool.
        """
        unreadable = {
            (informer.resource.kind, key): reason
            for informer in self.kinds
            for key, reason in informer.cache.unreadable.items()
        }
        views = self.others.build_views(is_wanted) if self.others is not None else Views()
        not_read = self._list_own_not_read()
        return Objects(
            _index_by_key(self.pools.cache),
            _index_by_key(self.allocations.cache),
            clusters=_index_by_key(self.clusters.cache),
            providers=_index_by_key(self.providers.cache),
            unreadable=unreadable,
            owners_known=all(limit.kind != TENANT_CLUSTER.full_name for limit in not_read),
            integrations=views,
            not_read=not_read,
        ).select_namespace(self.pool_namespace)

    def _list_own_not_read(self) -> list[NotRead]:
        """Return the lists of our kinds that are forbidden to the user, or not complete yet."""
        unlisted = [informer for informer in self.kinds if not informer.cache.is_synced]
        return [*self.not_read, *(NotRead(informer.resource.full_name) for informer in unlisted)]

    def list_all_not_read(self) -> list[NotRead]:
        """Return all lists that the user may not read, that fail, or that are not complete yet."""
        return [
            *self._list_own_not_read(),
            *(self.others.list_not_read() if self.others is not None else ()),
        ]

    def on_change(self, report: Callable[[Collection[PoolName]], None]) -> None:
        """Call `report` after each later change, with the pools that the change concerns.

        A change of another kind is reported with no pool.
        """

        def report_allocation(change: Change[IPAllocation]) -> None:
            """Report the pools of the allocation before and after the change."""
            allocations = (
                allocation for allocation in (change.old, change.new) if allocation is not None
            )
            report(
                [PoolName(NETWORK_POOL.kind, allocation.pool_key) for allocation in allocations]
            )

        def report_pool(change: Change[NetworkPool]) -> None:
            """Report the changed pool."""
            pools = (pool for pool in (change.old, change.new) if pool is not None)
            report([PoolName(NETWORK_POOL.kind, pool.metadata.key) for pool in pools])

        def report_other(_: Change[Any]) -> None:
            """Report a change that concerns no pool."""
            report([])

        self.allocations.cache.subscribe(report_allocation)
        self.pools.cache.subscribe(report_pool)
        for informer in (self.clusters, self.providers, self.events):
            informer.cache.subscribe(report_other)
        if self.others is not None:
            self.others.on_change(report)

    def list_failures(self) -> Iterator[str]:
        """Yield the reasons why the objects may be stale or incomplete, as sentences."""
        if self.not_read:
            kinds = ", ".join(map(str, self.not_read))
            yield f"you may not read {kinds}: what they hold is not shown"
        for informer in (*self.kinds, self.events):
            if informer.last_error is not None:
                yield str(informer.last_error)
        if self.others is not None:
            yield from self.others.list_failures()


def make_event_informer(
    transport: Transport, clock: Clock, *, namespace: str = ""
) -> Informer[ReadEvent]:
    """Return an informer of our controllers' events in a namespace; empty for all namespaces."""
    return Informer(
        READ_EVENTS, transport, clock, namespace=namespace, fields=OUR_EVENTS, streams=True
    )


def _index_by_key(cache: Cache[Any]) -> dict[Key, Any]:
    """Return the objects of a cache by namespace and name."""
    objects: dict[Key, Object] = {obj.metadata.key: obj for obj in cache}
    return objects
