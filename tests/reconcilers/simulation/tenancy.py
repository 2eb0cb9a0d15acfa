"""The tenants' simulation: tenants, Services, MetalLB, and replicas that all believe they lead.

Our code is real. Every request, to the management cluster and into the tenants, is on its way
until the seed lets it run: late, after its sender gave up or died, or with its answer lost. Caches
lag, replicas die or freeze, tenants are unreachable, Services come and go, allocations and
clusters are deleted. In the calm after this storm all requests are served and nothing changes any
more; then the clusters are deleted, and every address has to be released.
"""

import asyncio
import base64
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol, cast

import anyio
from anyio.abc import TaskGroup

from controller.meta import Key
from controller.testing import HeldRequest
from reconcilers.configuration.settings import Settings, TenantSettings
from reconcilers.loadbalancers.port import LoadBalancerKind
from tests.clock import VirtualClock, settle
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service
from tests.reconcilers.lab import TENANT_KINDS, Lab, Replica
from tests.reconcilers.server import Server
from tests.reconcilers.simulation import tenantlaws
from tests.reconcilers.simulation.chaos import play_silently
from tests.reconcilers.simulation.routes import Route, deliver

TENANTS = ("a", "b")
SETTINGS = Settings(
    tenant=TenantSettings(
        growth_after=1.0, shrink_after=8.0, teardown_grace=1e9, metallb_wait=0.0
    ),
)


@dataclass(frozen=True)
class Faults:
    """What goes wrong in a run, and how often.

    Args:
        steps: how long the run lasts.
        use: how often a Service comes or goes, or MetalLB stops or goes on, of all steps.
        trouble: how often a replica dies or freezes, an object is deleted, or a tenant is out of
            order.
        outages: whether tenants are out of order for a while.
        secrets: whether kubeconfigs are gone for a while.
        clusters: whether TenantClusters are deleted and created again.
        force: whether they also vanish without being torn down.
        counting: whether MetalLB counts its pools' addresses, and goes by old ones after a pause;
            else it reads at once.
        families: whether pool and clusters have both families, and Services ask for either.
        kinds: whether the balancer's kinds go from a tenant for a while, with all objects.
        edits: whether people change what Cilium is offered.
        calm: whether what follows the run is checked, too.
        settings: the controllers'.
    """

    steps: int = 260
    use: float = 0.08
    trouble: float = 0.03
    outages: bool = True
    secrets: bool = True
    clusters: bool = True
    force: bool = False
    counting: bool = False
    families: bool = False
    kinds: bool = False
    edits: bool = False
    calm: bool = True
    settings: Settings = SETTINGS


FORCE = Faults(trouble=0.1, force=True)
"""Clusters come and go, and some of them vanish without being torn down."""
COUNTING = Faults(use=0.2, trouble=0.1, counting=True)
"""MetalLB stands still now and then, and goes by what it had read before when it goes on."""
FAMILIES = Faults(use=0.15, trouble=0.06, families=True)
"""A pool of two families, clusters that require both, Services that want one or both."""
WAIT = 3.0
WAITING = Faults(
    use=0.15,
    trouble=0.08,
    kinds=True,
    settings=replace(SETTINGS, tenant=replace(SETTINGS.tenant, metallb_wait=WAIT)),
)
"""A balancer that shows nothing is waited for, also while its kinds come and go."""
EDITED = Faults(use=0.15, trouble=0.15, edits=True)
"""People change the pools of Cilium, also to what the operator cannot read."""
_ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]},
    {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]},
    {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]},
)


class TenantBalancer(Protocol):
    """The process in a tenant that hands out addresses."""

    paused: bool

    def resume(self) -> None:
        """Work again after a pause."""
        ...


