"""The servers of a manager: first the pages for probes and metrics, then the webhooks.

aiohttp is imported when the first server starts, because a manager that serves nothing does not
need it.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.accessreviews import AccessReviewer
from controller.certificates import CertificateFiles, CertificateMetrics, ServingCertificate
from controller.clock import Clock
from controller.errors import ConfigurationError
from controller.health import PING, Check, run_checks
from controller.jobs import run_in_background
from controller.metrics import Metrics
from controller.options import ManagerOptions
from controller.pages import Bind, Page, PageRequest, PageResponse, parse_bind
from controller.resource import Resource
from controller.supervisor import Supervisor, Task
from controller.transport import Transport
from controller.webhooks.conversion import Conversion
from controller.webhooks.selfsigned import (
    CABundleInjector,
    SelfSignedCertificate,
    SharedCertificate,
)
from controller.webhooks.served import Served, WebhookFamilies

METRICS_NAMES = ("localhost", "127.0.0.1")
"""The names of the certificate for /metrics if none is configured; no client can verify it."""


@dataclass(slots=True)
class Ports:
    """The ports that a running manager listens on; None for a server that does not run."""

    metrics: int | None = None
    health: int | None = None
    webhooks: int | None = None


class Serving:
    """The servers of one manager.

    Args:
        options: the addresses and certificates.
        metrics: the metrics that are served.
        clock: for deadlines and delays.
        transport: the API server.
        supervisor: runs the tasks that update the certificates.
    """

    def __init__(
        self,
        options: ManagerOptions,
        metrics: Metrics,
        clock: Clock,
        transport: Transport,
        supervisor: Supervisor,
    ) -> None:
        self.ports = Ports()
        """Set when each server has started."""
        self.liveness: list[Check] = [PING, supervisor.create_check()]
        """The checks behind /healthz."""
        self.readiness: list[Check] = [supervisor.create_check()]
        """The checks behind /readyz, without the checks of informers."""
        self._supervisor = supervisor
        self._options = options
        self._metrics = metrics
        self._certificate_metrics = CertificateMetrics(metrics.registry)
        self._webhook_families = WebhookFamilies(metrics.registry)
        self._clock = clock
        self._transport = transport
        self._webhooks: list[Served] = []
        self._converted: set[tuple[str, str]] = set()
        self._injector: CABundleInjector | None = None

    def add(self, webhook: Served) -> None:
        """Serve a webhook.

        Raises:
            ValueError: there is a webhook at the same path.
            ConfigurationError: the options have no address for webhooks.
        """
        if not self._options.webhook_bind:
            raise ConfigurationError(
                f"webhook {webhook.path} is added, and no address to serve it is set: set"
                " ManagerOptions.webhook_bind, for example to ':9443', or to '0' to serve none"
            )
        if any(webhook.path == added.path for added in self._webhooks):
            raise ValueError(f"there is a webhook at {webhook.path} already")
        self._webhooks.append(webhook)

    @property
    def added_webhooks(self) -> tuple[Served, ...]:
        """The webhooks, in the order in which they were added."""
        return tuple(self._webhooks)

    def converts(self, resource: Resource[Any]) -> bool:
        """Return whether we convert a kind, so that it cannot be listed until our webhooks run."""
        return (resource.group, resource.kind) in self._converted

    @asynccontextmanager
    async def serve_pages(self, readiness: Callable[[], Iterable[Check]]) -> AsyncIterator[None]:
        """Serve /metrics, /healthz and /readyz inside the context.

        Args:
            readiness: returns the checks behind /readyz, called at each request.

        Raises:
            ConfigurationError: an address is wrong, or cannot be listened on.
        """
        metrics = parse_bind(self._options.metrics_bind, "metrics bind address")
        health = parse_bind(self._options.health_bind, "health probe bind address")
        async with AsyncExitStack() as stack:
            if metrics:
                server = self._serve_metrics(metrics)
                self.ports.metrics = await stack.enter_async_context(server)
            if health:
                from controller.httpserver import serve  # noqa: PLC0415 - see above

                pages = {
                    "/healthz": create_health_page("healthz", lambda: self.liveness),
                    "/readyz": create_health_page("readyz", readiness),
                }
                self.ports.health = await stack.enter_async_context(serve(health, pages, "probes"))
            yield

    @asynccontextmanager
    async def _serve_metrics(self, bind: Bind) -> AsyncIterator[int]:
        """Serve /metrics inside the context, and yield the port.

        With `metrics_secure` it is served over HTTPS, and only to clients that RBAC allows to read
        it. The certificate is read from `metrics_cert_dir` if that is set, else self-signed.
        """
        from controller.httpserver import serve  # noqa: PLC0415 - see above

        def render_metrics(request: PageRequest) -> PageResponse:
            """Return all metrics in the format that the request accepts."""
            body, content_type = self._metrics.render_exposition(request.accept)
            return PageResponse(body, content_type=content_type)

        pages = {"/metrics": render_metrics}
        if not self._options.metrics_secure:
            async with serve(bind, pages, "metrics") as port:
                yield port
            return
        serving = ServingCertificate("metrics", self._certificate_metrics)
        if self._options.metrics_cert_dir:
            files = CertificateFiles(Path(self._options.metrics_cert_dir), serving, self._clock)
            files.start()
            update = files.run
        else:
            update = SelfSignedCertificate(serving, self._clock, METRICS_NAMES).run
        reviewer = AccessReviewer(self._transport, self._clock)
        tls = serving.listening_context
        async with (
            run_in_background(
                [self._supervisor.create_restarting_task("metrics-certificate", update)]
            ),
            serve(bind, pages, "metrics", tls=tls, guard=reviewer.guard) as port,
        ):
            yield port

    @asynccontextmanager
    async def serve_webhooks(self) -> AsyncIterator[None]:
        """Serve the webhooks inside the context, unless there are none or their address is `0`.

        Raises:
            ConfigurationError: the address cannot be listened on, or there is no certificate.
        """
        bind = parse_bind(self._options.webhook_bind, "webhook bind address")
        if bind is None or not self._webhooks:
            yield
            return
        from controller.webhooks.server import WebhookServer  # noqa: PLC0415 - see above

        serving = ServingCertificate("webhook", self._certificate_metrics)
        update = self._start_webhook_certificate(serving)
        self.readiness.append(serving.create_check())
        if self._injector is not None:
            self.readiness.append(self._injector.create_check())
        server = WebhookServer(bind, serving, clock=self._clock, families=self._webhook_families)
        kinds = [webhook.resource for webhook in self._webhooks if isinstance(webhook, Conversion)]
        self._converted.update((kind.group, kind.kind) for kind in kinds)
        async with server.serve(self._webhooks) as port, run_in_background([update]):
            self.ports.webhooks = port
            yield

    def create_leader_tasks(self) -> list[Task]:
        """Return the tasks for webhooks that only the leader runs: writing the caBundle.

        Empty if the certificate is not self-signed.
        """
        if self._injector is None:
            return []
        return [self._supervisor.create_restarting_task("webhook-ca", self._injector.run)]

    def _start_webhook_certificate(self, serving: ServingCertificate) -> Task:
        """Prepare the certificate of webhooks; return the task that updates it.

        A certificate in files is read here for the first time, so that a missing file is reported
        at the start. For a self-signed certificate, the injector of the caBundle is created.

        Raises:
            ConfigurationError: no certificate is configured, or it cannot be used.
        """
        if self._options.webhook_cert_dir:
            files = CertificateFiles(Path(self._options.webhook_cert_dir), serving, self._clock)
            files.start()
            return self._supervisor.create_restarting_task("webhook-certificate", files.run)
        settings = self._options.webhook_self_signed
        if settings is None:
            raise ConfigurationError(
                "webhooks need a certificate: name a folder with tls.crt and tls.key, or the"
                " Service for which to make one"
            )
        shared = SharedCertificate(
            self._transport, self._clock, settings=settings, serving=serving
        )
        self._injector = CABundleInjector(
            self._transport, self._clock, settings=settings, shared=shared
        )
        return self._supervisor.create_restarting_task("webhook-certificate", shared.run)


def create_health_page(name: str, checks: Callable[[], Iterable[Check]]) -> Page:
    """Return the page of a probe; `/NAME/CHECK` runs one check alone.

    Args:
        name: `healthz` or `readyz`.
        checks: returns the checks, called at each request.
    """

    def run_requested_checks(request: PageRequest) -> PageResponse:
        """Run the requested checks; return 200, 503 if one fails, or 404 for an unknown check."""
        chosen = [check for check in checks() if request.tail in ("", check.name)]
        if not chosen:
            return PageResponse(f"there is no check {request.tail}\n".encode(), status=404)
        exclude = request.query.get("exclude", ())
        result = run_checks(name, chosen, verbose="verbose" in request.query, exclude=exclude)
        return PageResponse(result.body.encode(), status=200 if result.is_healthy else 503)

    return run_requested_checks
