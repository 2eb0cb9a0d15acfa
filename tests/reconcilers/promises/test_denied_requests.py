"""Writes of requests that an admission webhook denies with the status code of a conflict.

The request stays at its version, so a promise to it can still be kept: nothing is settled.
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
COUNT = 20
DENIAL = 'admission webhook "policy.example.com" denied the request: no'
ANNOTATED: list[type[Pool]] = [ClaimPool, ClusterPool, MachineNetwork]


def _deny(gate: Gate) -> None:
    gate.error = Conflict(409, "Conflict", DENIAL)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_that_is_denied_as_a_conflict_is_written_once_per_resync(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        _deny(gate)
        gate.refuses = pool.is_any
        names = await pool.ask_greedily(COUNT)
        await pool.place.home.pass_by(RESYNC + 30)
        gate.forget()
        await pool.place.home.pass_by(5 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 6 * COUNT
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(2 * RESYNC)
        assert all(pool.address(name) for name in names)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_shows_that_its_range_was_denied_as_a_conflict(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        _deny(gate)
        gate.refuses = pool.is_keep
        [name] = await pool.ask_greedily(1)
        await pool.place.home.pass_by(50)
        assert DENIAL in pool.find_shown_reason(name)


@pytest.mark.parametrize("kind", ANNOTATED)
async def test_a_pool_gets_no_memory_while_a_voiding_write_is_denied_as_a_conflict(
    kind: type[Pool], gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        [name] = await pool.ask_greedily(1)
        await pool.place.home.pass_by(5)
        address = pool.address(name)
        assert address
        if not isinstance(pool, ClusterPool):  # a fence of these pools voids what waits
            gate.refuses = pool.is_any
            [name] = [f"{GREEDY}-waiting"]
            await pool.ask(name)
            await pool.place.home.pass_by(5)
        _deny(gate)
        gate.refuses = pool.is_any
        await pool.drop_journal()
        await pool.ask("other")
        await pool.place.home.pass_by(RESYNC)
        assert ANNOTATION not in pool.annotations()
        assert not pool.address("other")
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(2 * RESYNC)
        assert pool.address("other")
        assert pool.address(name)
