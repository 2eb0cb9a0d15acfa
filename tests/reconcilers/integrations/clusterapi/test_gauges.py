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
POOL = "InClusterIPPool"


def claim(name: str, *, cluster: str = "", paused: bool = False) -> IPAddressClaim:
    born = CLOCK.now() - timedelta(seconds=AGE)
    marks = {PAUSED: ""} if paused else {}
    meta = ObjectMeta(name, "b", creationTimestamp=born, annotations=marks)
    return IPAddressClaim(meta, ClaimSpec(PoolRef(POOL, "p", api.GROUP), cluster))


def pool(*, paused: bool = False) -> InClusterIPPool:
    meta = ObjectMeta("p", "b", annotations={PAUSED: ""} if paused else {})
    return InClusterIPPool(
        meta, status=InClusterPoolStatus(PoolCounts(8, 3, free=5, outOfRange=1))
    )


def scrape(*claims: IPAddressClaim, pool: InClusterIPPool, clusters: list[Cluster]) -> object:
    """Return the values of all series, by metric and pool."""
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
    assert scrape(claim("a"), pool=pool(), clusters=[]) == COUNTS | WAITING


@pytest.mark.parametrize(
    ("waiting", "paused_pool", "clusters"),
    [
        (claim("a", paused=True), False, []),
        (claim("a"), True, []),
        (
            claim("a", cluster="c"),
            False,
            [Cluster(ObjectMeta("c", "b"), ClusterSpec(paused=True))],
        ),
    ],
    ids=["the claim", "its pool", "its Cluster"],
)
def test_what_a_person_paused_does_not_count_as_waiting(
    waiting: IPAddressClaim, paused_pool: bool, clusters: list[Cluster]
) -> None:
    assert scrape(waiting, pool=pool(paused=paused_pool), clusters=clusters) == COUNTS


def test_a_claim_whose_cluster_is_not_there_counts_as_waiting() -> None:
    others = [Cluster(ObjectMeta("other", "b"), ClusterSpec(paused=True))]
    samples = scrape(claim("a", cluster="c"), pool=pool(), clusters=others)
    assert samples == COUNTS | WAITING
