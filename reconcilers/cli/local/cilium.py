"""Cilium's LB-IPAM in tenants: the real one where the environment has it, else a stand-in.

No agents of Cilium run in either case, so no machine announces an address. The kinds that
configure announcements are served all the same, so that people can create objects of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskStatus
from typing_extensions import override

from controller.clock import Clock
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.resource import Resource
from reconcilers.api.tenantaddons import CILIUM
from reconcilers.cli.local.balancer import (
    LocalBalancer,
    name_tenant_in_failures,
    wait_until_established,
    wait_until_listed,
)
from reconcilers.cli.local.servers import ApiServer, Definitions, require_envtest
from reconcilers.cli.standin.lbipam import LbIpamStandIn, read_cilium_crds
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, CiliumPool, make_offer

if TYPE_CHECKING:
    from envtest.settings import EnvironmentSettings

LEASE_NAMESPACE = "kube-system"
"""Where Cilium's operator holds its Lease, if Cilium is installed as its documents say."""


class StandInLbIpam(LocalBalancer):
    """The stand-in for LB-IPAM, in this process; also the base class for the real LB-IPAM.

    The stand-in holds the Lease of Cilium's operator. The controllers read that Lease: the release
    of some ranges waits until the Lease has another holder.
    """

    title = "Cilium LB-IPAM"
    provider = CILIUM
    source = "a stand-in for it"
    kinds: Sequence[Resource[Any]] = (CILIUM_POOL,)

    @property
    @override
    def name(self) -> str:
        """Return the name in the output, which says that this is a stand-in."""
        return "stand-in for Cilium LB-IPAM"

    @override
    async def read_definitions(self) -> Definitions:
        """Return the definitions that the stand-in ships."""
        return read_cilium_crds()

    @override
    def list_entries(self, pool: CiliumPool) -> Sequence[str]:
        """Return the ranges of a pool, as `start-end`."""
        return make_offer(pool).entries

    @override
    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        definitions: Definitions,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the stand-in's manager, which leads while it holds the Lease, until cancelled."""
        await wait_until_established(server.transport, clock, definitions)
        options = ManagerOptions(
            leader_elect=True, lease_namespace=LEASE_NAMESPACE, lease_name=LEASE_NAME
        )
        manager = Manager(server.transport, clock=clock, options=options)
        LbIpamStandIn(manager, clock)
        task_status.started()
        await manager.run()


class RealLbIpam(StandInLbIpam):
    """Cilium's own LB-IPAM, a process for each tenant; envtest's settings name the program."""

    def __init__(self, settings: "EnvironmentSettings") -> None:
        self.source = f"real: {settings.lbipam}"
        self._settings = settings

    @property
    @override
    def name(self) -> str:
        """Return the name of the real program in the output."""
        return "Cilium LB-IPAM"

    @override
    async def read_definitions(self) -> Definitions:
        """Return the definitions of the program, and ours of the kinds that announce addresses."""
        from envtest import read_lbipam_definitions

        pools = await read_lbipam_definitions(self._settings)
        program_names = {definition["metadata"]["name"] for definition in pools}
        # The program has the definitions of pools. Cilium's other kinds are shipped here.
        others = [
            definition
            for definition in read_cilium_crds()
            if definition["metadata"]["name"] not in program_names
        ]
        return [*pools, *others]

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
        from envtest import run_cilium_lbipam

        await wait_until_established(server.transport, clock, definitions)
        await wait_until_listed(server.transport, clock, definitions)
        with name_tenant_in_failures(self.title, server):
            async with run_cilium_lbipam(server.kubeconfig, self._settings) as lbipam:
                task_status.started()
                await lbipam.raise_when_ended()


def find_lbipam() -> LocalBalancer:
    """Return the LB-IPAM that the environment asks for.

    Raises:
        CommandProblem: this installation lacks envtest.
        PlaneError: a variable of the environment names a file that does not exist.
    """
    require_envtest()
    from envtest import read_settings

    settings = read_settings()
    return StandInLbIpam() if settings.lbipam is None else RealLbIpam(settings)
