"""What is wrong among KKP's pools and allocations, as findings for people."""

from collections.abc import Iterable, Iterator, Sequence

from reconcilers.integrations.core.scopedlists import NotRead, is_left_out, list_limits
from reconcilers.integrations.core.views import (
    HOST_BITS,
    Severity,
    Trouble,
)
from reconcilers.integrations.kubermatic.allocationproblems import (
    INVALID_ALLOCATION,
    find_problems,
)
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, POOLS, IPAMAllocation
from reconcilers.integrations.kubermatic.contents import DatacenterContents
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING
from reconcilers.integrations.kubermatic.reading import KubermaticCaches
from reconcilers.integrations.kubermatic.rules import (
    describe_datacenter_fault,
    list_host_bit_warnings,
    list_pool_faults,
)

_FINDINGS = {OVERLAPPING: "Overlap", INVALID_ALLOCATION: "Unreadable"}


def audit(
    caches: KubermaticCaches,
    contents: Iterable[DatacenterContents],
    not_read: Sequence[NotRead] = (),
) -> Iterator[Trouble]:
    """Yield the troubles of all datacenters, pools and allocations.

    Args:
        caches: the objects.
        contents: the pools with their contents.
        not_read: the objects that the user may not read; they do not count as missing.
    """
    for content in contents:
        yield from _audit_datacenter(content)
    for pool in sorted(caches.pools, key=lambda pool: pool.metadata.key):
        for warning in list_host_bit_warnings(pool):
            yield Trouble(
                HOST_BITS, "warning", subject=POOLS.kind, key=pool.metadata.key, sentence=warning
            )
        for fault in list_pool_faults(pool):
            yield Trouble(
                "InvalidPool", "error", subject=POOLS.kind, key=pool.metadata.key, sentence=fault
            )
    yield from _audit_allocations(caches, not_read)


def _audit_datacenter(content: DatacenterContents) -> Iterator[Trouble]:
    """Yield the troubles of a datacenter's settings, and of its allocations."""
    where = f"IPAMPool {content.pool.metadata.name} in datacenter {content.name}"
    if content.space is None:
        sentence = f"datacenter {content.name} hands out nothing: {content.fault}"
        yield Trouble(
            "InvalidPool",
            "error",
            subject=POOLS.kind,
            key=content.pool.metadata.key,
            sentence=sentence,
        )
        return  # without space, allocations cannot be judged
    if fault := describe_datacenter_fault(content.pool, content.name):
        yield Trouble(
            "InvalidPool",
            "error",
            subject=POOLS.kind,
            key=content.pool.metadata.key,
            sentence=fault,
        )
    allocations = {allocation.metadata.key: allocation for allocation in content.allocations}
    for key, problem in sorted(find_problems(content.allocations, content.space).items()):
        kind = _FINDINGS.get(problem.reason, "OutOfRange")
        severity: Severity = "warning" if kind == "OutOfRange" else "error"
        sentence = f"{where}: {problem.message}"
        yield _build_trouble(kind, severity, allocation=allocations[key], sentence=sentence)


def _build_trouble(
    kind: str, severity: Severity, allocation: IPAMAllocation, sentence: str
) -> Trouble:
    """Return the trouble of an allocation, which can be corrected by its deletion.

    If a cluster still needs the allocation, the controller recreates it.
    """
    key = allocation.metadata.key
    return Trouble(
        kind,
        severity,
        subject=ALLOCATIONS.kind,
        key=key,
        sentence=sentence,
        seen=allocation,
        removable=True,
    )


def _audit_allocations(caches: KubermaticCaches, not_read: Sequence[NotRead]) -> Iterator[Trouble]:
    """Yield the troubles of allocations that no cluster uses or can use.

    These are: no addresses, an unknown pool, an unknown datacenter, no cluster in the namespace.
    """
    # If the user may not read all Clusters, the cluster of an allocation may be among the others.
    may_have_cluster = bool(list_limits("", {CLUSTERS.full_name}, not_read))
    for allocation in sorted(caches.allocations, key=lambda allocation: allocation.metadata.key):
        key, pool = allocation.metadata.key, caches.pools.get(allocation.pool)
        if allocation.is_empty:
            sentence = "has no addresses; MetalLB refuses a pool that is made of it"
            yield _build_trouble(
                "NoAddresses", "warning", allocation=allocation, sentence=sentence
            )
        if pool is None:
            is_unknown = is_left_out(POOLS, allocation.pool, not_read)
            if allocation.pool not in caches.pools.unreadable and not is_unknown:
                sentence = f"its IPAMPool {allocation.metadata.name} does not exist"
                yield _build_trouble(
                    "UnknownPool", "warning", allocation=allocation, sentence=sentence
                )
        elif allocation.spec.dc not in pool.spec.datacenters:
            sentence = f"is of datacenter {allocation.spec.dc}, which its IPAMPool does not have"
            yield _build_trouble(
                "UnknownPool", "warning", allocation=allocation, sentence=sentence
            )
        if may_have_cluster:
            continue
        has_cluster = any(cluster.namespace == key.namespace for cluster in caches.clusters)
        # The namespace is in a Cluster's status, so a Cluster that cannot be decoded may have it.
        if not has_cluster and not caches.clusters.unreadable:
            sentence = f"no {CLUSTERS.kind} has namespace {key.namespace}; it stays in use"
            yield _build_trouble("Unclaimed", "warning", allocation=allocation, sentence=sentence)
