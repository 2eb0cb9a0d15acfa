"""A real control plane: etcd and kube-apiserver, started from binaries on free ports.

All files are in a temporary folder, which is deleted when the control plane stops. If tests need
the namespace controller or the garbage collector, kube-controller-manager runs as well, with only
these controllers, if its binary exists.
"""

import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

from aiohttp import ClientSession, TCPConnector
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from typing_extensions import override

from envtest.certs import Authority, create_client_tls
from envtest.kubeconfig import build_kubeconfig
from envtest.listening import (
    EVERYWHERE,
    ListenError,
    find_reachable_address,
    format_url_host,
    parse_address,
)
from envtest.plane import Controller, RunningControlPlane
from envtest.ports import choose_free_port
from envtest.processes import Child, Children, PortTakenError
from envtest.settings import EnvironmentSettings, PlaneError

_HOST = "127.0.0.1"
# Both families, so that a Service may ask for either one. Without a request it gets IPv4.
_SERVICE_RANGES = "10.96.0.0/16,fd96::/112"
# The first address of the range, which the Service `kubernetes` gets.
_SERVICE_ADDRESS = "10.96.0.1"
_MAX_ATTEMPTS = 5
# Controller -> its name in the flags of kube-controller-manager.
_CONTROLLERS: dict[Controller, str] = {
    "namespaces": "namespace-controller",
    "garbage": "garbage-collector-controller",
}


class RealControlPlane(RunningControlPlane):
    """etcd and kube-apiserver as child processes.

    Attributes:
        processes: the processes, in the order in which they were started.
    """

    kind = "binaries"

    def __init__(self, url: str, clients: Authority, servers: Authority, folder: Path) -> None:
        super().__init__(url)
        self._clients = clients
        self._servers = servers
        self._users = {"admin": clients.issue_client_certificate("admin", ("system:masters",))}
        self._folder = folder
        self.processes: tuple[Child, ...] = ()

    @override
    def get_kubeconfig(self, user: str = "admin") -> str:
        pair = self._users.get(user)
        if pair is None:
            raise PlaneError(f"there is no user {user}; add it with add_user")
        authority = self._servers.pair.certificate
        return build_kubeconfig(self.url, authority, user, certificate=pair)

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        self._users[name] = self._clients.issue_client_certificate(name, tuple(groups))
        return self.get_kubeconfig(name)

    @override
    def create_admin_tls(self) -> ssl.SSLContext:
        return create_client_tls(self._servers.pair.certificate, self._users["admin"])

    @override
    def build_admin_headers(self) -> dict[str, str]:
        # The client certificate of `create_admin_tls` authenticates the administrator.
        return {}


