"""Promised ranges whose writes the API server refuses do not keep other tenants waiting."""

import pytest

from controller.errors import ServerFailure
from tests.reconcilers.promises.refusing import GREEDY, KINDS, REFUSAL, Gate, gate, open_pool

__all__ = ["gate"]

RESYNC = 60.0
"""Seconds after which a refused write is tried again."""
MANY = 540
"""Requests that fill a journal of every kind."""
FEW = 150
"""Requests that fill less than half of a journal."""
HAS_TENANTS = ["NetworkPool", "GlobalInClusterIPPool"]
"""Kinds of pools whose requests have tenants: a tenant gets half of a journal at most."""


@pytest.mark.parametrize("kind", KINDS)
async def test_refused_writes_do_not_keep_another_tenant_waiting(kind: str, gate: Gate) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        greedy = await pool.create_greedy_requests(MANY)
        await pool.pass_by(5)
        await pool.create_request("other")
        await pool.pass_by(8)
        assert pool.find_address("other")
        assert not any(pool.find_address(name) for name in greedy)


@pytest.mark.parametrize("kind", KINDS)
async def test_requests_are_served_within_a_resync_once_their_writes_are_accepted(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        greedy = await pool.create_greedy_requests(FEW)
        await pool.pass_by(90)
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC + 5)
        addresses = [pool.find_address(name) for name in greedy]
        assert all(addresses)
        assert len({*addresses}) == FEW


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_shows_why_its_write_was_refused(kind: str, gate: Gate) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        [name] = await pool.create_greedy_requests(1)
        await pool.pass_by(50)
        assert REFUSAL in pool.read_reason(name)
        assert "AllocationFailed" in pool.read_reason(name) or kind in {
            "NetworkNamespace",
            "IPAMPool",
        }


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_request_is_written_once_per_resync(kind: str, gate: Gate) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep
        await pool.create_greedy_requests(FEW)
        await pool.pass_by(RESYNC + 30)
        gate.forget()
        await pool.pass_by(10 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 10 * FEW
        voids = sum(pool.is_void(sent) for sent in gate.accepted)
        assert voids <= 10 * FEW
        journal_writes = len(gate.accepted) - voids
        assert journal_writes <= 10 * 4, "per resync: one for each batch, one to drop promises"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_is_written_once_per_resync_while_a_webhook_has_no_server(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        message = 'Internal error occurred: failed calling webhook "x.example.com": no endpoints'
        gate.error = ServerFailure(500, "InternalError", message)
        gate.refuses = pool.is_keep_or_void
        [name] = await pool.create_greedy_requests(1)
        await pool.pass_by(RESYNC + 30)
        gate.forget()
        await pool.pass_by(10 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 10
        gate.refuses = lambda _: False
        await pool.pass_by(2 * RESYNC)
        assert pool.find_address(name)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_is_served_beside_others_whose_writes_are_all_refused(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep_or_void
        await pool.create_greedy_requests(FEW)
        await pool.pass_by(20)
        await pool.create_request("other")
        await pool.pass_by(8)
        assert pool.find_address("other")
        gate.forget()
        await pool.pass_by(10 * RESYNC)
        assert sum(pool.is_keep(sent) for sent in gate.refused) <= 10 * FEW
        assert len(gate.accepted) <= 10 * 4


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_a_tenant_whose_writes_are_all_refused_fills_half_of_a_journal_at_most(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep_or_void
        await pool.create_greedy_requests(MANY)
        for _ in range(3):  # each time, a new leader takes over that remembers nothing
            await pool.pass_by(RESYNC + 20)
            promised = [name for name in pool.list_promised() if name.startswith(GREEDY)]
            assert 0 < len(promised) <= pool.capacity // 2
            await pool.cluster.restart_replica()
        await pool.create_request("other")
        await pool.pass_by(8)
        assert pool.find_address("other")


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_two_tenants_whose_writes_are_all_refused_do_not_fill_a_journal(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep_or_void
        greedy = await pool.create_greedy_requests(MANY, tenants=2)
        for _ in range(3):  # each time, a new leader takes over that remembers nothing
            await pool.pass_by(RESYNC + 20)
            assert 0 < len(pool.list_promised()) <= pool.capacity // 2 + 2
            await pool.cluster.restart_replica()
        await pool.create_request("other")
        await pool.pass_by(8)
        assert pool.find_address("other")
        gate.refuses = lambda _: False
        await pool.pass_by(2 * RESYNC)
        addresses = [pool.find_address(name) for name in greedy]
        assert all(addresses)
        assert len({*addresses}) == MANY


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_a_tenant_whose_promises_cannot_be_written_gets_no_further_promise(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep_or_void
        await pool.create_greedy_requests(20)
        await pool.pass_by(20)
        before = sorted(pool.list_promised())
        await pool.create_request(f"{GREEDY}-late")
        await pool.pass_by(3 * RESYNC)
        assert sorted(pool.list_promised()) == before
        gate.refuses = lambda _: False
        await pool.pass_by(2 * RESYNC)
        assert pool.find_address(f"{GREEDY}-late")


@pytest.mark.parametrize("kind", KINDS)
async def test_one_request_whose_writes_are_all_refused_does_not_keep_its_tenant_waiting(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        odd, even = f"{GREEDY}-odd", f"{GREEDY}-even"
        gate.refuses = lambda sent: (
            pool.is_keep_or_void(sent) and "odd" in f"{sent.namespace}/{sent.name}"
        )
        await pool.create_request(odd)
        await pool.pass_by(10)
        await pool.create_request(even)
        await pool.pass_by(8)
        assert pool.find_address(even)
        assert not pool.find_address(odd)


@pytest.mark.parametrize("kind", HAS_TENANTS)
async def test_a_deleted_pool_is_gone_once_the_voiding_writes_are_accepted(
    kind: str, gate: Gate
) -> None:
    async with open_pool(kind) as pool:
        gate.refuses = pool.is_keep_or_void
        await pool.create_greedy_requests(20)
        await pool.pass_by(20)
        assert pool.list_promised()
        await pool.delete()
        await pool.pass_by(2 * RESYNC)
        assert not pool.is_gone(), "the promised ranges may still be written"
        gate.refuses = pool.is_keep
        await pool.pass_by(3 * RESYNC)
        assert pool.is_gone()
        gate.refuses = lambda _: False
        await pool.pass_by(RESYNC)
        assert not any(pool.find_address(f"{GREEDY}-{number:03}") for number in range(20))
