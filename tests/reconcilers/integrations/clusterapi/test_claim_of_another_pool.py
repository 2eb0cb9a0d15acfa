"""A claim that was deleted by force and created again for another pool."""

from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.promises.refusing import ADDRESSES, CLAIMS, ClaimPool, open_pool

GRACE = 600
"""Seconds for which a released address of pool `p` is not handed out again."""


async def test_the_address_of_the_earlier_claim_rests_for_the_grace_period_of_its_pool() -> None:
    """Claim `a` of pool `p` comes back as a claim of pool `q`, and waits for that period."""
    async with open_pool(ClaimPool) as pool:
        cluster, kind = pool.cluster, pool.kind
        await cluster.edit(kind, "p", {"spec": {"addressReuseGracePeriodSeconds": GRACE}})
        await cluster.create_object(kind, "q", {"addresses": ["10.9.0.0/24"], "prefix": 24})
        await pool.create_request("a")
        await cluster.pass_by(5)
        address = pool.find_address("a")
        assert address
        await cluster.remove_by_force(CLAIMS, "a")
        await cluster.delete(ADDRESSES, "a")  # as the garbage collector does
        ref = {"apiGroup": kind.group, "kind": kind.kind, "name": "q"}
        await cluster.create_object(CLAIMS, "a", {"poolRef": ref})
        await cluster.pass_by(5)
        await pool.create_request("b")
        await cluster.pass_by(GRACE / 2)
        assert pool.find_address("b") not in {"", address}
        assert RELEASED_AT in cluster.get_stored(ADDRESSES, "a")["metadata"]["annotations"]
        await cluster.pass_by(GRACE)
        assert pool.find_address("a").startswith("10.9.0.")
