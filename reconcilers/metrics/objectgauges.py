"""Metrics of pools, allocations, providers and tenants, read from the caches at each scrape.

Each scrape computes the figures from the caches, so no figure can be stale, and the series of an
object end with the object. Only the set of unfinished allocations is kept between scrapes.

Only the replica that leads shows these metrics, because a sum over replicas would count each
object once for every replica.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from controller.cache import Cache
from controller.cacheparts import CachePart
from controller.clock import Clock
from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool, NetworkPoolStatus, parse_exact_count
from reconcilers.api.providerconfig import FamilyCapacity, ProviderConfig
from reconcilers.api.tenantcluster import (
    DELETING,
    DEMAND_MET,
    FAILED,
    INSTALLING,
    LOAD_BALANCER_READY,
    PENDING,
    PROVISIONING,
    READY,
    UPDATING,
    TenantCluster,
)
from reconcilers.metrics.waitgauges import make_waiting_metrics

POOL_GAUGES: tuple[tuple[str, str, Callable[[NetworkPoolStatus], int]], ...] = (
    ("total_ips", "Allocatable addresses.", lambda s: s.total),
    ("allocated_ips", "Addresses held by or promised to allocations.", lambda s: s.allocated),
    ("available_ips", "Free addresses.", lambda s: s.available),
    ("allocation_count", "Allocations that hold a range.", lambda s: s.allocationCount),
    (
        "fragmentation_percent",
        "0: the free space is one block; near 100: many small ones.",
        lambda s: s.fragmentationPercent or 0,
    ),
    ("largest_free_block", "Addresses in the largest free block.", lambda s: s.largest_free),
)
OPEN_PROMISES = ("open_assignments", "Promised ranges not known to be written.")
BY_FAMILY = {  # names of POOL_GAUGES
    *("total_ips", "allocated_ips", "available_ips"),
    *("fragmentation_percent", "largest_free_block"),
}
"""Gauges that a pool with two families shows once for each family, with the label `family`."""
POOL = ["pool", "namespace"]
PROVIDER = ["provider_config", "namespace"]
TENANT = ["tenant_cluster", "namespace"]
PHASES = (PENDING, PROVISIONING, INSTALLING, READY, UPDATING, DELETING, FAILED)
TENANT_GAUGES = (
    (
        "synced",
        "1 if the tenant's load balancer has all ranges of the tenant, otherwise 0.",
        LOAD_BALANCER_READY,
        True,
    ),
    (
        "demand_met",
        "1 if no Service of the tenant has waited long for an address, otherwise 0.",
        DEMAND_MET,
        False,
    ),
)
"""Gauges of a tenant's conditions: name, description, condition type, `only_built`.

A tenant without the condition has no series. For example, nothing is written into a tenant in
cloud mode, so it has no such condition. `only_built` leaves out clusters that are still being
built: their load balancer has no ranges yet, and that is no fault.
"""


@dataclass(slots=True)
class Queue:
    """The number of a pool's waiting allocations, and the age of the oldest in seconds."""

    count: int = 0
    oldest: float = 0.0

    def add(self, since: datetime | None, now: datetime) -> None:
        """Count an allocation that has waited since `since`; None if that time is not known."""
        self.count += 1
        if since is not None:  # without the time, the allocation has no age
            self.oldest = max(self.oldest, (now - since).total_seconds())


