"""A real control plane: etcd and kube-apiserver, started from binaries on free ports.

Everything lives in a folder of its own that goes when the control plane stops. The processes ask
the kernel to be killed when their parent dies, so that not even `kill -9` leaves orphans.
"""

import ctypes
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
from aiohttp import ClientConnectionError, ClientSession, TCPConnector
from anyio import to_thread
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from typing_extensions import override

from envtest.certs import Authority
from envtest.kubeconfig import kubeconfig
from envtest.plane import ControlPlane
from envtest.settings import PlaneError, Settings

Process = subprocess.Popen[bytes]

_HOST = "127.0.0.1"
_SERVICES = "10.96.0.0/16"
_PR_SET_PDEATHSIG = 1
_PAUSE_SECONDS = 0.1
_TRIES = 5
_LOG_LINES = 15


class RealControlPlane(ControlPlane):
    """etcd and kube-apiserver as child processes."""

    kind = "binaries"

    def __init__(self, url: str, clients: Authority, servers: Authority, folder: Path) -> None:
        super().__init__(url)
        self._clients = clients
        self._servers = servers
        self._users = {"admin": clients.client("admin", ("system:masters",))}
        self._folder = folder

    @override
    def kubeconfig(self, user: str = "admin") -> str:
        pair = self._users.get(user)
        if pair is None:
            raise PlaneError(f"there is no user {user}; add it with add_user")
        authority = self._servers.pair.certificate
        return kubeconfig(self.url, authority, user, certificate=pair)

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        self._users[name] = self._clients.client(name, tuple(groups))
        return self.kubeconfig(name)

    @override
    def tls(self) -> ssl.SSLContext:
        authority = self._servers.pair.certificate.decode()
        context = ssl.create_default_context(cadata=authority)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            context.load_cert_chain(*self._users["admin"].write(Path(folder), "admin"))
        return context

    @override
    def admin_headers(self) -> dict[str, str]:
        return {}


