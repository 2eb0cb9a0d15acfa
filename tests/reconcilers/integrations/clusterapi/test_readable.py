"""`check_readable` examines the unreadable claims that may be of its pool, and no others."""

import pytest
from typing_extensions import override

from controller.cache import Cache
from controller.codec import DecodeFailure
from controller.meta import Key, ObjectMeta
from controller.unreadables import UnreadableObjects
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import PoolOutline, PoolOutlineSpec, PoolRef
from reconcilers.integrations.clusterapi.caches import CONTRACT_FIELDS, ClaimPool, list_spaces
from reconcilers.integrations.core.claimreading import check_readable
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.promises.unreadable import UnreadableHolders

POOLS = api.IN_CLUSTER_IP_POOL


class CountingUnreadables(UnreadableObjects):
    """The unreadable objects of a cache; counts how many of them are read."""

    read_count = 0

    @override
    def __getitem__(self, key: Key) -> str:
        self.read_count += 1
        return super().__getitem__(key)


def make_failure(key: Key, pool: str) -> DecodeFailure:
    """Return why a claim cannot be decoded; the pool that it names can."""
    metadata = ObjectMeta(name=key.name, namespace=key.namespace)
    ref = PoolRef(POOLS.kind, pool, POOLS.group)
    return DecodeFailure("odd", PoolOutline(metadata, PoolOutlineSpec(ref)), metadata)


def test_unreadable_claims_of_another_pool_are_not_read() -> None:
    claims = CountingUnreadables({SPACE_INDEX: list_spaces})
    for number in range(5_000):
        key = Key("team", f"c{number}")
        claims.put(key, make_failure(key, "other"))
    check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("team", "p")), claims, {})
    assert claims.read_count == 0
    with pytest.raises(UnreadableHolders):
        check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("team", "other")), claims, {})


def test_a_claim_of_which_nothing_can_be_decoded_blocks_all_pools_of_its_namespace() -> None:
    cache = Cache(api.get_claim_kind("v1beta2"), indexes={SPACE_INDEX: list_spaces})
    cache.replace([], 1, {Key("team", "c"): "odd"})
    with pytest.raises(UnreadableHolders):
        check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("team", "p")), cache.unreadable, {})
    check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("other", "p")), cache.unreadable, {})
