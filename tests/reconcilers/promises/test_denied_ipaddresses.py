"""IPAddresses whose creation an admission webhook denies with the status code of a conflict."""

from controller.errors import Conflict
from tests.reconcilers.promises.refusing import (
    ADDRESSES,
    ClaimPool,
    Gate,
    SentWrite,
    gate,
    open_pool,
)

__all__ = ["gate"]

RESYNC = 60.0
"""Seconds after which a refused write is tried again."""


def _is_creation(sent: SentWrite) -> bool:
    """Return whether a write creates an IPAddress."""
    return sent.kind == ADDRESSES.full_name and sent.method == "POST"


async def test_the_creation_of_an_ipaddress_that_is_denied_as_a_conflict_is_tried_once_per_resync(
    gate: Gate,
) -> None:
    async with open_pool(ClaimPool) as pool:
        denial = 'admission webhook "x" denied the request'
        gate.error = Conflict(409, "Conflict", denial)
        gate.refuses = _is_creation
        [name] = await pool.create_greedy_requests(1)
        await pool.pass_by(20)
        assert denial in pool.read_reason(name)
        gate.forget()
        await pool.pass_by(5 * RESYNC)
        assert 4 <= len(gate.refused) <= 6
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC + 5)
        assert pool.find_address(name)
