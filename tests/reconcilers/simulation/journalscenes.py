"""Scenes for the rules of promises and journals; the same for pools of every kind.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

from tests.reconcilers.simulation.refusals import RefusedRequests
from tests.reconcilers.simulation.stage import Stage
from tests.reconcilers.simulation.wire import Flight

WAITS = "b waits for addresses that no request gets"


async def _create_journal(stage: Stage) -> None:
    """Serve c: a pool has a journal only once a request was served."""
    stage.create_request("c")
    await stage.drop_settled(stage.start_replica())


async def late_write_after_loss_of_memory(stage: Stage) -> str | None:
    """The pool loses its journal while the addresses of b are on their way; a goes before b."""
    await _create_journal(stage)
    stage.create_request("b")
    late_write = await stage.reconcile_until(stage.start_replica(), stage.match_grants_to("b"))
    stage.delete_journal()
    return await _serve_a_before_late_write(stage, late_write)


async def late_write_after_a_truncation(stage: Stage) -> str | None:
    """The pool loses its promises, not its journal, while the addresses of b are on their way."""
    await _create_journal(stage)
    stage.create_request("b")
    late_write = await stage.reconcile_until(stage.start_replica(), stage.match_grants_to("b"))
    stage.delete_promises()
    return await _serve_a_before_late_write(stage, late_write)


async def late_write_after_a_restore(stage: Stage) -> str | None:
    """The pool gets the journal of another cluster while the addresses of b are on their way."""
    await _create_journal(stage)
    stage.create_request("b")
    late_write = await stage.reconcile_until(stage.start_replica(), stage.match_grants_to("b"))
    stage.restore_pool(revision=1_000_000)
    return await _serve_a_before_late_write(stage, late_write)


async def late_write_after_a_copy(stage: Stage) -> str | None:
    """The pool is created again with its old journal while the addresses of b are on their way."""
    await _create_journal(stage)
    pool = stage.model.objects[stage.adapter.pools, "p"]
    journal = [memory.make_copy(pool) for memory in stage.adapter.memories]
    stage.create_request("b")
    late_write = await stage.reconcile_until(stage.start_replica(), stage.match_grants_to("b"))
    stage.replace_pool(journal)
    return await _serve_a_before_late_write(stage, late_write)


async def _serve_a_before_late_write(stage: Stage, late_write: Flight) -> str | None:
    """Serve a by a replica that does not read what others write; then write the addresses of b.

    Args:
        stage: a stage on which the addresses of b are on their way.
        late_write: the write of these addresses.
    """
    stage.create_request("a")
    other = stage.start_replica()
    for _ in range(3):  # more than once, as the replica may wait for its cache
        for feed in (other.pools, other.askers):
            feed.catch_up()
        await stage.reconcile_pool(other, stage.match_grants_to("b"))
        stage.skip_time(seconds=2)
    await stage.run_held_request(late_write)
    return stage.problem


async def promise_kept_and_dropped_unseen(stage: Stage) -> str | None:
    """The replica that serves a has not read that b has addresses and no promise any more."""
    await _create_journal(stage)
    stage.create_request("b")
    current = stage.start_replica()
    stage.create_request("a")
    other = stage.start_replica()
    for _ in range(3):  # the replica sees what it wrote, and drops the promise a minute later
        await stage.reconcile_pool(current)
        stage.skip_time(seconds=61)
        current.pools.catch_up()
    for _ in range(2):  # at first it waits for its cache
        other.pools.catch_up()
        await stage.reconcile_pool(other)
        stage.skip_time(seconds=2)
    return stage.problem


async def addresses_whose_writes_are_refused(stage: Stage) -> str | None:
    """The server refuses the addresses of requests that go first; then b is created."""
    refused = RefusedRequests(stage.model)
    for name in ("a", "c", "d", "e"):
        refused.refuse(name)
        stage.create_request(name)
    replica = stage.start_replica()
    await stage.serve_requests(replica)
    stage.create_request("b")
    await stage.serve_requests(replica)
    return stage.problem or (None if stage.is_served("b") else WAITS)
