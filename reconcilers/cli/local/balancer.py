"""The load balancers of tenants on this machine: their base class, and waiting for their kinds.

The output names a stand-in as a stand-in, never as the real load balancer.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from anyio.abc import TaskStatus

from controller.clock import Clock
from controller.conditions import is_true
from controller.errors import ControllerError
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.loggers import get_logger
from controller.meta import Key
from controller.resource import Resource
from controller.transport import Transport
from reconcilers.cli.local.servers import ApiServer, Definitions, require_envtest
from reconcilers.cli.problems import CommandProblem
from reconcilers.loadbalancers.metallb.installation.installer import AppliedObject

PAUSE = 0.1
"""Seconds between two requests that find out whether a kind is served."""

_log = get_logger(__name__)


DEFINITION = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    AppliedObject,
    namespaced=False,
)
"""CustomResourceDefinition, whose status says whether its kind is served."""


class LocalBalancer(ABC):
    """A load balancer for tenants on this machine: the real one, or a stand-in for it."""

    title: str
    """The name of the load balancer, also if this is a stand-in for it."""
    provider: str
    """How a TenantCluster names it."""
    source: str
    """Whether it is real, and where it is from."""
    kinds: Sequence[Resource[Any]]
    """The kinds of objects that the controllers write into a tenant: that of pools first."""
    namespaces: Sequence[str] = ()
    """The namespaces that the load balancer needs in a tenant."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in the output; says whether this is a stand-in."""
        ...

    @abstractmethod
    async def read_definitions(self) -> Definitions:
        """Return the CustomResourceDefinitions of its kinds.

        Raises:
            PlaneError: the program that has them cannot be used.
        """
        ...

    @abstractmethod
    def list_entries(self, pool: Any) -> Sequence[str]:
        """Return the ranges of one of its pools, as `start-end`."""
        ...

    @asynccontextmanager
    async def serve(
        self, server: ApiServer, clock: Clock, definitions: Definitions, *, is_installed: bool
    ) -> AsyncIterator[None]:
        """Run the load balancer in a tenant for the time of the context.

        Args:
            server: the tenant's API server.
            clock: for everything that waits.
            definitions: the CustomResourceDefinitions of its kinds.
            is_installed: whether the API server serves its kinds already. If it does, the load
                balancer runs when the context begins; else it starts once they are served.

        Raises:
            CommandProblem: the load balancer does not start, or has ended; the message names the
                tenant and the reason.
        """
        async with anyio.create_task_group() as group:
            if is_installed:
                await group.start(self._run, server, clock, definitions)
            else:
                group.start_soon(self._run, server, clock, definitions)
            yield
            # A load balancer runs until it is cancelled.
            group.cancel_scope.cancel()

    @abstractmethod
    async def _run(
        self,
        server: ApiServer,
        clock: Clock,
        definitions: Definitions,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Wait until the kinds are served, then run the load balancer until cancelled.

        Args:
            task_status: `started` is called once the load balancer runs.
        """
        ...


@contextmanager
def name_tenant_in_failures(title: str, server: ApiServer) -> Iterator[None]:
    """Raise a failure of a load balancer's program as a CommandProblem that names the tenant."""
    require_envtest()
    from envtest import PlaneError

    try:
        yield
    except PlaneError as failure:
        raise CommandProblem(f"{title} of {server.name}: {failure}") from failure


def is_established(definition: AppliedObject) -> bool:
    """Return whether the API server serves the kind that a definition defines."""
    return is_true(definition.status.conditions or (), "Established")


async def wait_until_established(
    transport: Transport, clock: Clock, definitions: Definitions
) -> None:
    """Wait until all definitions are established: the API server has accepted their kinds."""
    needed = [Key("", definition["metadata"]["name"]) for definition in definitions]
    informer = Informer(DEFINITION, transport, clock)
    done = anyio.Event()

    def check_established(_: object) -> None:
        """Set `done` if all definitions are established."""
        established = [informer.cache.get(key) for key in needed]
        if all(
            definition is not None and is_established(definition) for definition in established
        ):
            done.set()

    informer.add_handler(check_established)
    async with run_in_background([informer.run]):
        await done.wait()


async def wait_until_listed(
    transport: Transport, clock: Clock, definitions: Iterable[Mapping[str, Any]]
) -> None:
    """Wait until all kinds that the definitions define can be listed.

    For a moment, a kind may be established but not served. A real controller that starts in this
    moment retries only after ten seconds.
    """
    for spec in (definition["spec"] for definition in definitions):
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            while version["served"] and not await _is_listed(transport, path):
                await clock.sleep(PAUSE)


async def _is_listed(transport: Transport, path: str) -> bool:
    """Return whether the API server answers a LIST of a kind; an error is logged."""
    try:
        await transport.request("GET", path, query={"limit": "1"})
    except ControllerError as failure:
        _log.info("a kind is not served yet", path=path, error=str(failure))
        return False
    return True
