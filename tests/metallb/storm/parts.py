"""The processes that a storm strikes: replicas, MetalLBs, and the API servers with their etcds."""

import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from anyio.abc import Process

from envtest.metallb import MetalLB, metallb_controller
from envtest.settings import read_settings
from tests.faults.parts import Parts, taken_apart
from tests.metallb.site import Site, Tenant
from tests.polling import checked
from tests.reconcilers.cli.commands import started

LEASE_SECONDS = 4
FLAGS = (
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--leader-elect=true",
    f"--leader-elect-lease-duration={LEASE_SECONDS}s",
    "--leader-elect-renew-deadline=3s",
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
        longest_freeze: the most seconds for which it is frozen.
    """

    name: str
    pid: Callable[[], Awaitable[int]]
    kill: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]
    longest_freeze: float = 4.0

    async def strike(self, choices: random.Random, *, freeze: bool) -> str:
        """Freeze it or kill it, for as long as `choices` say; return what was done."""
        if freeze:
            seconds = choices.uniform(0.0, self.longest_freeze)
            pid = await self.pid()
            os.kill(pid, signal.SIGSTOP)
            try:
                await anyio.sleep(seconds)  # the fault itself, not a wait for a state
            finally:
                os.kill(pid, signal.SIGCONT)
            return f"{self.name} frozen for {seconds:.1f} s"
        seconds = choices.uniform(0.0, 2.0)
        await self.kill()
        await anyio.sleep(seconds)
        await self.start()
        return f"{self.name} killed, and started {seconds:.1f} s later"


class Replica:
    """A replica of the controllers, started again whenever it has ended.

    One that loses its lease while its API server is away ends by itself, as it is to.

    Args:
        kubeconfig: of the management cluster.
        flags: more of its flags.
    """

    def __init__(self, kubeconfig: Path, *flags: str) -> None:
        self._command = ("run", f"--kubeconfig={kubeconfig}", *flags)
        self._process: Process | None = None
        self._may_run = anyio.Event()
        self._may_run.set()
        self._runs = anyio.Event()

    async def run(self) -> None:
        """Run it until cancelled."""
        while True:
            await self._may_run.wait()
            async with started(*self._command) as running:
                self._process = running.process
                self._runs.set()
                await running.process.wait()
                self._runs = anyio.Event()

    async def started(self) -> None:
        """Wait until it runs; it need not lead."""
        await self._runs.wait()

    async def pid(self) -> int:
        """Return the number of its process; wait if it is just being started."""
        await self.started()
        assert self._process is not None
        return self._process.pid

    async def kill(self) -> None:
        """End it as `kill -9` does; it is not started before `start`."""
        self._may_run = anyio.Event()
        os.kill(await self.pid(), signal.SIGKILL)
        assert self._process is not None
        await self._process.wait()

    async def start(self) -> None:
        """Let it start again."""
        self._may_run.set()

    def part(self, number: int) -> Part:
        """Return it as something to strike: frozen, it may lose its lease and not know it."""
        return Part(f"replica {number}", self.pid, self.kill, self.start, 3.0 * LEASE_SECONDS)


class RestartedMetalLB:
    """MetalLB in a tenant, started again when it was killed."""

    def __init__(self, tenant: Tenant, stack: AsyncExitStack) -> None:
        self._tenant = tenant
        self._stack = stack
        self._metallb: MetalLB = tenant.metallb

    async def pid(self) -> int:
        """Return the number of its process."""
        return self._metallb.pid

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        os.kill(self._metallb.pid, signal.SIGKILL)

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
        Part(
            f"etcd of {name}", checked(lambda: parts.etcd_pid), parts.kill_etcd, parts.start_etcd
        ),
        Part(
            f"kube-apiserver of {name}",
            checked(lambda: parts.apiserver_pid),
            parts.kill_apiserver,
            parts.start_apiserver,
        ),
    )


@asynccontextmanager
async def started_parts(here: Site) -> AsyncIterator[list[Part]]:
    """Start two replicas; yield all that can be struck."""
    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        parts: list[Part] = []
        for number in (1, 2):
            replica = Replica(here.kubeconfig, *FLAGS)
            group.start_soon(replica.run)
            await replica.started()
            parts.append(replica.part(number))
        planes = {"management": here.plane}
        planes |= {name: tenant.plane for name, tenant in here.tenants.items()}
        for name, plane in planes.items():
            parts += servers(name, await stack.enter_async_context(taken_apart(plane)))
        for tenant in here.tenants.values():
            parts.append(RestartedMetalLB(tenant, stack).part())
        yield parts
        group.cancel_scope.cancel()
