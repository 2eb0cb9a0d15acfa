"""The processes that a storm strikes: replicas, load balancers, API servers with their etcds.

To strike a process is to kill it, or to freeze it for some seconds.
"""

import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from tests.faults.parts import ControlPlaneProcesses, access_processes
from tests.polling import make_awaitable
from tests.reconcilers.cli.commands import start
from tests.storm.balancers import TenantBalancer
from tests.storm.programs import Program
from tests.tenants import Site, TenantServer

RESTART_DELAY_SECONDS = 0.2
LEASE_SECONDS = 4
FAST_FLAGS = (
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
class StrikeTarget:
    """A process that the storm strikes.

    Args:
        name: the name of the process in reports.
        get_pid: returns the number of the process.
        kill: kills it with SIGKILL.
        start: starts it again after `kill`.
        longest_freeze: the most seconds for which it is frozen.
        read_log: returns its log since the last start; empty for API servers and etcds, which
            write log files of their own.
    """

    name: str
    get_pid: Callable[[], Awaitable[int]]
    kill: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]
    longest_freeze: float = 4.0
    read_log: Callable[[], str] = lambda: ""

    async def strike(self, choices: random.Random, *, freeze: bool) -> str:
        """Freeze the process or kill it, for a random time; return a description of the fault."""
        if freeze:
            seconds = choices.uniform(0.0, self.longest_freeze)
            pid = await self.get_pid()
            os.kill(pid, signal.SIGSTOP)
            try:
                await anyio.sleep(seconds)  # the fault, not a wait for a state
            finally:
                os.kill(pid, signal.SIGCONT)
            return f"{self.name} frozen for {seconds:.1f} s"
        seconds = choices.uniform(0.0, 2.0)
        await self.kill()
        await anyio.sleep(seconds)
        await self.start()
        return f"{self.name} killed, and started {seconds:.1f} s later"


class RestartedProgram:
    """A program that is started again whenever it has ended, as a kubelet does.

    A replica or an operator ends by itself if its API server is down until its Lease expires.

    Args:
        run: runs the program for the time of a context.
    """

    def __init__(self, run: Callable[[], AbstractAsyncContextManager[Program]]) -> None:
        self._run = run
        self._program: Program | None = None
        self._may_run = anyio.Event()
        self._may_run.set()
        self._is_running = anyio.Event()
        self._has_ended = anyio.Event()

    async def run(self) -> None:
        """Run the program again and again until cancelled."""
        while True:
            await self._may_run.wait()
            async with self._run() as program:
                self._program, self._has_ended = program, anyio.Event()
                self._is_running.set()
                await program.wait()
                self._is_running = anyio.Event()
            self._program = None
            self._has_ended.set()
            await anyio.sleep(RESTART_DELAY_SECONDS)  # as the kubelet does, not a wait for a state

    async def wait_until_started(self) -> None:
        """Wait until the program runs; it may not lead yet."""
        await self._is_running.wait()

    async def get_pid(self) -> int:
        """Return the number of the process; wait while the program is being started."""
        await self.wait_until_started()
        assert self._program is not None
        return self._program.pid

    async def kill(self) -> None:
        """Kill the program with SIGKILL; it is not started again before `start`."""
        self._may_run = anyio.Event()
        os.kill(await self.get_pid(), signal.SIGKILL)
        await self._has_ended.wait()

    async def start(self) -> None:
        """Start the program again, and wait until it runs."""
        self._may_run.set()
        await self.wait_until_started()

    def read_log(self) -> str:
        """Return the program's log since the last start; empty while it does not run."""
        return "" if self._program is None else self._program.read_log()

    def make_target(self, name: str, longest_freeze: float = 4.0) -> StrikeTarget:
        """Return this program as a target of the storm.

        Args:
            name: its name in reports.
            longest_freeze: the most seconds for which it is frozen.
        """
        return StrikeTarget(
            name,
            self.get_pid,
            kill=self.kill,
            start=self.start,
            longest_freeze=longest_freeze,
            read_log=self.read_log,
        )


def make_replica_program(kubeconfig: Path, *flags: str) -> RestartedProgram:
    """Return the program of a replica of the controllers.

    Args:
        kubeconfig: the kubeconfig of the management cluster.
        flags: further flags of the replica.
    """

    @asynccontextmanager
    async def run() -> AsyncIterator[Program]:
        async with start("run", f"--kubeconfig={kubeconfig}", *flags) as running:
            process = running.process
            yield Program(process.pid, process.wait, lambda: running.stderr)

    return RestartedProgram(run)


def make_replica_target(program: RestartedProgram, number: int) -> StrikeTarget:
    """Return a replica as a target, which may be frozen beyond the expiry of its Lease."""
    return program.make_target(f"replica {number}", 3.0 * LEASE_SECONDS)


def make_server_targets(
    name: str, parts: ControlPlaneProcesses
) -> tuple[StrikeTarget, StrikeTarget]:
    """Return etcd and kube-apiserver of a control plane as targets of the storm."""
    return (
        StrikeTarget(
            f"etcd of {name}",
            make_awaitable(lambda: parts.etcd_pid),
            kill=parts.kill_etcd,
            start=parts.start_etcd,
        ),
        StrikeTarget(
            f"kube-apiserver of {name}",
            make_awaitable(lambda: parts.apiserver_pid),
            kill=parts.kill_apiserver,
            start=parts.start_apiserver,
        ),
    )


@asynccontextmanager
async def run_programs(
    site: Site[TenantServer], balancer: TenantBalancer, folder: Path
) -> AsyncIterator[list[StrikeTarget]]:
    """Run two replicas, and a load balancer in each tenant; yield all targets of the storm.

    Args:
        site: the management cluster and the tenants.
        balancer: the load balancer.
        folder: the folder for its logs.
    """
    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        targets: list[StrikeTarget] = []
        for number in (1, 2):
            program = make_replica_program(site.kubeconfig, *FAST_FLAGS, *balancer.flags)
            group.start_soon(program.run)
            await program.wait_until_started()
            targets.append(make_replica_target(program, number))
        planes = {"management": site.plane}
        planes |= {name: tenant.plane for name, tenant in site.tenants.items()}
        for name, plane in planes.items():
            targets += make_server_targets(
                name, await stack.enter_async_context(access_processes(plane))
            )
        for name, tenant in site.tenants.items():
            program = RestartedProgram(partial(balancer.run, tenant, folder))
            group.start_soon(program.run)
            await program.wait_until_started()
            targets.append(program.make_target(f"{balancer.title} of {name}"))
        yield targets
        group.cancel_scope.cancel()
