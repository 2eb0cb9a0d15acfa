"""Scenes in which one rule of the protocol keeps two allocations from having one address.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

from controller.meta import Key
from tests.reconcilers.simulation.model import ALLOCATIONS, NAMESPACE, POOLS
from tests.reconcilers.simulation.networkpools import NetworkPoolReplica, list_shown_ranges
from tests.reconcilers.simulation.stage import Stage, match_writes_of


def _has_range(body: dict[str, dict[str, object]]) -> bool:
    """Return whether the body of a patch writes a range to an allocation."""
    return "startAddress" in body.get("status", {})


async def _serve_c_without_reading_b(stage: Stage, *, wiped: bool) -> str | None:
    """Serve c by a replica that has not read b, whose range is on its way.

    Args:
        stage: a stage without requests.
        wiped: whether the pool has lost its journal, too.
    """
    stage.create_request("c", 2)
    other = stage.start_replica()
    stage.create_request("b", 2)
    await stage.reconcile_pool(stage.start_replica(), lambda flight: flight.plural == ALLOCATIONS)
    stage.late_requests = [flight for flight in stage.late_requests if flight.name == "b"]
    if wiped:
        stage.delete_journal()
    other.pools.catch_up()
    stage.skip_time(seconds=2)
    await stage.reconcile_pool(other)
    stage.run_late_requests()
    return stage.problem


async def promise_to_an_unread_allocation(stage: Stage) -> str | None:
    """A replica that has not read b serves c: only the pool's promise says that b gets a range."""
    return await _serve_c_without_reading_b(stage, wiped=False)


async def lost_promise_to_an_unread_allocation(stage: Stage) -> str | None:
    """A replica that has not read b serves c, and the pool has lost its promise to b."""
    return await _serve_c_without_reading_b(stage, wiped=True)


async def promise_written_to_another_version(stage: Stage) -> str | None:
    """A user wipes the status of b; one replica serves a, another keeps the old promise to b."""
    stage.create_request("b")
    slow = stage.start_replica()
    await stage.reconcile_pool(slow)
    other = stage.start_replica()
    for _ in range(2):
        await stage.reconcile_pool(other)
        stage.skip_time(seconds=61)
    empty_status = dict.fromkeys(("startAddress", "endAddress", "cidr", "phase"))
    stage.edit(ALLOCATIONS, "b", {"status": empty_status})
    slow.allocations.catch_up()
    stage.create_request("a", since="2025-12-31T00:00:00Z")
    await stage.reconcile_pool(stage.start_replica(), match_writes_of("b"))
    stage.late_requests.clear()
    await stage.reconcile_pool(slow)
    return stage.problem


async def shard_moves_to_a_lagging_replica(stage: Stage) -> str | None:
    """B has its range, and no promise says so; the shard moves to a replica that has not read b.

    The replica that gains the shard has read that c waits, for longer than b. The replica that
    loses the shard has not.
    """
    stage.create_request("b")
    before, after = stage.start_sharing_replica(1), stage.start_sharing_replica(1)
    before.gain_shard(0)
    await _settle_b_by(stage, before, after)
    before.lose_shard(0)
    after.gain_shard(0)
    return await _serve_c(stage, after)


async def _settle_b_by(
    stage: Stage, before: NetworkPoolReplica, after: NetworkPoolReplica
) -> None:
    """Let the replica `before` serve b and drop the promise; `after` reads only that c waits."""
    stage.create_request("c", since="2025-12-31T00:00:00Z")
    after.allocations.catch_up()
    for _ in range(3):  # it serves b, reads that, and drops the promise after a quiet minute
        await stage.reconcile_pool(before)
        stage.skip_time(seconds=61)
        before.pools.catch_up()


async def _serve_c(stage: Stage, replica: NetworkPoolReplica) -> str | None:
    """Serve c by a replica that has read the current pool; return the violation, None for none."""
    replica.pools.catch_up()
    for _ in range(2):
        await stage.reconcile_pool(replica)
        stage.skip_time(seconds=2)
    allocation = stage.model.get(ALLOCATIONS, "c")
    assert allocation is not None
    return stage.problem or (None if list_shown_ranges(allocation) else "c waits although it fits")


