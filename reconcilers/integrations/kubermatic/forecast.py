"""What the Clusters among manifests would get of IPAMPools, without a cluster.

They are planned for by what passes over pools plan with (`planning.py`), the oldest first.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from controller.meta import Key
from reconcilers.integrations.core.owners import owner_reference
from reconcilers.integrations.core.views import Planned
from reconcilers.integrations.kubermatic.allocations import content
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    JOURNALS,
    POOLS,
    IPAMAllocation,
)
from reconcilers.integrations.kubermatic.clusters import failure_message
from reconcilers.integrations.kubermatic.contents import DatacenterContents, contents_of
from reconcilers.integrations.kubermatic.facts import holdings_of, spaces_of
from reconcilers.integrations.kubermatic.holdings import Problem
from reconcilers.integrations.kubermatic.planning import (
    ClusterGrant,
    Content,
    Plan,
    PoolContent,
    plan,
)
from reconcilers.integrations.kubermatic.reading import POOL_INDEX, KubermaticCaches
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.settling import find_promised_version
from reconcilers.promises.unreadable import (
    HOLDERS_UNKNOWN,
    UnreadableHolders,
    holders_unknown_message,
)

ALL = 1 << 30
"""A forecast is of all clusters, not of one batch."""
Body = Mapping[str, Any]


def forecast(
    caches: KubermaticCaches, given: Mapping[tuple[str, Key], Body]
) -> tuple[list[Planned], list[Body]]:
    """Return what becomes of the clusters that lack addresses, and the manifests after that.

    Args:
        caches: the objects.
        given: the manifests by kind and key.
    """
    planned: list[Planned] = []
    bodies: dict[tuple[str, Key], Body] = dict(given)
    for one in contents_of(caches):
        for grant, text in _granted(caches, one):
            key = Key(grant.cluster.namespace, one.pool.metadata.name)
            bodies[ALLOCATIONS.kind, key] = _body(one, grant, bodies)
            planned.append(_planned(one, grant.cluster.metadata.key, text, ""))
        planned += _refused(caches, one)
    return planned, list(bodies.values())


def _planned(one: DatacenterContents, key: Key, gets: str, reason: str) -> Planned:
    pool = f"{POOLS.kind} {one.pool.metadata.name} in {one.name}"
    return Planned(CLUSTERS.group, CLUSTERS.kind, key, pool, gets, reason)


def _plan(caches: KubermaticCaches, one: DatacenterContents) -> Plan:
    """Plan one datacenter; what is promised already is granted as well."""
    assert one.space is not None, "the caller has checked"
    pool, served = one.pool.metadata.name, caches.served(one.name)
    find = find_by_key(JOURNALS.kind, caches.allocations.get)
    promised = [
        (promise, allocation)
        for promise in JOURNALS.read(one.pool).promises
        if (allocation := find_promised_version(promise, find(promise.holder))) is not None
    ]
    ranges = [part for promise, _ in promised for part in promise.in_space(one.name)]
    found = PoolContent(
        pool,
        {one.name: Content(one.space, one.allocations, served, ranges)},
        holdings_of(
            pool,
            spaces_of(one.pool),
            caches.allocations.by_index(POOL_INDEX, pool),
            caches.cluster_in,
            (cluster.namespace for cluster in served),
        ),
        find,
        [promise for promise, _ in promised],
    )
    made = plan(found, ALL).by_datacenter[one.name]
    clusters = {cluster.namespace: cluster for cluster in served}
    for promise, allocation in promised:
        cluster, parts = clusters.get(promise.key.namespace), promise.in_space(one.name)
        if cluster is not None and parts:
            made.grants.append(ClusterGrant(cluster, one.name, allocation, parts))
    return made


def _granted(
    caches: KubermaticCaches, one: DatacenterContents
) -> Iterator[tuple[ClusterGrant, str]]:
    """Yield what a datacenter gives, with its text."""
    if one.space is not None and not one.unreadable:
        for grant in _plan(caches, one).grants:
            ranges = (part.text if one.space.prefixes else _span(part) for part in grant.ranges)
            yield grant, ", ".join(ranges)


def _span(part: Any) -> str:
    return f"{part.start_text}-{part.end_text}"


def _refused(caches: KubermaticCaches, one: DatacenterContents) -> Iterator[Planned]:
    """Yield the clusters to which a datacenter gives nothing, with the reason."""
    by_cluster: Mapping[Key, Problem | None]
    if one.space is None:
        problem = Problem("InvalidPool", one.fault)
        by_cluster = {cluster.metadata.key: problem for cluster in caches.served(one.name)}
    elif one.unreadable:
        why = holders_unknown_message(str(UnreadableHolders(one.unreadable)))
        problem = Problem(HOLDERS_UNKNOWN, why)
        by_cluster = {cluster.metadata.key: problem for cluster in one.waiting}
    else:
        by_cluster = _plan(caches, one).by_cluster
    for key, found in by_cluster.items():
        if found is not None and not found.harmless:
            cluster = caches.clusters.get(key)
            assert cluster is not None, "it was planned for"
            reason = f"{found.reason}: {failure_message(cluster, one.pool.metadata.name, found)}"
            yield _planned(one, key, "", reason)


def _body(
    one: DatacenterContents, grant: ClusterGrant, bodies: Mapping[tuple[str, Key], Body]
) -> Body:
    """Return the manifest of an allocation after it was given what is planned."""
    name, namespace = one.pool.metadata.name, grant.cluster.namespace
    before = bodies.get((ALLOCATIONS.kind, Key(namespace, name))) or {
        "apiVersion": ALLOCATIONS.api_version,
        "kind": ALLOCATIONS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [owner_reference(one.pool, POOLS)],
        },
    }
    settings = one.pool.spec.datacenters[grant.datacenter]
    has = grant.allocation or IPAMAllocation(one.pool.metadata)
    spec = content(has, grant.datacenter, settings, grant.ranges)
    return {**before, "spec": {field: value for field, value in spec.items() if value is not None}}
