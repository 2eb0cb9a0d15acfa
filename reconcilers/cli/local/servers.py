"""API servers for the time of a context, embedded or real, and their kubeconfigs.

The package envtest, which starts servers, is imported only where it is needed: a small
installation may lack it. Each error of a server that does not start is reported as one sentence.
"""

import atexit
import fcntl
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskStatus

from controller.client import Client
from controller.codec import decode_json
from controller.tenantconfig import create_tenant_transport, parse_kubeconfig
from controller.transport import Transport
from reconcilers.cli.interrupts import run_until_interrupted
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.progress import show_done, show_progress_during

if TYPE_CHECKING:
    from envtest.settings import EnvironmentSettings

ANSWER_LIMIT = 64 * 1024 * 1024
REQUEST_SECONDS = 30.0
EMBEDDED = "embedded API server"

# Python collects garbage after 700 new containers, to find reference cycles. A server creates
# hundreds of containers for each answer. They are in no cycle, so their reference counts free
# them, and the collection finds nothing. `python -m tests.bench envtest` measures its cost.
_GC_THRESHOLDS = (10_000, 20, 20)

Definitions = Sequence[Mapping[str, Any]]
"""CustomResourceDefinitions."""


def collect_garbage_less_often() -> None:
    """Run the garbage collector less often, for a process that only serves an API server."""
    gc.set_threshold(*_GC_THRESHOLDS)


def require_envtest() -> None:
    """Check that the package `envtest` can be imported; callers then import it for themselves.

    Raises:
        CommandProblem: the package, or a package that it imports, is not installed.
    """
    try:
        import envtest  # noqa: F401 - imported for its error
    except ImportError as missing:
        raise CommandProblem(
            f"this installation has no API server ({missing}): install butler-ipam[envtest]"
        ) from missing


@contextmanager
def convert_start_problems() -> Iterator[None]:
    """Convert the errors of an API server that does not start to one sentence each.

    Raises:
        CommandProblem: the server did not start.
    """
    require_envtest()
    from envtest import DiskError, ListenError, PlaneError, TokenFileError

    try:
        yield
    except (PlaneError, DiskError, ListenError, TokenFileError) as failure:
        raise CommandProblem(str(failure)) from failure


