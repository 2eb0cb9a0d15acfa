"""Metrics of pools of claims and of claims that wait, read from the caches at each scrape.

No number is stored between scrapes, so none can be stale. Only one replica exports the metrics:
the leader or, with shards, the replica that holds shard 0.

A metric family is one metric name with its values for all label sets.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from controller.cacheparts import CachePart
from controller.clock import Clock
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.api import POOLS, IPAddressClaim, Pool, PoolCounts
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    ClaimPool,
    find_pool_kind,
    get_pool_key,
)
from reconcilers.integrations.clusterapi.reading import make_source
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.integrations.core.claimreading import check_caches_readable
from reconcilers.promises.unreadable import find_unreadable

LABELS = ["kind", "namespace", "pool"]
POOL_GAUGES: tuple[tuple[str, str, Callable[[PoolCounts], int]], ...] = (
    (
        "butler_claim_pool_total",
        "Addresses, or prefixes, that a pool may hand out.",
        lambda counts: counts.total,
    ),
    ("butler_claim_pool_used", "IPAddresses that name a pool.", lambda counts: counts.used),
    (
        "butler_claim_pool_free",
        "Addresses, or prefixes, that a pool can hand out now.",
        lambda counts: counts.free,
    ),
    (
        "butler_claim_pool_out_of_range",
        "Addresses, or prefixes, that are in use and that the pool may not hand out.",
        lambda counts: counts.outOfRange,
    ),
)


UNKNOWN_TOGETHER = {"butler_claim_pool_used", "butler_claim_pool_free"}
"""Gauges that are left out for a pool while an object that may hold its addresses cannot be
decoded: such an object may change these numbers."""


class ClaimGauges(Collector):
    """Collects the metrics of all pools of claims, and of waiting claims.

    Args:
        is_leading: returns whether this replica exports the metrics. If several replicas did, a
            sum over replicas would count each pool more than once.
    """

    def __init__(
        self, caches: ClaimCaches, clock: Clock, is_leading: Callable[[], bool] = lambda: True
    ) -> None:
        self._caches = caches
        self._is_leading = is_leading
        self._waiting = CachePart(caches.claims, _is_waiting)
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, so that registering these reads no cache."""
        return ()

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; none if this replica does not lead."""
        if self._is_leading():
            yield from self._collect_pool_metrics()
            yield from self._collect_claim_metrics()

    def _collect_pool_metrics(self) -> Iterator[Metric]:
        """Yield the metric family of each pool gauge, from the counts in the pools' statuses.

        A pool without counts is left out. So are the gauges of UNKNOWN_TOGETHER for a pool with
        unreadable holders.
        """
        for name, description, value in POOL_GAUGES:
            family = GaugeMetricFamily(name, description, labels=LABELS)
            for kind in POOLS:
                for pool in self._caches.pools.get(kind.kind, ()):
                    assert not isinstance(pool, NetworkPool), "POOLS lacks this kind"
                    counts, meta = pool.status.ipAddresses, pool.metadata
                    if counts is None or (
                        name in UNKNOWN_TOGETHER and self._has_unreadable_holders(kind, pool)
                    ):
                        continue
                    family.add_metric([kind.kind, meta.namespace, meta.name], value(counts))
            yield family

    def _has_unreadable_holders(self, kind: Resource[Pool], pool: Pool) -> bool:
        """Return whether objects that cannot be decoded may hold addresses of a pool."""
        pool_name = ClaimPool(kind, pool.metadata.key)
        check = partial(check_caches_readable, make_source(self._caches), pool_name)
        return bool(find_unreadable(check))

    def _collect_claim_metrics(self) -> Iterator[Metric]:
        """Yield two metric families by pool: how many claims wait, and the age of the oldest.

        The age is in seconds. Paused claims do not count: a person decided that they wait.
        """
        now = self._clock.now()
        ages: dict[tuple[str, str, str], list[float]] = {}
        for claim in self._waiting:
            kind, since = find_pool_kind(claim.spec.poolRef), claim.metadata.creationTimestamp
            if kind is not None and not self._caches.is_claim_paused(claim):
                key = get_pool_key(kind, claim)
                age = (now - since).total_seconds() if since else 0.0
                ages.setdefault((kind.kind, key.namespace, key.name), []).append(age)
        count = GaugeMetricFamily(
            "butler_claim_pool_waiting_claims",
            "Claims that have no address and are not paused.",
            labels=LABELS,
        )
        oldest = GaugeMetricFamily(
            "butler_claim_pool_oldest_waiting_seconds",
            "Age in seconds of the oldest claim that has no address and is not paused.",
            labels=LABELS,
        )
        for names, seconds in sorted(ages.items()):
            count.add_metric(names, len(seconds))
            oldest.add_metric(names, max(seconds))
        yield count
        yield oldest


def _is_waiting(claim: IPAddressClaim) -> bool:
    """Return whether a claim on a pool of a served kind has no address and is not being deleted.

    A claim without our finalizer counts, too: it may be too new for a pass over it.
    """
    has_served_kind = find_pool_kind(claim.spec.poolRef) is not None
    return has_served_kind and not claim.metadata.is_terminating and read_record(claim) is None
