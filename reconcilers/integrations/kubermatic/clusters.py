"""The condition of a Cluster that says whether it has its addresses of every pool.

KKP's own controller leaves reason and message of this condition empty; this program fills both. It
writes nothing else of a Cluster.

A problem is *harmless* if the cluster has its addresses nevertheless.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, NotFound
from controller.loggers import get_logger
from controller.meta import Key
from controller.outcome import SETTLED, Again, Outcome
from reconcilers.api import names
from reconcilers.integrations.kubermatic.api import (
    CLUSTERS,
    CONDITION,
    ClusterCondition,
    KkpCluster,
)
from reconcilers.integrations.kubermatic.holdings import AllocationProblem
from reconcilers.integrations.kubermatic.planning import POOL_EXHAUSTED
from reconcilers.integrations.kubermatic.pools import INVALID_POOL
from reconcilers.integrations.kubermatic.reading import KubermaticCaches
from reconcilers.integrations.kubermatic.reports import RECONCILING_ERROR, Reports

log = get_logger(__name__)

ALLOCATED = "Allocated"
NO_POOL = "NoPool"
RETRY = 0.2
"""Seconds until a pass is repeated whose write had a conflict."""
_GENERATED = (POOL_EXHAUSTED, INVALID_POOL)
"""The reasons that KKP's controller reports as failures to generate the IPAMAllocation."""


def describe_failure(cluster: KkpCluster, pool: str, problem: AllocationProblem) -> str:
    """Return the message of KKP's controller for a problem that keeps a cluster from addresses."""
    generated = "failed to generate object: " if problem.reason in _GENERATED else ""
    return (
        f"failed to ensure IPAM Pool Allocation for IPAM Pool {pool} in cluster"
        f" {cluster.metadata.name}: failed to ensure IPAMAllocation {cluster.namespace}/{pool}:"
        f" {generated}{problem.message}"
    )


def make_condition(
    cluster: KkpCluster, problems: Mapping[str, AllocationProblem | None]
) -> ClusterCondition:
    """Return the condition for a cluster, computed from the problems, without its time.

    The condition is False if a pool keeps the cluster from its addresses. Otherwise it is True,
    with the harmless problems if there are any.

    Args:
        problems: by the name of each pool that has reported: its problem; None for no problem.
    """
    reported = [
        (pool, problem) for pool, problem in sorted(problems.items()) if problem is not None
    ]
    failures = [(pool, problem) for pool, problem in reported if not problem.is_harmless]
    if failures:
        _, first_problem = failures[0]
        message = "; ".join(describe_failure(cluster, pool, problem) for pool, problem in failures)
        return ClusterCondition("False", first_problem.reason, message)
    if reported:
        _, first_problem = reported[0]
        message = "; ".join(f"IPAMPool {pool}: {problem.message}" for pool, problem in reported)
        return ClusterCondition("True", first_problem.reason, message)
    if not problems:
        fallback = f"no IPAMPool names datacenter {cluster.datacenter}"
        return ClusterCondition("True", NO_POOL, fallback)
    return ClusterCondition("True", ALLOCATED, f"addresses of {', '.join(sorted(problems))}")


@dataclass(slots=True)
class _ClusterReports:
    """What this process has reported about one Cluster.

    Args:
        uid: the uid of the Cluster.
        events: by pool, the message of the last event.
        failure: the last condition that this process wrote because its requests failed. The
            requests of another replica may succeed, or fail with another message. If replicas
            wrote their failures again and again, each would overwrite the other's.
    """

    uid: str
    events: Mapping[str, str] = field(default_factory=dict)
    failure: ClusterCondition | None = None