@asynccontextmanager
async def run_real_control_plane(
    settings: EnvironmentSettings,
    data: Path | None,
    listen: str,
    tokens: str,
    controllers: frozenset[Controller] = frozenset(),
) -> AsyncIterator[RealControlPlane]:
    """Run etcd and kube-apiserver.

    Args:
        settings: the paths of the binaries, and how long to wait for them.
        data: the folder for etcd's data; None for a temporary one.
        listen: address and port of the API server; port 0 takes a free one.
        tokens: the content of a token file; may be empty.
        controllers: the controllers to run in kube-controller-manager, if its binary exists.

    Raises:
        PlaneError: a process does not start; the message ends with its last lines.
        ListenError: the address cannot be listened on.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-")))
        starter = _PlaneStarter(settings, folder, data or folder / "etcd")
        yield await starter.start_with_retries(
            stack, listen, tokens=tokens, controllers=controllers
        )


class _PlaneStarter:
    """Starts the processes of one control plane."""

    def __init__(self, settings: EnvironmentSettings, folder: Path, data: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._data = data
        self._servers = Authority.create()
        self._clients = Authority.create()

    async def start_with_retries(
        self,
        stack: AsyncExitStack,
        listen: str,
        tokens: str,
        controllers: frozenset[Controller],
    ) -> RealControlPlane:
        """Start all processes; retry if another process has taken a port meanwhile."""
        # A port that the caller names is still taken at the next attempt.
        remaining_attempts = _MAX_ATTEMPTS if listen.endswith(":0") else 1
        while True:
            remaining_attempts -= 1
            async with AsyncExitStack() as trial:
                children = Children(self._settings, self._folder, trial)
                try:
                    plane = await self._start(children, listen, tokens)
                    if controllers and self._settings.controller_manager is not None:
                        await self._start_controllers(children, plane, controllers)
                except PortTakenError as error:
                    if not remaining_attempts:
                        raise PlaneError(str(error)) from error
                    continue
                plane.processes = tuple(children.started)
                # From now on the caller's stack stops the processes.
                stack.push_async_exit(trial.pop_all())
                return plane

    async def _start(self, children: Children, listen: str, tokens: str) -> RealControlPlane:
        """Start etcd and kube-apiserver and wait until both are ready."""
        host, port = parse_address(listen)
        advertised = _choose_advertised_address(host)
        etcd_url = await self._start_etcd(children)
        bound_port = port or choose_free_port(host)
        url = f"https://{format_url_host(host)}:{bound_port}"
        arguments = self._prepare_apiserver(
            etcd_url, (host, bound_port), advertised=advertised, tokens=tokens
        )
        assert self._settings.apiserver is not None
        child = children.start(self._settings.apiserver, arguments)
        plane = RealControlPlane(url, self._clients, servers=self._servers, folder=self._folder)
        async with ClientSession(
            url, connector=TCPConnector(ssl=plane.create_admin_tls())
        ) as session:
            await children.wait_until_ready(child, session, "/readyz")
            # kube-apiserver creates this namespace later. Go's envtest waits for it, too, because
            # tests use it.
            await children.wait_until_ready(child, session, "/api/v1/namespaces/default")
        return plane

    async def _start_etcd(self, children: Children) -> str:
        """Start etcd and wait until it is ready; return its URL."""
        client = f"http://{_HOST}:{choose_free_port(_HOST)}"
        peer = f"http://{_HOST}:{choose_free_port(_HOST)}"
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
        child = children.start(self._settings.etcd, arguments)
        async with ClientSession(client) as session:
            await children.wait_until_ready(child, session, "/health")
        return client

    def _prepare_apiserver(
        self, etcd_url: str, listen_address: tuple[str, int], advertised: str, tokens: str
    ) -> list[str]:
        """Write certificates and keys of kube-apiserver; return its command line."""
        host, port = listen_address
        folder = self._folder
        own_hosts = () if host in EVERYWHERE else (host,)
        hosts = ("localhost", _HOST, _SERVICE_ADDRESS, *own_hosts)
        certificate, key = self._servers.issue_server_certificate(*hosts).write(
            folder, "apiserver"
        )
        self._clients.pair.write(folder, "client-ca")
        service_key = folder / "service-accounts.key"
        service_key.write_bytes(_create_service_account_key())
        arguments = {
            "etcd-servers": etcd_url,
            "bind-address": host,
            "advertise-address": advertised,
            "secure-port": str(port),
            "cert-dir": str(folder),
            "tls-cert-file": str(certificate),
            "tls-private-key-file": str(key),
            "client-ca-file": str(folder / "client-ca.crt"),
            "service-account-key-file": str(service_key),
            "service-account-signing-key-file": str(service_key),
            "service-account-issuer": f"https://{format_url_host(host)}:{port}",
            "service-cluster-ip-range": _SERVICE_RANGES,
            "authorization-mode": "RBAC",
            "allow-privileged": "true",
            # As in Go's envtest: no controller creates the accounts that this plugin demands.
            "disable-admission-plugins": "ServiceAccount",
        }
        if tokens:
            token_file = folder / "tokens.csv"
            token_file.write_text(tokens, encoding="utf-8")
            arguments["token-auth-file"] = str(token_file)
        return _format_flags(arguments)

    async def _start_controllers(
        self, children: Children, plane: RealControlPlane, controllers: frozenset[Controller]
    ) -> None:
        """Start kube-controller-manager with these controllers and wait until it is ready."""
        port = choose_free_port(_HOST)
        certificate, key = self._servers.issue_server_certificate(_HOST).write(
            self._folder, "controller-manager"
        )
        config = plane.write_kubeconfig(self._folder / "controller-manager.kubeconfig")
        arguments = {
            "kubeconfig": str(config),
            "bind-address": _HOST,
            "secure-port": str(port),
            "tls-cert-file": str(certificate),
            "tls-private-key-file": str(key),
            "leader-elect": "false",
            "use-service-account-credentials": "false",
            "controllers": ",".join(sorted(_CONTROLLERS[name] for name in controllers)),
        }
        assert self._settings.controller_manager is not None
        child = children.start(self._settings.controller_manager, _format_flags(arguments))
        connector = TCPConnector(ssl=plane.create_admin_tls())
        async with ClientSession(f"https://{_HOST}:{port}", connector=connector) as session:
            await children.wait_until_ready(child, session, "/healthz")
        plane.controllers = controllers


def _choose_advertised_address(host: str) -> str:
    """Return the address that kube-apiserver advertises.

    Without this flag, a kube-apiserver on a loopback address looks for a default route, and does
    not start on a machine without one.

    Raises:
        ListenError: the host is no IP address.
    """
    try:
        address = ip_address(host)
    except ValueError:
        raise ListenError(
            f"kube-apiserver listens on IP addresses only, and {host!r} is not one; "
            "write 127.0.0.1 for example"
        ) from None
    is_local = address.is_loopback or address.is_unspecified
    return find_reachable_address(EVERYWHERE[0]) if is_local else host


def _format_flags(arguments: dict[str, str]) -> list[str]:
    """Return the arguments as command-line flags: `--name=value`."""
    return [f"--{name}={value}" for name, value in arguments.items()]


def _create_service_account_key() -> bytes:
    """Return a key that signs service-account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


__all__ = ["RealControlPlane", "choose_free_port", "run_real_control_plane"]
