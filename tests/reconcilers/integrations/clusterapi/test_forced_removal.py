"""IPAddresses that a person removes by force, finalizer or not."""

import pytest

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.integrations.clusterapi.test_unreadable import CLUSTERS, WITH_CLAIMS, ref
from tests.reconcilers.integrations.unreadable import Json, site
from tests.reconcilers.promises.refusing import ADDRESSES, CLAIMS, ClaimPool, open_pool

GRACE = 600
PAUSED = "cluster.x-k8s.io/paused"


async def test_the_address_rests_though_its_ipaddress_went_before_its_claim() -> None:
    async with open_pool(ClaimPool) as pool:
        place, kind = pool.place, pool.kind
        await place.edit(kind, "p", {"spec": {"addressReuseGracePeriodSeconds": GRACE}})
        await pool.create_request("a")
        await place.home.pass_by(5)
        address = pool.find_address("a")
        assert address
        await place.edit(kind, "p", {"metadata": {"annotations": {PAUSED: ""}}})
        await place.home.pass_by(1)
        await place.remove(ADDRESSES, "a")
        await place.delete(CLAIMS, "a")
        await place.home.pass_by(1)
        assert not place.see(ADDRESSES, "a"), "the pool is paused"
        await place.edit(kind, "p", {"metadata": {"annotations": {PAUSED: None}}})
        await place.home.pass_by(1)
        resting = place.see(ADDRESSES, "a")
        assert resting["spec"]["address"] == address
        assert RELEASED_AT in resting["metadata"]["annotations"]
        await pool.create_request("b")
        await place.home.pass_by(GRACE / 2)
        assert pool.find_address("b") not in {"", address}


@pytest.mark.parametrize("gateway", [{}, {"gateway": "10.0.0.1"}], ids=["none", "declared"])
async def test_a_recreated_ipaddress_has_the_gateway_of_its_networkpool(gateway: Json) -> None:
    async with site(WITH_CLAIMS, CLAIMS, ADDRESSES, CLUSTERS) as place:
        await place.make(NETWORK_POOL, "lab", {"cidr": "10.0.0.0/24", **gateway})
        await place.make(CLAIMS, "machine", {"poolRef": ref("lab", NETWORK_POOL)})
        await place.home.pass_by(5)
        first = place.see(ADDRESSES, "machine")
        await place.remove(ADDRESSES, "machine")
        await place.home.pass_by(5)
        recreated = place.see(ADDRESSES, "machine")
        assert recreated["metadata"]["uid"] != first["metadata"]["uid"]
        assert recreated["spec"] == first["spec"]
        assert recreated["spec"].get("gateway") == gateway.get("gateway")
