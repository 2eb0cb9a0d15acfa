"""A real control plane taken apart: its processes killed, frozen, started anew, and doubled.

What only real servers do: etcd forgets old revisions or is restored from a backup, kube-apiserver
dies under load or comes back with an empty watch cache, and one of two is behind the other.
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
from tests.faults.pipes import HOST, Pipe, Place
from tests.freezing import freeze, thaw
from tests.polling import make_awaitable, until


class Elsewhere(Plane):
    """A control plane as it is seen at another address.

    Args:
        plane: the control plane.
        url: the address.
    """

    def __init__(self, plane: Plane, url: str) -> None:
        super().__init__(url)
        self.kind = plane.kind
        self._plane = plane

    @override
    def kubeconfig(self, user: str = "admin") -> str:
        return self._plane.kubeconfig(user).replace(self._plane.url, self.url)

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        await self._plane.add_user(name, groups)
        return self.kubeconfig(name)

    @override
    def tls(self) -> Any:
        return self._plane.tls()

    @override
    def admin_headers(self) -> dict[str, str]:
        return self._plane.admin_headers()


class Parts:
    """etcd and kube-apiserver of one real control plane. Made by `taken_apart`.

    Attributes:
        plane: the control plane.
    """

    def __init__(self, plane: RealControlPlane, children: Children) -> None:
        self.plane = plane
        self._children = children
        self._etcd, self._apiserver = plane.processes[:2]
        self._forgotten = 0

    @property
    def etcd_url(self) -> str:
        """Where etcd answers."""
        return _flag(self._etcd, "listen-client-urls")

    async def revision(self) -> int:
        """Return the revision that etcd is at."""
        answer = await self._ask_etcd("/v3/kv/range", {"key": "Lw=="})
        return int(answer["header"]["revision"])

    async def compact(self) -> int:
        """Have etcd forget everything but what is there now; return the revision it is at."""
        revision = await self.revision()
        if revision > self._forgotten:
            body = {"revision": str(revision), "physical": True}
            await self._ask_etcd("/v3/kv/compaction", body)
            self._forgotten = revision
        return revision

    @property
    def etcd_pid(self) -> int:
        """The number of etcd's process."""
        return self._etcd.process.pid

    @property
    def apiserver_pid(self) -> int:
        """The number of kube-apiserver's process."""
        return self._apiserver.process.pid

    async def kill_etcd(self) -> None:
        """End etcd as `kill -9` does."""
        await _kill(self._etcd)

    async def start_etcd(self) -> None:
        """Start etcd again, with the data that it had."""
        program, *arguments = _command(self._etcd)
        self._etcd = self._children.start(Path(program), arguments)
        async with ClientSession(self.etcd_url) as session:
            await self._children.wait_until_ready(self._etcd, session, "/health")

    async def kill_apiserver(self) -> None:
        """End kube-apiserver as `kill -9` does."""
        await _kill(self._apiserver)

    async def start_apiserver(self) -> None:
        """Start kube-apiserver again, at the same address."""
        self._apiserver = await self.again(self._apiserver)

    async def back_up(self, folder: Path) -> None:
        """Copy what etcd has stored; it is stopped meanwhile, and kube-apiserver goes on."""
        await _end(self._etcd)
        await to_thread.run_sync(shutil.copytree, _flag(self._etcd, "data-dir"), folder)
        await self.start_etcd()

    async def restore(self, folder: Path, found_away: Callable[[], bool] = lambda: True) -> None:
        """Take both back in time to a copy, as one restores a cluster: with both stopped.

        Args:
            folder: the copy.
            found_away: whether all who watch have found the server away; both stay stopped until
                then. A restore that is over before a cut watch is tried again, 0.8 s later, is
                noticed by its bookmarks only.
        """
        await self.kill_apiserver()
        await _end(self._etcd)
        await until(make_awaitable(found_away), bool)
        data = _flag(self._etcd, "data-dir")
        await to_thread.run_sync(shutil.rmtree, data)
        await to_thread.run_sync(shutil.copytree, folder, data)
        await self.start_etcd()
        await self.start_apiserver()

    @asynccontextmanager
    async def second_apiserver(self, **flags: str) -> AsyncIterator["SecondServer"]:
        """Run another kube-apiserver on the same etcd.

        Args:
            flags: that differ from those of the first; `_` stands for `-`.
        """
        async with Pipe.before(place(self.etcd_url)) as pipe:
            port = choose_free_port(HOST)
            plane = Elsewhere(self.plane, f"https://{HOST}:{port}")
            changed = {"etcd-servers": f"http://{HOST}:{pipe.port}", "secure-port": str(port)}
            changed |= {name.replace("_", "-"): value for name, value in flags.items()}
            second = SecondServer(
                self, plane, child=await self.again(self._apiserver, plane, changed), etcd=pipe
            )
            try:
                yield second
            finally:
                # Ended in good order it would wait for etcd, which the pipe no longer leads to.
                with anyio.CancelScope(shield=True):
                    await second.kill()

    async def again(
        self, child: Child, plane: Plane | None = None, changed: dict[str, str] | None = None
    ) -> Child:
        """Start an API server as another one was started, but for some flags."""
        program, *arguments = _command(child)
        flags = dict(argument.removeprefix("--").split("=", 1) for argument in arguments) | (
            changed or {}
        )
        started = self._children.start(
            Path(program), [f"--{name}={value}" for name, value in flags.items()]
        )
        at = plane or self.plane
        async with ClientSession(at.url, connector=TCPConnector(ssl=at.tls())) as session:
            await self._children.wait_until_ready(started, session, "/readyz")
        return started

    async def _ask_etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with (
            ClientSession(self.etcd_url) as session,
            session.post(path, json=body) as reported,
        ):
            answer: dict[str, Any] = await reported.json()
            assert reported.status == 200, answer
            return answer