@asynccontextmanager
async def real_control_plane(
    settings: Settings, data: Path | None, listen: str, tokens: str
) -> AsyncIterator[RealControlPlane]:
    """Run etcd and kube-apiserver.

    Args:
        settings: where the binaries are, and how long to wait.
        data: where etcd keeps its data; a folder that goes if not given.
        listen: address and port of the API server; port 0 takes a free one.
        tokens: the content of a token file, or nothing.

    Raises:
        PlaneError: one of them does not start; the message ends with its last lines.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-")))
        starter = _Starter(settings, folder, data or folder / "etcd")
        yield await starter.start_somewhere(stack, listen, tokens)


class _PortTakenError(Exception):
    """Somebody else listens where we wanted to."""


class _Starter:
    """Starts the two processes."""

    def __init__(self, settings: Settings, folder: Path, data: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._data = data
        self._servers = Authority.create()
        self._clients = Authority.create()

    async def start_somewhere(
        self, stack: AsyncExitStack, listen: str, tokens: str
    ) -> RealControlPlane:
        """Start both; a free port may be taken between asking and listening, so try again."""
        tries = _TRIES if listen.endswith(":0") else 1
        while True:
            tries -= 1
            async with AsyncExitStack() as trial:
                try:
                    plane = await self.start(trial, listen, tokens)
                except _PortTakenError as error:
                    if not tries:
                        raise PlaneError(str(error)) from error
                    continue
                stack.push_async_exit(trial.pop_all())
                return plane

    async def start(self, stack: AsyncExitStack, listen: str, tokens: str) -> RealControlPlane:
        """Start both and wait until the API server is ready."""
        etcd_url = await self._etcd(stack)
        host, _, port = listen.rpartition(":")
        bound = int(port) or free_port(host)
        url = f"https://{host}:{bound}"
        arguments = self._apiserver_arguments(etcd_url, host, bound, tokens)
        assert self._settings.apiserver is not None
        log = self._folder / "kube-apiserver.log"
        process = self._run(stack, [str(self._settings.apiserver), *arguments], log)
        plane = RealControlPlane(url, self._clients, self._servers, self._folder)
        async with ClientSession(url, connector=TCPConnector(ssl=plane.tls())) as session:
            await self._ready(session, process, log)
        return plane

    async def _etcd(self, stack: AsyncExitStack) -> str:
        client = f"http://{_HOST}:{free_port(_HOST)}"
        peer = f"http://{_HOST}:{free_port(_HOST)}"
        assert self._settings.etcd is not None
        arguments = [
            f"--data-dir={self._data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync=true",
        ]
        log = self._folder / "etcd.log"
        process = self._run(stack, [str(self._settings.etcd), *arguments], log)
        async with ClientSession(client) as session:
            await self._poll(session, "/health", process, log)
        return client

    def _apiserver_arguments(self, etcd_url: str, host: str, port: int, tokens: str) -> list[str]:
        """Write certificates and keys; return the command line."""
        folder = self._folder
        certificate, key = self._servers.server("localhost", host, "10.96.0.1").write(
            folder, "apiserver"
        )
        self._clients.pair.write(folder, "client-ca")
        service_key = folder / "service-accounts.key"
        service_key.write_bytes(_service_account_key())
        arguments = {
            "etcd-servers": etcd_url,
            "bind-address": host,
            "secure-port": str(port),
            "cert-dir": str(folder),
            "tls-cert-file": str(certificate),
            "tls-private-key-file": str(key),
            "client-ca-file": str(folder / "client-ca.crt"),
            "service-account-key-file": str(service_key),
            "service-account-signing-key-file": str(service_key),
            "service-account-issuer": f"https://{host}:{port}",
            "service-cluster-ip-range": _SERVICES,
            "authorization-mode": "RBAC",
            "allow-privileged": "true",
            "disable-admission-plugins": "ServiceAccount",
        }
        if tokens:
            token_file = folder / "tokens.csv"
            token_file.write_text(tokens, encoding="utf-8")
            arguments["token-auth-file"] = str(token_file)
        return [f"--{name}={value}" for name, value in arguments.items()]

    def _run(self, stack: AsyncExitStack, command: list[str], log: Path) -> Process:
        """Start a process that ends with the stack, or with us."""
        with log.open("wb") as sink:
            shown = self._settings.show_output
            process = subprocess.Popen(  # noqa: S603  # anyio has no preexec_fn
                command,
                stdin=subprocess.DEVNULL,
                stdout=None if shown else sink,
                stderr=None if shown else sink,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
                start_new_session=True,
            )
        stack.push_async_callback(self._stop, process)
        return process

    async def _stop(self, process: Process) -> None:
        """Ask a process to end, and make it."""
        with anyio.CancelScope(shield=True):
            process.terminate()
            await to_thread.run_sync(self._reap, process)

    def _reap(self, process: Process) -> None:
        """Wait for a process that was asked to end, in a thread of its own."""
        try:
            process.wait(self._settings.stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def _ready(self, session: ClientSession, process: Process, log: Path) -> None:
        """Wait until the server is ready and holds the namespace default, as envtest does."""
        await self._poll(session, "/readyz", process, log)
        await self._poll(session, "/api/v1/namespaces/default", process, log)

    async def _poll(self, session: ClientSession, path: str, process: Process, log: Path) -> None:
        """Ask until the answer is 200.

        Raises:
            PlaneError: the process ended or takes too long.
        """
        with anyio.move_on_after(self._settings.start_seconds):
            while process.poll() is None:
                try:
                    async with session.get(path) as answer:
                        if answer.status == 200:
                            return
                except ClientConnectionError:
                    # Not listening yet.
                    pass
                await anyio.sleep(_PAUSE_SECONDS)
        text = await anyio.Path(log).read_text(encoding="utf-8", errors="replace")
        if "address already in use" in text:
            raise _PortTakenError(f"{log.stem} found its port taken; choose another one")
        ended = process.returncode is not None
        how = f"ended with code {process.returncode}" if ended else "is not ready"
        waited = "" if ended else f" after {self._settings.start_seconds:g} seconds"
        last = "\n".join(text.splitlines()[-_LOG_LINES:])
        raise PlaneError(f"{log.stem} {how}{waited}; its last lines:\n{last}")


def free_port(host: str) -> int:
    """Return a port that nobody listens on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host.strip("[]"), 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent is gone; runs between fork and exec."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _service_account_key() -> bytes:
    """Return a key that signs service-account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


__all__ = ["RealControlPlane", "free_port", "real_control_plane"]
