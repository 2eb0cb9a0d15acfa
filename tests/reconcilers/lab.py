"""A management cluster in memory with the real client, caches and reconcilers around it.

    lab = Lab()
    lab.server.add("networkpools", make.pool())
    outcome = await lab.run_pool_pass()   # one pass, as the runner would begin it

Caches receive every change at once. `hold_events` stops the events of a kind: its cache then shows
an older state, like that of a slow replica, until `deliver_events` delivers the events.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.codec import Added, Deleted, Modified, Unreadable, decode_event
from controller.events import Recorder
from controller.meta import Key
from controller.outcome import Outcome
from controller.testing import WriteRecord
from controller.transport import Transport
from reconcilers.api.ipallocation import (
    POOL_INDEX,
    TENANT_INDEX,
    IPAllocation,
    index_by_pool,
    index_by_tenant,
)
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.clusteraccess.clusteridentity import ClusterIdentity
from reconcilers.clusteraccess.managementcaches import Caches
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.configuration.settings import Settings, TenantSettings
from reconcilers.ipallocation.reconciler import IPAllocationReconciler
from reconcilers.ipallocation.release import InUse, ReleaseCheck, Released
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.metallb.adapter import MetalLBKind
from reconcilers.loadbalancers.port import LoadBalancerKind
from reconcilers.networkpool.claims import ClaimService
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.orphans import OrphanCollector
from reconcilers.networkpool.otherholders import ObservedRanges
from reconcilers.networkpool.poolkind import NetworkPoolPasses, make_networkpool_passes
from reconcilers.providerconfig.reconciler import ProviderConfigReconciler
from reconcilers.tenantcluster.ownership.identity import TenantIdentities
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.tenantcluster.release.check import TenantReleaseCheck
from reconcilers.tenantcluster.release.teardown import VanishedClusters
from reconcilers.wiring.tenants import make_tenant_parts
from tests.clock import VirtualClock
from tests.reconcilers.make import NAMESPACE
from tests.reconcilers.server import Json, Server

TENANT_KINDS = ("services", "ipaddresspools", "l2advertisements", "namespaces")
SETTINGS_WITHOUT_WAITS = Settings(tenant=TenantSettings(metallb_wait=0))
"""The defaults, for tenants in which nothing takes time unless a test says so."""


class Recorded:
    """An event recorder that keeps every event in lists instead of writing it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.related: list[str] = []
        self.subjects: list[tuple[str, str]] = []

    def record(
        self,
        resource: Any,
        obj: Any,
        kind: str,
        reason: str,
        message: str,
        *,
        action: str,
        related: Any = None,
    ) -> None:
        """Keep an event of type `kind`, its subject `obj`, and the name of its related object."""
        self.events.append((kind, reason, message))
        self.subjects.append((resource.kind, obj.metadata.name))
        self.related.append(related[1].metadata.name if related else "")

    @property
    def reasons(self) -> list[str]:
        """The reasons of all events, oldest first."""
        return [reason for _, reason, _ in self.events]


class OpenGate(ReleaseCheck):
    """A release check that confirms every release, unless a test sets `why` or `real`."""

    def __init__(self) -> None:
        self.why = ""
        """Why ranges are still in use; empty if they are not."""
        self.real: ReleaseCheck | None = None
        """The check that answers instead; None if this one answers."""

    @override
    async def check(self, allocation: IPAllocation, mark: int) -> Released | InUse:
        if self.real is not None:
            return await self.real.check(allocation, mark)
        return InUse(self.why) if self.why else Released("no Service has it")


