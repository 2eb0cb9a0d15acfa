"""The processes that a storm strikes: replicas, load balancers, API servers with their etcds."""

import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from tests.faults.parts import Parts, taken_apart
from tests.polling import make_awaitable
from tests.reconcilers.cli.commands import start
from tests.storm.balancers import Balancer
from tests.storm.programs import Program
from tests.tenants import Site, TenantServer

BACK_OFF_SECONDS = 0.2
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
        read_log: returns its log since the last start; empty for the servers, which log to files
            of their own.
    """

    name: str
    pid: Callable[[], Awaitable[int]]
    kill: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]
    longest_freeze: float = 4.0
    read_log: Callable[[], str] = lambda: ""

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


class Restarted:
    """A program that is started again whenever it has ended, as the kubelet does it.

    A replica or an operator that loses its Lease while its API server is away ends by itself.

    Args:
        run: runs it for the time of a context.
    """

    def __init__(self, run: Callable[[], AbstractAsyncContextManager[Program]]) -> None:
        self._run = run
        self._program: Program | None = None
        self._may_run = anyio.Event()
        self._may_run.set()
        self._runs = anyio.Event()
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Run it until cancelled."""
        while True:
            await self._may_run.wait()
            async with self._run() as program:
                self._program, self._ended = program, anyio.Event()
                self._runs.set()
                await program.wait()
                self._runs = anyio.Event()
            self._program = None
            self._ended.set()
            await anyio.sleep(BACK_OFF_SECONDS)  # as the kubelet does, not a wait for a state

    async def wait_until_started(self) -> None:
        """Wait until it runs; it need not lead."""
        await self._runs.wait()

    async def pid(self) -> int:
        """Return the number of its process; wait if it is just being started."""
        await self.wait_until_started()
        assert self._program is not None
        return self._program.pid

    async def kill(self) -> None:
        """End it as `kill -9` does; it is not started before `start`."""
        self._may_run = anyio.Event()
        pid = await self.pid()
        os.kill(pid, signal.SIGKILL)
        await self._ended.wait()

    async def start(self) -> None:
        """Let it start again, and wait until it runs."""
        self._may_run.set()
        await self.wait_until_started()

    def read_log(self) -> str:
        """Return its log since the last start; empty while it does not run."""
        return "" if self._program is None else self._program.read_log()

    def part(self, name: str, longest_freeze: float = 4.0) -> Part:
        """Return it as something to strike.

        Args:
            name: for people.
            longest_freeze: the most seconds for which it is frozen.
        """
        return Part(
            name,
            self.pid,
            kill=self.kill,
            start=self.start,
            longest_freeze=longest_freeze,
            read_log=self.read_log,
        )


def replica(kubeconfig: Path, *flags: str) -> Restarted:
    """Return a replica of the controllers.

    Args:
        kubeconfig: of the management cluster.
        flags: more of its flags.
    """

    @asynccontextmanager
    async def run() -> AsyncIterator[Program]:
        async with start("run", f"--kubeconfig={kubeconfig}", *flags) as running:
            process = running.process
            yield Program(process.pid, process.wait, lambda: running.stderr)

    return Restarted(run)


def replica_part(program: Restarted, number: int) -> Part:
    """Return a replica as something to strike: frozen, it may lose its lease and not know it."""
    return program.part(f"replica {number}", 3.0 * LEASE_SECONDS)


def servers(name: str, parts: Parts) -> tuple[Part, Part]:
    """Return etcd and kube-apiserver of a control plane as parts to strike."""
    return (
        Part(
            f"etcd of {name}",
            make_awaitable(lambda: parts.etcd_pid),
            kill=parts.kill_etcd,
            start=parts.start_etcd,
        ),
        Part(
            f"kube-apiserver of {name}",
            make_awaitable(lambda: parts.apiserver_pid),
            kill=parts.kill_apiserver,
            start=parts.start_apiserver,
        ),
    )


@asynccontextmanager
async def started_parts(
    here: Site[TenantServer], balancer: Balancer, folder: Path
) -> AsyncIterator[list[Part]]:
    """Start two replicas, and a load balancer in each tenant; yield all that can be struck.

    Args:
        here: the API servers.
        balancer: the load balancer.
        folder: for what it logs.
    """
    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        parts: list[Part] = []
        for number in (1, 2):
            program = replica(here.kubeconfig, *FLAGS, *balancer.flags)
            group.start_soon(program.run)
            await program.wait_until_started()
            parts.append(replica_part(program, number))
        planes = {"management": here.plane}
        planes |= {name: tenant.plane for name, tenant in here.tenants.items()}
        for name, plane in planes.items():
            parts += servers(name, await stack.enter_async_context(taken_apart(plane)))
        for name, tenant in here.tenants.items():
            program = Restarted(partial(balancer.run, tenant, folder))
            group.start_soon(program.run)
            await program.wait_until_started()
            parts.append(program.part(f"{balancer.title} of {name}"))
        yield parts
        group.cancel_scope.cancel()
