"""The HTTPS server behind all webhooks of a process.

It runs in every replica, not only in the leader, and listens before anything else begins. Like
controller-runtime's it answers what it cannot read with a review that refuses (HTTP 200, the code
inside), so that whoever wrote is told why.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from controller.certificates import Holder
from controller.clock import Clock
from controller.server import Bind, listening
from controller.servingmetrics import WebhookMetrics, WebhookSeries
from controller.webhooks.webhook import OutOfTime, Webhook, refused, seconds_allowed

MAX_BYTES = 7 * 1024 * 1024
"""Of the largest question: two objects of 3 MiB, the most that the API server takes in one
request, and 1 MiB around them (controller-runtime's limit)."""
DEFAULT_SECONDS = 10.0
"""The API server's, where its query does not say."""

DRAIN_SECONDS = 30.0
"""How long requests in work may take to end; no API server waits longer for an answer."""

Handle = Callable[[web.Request], Awaitable[web.Response]]


class WebhookServer:
    """Serves webhooks.

    Args:
        bind: where to listen.
        holder: the certificate.
        clock: for the deadlines.
        series: counts and measures.
    """

    def __init__(self, bind: Bind, holder: Holder, clock: Clock, series: WebhookSeries) -> None:
        self._bind = bind
        self._holder = holder
        self._clock = clock
        self._series = series

    @asynccontextmanager
    async def serving(self, webhooks: Iterable[Webhook[Any]]) -> AsyncIterator[int]:
        """Serve inside the context, which gives the port; requests in work may end after it.

        Raises:
            ConfigurationError: the address cannot be listened on.
            ValueError: two webhooks have one path.
        """
        app = web.Application(client_max_size=MAX_BYTES)
        paths: set[str] = set()
        for webhook in webhooks:
            if webhook.path in paths:
                raise ValueError(f"there are two webhooks at {webhook.path}")
            paths.add(webhook.path)
            handle = self._handler(webhook, self._series.webhook(webhook.path))
            app.router.add_route("*", webhook.path, handle)
        async with listening(
            app,
            self._bind,
            "webhooks",
            tls=self._holder.listening,
            drain_seconds=DRAIN_SECONDS,
        ) as port:
            yield port

    def _handler(self, webhook: Webhook[Any], metrics: WebhookMetrics) -> Handle:
        async def handle(request: web.Request) -> web.Response:
            with metrics.measured():
                try:
                    body, failed = await self._answer(webhook, request)
                    response = web.Response(body=body, content_type="application/json")
                except OutOfTime as error:
                    failed = False
                    response = web.Response(text=str(error), status=504)
            metrics.answered(response.status, failed=failed)
            return response

        return handle

    async def _answer(self, webhook: Webhook[Any], request: web.Request) -> tuple[bytes, bool]:
        seconds = seconds_allowed(request.query.get("timeout", ""), DEFAULT_SECONDS)
        begun = self._clock.monotonic()
        try:
            with self._clock.move_on_after(seconds) as reading:
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"request entity is too large; limit is {MAX_BYTES} bytes"
            return refused(message, 413), False
        if reading.cancelled_caught:
            raise OutOfTime(f"the request was not sent within {seconds:g} s")
        if not body:
            return refused("request body is empty", 400), False
        content_type = request.headers.get("Content-Type", "")
        if content_type != "application/json":
            message = f"contentType={content_type}, expected application/json"
            return refused(message, 400), False
        return await webhook.answer(body, self._clock, seconds - (self._clock.monotonic() - begun))