class ClusterReconciler:
    """Writes the condition of Clusters.

    Args:
        client: for the writes.
        reports: what passes over pools report.
        clock: the time.
    """

    def __init__(
        self, client: Client, caches: KubermaticCaches, reports: Reports, clock: Clock
    ) -> None:
        self._client = client
        self._caches = caches
        self._reports = reports
        self._clock = clock
        self._reports_by_cluster: dict[Key, _ClusterReports] = {}
        """By the key of a Cluster: what this process has reported about it."""

    async def reconcile(self, key: Key) -> Outcome:
        """Bring the condition of one Cluster up to date."""
        cluster = self._caches.clusters.get(key)
        is_unreadable = key in self._caches.clusters.unreadable
        if cluster is None and not is_unreadable:
            self._reports.forget_cluster(key)
            self._reports_by_cluster.pop(key, None)
            return SETTLED
        # The cache has only an older version of a Cluster that cannot be decoded. A Cluster that
        # this process does not serve may be another controller's.
        if cluster is None or is_unreadable or not cluster.is_served(self._caches.worker):
            return SETTLED
        problems = self._reports.list_for_cluster(key)
        condition = make_condition(cluster, problems)
        # A pool without report may still have a problem; one problem is enough for False.
        if condition.status == "True" and self._awaits_pools(cluster, problems):
            return SETTLED
        reported = self._get_cluster_reports(cluster)
        self._record_failures(cluster, problems, reported)
        # Another replica may have another failure, or none. Each replica writes its failure once;
        # otherwise the replicas would overwrite each other's condition again and again.
        is_own_failure = any(
            problem is not None and problem.reason == RECONCILING_ERROR
            for problem in problems.values()
        )
        if not is_own_failure:
            reported.failure = None
        old_condition = cluster.status.conditions.get(CONDITION, ClusterCondition())
        is_shown = (old_condition.status, old_condition.reason, old_condition.message) == (
            condition.status,
            condition.reason,
            condition.message,
        )
        if is_shown or reported.failure == condition:
            return SETTLED
        try:
            status = self._build_status_patch(old_condition, condition)
            await self._client.patch_status(CLUSTERS, cluster, status)
            if is_own_failure:
                reported.failure = condition
        except Conflict:
            return Again(RETRY)  # the cache lags behind another write of the Cluster
        except NotFound:
            log.debug("The cluster is gone", cluster=str(key))
        return SETTLED

    def _awaits_pools(
        self, cluster: KkpCluster, problems: Mapping[str, AllocationProblem | None]
    ) -> bool:
        """Return whether a pool of the cluster's datacenter has had no pass in this process yet.

        When a process starts, the earlier condition stays until all pools have reported.
        The report of a pool enqueues the cluster again.
        """
        # A pool that cannot be decoded may name the datacenter of this cluster.
        if any(pool.name not in problems for pool in self._caches.pools.unreadable):
            return True
        return any(  # a pool that is being deleted has no pass
            pool.metadata.name not in problems and not pool.metadata.is_terminating
            for pool in self._caches.list_pools_in([cluster.datacenter])
        )

    def _get_cluster_reports(self, cluster: KkpCluster) -> _ClusterReports:
        """Return the reports about a cluster; for a new cluster, store an empty record.

        A recreated cluster of the same name has another uid, so it counts as new.
        """
        meta = cluster.metadata
        reported = self._reports_by_cluster.get(meta.key)
        if reported is None or reported.uid != meta.uid:
            reported = self._reports_by_cluster[meta.key] = _ClusterReports(meta.uid)
        return reported

    def _record_failures(
        self,
        cluster: KkpCluster,
        problems: Mapping[str, AllocationProblem | None],
        reported: _ClusterReports,
    ) -> None:
        """Record an event for each problem that keeps a cluster from addresses, if it is new."""
        texts = {
            name: describe_failure(cluster, name, problem)
            for name, problem in sorted(problems.items())
            if problem and not problem.is_harmless
        }
        for name, message in texts.items():
            pool = self._caches.pools.get(Key("", name))
            # An event names the pool, which may be gone.
            if pool is not None and reported.events.get(name) != message:
                self._reports.record_error(cluster, pool, message)
        reported.events = texts

    def _build_status_patch(
        self, old_condition: ClusterCondition, new_condition: ClusterCondition
    ) -> Mapping[str, Any]:
        """Return the patch of a Cluster's status that sets the condition.

        The transition time changes only with the status, as Kubernetes' API conventions say.
        """
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        has_same_status = (
            old_condition.status == new_condition.status and old_condition.lastTransitionTime
        )
        condition = {
            "status": new_condition.status,
            "reason": new_condition.reason,
            "message": new_condition.message,
            "kubermaticVersion": names.FIELD_MANAGER,
            "lastHeartbeatTime": now,
            "lastTransitionTime": old_condition.lastTransitionTime if has_same_status else now,
        }
        return {"conditions": {CONDITION: condition}}
