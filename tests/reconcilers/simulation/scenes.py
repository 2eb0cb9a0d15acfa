"""Scenes in which one rule of the protocol is all that stands between two and one address."""

from controller.meta import Key
from tests.reconcilers.simulation.model import ALLOCATIONS, NAMESPACE, POOLS
from tests.reconcilers.simulation.networkpools import NetworkPoolReplica
from tests.reconcilers.simulation.networkpools import shown_ranges as held
from tests.reconcilers.simulation.stage import Stage, writes_of


def _grants(body: dict[str, dict[str, object]]) -> bool:
    return "startAddress" in body.get("status", {})


async def _unknown_to_another(stage: Stage, *, wiped: bool) -> str | None:
    """B's range is on its way when another replica, which has not heard of B, serves C."""
    stage.ask("c", 2)
    other = stage.replica()
    stage.ask("b", 2)
    await stage.pool(stage.replica(), lambda flight: flight.plural == ALLOCATIONS)
    stage.late = [flight for flight in stage.late if flight.name == "b"]
    if wiped:
        stage.forget()
    other.pools.advance(other.pools.behind)
    stage.clock.skip(2)
    await stage.pool(other)
    stage.arrive()
    return stage.problem


async def promised_to_one_unheard_of(stage: Stage) -> str | None:
    """The pool's promise to B is all that tells of it."""
    return await _unknown_to_another(stage, wiped=False)


async def forgotten_and_unheard_of(stage: Stage) -> str | None:
    """Not even that is left."""
    return await _unknown_to_another(stage, wiped=True)


async def promise_kept_to_another_version(stage: Stage) -> str | None:
    """A user wipes B's status; one replica serves anew, another keeps the old promise."""
    stage.ask("b")
    slow = stage.replica()
    await stage.pool(slow)
    tidy = stage.replica()
    for _ in range(2):
        await stage.pool(tidy)
        stage.clock.skip(61)
    nothing = dict.fromkeys(("startAddress", "endAddress", "cidr", "phase"))
    stage.edit(ALLOCATIONS, "b", {"status": nothing})
    slow.allocations.advance(slow.allocations.behind)
    stage.ask("a", since="2025-12-31T00:00:00Z")
    await stage.pool(stage.replica(), writes_of("b"))
    stage.late.clear()
    await stage.pool(slow)
    return stage.problem


async def shard_moves_to_one_who_lags(stage: Stage) -> str | None:
    """B has its range, and nothing in the pool tells of it; the shard moves to who does not know.

    The one that gains it has read that C waits, for longer than B; the one that lost it has not.
    """
    stage.ask("b")
    before, after = stage.sharing_replica(1), stage.sharing_replica(1)
    before.gain(0)
    await _settle_b_unknown_to(stage, before, after)
    before.lose(0)
    after.gain(0)
    return await _serve_c(stage, after)


async def _settle_b_unknown_to(
    stage: Stage, before: NetworkPoolReplica, after: NetworkPoolReplica
) -> None:
    """Let a replica serve B and drop the promise; the other reads only that C waits."""
    stage.ask("c", since="2025-12-31T00:00:00Z")
    after.allocations.advance(after.allocations.behind)
    for _ in range(3):  # It serves B, sees that, and drops the promise after a quiet minute.
        await stage.pool(before)
        stage.clock.skip(61)
        before.pools.advance(before.pools.behind)


async def _serve_c(stage: Stage, replica: NetworkPoolReplica) -> str | None:
    """Let a replica that has read the pool as it is now serve C; return what is wrong then."""
    replica.pools.advance(replica.pools.behind)
    for _ in range(2):
        await stage.pool(replica)
        stage.clock.skip(2)
    allocation = stage.model.get(ALLOCATIONS, "c")
    assert allocation is not None
    return stage.problem or (None if held(allocation) else "c waits although it fits")


