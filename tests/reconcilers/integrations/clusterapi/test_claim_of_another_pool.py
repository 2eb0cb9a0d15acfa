"""A claim that was deleted by force and created again for another pool."""

from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.promises.refusing import ADDRESSES, CLAIMS, ClaimPool, open_pool

GRACE = 600


async def test_the_address_of_the_earlier_claim_rests_as_its_own_pool_says() -> None:
    async with open_pool(ClaimPool) as pool:
        place, kind = pool.place, pool.kind
        await place.edit(kind, "p", {"spec": {"addressReuseGracePeriodSeconds": GRACE}})
        await place.make(kind, "q", {"addresses": ["10.9.0.0/24"], "prefix": 24})
        await pool.ask("a")
        await place.home.pass_by(5)
        address = pool.address("a")
        assert address
        await place.remove(CLAIMS, "a")
        await place.delete(ADDRESSES, "a")  # as the garbage collector does
        ref = {"apiGroup": kind.group, "kind": kind.kind, "name": "q"}
        await place.make(CLAIMS, "a", {"poolRef": ref})
        await place.home.pass_by(5)
        await pool.ask("b")
        await place.home.pass_by(GRACE / 2)
        assert pool.address("b") not in {"", address}
        assert RELEASED_AT in place.see(ADDRESSES, "a")["metadata"]["annotations"]
        await place.home.pass_by(GRACE)
        assert pool.address("a").startswith("10.9.0.")
