"""Releasing a lease: at the end of the work, and never one that another holds."""

import anyio

from tests.clock import VirtualClock
from tests.controller.candidates import PATH, Candidate, Election, build_old_record, play_election
from tests.controller.store import Store


async def test_a_released_lease_is_taken_within_one_retry_period() -> None:
    async def play(election: Election) -> None:
        await election.clock.advance(60)
        election.a.scope.cancel()
        await election.clock.advance(0)
        assert election.record["holderIdentity"] == "a"
        await election.a.elector.release()
        assert election.record["holderIdentity"] == ""
        assert election.record["leaseDurationSeconds"] == 1
        assert await election.clock.advance_until(lambda: election.b.leads) <= 2 * 2.2
        assert election.record["leaseTransitions"] == 1

    await play_election(play)


async def test_a_lease_that_was_taken_over_is_not_released() -> None:
    async def play(election: Election) -> None:
        election.a.transport.hangs = True
        await election.clock.advance_until(lambda: election.b.leads)
        election.a.transport.hangs = False
        await election.a.elector.release()
        assert election.record["holderIdentity"] == "b"

    await play_election(play)


async def test_a_release_that_hangs_ends_after_the_time_of_one_request() -> None:
    async def play(election: Election) -> None:
        election.a.scope.cancel()
        election.a.transport.hangs = True
        ended: list[float] = []

        async def release() -> None:
            await election.a.elector.release()
            ended.append(election.clock.monotonic())

        async with anyio.create_task_group() as group:
            group.start_soon(release)
            await election.clock.advance(60)
        assert ended == [5]

    await play_election(play)


async def test_a_lease_acquired_without_a_response_is_released() -> None:
    clock, store = VirtualClock(), Store()
    candidate = Candidate("a", store, clock)
    candidate.transport.loses_answers = True
    store.put(PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": {}})
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(0)
        candidate.transport.loses_answers = False
        await clock.advance(5)
        group.cancel_scope.cancel()
    await candidate.elector.release()
    assert store.objects[PATH]["spec"].get("holderIdentity", "") == ""


async def test_a_lease_that_another_acquired_meanwhile_is_not_released() -> None:
    clock, store = VirtualClock(), Store()
    candidate = Candidate("a", store, clock)
    store.put(PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": {}})

    async def write_other_holder() -> None:
        lease = store.objects[PATH]
        store.put(PATH, {**lease, "spec": {**build_old_record(), "holderIdentity": "b"}})

    candidate.transport.before_answer = write_other_holder
    async with anyio.create_task_group() as group:
        group.start_soon(candidate.run)
        await clock.advance(5)
        group.cancel_scope.cancel()
    assert candidate.led == []
    await candidate.elector.release()
    assert store.objects[PATH]["spec"]["holderIdentity"] == "b"


async def test_a_lease_that_is_labelled_while_it_is_released_is_still_released() -> None:
    async def play(election: Election) -> None:
        election.a.scope.cancel()
        await election.clock.advance(0)
        labels = iter(["net"])

        async def label_lease() -> None:
            for team in labels:
                lease = election.store.objects[PATH]
                election.store.put(
                    PATH, {**lease, "metadata": {**lease["metadata"], "labels": {"team": team}}}
                )

        election.a.transport.before_answer = label_lease
        await election.a.elector.release()
        assert election.record["holderIdentity"] == ""
        assert election.store.objects[PATH]["metadata"]["labels"] == {"team": "net"}

    await play_election(play)
