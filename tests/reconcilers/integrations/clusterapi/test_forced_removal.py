"""IPAddresses that a person removes by force, finalizer or not."""

import pytest

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    CLUSTERS,
    WITH_CLAIMS,
    make_pool_ref,
)
from tests.reconcilers.integrations.unreadable import Json, open_platform_cluster
from tests.reconcilers.promises.refusing import ADDRESSES, CLAIMS, ClaimPool, open_pool

GRACE = 600
"""Seconds for which a released address is not handed out again."""
PAUSED = "cluster.x-k8s.io/paused"


async def test_an_address_rests_for_its_grace_period_if_its_ipaddress_was_removed_first() -> None:
    """A person removes IPAddress and claim while the pool is paused.

    The IPAddress is recreated as a mark that the address rests.
    """
    async with open_pool(ClaimPool) as pool:
        cluster, kind = pool.cluster, pool.kind
        await cluster.edit(kind, "p", {"spec": {"addressReuseGracePeriodSeconds": GRACE}})
        await pool.create_request("a")
        await cluster.pass_by(5)
        address = pool.find_address("a")
        assert address
        await cluster.edit(kind, "p", {"metadata": {"annotations": {PAUSED: ""}}})
        await cluster.pass_by(1)
        await cluster.remove_by_force(ADDRESSES, "a")
        await cluster.delete(CLAIMS, "a")
        await cluster.pass_by(1)
        assert not cluster.get_stored(ADDRESSES, "a"), "the pool is paused"
        await cluster.edit(kind, "p", {"metadata": {"annotations": {PAUSED: None}}})
        await cluster.pass_by(1)
        resting = cluster.get_stored(ADDRESSES, "a")
        assert resting["spec"]["address"] == address
        assert RELEASED_AT in resting["metadata"]["annotations"]
        await pool.create_request("b")
        await cluster.pass_by(GRACE / 2)
        assert pool.find_address("b") not in {"", address}


@pytest.mark.parametrize("gateway", [{}, {"gateway": "10.0.0.1"}], ids=["none", "declared"])
async def test_a_recreated_ipaddress_has_the_gateway_of_its_networkpool(gateway: Json) -> None:
    async with open_platform_cluster(WITH_CLAIMS, CLAIMS, ADDRESSES, CLUSTERS) as cluster:
        await cluster.create_object(NETWORK_POOL, "lab", {"cidr": "10.0.0.0/24", **gateway})
        await cluster.create_object(
            CLAIMS, "machine", {"poolRef": make_pool_ref("lab", NETWORK_POOL)}
        )
        await cluster.pass_by(5)
        first = cluster.get_stored(ADDRESSES, "machine")
        await cluster.remove_by_force(ADDRESSES, "machine")
        await cluster.pass_by(5)
        recreated = cluster.get_stored(ADDRESSES, "machine")
        assert recreated["metadata"]["uid"] != first["metadata"]["uid"]
        assert recreated["spec"] == first["spec"]
        assert recreated["spec"].get("gateway") == gateway.get("gateway")
