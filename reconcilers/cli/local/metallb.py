"""MetalLB in tenants: the real controller where the environment has it, else a stand-in.

Whichever it is says so: the stand-in is never called MetalLB, and the real one tells its version.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any

import anyio
import structlog
from anyio.abc import TaskStatus
from typing_extensions import override

from controller.clock import Clock
from controller.errors import ControllerError
from controller.manager import Manager
from controller.transport import Transport
from reconcilers.cli.local.door import envtest
from reconcilers.cli.local.objects import Manifest
from reconcilers.cli.local.servers import ApiServer
from reconcilers.cli.problems import Problem
from reconcilers.cli.standin.controller import MetalLBStandIn
from reconcilers.cli.standin.crds import crds
from reconcilers.cli.standin.presence import wait_established

PAUSE = 0.1

_log = structlog.get_logger(__name__)


class TenantMetalLB(ABC):
    """What gives the Services of tenants their addresses."""

    @property
    @abstractmethod
    def definitions(self) -> Sequence[Manifest]:
        """The CustomResourceDefinitions of its kinds."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What people are told that it is."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Whether it is real, and where it is from."""

    @asynccontextmanager
    async def serve(
        self, server: ApiServer, clock: Clock, *, is_installed: bool
    ) -> AsyncIterator[None]:
        """Run it in a tenant for the time of the context.

        Args:
            server: the tenant's API server.
            clock: for everything that waits.
            is_installed: whether the API server serves its kinds already; it is ready then when
                this yields. If not, it is started when they are served.

        Raises:
            Problem: it does not start, or ended; says which tenant's, and why.
        """
        async with anyio.create_task_group() as group:
            if is_installed:
                await group.start(self._run, server, clock)
            else:
                group.start_soon(self._run, server, clock)
            yield
            group.cancel_scope.cancel()

    @abstractmethod
    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Wait until its kinds are served, start it, wait until cancelled."""


class StandIn(TenantMetalLB):
    """The stand-in for MetalLB, in this process."""

    @cached_property
    @override
    def definitions(self) -> Sequence[Manifest]:
        return crds()

    @property
    @override
    def name(self) -> str:
        return "stand-in for MetalLB"

    @property
    @override
    def source(self) -> str:
        return "a stand-in for it"

    @override
    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await wait_established(server.transport, clock, self.definitions)
        manager = Manager(server.transport, clock=clock)
        MetalLBStandIn(manager, clock)
        task_status.started()
        await manager.run()


class RealMetalLB(TenantMetalLB):
    """MetalLB's own controller, a process for each tenant.

    Args:
        settings: of envtest, which say where the program is.
    """

    def __init__(self, settings: Any) -> None:
        self._envtest = envtest()
        self._settings = settings
        self._version = ""

    @cached_property
    @override
    def definitions(self) -> Sequence[Manifest]:
        found: Sequence[Manifest] = self._envtest.metallb_definitions(self._settings)
        return found

    @property
    @override
    def name(self) -> str:
        return f"MetalLB {self._version}".strip()

    @property
    @override
    def source(self) -> str:
        return f"real: {self._settings.metallb}"

    @override
    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await wait_established(server.transport, clock, self.definitions)
        await _wait_listed(server.transport, clock, self.definitions)
        with self._naming(server):
            run = self._envtest.metallb_controller(server.kubeconfig, self._settings)
            async with run as controller:
                self._version = controller.version
                task_status.started()
                await controller.watch()

    @contextmanager
    def _naming(self, server: ApiServer) -> Iterator[None]:
        """Say whose MetalLB it is that does not run."""
        try:
            yield
        except self._envtest.PlaneError as failure:
            raise Problem(f"MetalLB of {server.name}: {failure}") from failure


def tenant_metallb() -> TenantMetalLB:
    """Return what the environment asks for.

    Raises:
        Problem: this installation lacks envtest.
        PlaneError: a variable of the environment names what is not there.
    """
    settings = envtest().read_settings()
    return StandIn() if settings.metallb is None else RealMetalLB(settings)


async def _wait_listed(
    transport: Transport, clock: Clock, definitions: Iterable[Manifest]
) -> None:
    """Wait until all kinds can be listed.

    One that is established may not be served for a moment; the controller would look for it again
    after ten seconds only.
    """
    for definition in definitions:
        spec = definition["spec"]
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            while version["served"] and not await _answers(transport, path):
                await clock.sleep(PAUSE)


async def _answers(transport: Transport, path: str) -> bool:
    try:
        await transport.request("GET", path, query={"limit": "1"})
    except ControllerError as failure:
        _log.info("a kind is not served yet", path=path, error=str(failure))
        return False
    return True
