"""Pools of all kinds that hand out the same addresses are told so in the same words everywhere."""

from datetime import UTC, datetime
from itertools import permutations
from typing import Any, cast

import pytest

from controller.client import Client
from controller.meta import Key
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.clusterapi import objects as clusterapi_objects
from reconcilers.integrations.clusterapi.validating import ClusterApiPoolValidator
from reconcilers.integrations.core.objects import from_bodies
from reconcilers.integrations.core.platforms import NetworkPools
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.kubermatic.reading import fill_defaults
from reconcilers.integrations.kubermatic.validating import IPAMPoolValidator
from reconcilers.integrations.views import from_manifests
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName
from reconcilers.webhooks import networkpool
from tests.reconcilers import make
from tests.reconcilers.cli.test_overlaps import make_pools as make_overlapping_pools

HOME = "butler-system"
PAIRS = [*permutations(("NetworkPool", "InClusterIPPool", "IPAMPool", "NetworkNamespace"), 2)]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLIENT = cast("Client", None)
"""No pool of these tests loses addresses, so no validator asks the server."""
RANGES = [{"start": "10.71.0.0", "end": "10.71.0.31"}]
NETWORK_POOL = make.pool("np", "10.71.0.0/26", tenant={"ranges": RANGES})
NAMES = {
    "NetworkPool": PoolName("NetworkPool", Key(HOME, "np")),
    "InClusterIPPool": PoolName("InClusterIPPool", Key(HOME, "ic")),
    "IPAMPool": PoolName("IPAMPool", Key("", "kkp")),
    "NetworkNamespace": PoolName("NetworkNamespace", Key(HOME, "viti")),
}


def bodies(*kinds: str) -> list[dict[str, Any]]:
    """Return the pools of some kinds that hand out 10.71.0.24 to 10.71.0.31."""
    return [body for body in make_overlapping_pools(24, 31) if body["kind"] in kinds]


def index_of(*kinds: str) -> SpaceIndex:
    """Return an index of the addresses that the pools of some kinds hand out."""
    pools = NetworkPools([NETWORK_POOL] if "NetworkPool" in kinds else [])
    others = [body for body in bodies(*kinds) if body["kind"] != "NetworkPool"]
    return from_manifests(others, HOME, pools=pools, now=NOW).spaces


async def warnings(kind: str, spaces: SpaceIndex) -> list[str]:
    """Return the warnings of the webhook when the pool of a kind is created."""
    if kind == "NetworkPool":
        return [*networkpool.review_creation(NETWORK_POOL, spaces, 1 << 20).warnings]
    if kind == "InClusterIPPool":
        caches = clusterapi_objects.from_bodies(bodies(kind), HOME, NOW)
        [ip_pool] = caches.by_kind[kind]
        validator = ClusterApiPoolValidator(CLIENT, clusterapi.IN_CLUSTER_IP_POOL, spaces)
        return [*(await validator.review_creation(ip_pool)).warnings]
    read = from_bodies(
        bodies(kind), kubermatic.KINDS, namespace=HOME, now=NOW, fill_defaults=fill_defaults
    )
    [ipam_pool] = read.by_kind[kind]
    return [*(await IPAMPoolValidator(CLIENT, spaces).review_creation(ipam_pool)).warnings]


@pytest.mark.parametrize(("kind", "other"), PAIRS, ids=map("-".join, PAIRS))
async def test_each_of_two_pools_is_told_of_the_other(kind: str, other: str) -> None:
    spaces = index_of(kind, other)
    name = NAMES[kind]
    sharing = spaces.find_sharing(spaces.get_offers(name))
    assert [pool.pool for pool in sharing.pools] == [NAMES[other]]
    assert sum(sharing.pools[0].by_family.values()) == 8
    condition = spaces.make_overlap_finding(spaces.get_offers(name))
    assert condition is not None
    assert (condition.status, condition.message) == (True, sharing.sentence)
    if kind != "NetworkNamespace":  # no webhook validates it
        [warning] = await warnings(kind, spaces)
        assert warning.endswith(sharing.sentence)
