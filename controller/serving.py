"""What a manager listens on: the pages for probes and metrics first, webhooks after them."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.certificates import CertificateFiles, Holder
from controller.clock import Clock
from controller.errors import ConfigurationError
from controller.health import PING, Check
from controller.jobs import running
from controller.metrics import Metrics
from controller.options import ManagerOptions
from controller.probes import health_page, metrics_page
from controller.server import parse_bind, serve
from controller.webhooks.server import WebhookServer
from controller.webhooks.webhook import Webhook


@dataclass(slots=True)
class Ports:
    """Where a running manager listens; None where it does not."""

    metrics: int | None = None
    health: int | None = None
    webhooks: int | None = None


class Serving:
    """The servers of one manager.

    Args:
        options: where to listen.
        metrics: what is told, and where it is counted.
        clock: for deadlines and pauses.
    """

    def __init__(self, options: ManagerOptions, metrics: Metrics, clock: Clock) -> None:
        self.ports = Ports()
        """Filled while running."""
        self.checks: list[Check] = []
        """What has to hold for webhooks to be served."""
        self._options = options
        self._metrics = metrics
        self._clock = clock
        self._webhooks: list[Webhook[Any]] = []

    def add(self, webhook: Webhook[Any]) -> None:
        """Serve one more webhook.

        Raises:
            ValueError: there is one at its path already.
        """
        if any(webhook.path == known.path for known in self._webhooks):
            raise ValueError(f"there is a webhook at {webhook.path} already")
        self._webhooks.append(webhook)

    @asynccontextmanager
    async def pages(self, readiness: Callable[[], Iterable[Check]]) -> AsyncIterator[None]:
        """Serve /metrics, /healthz and /readyz inside the context.

        Args:
            readiness: the checks behind /readyz, looked up at each request.

        Raises:
            ConfigurationError: an address is none, or cannot be listened on.
        """
        metrics = parse_bind(self._options.metrics_bind, "metrics bind address")
        health = parse_bind(self._options.health_bind, "health probe bind address")
        async with AsyncExitStack() as stack:
            if metrics:
                pages = {"/metrics": metrics_page(self._metrics)}
                served = serve(metrics, pages, "metrics")
                self.ports.metrics = await stack.enter_async_context(served)
            if health:
                pages = {
                    "/healthz": health_page("healthz", lambda: [PING]),
                    "/readyz": health_page("readyz", readiness),
                }
                served = serve(health, pages, "probes")
                self.ports.health = await stack.enter_async_context(served)
            yield

    @asynccontextmanager
    async def webhooks(self) -> AsyncIterator[None]:
        """Serve the webhooks inside the context, if there are any and a port for them.

        Raises:
            ConfigurationError: the address cannot be listened on, or there is no certificate.
        """
        bind = parse_bind(self._options.webhook_bind, "webhook bind address")
        if bind is None or not self._webhooks:
            yield
            return
        if not self._options.webhook_cert_dir:
            raise ConfigurationError("webhooks need a folder with tls.crt and tls.key")
        holder = Holder("webhook", self._metrics.certificates)
        files = CertificateFiles(Path(self._options.webhook_cert_dir), holder, self._clock)
        files.start()
        self.checks.append(holder.check())
        server = WebhookServer(bind, holder, self._clock, self._metrics.webhooks)
        async with server.serving(self._webhooks) as port, running([files.run]):
            self.ports.webhooks = port
            yield
