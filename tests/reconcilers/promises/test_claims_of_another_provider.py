"""Claims that another provider served, and to which a promise cannot be written."""

from tests.reconcilers.promises.refusing import (
    ADDRESSES,
    CLAIMS,
    GREEDY,
    SENTENCE,
    ClaimPool,
    Gate,
    gate,
    opened,
)

__all__ = ["gate"]


async def test_a_claim_with_an_address_stays_ready_although_its_promise_is_voided(
    gate: Gate,
) -> None:
    async with opened(ClaimPool) as pool:
        place, kind, name = pool.place, pool.kinds[-1], f"{GREEDY}-000"
        ref = {"apiGroup": kind.group, "kind": kind.kind, "name": "p"}
        spec = {"address": "10.0.0.77", "prefix": 20, "claimRef": {"name": name}, "poolRef": ref}
        await place.make(ADDRESSES, name, spec, namespace=GREEDY)
        gate.refuses = pool.is_keep
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Allocated",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"addressRef": {"name": name}, "conditions": [ready]}
        await place.make(CLAIMS, name, {"poolRef": ref}, namespace=GREEDY, status=status)
        await place.home.pass_by(10)
        assert SENTENCE in pool.shown(name)
        assert place.ready(CLAIMS, name, GREEDY)["status"] == "True"
