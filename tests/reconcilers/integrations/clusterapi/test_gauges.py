"""The metrics of pools of claims and of claims that wait, as a scrape sees them."""

from datetime import timedelta

import pytest

from controller.meta import ObjectMeta
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import (
    PAUSED,
    ClaimSpec,
    Cluster,
    ClusterSpec,
    InClusterIPPool,
    InClusterPoolStatus,
    IPAddressClaim,
    PoolCounts,
    PoolRef,
)
from reconcilers.integrations.clusterapi.gauges import ClaimGauges
from reconcilers.integrations.clusterapi.objects import fill_caches
from reconcilers.integrations.core.objects import ObjectsByKind
from tests.clock import VirtualClock

CLOCK = VirtualClock()
AGE = 90.0
"""The age of each claim, in seconds."""
POOL = "InClusterIPPool"


def make_claim(name: str, *, cluster: str = "", is_paused: bool = False) -> IPAddressClaim:
    """Return a claim of pool `p` that has no address yet."""
    created = CLOCK.now() - timedelta(seconds=AGE)
    annotations = {PAUSED: ""} if is_paused else {}
    meta = ObjectMeta(name, "b", creationTimestamp=created, annotations=annotations)
    return IPAddressClaim(meta, ClaimSpec(PoolRef(POOL, "p", api.GROUP), cluster))


def make_pool(*, is_paused: bool = False) -> InClusterIPPool:
    """Return pool `p` with the counts of COUNTS in its status."""
    meta = ObjectMeta("p", "b", annotations={PAUSED: ""} if is_paused else {})
    return InClusterIPPool(
        meta, status=InClusterPoolStatus(PoolCounts(total=8, used=3, free=5, outOfRange=1))
    )


def scrape(*claims: IPAddressClaim, pool: InClusterIPPool, clusters: list[Cluster]) -> object:
    """Return the values that a scrape shows, by metric and labels."""
    objects = ObjectsByKind({"IPAddressClaim": list(claims), "Cluster": clusters, POOL: [pool]})
    families = ClaimGauges(fill_caches(objects), CLOCK).collect()
    return {
        (sample.name.removeprefix("butler_claim_pool_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


COUNTS = {
    (name, POOL, "b", "p"): value
    for name, value in {"total": 8, "used": 3, "free": 5, "out_of_range": 1}.items()
}
WAITING = {
    ("waiting_claims", POOL, "b", "p"): 1,
    ("oldest_waiting_seconds", POOL, "b", "p"): AGE,
}


def test_claims_that_wait_are_counted_with_the_age_of_the_oldest() -> None:
    assert scrape(make_claim("a"), pool=make_pool(), clusters=[]) == COUNTS | WAITING


@pytest.mark.parametrize(
    ("claim", "is_pool_paused", "clusters"),
    [
        (make_claim("a", is_paused=True), False, []),
        (make_claim("a"), True, []),
        (
            make_claim("a", cluster="c"),
            False,
            [Cluster(ObjectMeta("c", "b"), ClusterSpec(paused=True))],
        ),
    ],
    ids=["the claim", "its pool", "its Cluster"],
)
def test_a_claim_does_not_count_as_waiting_if_it_its_pool_or_its_cluster_is_paused(
    claim: IPAddressClaim, is_pool_paused: bool, clusters: list[Cluster]
) -> None:
    assert scrape(claim, pool=make_pool(is_paused=is_pool_paused), clusters=clusters) == COUNTS


def test_a_claim_whose_cluster_does_not_exist_counts_as_waiting() -> None:
    others = [Cluster(ObjectMeta("other", "b"), ClusterSpec(paused=True))]
    samples = scrape(make_claim("a", cluster="c"), pool=make_pool(), clusters=others)
    assert samples == COUNTS | WAITING
