"""Whether the claims of a pool can be read is found out without a look at those of other pools."""

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


class Reads(UnreadableObjects):
    """Counts how many reasons are read."""

    count = 0

    @override
    def __getitem__(self, key: Key) -> str:
        self.count += 1
        return super().__getitem__(key)


def failure_of(key: Key, pool: str) -> DecodeFailure:
    metadata = ObjectMeta(name=key.name, namespace=key.namespace)
    ref = PoolRef(POOLS.kind, pool, POOLS.group)
    return DecodeFailure("odd", PoolOutline(metadata, PoolOutlineSpec(ref)), metadata)


def test_thousands_of_unreadable_claims_of_another_pool_cost_nothing() -> None:
    claims = Reads({SPACE_INDEX: list_spaces})
    for number in range(5_000):
        key = Key("team", f"c{number}")
        claims.put(key, failure_of(key, "other"))
    check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("team", "p")), claims, {})
    assert claims.count == 0
    with pytest.raises(UnreadableHolders):
        check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("team", "other")), claims, {})


def test_an_unreadable_claim_of_which_nothing_can_be_decoded_may_be_of_any_pool() -> None:
    cache = Cache(api.claims("v1beta2"), indexes={SPACE_INDEX: list_spaces})
    cache.replace([], 1, {Key("team", "c"): "odd"})
    with pytest.raises(UnreadableHolders):
        check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("team", "p")), cache.unreadable, {})
    check_readable(CONTRACT_FIELDS, ClaimPool(POOLS, Key("other", "p")), cache.unreadable, {})
