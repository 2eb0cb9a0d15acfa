"""The series of what we serve, under controller-runtime's names: webhooks and certificates.

When a certificate ends is a name of our own: controller-runtime tells only that it was read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.queuemetrics import BUCKETS

CODES = ("200", "500")
"""HTTP codes whose series exist from the start."""


class WebhookSeries:
    """The families that all webhooks of a registry share."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "How long the answer to an admission request took.",
            ["webhook"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Admission requests by HTTP status code.",
            ["webhook", "code"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests that are being answered.",
            ["webhook"],
            registry=registry,
        )
        self.panics = Counter(
            "controller_runtime_webhook_panics_total",
            "Admission requests on which a handler raised.",
            registry=registry,
        )

    def webhook(self, path: str) -> "WebhookMetrics":
        """Return the series of the webhook at `path`, all at 0."""
        return WebhookMetrics(self, path)


class WebhookMetrics:
    """The series of one webhook."""

    def __init__(self, family: WebhookSeries, path: str) -> None:
        self._requests, self._path = family.requests, path
        self._latency = family.latency.labels(path)
        self._in_flight = family.in_flight.labels(path)
        self._panics = family.panics
        for code in CODES:
            family.requests.labels(path, code)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count what is in work inside the context, and the time it takes."""
        begun = perf_counter()
        self._in_flight.inc()
        try:
            yield
        finally:
            self._in_flight.dec()
            self._latency.observe(perf_counter() - begun)

    def answered(self, code: int, *, failed: bool) -> None:
        """Count an answer by its HTTP status code, and whether the handler raised."""
        self._requests.labels(self._path, str(code)).inc()
        if failed:
            self._panics.inc()


class CertificateSeries:
    """How reading serving certificates went."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reads = Counter(
            "certwatcher_read_certificate_total",
            "How often a serving certificate was read.",
            registry=registry,
        )
        self.errors = Counter(
            "certwatcher_read_certificate_errors_total",
            "How often a serving certificate could not be used.",
            registry=registry,
        )
        self.expiry = Gauge(
            "controller_certificate_expiry_timestamp_seconds",
            "When the serving certificate that is shown ceases to be valid, in Unix time.",
            ["server"],
            registry=registry,
        )