async def list_began_before_the_pool_was_read(stage: Stage) -> str | None:
    """Pool p forgets what it promised to B, and the LIST under way for pool q is older than B."""
    stage.adapter.make_pool("q")
    stage.ask("c", 2)
    other = stage.replica()
    listed = await stage.begin_list(other, "q")
    await _promise_and_forget_b(stage, other)
    await stage.pool(other)  # It asks for a LIST while that for q is under way.
    listed.land()
    return await _serve_c_before_b_arrives(stage, other)


async def list_is_kept_for_an_earlier_version(stage: Stage) -> str | None:
    """A LIST is kept for pool p as it was before it promised a range to B, and forgot that."""
    stage.adapter.make_pool("q")
    stage.forget()
    stage.ask("c", 2)
    other = stage.replica()
    listed = await stage.begin_list(other, "q")
    await stage.pool(other)
    listed.land()
    await stage.work(other, 0, "q")
    stage.edit(POOLS, "q", {"status": None})
    other.pools.advance(other.pools.behind)
    (await stage.begin_list(other, "q")).land()  # It is kept for p, too.
    await stage.work(other, 0, "q")
    await _promise_and_forget_b(stage, other)
    return await _serve_c_before_b_arrives(stage, other)


async def _promise_and_forget_b(stage: Stage, other: NetworkPoolReplica) -> None:
    """Promise a range to B, let its write be late, and wipe the pool, which `other` reads then."""
    stage.ask("b", 2)
    await stage.pool(
        stage.replica(), lambda flight: writes_of("b")(flight) and _grants(flight.body)
    )
    stage.forget()
    other.pools.advance(other.pools.behind)


async def _serve_c_before_b_arrives(stage: Stage, replica: NetworkPoolReplica) -> str | None:
    """Let a replica serve C; then B's range arrives. Return what is wrong then."""
    on_their_way, stage.late = stage.late, []
    for _ in range(3):
        await stage.pool(replica)
        stage.clock.skip(2)
        if held(stage.model.objects[ALLOCATIONS, "c"]):
            break
    stage.late = on_their_way
    stage.arrive()
    return stage.problem


async def pool_goes_while_one_is_unheard_of(stage: Stage) -> str | None:
    """The pool is deleted; the replica that looks has not heard of who holds a range."""
    other = stage.replica()
    stage.ask("b")
    first = stage.replica()
    await stage.pool(first)
    stage.clock.skip(120)
    for feed in (first.pools, first.allocations):
        feed.advance(feed.behind)
    await stage.pool(first)
    stage.model.delete(POOLS, "p")
    other.pools.advance(other.pools.behind)
    await stage.pool(other)
    return stage.problem


async def answer_after_the_end(stage: Stage) -> str | None:
    """The answer to A's last write comes after word of its end; B wants what it held."""
    stage.ask("a", 3)
    replica = stage.replica()
    await stage.pool(replica)
    stage.model.delete(ALLOCATIONS, "a")
    replica.allocations.advance(replica.allocations.behind)
    replica.begin(stage.group, 1, Key(NAMESPACE, "a"))
    await stage.answered_late(replica)
    stage.ask("b", 3)
    for feed in (replica.pools, replica.allocations):
        feed.advance(feed.behind)
    for _ in range(3):
        stage.clock.skip(2)
        await stage.pool(replica)
    allocation = stage.model.get(ALLOCATIONS, "b")
    assert allocation is not None
    return stage.problem or (None if held(allocation) else "b waits although it fits")


async def refused_by_one_with_an_old_view(stage: Stage) -> str | None:
    """The pool was full and is not any more; who has not heard of that refuses B."""
    stage.ask("z", 3)
    first = stage.replica()
    await stage.pool(first)
    stage.ask("b")
    old = stage.replica()
    stage.model.vanish(ALLOCATIONS, "z")
    await stage.pool(stage.replica(), writes_of("b"))
    stage.late.clear()
    await stage.pool(old)
    return stage.problem


WAITS = "b waits for addresses that no request gets"
