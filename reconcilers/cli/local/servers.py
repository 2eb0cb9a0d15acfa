"""API servers for the time of a context, embedded or real binaries, and the ways into them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskStatus

from controller.client import Client
from controller.codec import decode_json
from controller.tenantconfig import parse_kubeconfig, tenant_transport
from controller.transport import Transport
from reconcilers.cli.local.door import envtest
from reconcilers.cli.problems import Problem

ANSWER_LIMIT = 64 * 1024 * 1024
REQUEST_SECONDS = 30.0
EMBEDDED = "embedded API server"


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server.

    Args:
        name: what people call it here.
        url: where it listens.
        kind: `embedded` or `binaries`.
        kubeconfig: an administrator's, with everything inline.
        transport: the way into it.
        version: of Kubernetes, as it tells it.
    """

    name: str
    url: str
    kind: str
    kubeconfig: str
    transport: Transport
    version: str = ""

    @property
    def client(self) -> Client:
        """Return a client over its transport."""
        return Client(self.transport)

    @property
    def what(self) -> str:
        """What people are told that it is."""
        return EMBEDDED if self.kind == "embedded" else f"kube-apiserver {self.version}"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Transport]:
        """Give another way into it, with connections of its own."""
        transport = _transport(self.kubeconfig)
        try:
            yield transport
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()


def _transport(kubeconfig: str) -> Transport:
    return tenant_transport(
        parse_kubeconfig(kubeconfig.encode()), max_bytes=ANSWER_LIMIT, timeout=REQUEST_SECONDS
    )


@asynccontextmanager
async def api_server(
    name: str, crds: Sequence[Mapping[str, Any]], data: Path | None = None
) -> AsyncIterator[ApiServer]:
    """Start an API server that serves `crds`; it stops with the context.

    Args:
        name: what people call it.
        crds: CustomResourceDefinitions.
        data: where it keeps its objects; None forgets them.

    Raises:
        PlaneError: a variable of the environment names what is not there, or it does not start.
        Problem: a variable leads to a cluster that runs already.
    """
    _settings()
    started = envtest().ControlPlane.start(
        data=data, namespace_controller=True, garbage_collector=True
    )
    async with started as plane:
        await plane.install_crds(list(crds))
        kubeconfig = plane.kubeconfig()
        transport = _transport(kubeconfig)
        try:
            version = decode_json(await transport.request("GET", "/version"))["gitVersion"]
            yield ApiServer(name, plane.url, plane.kind, kubeconfig, transport, version)
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()


def source() -> str:
    """Return whether the API servers that are started here are real, and where they are from.

    Raises:
        PlaneError: a variable of the environment names what is not there.
        Problem: a variable leads to a cluster that runs already.
    """
    settings = _settings()
    if settings.kind == "embedded":
        return "embedded"
    programs = (settings.apiserver, settings.etcd, settings.controller_manager)
    return "real: " + ", ".join(str(program) for program in programs if program)


def _settings() -> Any:
    """Return what envtest reads from the environment."""
    settings = envtest().read_settings()
    if settings.kind == "existing":
        raise Problem(
            "USE_EXISTING_CLUSTER leads to one cluster, and this needs several of its own:"
            " unset it"
        )
    return settings


@dataclass(frozen=True, slots=True)
class Wanted:
    """An API server to be started.

    Args:
        name: what people call it.
        crds: CustomResourceDefinitions that it should serve.
    """

    name: str
    crds: Sequence[Mapping[str, Any]]


@asynccontextmanager
async def api_servers(
    wanted: Sequence[Wanted], data: Path | None = None
) -> AsyncIterator[dict[str, ApiServer]]:
    """Start API servers all at once, real ones take seconds; give them by name.

    Args:
        wanted: which.
        data: a folder with one folder for each; None forgets.
    """
    found: dict[str, ApiServer] = {}
    ended = anyio.Event()

    async def hold(one: Wanted, *, task_status: TaskStatus[None]) -> None:
        with anyio.CancelScope() as scope:
            async with api_server(one.name, one.crds, data / one.name if data else None) as server:
                found[one.name] = server
                # Ctrl-C ends those who talk to the server first.
                scope.shield = True
                task_status.started()
                await ended.wait()

    async with anyio.create_task_group() as holding:
        try:
            async with anyio.create_task_group() as starting:
                for one in wanted:
                    starting.start_soon(partial(holding.start, hold, one))
            yield found
        finally:
            ended.set()
