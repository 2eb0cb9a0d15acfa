"""The embedded API server: build it from its parts, listen with TLS, and stop in order."""

import os
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import Self

import anyio
from aiohttp import web

from envtest.access.accounts import AccountTokens
from envtest.access.aggregation import Aggregation
from envtest.access.rbac import Authorizer, refuse_forbidden_creation
from envtest.access.reviews import Reviews
from envtest.access.tokens import (
    ADMIN_GROUP,
    Authenticator,
    TokenFileError,
    format_token_line,
    parse_token_file,
)
from envtest.admission import Webhooks
from envtest.bootstrap import create_default_objects, publish_address
from envtest.builtins.resources import list_builtin_resources
from envtest.certs import Authority
from envtest.controllers.garbage import GarbageCollector
from envtest.controllers.namespaces import NamespaceController
from envtest.front.app import Front
from envtest.front.connections import Deadlines, Watchers
from envtest.keys import create_key, read_or_create_key, write_private_file
from envtest.kubeconfig import build_kubeconfig
from envtest.listening import (
    EVERYWHERE,
    ListenError,
    find_reachable_address,
    format_url_host,
    parse_address,
)
from envtest.server.api import Api
from envtest.server.call import User
from envtest.server.definitions import CrdController
from envtest.server.resource import Registry
from envtest.storage import Disk, Store

ADMIN = "admin"
SERVICES = IPv4Network("10.96.0.0/16")
# How long open requests may take to end when the server stops.
_GRACE_SECONDS = 2.0


class EmbeddedServer:
    """A running server; `serve` creates it."""

    def __init__(
        self, api: Api, authenticator: Authenticator, authority: Authority, data: Path | None
    ) -> None:
        self.api = api
        self.authenticator = authenticator
        self.authority = authority
        self.url = ""
        # The watches that are open now.
        self.watchers = Watchers()
        self._users_file = data / "users.csv" if data else None
        self._users: dict[str, str] = {}
        if self._users_file is not None and self._users_file.exists():
            for token, user in _read_users(self._users_file).items():
                self._users[user.name] = token
                authenticator.add_token(token, user)

    @classmethod
    def prepare(cls, data: Path | None, tokens: Mapping[str, User], authority: Authority) -> Self:
        """Return a server with its state loaded; it does not listen yet."""
        with ExitStack() as stack:
            store = Store(Disk(data) if data else None)
            stack.callback(store.close)
            registry = Registry()
            for resource in list_builtin_resources(store, SERVICES):
                registry.add(resource)
            api = Api(store, registry)
            create_default_objects(api)
            Aggregation(api).subscribe_to_store()
            CrdController(api).subscribe_to_store()
            server = cls(api, Authenticator(tokens), authority=authority, data=data)
            # Nothing failed, so the store stays open.
            stack.pop_all()
        return server

    def get_or_create_token(self, name: str, groups: tuple[str, ...] = ()) -> str:
        """Return the bearer token of a user.

        On first use the token is created and, if the server has a data folder, stored there.

        Args:
            name: the user.
            groups: the groups of a new user; ignored for an existing one. The user `admin` gets
                the group of administrators by default.
        """
        if name not in self._users:
            token = self._users[name] = secrets.token_urlsafe(24)
            user = User(name, groups or ((ADMIN_GROUP,) if name == ADMIN else ()), name)
            self.authenticator.add_token(token, user)
            if self._users_file is not None:
                has_file = self._users_file.exists()
                old_lines = self._users_file.read_text("utf-8") if has_file else ""
                write_private_file(self._users_file, old_lines + format_token_line(token, user))
        return self._users[name]

    def get_kubeconfig(self, user: str = ADMIN, groups: tuple[str, ...] = ()) -> str:
        """Return a kubeconfig of a user, who is created on first use."""
        authority = self.authority.pair.certificate
        return build_kubeconfig(
            self.url, authority, user, token=self.get_or_create_token(user, groups)
        )


