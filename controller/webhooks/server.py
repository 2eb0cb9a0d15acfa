"""The HTTPS server of all webhooks of a process.

It runs in every replica, not only in the leader, and listens before everything else is started.
Like controller-runtime's server, it answers an admission request that it cannot decode with a
refusal: HTTP 200, and the error's code in the review. So the writer gets the reason.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web

from controller.certificates import ServingCertificate
from controller.clock import Clock
from controller.httpserver import serve_app
from controller.pages import Bind
from controller.webhooks.served import Served, WebhookFamilies, WebhookMetrics
from controller.webhooks.webhook import DeadlineExceeded, compute_handler_seconds

MAX_BYTES = 7 * 1024 * 1024
"""Bytes of the largest request: two objects of 3 MiB, the most that the API server accepts in one
request, and 1 MiB around them (controller-runtime's limit)."""
DEFAULT_SECONDS = 10.0
"""The API server's default timeout, used if the request has none."""
DRAIN_SECONDS = 30.0
"""How long running requests may take at the end; no API server waits longer."""
Handle = Callable[[web.Request], Awaitable[web.Response]]


class WebhookServer:
    """Serves webhooks.

    Args:
        bind: the address to listen on.
        serving: the TLS certificate.
        clock: for deadlines.
        families: the metrics.
    """

    def __init__(
        self, bind: Bind, serving: ServingCertificate, clock: Clock, families: WebhookFamilies
    ) -> None:
        self._bind = bind
        self._serving = serving
        self._clock = clock
        self._families = families

    @asynccontextmanager
    async def serve(self, webhooks: Iterable[Served]) -> AsyncIterator[int]:
        """Serve the webhooks inside the context, and yield the port.

        At the end of the context, running requests have DRAIN_SECONDS to finish.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        app = web.Application(client_max_size=MAX_BYTES)
        for webhook in webhooks:
            handle = self._create_handler(webhook, WebhookMetrics(self._families, webhook.path))
            # Any method, as in controller-runtime: the API server sends only POST.
            app.router.add_route("*", webhook.path, handle)
        async with serve_app(
            app,
            self._bind,
            "webhooks",
            tls=self._serving.listening_context,
            drain_seconds=DRAIN_SECONDS,
        ) as port:
            yield port

    def _create_handler(self, webhook: Served, metrics: WebhookMetrics) -> Handle:
        """Return the function that answers HTTP requests for a webhook and counts them."""

        async def handle(request: web.Request) -> web.Response:
            """Answer a request; one that took too long gets HTTP 504, without a review."""
            with metrics.measure_request():
                try:
                    response, has_bug = await self._answer(webhook, request)
                except DeadlineExceeded as error:
                    has_bug = False  # slowness is no bug
                    response = web.Response(text=str(error), status=504)
            metrics.count_answer(response.status, has_bug=has_bug)
            return response

        return handle

    async def _answer(self, webhook: Served, request: web.Request) -> tuple[web.Response, bool]:
        """Return the response to a request, and whether the webhook's function has a bug.

        A request that cannot be read is answered with a refusal.

        Raises:
            DeadlineExceeded: the body was not sent in time, or the webhook took too long.
        """
        seconds = compute_handler_seconds(request.query.get("timeout", ""), DEFAULT_SECONDS)
        begun_at = self._clock.monotonic()
        try:
            with self._clock.move_on_after(seconds) as reading_scope:
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"request entity is too large; limit is {MAX_BYTES} bytes"
            return _create_response(*webhook.refuse(message, 413)), False
        if reading_scope.cancelled_caught:
            raise DeadlineExceeded(f"the request was not sent within {seconds:g} s")
        if not body:
            return _create_response(*webhook.refuse("request body is empty", 400)), False
        content_type = request.headers.get("Content-Type", "")
        if content_type != "application/json":
            message = f"contentType={content_type}, expected application/json"
            return _create_response(*webhook.refuse(message, 400)), False
        # The handler has what reading the body has left of the time.
        remaining = seconds - (self._clock.monotonic() - begun_at)
        answer, has_bug = await webhook.answer(body, self._clock, remaining)
        return _create_response(answer), has_bug


def _create_response(body: bytes, status: int = 200) -> web.Response:
    """Return an HTTP response with a JSON body."""
    return web.Response(body=body, status=status, content_type="application/json")
