"""IPAddresses of a pool with a grace period that a person removes by force, finalizer or not."""

from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.promises.refusing import ADDRESSES, CLAIMS, ClaimPool, open_pool

GRACE = 600
PAUSED = "cluster.x-k8s.io/paused"


async def test_the_address_rests_though_its_ipaddress_went_before_its_claim() -> None:
    async with open_pool(ClaimPool) as pool:
        place, kind = pool.place, pool.kind
        await place.edit(kind, "p", {"spec": {"addressReuseGracePeriodSeconds": GRACE}})
        await pool.ask("a")
        await place.home.pass_by(5)
        address = pool.address("a")
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
        await pool.ask("b")
        await place.home.pass_by(GRACE / 2)
        assert pool.address("b") not in {"", address}
