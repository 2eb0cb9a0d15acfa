"""Processes that benchmarks start and measure: how a controller finds its server, what it uses.

What a process uses is read from /proc and from Linux's clocks of processes.
"""

import os
import subprocess
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import anyio
import yaml
from anyio.abc import Process

from envtest import ports
from tests.program import script
from tests.tracebacks import find_traceback

_PAGE = os.sysconf("SC_PAGE_SIZE")
_CLOCK_OF_ALL_THREADS = 2
"""Linux: CPUCLOCK_SCHED, of the process as a whole."""
_LAST_LINES = 20
_PROGRAM = """
import sys
from pathlib import Path
from controller import config
config.TOKEN_FILE = Path(sys.argv.pop(1))
from reconcilers.cli.main import main
main()
"""


class Reachable(Protocol):
    """An API server: its URL, a token that it accepts, its certificate authority as PEM text."""

    url: str
    token: str
    authority: str


Command = tuple[list[str], dict[str, str]]
"""A command line, and the environment variables that it needs."""


def read_resident_mib(process: int) -> float:
    """Return the resident memory of the process with this ID, in MiB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * _PAGE / 2**20


def read_peak_mib(process: int) -> float:
    """Return the largest resident memory that the process with this ID ever had, in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) / 2**10
    raise RuntimeError(f"/proc/{process}/status has no VmHWM")


def read_cpu_seconds(process: int) -> float:
    """Return the seconds of CPU time that a process has used, ended threads included.

    It is read from the clock that Linux has for each process, to the nanosecond: the times in
    /proc are in ticks of a hundredth of a second, more than a short phase takes.
    """
    # The number of the clock, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime(~process << 3 | _CLOCK_OF_ALL_THREADS)


def find_process(name: str, among: Iterable[int]) -> int:
    """Return the one process that runs the program `name`."""
    children = [pid for pid in among if Path(f"/proc/{pid}/comm").read_text().strip() == name]
    if len(children) != 1:
        raise RuntimeError(f"{len(children)} processes are called {name}, not one")
    return children[0]


def choose_free_port() -> int:
    """Return a port that nobody listens on or has chosen recently."""
    return ports.choose_free_port("127.0.0.1")


def write_credentials(server: Reachable, folder: Path) -> tuple[Path, Path]:
    """Write the token and the authority as a pod finds them; return the paths of both."""
    token, authority = folder / "token", folder / "ca.crt"
    token.write_text(server.token)
    authority.write_text(server.authority)
    return token, authority


def make_pod_command(server: Reachable, folder: Path) -> Command:
    """Return the command that starts a controller as in a pod, with a service account's files."""
    token, _ = write_credentials(server, folder)
    where = urlsplit(server.url)
    environment = {
        "KUBERNETES_SERVICE_HOST": str(where.hostname),
        "KUBERNETES_SERVICE_PORT": str(where.port),
    }
    return script(_PROGRAM, str(token), "run"), environment


def make_kubeconfig_command(server: Reachable, folder: Path) -> Command:
    """Return the command that starts a controller with a kubeconfig."""
    authority = b64encode(server.authority.encode()).decode()
    cluster = {"server": server.url, "certificate-authority-data": authority}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": server.token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    command = script(_PROGRAM, str(folder / "none"), "run", f"--kubeconfig={path}")
    return command, {}


COMMANDS_BY_ACCESS: Mapping[str, Callable[[Reachable, Path], Command]] = {
    "pod": make_pod_command,
    "kubeconfig": make_kubeconfig_command,
}


def make_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a controller, with variables to add.

    It is this process's environment without the variables that name clusters or set our flags.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name != "KUBECONFIG" and not name.startswith("BUTLER_IPAM_")
    }
    return {**inherited, **variables}


@asynccontextmanager
async def run_program(
    command: Command, log: Path, *, may_end: bool = False
) -> AsyncIterator[Process]:
    """Run a program while the context lasts.

    Args:
        command: the command line, and its environment variables.
        log: the file for its output.
        may_end: whether it may end with success before the context ends.

    Raises:
        RuntimeError: the program ended before the context; the message ends with its last lines.
            Or its log has the traceback of a bug, whose CPU time would distort the measurement.
    """
    line, variables = command
    with log.open("wb") as sink:
        process = await anyio.open_process(
            line,
            env=make_environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_raise_at_end, process, log, may_end)
            yield process
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()
    content = await anyio.Path(log).read_text(errors="replace")
    if traceback := find_traceback(content):
        raise RuntimeError(f"the controller survived a bug:\n{traceback}")


async def _raise_at_end(process: Process, log: Path, may_end: bool) -> None:
    code = await process.wait()
    if may_end and code == 0:
        return
    content = await anyio.Path(log).read_text(errors="replace")
    last = "\n".join(content.splitlines()[-_LAST_LINES:])
    raise RuntimeError(f"the controller ended with code {code}; its last lines:\n{last}")