class SecondServer:
    """Another kube-apiserver on the same etcd.

    Attributes:
        plane: the control plane as it shows it.
        etcd: its connections to etcd.
    """

    def __init__(self, parts: Parts, plane: Plane, child: Child, etcd: Pipe) -> None:
        self.plane = plane
        self.etcd = etcd
        self._parts = parts
        self._child = child

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop it in the middle of whatever it does, until the context ends."""
        freeze(self._child.process.pid)
        try:
            yield
        finally:
            thaw(self._child.process.pid)

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        await _kill(self._child)

    async def restart(self) -> None:
        """Kill it and start it again."""
        await self.kill()
        self._child = await self._parts.again(self._child, self.plane)


@asynccontextmanager
async def taken_apart(plane: Plane) -> AsyncIterator[Parts]:
    """Give the processes of a control plane that has some; others are skipped."""
    if not isinstance(plane, RealControlPlane):
        pytest.skip("needs etcd and kube-apiserver as processes: set KUBEBUILDER_ASSETS")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="parts-")))
        # An API server whose etcd was started after it is ended after it, and would wait for it.
        settings = replace(read_settings(), stop_seconds=1.0)
        yield Parts(plane, Children(settings, folder, stack))


def place(url: str) -> Place:
    """Return host and port of a URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def _command(child: Child) -> list[str]:
    arguments = child.process.args
    assert isinstance(arguments, list)
    return [str(argument) for argument in arguments]


def _flag(child: Child, name: str) -> str:
    """Return the value of a flag that a process was started with."""
    start = f"--{name}="
    return next(
        argument.removeprefix(start) for argument in _command(child) if argument.startswith(start)
    )


async def _kill(child: Child) -> None:
    child.process.kill()
    await to_thread.run_sync(child.process.wait)


async def _end(child: Child) -> None:
    child.process.terminate()
    await to_thread.run_sync(child.process.wait)
