"""The metrics of webhooks, with controller-runtime's names, and the type of served webhooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.queuemetrics import BUCKETS
from controller.webhooks.conversion import Conversion
from controller.webhooks.webhook import Webhook

CODES = ("200", "500")
"""HTTP status codes whose series exist before the first request."""

Served = Webhook[Any] | Conversion[Any]
"""A webhook or a conversion: each has a path on the webhook server."""


class WebhookFamilies:
    """The metric families that all webhooks share, with controller-runtime's names.

    Args:
        registry: where the families are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "How long the answer to a webhook request took.",
            ["webhook"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Webhook requests by HTTP status code.",
            ["webhook", "code"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Webhook requests that are being answered.",
            ["webhook"],
            registry=registry,
        )
        self.panics = Counter(
            "controller_runtime_webhook_panics_total",
            "Webhook requests on which a handler or a conversion raised.",
            registry=registry,
        )


class WebhookMetrics:
    """The metrics of one webhook.

    Args:
        families: where they are registered.
        path: the webhook's path, for the label `webhook`.
    """

    def __init__(self, families: WebhookFamilies, path: str) -> None:
        self._requests, self._path = families.requests, path
        self._latency = families.latency.labels(path)
        self._in_flight = families.in_flight.labels(path)
        self._panics = families.panics
        for code in CODES:
            families.requests.labels(path, code)

    @contextmanager
    def measure_request(self) -> Iterator[None]:
        """Count a request as in flight inside the context, and measure its duration."""
        begun_at = perf_counter()
        self._in_flight.inc()
        try:
            yield
        finally:
            self._in_flight.dec()
            self._latency.observe(perf_counter() - begun_at)

    def count_answer(self, code: int, *, has_bug: bool) -> None:
        """Count an answer to a request.

        Args:
            code: the HTTP status code.
            has_bug: whether the handler or conversion function raised because of a bug.
        """
        self._requests.labels(self._path, str(code)).inc()
        if has_bug:
            self._panics.inc()
