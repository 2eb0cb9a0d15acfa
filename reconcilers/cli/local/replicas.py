"""A replica of the controllers inside this process; `butler-ipam run` is one in its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import structlog

from controller.clock import Clock
from controller.jobs import running
from controller.leases import LeaderLost
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.transport import Transport
from reconcilers.cli.local.lifeline import Lifeline
from reconcilers.cli.local.servers import ApiServer
from reconcilers.settings import Settings
from reconcilers.tenantcluster.tenants import Tenants
from reconcilers.wiring import assemble

_log = structlog.get_logger(__name__)


class Replica:
    """One replica; made by `replica`.

    Args:
        name: as which it takes part in the election.
        transport: its own way into the management cluster.
        clock: its time.
        settings: of its controllers.
        options: of its manager.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        clock: Clock,
        settings: Settings,
        options: ManagerOptions,
    ) -> None:
        self.name = name
        self._line = Lifeline(transport)
        self._is_cut_off = False
        options = replace(options, identity=name)
        self._manager = Manager(self._line, clock=clock, options=options)
        self.tenants: Tenants = assemble(self._manager, clock, settings)
        """Its ways into tenants."""

    async def run(self) -> None:
        """Work until cancelled; a replica that was cut off ends when it loses the lease.

        Raises:
            LeaderLost: it lost the lease in another way.
        """
        try:
            await self._manager.run()
        except LeaderLost as lost:
            if not self._is_cut_off:
                raise
            _log.warning("a replica that was cut off has ended", replica=self.name, why=str(lost))

    async def webhook_port(self) -> int:
        """Return where its webhooks listen, as soon as they do."""
        await self._manager.wait_serving()
        port = self._manager.webhook_port
        assert port is not None, "the options say that webhooks are served"
        return port

    async def cut_off(self) -> None:
        """Cut it off from the management cluster, for good; it does not know, and goes on."""
        self._is_cut_off = True
        await self._line.cut()


@asynccontextmanager
async def replica(
    name: str, server: ApiServer, clock: Clock, settings: Settings, options: ManagerOptions
) -> AsyncIterator[Replica]:
    """Run a replica for the time of the context."""
    async with server.connected() as transport:
        made = Replica(name, transport, clock, settings, options)
        try:
            async with running([made.run]):
                yield made
        finally:
            with anyio.CancelScope(shield=True):
                await made.tenants.aclose()
