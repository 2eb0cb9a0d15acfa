"""A management cluster in memory under the real manager, on a virtual clock."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from controller.manager import Manager
from controller.options import ManagerOptions
from reconcilers.configuration.settings import Settings
from reconcilers.wiring import assemble
from tests.clock import VirtualClock
from tests.reconcilers import make
from tests.reconcilers.lab import SETTINGS_WITHOUT_WAITS, TENANT_KINDS
from tests.reconcilers.server import Server


class Platform:
    """A management cluster, its tenants, and the manager."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or SETTINGS_WITHOUT_WAITS
        self.clock = VirtualClock()
        self.server = Server(self.clock)
        self.tenants: dict[str, Server] = {}

    def tenant(self, name: str, namespace: str = "team") -> Server:
        """Start a tenant's API server, and store the way into it."""
        self.tenants[name] = Server(self.clock, TENANT_KINDS)
        meta = {"name": f"{name}-admin-kubeconfig", "namespace": namespace}
        encoded = _base64(name)
        self.server.add("secrets", {"metadata": meta, "data": {"admin.conf": encoded}})
        return self.tenants[name]

    def phase(self, plural: str, name: str, namespace: str = make.NAMESPACE) -> str | None:
        """Return the phase of an object; None if it has none or is not there."""
        stored = self.server.objects.get((plural, namespace, name))
        phase: str | None = (stored or {}).get("status", {}).get("phase")
        return phase

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Manager]:
        """Run a manager while the context lasts."""
        manager = Manager(
            self.server, clock=self.clock, options=ManagerOptions(detect_mutations=True)
        )
        tenants = assemble(
            manager,
            self.clock,
            settings=self.settings,
            open_tenant=lambda config: self.tenants[config.decode()],
        )
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await self.clock.advance(0.01)
            yield manager
            group.cancel_scope.cancel()
        await tenants.aclose()


def _base64(content: str) -> str:
    return base64.b64encode(content.encode()).decode()
