"""Counters and histograms of what happened to allocations, for Prometheus.

Gauges of the present state are in objectgauges.py, which reads the caches at each scrape, so that
no gauge can be stale. Series are labelled by pool, because there are few pools. They are removed
with their pool.
"""

from functools import cache
from importlib.metadata import version
from platform import python_version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.meta import Key
from reconcilers.api import names

SUCCESS = "success"
FAILED = "failed"
CORRECTED_KINDS = ("IPAddressPool", "L2Advertisement")
LATENCY_SECONDS = (
    *(0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0),
    *(300.0, 900.0, 3600.0, 14400.0, 86400.0),
)


@cache
def _read_installed_version() -> str:
    """Return the installed version of butler-ipam.

    Cached, because the look-up reads all folders of `sys.path`.
    """
    return version("butler-ipam")


class IpamMetrics:
    """The counters and histograms of one manager.

    Args:
        registry: for the metrics; a new one by default.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        build = Gauge(
            "butler_ipam_build_info",
            "1; the labels say which version of the controllers runs, on which Python.",
            ["version", "python"],
            registry=registry,
        )
        build.labels(_read_installed_version(), python_version()).set(1)
        self._processed = Counter(
            "butler_ip_allocation_processed_total",
            "Allocations that a pool gave a range to (success) or had to refuse (failed).",
            ["pool", "namespace", "result"],
            registry=registry,
        )
        self._refused_writes = Counter(
            "butler_ip_allocation_refused_writes_total",
            "Status writes of allocations that the API server refused for good.",
            ["pool", "namespace"],
            registry=registry,
        )
        self._collected = Counter(
            "butler_ip_allocation_orphans_collected_total",
            "Allocations deleted because their TenantCluster is gone.",
            ["pool", "namespace"],
            registry=registry,
        )
        self._contents = Counter(
            "butler_network_pool_contents_differences_total",
            "Checks that found wrong facts about a pool's allocations, and replaced them.",
            ["pool", "namespace"],
            registry=registry,
        )
        self._grown = Counter(
            "butler_ip_allocation_growth_total",
            "Allocations that were added because Services of an elastic tenant had no address.",
            ["pool", "namespace"],
            registry=registry,
        )
        self._shrunk = Counter(
            "butler_ip_allocation_shrink_total",
            "Allocations that were released because an elastic tenant did not use them.",
            ["pool", "namespace"],
            registry=registry,
        )
        self._corrected = Counter(
            "butler_tenant_corrections_total",
            "Objects in tenants that others edited and that were restored, by kind.",
            ["kind"],
            registry=registry,
        )
        # Series that exist at 0 from the start let `rate` see the first event as a rise.
        for kind in CORRECTED_KINDS:
            self._corrected.labels(kind)
        self._latency = Histogram(
            "butler_ip_allocation_seconds",
            "Seconds from the creation of an allocation until it has a range, by type.",
            ["type"],
            buckets=LATENCY_SECONDS,
            registry=registry,
        )
        for allocation_type in (names.TYPE_NODES, names.TYPE_LOADBALANCER):
            self._latency.labels(allocation_type)
        self._pool_counters = (
            *(self._refused_writes, self._collected, self._grown, self._shrunk),
            self._contents,
        )
        self._pools: set[Key] = set()

    def start_series(self, pool: Key) -> None:
        """Start the series of a pool at 0, so that `rate` sees its first failure as a rise."""
        if pool not in self._pools:
            self._pools.add(pool)
            for result in (SUCCESS, FAILED):
                self._processed.labels(pool.name, pool.namespace, result)
            for counter in self._pool_counters:
                counter.labels(pool.name, pool.namespace)

    def count_served(self, pool: Key, allocation_type: str, seconds: float) -> None:
        """Count an allocation that got its range.

        Args:
            allocation_type: the allocation's spec.type. A type other than "nodes" counts as
                "loadbalancer", so that the label has only two values.
            seconds: from the request to the range.
        """
        self._processed.labels(pool.name, pool.namespace, SUCCESS).inc()
        is_for_nodes = allocation_type == names.TYPE_NODES
        type_label = names.TYPE_NODES if is_for_nodes else names.TYPE_LOADBALANCER
        # Clocks of the API server and of this process may differ, so the time may be negative.
        self._latency.labels(type_label).observe(max(0.0, seconds))

    def count_failed(self, pool: Key) -> None:
        """Count an allocation that was marked Failed."""
        self._processed.labels(pool.name, pool.namespace, FAILED).inc()

    def count_refused_write(self, pool: Key) -> None:
        """Count a status write that the API server rejected and that is not retried."""
        self._refused_writes.labels(pool.name, pool.namespace).inc()

    def count_collected(self, pool: Key) -> None:
        """Count an orphan that was deleted, unless its pool does not exist."""
        self._count_if_pool_exists(self._collected, pool)

    def count_wrong_contents(self, pool: Key) -> None:
        """Count a check that found an error in what the pool's pass remembers of allocations."""
        self._count_if_pool_exists(self._contents, pool)

    def count_grown(self, pool: Key) -> None:
        """Count an allocation that growth added."""
        self._count_if_pool_exists(self._grown, pool)

    def count_shrunk(self, pool: Key) -> None:
        """Count an allocation that shrink released, after it was withdrawn from its tenant."""
        self._count_if_pool_exists(self._shrunk, pool)

    def count_corrected(self, kind: str) -> None:
        """Count an edit by others of an object of ours in a tenant that was written back."""
        self._corrected.labels(kind).inc()

    def _count_if_pool_exists(self, counter: Counter, pool: Key) -> None:
        """Raise a counter of a pool by 1, unless the pool does not exist."""
        # `forget` would never remove a series that begins after the pool is gone.
        if pool in self._pools:
            counter.labels(pool.name, pool.namespace).inc()

    def forget(self, pool: Key) -> None:
        """Remove the series of a pool that is gone."""
        if pool not in self._pools:
            return  # `start_series` was not called for it, so it has no series
        self._pools.remove(pool)
        for result in (SUCCESS, FAILED):
            self._processed.remove(pool.name, pool.namespace, result)
        for counter in self._pool_counters:
            counter.remove(pool.name, pool.namespace)
