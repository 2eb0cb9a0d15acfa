"""Leader election: one leader at a time, whatever hangs, fails or freezes."""

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
    PATH,
    Candidate,
    Election,
    build_old_record,
    play_election,
)
from tests.controller.store import Store, StoreTransport


async def test_the_first_candidate_creates_the_lease_with_times_that_the_server_accepts() -> None:
    async def play(election: Election) -> None:
        assert election.record == {
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
        assert election.a.leads
        assert election.b.led == []
        assert election.record["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert election.record["renewTime"] == "2026-01-01T01:00:00.000000Z"
        assert election.record["leaseTransitions"] == 0
        assert election.store.revision == 100 + 1 + 1800

    await play_election(play)


async def test_a_leader_whose_requests_hang_stops_before_another_can_begin() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60.5)
        election.a.transport.hangs = True
        await election.clock.advance_until(lambda: election.b.leads)

    election = await play_election(play)
    (_, stopped), (begun, _) = election.a.led[0], election.b.led[0]
    assert stopped == 70  # the last renewal was sent at 60
    assert begun - stopped >= 5
    assert begun < 60 + 15 + 2.2 * 2
    assert "not renewed within 10 s" in str(election.a.lost)
    assert election.record["holderIdentity"] == "b"
    assert election.record["leaseTransitions"] == 1


async def test_a_leader_whose_answers_are_lost_stops_although_its_writes_arrive() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60.5)
        election.a.transport.loses_answers = True
        await election.clock.advance_until(lambda: election.b.leads)

    election = await play_election(play)
    (_, stopped), (begun, _) = election.a.led[0], election.b.led[0]
    assert stopped == 70
    assert begun - stopped >= 5


async def test_a_short_outage_costs_no_leadership() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        election.a.transport.refused = {"PUT": NoAnswer("reset"), "GET": ServerFailure(500)}
        await election.clock.advance(7)
        election.a.transport.refused = {}
        await election.clock.advance(600)
        assert election.a.leads
        assert election.b.led == []

    await play_election(play)


async def test_one_request_that_hangs_does_not_use_up_the_deadline() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        election.a.transport.hangs = True
        await election.clock.advance(3)  # the renewal of 62 hangs until 67
        election.a.transport.hangs = False
        await election.clock.advance(600)
        assert election.a.leads

    await play_election(play)


async def test_another_holder_in_the_record_ends_the_leadership_at_once() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        stolen = election.store.objects[PATH]
        election.store.put(
            PATH, {**stolen, "spec": {**election.record, "holderIdentity": "thief"}}
        )
        await election.clock.advance(2)
        assert not election.a.leads
        assert "held by another process" in str(election.a.lost)

    await play_election(play)


async def test_a_label_added_to_the_lease_stays_and_does_no_harm() -> None:
    async def play(election: Election) -> None:
        lease = election.store.objects[PATH]
        labelled = {**lease["metadata"], "labels": {"team": "net"}}
        election.store.put(PATH, {**lease, "metadata": labelled})
        await election.clock.advance(60)
        assert election.a.leads
        assert election.store.objects[PATH]["metadata"]["labels"] == {"team": "net"}
        assert election.record["renewTime"] == "2026-01-01T00:01:00.000000Z"

    await play_election(play)


async def test_a_lease_deleted_under_its_holder_is_written_again() -> None:
    async def play(election: Election) -> None:
        election.store.remove(PATH)
        await election.clock.advance(2)
        assert election.a.leads
        assert election.record["holderIdentity"] == "a"

    await play_election(play)


async def test_a_lease_deleted_after_its_holder_died_is_taken_when_it_would_have_expired() -> None:
    async def play(election: Election) -> None:
        election.a.scope.cancel()
        election.store.remove(PATH)
        await election.clock.advance(9)
        assert not election.b.leads
        await election.clock.advance(8)
        assert election.b.leads

    await play_election(play)