@asynccontextmanager
async def serve(
    *,
    data: Path | None = None,
    listen: str = "127.0.0.1:0",
    tokens: Mapping[str, User] | None = None,
    namespace_controller: bool = False,
    garbage_collector: bool = False,
    deadlines: Deadlines | None = None,
) -> AsyncIterator[EmbeddedServer]:
    """Run an embedded API server in the caller's event loop.

    Args:
        data: the folder for objects; None keeps them in memory only.
        listen: address and port; port 0 takes a free one.
        tokens: users by their bearer tokens.
        namespace_controller: whether to empty and delete terminating namespaces.
        garbage_collector: whether to delete objects whose owners are gone.
        deadlines: the deadlines of clients; None for those of the real server.

    Raises:
        DiskError: the data folder cannot be used.
        ListenError: the address cannot be listened on.
    """
    host, port = parse_address(listen)
    authority = Authority.read_or_create(data) if data else Authority.create()
    key = read_or_create_key(data / "service-accounts.key") if data else create_key()
    server = EmbeddedServer.prepare(data, tokens or {}, authority)
    api = server.api
    authorizer = Authorizer(api.store)
    api.admission = webhooks = Webhooks(api)
    api.check_creation_allowed = partial(refuse_forbidden_creation, authorizer)
    reviews = Reviews(server.authenticator, authorizer)
    accounts = AccountTokens(api, key)
    server.authenticator.other_authenticators.append(accounts.find_user)
    front = Front(
        api,
        server.authenticator,
        authorizer=authorizer,
        reviews=reviews,
        accounts=accounts,
        deadlines=deadlines or Deadlines(),
    )
    server.watchers = front.watchers
    runner = web.ServerRunner(
        front.create_connections(), handle_signals=False, shutdown_timeout=_GRACE_SECONDS
    )
    await runner.setup()
    try:
        bound_port = await _listen(runner, host, port=port, authority=authority)
        server.url = f"https://{format_url_host(host)}:{bound_port}"
        accounts.issuer = server.url
        server.authenticator.audiences.append(server.url)
        async with AsyncExitStack() as stack:
            stack.callback(api.store.close_watches)
            publish_address(
                api,
                str(SERVICES[1]),
                address=find_reachable_address(runner.addresses[0][0]),
                port=bound_port,
            )
            api.store.drop_start_history()
            if namespace_controller or garbage_collector:
                # Only the task that enters a task group may leave it, which restricts callers. So
                # a task group exists only if a controller runs.
                tasks = await stack.enter_async_context(anyio.create_task_group())
                stack.callback(tasks.cancel_scope.cancel)
                if namespace_controller:
                    tasks.start_soon(NamespaceController(api).run)
                if garbage_collector:
                    tasks.start_soon(GarbageCollector(api).run)
            yield server
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
            await webhooks.close()
        api.store.close()


def _read_users(path: Path) -> dict[str, User]:
    """Read the users of a data folder.

    Raises:
        TokenFileError: the file is not text, or a line cannot be parsed.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TokenFileError(
            f"{path} is not UTF-8 ({error}); restore it from a copy, or delete it with its users"
        ) from error
    return parse_token_file(content, str(path))


async def _listen(runner: web.ServerRunner, host: str, port: int, authority: Authority) -> int:
    """Start listening; return the port.

    Raises:
        ListenError: the address cannot be listened on.
    """
    site = web.TCPSite(runner, host, port, ssl_context=_create_tls(authority, host), backlog=512)
    try:
        await site.start()
    except OSError as error:
        raise ListenError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; "
            "choose another --listen"
        ) from error
    bound_port: int = runner.addresses[0][1]
    return bound_port


def _create_tls(authority: Authority, host: str) -> ssl.SSLContext:
    """Return the server's TLS settings; client certificates of its authority are accepted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    service_address = str(SERVICES[1])
    names = ("localhost", "kubernetes", "kubernetes.default.svc")
    hosts = (*names, "127.0.0.1", service_address, "::1")
    pair = authority.issue_server_certificate(*hosts, *([] if host in EVERYWHERE else [host]))
    with tempfile.TemporaryDirectory(prefix="envtest-") as folder:
        certificate, key = pair.write(Path(folder), "server")
        context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata=authority.pair.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
