"""A TLS proxy in front of a control plane that injects faults into its traffic.

    async with Proxy.run_before(plane) as proxy:
        with proxy.inject(silence_watch(), Match(verb="watch", resource="pods", times=1)) as fault:
            ...                         # clients that use proxy.get_kubeconfig()
            await fault.affected_calls.wait()

Without faults it forwards everything unchanged, except for the credentials. Its only random
decisions are those of `Match.chance`, which the seed makes repeatable.
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
from envtest.faults.calls import Call, Match, MatchCounter, Record, read_call
from envtest.faults.exchange import Exchange, Upstream, reset_connection
from envtest.faults.fault import Fault
from envtest.kubeconfig import build_kubeconfig
from envtest.plane import RunningControlPlane

_HOST = "127.0.0.1"
_GRACE_SECONDS = 2.0
_LIMIT = 1024 * 1024
EVERYTHING = Match()


class Injection:
    """A fault that is injected into matching requests.

    Attributes:
        fault: the fault.
        affected_calls: the requests that got it, in order.
    """

    def __init__(self, fault: Fault, match: Match, randomness: random.Random) -> None:
        self.fault = fault
        self.affected_calls: Record[Call] = Record()
        self._count = MatchCounter(match, randomness)

    def record_if_affected(self, call: Call) -> bool:
        """Return whether a request gets the fault, and record it if so."""
        if self.fault.watches_only and call.verb != "watch":
            return False
        if not self._count.count_and_decide(call):
            return False
        self.affected_calls.add(call)
        return True


class Proxy(RunningControlPlane):
    """The control plane as clients see it through an unreliable network. `run_before` creates it.

    Attributes:
        calls: all requests that arrived, in order.
        ended_calls: the requests that have ended, in the order of their ends.
        injected: each fault that a request got, with that request, in order.
    """

    def __init__(self, plane: RunningControlPlane, seed: int) -> None:
        # The URL is known once the proxy listens.
        super().__init__("")
        self.kind = plane.kind
        self.controllers = plane.controllers
        self.calls: Record[Call] = Record()
        self.ended_calls: Record[Call] = Record()
        self.injected: Record[tuple[Fault, Call]] = Record()
        self._plane = plane
        self._authority = Authority.create()
        self._upstream = Upstream(plane)
        self._seed = seed
        self._injection_count = 0
        self._injections: list[Injection] = []
        # The scope of each request that has not ended -> the client's connection for a watch,
        # which ends with it; None for other requests.
        self._open: dict[anyio.CancelScope, RequestHandler | None] = {}

    @classmethod
    @asynccontextmanager
    async def run_before(cls, plane: RunningControlPlane, *, seed: int = 0) -> AsyncIterator[Self]:
        """Run a proxy in front of a control plane for as long as the context lasts.

        Args:
            plane: embedded or real.
            seed: decides about `Match.chance`.
        """
        proxy = cls(plane, seed)
        async with AsyncExitStack() as stack:
            server = _Server(proxy._handle, proxy._end_watch)
            runner = web.ServerRunner(server, shutdown_timeout=_GRACE_SECONDS)
            stack.push_async_callback(proxy._close, runner)
            await runner.setup()
            site = web.TCPSite(
                runner, _HOST, 0, ssl_context=proxy._create_server_tls(), backlog=512
            )
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
        self._injection_count += 1
        randomness = random.Random(f"{self._seed}/{self._injection_count}")  # noqa: S311 - repeatable
        injection = Injection(fault, match, randomness)
        self._injections.append(injection)
        try:
            yield injection
        finally:
            self._injections.remove(injection)

    @override
    def get_kubeconfig(self, user: str = "admin") -> str:
        authority = self._authority.pair.certificate
        return build_kubeconfig(self.url, authority, user, token=self._upstream.get_token(user))

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        await self._plane.add_user(name, groups)
        return self.get_kubeconfig(name)

    @override
    def create_admin_tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self._authority.pair.certificate.decode())

    @override
    def build_admin_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._upstream.get_token('admin')}"}

    def _create_server_tls(self) -> ssl.SSLContext:
        """Return TLS settings with a certificate of the proxy's own authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="envtest-") as folder:
            pair = self._authority.issue_server_certificate(_HOST, "localhost")
            context.load_cert_chain(*pair.write(Path(folder), "proxy"))
        return context

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Forward a request.

        A watch ends with the client's connection. Other requests go on without it, as on a server
        that does not notice.
        """
        body = await request.content.read()
        # Indexing returns the first value of a repeated parameter.
        query = {name: request.query[name] for name in request.query}
        call = read_call(request.method, request.rel_url.raw_path, query=query, body=body)
        self.calls.add(call)
        faults = self._select_faults(call)
        exchange = Exchange(request, call, faults=faults, upstream=self._upstream)
        with anyio.CancelScope() as scope:
            self._open[scope] = request.protocol if call.verb == "watch" else None
            try:
                return await exchange.run()
            finally:
                del self._open[scope]
                self.ended_calls.add(call)
        # The scope was cancelled, by _end_watch or by the end of the proxy.
        reset_connection(request)
        return web.Response()

    def _select_faults(self, call: Call) -> list[Fault]:
        """Return the faults to inject into a request, and record them."""
        faults: list[Fault] = []
        for injection in self._injections:
            if injection.record_if_affected(call):
                faults.append(injection.fault)
                self.injected.add((injection.fault, call))
                # The request does not reach the server, so later faults have nothing to act on.
                if injection.fault.replaces_server:
                    break
        return faults

    def _end_watch(self, connection: RequestHandler) -> None:
        """End the watch of a client that has closed its connection."""
        for scope, owner in self._open.items():
            if owner is connection:
                scope.cancel()

    async def _close(self, runner: web.ServerRunner) -> None:
        """End all requests, then the server, then the connections to the control plane."""
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
        """Call `on_close` with the closed connection."""
        super().connection_lost(handler, exc)
        self._on_close(handler)
