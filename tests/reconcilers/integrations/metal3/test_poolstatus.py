"""The field `indexes` in the status of an IPPool, which has the address of each claim by name.

A replica keeps it from pass to pass, and updates it by the objects that changed.
"""

from random import Random
from typing import Any, cast

import pytest

from controller.cache import Cache
from controller.client import Client
from controller.codec import Deleted, Modified
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.metal3 import api
from reconcilers.integrations.metal3.api import ObjectRef
from reconcilers.integrations.metal3.caches import (
    POOL_INDEXES,
    IPPoolClaimCaches,
    Metal3Caches,
    make_address_indexes,
    make_claim_indexes,
)
from reconcilers.integrations.metal3.claimformats import IPClaimFormat
from reconcilers.integrations.metal3.entries import parse_space
from reconcilers.integrations.metal3.poolstatus import PoolIndexes
from tests.clock import VirtualClock

POOL = Key("home", "p")
SPEC = api.Metal3PoolSpec("p", (api.PoolEntry("10.0.0.1", "10.0.0.99"),))
NAMES = ("a", "b", "c", "d")


def make_caches() -> Metal3Caches:
    """Return caches of IPClaims that show no object yet."""
    claim_format, pools = IPClaimFormat(), Cache(api.POOLS, indexes=POOL_INDEXES)
    claims = Cache(claim_format.claims, indexes=make_claim_indexes(claim_format))
    addresses = Cache(claim_format.addresses, indexes=make_address_indexes(claim_format))
    for cache in (pools, claims, addresses):
        cast("Cache[Any]", cache).replace([], 0)
    return Metal3Caches(
        pools,
        {
            claim_format.claim_kind: IPPoolClaimCaches(
                claim_format, claims, addresses=addresses, pools=pools, clusters=None
            )
        },
        None,
    )


def get_claim_caches(
    caches: Metal3Caches,
) -> IPPoolClaimCaches[api.Metal3Claim, api.Metal3Address]:
    """Return the caches of IPClaims."""
    [claim_caches] = caches.claim_caches_by_kind.values()
    return cast("IPPoolClaimCaches[api.Metal3Claim, api.Metal3Address]", claim_caches)


def make_indexes(caches: Metal3Caches) -> PoolIndexes:
    """Return indexes that a replica has not read yet; they send no request."""
    return PoolIndexes(cast("Client", None), caches, VirtualClock())


def make_claim(name: str, revision: int, random: Random) -> api.Metal3Claim:
    """Return a claim of pool `p` or `q`, whose status names an IPAddress or none."""
    meta = ObjectMeta(name, POOL.namespace, uid=name, resourceVersion=str(revision))
    reference = ObjectRef(f"p-10-0-0-{random.randrange(1, 9)}", POOL.namespace)
    status = api.Metal3ClaimStatus(reference if random.random() < 0.7 else None)
    spec = api.Metal3ClaimSpec(ObjectRef(random.choice(["p", "p", "q"])))
    return api.Metal3Claim(meta, spec, status)


def make_address(name: str, revision: int, random: Random) -> api.Metal3Address:
    """Return an IPAddress of pool `p` or `q` for a claim, by the name of the claim."""
    last = random.randrange(1, 9)
    meta = ObjectMeta(f"p-10-0-0-{last}", POOL.namespace, resourceVersion=str(revision))
    address = random.choice([f"10.0.0.{last}", "nonsense"])
    pool, claim = ObjectRef(random.choice(["p", "p", "q"])), ObjectRef(name)
    return api.Metal3Address(meta, api.Metal3AddressSpec(address, pool=pool, claim=claim))


@pytest.mark.parametrize("seed", range(20))
def test_kept_indexes_equal_indexes_that_are_read_afresh_after_random_changes(seed: int) -> None:
    random, caches, space = Random(seed), make_caches(), parse_space(SPEC)
    kept = make_indexes(caches)
    claim_caches = get_claim_caches(caches)
    for revision in range(1, 120):
        name = random.choice(NAMES)
        changes: list[tuple[Cache[Any], Any]] = [
            (claim_caches.claims, make_claim(name, revision, random)),
            (claim_caches.addresses, make_address(name, revision, random)),
        ]
        cache, obj = random.choice(changes)
        if cache.get(obj.metadata.key) is not None and random.random() < 0.4:
            cache.apply(Deleted(obj))
        else:
            cache.apply(Modified(obj))
        if random.random() < 0.5:
            read_afresh = make_indexes(caches).read_indexes(POOL, space)
            assert kept.read_indexes(POOL, space) == read_afresh
    equal_space = parse_space(SPEC)  # another object, as after each parse of the pool's spec
    read_afresh = make_indexes(caches).read_indexes(POOL, space)
    assert kept.read_indexes(POOL, equal_space) == read_afresh


def test_of_two_ipaddresses_of_a_claim_the_indexes_show_the_one_in_its_status() -> None:
    """Without a status, they show the lower address."""
    caches, space = make_caches(), parse_space(SPEC)
    claim_caches = get_claim_caches(caches)
    for revision, last in enumerate((2, 1), 1):
        meta = ObjectMeta(f"p-10-0-0-{last}", POOL.namespace, resourceVersion=str(revision))
        spec = api.Metal3AddressSpec(f"10.0.0.{last}", pool=ObjectRef("p"), claim=ObjectRef("a"))
        claim_caches.addresses.apply(Modified(api.Metal3Address(meta, spec)))
    indexes = make_indexes(caches)
    assert indexes.read_indexes(POOL, space) == {"a": "10.0.0.1"}
    meta = ObjectMeta("a", POOL.namespace, resourceVersion="1")
    status = api.Metal3ClaimStatus(ObjectRef("p-10-0-0-2"))
    claim = api.Metal3Claim(meta, api.Metal3ClaimSpec(ObjectRef("p")), status)
    claim_caches.claims.apply(Modified(claim))
    assert indexes.read_indexes(POOL, space) == {"a": "10.0.0.2"}
