"""The words of a refusal: the request, and what each pool has, in the order of the pools."""

import pytest

from reconcilers.tenantcluster.allocations.refusals import (
    PoolRefusal,
    PoolState,
    RequestRefusal,
    describe_free_blocks,
)
from tests.reconcilers import make


def _refusal(*pools: PoolRefusal, families: str = "", beside: str = "") -> RequestRefusal:
    names = [pool.pool for pool in pools]
    provider = make.provider(*names)
    return RequestRefusal(provider, "nodes", families=families, pools=pools, beside=beside)


def test_a_refusal_says_how_many_are_needed_and_what_each_pool_has() -> None:
    refusal = _refusal(
        PoolRefusal("brownfield", 70, "largest free block 64"),
        PoolRefusal("lab", 70, "is being deleted"),
    )
    assert refusal.reason == "PoolExhausted"
    assert refusal.message == (
        "no pool of ProviderConfig butler-system/default has room: needs 70 node addresses in a"
        " row; brownfield: largest free block 64; lab: is being deleted"
    )


def test_pools_of_different_defaults_each_say_how_many_they_are_asked_for() -> None:
    refusal = _refusal(
        PoolRefusal("small", 5, "largest free block 4"),
        PoolRefusal("large", 20, "largest free block 16"),
    )
    assert refusal.sentence == (
        "needs node addresses in a row; small (5 in a row): largest free block 4; large (20 in a"
        " row): largest free block 16"
    )


def test_where_no_pool_exists_the_refusal_names_them_and_the_provider() -> None:
    refusal = _refusal(PoolRefusal("lab", 0, obstacle="does not exist", state=PoolState.ABSENT))
    assert refusal.reason == "PoolNotFound"
    assert refusal.message == (
        "no configured pool exists: ProviderConfig butler-system/default names NetworkPool"
        " butler-system/lab, which does not exist"
    )


def test_what_the_cluster_gets_at_the_same_time_is_named() -> None:
    refusal = _refusal(
        PoolRefusal("lab", 5, "largest free block 0"), beside="8 load-balancer addresses"
    )
    assert (
        "needs 5 node addresses in a row, beside 8 load-balancer addresses; lab"
        in refusal.sentence
    )


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ({4: 64}, "largest free block 64"),
        ({6: 0, 4: 64}, "largest free blocks 64 of IPv4 and 0 of IPv6"),
    ],
)
def test_the_free_blocks_of_each_family_are_named(blocks: dict[int, int], words: str) -> None:
    assert describe_free_blocks(blocks) == words
