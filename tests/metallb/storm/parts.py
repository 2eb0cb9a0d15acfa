"""The processes that a storm strikes: replicas, MetalLBs, and the API servers with their etcds."""

import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from envtest.metallb import MetalLB, metallb_controller
from envtest.settings import read_settings
from tests.faults.parts import Parts, taken_apart
from tests.metallb.site import Site, Tenant
from tests.reconcilers.cli.commands import Running, started

FLAGS = (
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--leader-elect=true",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=400ms",
    "--allocation-requeue-releasing=200ms",
    "--tenant-requeue-deleting=200ms",
    "--tenant-requeue-young=1s",
    "--tenant-requeue-not-ready=1s",
    "--growth-when-exhausted=500ms",
    "--growth-after=2s",
    "--shrink-after=3s",
)


@dataclass(frozen=True)
class Part:
    """A process that can be struck.

    Args:
        name: for people.
        pid: returns the number of its process.
        kill: ends it as `kill -9` does.
        start: starts it anew, after `kill`.
    """

    name: str
    pid: Callable[[], int]
    kill: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]

    async def strike(self, choices: random.Random) -> str:
        """Kill it or freeze it, for as long as `choices` say; return what was done."""
        seconds = choices.uniform(0.0, 2.0)
        if choices.random() < 0.5:
            os.kill(self.pid(), signal.SIGSTOP)
            try:
                await anyio.sleep(2 * seconds)  # the fault itself, not a wait for a state
            finally:
                os.kill(self.pid(), signal.SIGCONT)
            return f"{self.name} frozen for {2 * seconds:.1f} s"
        await self.kill()
        await anyio.sleep(seconds)
        await self.start()
        return f"{self.name} killed, and started {seconds:.1f} s later"


class Replica:
    """A replica of the controllers, started again when it was killed.

    Args:
        kubeconfig: of the management cluster.
        stack: with which it ends.
    """

    def __init__(self, kubeconfig: Path, stack: AsyncExitStack) -> None:
        self._kubeconfig = kubeconfig
        self._stack = stack
        self._running: Running | None = None

    async def start(self) -> None:
        """Start it; it need not lead."""
        arguments = ("run", f"--kubeconfig={self._kubeconfig}", *FLAGS)
        self._running = await self._stack.enter_async_context(started(*arguments))

    def pid(self) -> int:
        """Return the number of its process."""
        assert self._running is not None
        return self._running.process.pid

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        assert self._running is not None
        await self._running.stop(signal.SIGKILL)

    def part(self, number: int) -> Part:
        """Return it as something to strike."""
        return Part(f"replica {number}", self.pid, self.kill, self.start)


class RestartedMetalLB:
    """MetalLB in a tenant, started again when it was killed."""

    def __init__(self, tenant: Tenant, stack: AsyncExitStack) -> None:
        self._tenant = tenant
        self._stack = stack
        self._metallb: MetalLB = tenant.metallb

    def pid(self) -> int:
        """Return the number of its process."""
        return self._metallb.pid

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        os.kill(self.pid(), signal.SIGKILL)

    async def start(self) -> None:
        """Start another one."""
        settings = replace(read_settings(), stop_seconds=1.0)
        text = self._tenant.plane.kubeconfig()
        self._metallb = await self._stack.enter_async_context(metallb_controller(text, settings))

    def part(self) -> Part:
        """Return it as something to strike."""
        name = f"MetalLB of {self._tenant.key.name}"
        return Part(name, self.pid, self.kill, self.start)


def servers(name: str, parts: Parts) -> tuple[Part, Part]:
    """Return etcd and kube-apiserver of a control plane as parts to strike."""
    return (
        Part(f"etcd of {name}", lambda: parts.etcd_pid, parts.kill_etcd, parts.start_etcd),
        Part(
            f"kube-apiserver of {name}",
            lambda: parts.apiserver_pid,
            parts.kill_apiserver,
            parts.start_apiserver,
        ),
    )


@asynccontextmanager
async def started_parts(here: Site) -> AsyncIterator[list[Part]]:
    """Start two replicas; yield all that can be struck."""
    async with AsyncExitStack() as stack:
        parts: list[Part] = []
        for number in (1, 2):
            replica = Replica(here.kubeconfig, stack)
            await replica.start()
            parts.append(replica.part(number))
        planes = {"management": here.plane}
        planes |= {name: tenant.plane for name, tenant in here.tenants.items()}
        for name, plane in planes.items():
            parts += servers(name, await stack.enter_async_context(taken_apart(plane)))
        for tenant in here.tenants.values():
            parts.append(RestartedMetalLB(tenant, stack).part())
        yield parts
