"""Leader election: one leader at a time, whatever hangs, fails or freezes.

With the default settings a lease lasts 15 s. The leader renews it every 2 s, and stops 10 s after
it sent the last renewal that succeeded. Candidates try every 2 s, and up to 2.2 s with jitter.
"""

from datetime import datetime, timedelta

import anyio
import pytest
from typing_extensions import override

from controller.client import Client
from controller.errors import NoAnswer, ServerFailure
from controller.leases import Elector, LeaseSettings
from tests.clock import VirtualClock
from tests.controller.candidates import (
    KEY,
    LEASE_PATH,
    Candidate,
    Election,
    build_old_lease_spec,
    play_election,
)
from tests.controller.store import Store, StoreTransport


async def test_the_first_candidate_creates_the_lease_with_times_that_the_server_accepts() -> None:
    async def play(election: Election) -> None:
        assert election.lease_spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }

    await play_election(play)


@pytest.mark.slow
async def test_a_healthy_leader_renews_every_two_seconds_and_keeps_the_lease() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(3600)
        assert election.a.is_leading
        assert election.b.terms == []
        assert election.lease_spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert election.lease_spec["renewTime"] == "2026-01-01T01:00:00.000000Z"
        assert election.lease_spec["leaseTransitions"] == 0
        # The store begins at revision 100; then there are a creation, and a renewal every 2 s.
        assert election.store.revision == 100 + 1 + 3600 / 2

    await play_election(play)


async def test_a_leader_whose_requests_hang_stops_before_another_can_begin() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60.5)
        election.a.transport.hangs = True
        await election.clock.advance_until(lambda: election.b.is_leading)

    election = await play_election(play)
    (_, stopped_at), (started_at, _) = election.a.terms[0], election.b.terms[0]
    assert stopped_at == 70  # the last renewal was sent at 60
    assert started_at - stopped_at >= 5
    assert started_at < 60 + 15 + 2.2 * 2
    assert "not renewed within 10 s" in str(election.a.lost_error)
    assert election.lease_spec["holderIdentity"] == "b"
    assert election.lease_spec["leaseTransitions"] == 1


async def test_a_leader_whose_answers_are_lost_stops_although_its_writes_arrive() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60.5)
        election.a.transport.loses_answers = True
        await election.clock.advance_until(lambda: election.b.is_leading)

    election = await play_election(play)
    (_, stopped_at), (started_at, _) = election.a.terms[0], election.b.terms[0]
    assert stopped_at == 70
    assert started_at - stopped_at >= 5


async def test_a_short_outage_costs_no_leadership() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        election.a.transport.errors_by_method = {
            "PUT": NoAnswer("reset"),
            "GET": ServerFailure(500),
        }
        await election.clock.advance(7)
        election.a.transport.errors_by_method = {}
        await election.clock.advance(600)
        assert election.a.is_leading
        assert election.b.terms == []

    await play_election(play)


async def test_one_request_that_hangs_does_not_use_up_the_deadline() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        election.a.transport.hangs = True
        await election.clock.advance(3)  # the renewal of 62 hangs until 67
        election.a.transport.hangs = False
        await election.clock.advance(600)
        assert election.a.is_leading

    await play_election(play)


async def test_a_leader_that_finds_another_holder_in_the_lease_stops_at_the_next_renewal() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        lease = election.store.objects[LEASE_PATH]
        election.store.put(
            LEASE_PATH, {**lease, "spec": {**election.lease_spec, "holderIdentity": "thief"}}
        )
        await election.clock.advance(2)
        assert not election.a.is_leading
        assert "held by another process" in str(election.a.lost_error)

    await play_election(play)


async def test_a_label_added_to_the_lease_stays_and_does_no_harm() -> None:
    async def play(election: Election) -> None:
        lease = election.store.objects[LEASE_PATH]
        labelled = {**lease["metadata"], "labels": {"team": "net"}}
        election.store.put(LEASE_PATH, {**lease, "metadata": labelled})
        await election.clock.advance(60)
        assert election.a.is_leading
        assert election.store.objects[LEASE_PATH]["metadata"]["labels"] == {"team": "net"}
        assert election.lease_spec["renewTime"] == "2026-01-01T00:01:00.000000Z"

    await play_election(play)


async def test_a_lease_that_is_deleted_is_created_again_by_its_holder() -> None:
    async def play(election: Election) -> None:
        election.store.remove(LEASE_PATH)
        await election.clock.advance(2)
        assert election.a.is_leading
        assert election.lease_spec["holderIdentity"] == "a"

    await play_election(play)


async def test_a_lease_deleted_after_its_holder_died_is_taken_when_it_would_have_expired() -> None:
    async def play(election: Election) -> None:
        election.a.scope.cancel()
        election.store.remove(LEASE_PATH)
        await election.clock.advance(9)
        assert not election.b.is_leading
        await election.clock.advance(8)
        assert election.b.is_leading

    await play_election(play)


