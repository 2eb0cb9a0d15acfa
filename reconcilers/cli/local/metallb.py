"""MetalLB in tenants: the real controller where the environment has it, else a stand-in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskStatus
from typing_extensions import override

from controller.clock import Clock
from controller.manager import Manager
from controller.resource import Resource
from reconcilers.api.names import METALLB_POOL
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.cli.local.balancer import (
    LocalBalancer,
    name_tenant_in_failures,
    wait_until_established,
    wait_until_listed,
)
from reconcilers.cli.local.servers import ApiServer, Definitions, require_envtest
from reconcilers.cli.standin.controller import MetalLBStandIn
from reconcilers.cli.standin.pools import NAMESPACE, read_metallb_crds
from reconcilers.loadbalancers.metallb.kinds import (
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    IPAddressPool,
)

if TYPE_CHECKING:
    from envtest.settings import EnvironmentSettings


class StandInMetalLB(LocalBalancer):
    """The stand-in for MetalLB, in this process; also the base class for the real MetalLB."""

    title = "MetalLB"
    provider = DEFAULT_LOAD_BALANCER
    source = "a stand-in for it"
    kinds: Sequence[Resource[Any]] = (IP_ADDRESS_POOL, L2_ADVERTISEMENT)
    namespaces: Sequence[str] = (NAMESPACE,)

    @property
    @override
    def name(self) -> str:
        """Return the name in the output, which says that this is a stand-in."""
        return "stand-in for MetalLB"

    @override
    async def read_definitions(self) -> Definitions:
        """Return the definitions that the stand-in ships."""
        return read_metallb_crds()

    @override
    def list_entries(self, pool: IPAddressPool) -> Sequence[str]:
        """Return the ranges of the pool with the tenant's ranges; empty for any other pool."""
        # Another pool of the controllers, the marker, has addresses that no Service gets. By it,
        # MetalLB proves that it has read a change.
        return pool.spec.addresses if pool.metadata.name == METALLB_POOL else ()

    @override
    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        definitions: Definitions,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the stand-in's manager until cancelled."""
        await wait_until_established(server.transport, clock, definitions)
        manager = Manager(server.transport, clock=clock)
        MetalLBStandIn(manager, clock)
        task_status.started()
        await manager.run()


class RealMetalLB(StandInMetalLB):
    """MetalLB's own controller, a process for each tenant; envtest's settings name the program."""

    def __init__(self, settings: "EnvironmentSettings") -> None:
        self.source = f"real: {settings.metallb}"
        self._settings = settings
        self._version = ""

    @property
    @override
    def name(self) -> str:
        """Return the name of the real program in the output; with its version once it runs."""
        return f"MetalLB {self._version}".strip()

    @override
    async def read_definitions(self) -> Definitions:
        """Return the definitions that belong to the real program."""
        from envtest import read_metallb_definitions

        return read_metallb_definitions(self._settings)

    @override
    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        definitions: Definitions,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the program until cancelled; it starts once its kinds can be listed."""
        from envtest import run_metallb_controller

        await wait_until_established(server.transport, clock, definitions)
        await wait_until_listed(server.transport, clock, definitions)
        with name_tenant_in_failures(self.title, server):
            async with run_metallb_controller(server.kubeconfig, self._settings) as controller:
                self._version = controller.version
                task_status.started()
                await controller.raise_when_ended()


def find_metallb() -> LocalBalancer:
    """Return the MetalLB that the environment asks for.

    Raises:
        CommandProblem: this installation lacks envtest.
        PlaneError: a variable of the environment names a file that does not exist.
    """
    require_envtest()
    from envtest import read_settings

    settings = read_settings()
    return StandInMetalLB() if settings.metallb is None else RealMetalLB(settings)