class Replica:
    """One process: its caches, and the reconcilers over them.

    Args:
        lab: the clusters.
        kind: the load balancer of tenants that name no other; None for MetalLB.
        kinds: further load balancers, by the provider that a TenantCluster names.
    """

    def __init__(
        self,
        lab: "Lab",
        kind: LoadBalancerKind | None = None,
        kinds: Mapping[str, LoadBalancerKind] | None = None,
    ) -> None:
        self.lab = lab
        server, clock, settings = lab.server, lab.clock, lab.settings
        self.caches: dict[str, Cache[Any]] = {
            "networkpools": Cache(NETWORK_POOL),
            "ipallocations": Cache(
                IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool, TENANT_INDEX: index_by_tenant}
            ),
            "tenantclusters": Cache(TENANT_CLUSTER),
            "providerconfigs": Cache(PROVIDER_CONFIG),
        }
        self._held: dict[str, list[WriteRecord]] = {}
        for plural, cache in self.caches.items():
            items = [msgspec.convert(o, cache.resource.type) for o in server.all(plural)]
            cache.replace(items, server.revision)
        server.listeners.append(self._deliver)
        self.client = Client(server, on_object=self._apply_answer)
        self.recorded = Recorded()
        self.gate = OpenGate()
        recorder = cast("Recorder", self.recorded)
        pools, allocations, clusters, providers = self.caches.values()
        management = ClusterIdentity(self.client, clock)
        by_default = kind or MetalLBKind(clock, settings.tenant)
        balancers = LoadBalancerKinds({DEFAULT_LOAD_BALANCER: by_default, **(kinds or {})})
        guard = TenantIdentities(management, clusters, allocations=allocations, kinds=balancers)
        self.records = TenantRecords()
        self.tenants = TenantClients(
            self.client,
            settings.tenant,
            clock=clock,
            accesses=self.records,
            open_transport=lab.open_tenant,
            guard=guard,
        )
        self.pools = self.make_pool_reconciler()
        self.allocations = IPAllocationReconciler(
            self.client,
            allocations,
            pools=pools,
            release=self.gate,
            clock=clock,
            settings=settings.allocation,
        )
        self.providers = ProviderConfigReconciler(
            self.client,
            providers,
            pools=pools,
            clusters=clusters,
            recorder=recorder,
            clock=clock,
            settings=settings,
        )
        self.orphans = OrphanCollector(
            self.client,
            pools=pools,
            allocations=allocations,
            clusters=clusters,
            recorder=recorder,
            clock=clock,
            settings=settings.orphans,
        )
        vanished = VanishedClusters(clusters, allocations, records=self.records, clock=clock)
        caches = Caches(pools, allocations, clusters=clusters, providers=providers)
        self.tenant_gate = TenantReleaseCheck(
            self.client,
            caches,
            vanished=vanished,
            records=self.records,
            tenants=self.tenants,
            kinds=balancers,
            recorder=recorder,
            clock=clock,
            settings=settings.tenant,
        )
        tenant_parts = make_tenant_parts(
            self.client,
            caches,
            kinds=balancers,
            tenants=self.tenants,
            vanished=vanished,
            records=self.records,
            release=self.gate,
            recorder=recorder,
            clock=clock,
            settings=settings,
        )
        self.clusters = tenant_parts.reconciler
        self.choice, self.services = tenant_parts.choice, tenant_parts.services

    def use_real_release_check(self) -> None:
        """Let the release check ask the tenants, instead of confirming every release."""
        self.gate.real = self.tenant_gate

    def make_pool_reconciler(
        self,
        *,
        client: Client | None = None,
        recorder: Recorder | None = None,
        claims: ClaimService | None = None,
        observed: ObservedRanges | None = None,
    ) -> NetworkPoolPasses:
        """Return a new reconciler of the NetworkPools in this replica's caches.

        Args:
            client: sends its requests; None for the client of this replica.
            recorder: takes its events; None for the recorder of this replica.
            claims: serves claims of Cluster API; None if they are not served.
            observed: the ranges that another allocator has given; None for none.
        """
        clock, settings = self.lab.clock, self.lab.settings.pool
        recorder = recorder or cast("Recorder", self.recorded)
        return make_networkpool_passes(
            client or self.client,
            self.caches["networkpools"],
            allocations=self.caches["ipallocations"],
            events=PoolEvents(recorder, clock, settings.event_interval),
            clock=clock,
            settings=settings,
            claims=claims,
            observed=observed,
        )

    def hold_events(self, *plurals: str) -> None:
        """Stop delivering events of these kinds to the caches, until `deliver_events`."""
        for plural in plurals:
            self._held.setdefault(plural, [])

    def deliver_events(self) -> None:
        """Deliver the events that `hold_events` kept back, by revision, and all later events."""
        held_events, self._held = self._held, {}
        for record in sorted(
            (event for events in held_events.values() for event in events),
            key=lambda event: event.revision,
        ):
            self._deliver(record)

    def _deliver(self, record: WriteRecord) -> None:
        """Apply an event to the cache of its kind, or keep it back if that kind is held."""
        plural = record.plural
        if plural in self._held:
            self._held[plural].append(record)
        elif plural in self.caches:
            cache = self.caches[plural]
            line = msgspec.json.encode({"type": record.type, "object": record.object})
            event = decode_event(cache.resource, line)
            assert isinstance(event, Added | Modified | Deleted | Unreadable)
            cache.apply(event)

    def _apply_answer(self, resource: Any, obj: Any) -> None:
        """Put the object that answers a write into its cache, ahead of the watch."""
        if resource.plural in self.caches:
            self.caches[resource.plural].apply_own_write(obj)