class Gauges(Collector):
    """Collects the metrics of this module at each scrape, while this replica leads.

    Args:
        is_leading: returns whether this replica leads; while it does not, no metrics are yielded.
        clock: for the ages of requests.
        count_promises: returns the number of promises in the journal of a pool.
    """

    def __init__(  # noqa: PLR0913 - what is shown
        self,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        providers: Cache[ProviderConfig],
        clusters: Cache[TenantCluster],
        clock: Clock,
        is_leading: Callable[[], bool],
        *,
        count_promises: Callable[[NetworkPool], int],
    ) -> None:
        self._pools = pools
        self._unfinished = CachePart(allocations, _is_unfinished)
        self._providers = providers
        self._clusters = clusters
        self._clock = clock
        self._is_leading = is_leading
        self._count_promises = count_promises

    def describe(self) -> Iterable[Metric]:
        """Return no metrics.

        Without this method, a registry may call `collect` at registration to check the names.
        """
        return ()

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield all gauges of this module and of waitgauges.py; none unless this replica leads."""
        if not self._is_leading():
            return  # the leader shows them, and a sum over replicas must not count twice
        yield from self._collect_pools()
        yield from self._collect_allocations()
        yield from self._collect_providers()
        yield from self._collect_clusters()
        waiting = (
            allocation
            for allocation in self._unfinished
            if statusranges.waits_for_range(allocation)
        )
        yield from make_waiting_metrics(
            self._clusters, self._pools, waiting_allocations=waiting, now=self._clock.now()
        )

    def _collect_pools(self) -> Iterator[Metric]:
        """Yield the gauges of pools: the numbers in their statuses, and their open promises."""
        pools = sorted(self._pools, key=lambda pool: pool.metadata.key)
        for name, description, read_value in POOL_GAUGES:
            gauge = GaugeMetricFamily(f"butler_network_pool_{name}", description, labels=POOL)
            for pool in pools:
                meta = pool.metadata
                statuses = (
                    _list_family_statuses(pool) if name in BY_FAMILY else [({}, pool.status)]
                )
                for family_label, status in statuses:
                    labels = {"pool": meta.name, "namespace": meta.namespace} | family_label
                    gauge.add_sample(gauge.name, labels, read_value(status))
            yield gauge
        name, description = OPEN_PROMISES
        gauge = GaugeMetricFamily(f"butler_network_pool_{name}", description, labels=POOL)
        for pool in pools:
            meta = pool.metadata
            gauge.add_metric([meta.name, meta.namespace], self._count_promises(pool))
        yield gauge

    def _collect_allocations(self) -> Iterator[Metric]:
        """Yield the number and the oldest age of waiting and releasing allocations, by pool."""
        # Each pool has a queue, so that an empty one shows 0. A pool that does not exist gets its
        # queue below, if an allocation names it.
        waiting = {pool.metadata.key: Queue() for pool in self._pools}
        releasing = {pool.metadata.key: Queue() for pool in self._pools}
        now = self._clock.now()
        for allocation in self._unfinished:
            if statusranges.waits_for_range(allocation):
                queue = waiting.setdefault(allocation.pool_key, Queue())
                queue.add(allocation.requested_at, now)
            else:
                queue = releasing.setdefault(allocation.pool_key, Queue())
                queue.add(allocation.releasing_since, now)
        yield from _make_queue_gauges(
            waiting,
            "waiting_allocations",
            oldest_name="oldest_waiting_seconds",
            activity="wait for a range",
        )
        yield from _make_queue_gauges(
            releasing,
            "releasing_allocations",
            oldest_name="oldest_release_seconds",
            activity="wait for their tenant to stop using a range",
        )

    def _collect_providers(self) -> Iterator[Metric]:
        """Yield the gauges of each ProviderConfig: valid credentials, free addresses, tenants."""
        ready = GaugeMetricFamily(
            "butler_provider_config_ready",
            "1 if the credentials of the ProviderConfig are valid, otherwise 0.",
            labels=PROVIDER,
        )
        available = GaugeMetricFamily(
            "butler_provider_config_available_ips",
            "Free addresses in the pools of the ProviderConfig.",
            labels=PROVIDER,
        )
        tenants = GaugeMetricFamily(
            "butler_provider_config_estimated_tenants",
            "Further tenants that the pools of the ProviderConfig can serve.",
            labels=PROVIDER,
        )
        for config in sorted(self._providers, key=lambda config: config.metadata.key):
            labels = {
                "provider_config": config.metadata.name,
                "namespace": config.metadata.namespace,
            }
            # Before the first pass, the status has no such field. It counts as not ready.
            ready.add_sample(ready.name, labels, float(config.status.ready or False))
            for family_label, capacity in _list_family_capacities(config):
                free = parse_exact_count(capacity.exactAvailableIPs, capacity.availableIPs)
                available.add_sample(available.name, labels | family_label, free)
                tenants.add_sample(tenants.name, labels | family_label, capacity.estimatedTenants)
        yield from (ready, available, tenants)

    def _collect_clusters(self) -> Iterator[Metric]:
        """Yield the number of TenantClusters by phase, and the gauges of their conditions."""
        clusters = sorted(self._clusters, key=lambda cluster: cluster.metadata.key)
        phases = Counter(cluster.status.phase or PENDING for cluster in clusters)
        counts = GaugeMetricFamily(
            "butler_tenant_clusters", "TenantClusters, by phase.", labels=["phase"]
        )
        for phase in PHASES:
            counts.add_metric([phase], phases[phase])
        yield counts
        for name, description, condition_type, only_built in TENANT_GAUGES:
            gauge = GaugeMetricFamily(f"butler_tenant_cluster_{name}", description, labels=TENANT)
            for cluster in clusters:
                condition = find_condition(cluster.status.conditions, condition_type)
                # In mode Observe another controller writes the phase: the cluster counts as built.
                is_built = cluster.is_ready or cluster.observed_only
                # A cluster that is still being built has no ranges yet, which is no fault.
                if condition is None or (only_built and not is_built):
                    continue
                # A tenant that is being deleted loses its ranges on purpose.
                if not cluster.metadata.is_terminating:
                    gauge.add_metric(
                        [cluster.metadata.name, cluster.metadata.namespace],
                        condition.status == "True",
                    )
            yield gauge


def _is_unfinished(allocation: IPAllocation) -> bool:
    """Return whether an allocation waits for a range or is being released."""
    return statusranges.waits_for_range(allocation) or allocation.releasing


def _list_family_statuses(pool: NetworkPool) -> list[tuple[dict[str, str], NetworkPoolStatus]]:
    """Return the label `family` and the status of each family; no label for a single family."""
    if pool.spec.secondary is None:
        return [({}, pool.status)]
    return [({"family": FAMILY_NAMES[block.spec.family]}, block.status) for block in pool.blocks]


def _list_family_capacities(
    config: ProviderConfig,
) -> Iterator[tuple[dict[str, str], FamilyCapacity]]:
    """Yield the label `family` and the capacity of each family.

    A status without capacity by family yields its total, without a label. A status without any
    capacity, for example of a new ProviderConfig, yields nothing.
    """
    capacity = config.status.capacity
    if capacity is None:
        return
    for family in capacity.families:
        yield {"family": family.family}, family
    if not capacity.families:
        yield (
            {},
            FamilyCapacity(
                "IPv4",  # required, but not shown: the series has no label
                capacity.availableIPs,
                exactAvailableIPs=None,
                estimatedTenants=capacity.estimatedTenants,
            ),
        )


def _make_queue_gauges(
    queues: dict[Key, Queue], count_name: str, oldest_name: str, activity: str
) -> Iterator[Metric]:
    """Yield two gauges by pool: the length of its queue, and the longest wait in it, in seconds.

    Args:
        queues: the queue of each pool.
        count_name: the end of the first gauge's name.
        oldest_name: the end of the second gauge's name.
        activity: what the allocations of the queue do, for the descriptions of the gauges.
    """
    count = GaugeMetricFamily(
        f"butler_network_pool_{count_name}", f"Allocations that {activity}.", labels=POOL
    )
    oldest = GaugeMetricFamily(
        f"butler_network_pool_{oldest_name}",
        f"Seconds since the oldest of the allocations that {activity} began to wait;"
        " 0 if there is none.",
        labels=POOL,
    )
    for pool, queue in sorted(queues.items()):
        count.add_metric([pool.name, pool.namespace], queue.count)
        oldest.add_metric([pool.name, pool.namespace], queue.oldest)
    yield from (count, oldest)