def run_servers(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work`, which starts API servers, until it ends or Ctrl-C ends it.

    Raises:
        Interrupted: Ctrl-C ended the work; a second Ctrl-C ends the process at once.
        CommandProblem: a server did not start or did not answer; the message says which and why.
    """
    with convert_start_problems():
        run_until_interrupted(work)


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server, with an administrator's kubeconfig; `kind` is embedded or binaries."""

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
    def description(self) -> str:
        """The words for the server in the output."""
        return EMBEDDED if self.kind == "embedded" else f"kube-apiserver {self.version}"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Transport]:
        """Yield a further transport to the server, with connections of its own."""
        async with _connect(self.kubeconfig) as transport:
            yield transport


@asynccontextmanager
async def _connect(kubeconfig: str) -> AsyncIterator[Transport]:
    """Yield a transport by a kubeconfig; close it at the end, even if the task is cancelled."""
    config = parse_kubeconfig(kubeconfig.encode())
    transport = create_tenant_transport(config, max_bytes=ANSWER_LIMIT, timeout=REQUEST_SECONDS)
    try:
        yield transport
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()


@asynccontextmanager
async def run_api_server(
    name: str, crds: Definitions, data: Path | None = None
) -> AsyncIterator[ApiServer]:
    """Start an API server that serves `crds`; it stops with the context.

    It keeps its objects in the folder `data`; in memory if `data` is None.

    Raises:
        PlaneError: a variable of the environment names a file that does not exist, or the server
            does not start.
        CommandProblem: a variable leads to a cluster that runs already.
    """
    _read_settings()  # called only for its exceptions: the result is of no use here
    from envtest import ControlPlane

    started = ControlPlane.start(data=data, namespace_controller=True, garbage_collector=True)
    async with started as plane:
        await plane.install_crds([dict(definition) for definition in crds])
        kubeconfig = plane.get_kubeconfig()
        async with _connect(kubeconfig) as transport:
            version = decode_json(await transport.request("GET", "/version"))["gitVersion"]
            yield ApiServer(
                name,
                plane.url,
                kind=plane.kind,
                kubeconfig=kubeconfig,
                transport=transport,
                version=version,
            )


def describe_server_source() -> str:
    """Return "embedded", or "real" with the programs of the API servers, for the output.

    Raises:
        PlaneError: a variable of the environment names a file that does not exist.
        CommandProblem: a variable leads to a cluster that runs already.
    """
    settings = _read_settings()
    if settings.kind == "embedded":
        return "embedded"
    programs = (settings.apiserver, settings.etcd, settings.controller_manager)
    return "real: " + ", ".join(str(program) for program in programs if program)


def _read_settings() -> "EnvironmentSettings":
    """Return the settings that envtest reads from the environment.

    Raises:
        CommandProblem: a variable leads to a cluster that runs already.
    """
    require_envtest()
    from envtest import read_settings

    settings = read_settings()
    if settings.kind == "existing":
        raise CommandProblem(
            "USE_EXISTING_CLUSTER names one cluster, and this command starts several API"
            " servers: unset it"
        )
    return settings


@asynccontextmanager
async def run_api_servers(
    definitions_by_name: Mapping[str, Definitions], data: Path | None = None
) -> AsyncIterator[dict[str, ApiServer]]:
    """Start API servers at the same time, because real ones take seconds; yield them by name.

    Args:
        definitions_by_name: the definitions that each server serves, by the server's name.
        data: a folder with one folder for each server; None keeps objects in memory.
    """
    servers: dict[str, ApiServer] = {}
    show_done(0, len(definitions_by_name))
    ended = anyio.Event()

    async def run_until_ended(
        name: str, crds: Definitions, *, task_status: TaskStatus[None]
    ) -> None:
        """Run one server until the context ends; call `started` once the server answers."""
        with anyio.CancelScope() as scope:
            async with run_api_server(name, crds, data / name if data else None) as server:
                servers[name] = server
                show_done(len(servers), len(definitions_by_name))
                # From here on, Ctrl-C does not end the server: its clients end first, and then
                # `ended` is set.
                scope.shield = True
                task_status.started()
                await ended.wait()

    with ExitStack() as stack:
        # The outer group runs the servers. The inner group ends once all of them have started.
        async with anyio.create_task_group() as running:
            try:
                async with anyio.create_task_group() as starting:
                    for name, crds in definitions_by_name.items():
                        starting.start_soon(partial(running.start, run_until_ended, name, crds))
                yield servers
            finally:
                ended.set()
                # The progress is shown until the outer group has ended.
                stack.enter_context(show_progress_during("stopping API servers"))


KUBECONFIG_MARK = "# Written by butler-ipam; it is replaced at the next start.\n"


def choose_kubeconfig_path(asked_path: Path | None, data: Path | None, name: str) -> Path:
    """Return the path of a kubeconfig to write.

    1. The path that the user named.
    2. Else a file in the folder of the data.
    3. Else a file in a new private folder, which is deleted at exit.

    Args:
        asked_path: the path that the user named; None if none was named.
        data: the folder that keeps the objects; None if they are in memory.
        name: the name of the file if the user named no path.
    """
    if asked_path is not None:
        return asked_path.expanduser().absolute()
    if data is not None:
        return data.absolute() / name
    folder = tempfile.mkdtemp(prefix="butler-ipam-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / name


def check_kubeconfig(path: Path) -> None:
    """Raise CommandProblem if `path` must not be written; create its folder if that is absent.

    Raises:
        CommandProblem: the folder cannot be created, or butler-ipam did not write the file that is
            there, or the process that wrote the file still runs.
    """
    try:
        with path.open(encoding="utf-8") as present:
            if present.read(len(KUBECONFIG_MARK)) != KUBECONFIG_MARK:
                raise CommandProblem(
                    f"{path} exists and was not written by butler-ipam: name another --kubeconfig,"
                    " or remove it"
                )
            # The process that wrote the file holds a lock on it for as long as it lives.
            fcntl.flock(present, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandProblem(f"{path} cannot be written: {error.strerror}") from error
    except BlockingIOError as lock_error:
        problem = "was written by a butler-ipam that still runs: name another --kubeconfig"
        raise CommandProblem(f"{path} {problem}") from lock_error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandProblem(f"{path} cannot be used for a kubeconfig: {error}") from error


def write_kubeconfig(path: Path, kubeconfig: str) -> None:
    """Write a kubeconfig that only its owner can read, locked for as long as this process lives.

    Raises:
        CommandProblem: `check_kubeconfig` forbids the path, or it cannot be written.
    """
    check_kubeconfig(path)
    # Written beside the path and then moved, so that a reader never sees half a kubeconfig.
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        part.write_text(KUBECONFIG_MARK + kubeconfig, encoding="utf-8")
        # The descriptor stays open, and so the lock is held, until the process ends.
        fcntl.flock(os.open(part, os.O_RDONLY), fcntl.LOCK_EX)
        part.replace(path)
    except OSError as error:
        raise CommandProblem(f"{path} cannot be written: {error.strerror}") from error