class Lab(Replica):
    """One management cluster, its tenants by name, and one replica; more can be added."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or SETTINGS_WITHOUT_WAITS
        self.clock = VirtualClock()
        self.server = Server(self.clock)
        self.tenant_servers: dict[str, Server] = {}
        super().__init__(self)

    def make_replica(self) -> Replica:
        """Return a second replica with caches of its own, which also believes that it leads."""
        return Replica(self)

    def start_tenant_server(
        self, name: str, served_kinds: Iterable[str] = TENANT_KINDS, *, namespace: str = "team"
    ) -> Server:
        """Start a tenant's API server, and store a kubeconfig Secret that consists of `name`."""
        server = self.tenant_servers[name] = Server(self.clock, tuple(served_kinds))
        secret = {
            "metadata": {"name": f"{name}-admin-kubeconfig", "namespace": namespace},
            "data": {"admin.conf": base64.b64encode(name.encode()).decode()},
        }
        self.server.add("secrets", secret)
        return server

    def open_tenant(self, kubeconfig: bytes) -> Transport:
        """Return the API server of the tenant whose name is the kubeconfig."""
        return self.tenant_servers[kubeconfig.decode()]

    async def run_pool_pass(self, name: str = "lab") -> Outcome:
        """Run one pass over a pool."""
        return await self.pools.reconcile(Key(NAMESPACE, name))

    async def run_allocation_pass(self, name: str) -> Outcome:
        """Run one pass over an allocation."""
        return await self.allocations.reconcile(Key(NAMESPACE, name))

    async def run_provider_pass(self, name: str = "default") -> Outcome:
        """Run one pass over a ProviderConfig."""
        return await self.providers.reconcile(Key(NAMESPACE, name))

    async def run_cluster_pass(self, name: str = "a", namespace: str = "team") -> Outcome:
        """Run one pass over a TenantCluster."""
        return await self.clusters.reconcile(Key(namespace, name))

    async def run_until_at_rest(self, limit: int = 60) -> int:
        """Run passes over all objects, once a second, until such a round changes nothing.

        From here on, the real release check asks the tenants. Returns the number of rounds that
        made changes.
        """
        self.use_real_release_check()
        for number in range(limit):
            before = self._list_revisions()
            await self._run_round()
            await self.clock.advance(1)
            if self._list_revisions() == before:
                return number
        raise AssertionError(f"still not at rest after {limit} rounds")

    async def run_rounds(self, cluster: str, number: int) -> None:
        """Run `number` rounds of passes, one a second, even if a round changes nothing.

        A round passes over the objects that the caches show. The caches may not show the
        TenantCluster `cluster`, so each round ends with a pass over it. From the first round on,
        the real release check asks the tenants.
        """
        self.use_real_release_check()
        for _ in range(number):
            await self._run_round()
            await self.run_cluster_pass(cluster)
            await self.clock.advance(1)

    def _list_revisions(self) -> list[int]:
        return [server.revision for server in (self.server, *self.tenant_servers.values())]

    async def _run_round(self) -> None:
        """Run one pass over each object that the caches show."""
        reconcilers: dict[str, Any] = {
            "tenantclusters": self.clusters,
            "ipallocations": self.allocations,
            "networkpools": self.pools,
            "providerconfigs": self.providers,
        }
        for plural, reconciler in reconcilers.items():
            for key in sorted(obj.metadata.key for obj in self.caches[plural]):
                await reconciler.reconcile(key)

    def read_status(self, plural: str, name: str, namespace: str = NAMESPACE) -> Json:
        """Return the status of an object; empty if it has none."""
        status: Json = self.server.see(plural, name, namespace=namespace).get("status") or {}
        return status

    def find_condition(
        self, plural: str, name: str, kind: str, namespace: str = NAMESPACE
    ) -> Json:
        """Return one condition of an object; empty if it has none of that type."""
        conditions = self.read_status(plural, name, namespace).get("conditions") or []
        return next((dict(c) for c in conditions if c["type"] == kind), {})
