"""Overlaps between pools of all kinds are reported in the same words everywhere."""

from datetime import UTC, datetime
from itertools import permutations
from typing import Any, cast

import pytest

from controller.client import Client
from controller.meta import Key
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.clusterapi import objects as clusterapi_objects
from reconcilers.integrations.clusterapi.validating import ClusterApiPoolValidator
from reconcilers.integrations.core.objects import decode_bodies
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
MOST_ADDRESSES = 1 << 20
"""The addresses of the largest pool that the webhook accepts."""
NAMES = {
    "NetworkPool": PoolName("NetworkPool", Key(HOME, "np")),
    "InClusterIPPool": PoolName("InClusterIPPool", Key(HOME, "ic")),
    "IPAMPool": PoolName("IPAMPool", Key("", "kkp")),
    "NetworkNamespace": PoolName("NetworkNamespace", Key(HOME, "viti")),
}


def make_pools(*kinds: str) -> list[dict[str, Any]]:
    """Return pools of some kinds, which hand out 10.71.0.24 to 10.71.0.31, as objects in JSON."""
    return [body for body in make_overlapping_pools(24, 31) if body["kind"] in kinds]


def make_index(*kinds: str) -> SpaceIndex:
    """Return an index of the addresses that the pools of some kinds hand out."""
    network_pools = NetworkPools([NETWORK_POOL] if "NetworkPool" in kinds else [])
    pools = [pool for pool in make_pools(*kinds) if pool["kind"] != "NetworkPool"]
    return from_manifests(pools, HOME, pools=network_pools, now=NOW).spaces


async def list_warnings(kind: str, spaces: SpaceIndex) -> list[str]:
    """Return the warnings of the webhook when a pool of a kind is created."""
    if kind == "NetworkPool":
        return [*networkpool.review_creation(NETWORK_POOL, spaces, MOST_ADDRESSES).warnings]
    if kind == "InClusterIPPool":
        caches = clusterapi_objects.decode_bodies(make_pools(kind), HOME, NOW)
        [ip_pool] = caches.by_kind[kind]
        validator = ClusterApiPoolValidator(CLIENT, clusterapi.IN_CLUSTER_IP_POOL, spaces)
        return [*(await validator.review_creation(ip_pool)).warnings]
    read = decode_bodies(
        make_pools(kind), kubermatic.KINDS, namespace=HOME, now=NOW, fill_defaults=fill_defaults
    )
    [ipam_pool] = read.by_kind[kind]
    return [*(await IPAMPoolValidator(CLIENT, spaces).review_creation(ipam_pool)).warnings]


@pytest.mark.parametrize(("kind", "other"), PAIRS, ids=map("-".join, PAIRS))
async def test_index_condition_and_webhook_report_a_pool_that_shares_eight_addresses(
    kind: str, other: str
) -> None:
    spaces = make_index(kind, other)
    name = NAMES[kind]
    sharing = spaces.find_sharing(spaces.get_offers(name))
    assert [pool.pool for pool in sharing.pools] == [NAMES[other]]
    assert sum(sharing.pools[0].by_family.values()) == 8
    finding = spaces.make_overlap_finding(spaces.get_offers(name))
    assert finding is not None
    assert (finding.status, finding.message) == (True, sharing.sentence)
    if kind != "NetworkNamespace":  # no webhook validates it
        [warning] = await list_warnings(kind, spaces)
        assert warning.endswith(sharing.sentence)
