"""Releasing a lease when the work has ended, but never a lease that another process holds."""

import anyio

from tests.clock import VirtualClock
from tests.controller.candidates import (
    LEASE_PATH,
    Candidate,
    Election,
    build_old_lease_spec,
    play_election,
)
from tests.controller.store import Store

MOST_RETRY_SECONDS = 2.2
"""The longest pause between two attempts of a candidate: the retry period with its jitter."""
REQUEST_SECONDS = 5
"""The time limit of a request for the lease."""


async def test_a_released_lease_is_taken_within_two_retry_periods() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        election.a.scope.cancel()
        await election.clock.advance(0)
        assert election.lease_spec["holderIdentity"] == "a"
        await election.a.elector.release()
        assert election.lease_spec["holderIdentity"] == ""
        assert election.lease_spec["leaseDurationSeconds"] == 1
        assert (
            await election.clock.advance_until(lambda: election.b.is_leading)
            <= 2 * MOST_RETRY_SECONDS
        )
        assert election.lease_spec["leaseTransitions"] == 1

    await play_election(play)


async def test_a_lease_that_was_taken_over_is_not_released() -> None:
    async def play(election: Election) -> None:
        election.a.transport.hangs = True
        await election.clock.advance_until(lambda: election.b.is_leading)
        election.a.transport.hangs = False
        await election.a.elector.release()
        assert election.lease_spec["holderIdentity"] == "b"

    await play_election(play)


async def test_a_release_that_hangs_ends_after_the_time_limit_of_a_request() -> None:
    async def play(election: Election) -> None:
        election.a.scope.cancel()
        election.a.transport.hangs = True
        ended_at: list[float] = []

        async def release() -> None:
            await election.a.elector.release()
            ended_at.append(election.clock.monotonic())

        async with anyio.create_task_group() as group:
            group.start_soon(release)
            await election.clock.advance(60)
        assert ended_at == [REQUEST_SECONDS]

    await play_election(play)


async def test_a_lease_acquired_without_a_response_is_released() -> None:
    clock, store = VirtualClock(), Store()
    candidate = Candidate("a", store, clock)
    candidate.transport.loses_answers = True
    store.put(LEASE_PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": {}})
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(0)
        candidate.transport.loses_answers = False
        await clock.advance(5)
        group.cancel_scope.cancel()
    await candidate.elector.release()
    assert store.objects[LEASE_PATH]["spec"].get("holderIdentity", "") == ""


async def test_a_lease_that_another_acquired_meanwhile_is_not_released() -> None:
    clock, store = VirtualClock(), Store()
    candidate = Candidate("a", store, clock)
    store.put(LEASE_PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": {}})

    async def write_other_holder() -> None:
        lease = store.objects[LEASE_PATH]
        store.put(LEASE_PATH, {**lease, "spec": {**build_old_lease_spec(), "holderIdentity": "b"}})

    candidate.transport.before_answer = write_other_holder
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(5)
        group.cancel_scope.cancel()
    assert candidate.terms == []
    await candidate.elector.release()
    assert store.objects[LEASE_PATH]["spec"]["holderIdentity"] == "b"


async def test_a_lease_that_is_labelled_while_it_is_released_is_still_released() -> None:
    async def play(election: Election) -> None:
        election.a.scope.cancel()
        await election.clock.advance(0)
        labels = iter(["net"])

        async def label_lease() -> None:
            for team in labels:
                lease = election.store.objects[LEASE_PATH]
                election.store.put(
                    LEASE_PATH,
                    {**lease, "metadata": {**lease["metadata"], "labels": {"team": team}}},
                )

        election.a.transport.before_answer = label_lease
        await election.a.elector.release()
        assert election.lease_spec["holderIdentity"] == ""
        assert election.store.objects[LEASE_PATH]["metadata"]["labels"] == {"team": "net"}

    await play_election(play)
