"""A claim that was deleted by force and created again for another pool."""

from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.promises.refusing import ADDRESSES, CLAIMS, ClaimPool, open_pool

GRACE = 600


async def test_the_address_of_the_earlier_claim_rests_as_its_own_pool_says() -> None:
    async with open_pool(ClaimPool) as pool:
        place, kind = pool.place, pool.kind
        await place.edit(kind, "p", {"spec": {"addressReuseGracePeriodSeconds": GRACE}})
        await place.make(kind, "q", {"addresses": ["10.9.0.0/24"], "prefix": 24})
        await pool.create_request("a")
        await place.home.pass_by(5)
        address = pool.find_address("a")
        assert address
        await place.remove(CLAIMS, "a")
        await place.delete(ADDRESSES, "a")  # as the garbage collector does
        ref = {"apiGroup": kind.group, "kind": kind.kind, "name": "q"}
        await place.make(CLAIMS, "a", {"poolRef": ref})
        await place.home.pass_by(5)
        await pool.create_request("b")
        await place.home.pass_by(GRACE / 2)
        assert pool.find_address("b") not in {"", address}
        assert RELEASED_AT in place.see(ADDRESSES, "a")["metadata"]["annotations"]
        await place.home.pass_by(GRACE)
        assert pool.find_address("a").startswith("10.9.0.")
