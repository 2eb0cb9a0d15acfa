"""MetalLB in tenants: the real controller where the environment has it, else a stand-in.

Whichever it is says so: the stand-in is never called MetalLB, and the real one gives its version.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

import anyio
from anyio.abc import TaskStatus
from typing_extensions import override

from controller.clock import Clock
from controller.conditions import is_true
from controller.errors import ControllerError
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.loggers import get_logger
from controller.manager import Manager
from controller.meta import Key
from controller.resource import Resource
from controller.transport import Transport
from reconcilers.cli.local.servers import ApiServer, Definitions, envtest
from reconcilers.cli.problems import Problem
from reconcilers.cli.standin.controller import MetalLBStandIn
from reconcilers.cli.standin.pools import crds
from reconcilers.loadbalancers.metallb.installation.installer import Applied

PAUSE = 0.1

_log = get_logger(__name__)


DEFINITION = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    Applied,
    namespaced=False,
)
"""CustomResourceDefinition, whose status says whether its kind is served."""


def is_established(definition: Applied) -> bool:
    """Return whether the API server serves the kind that a definition defines."""
    return is_true(definition.status.conditions or (), "Established")


async def wait_established(transport: Transport, clock: Clock, definitions: Definitions) -> None:
    """Return once all of these definitions are established in a tenant."""
    needed = [Key("", one["metadata"]["name"]) for one in definitions]
    informer = Informer(DEFINITION, transport, clock)
    done = anyio.Event()

    def check_established(_: object) -> None:
        found = [informer.cache.get(key) for key in needed]
        if all(one is not None and is_established(one) for one in found):
            done.set()

    informer.add_handler(check_established)
    async with run_in_background([informer.run]):
        await done.wait()


class StandIn:
    """The stand-in for MetalLB, in this process; also what the real one has in common with it."""

    source = "a stand-in for it"
    """Whether it is real, and where it is from."""

    @cached_property
    def definitions(self) -> Definitions:
        """The CustomResourceDefinitions of its kinds."""
        return crds()

    @property
    def name(self) -> str:
        """What it is called in the output."""
        return "stand-in for MetalLB"

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

    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Wait until its kinds are served, start it, wait until cancelled."""
        await wait_established(server.transport, clock, self.definitions)
        manager = Manager(server.transport, clock=clock)
        MetalLBStandIn(manager, clock)
        task_status.started()
        await manager.run()


class RealMetalLB(StandIn):
    """MetalLB's own controller, a process for each tenant; envtest's settings name the program."""

    def __init__(self, settings: Any) -> None:
        self.source = f"real: {settings.metallb}"
        self._settings = settings
        self._version = ""

    @cached_property
    @override
    def definitions(self) -> Definitions:
        found: Definitions = envtest().metallb_definitions(self._settings)
        return found

    @property
    @override
    def name(self) -> str:
        return f"MetalLB {self._version}".strip()

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
        try:
            run = envtest().metallb_controller(server.kubeconfig, self._settings)
            async with run as controller:
                self._version = controller.version
                task_status.started()
                await controller.watch()
        except envtest().PlaneError as failure:
            raise Problem(f"MetalLB of {server.name}: {failure}") from failure


def tenant_metallb() -> StandIn:
    """Return what the environment asks for.

    Raises:
        Problem: this installation lacks envtest.
        PlaneError: a variable of the environment names what is not there.
    """
    settings = envtest().read_settings()
    return StandIn() if settings.metallb is None else RealMetalLB(settings)


async def _wait_listed(
    transport: Transport, clock: Clock, definitions: Iterable[Mapping[str, Any]]
) -> None:
    """Wait until all kinds can be listed.

    One that is established may not be served for a moment; the controller would look for it again
    after ten seconds only.
    """
    for spec in (one["spec"] for one in definitions):
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