async def test_expiry_is_measured_with_our_clock_and_not_with_the_times_in_the_record() -> None:
    clock, store = VirtualClock(), Store()
    store.put(
        PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": build_old_record()}
    )
    candidate = Candidate("b", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(14.9)
        assert candidate.led == []
        await clock.advance(3)
        assert candidate.leads
        group.cancel_scope.cancel()


async def test_candidates_try_again_well_within_the_retry_period_of_two_seconds() -> None:
    for shares, first in (([0.0], 0.8), ([0.999], 1.5992)):
        clock, store = VirtualClock(), Store()
        lease = {"metadata": {"name": "leader", "namespace": "system"}, "spec": build_old_record()}
        store.put(PATH, lease)
        settings = LeaseSettings(KEY, "b")
        elector = Elector(Client(StoreTransport(store)), clock, settings, jitter=shares.pop)
        async with anyio.create_task_group() as group:
            group.start_soon(elector.acquire)
            await clock.advance(0)
            assert clock.next_due == pytest.approx(first)
            group.cancel_scope.cancel()


async def test_a_record_that_changes_without_a_new_renew_time_has_not_expired() -> None:
    clock, store = VirtualClock(), Store()
    metadata = {"name": "leader", "namespace": "system"}
    candidate = Candidate("b", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        for number in range(6):
            # Its clock stands still, or jumps: what counts is that we saw another record.
            spec = {**build_old_record(), "leaseTransitions": number}
            store.put(PATH, {"metadata": metadata, "spec": spec})
            await clock.advance(10)
        assert candidate.led == []
        await clock.advance(20)
        assert candidate.leads
        group.cancel_scope.cancel()


async def test_a_wall_clock_that_jumps_costs_no_leadership() -> None:
    class Jumping(VirtualClock):
        ahead = timedelta()

        @override
        def now(self) -> datetime:
            return super().now() + self.ahead

    clock, store = Jumping(), Store()
    a, b = Candidate("a", store, clock), Candidate("b", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(a.run)
        await clock.advance(0)
        group.start_soon(b.run)
        for jump in (timedelta(days=1), timedelta(days=-400), timedelta(seconds=-30)):
            await clock.advance(60)
            clock.ahead = jump
        await clock.advance(60)
        assert a.leads
        assert b.led == []
        group.cancel_scope.cancel()


async def test_a_restart_under_the_same_name_leads_at_once_and_is_no_transition() -> None:
    clock, store = VirtualClock(), Store()
    lease = {"metadata": {"name": "leader", "namespace": "system"}, "spec": build_old_record()}
    store.put(PATH, lease)
    candidate = Candidate("a", store, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(0)
        assert candidate.leads
        spec = store.objects[PATH]["spec"]
        assert spec["leaseTransitions"] == 3
        assert spec["acquireTime"] == build_old_record()["acquireTime"]
        group.cancel_scope.cancel()


async def test_of_two_candidates_at_once_one_leads() -> None:
    clock, store = VirtualClock(), Store()
    candidates = [Candidate(name, store, clock) for name in "ab"]
    async with anyio.create_task_group() as group:
        for candidate in candidates:
            group.start_soon(candidate.run)
        await clock.advance(600)
        assert sum(candidate.leads for candidate in candidates) == 1
        group.cancel_scope.cancel()


async def test_work_that_continues_after_the_lease_expired_is_reported() -> None:
    async def play(election: Election) -> None:
        elector = election.a.elector
        await election.clock.advance(60)
        assert elector.overdue_seconds == 0
        election.a.transport.hangs = True
        await election.clock.advance(15)  # the last renewal was sent at 60
        assert not election.a.leads
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
    assert election.a.led == [(0, 70)]


async def test_the_first_deadline_counts_from_when_the_claim_was_sent() -> None:
    clock, store = VirtualClock(), Store()
    candidate = Candidate("a", store, clock)
    store.put(PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": {}})
    candidate.transport.before_answer = lambda: clock.sleep(4)
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(8)  # read until 4, claimed from 4 to 8
        candidate.transport.hangs = True
        await clock.advance(60)
    assert candidate.led == [(8, 14)]


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2.4, 2), (15, 10, 0)])
def test_times_that_contradict_each_other_are_refused(
    times: tuple[float, float, float],
) -> None:
    with pytest.raises(ValueError, match="lease duration > renew deadline"):
        LeaseSettings(KEY, "a", *times)


def test_an_election_without_identity_is_refused() -> None:
    with pytest.raises(ValueError, match="identity"):
        LeaseSettings(KEY, "")
