"""The message of a refused request: what it needs, and what each pool has, in pool order."""

import pytest

from reconcilers.tenantcluster.allocations.refusals import (
    PoolRefusal,
    PoolState,
    RequestRefusal,
    describe_free_blocks,
)
from tests.reconcilers import make


def _make_refusal(*pools: PoolRefusal, families: str = "", beside: str = "") -> RequestRefusal:
    """Return the refusal of a request for node addresses.

    Args:
        pools: why each pool refuses it.
        families: the ipFamilyPolicy of the request; empty if it has none.
        beside: what the cluster requests at the same time; empty for nothing.
    """
    names = [pool.pool for pool in pools]
    provider = make.provider(*names)
    return RequestRefusal(provider, "nodes", families=families, pools=pools, beside=beside)


def test_a_refusal_says_how_many_are_needed_and_what_each_pool_has() -> None:
    refusal = _make_refusal(
        PoolRefusal("brownfield", 70, "largest free block 64"),
        PoolRefusal("lab", 70, "is being deleted"),
    )
    assert refusal.reason == "PoolExhausted"
    assert refusal.message == (
        "no pool of ProviderConfig butler-system/default has room: needs 70 node addresses in a"
        " row; brownfield: largest free block 64; lab: is being deleted"
    )


def test_where_pools_have_different_default_sizes_the_size_stands_beside_each_pool() -> None:
    refusal = _make_refusal(
        PoolRefusal("small", 5, "largest free block 4"),
        PoolRefusal("large", 20, "largest free block 16"),
    )
    assert refusal.sentence == (
        "needs node addresses in a row; small (5 in a row): largest free block 4; large (20 in a"
        " row): largest free block 16"
    )


def test_where_no_pool_exists_the_refusal_names_the_missing_pool_and_the_provider() -> None:
    refusal = _make_refusal(
        PoolRefusal("lab", 0, obstacle="does not exist", state=PoolState.ABSENT)
    )
    assert refusal.reason == "PoolNotFound"
    assert refusal.message == (
        "no configured pool exists: ProviderConfig butler-system/default names NetworkPool"
        " butler-system/lab, which does not exist"
    )


def test_a_refusal_names_the_other_request_of_the_cluster() -> None:
    refusal = _make_refusal(
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
