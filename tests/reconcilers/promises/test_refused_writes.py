"""Writes that the API server refuses for good: no tenant starves a pool by them."""

import pytest

from controller.errors import ServerFailure
from tests.reconcilers.promises.refusing import GREEDY, KINDS, SENTENCE, Gate, gate, open_pool

__all__ = ["gate"]

RESYNC = 60.0
MANY = 540
"""Requests that fill a journal of every kind."""
FEW = 150
"""Requests that fill less than half of one."""
HAS_TENANTS = ["NetworkPool", "GlobalInClusterIPPool"]


@pytest.mark.parametrize("kind", KINDS)
async def test_refused_writes_do_not_keep_another_tenant_waiting(kind: str, gate: Gate) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        greedy = await pool.ask_greedily(MANY)
        await pool.place.home.pass_by(5)
        await pool.ask("other")
        await pool.place.home.pass_by(8)
        assert pool.address("other")
        assert not any(pool.address(name) for name in greedy)


@pytest.mark.parametrize("kind", KINDS)
async def test_requests_are_served_within_a_resync_once_their_writes_are_accepted(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        greedy = await pool.ask_greedily(FEW)
        await pool.place.home.pass_by(90)
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(RESYNC + 5)
        addresses = [pool.address(name) for name in greedy]
        assert all(addresses)
        assert len({*addresses}) == FEW


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_shows_why_its_write_was_refused(kind: str, gate: Gate) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        [name] = await pool.ask_greedily(1)
        await pool.place.home.pass_by(50)
        assert SENTENCE in pool.find_shown_reason(name)
        assert "AllocationFailed" in pool.find_shown_reason(name) or kind in {
            "NetworkNamespace",
            "IPAMPool",
        }


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_request_is_written_once_per_resync(kind: str, gate: Gate) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        await pool.ask_greedily(FEW)
        await pool.place.home.pass_by(RESYNC + 30)
        gate.forget()
        await pool.place.home.pass_by(10 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 10 * FEW
        voids = sum(pool.is_void(sent) for sent in gate.accepted)
        assert voids <= 10 * FEW
        # The journal once per resync and batch, to promise; and once to drop what is settled.
        assert len(gate.accepted) - voids <= 10 * 4


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_is_written_once_per_resync_while_a_webhook_has_no_server(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        said = 'Internal error occurred: failed calling webhook "x.example.com": no endpoints'
        gate.error = ServerFailure(500, "InternalError", said)
        gate.refuses = pool.is_any
        [name] = await pool.ask_greedily(1)
        await pool.place.home.pass_by(RESYNC + 30)
        gate.forget()
        await pool.place.home.pass_by(10 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 10
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(2 * RESYNC)
        assert pool.address(name)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_is_served_beside_others_whose_writes_are_all_refused(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_any
        await pool.ask_greedily(FEW)
        await pool.place.home.pass_by(20)
        await pool.ask("other")
        await pool.place.home.pass_by(8)
        assert pool.address("other")
        gate.forget()
        await pool.place.home.pass_by(10 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 10 * FEW
        assert len(gate.accepted) <= 10 * 4


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_a_tenant_whose_writes_are_all_refused_fills_half_of_a_journal_at_most(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_any
        await pool.ask_greedily(MANY)
        for _ in range(3):  # a new leader remembers nothing
            await pool.place.home.pass_by(RESYNC + 20)
            promised = [name for name in pool.promises() if name.startswith(GREEDY)]
            assert 0 < len(promised) <= pool.capacity // 2
            await pool.place.restart()
        await pool.ask("other")
        await pool.place.home.pass_by(8)
        assert pool.address("other")


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_two_tenants_whose_writes_are_all_refused_do_not_fill_a_journal(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_any
        greedy = await pool.ask_greedily(MANY, tenants=2)
        for _ in range(3):  # a new leader remembers nothing
            await pool.place.home.pass_by(RESYNC + 20)
            assert 0 < len(pool.promises()) <= pool.capacity // 2 + 2
            await pool.place.restart()
        await pool.ask("other")
        await pool.place.home.pass_by(8)
        assert pool.address("other")
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(2 * RESYNC)
        addresses = [pool.address(name) for name in greedy]
        assert all(addresses)
        assert len({*addresses}) == MANY


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_a_tenant_with_stuck_promises_gets_no_further_one(kind: str, gate: Gate) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_any
        await pool.ask_greedily(20)
        await pool.place.home.pass_by(20)
        before = sorted(pool.promises())
        await pool.ask(f"{GREEDY}-late")
        await pool.place.home.pass_by(3 * RESYNC)
        assert sorted(pool.promises()) == before
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(2 * RESYNC)
        assert pool.address(f"{GREEDY}-late")


@pytest.mark.parametrize("kind", KINDS)
async def test_one_request_that_refuses_every_write_does_not_keep_its_tenant_waiting(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        odd, even = f"{GREEDY}-odd", f"{GREEDY}-even"
        gate.refuses = lambda sent: pool.is_any(sent) and "odd" in f"{sent.namespace}/{sent.name}"
        await pool.ask(odd)
        await pool.place.home.pass_by(10)
        await pool.ask(even)
        await pool.place.home.pass_by(8)
        assert pool.address(even)
        assert not pool.address(odd)


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_a_pool_is_deleted_although_what_it_promised_is_refused(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_any
        await pool.ask_greedily(20)
        await pool.place.home.pass_by(20)
        assert pool.promises()
        await pool.delete()
        await pool.place.home.pass_by(2 * RESYNC)
        assert not pool.is_gone(), "a promise may still be written"
        gate.refuses = pool.is_keep
        await pool.place.home.pass_by(3 * RESYNC)
        assert pool.is_gone()
        gate.refuses = lambda _: False
        await pool.place.home.pass_by(RESYNC)
        assert not any(pool.address(f"{GREEDY}-{number:03}") for number in range(20))
