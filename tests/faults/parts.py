"""The processes of a real control plane, which tests kill, freeze, restart and double.

Only a real etcd can be compacted or restored from a backup. Only a real kube-apiserver can be
killed under load, come back with an empty watch cache, or lag behind a second one.
"""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from aiohttp import ClientSession, TCPConnector
from anyio import to_thread
from typing_extensions import override

from envtest.binaries import RealControlPlane
from envtest.plane import RunningControlPlane as Plane
from envtest.ports import choose_free_port
from envtest.processes import Child, Children
from envtest.settings import read_settings
from tests.faults.pipes import HOST, Address, Pipe
from tests.freezing import freeze, thaw
from tests.polling import make_awaitable, until


class PlaneAtUrl(Plane):
    """A control plane to which clients connect at another URL.

    Args:
        plane: the control plane.
        url: for clients; a pipe or a second API server is there.
    """

    def __init__(self, plane: Plane, url: str) -> None:
        super().__init__(url)
        self.kind = plane.kind
        self._plane = plane

    @override
    def get_kubeconfig(self, user: str = "admin") -> str:
        return self._plane.get_kubeconfig(user).replace(self._plane.url, self.url)

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        await self._plane.add_user(name, groups)
        return self.get_kubeconfig(name)

    @override
    def create_admin_tls(self) -> Any:
        return self._plane.create_admin_tls()

    @override
    def build_admin_headers(self) -> dict[str, str]:
        return self._plane.build_admin_headers()


class ControlPlaneProcesses:
    """etcd and kube-apiserver of one real control plane. `access_processes` creates it.

    Attributes:
        plane: the control plane.
    """

    def __init__(self, plane: RealControlPlane, children: Children) -> None:
        self.plane = plane
        self._children = children
        self._etcd, self._apiserver = plane.processes[:2]
        self._compacted_revision = 0

    @property
    def etcd_url(self) -> str:
        """The URL for clients of etcd."""
        return _read_flag(self._etcd, "listen-client-urls")

    async def read_revision(self) -> int:
        """Return the current revision of etcd."""
        answer = await self._ask_etcd("/v3/kv/range", {"key": "Lw=="})
        return int(answer["header"]["revision"])

    async def compact(self) -> int:
        """Have etcd drop all revisions but the current one; return the current revision."""
        revision = await self.read_revision()
        if revision > self._compacted_revision:
            body = {"revision": str(revision), "physical": True}
            await self._ask_etcd("/v3/kv/compaction", body)
            self._compacted_revision = revision
        return revision

    @property
    def etcd_pid(self) -> int:
        """The process id of etcd."""
        return self._etcd.process.pid

    @property
    def apiserver_pid(self) -> int:
        """The process id of kube-apiserver."""
        return self._apiserver.process.pid

    async def kill_etcd(self) -> None:
        """Kill etcd with SIGKILL."""
        await _kill(self._etcd)

    async def start_etcd(self) -> None:
        """Start etcd again with its data."""
        program, *arguments = _read_command(self._etcd)
        self._etcd = self._children.start(Path(program), arguments)
        async with ClientSession(self.etcd_url) as session:
            await self._children.wait_until_ready(self._etcd, session, "/health")

    async def kill_apiserver(self) -> None:
        """Kill kube-apiserver with SIGKILL."""
        await _kill(self._apiserver)

    async def start_apiserver(self) -> None:
        """Start kube-apiserver again, at the same address."""
        self._apiserver = await self.start_like(self._apiserver)

    async def back_up(self, folder: Path) -> None:
        """Copy etcd's data into a folder; etcd is stopped meanwhile, kube-apiserver is not."""
        await _terminate(self._etcd)
        await to_thread.run_sync(shutil.copytree, _read_flag(self._etcd, "data-dir"), folder)
        await self.start_etcd()

    async def restore(
        self, folder: Path, is_outage_noticed: Callable[[], bool] = lambda: True
    ) -> None:
        """Stop both servers, replace etcd's data by a copy, and start both again.

        Args:
            folder: the copy of the data.
            is_outage_noticed: returns whether all watches have failed; the servers stay stopped
                until then. Clients retry a watch after 0.8 s, so a faster restore would not make
                their watches fail.
        """
        await self.kill_apiserver()
        await _terminate(self._etcd)
        await until(make_awaitable(is_outage_noticed), bool)
        data = _read_flag(self._etcd, "data-dir")
        await to_thread.run_sync(shutil.rmtree, data)
        await to_thread.run_sync(shutil.copytree, folder, data)
        await self.start_etcd()
        await self.start_apiserver()

    @asynccontextmanager
    async def run_second_apiserver(self, **flags: str) -> AsyncIterator["SecondServer"]:
        """Run another kube-apiserver on the same etcd.

        Args:
            flags: flags that differ from those of the first API server; `_` stands for `-`.
        """
        async with Pipe.before(parse_address(self.etcd_url)) as pipe:
            port = choose_free_port(HOST)
            plane = PlaneAtUrl(self.plane, f"https://{HOST}:{port}")
            changed_flags = {
                "etcd-servers": f"http://{HOST}:{pipe.port}",
                "secure-port": str(port),
            }
            changed_flags |= {name.replace("_", "-"): value for name, value in flags.items()}
            second = SecondServer(
                self,
                plane,
                child=await self.start_like(self._apiserver, plane, changed_flags),
                etcd=pipe,
            )
            try:
                yield second
            finally:
                # SIGTERM would let it wait for etcd, to which the pipe no longer leads.
                with anyio.CancelScope(shield=True):
                    await second.kill()

    async def start_like(
        self, child: Child, plane: Plane | None = None, changed_flags: dict[str, str] | None = None
    ) -> Child:
        """Start an API server with the command line of another one, except for some flags.

        Args:
            child: the other API server.
            plane: the control plane at the URL of the new API server; None for the same URL.
            changed_flags: values of flags that differ, by the name without dashes.
        """
        program, *arguments = _read_command(child)
        flags = dict(argument.removeprefix("--").split("=", 1) for argument in arguments) | (
            changed_flags or {}
        )
        new_child = self._children.start(
            Path(program), [f"--{name}={value}" for name, value in flags.items()]
        )
        target = plane or self.plane
        async with ClientSession(
            target.url, connector=TCPConnector(ssl=target.create_admin_tls())
        ) as session:
            await self._children.wait_until_ready(new_child, session, "/readyz")
        return new_child

    async def _ask_etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with (
            ClientSession(self.etcd_url) as session,
            session.post(path, json=body) as response,
        ):
            answer: dict[str, Any] = await response.json()
            assert response.status == 200, answer
            return answer


