"""The series of requests to API servers, under client-go's names.

The label `host` is only given to the few servers whose URL is known when the process starts, not
to every tenant: series by tenant would grow without bound.
"""

from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Histogram

from controller.endpoint import RequestObserver

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)


class RequestSeries:
    """The families that all requests of a registry share."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._total = Counter(
            "rest_client_requests_total",
            "Requests to the API server by HTTP status code; <error> where none was answered.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._seconds = Histogram(
            "rest_client_request_duration_seconds",
            "How long the API server took to begin its answer.",
            ["verb", "host"],
            buckets=SECONDS,
            registry=registry,
        )

    def observer(self, server: str) -> RequestObserver:
        """Return what is told of each request to the server with this URL."""
        host = urlsplit(server).netloc

        def observe(method: str, code: str, seconds: float) -> None:
            self._total.labels(code, method, host).inc()
            self._seconds.labels(method, host).observe(seconds)

        return observe
