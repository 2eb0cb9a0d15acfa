"""A TLS proxy in front of a control plane that does to its traffic what networks do.

    async with Proxy.before(plane) as proxy:
        with proxy.inject(half_open(), Match(verb="watch", resource="pods", times=1)) as fault:
            ...                         # clients that use proxy.kubeconfig()
            await fault.struck.wait()

Without faults it passes on everything, unchanged except for the credentials. Nothing in it is left
to chance but what a match leaves to the seed.
"""

import random
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Self

import anyio
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from typing_extensions import override

from envtest.certs import Authority
from envtest.faults.calls import Call, Count, Match, Record, read_call
from envtest.faults.exchange import Exchange, Upstream, reset
from envtest.faults.fault import Fault
from envtest.kubeconfig import kubeconfig
from envtest.plane import RunningControlPlane

_HOST = "127.0.0.1"
_GRACE_SECONDS = 2.0
_LIMIT = 1024 * 1024
EVERYTHING = Match()


class Injection:
    """A fault that is in force.

    Attributes:
        fault: what it does.
        struck: the requests that it was done to, in order.
    """

    def __init__(self, fault: Fault, match: Match, randomness: random.Random) -> None:
        self.fault = fault
        self.struck: Record[Call] = Record()
        self._count = Count(match, randomness)

    def takes(self, call: Call) -> bool:
        """Return whether a request gets the fault, and record it if so."""
        if self.fault.watches_only and call.verb != "watch":
            return False
        if not self._count.takes(call):
            return False
        self.struck.add(call)
        return True


class Proxy(RunningControlPlane):
    """The control plane as seen through an unreliable network. Made by `before`.

    Attributes:
        calls: all requests that arrived, in order, whatever became of them.
        done: those of them that are over, in the order in which they ended.
        injected: every fault that struck, with the request it struck, in order.
    """

    def __init__(self, plane: RunningControlPlane, seed: int) -> None:
        super().__init__("")
        self.kind = plane.kind
        self.controllers = plane.controllers
        self.calls: Record[Call] = Record()
        self.done: Record[Call] = Record()
        self.injected: Record[tuple[Fault, Call]] = Record()
        self._plane = plane
        self._authority = Authority.create()
        self._upstream = Upstream(plane)
        self._seed = seed
        self._made = 0
        self._injections: list[Injection] = []
        # What is under way, with the connection that it ends with.
        self._open: dict[anyio.CancelScope, RequestHandler | None] = {}

    @classmethod
    @asynccontextmanager
    async def before(cls, plane: RunningControlPlane, *, seed: int = 0) -> AsyncIterator[Self]:
        """Run a proxy in front of a control plane for as long as the context lasts.

        Args:
            plane: embedded or real.
            seed: decides where a match leaves it to chance.
        """
        proxy = cls(plane, seed)
        async with AsyncExitStack() as stack:
            server = _Server(proxy._handle, proxy._end_watch)
            runner = web.ServerRunner(server, shutdown_timeout=_GRACE_SECONDS)
            stack.push_async_callback(proxy._close, runner)
            await runner.setup()
            site = web.TCPSite(runner, _HOST, 0, ssl_context=proxy._server_tls(), backlog=512)
            await site.start()
            proxy.url = f"https://{_HOST}:{runner.addresses[0][1]}"
            yield proxy

    @contextmanager
    def inject(self, fault: Fault, match: Match = EVERYTHING) -> Iterator[Injection]:
        """Inject a fault for as long as the context lasts.

        A fault already applied to a request stays when the context ends: a silent watch stays
        silent. Several faults may apply to one request, in the order in which they were injected;
        after one that answers in the server's place, no later one applies.
        """
        self._made += 1
        randomness = random.Random(f"{self._seed}/{self._made}")  # noqa: S311 - repeatable
        injection = Injection(fault, match, randomness)
        self._injections.append(injection)
        try:
            yield injection
        finally:
            self._injections.remove(injection)

    @override
    def kubeconfig(self, user: str = "admin") -> str:
        authority = self._authority.pair.certificate
        return kubeconfig(self.url, authority, user, token=self._upstream.token(user))

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        await self._plane.add_user(name, groups)
        return self.kubeconfig(name)

    @override
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self._authority.pair.certificate.decode())

    @override
    def admin_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._upstream.token('admin')}"}

    def _server_tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="envtest-") as folder:
            pair = self._authority.server(_HOST, "localhost")
            context.load_cert_chain(*pair.write(Path(folder), "proxy"))
        return context

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Forward a request; a watch ends with its connection, others run to their end."""
        body = await request.content.read()
        query = {name: request.query[name] for name in request.query}
        call = read_call(request.method, request.rel_url.raw_path, query=query, body=body)
        self.calls.add(call)
        exchange = Exchange(request, call, faults=self._faults_for(call), upstream=self._upstream)
        with anyio.CancelScope() as scope:
            self._open[scope] = request.protocol if call.verb == "watch" else None
            try:
                return await exchange.run()
            finally:
                del self._open[scope]
                self.done.add(call)
        # Cancelled, by _end_watch or by the end of the proxy.
        reset(request)
        return web.Response()

    def _faults_for(self, call: Call) -> list[Fault]:
        """Return the faults to inject into a request, and record them."""
        faults: list[Fault] = []
        for injection in self._injections:
            if injection.takes(call):
                faults.append(injection.fault)
                self.injected.add((injection.fault, call))
                if injection.fault.instead:
                    break
        return faults

    def _end_watch(self, connection: RequestHandler) -> None:
        """End the watch whose client has gone."""
        for scope, owner in self._open.items():
            if owner is connection:
                scope.cancel()

    async def _close(self, runner: web.ServerRunner) -> None:
        """End all that is open, then the server, then the connections behind it."""
        with anyio.CancelScope(shield=True):
            for scope in self._open:
                scope.cancel()
            await runner.cleanup()
            await self._upstream.close()


class _Server(web.Server):
    """A server that calls `on_close` for each connection that was closed."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        on_close: Callable[[RequestHandler], None],
    ) -> None:
        super().__init__(handler, access_log=None, max_line_size=_LIMIT, max_field_size=_LIMIT)
        self._on_close = on_close

    @override
    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._on_close(handler)