class Tenancy:
    """A run of one seed with two replicas, two tenants and a pool of four addresses.

    Args:
        seed: decides everything that happens.
        faults: which faults happen how often.
    """

    served_kinds: ClassVar[tuple[str, ...]] = TENANT_KINDS

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.random = random.Random(seed)
        self.faults = faults or Faults()
        self.clock = VirtualClock()
        self.server = Server(self.clock)
        self.tenants = {name: Server(self.clock, self.served_kinds) for name in TENANTS}
        self.balancers = {
            name: self._make_balancer(tenant) for name, tenant in self.tenants.items()
        }
        self.packets: list[HeldRequest] = []
        self.passes: dict[tuple[int, Key, str], anyio.CancelScope] = {}
        self.down: set[str] = set()
        self.number = 0
        self.problem = ""
        second = {"cidr": "fd00::/126"} if self.faults.families else None
        self.server.add("networkpools", make.pool(cidr="10.40.0.0/30", secondary=second))
        elastic = {"allocationMode": "elastic", "initialPoolSize": 1, "growthIncrement": 1}
        quota = {"maxLoadBalancerIPs": 3}
        self.server.add(
            "providerconfigs", make.provider("lab", load_balancer=elastic, quota=quota)
        )
        for name in TENANTS:
            self._make_cluster(name)
        for api_server in (self.server, *self.tenants.values()):
            api_server.listeners.append(lambda _: self._judge())
        self.replicas = [self._start_replica() for _ in range(2)]

    def play(self, *, silent: bool = True) -> str | None:
        """Play the seed; return the first violation, None for none. Log if not `silent`."""
        with play_silently(silent=silent):
            asyncio.run(self._play())
        return self.problem or None

    @property
    def number_of_writes(self) -> int:
        """How many writes took effect."""
        return sum(api_server.revision for api_server in (self.server, *self.tenants.values()))

    async def _play(self) -> None:
        """Play the storm and the calm; `problem` is the first violation."""
        async with anyio.create_task_group() as group:
            for _ in range(self.faults.steps):
                await self._step(group)
                if self.problem:
                    break
            if self.faults.calm and not self.problem:
                await self._play_calm(group)
            for packet in self.packets:
                packet.land()
            group.cancel_scope.cancel()

    def _judge(self) -> None:
        """Note an address that is at a wrong place, unless a violation is known."""
        self.problem = self.problem or tenantlaws.find_misplaced(self.server, self.tenants) or ""

    def _make_balancer(self, tenant: Server) -> TenantBalancer:
        """Return the process in a tenant that hands out addresses."""
        return Balancer(tenant, counts_addresses=self.faults.counting)

    def _make_kind(self) -> LoadBalancerKind | None:
        """Return the load balancer of the tenants, as a replica knows it; None for MetalLB."""
        return None

    # The storm.

    async def _step(self, group: TaskGroup) -> None:
        """Do one random step of the storm."""
        chance = self.random.random()
        if chance < 0.42 and self.packets:
            await self._send_packet()
        elif chance < 0.95 - 0.08 - self.faults.use - self.faults.trouble:
            self._begin_any_pass(group)
        elif chance < 0.95 - 0.08 - self.faults.trouble:
            self._act_as_user()
        elif chance < 0.95 - self.faults.trouble:
            replica = self.random.choice(self.replicas)
            if self.random.random() < 0.4:
                replica.hold_events("ipallocations", "tenantclusters")
            else:
                replica.deliver_events()
        elif chance < 0.95:
            self._disturb()
        else:
            await self.clock.advance(self.random.choice([0.5, 2, 6]))
        await settle()

    async def _send_packet(self) -> None:
        """Run a random request that is on its way, or let its sender give up waiting for it."""
        packet = self.packets.pop(self.random.randrange(len(self.packets)))
        chance = self.random.random()
        if chance < 0.06 and packet.is_awaited:  # the sender gives up; it runs later
            packet.land()
            self.packets.append(packet)
            return
        unreachable = packet.server in self.down and self.random.random() < 0.9
        deliver(packet, lost=unreachable, mute=chance > 0.96)

    def _begin_any_pass(self, group: TaskGroup) -> None:
        """Begin a random pass of a random replica."""
        replica = self.random.choice(self.replicas)
        reconciler, key = self.random.choice(self._list_passes(replica))
        self._begin_pass(group, replica, reconciler=reconciler, key=key)

    def _list_passes(self, replica: Replica) -> list[tuple[Any, Key]]:
        """Return the reconcilers of a replica, each with a key that it may reconcile."""
        allocations = sorted(
            allocation.metadata.key for allocation in replica.caches["ipallocations"]
        )
        return [
            *((replica.clusters, Key("team", name)) for name in TENANTS),
            (replica.pools, make.key("lab")),
            (tenantlaws.Orphans(replica), make.key("orphans")),
            *((replica.allocations, key) for key in allocations),
        ]

    def _begin_pass(self, group: TaskGroup, replica: Replica, reconciler: Any, key: Key) -> None:
        """Begin a pass, unless the same reconciler of the replica is working on the key."""
        mark = (id(replica), key, type(reconciler).__name__)
        if mark not in self.passes:
            self.passes[mark] = anyio.CancelScope()
            group.start_soon(self._run_pass, replica, reconciler, mark)

    async def _run_pass(
        self, replica: Replica, reconciler: Any, mark: tuple[int, Key, str]
    ) -> None:
        """Run one pass; `mark` is its key in `passes`."""
        with self.passes[mark]:
            await tenantlaws.try_pass(reconciler, mark[1])
        del self.passes[mark]
        assert replica is not None, "kept alive as long as it works: its id is in the mark"

    def _act_as_user(self) -> None:
        """Create or delete a Service, or pause MetalLB, or end its pause."""
        name = self.random.choice(TENANTS)
        tenant, balancer = self.tenants[name], self.balancers[name]
        chance = self.random.random()
        known = [service["metadata"]["name"] for service in tenant.all("services")]
        if chance < 0.25:
            balancer.paused = not balancer.paused
            if not balancer.paused:
                balancer.resume()
        elif known and (chance < 0.6 or len(known) > 3):
            tenant.vanish("services", self.random.choice(known), namespace="default")
        else:
            self.number += 1
            asked = self.random.choice(_ASKED) if self.faults.families else {}
            add_service(tenant, f"s{self.number}", spec=asked)

    def _disturb(self) -> None:
        """Do one random fault of those that `faults` allows."""
        options = [self._restart_replica, self._delete_allocation]
        if self.faults.outages:
            options.append(self._toggle_outage)
        if self.faults.secrets:
            options.append(self._toggle_secret)
        if self.faults.clusters:
            options.append(self._toggle_cluster)
        if self.faults.kinds:
            options.append(self._toggle_kinds)
        self.random.choice(options)()

    def _restart_replica(self) -> None:
        """Replace a replica that dies, or that freezes: then its passes go on, late."""
        place = self.random.randrange(len(self.replicas))
        old = self.replicas[place]
        if self.random.random() < 0.5:
            old.hold_events(*old.caches)
        else:
            for mark, scope in self.passes.items():
                if mark[0] == id(old):
                    scope.cancel()
        self.replicas[place] = self._start_replica()

    def _delete_allocation(self) -> None:
        """Delete a random allocation."""
        known = [
            allocation["metadata"]["name"]
            for allocation in self.server.all("ipallocations")
            if "deletionTimestamp" not in allocation["metadata"]
        ]
        if known:
            self.server.delete("ipallocations", self.random.choice(known))

    def _toggle_outage(self) -> None:
        """Make a tenant unreachable, or reachable again."""
        self.down ^= {self.random.choice(TENANTS)}

    def _toggle_secret(self) -> None:
        """Remove the kubeconfig of a tenant, or restore it; never that of a deleted cluster."""
        name = self.random.choice(TENANTS)
        cluster = self.server.objects.get(("tenantclusters", "team", name))
        if cluster is None or "deletionTimestamp" in cluster["metadata"]:
            return
        # An earlier cluster of this name still needs the Secret to release its ranges.
        if tenantlaws.has_earlier_allocations(self.server, name, cluster["metadata"]["uid"]):
            return
        if self.server.has("secrets", f"{name}-admin-kubeconfig", namespace="team"):
            self.server.vanish("secrets", f"{name}-admin-kubeconfig", namespace="team")
        else:
            self._make_secret(name)

    def _toggle_kinds(self) -> None:
        """Remove the balancer's kinds and their objects from a tenant, or serve them again."""
        name = self.random.choice(TENANTS)
        if self.tenants[name].served == self.served_kinds:
            self.remove_kinds(name)
        else:
            self.tenants[name].served = self.served_kinds

    def remove_kinds(self, name: str) -> None:
        """Remove the balancer's kinds from a tenant with all their objects."""
        tenant = self.tenants[name]
        for kind in set(self.served_kinds) - _KEPT_KINDS:
            for stored in tenant.all(kind):
                meta = stored["metadata"]
                tenant.vanish(kind, meta["name"], namespace=meta.get("namespace", ""))
        tenant.served = tuple(kind for kind in self.served_kinds if kind in _KEPT_KINDS)

    def _toggle_cluster(self) -> None:
        """Delete a TenantCluster, or create it again."""
        name = self.random.choice(TENANTS)
        if self.server.has("tenantclusters", name, namespace="team"):
            self._make_secret(name)
            if self.faults.force and self.random.random() < 0.5:
                self.server.vanish("tenantclusters", name, namespace="team")
            else:
                self.server.delete("tenantclusters", name, namespace="team")
        else:
            self._make_cluster(name)

    def _make_cluster(self, name: str) -> None:
        """Create a TenantCluster with a new uid, and its kubeconfig."""
        self.number += 1
        both = {"networking": {"ipFamilyPolicy": "RequireDualStack"}}
        body = make.tenant(
            name,
            spec=both if self.faults.families else None,
            status={"phase": "Ready"},
            uid=f"uid-{name}-{self.number}",
        )
        self.server.add("tenantclusters", body)
        self._make_secret(name)

    def _make_secret(self, name: str) -> None:
        """Create the kubeconfig of a tenant, unless it exists."""
        meta = {"name": f"{name}-admin-kubeconfig", "namespace": "team"}
        encoded = base64.b64encode(name.encode()).decode()
        if not self.server.has("secrets", meta["name"], namespace="team"):
            self.server.add("secrets", {"metadata": meta, "data": {"admin.conf": encoded}})

    def _start_replica(self) -> Replica:
        """Return a new replica, whose requests the seed lets run."""
        routes: Mapping[str, Route] = {
            name: Route(tenant, self.packets, name) for name, tenant in self.tenants.items()
        }
        site = SimpleNamespace(
            server=Route(self.server, self.packets, ""),
            clock=self.clock,
            settings=self.faults.settings,
            open_tenant=lambda config: routes[config.decode()],
        )
        replica = Replica(cast("Lab", site), self._make_kind())
        replica.use_real_release_check()
        return replica

    # The calm.

    async def _play_calm(self, group: TaskGroup) -> None:
        """End all faults; serve every cluster, then delete all clusters and check what is left."""
        self.down.clear()
        for name in TENANTS:
            self._make_secret(name)
            self.tenants[name].served = self.served_kinds
        for balancer in self.balancers.values():
            balancer.resume()
        for place in range(len(self.replicas)):
            self.replicas[place] = self._start_replica()
        await self._work_until_rest(group)
        gone = [n for n in TENANTS if not self.server.has("tenantclusters", n, namespace="team")]
        for name in gone:
            self._make_cluster(name)
        if gone and not self.problem:
            await self._work_until_rest(group)
        self.problem = self.problem or tenantlaws.find_unserved(self.server, self.tenants) or ""
        for name in TENANTS:
            if not self.problem:
                self.server.delete("tenantclusters", name, namespace="team")
        if not self.problem:
            await self._work_until_rest(group)
        self.problem = self.problem or tenantlaws.find_leak(self.server, self.tenants) or ""

    async def _work_until_rest(self, group: TaskGroup) -> None:
        """Work until several rounds in a row change nothing; the last ones are a minute apart."""
        quiet = 0
        for _ in range(90):
            before = [api_server.revision for api_server in (self.server, *self.tenants.values())]
            asked = len(self.server.requests)
            for replica in self.replicas:
                await self._run_all_passes(group, replica)
            after = [api_server.revision for api_server in (self.server, *self.tenants.values())]
            quiet = quiet + 1 if before == after else 0
            if self.problem:
                return
            if quiet == _RESTED and len(self.server.requests) == asked:
                return
            if quiet > _RESTED:
                requests = self.server.requests[asked:]
                self.problem = f"at rest, and still asks the management cluster: {requests}"
                return
            await self.clock.advance(2 if quiet == 0 else 70)
        self.problem = (
            f"it did not come to rest: {tenantlaws.report_places(self.server, self.tenants)}"
        )

    async def _run_all_passes(self, group: TaskGroup, replica: Replica) -> None:
        """Let a replica do each of its passes, and answer its requests at once."""
        for reconciler, key in self._list_passes(replica):
            self._begin_pass(group, replica, reconciler=reconciler, key=key)
            await settle()
            while self.packets:
                deliver(self.packets.pop())
                await settle()
        await settle()


_KEPT_KINDS = {"services", "namespaces"}
"""What a tenant serves whatever its balancer is."""
_RESTED = 5
"""Looks without a change after which it is at rest: long enough for shrink to be over."""
