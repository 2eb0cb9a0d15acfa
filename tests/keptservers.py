"""Real servers that tests borrow: each test worker starts a few, and empties them after each test.

A start of etcd and kube-apiserver costs three seconds of CPU time, more than most tests. A
borrower has a server alone and finds it as a start leaves it: with the objects of a new cluster,
and no definitions. Whatever differs from these is deleted from etcd or written back, past the API:
no finalizer, webhook or missing controller stands in the way, and the caches of kube-apiserver
follow by their watches. A server that cannot be emptied is stopped, and the next borrower starts
a new one.

Not for a test that stops, freezes or restores a server, compacts its history or needs
kube-controller-manager: such a test starts its own by ControlPlane.start().
"""

import atexit
import base64
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from aiohttp import ClientError, ClientSession, TCPConnector

from envtest.binaries import RealControlPlane, _Starter
from envtest.plane import ControlPlane as Plane
from envtest.processes import Child
from envtest.settings import Settings
from tests.polling import until

EMPTYING_SECONDS = 30.0
"""After which a server counts as one that cannot be emptied."""
KEPT = 2
"""How many servers that run the same programs are kept idle: most tests borrow one or two."""
_OPERATIONS = 100
"""Of one etcd transaction; etcd's own limit is 128."""
_REGISTERED = "/registry/apiregistration.k8s.io/apiservices/"
"""Below this kube-apiserver adds and removes a key for each version that definitions have."""
_RENEWED = (
    "/registry/leases/",
    "/registry/masterleases/",
    "/registry/peerserverleases/",
    "/registry/endpointslices/default/kubernetes",
    "/registry/services/endpoints/default/kubernetes",
)
"""What kube-apiserver writes again and again; not written back."""
_LAST_OF_A_START = "/registry/endpointslices/default/kubernetes"
"""The key that kube-apiserver writes last when it starts."""
_DISCOVERED = {"Accept": "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"}


@dataclass(frozen=True)
class _Server:
    """A server that is kept.

    Attributes:
        plane: as its first borrower gets it.
        folder: with all its files.
        stored: what etcd has after the start, by key.
        served: the groups and versions that are served after the start.
    """

    plane: RealControlPlane
    folder: Path
    stored: Mapping[str, str]
    served: frozenset[str]

    @property
    def children(self) -> Sequence[Child]:
        """Return etcd and kube-apiserver."""
        return self.plane.processes

    def is_running(self) -> bool:
        """Return whether neither process has ended."""
        return all(child.process.poll() is None for child in self.children)

    def stop(self) -> None:
        """Kill both processes and remove the folder; nobody reads the data again."""
        for child in reversed(self.children):
            child.process.send_signal(signal.SIGKILL)
            child.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def borrowed(self) -> RealControlPlane:
        """Return the plane as a start returns it: with one user, the administrator."""
        plane = RealControlPlane(
            self.plane.url, self.plane._clients, self.plane._servers, self.folder
        )
        plane.processes = self.plane.processes
        return plane


@dataclass
class _Pool:
    """The servers of this process.

    Attributes:
        idle: those that no test has, by the programs that they run.
        all: every server that was not stopped.
    """

    idle: dict[Settings, list[_Server]] = field(default_factory=lambda: defaultdict(list))
    all: list[_Server] = field(default_factory=list)

    def stop(self, server: _Server) -> None:
        """Stop a server that no test has."""
        self.all.remove(server)
        server.stop()


_pool = _Pool()


def processes() -> set[int]:
    """Return the processes of all servers: a test that borrowed one has not left them behind."""
    return {child.process.pid for server in _pool.all for child in server.children}


@atexit.register
def stop_all() -> None:
    """Stop every server. The kernel does it when this process is killed."""
    for server in tuple(_pool.all):
        _pool.stop(server)
    _pool.idle.clear()


@asynccontextmanager
async def borrowed(settings: Settings) -> AsyncIterator[Plane]:
    """Lend an empty server that runs these programs; it is emptied afterwards.

    Raises:
        PlaneError: a program does not start.
    """
    idle = _pool.idle[settings]
    while idle and not idle[-1].is_running():
        _pool.stop(idle.pop())
    server = idle.pop() if idle else await _start(settings)
    try:
        yield server.borrowed()
    finally:
        with anyio.CancelScope(shield=True):
            if len(idle) < KEPT and await _empty(server):
                idle.append(server)
            else:
                _pool.stop(server)


