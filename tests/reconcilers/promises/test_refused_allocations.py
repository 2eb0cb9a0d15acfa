"""IPAMAllocations whose creation the API server refuses."""

from reconcilers.integrations.kubermatic import api as kubermatic
from tests.reconcilers.promises.refusing import REFUSAL, Gate, SentWrite, gate, open_pool

__all__ = ["gate"]

RESYNC = 60.0
"""Seconds after which a refused write is tried again."""
CLUSTERS = 10
"""How many user clusters wait for addresses."""


def _is_creation(sent: SentWrite) -> bool:
    """Return whether a write creates an IPAMAllocation."""
    return sent.kind == kubermatic.ALLOCATIONS.full_name and sent.method == "POST"


async def test_an_allocation_whose_creation_is_refused_is_tried_once_per_resync(
    gate: Gate,
) -> None:
    async with open_pool("IPAMPool") as pool:
        gate.refuses = _is_creation
        names = await pool.create_greedy_requests(CLUSTERS)
        await pool.pass_by(10)
        gate.forget()
        await pool.pass_by(5 * RESYNC)
        assert 4 * CLUSTERS <= len(gate.refused) <= 6 * CLUSTERS
        assert all(REFUSAL in pool.read_reason(name) for name in names)
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC + 5)
        assert all(pool.find_address(name) for name in names)
