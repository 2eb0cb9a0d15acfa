"""Writes of requests that an admission webhook denies with the status code of a conflict.

The request stays at its version, so a promise to it is still open: it may be written later.
"""

import pytest

from controller.errors import Conflict
from reconcilers.promises.journal import ANNOTATION
from tests.reconcilers.promises.refusing import (
    GREEDY,
    KINDS,
    ClaimPool,
    ClusterPool,
    Gate,
    MachineNetwork,
    Pool,
    gate,
    open_pool,
)

__all__ = ["gate"]

RESYNC = 60.0
"""Seconds after which a refused write is tried again."""
COUNT = 20
"""How many requests are created."""
DENIAL = 'admission webhook "policy.example.com" denied the request: no'
ANNOTATED: list[type[Pool]] = [ClaimPool, ClusterPool, MachineNetwork]
"""Pools whose journal is an annotation, which a person can remove."""


def _answer_with_conflict(gate: Gate) -> None:
    """Let refused writes be answered like a conflict, though a webhook denied them."""
    gate.error = Conflict(409, "Conflict", DENIAL)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_that_is_denied_as_a_conflict_is_written_once_per_resync(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        _answer_with_conflict(gate)
        gate.refuses = pool.is_keep_or_void
        names = await pool.create_greedy_requests(COUNT)
        await pool.pass_by(RESYNC + 30)
        gate.forget()
        await pool.pass_by(5 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 6 * COUNT
        gate.refuses = lambda _: False
        await pool.pass_by(2 * RESYNC)
        assert all(pool.find_address(name) for name in names)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_shows_that_its_range_was_denied_as_a_conflict(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        _answer_with_conflict(gate)
        gate.refuses = pool.is_keep
        [name] = await pool.create_greedy_requests(1)
        await pool.pass_by(50)
        assert DENIAL in pool.read_reason(name)


@pytest.mark.parametrize("kind", ANNOTATED)
async def test_a_pool_gets_no_journal_while_a_voiding_write_is_denied_as_a_conflict(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        [name] = await pool.create_greedy_requests(1)
        await pool.pass_by(5)
        address = pool.find_address(name)
        assert address
        if not isinstance(pool, ClusterPool):  # a fence of these pools voids what waits
            gate.refuses = pool.is_keep_or_void
            [name] = [f"{GREEDY}-waiting"]
            await pool.create_request(name)
            await pool.pass_by(5)
        _answer_with_conflict(gate)
        gate.refuses = pool.is_keep_or_void
        await pool.drop_journal()
        await pool.create_request("other")
        await pool.pass_by(RESYNC)
        assert ANNOTATION not in pool.annotations()
        assert not pool.find_address("other")
        gate.refuses = lambda _: False
        await pool.pass_by(2 * RESYNC)
        assert pool.find_address("other")
        assert pool.find_address(name)
