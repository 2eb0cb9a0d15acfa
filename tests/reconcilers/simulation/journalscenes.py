"""Scenes that are the same for pools of every kind: for the rules of promises and journals."""

from tests.reconcilers.simulation.refusals import RefusedRequests
from tests.reconcilers.simulation.stage import Stage
from tests.reconcilers.simulation.wire import Flight

WAITS = "b waits for addresses that no request gets"


async def _give_memory(stage: Stage) -> None:
    """Serve c: a pool has a memory only once a request has asked."""
    stage.ask("c")
    await stage.drop_settled(stage.replica())


async def late_write_after_loss_of_memory(stage: Stage) -> str | None:
    """B's addresses are on their way when the pool forgets; then a asks, who goes first."""
    await _give_memory(stage)
    stage.ask("b")
    under_way = await stage.begin(stage.replica(), stage.gives_to("b"))
    stage.forget()
    return await _serve_a_before_b_arrives(stage, under_way)


async def late_write_after_a_truncation(stage: Stage) -> str | None:
    """The same, where another writer drops the promises and leaves the rest of the journal."""
    await _give_memory(stage)
    stage.ask("b")
    under_way = await stage.begin(stage.replica(), stage.gives_to("b"))
    stage.truncate()
    return await _serve_a_before_b_arrives(stage, under_way)


async def late_write_after_a_restore(stage: Stage) -> str | None:
    """The same, where the pool comes back with the memory of another history."""
    await _give_memory(stage)
    stage.ask("b")
    under_way = await stage.begin(stage.replica(), stage.gives_to("b"))
    stage.restore(1_000_000)
    return await _serve_a_before_b_arrives(stage, under_way)


async def late_write_after_a_copy(stage: Stage) -> str | None:
    """The same, where the pool is created again with the journal that it had before."""
    await _give_memory(stage)
    pool = stage.model.objects[stage.adapter.pools, "p"]
    journal = [memory.make_copy(pool) for memory in stage.adapter.memories]
    stage.ask("b")
    under_way = await stage.begin(stage.replica(), stage.gives_to("b"))
    stage.replace_pool(journal)
    return await _serve_a_before_b_arrives(stage, under_way)


async def _serve_a_before_b_arrives(stage: Stage, under_way: Flight) -> str | None:
    """Let a ask a replica that reads no results; then b's addresses arrive."""
    stage.ask("a")
    other = stage.replica()
    for _ in range(3):  # more than once, as the replica may wait for its cache
        for feed in (other.pools, other.askers):
            feed.advance(feed.behind)
        await stage.pool(other, stage.gives_to("b"))
        stage.clock.skip(2)
    await stage.go_on(under_way)
    return stage.problem


async def promise_kept_and_dropped_unseen(stage: Stage) -> str | None:
    """B has its addresses, and its promise is dropped; who serves a has read neither."""
    await _give_memory(stage)
    stage.ask("b")
    current = stage.replica()
    stage.ask("a")
    other = stage.replica()
    for _ in range(3):  # the replica sees what it wrote, and drops the promise a minute later
        await stage.pool(current)
        stage.clock.skip(61)
        current.pools.advance(current.pools.behind)
    for _ in range(2):  # at first it waits for its cache
        other.pools.advance(other.pools.behind)
        await stage.pool(other)
        stage.clock.skip(2)
    return stage.problem


async def addresses_whose_writes_are_refused(stage: Stage) -> str | None:
    """The server refuses the addresses of requests that ask first; then b asks for one of them."""
    refused = RefusedRequests(stage.model)
    for name in ("a", "c", "d", "e"):
        refused.refuse(name)
        stage.ask(name)
    replica = stage.replica()
    await stage.serve(replica)
    stage.ask("b")
    await stage.serve(replica)
    return stage.problem or (None if stage.is_served("b") else WAITS)