async def _start(settings: Settings) -> _Server:
    """Start a server and note what a new cluster has."""
    folder = Path(tempfile.mkdtemp(prefix="kept-"))
    async with AsyncExitStack() as starting:
        starter = _Starter(settings, folder, folder / "etcd")
        plane = await starter.start_somewhere(starting, "127.0.0.1:0", "", frozenset())
        stored = await until(lambda: _read_etcd(plane), lambda keys: _LAST_OF_A_START in keys)
        server = _Server(plane, folder, stored, await _read_served(plane))
        starting.pop_all()  # they end with this process, not with this context
    _pool.all.append(server)
    return server


async def _empty(server: _Server) -> bool:
    """Bring a server back to what it was after its start; return whether that succeeded."""
    if not server.is_running():
        return False
    try:
        with anyio.fail_after(EMPTYING_SECONDS):
            await _restore_etcd(server)
            # The definitions are gone from etcd, and their paths a moment later from the server.
            await until(lambda: _read_served(server.plane), server.served.issuperset)
            # What was written meanwhile, by kube-apiserver or a process that is ending.
            await _restore_etcd(server)
    except (TimeoutError, ClientError):
        return False
    return True


async def _restore_etcd(server: _Server) -> None:
    """Delete and write keys until etcd has what it had after the start."""
    looks = count(1)

    async def is_restored() -> bool:
        # kube-apiserver removes the registrations of definitions itself. A registration that is
        # there for longer was created by the test.
        operations = _operations(server, await _read_etcd(server.plane), next(looks) > 20)
        if operations is not None:
            await _write_etcd(server.plane, operations)
        return operations is None

    await until(is_restored, bool)


def _operations(
    server: _Server, stored: Mapping[str, str], has_waited: bool
) -> list[dict[str, Any]] | None:
    """Return what to delete and write for etcd to be as after the start; None if it is.

    Args:
        server: the server.
        stored: what etcd has now.
        has_waited: whether registrations of definitions are deleted, too.
    """
    surplus = sorted(stored.keys() - server.stored.keys(), key=_is_definition)
    changed = [
        key
        for key, value in server.stored.items()
        if stored.get(key) != value and not key.startswith(_RENEWED)
    ]
    if not surplus and not changed:
        return None
    deleted = [key for key in surplus if has_waited or not key.startswith(_REGISTERED)]
    return [
        *({"requestDeleteRange": {"key": _encode(key)}} for key in deleted),
        *({"requestPut": {"key": _encode(key), "value": server.stored[key]}} for key in changed),
    ]


def _is_definition(key: str) -> bool:
    """Return whether a key is that of a CustomResourceDefinition: deleted after its objects."""
    return key.startswith("/registry/apiextensions.k8s.io/customresourcedefinitions/")


async def _read_etcd(plane: RealControlPlane) -> dict[str, str]:
    """Return what etcd has of all objects: by key, the value in base64.

    Beside them kube-apiserver notes what it has compacted, and panics if that note is gone.
    """
    objects = {"key": _encode("/registry/"), "range_end": _encode("/registry0")}
    answer = await _ask_etcd(plane, "range", objects)
    pairs: Iterable[Mapping[str, str]] = answer.get("kvs", ())
    return {base64.b64decode(pair["key"]).decode(): pair.get("value", "") for pair in pairs}


async def _write_etcd(plane: RealControlPlane, operations: Sequence[Mapping[str, Any]]) -> None:
    for start in range(0, len(operations), _OPERATIONS):
        part = list(operations[start : start + _OPERATIONS])
        await _ask_etcd(plane, "txn", {"success": part})


async def _ask_etcd(plane: RealControlPlane, method: str, body: Mapping[str, Any]) -> Any:
    arguments = plane.processes[0].process.args
    assert isinstance(arguments, list)
    flag = "--listen-client-urls="
    url = next(
        str(argument).removeprefix(flag)
        for argument in arguments
        if str(argument).startswith(flag)
    )
    async with (
        ClientSession(url, raise_for_status=True) as session,
        session.post(f"/v3/kv/{method}", json=body) as answer,
    ):
        return await answer.json()


async def _read_served(plane: RealControlPlane) -> frozenset[str]:
    """Return the groups with their versions that clients find in any form of discovery."""
    connector = TCPConnector(ssl=plane.tls())
    async with ClientSession(plane.url, connector=connector, raise_for_status=True) as session:
        async with session.get("/apis") as answer:
            groups = {
                version["groupVersion"]
                for group in (await answer.json())["groups"]
                for version in group["versions"]
            }
        async with session.get("/apis", headers=_DISCOVERED) as answer:
            aggregated = {
                f"{group['metadata']['name']}/{version['version']}"
                for group in (await answer.json(content_type=None))["items"]
                for version in group["versions"]
            }
        async with session.get("/openapi/v3") as answer:
            paths = (await answer.json(content_type=None))["paths"]
    described = {path.removeprefix("apis/") for path in paths if path.count("/") == 2}
    return frozenset(groups | aggregated | described)


def _encode(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