class SecondServer:
    """A second kube-apiserver on the same etcd.

    Attributes:
        plane: the control plane at the URL of this API server.
        etcd: the pipe with its connections to etcd.
    """

    def __init__(
        self, parts: ControlPlaneProcesses, plane: Plane, child: Child, etcd: Pipe
    ) -> None:
        self.plane = plane
        self.etcd = etcd
        self._parts = parts
        self._child = child

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Freeze the API server until the context ends."""
        freeze(self._child.process.pid)
        try:
            yield
        finally:
            thaw(self._child.process.pid)

    async def kill(self) -> None:
        """Kill the API server with SIGKILL."""
        await _kill(self._child)

    async def restart(self) -> None:
        """Kill the API server and start it again."""
        await self.kill()
        self._child = await self._parts.start_like(self._child, self.plane)


@asynccontextmanager
async def access_processes(plane: Plane) -> AsyncIterator[ControlPlaneProcesses]:
    """Yield the processes of a real control plane; skip the test if the plane is embedded."""
    if not isinstance(plane, RealControlPlane):
        pytest.skip("needs etcd and kube-apiserver as processes: set KUBEBUILDER_ASSETS")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="parts-")))
        # Processes are stopped in reverse order of their starts. So a restarted etcd would stop
        # before its API server, which would wait for it.
        settings = replace(read_settings(), stop_seconds=1.0)
        yield ControlPlaneProcesses(plane, Children(settings, folder, stack))


def parse_address(url: str) -> Address:
    """Return host and port of a URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def _read_command(child: Child) -> list[str]:
    """Return the command line of a process."""
    arguments = child.process.args
    assert isinstance(arguments, list)
    return [str(argument) for argument in arguments]


def _read_flag(child: Child, name: str) -> str:
    """Return the value of a flag that a process was started with."""
    start = f"--{name}="
    return next(
        argument.removeprefix(start)
        for argument in _read_command(child)
        if argument.startswith(start)
    )


async def _kill(child: Child) -> None:
    """Send SIGKILL to a process and wait for its end."""
    child.process.kill()
    await to_thread.run_sync(child.process.wait)


async def _terminate(child: Child) -> None:
    """Send SIGTERM to a process and wait for its end."""
    child.process.terminate()
    await to_thread.run_sync(child.process.wait)
