"""The gauges of IPPools while an object cannot be decoded."""

import pytest

from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.metal3 import api
from tests.reconcilers.integrations.metal3.test_forced_removal import ADDRESSES_OF, serve_claims

UNREADABLE = {"spec": {"gateway": 7}}
CLUSTERS = clusterapi.get_cluster_kind("v1beta2")


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_gauges_show_no_free_addresses_while_an_ipaddress_is_unreadable(
    kind: str,
) -> None:
    async with serve_claims(kind) as claims:
        await claims.create("a")
        cluster = claims.cluster
        assert cluster.read_metric("butler_metal3_pool_free") == [8]
        await cluster.edit(claims.address_kind, "p-10-0-0-1", UNREADABLE)
        await cluster.pass_by(5)
        for name in ("free", "used"):
            assert cluster.read_metric(f"butler_metal3_pool_{name}") == []
        assert cluster.read_metric("butler_metal3_pool_total") == [9]


async def test_a_claim_does_not_count_as_waiting_while_its_cluster_cannot_be_decoded() -> None:
    async with serve_claims("IPAddressClaim") as claims:
        cluster = claims.cluster
        await cluster.create_object(CLUSTERS, "north", {"paused": False})
        for number in range(9):
            await claims.create(f"c{number}")
        spec = {
            "poolRef": {"apiGroup": api.GROUP, "kind": api.POOL, "name": "p"},
            "clusterName": "north",
        }
        await cluster.create_object(claims.claim_kind, "waits", spec)
        await cluster.pass_by(5)
        assert cluster.read_metric("butler_metal3_pool_waiting") == [1]
        await cluster.edit(CLUSTERS, "north", {"spec": {"paused": "maybe"}})
        await cluster.pass_by(5)
        assert cluster.read_metric("butler_metal3_pool_waiting") == [0]
