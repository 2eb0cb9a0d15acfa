"""Metrics of waiting: requests for addresses, Services without address, unreachable tenants.

A TenantCluster that finds no pool with room creates no IPAllocation, so its requests are read from
its status.network. Such a request counts for each pool that may serve it, because the first pool
that gets room serves it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.addressing.poolneeds import PoolNeed, list_pool_families, sum_pool_needs
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY, TenantCluster
from reconcilers.api.tenantnetwork import WaitingRequest
from reconcilers.clusteraccess.tenantfailures import UNREACHABLE

POOL = ["pool", "namespace"]
TENANT = ["tenant_cluster", "namespace"]


def make_waiting_metrics(
    clusters: Iterable[TenantCluster],
    pools: Iterable[NetworkPool],
    waiting_allocations: Iterable[IPAllocation],
    now: datetime,
) -> Iterator[Metric]:
    """Yield the metrics of clusters that wait; clusters that are being deleted do not count.

    Args:
        waiting_allocations: the IPAllocations that wait for a range.
    """
    present = [cluster for cluster in clusters if not cluster.metadata.is_terminating]
    pools_by_key = {pool.metadata.key: pool for pool in pools}
    yield from _make_waiting_cluster_gauges(present, pools_by_key, now)
    yield _make_largest_request_gauge(present, pools_by_key, waiting_allocations)
    yield from _make_cluster_gauges(present, now)


def _make_waiting_cluster_gauges(
    clusters: Iterable[TenantCluster], pools: dict[Key, NetworkPool], now: datetime
) -> Iterator[Metric]:
    """Yield the gauges of clusters that wait without an IPAllocation.

    They are the number of clusters by reason, their number by pool and reason, and the age of the
    oldest request by pool.
    """
    by_reason = Counter[str]()
    by_pool = Counter[tuple[Key, str]]()
    oldest: dict[Key, float] = dict.fromkeys(pools, 0.0)
    for cluster in clusters:
        requests = _list_requests_without_allocation(cluster)
        # A cluster counts once for a pool and a reason, even with several requests.
        by_reason.update({request.reason for request in requests})
        candidates = [
            (key, request) for request in requests for key in _list_candidate_pools(request, pools)
        ]
        by_pool.update({(key, request.reason) for key, request in candidates})
        for key, request in candidates:
            if request.since is not None:
                oldest[key] = max(oldest[key], (now - request.since).total_seconds())
    total = GaugeMetricFamily(
        "butler_tenant_clusters_waiting",
        "TenantClusters that wait for addresses without an IPAllocation, by reason.",
        labels=["reason"],
    )
    # The two usual reasons have a series even at 0.
    for reason in sorted({"PoolExhausted", "PoolNotFound", *by_reason}):
        total.add_metric([reason], by_reason[reason])
    yield total
    count = GaugeMetricFamily(
        "butler_network_pool_waiting_tenant_clusters",
        "TenantClusters that wait for addresses without an IPAllocation, and that the pool may"
        " serve, by reason.",
        labels=[*POOL, "reason"],
    )
    age = GaugeMetricFamily(
        "butler_network_pool_oldest_waiting_tenant_cluster_seconds",
        "Seconds since the oldest TenantCluster that the pool may serve began to wait for"
        " addresses without an IPAllocation; 0 if none waits.",
        labels=POOL,
    )
    for (key, reason), number in sorted(by_pool.items()):
        count.add_metric([key.name, key.namespace, reason], number)
    for key, seconds in sorted(oldest.items()):
        age.add_metric([key.name, key.namespace], seconds)
    yield from (count, age)


def _make_largest_request_gauge(
    clusters: Iterable[TenantCluster],
    pools: dict[Key, NetworkPool],
    waiting_allocations: Iterable[IPAllocation],
) -> Metric:
    """Return the size of the largest waiting request, by pool and family."""
    needs = sum_pool_needs(clusters, pools, waiting_allocations)
    gauge = GaugeMetricFamily(
        "butler_network_pool_largest_waiting_request",
        "Addresses that the largest waiting request needs; the node and load-balancer addresses"
        " of a TenantCluster are one request. 0 if none waits.",
        labels=POOL,
    )
    for key, pool in sorted(pools.items()):
        for family in list_pool_families(pool):
            labels = {"pool": key.name, "namespace": key.namespace}
            if pool.spec.secondary is not None:
                labels["family"] = FAMILY_NAMES[family]
            need = needs.get((key, family), PoolNeed())
            gauge.add_sample(gauge.name, labels, need.largest)
    return gauge


def _make_cluster_gauges(clusters: Iterable[TenantCluster], now: datetime) -> Iterator[Metric]:
    """Yield the gauges of clusters: waiting Services, unreachable tenants, seconds of building."""
    services = GaugeMetricFamily(
        "butler_tenant_cluster_waiting_services",
        "Services of the tenant that have long been without an address.",
        labels=TENANT,
    )
    unreachable = GaugeMetricFamily(
        "butler_tenant_cluster_unreachable",
        "1 if the tenant's API server does not answer, otherwise 0.",
        labels=TENANT,
    )
    building = GaugeMetricFamily(
        "butler_tenant_cluster_building_seconds",
        "Seconds since the creation of a TenantCluster that has never been Ready.",
        labels=TENANT,
    )
    for cluster in sorted(clusters, key=lambda cluster: cluster.metadata.key):
        labels = [cluster.metadata.name, cluster.metadata.namespace]
        network = cluster.status.network
        waiting = network.loadBalancer.servicesWaiting if network is not None else None
        if waiting is not None:
            services.add_metric(labels, waiting)
        balancer = find_condition(cluster.status.conditions, LOAD_BALANCER_READY)
        if balancer is not None:
            unreachable.add_metric(labels, float(balancer.reason == UNREACHABLE))
        created = cluster.metadata.creationTimestamp
        if not cluster.is_ready and not cluster.observed_only and created is not None:
            building.add_metric(labels, (now - created).total_seconds())
    yield from (services, unreachable, building)


def _list_requests_without_allocation(cluster: TenantCluster) -> list[WaitingRequest]:
    """Return the waiting requests without IPAllocation.

    A request with an IPAllocation is counted among the waiting allocations (objectgauges.py).
    """
    network = cluster.status.network
    if network is None:
        return []
    return [request for request in network.waiting if not request.allocation]


def _list_candidate_pools(request: WaitingRequest, pools: dict[Key, NetworkPool]) -> list[Key]:
    """Return the keys of the existing pools that may serve a request."""
    keys = (Key(request.namespace, name) for name in request.pools)
    return [key for key in keys if key in pools]
