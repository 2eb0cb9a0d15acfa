"""The outcomes of KKP's Clusters for `plan`: their new addresses, or why they got none.

`plan` runs the controllers on manifests, and compares the objects before and after.
"""

import re
from collections.abc import Iterator

from controller.meta import Key
from reconcilers.integrations.core.views import Planned
from reconcilers.integrations.kubermatic.api import (
    CLUSTERS,
    CONDITION,
    POOLS,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.contents import list_contents
from reconcilers.integrations.kubermatic.reading import POOL_INDEX, KubermaticCaches

_FAILURE = re.compile(r"; (?=failed to ensure IPAM Pool Allocation for IPAM Pool )")
"""Separates the messages of two pools in the condition of a Cluster."""


def list_outcomes(before: KubermaticCaches, after: KubermaticCaches) -> Iterator[Planned]:
    """Yield the outcomes of Clusters by pool: new addresses, or why the Cluster lacks addresses.

    A Cluster that needed nothing has no outcome.

    Args:
        before: the objects as they were.
        after: the objects as the controllers left them.
    """
    for content in list_contents(after):
        pool = content.pool
        allocations = after.allocations.list_by_index(POOL_INDEX, pool.metadata.name)
        for allocation in sorted(allocations, key=lambda obj: obj.metadata.key):
            cluster = after.find_cluster(allocation.metadata.namespace)
            gets = _describe_added(before.allocations.get(allocation.metadata.key), allocation)
            if cluster is not None and gets and allocation.spec.dc == content.name:
                yield _build_planned(
                    pool, content.name, cluster=cluster.metadata.key, gets=gets, reason=""
                )
        for cluster in after.list_served(content.name):
            condition = cluster.status.conditions.get(CONDITION)
            # Only a condition that is False names pools whose addresses are lacking.
            if condition is None or condition.status != "False":
                continue
            subject = f"for IPAM Pool {pool.metadata.name} in cluster "
            for message in _FAILURE.split(condition.message):
                if subject in message:
                    reason = f"{condition.reason}: {message}"
                    yield _build_planned(
                        pool, content.name, cluster=cluster.metadata.key, gets="", reason=reason
                    )


def _describe_added(before: IPAMAllocation | None, after: IPAMAllocation) -> str:
    """Return the addresses that an allocation did not have before; empty for none."""
    old_addresses = set(before.spec.addresses) if before is not None else set()
    added = [addresses for addresses in after.spec.addresses if addresses not in old_addresses]
    if after.spec.cidr and (before is None or before.spec.cidr != after.spec.cidr):
        added.append(after.spec.cidr)
    return ", ".join(added)


def _build_planned(
    pool: IPAMPool, datacenter: str, cluster: Key, gets: str, reason: str
) -> Planned:
    """Return the outcome of a Cluster in one datacenter of a pool.

    Args:
        gets: the new addresses; empty for none.
        reason: why it gets none; empty if it gets some.
    """
    name = f"{POOLS.kind} {pool.metadata.name} in {datacenter}"
    return Planned(CLUSTERS.group, CLUSTERS.kind, key=cluster, pool=name, gets=gets, reason=reason)