async def test_expiry_is_measured_by_the_candidates_clock_and_not_by_times_in_the_lease() -> None:
    clock, store = VirtualClock(), Store()
    store.put(
        LEASE_PATH,
        {"metadata": {"name": "leader", "namespace": "system"}, "spec": build_old_lease_spec()},
    )
    candidate = Candidate("b", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(14.9)
        assert candidate.terms == []
        await clock.advance(3)
        assert candidate.is_leading
        group.cancel_scope.cancel()


async def test_candidates_try_again_well_within_the_retry_period_of_two_seconds() -> None:
    for jitters, expected_pause in (([0.0], 0.8), ([0.999], 1.5992)):
        clock, store = VirtualClock(), Store()
        lease = {
            "metadata": {"name": "leader", "namespace": "system"},
            "spec": build_old_lease_spec(),
        }
        store.put(LEASE_PATH, lease)
        settings = LeaseSettings(KEY, "b")
        elector = Elector(Client(StoreTransport(store)), clock, settings, jitter=jitters.pop)
        async with anyio.create_task_group() as group:
            group.start_soon(elector.acquire)
            await clock.advance(0)
            assert clock.next_due == pytest.approx(expected_pause)
            group.cancel_scope.cancel()


async def test_a_lease_that_changes_without_a_new_renew_time_does_not_expire() -> None:
    clock, store = VirtualClock(), Store()
    metadata = {"name": "leader", "namespace": "system"}
    candidate = Candidate("b", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        for number in range(6):
            # The holder's clock stands still or jumps, but the lease differs from the last read.
            spec = {**build_old_lease_spec(), "leaseTransitions": number}
            store.put(LEASE_PATH, {"metadata": metadata, "spec": spec})
            await clock.advance(10)
        assert candidate.terms == []
        await clock.advance(20)
        assert candidate.is_leading
        group.cancel_scope.cancel()


async def test_a_wall_clock_that_jumps_costs_no_leadership() -> None:
    class JumpingWallClock(VirtualClock):
        offset = timedelta()

        @override
        def now(self) -> datetime:
            return super().now() + self.offset

    clock, store = JumpingWallClock(), Store()
    a, b = Candidate("a", store, clock), Candidate("b", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(a.run)
        await clock.advance(0)
        group.start_soon(b.run)
        for jump in (timedelta(days=1), timedelta(days=-400), timedelta(seconds=-30)):
            await clock.advance(60)
            clock.offset = jump
        await clock.advance(60)
        assert a.is_leading
        assert b.terms == []
        group.cancel_scope.cancel()


async def test_a_restarted_holder_leads_at_once_without_a_lease_transition() -> None:
    clock, store = VirtualClock(), Store()
    lease = {"metadata": {"name": "leader", "namespace": "system"}, "spec": build_old_lease_spec()}
    store.put(LEASE_PATH, lease)
    candidate = Candidate("a", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(0)
        assert candidate.is_leading
        spec = store.objects[LEASE_PATH]["spec"]
        assert spec["leaseTransitions"] == 3
        assert spec["acquireTime"] == build_old_lease_spec()["acquireTime"]
        group.cancel_scope.cancel()


async def test_only_one_of_two_candidates_that_start_together_leads() -> None:
    clock, store = VirtualClock(), Store()
    candidates = [Candidate(name, store, clock) for name in "ab"]
    async with anyio.create_task_group() as group:
        for candidate in candidates:
            group.start_soon(candidate.run)
        await clock.advance(600)
        assert sum(candidate.is_leading for candidate in candidates) == 1
        group.cancel_scope.cancel()


async def test_work_that_continues_after_the_lease_expired_is_reported() -> None:
    async def play(election: Election) -> None:
        elector = election.a.elector
        await election.clock.advance(60)
        assert elector.overdue_seconds == 0
        election.a.transport.hangs = True
        await election.clock.advance(15)  # the last renewal was sent at 60
        assert not election.a.is_leading
        assert elector.overdue_seconds == 0
        await election.clock.advance(30)
        assert elector.overdue_seconds == 30
        await elector.release()  # the work has ended
        assert elector.overdue_seconds == 0
        assert election.b.elector.overdue_seconds == 0

    await play_election(play)


async def test_the_deadline_counts_from_when_the_last_renewal_was_sent() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(59)
        election.a.transport.before_answer = lambda: election.clock.sleep(4)
        await election.clock.advance(5)  # the renewal of 60 is answered at 64
        election.a.transport.hangs = True
        await election.clock.advance(30)

    election = await play_election(play)
    assert election.a.terms == [(0, 70)]


async def test_the_first_deadline_counts_from_when_the_acquisition_was_sent() -> None:
    clock, store = VirtualClock(), Store()
    candidate = Candidate("a", store, clock)
    store.put(LEASE_PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": {}})
    candidate.transport.before_answer = lambda: clock.sleep(4)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(8)  # the lease is read until 4, and acquired from 4 to 8
        candidate.transport.hangs = True
        await clock.advance(60)
    assert candidate.terms == [(8, 14)]


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2.4, 2), (15, 10, 0)])
def test_times_that_contradict_each_other_are_refused(
    times: tuple[float, float, float],
) -> None:
    with pytest.raises(ValueError, match="lease duration > renew deadline"):
        LeaseSettings(KEY, "a", *times)


def test_an_election_without_identity_is_refused() -> None:
    with pytest.raises(ValueError, match="identity"):
        LeaseSettings(KEY, "")
