"""A tenant on a real API server with the real LB-IPAM, and our adapter without controllers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from controller.client import Client
from controller.clock import SystemClock
from controller.config import open_transport
from controller.errors import Conflict, DiscoveryIncomplete, NotFound
from controller.meta import Key
from envtest import ControlPlane
from envtest.lbipam import read_lbipam_definitions
from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from reconcilers.api.services import SERVICE
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.cilium.adapter import CiliumBalancer, CiliumKind
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, CiliumPool, make_pool_name
from reconcilers.loadbalancers.cilium.services import list_shown_addresses
from reconcilers.loadbalancers.port import (
    AllocationName,
    BalancerMemory,
    ProjectedRanges,
    Projection,
    Proven,
    Withdrawal,
    WithdrawalAnswer,
)
from tests.cilium.operators import Operator
from tests.polling import keep_looking, until
from tests.reconcilers.loadbalancers.cilium.site import (
    FIRST,
    OWNER,
    RANGES,
    NoNote,
    parse_ranges_of,
    permit_own,
)


class RealSite:
    """A tenant with an operator; the methods project into it and release, as one process does.

    Args:
        client: of the tenant.
        operator: of the tenant.
        plane: the tenant's API server.
        kubeconfig: of the tenant's administrator.

    Attributes:
        basis: the position of the cache that projections are made from.
    """

    def __init__(self, client: Client, operator: Operator, plane: Plane, kubeconfig: str) -> None:
        self.client = client
        self.operator = operator
        self.plane = plane
        self.kubeconfig = kubeconfig
        self.kind = CiliumKind(SystemClock(), wait=10.0)
        self.memory = BalancerMemory()
        self.release = BalancerMemory()
        self.basis = 100

    def make_balancer(self, memory: BalancerMemory | None = None) -> CiliumBalancer:
        """Return the adapter with a memory; None means the memory of the projection."""
        return self.kind.make_balancer(self.client, memory or self.memory)

    def make_projection(self, *allocations: AllocationName) -> Projection:
        """Return the projection of these allocations, for the present basis."""
        ranges = tuple(ProjectedRanges(name, RANGES[name]) for name in allocations)
        return Projection(ranges, self.basis, owner=OWNER)

    def advance_basis(self) -> None:
        """Let the next projection be made from a cache that has seen all withdrawals so far."""
        self.basis += 100

    async def project(self, *allocations: AllocationName) -> None:
        """Project allocations; the live read, which confirms a projection, agrees with it."""
        expected = self.make_projection(*allocations)

        async def confirm() -> Projection:
            return expected

        await self.make_balancer().project(expected, confirm, permit_own)

    async def project_and_wait(self, *allocations: AllocationName) -> None:
        """Project allocations, and wait until the operator has acknowledged their pools."""
        await self.project(*allocations)
        expected = self.make_projection(*allocations)
        await until(
            lambda: self.make_balancer().read_health(expected), lambda health: not health.reason
        )

    async def try_to_prove(self, allocation: AllocationName = FIRST) -> WithdrawalAnswer | None:
        """Try once to prove that a range is withdrawn, as the release check does.

        It reads the pools, then the Services, and then asks the adapter for a proof.

        Returns:
            The answer; None if a Service shows an address of the range, or a pool just changed.
        """
        balancer = self.make_balancer(self.release)
        reading = await balancer.read()
        if await self.list_users(allocation):
            return None
        mark = self.basis + 1
        withdrawal = Withdrawal(
            allocation,
            parse_ranges_of(allocation),
            mark=mark,
            position=mark,
            owner=OWNER,
            note=NoNote(),
        )
        try:
            return await balancer.prove_withdrawal(reading, withdrawal)
        except Conflict:
            return None

    async def keep_trying_to_prove(
        self, seconds: float, allocation: AllocationName = FIRST
    ) -> list[WithdrawalAnswer | None]:
        """Try to prove a withdrawal for some seconds; return all answers."""
        return await keep_looking(lambda: self.try_to_prove(allocation), seconds)

    async def withdraw(self, allocation: AllocationName = FIRST) -> None:
        """Withdraw a range until that is proven; the pool of the range is empty then."""
        await until(
            lambda: self.try_to_prove(allocation),
            lambda answer: isinstance(answer, Proven),
        )

    async def list_users(self, allocation: AllocationName = FIRST) -> list[str]:
        """Return the names of Services that show an address of a range."""
        spans = parse_ranges_of(allocation)
        return [
            service.metadata.name
            for service in (await self.client.list(SERVICE)).items
            for shown_address in list_shown_addresses(service)
            if any(span.contains(shown_address) for span in spans)
        ]

    async def get_pool(self, allocation: AllocationName = FIRST) -> CiliumPool:
        """Return the pool of an allocation."""
        return await self.client.get(CILIUM_POOL, Key("", make_pool_name(allocation)))

    async def create_service(self, name: str) -> None:
        """Create a Service of type LoadBalancer."""
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
        await self.client.create(SERVICE, "default", {"metadata": {"name": name}, "spec": spec})

    async def delete_services(self, *services: str) -> None:
        """Delete Services."""
        for name in services:
            await delete(self.client, SERVICE, Key("default", name))


async def _serves_pools(client: Client) -> bool:
    """Return whether Cilium's pools are served; False while its kinds are being defined."""
    try:
        return await client.is_served(CILIUM_POOL)
    except (NotFound, DiscoveryIncomplete):  # a definition comes before discovery lists it
        return False


@asynccontextmanager
async def real_site(folder: Path, program: Path) -> AsyncIterator[RealSite]:
    """Run the API server and the operator for the time of the context.

    Args:
        folder: for the kubeconfig and the log.
        program: LB-IPAM alone, or a whole operator.
    """
    async with ControlPlane.start() as plane:
        kubeconfig = plane.write_kubeconfig(folder / "tenant.kubeconfig")
        log = folder / "operator.log"
        operator = Operator(program, kubeconfig, log, defines_kinds=True)
        if not operator.is_whole:
            await plane.install_crds(await read_lbipam_definitions(read_settings()))
        async with open_transport(kubeconfig, None, user_agent="test") as transport:
            client = Client(transport)
            operator.start()
            try:
                await until(lambda: _serves_pools(client), bool)
                yield RealSite(client, operator, plane=plane, kubeconfig=kubeconfig.read_text())
            finally:
                operator.kill()
