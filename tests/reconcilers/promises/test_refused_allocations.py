"""IPAMAllocations whose creation the API server refuses."""

from reconcilers.integrations.kubermatic import api as kubermatic
from tests.reconcilers.promises.refusing import SENTENCE, Gate, Sent, gate, open_pool

__all__ = ["gate"]

RESYNC = 60.0
CLUSTERS = 10


def _is_creation(sent: Sent) -> bool:
    return sent.kind == kubermatic.ALLOCATIONS.full_name and sent.method == "POST"


async def test_an_allocation_whose_creation_is_refused_is_tried_once_per_resync(
    gate: Gate,
) -> None:
    async with open_pool("IPAMPool") as pool:
        gate.refuses = _is_creation
        names = await pool.ask_greedily(CLUSTERS)
        await pool.place.home.pass_by(10)
        gate.forget()
        await pool.place.home.pass_by(5 * RESYNC)
        assert 4 * CLUSTERS <= len(gate.refused) <= 6 * CLUSTERS
        assert all(SENTENCE in pool.find_shown_reason(name) for name in names)
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(RESYNC + 5)
        assert all(pool.address(name) for name in names)
