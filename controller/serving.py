"""What a manager listens on: the pages for probes and metrics first, webhooks after them."""

import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from controller.accessreviews import AccessReviewer
from controller.certificates import CertificateFiles, Holder
from controller.clock import Clock
from controller.errors import ConfigurationError
from controller.health import PING, Check
from controller.jobs import Task, keep_up, running
from controller.metrics import Metrics
from controller.options import ManagerOptions
from controller.probes import health_page, metrics_page, scrapers_only
from controller.server import Guard, parse_bind, serve
from controller.transport import Transport
from controller.webhooks.injection import Injector
from controller.webhooks.selfsigned import OwnCertificate, SharedCertificate
from controller.webhooks.server import WebhookServer
from controller.webhooks.webhook import Webhook

METRICS_NAMES = ("localhost", "127.0.0.1")
"""What a certificate is for that nobody can verify anyway."""


@dataclass(frozen=True, slots=True)
class _Security:
    """How pages are protected; by nothing, unless told."""

    tls: ssl.SSLContext | None = None
    guard: Guard | None = None


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
        transport: the API server, where certificates of our own are shared.
    """

    def __init__(
        self, options: ManagerOptions, metrics: Metrics, clock: Clock, transport: Transport
    ) -> None:
        self.ports = Ports()
        """Filled while running."""
        self.checks: list[Check] = []
        """What has to hold for webhooks to be served."""
        self.vitals: list[Check] = [PING]
        """What has to hold for this process to be worth keeping."""
        self._options = options
        self._metrics = metrics
        self._clock = clock
        self._transport = transport
        self._webhooks: list[Webhook[Any]] = []
        self._injector: Injector | None = None

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
                how = await stack.enter_async_context(self._security())
                served = serve(metrics, pages, "metrics", tls=how.tls, guard=how.guard)
                self.ports.metrics = await stack.enter_async_context(served)
            if health:
                pages = {
                    "/healthz": health_page("healthz", lambda: self.vitals),
                    "/readyz": health_page("readyz", readiness),
                }
                served = serve(health, pages, "probes")
                self.ports.health = await stack.enter_async_context(served)
            yield

    @asynccontextmanager
    async def _security(self) -> AsyncIterator["_Security"]:
        """Give how /metrics is protected, its certificate kept right inside the context."""
        if not self._options.metrics_secure:
            yield _Security()
            return
        holder = Holder("metrics", self._metrics.certificates)
        if self._options.metrics_cert_dir:
            files = CertificateFiles(Path(self._options.metrics_cert_dir), holder, self._clock)
            files.start()
            upkeep = files.run
        else:
            upkeep = OwnCertificate(holder, self._clock, METRICS_NAMES).run
        reviewer = AccessReviewer(self._transport, self._clock)
        async with running([upkeep]):
            yield _Security(holder.listening, scrapers_only(reviewer))

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
        holder = Holder("webhook", self._metrics.certificates)
        upkeep = self._certificate(holder)
        self.checks.append(holder.check())
        if self._injector is not None:
            self.checks.append(self._injector.check())
        server = WebhookServer(bind, holder, self._clock, self._metrics.webhooks)
        async with server.serving(self._webhooks) as port, running([upkeep]):
            self.ports.webhooks = port
            yield

    def leader_tasks(self) -> list[Task]:
        """Return what only the leader does for webhooks."""
        return [] if self._injector is None else [self._kept_up("webhook-ca", self._injector.run)]

    def _certificate(self, holder: Holder) -> Task:
        """Return what keeps the certificate of webhooks right.

        Raises:
            ConfigurationError: there is none, and none can be made.
        """
        if self._options.webhook_cert_dir:
            files = CertificateFiles(Path(self._options.webhook_cert_dir), holder, self._clock)
            files.start()
            return files.run
        settings = self._options.webhook_self_signed
        if settings is None:
            raise ConfigurationError(
                "webhooks need a certificate: name a folder with tls.crt and tls.key, or the"
                " Service for which to make one"
            )
        shared = SharedCertificate(self._transport, self._clock, settings, holder)
        self._injector = Injector(self._transport, self._clock, settings, shared)
        return self._kept_up("webhook-certificate", shared.run)

    def _kept_up(self, name: str, run: Task) -> Task:
        return partial(keep_up, name, run, self._clock, self._metrics.service_restarts)