async def list_began_before_the_pool_was_read(stage: Stage) -> str | None:
    """Pool p loses its promise to b; the LIST that is running for pool q is older than b."""
    stage.adapter.make_pool("q")
    stage.create_request("c", 2)
    other = stage.start_replica()
    listed = await stage.reconcile_until_list(other, "q")
    await _promise_and_forget_b(stage, other)
    await stage.reconcile_pool(other)  # it requests a LIST while the LIST for q is running
    listed.land()
    return await _serve_c_before_late_requests(stage, other)


async def list_is_kept_for_an_earlier_version(stage: Stage) -> str | None:
    """A LIST is kept for a version of pool p before the pool made and lost its promise to b."""
    stage.adapter.make_pool("q")
    stage.delete_journal()
    stage.create_request("c", 2)
    other = stage.start_replica()
    listed = await stage.reconcile_until_list(other, "q")
    await stage.reconcile_pool(other)
    listed.land()
    await stage.reconcile(other, 0, "q")
    stage.edit(POOLS, "q", {"status": None})
    other.pools.catch_up()
    (await stage.reconcile_until_list(other, "q")).land()  # it is kept for p, too
    await stage.reconcile(other, 0, "q")
    await _promise_and_forget_b(stage, other)
    return await _serve_c_before_late_requests(stage, other)


async def _promise_and_forget_b(stage: Stage, other: NetworkPoolReplica) -> None:
    """Promise a range to b, make the write late, and delete the journal; `other` reads that."""
    stage.create_request("b", 2)
    await stage.reconcile_pool(
        stage.start_replica(),
        lambda flight: match_writes_of("b")(flight) and _has_range(flight.body),
    )
    stage.delete_journal()
    other.pools.catch_up()


async def _serve_c_before_late_requests(stage: Stage, replica: NetworkPoolReplica) -> str | None:
    """Serve c by a replica; then run the late write of b's range. Return the violation."""
    held_back, stage.late_requests = stage.late_requests, []
    for _ in range(3):
        await stage.reconcile_pool(replica)
        stage.skip_time(seconds=2)
        if list_shown_ranges(stage.model.objects[ALLOCATIONS, "c"]):
            break
    stage.late_requests = held_back
    stage.run_late_requests()
    return stage.problem


async def pool_deleted_by_a_replica_that_missed_an_allocation(stage: Stage) -> str | None:
    """The pool is deleted; the replica that reconciles it has not read that b holds a range."""
    other = stage.start_replica()
    stage.create_request("b")
    first = stage.start_replica()
    await stage.reconcile_pool(first)
    stage.skip_time(seconds=120)
    for feed in (first.pools, first.allocations):
        feed.catch_up()
    await stage.reconcile_pool(first)
    stage.model.delete(POOLS, "p")
    other.pools.catch_up()
    await stage.reconcile_pool(other)
    return stage.problem


async def answer_after_the_deletion(stage: Stage) -> str | None:
    """The answer to the last write to a comes after the event of a's deletion; b is created."""
    stage.create_request("a", 3)
    replica = stage.start_replica()
    await stage.reconcile_pool(replica)
    stage.model.delete(ALLOCATIONS, "a")
    replica.allocations.catch_up()
    replica.begin_pass(stage.group, 1, Key(NAMESPACE, "a"))
    await stage.deliver_events_before_answers(replica)
    stage.create_request("b", 3)
    for feed in (replica.pools, replica.allocations):
        feed.catch_up()
    for _ in range(3):
        stage.skip_time(seconds=2)
        await stage.reconcile_pool(replica)
    allocation = stage.model.get(ALLOCATIONS, "b")
    assert allocation is not None
    return stage.problem or (None if list_shown_ranges(allocation) else "b waits although it fits")


async def refused_by_a_lagging_replica(stage: Stage) -> str | None:
    """The pool was full and has space again; a replica that has not read that refuses b."""
    stage.create_request("z", 3)
    first = stage.start_replica()
    await stage.reconcile_pool(first)
    stage.create_request("b")
    old = stage.start_replica()
    stage.model.remove_by_force(ALLOCATIONS, "z")
    await stage.reconcile_pool(stage.start_replica(), match_writes_of("b"))
    stage.late_requests.clear()
    await stage.reconcile_pool(old)
    return stage.problem


WAITS = "b waits for addresses that no request gets"
