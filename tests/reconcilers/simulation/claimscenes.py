"""Scenes in which one rule of the promises to claims is all that stands between two and one."""

import json
from typing import ClassVar

from controller.codec import DecodeFailure
from reconcilers.integrations.clusterapi.api import (
    PAUSED,
    PoolOutline,
    PoolOutlineSpec,
    PoolRef,
)
from reconcilers.promises.journal import ANNOTATION
from tests.reconcilers.simulation.adapter import FIRST, SPANS, Adapter, seal_annotation
from tests.reconcilers.simulation.claims import ClaimReplica, Claims
from tests.reconcilers.simulation.model import ADDRESSES, CLAIM_POOLS, CLAIMS, Json
from tests.reconcilers.simulation.stage import Late, Stage
from tests.reconcilers.simulation.wire import Flight


class ClaimStage(Stage):
    """A model with pool p of three addresses, its memory, and no replica at work yet."""

    kind: ClassVar[type[Adapter]] = Claims

    @property
    def journal(self) -> str:
        """The journal of pool p as it is stored."""
        pool = self.model.get(CLAIM_POOLS, "p")
        assert pool is not None
        return str(pool["metadata"]["annotations"][ANNOTATION])


def _gives_to(name: str) -> Late:
    """Return a matcher for the write that reports a claim's address or refusal."""

    def gives(flight: Flight) -> bool:
        status = flight.plural == CLAIMS and flight.name == name and flight.subresource == "status"
        return status and "are void" not in str(flight.body)

    return gives


async def pool_deleted_while_a_cache_lags(stage: ClaimStage) -> str | None:
    """The pool is deleted, and who works on it has not heard of the IPAddress that was made."""
    stage.ask("a")
    other = stage.replica()
    await stage.pool(stage.replica())
    stage.model.delete(CLAIM_POOLS, "p")
    other.pools.advance(other.pools.behind)
    await stage.pool(other)
    if stage.model.get(CLAIM_POOLS, "p") is None:
        return "pool p is gone, and an IPAddress names it"
    return stage.problem


async def own_write_after_an_unseen_claim(stage: ClaimStage) -> str | None:
    """A replica that has not heard of A, whose address is on its way, writes B itself.

    Its cache then shows an own answer that is newer than A.
    """
    stage.model.create(CLAIMS, stage.adapter.body("b"))
    other = stage.replica()
    stage.ask("a")

    def gives_to_a(flight: Flight) -> bool:
        return flight.plural == CLAIMS and flight.name == "a" and flight.subresource == "status"

    await stage.pool(stage.replica(), gives_to_a)
    await stage.work(other, 1, "b")
    other.pools.advance(other.pools.behind)
    await stage.pool(other)
    stage.arrive()
    return stage.problem


async def claim_released_while_pools_lag(stage: ClaimStage) -> str | None:
    """A's claim is deleted, and the replica that releases it has not read its pool."""
    patch = {"spec": {"addressReuseGracePeriodSeconds": 8}}
    stage.edit_pool(patch)
    stage.ask("a")
    await stage.serve(stage.replica())
    other = stage.replica()
    other.pools.cache.replace([], stage.model.revision)
    stage.model.delete(CLAIMS, "a")
    other.claims.advance(other.claims.behind)
    await stage.work(other, 1, "a")
    return stage.problem if stage.model.get(ADDRESSES, "a") else "the address of a does not rest"


async def claim_released_by_a_pool_without_a_grace_period(stage: ClaimStage) -> str | None:
    """A's claim is deleted; the replica that releases it read its pool before addresses rested."""
    other = stage.replica()
    patch = {"spec": {"addressReuseGracePeriodSeconds": 8}}
    stage.edit_pool(patch)
    stage.ask("a")
    await stage.serve(stage.replica())
    stage.model.delete(CLAIMS, "a")
    for feed in (other.claims, other.addresses):
        feed.advance(feed.behind)
    await stage.work(other, 1, "a")
    return stage.problem if stage.model.get(ADDRESSES, "a") else "the address of a does not rest"


async def ipaddress_unreadable_for_a_while(stage: ClaimStage) -> str | None:
    """The IPAddress of a, whose claim is gone, becomes unreadable; then b asks."""
    stage.ask("a")
    await stage.pool(stage.replica())
    stage.edit(ADDRESSES, "a", {"spec": {"prefix": "many"}})
    stage.model.vanish(CLAIMS, "a")
    return await _ask_until_readable(stage, ADDRESSES, {"spec": {"prefix": 24}})


async def claim_unreadable_for_a_while(stage: ClaimStage) -> str | None:
    """Claim a, whose IPAddress was taken away by force, becomes unreadable; then b asks."""
    stage.ask("a")
    await stage.drop_settled(stage.replica())  # the promise would hold the address, too
    stage.judge.paused = True  # the judge cannot read it, either
    stage.edit(CLAIMS, "a", {"spec": {"clusterName": 7}})
    stage.model.vanish(ADDRESSES, "a")
    return await _ask_until_readable(stage, CLAIMS, {"spec": {"clusterName": None}})


async def _ask_until_readable(stage: ClaimStage, plural: str, repair: Json) -> str | None:
    """Let b ask while an object holds the first address unreadably, until it is corrected."""
    stage.ask("b")
    replica = stage.replica()
    await stage.serve(replica)
    b = stage.model.get(ADDRESSES, "b")
    if b is not None and b["spec"]["address"] == f"{FIRST}{SPANS['p'][0]}":
        return f"a and b both have {b['spec']['address']}"
    stage.edit(plural, "a", repair)
    await stage.serve(replica)
    if stage.model.get(ADDRESSES, "b") is None:
        return "b is not served once a can be read"
    return stage.problem


async def promise_to_an_unreadable_claim(stage: ClaimStage) -> str | None:
    """A's address is on its way when b asks a replica that can read of a only its pool.

    That names no pool of ours, as if a person had replaced it; and the replica has not heard of
    the IPAddress that was made.
    """
    stage.ask("a")
    other = stage.replica()
    await stage.pool(stage.replica(), _gives_to("a"))
    claim = other.claims.cache.get(stage.key("a"))
    outline = PoolOutline(claim.metadata, PoolOutlineSpec(PoolRef("Pool", "q", "example.com")))
    failure = DecodeFailure("odd", outline, claim.metadata)
    for unreadable in ({}, {stage.key("a"): failure}):  # it has just begun: no older version
        other.claims.cache.replace([], stage.model.revision, unreadable)
    stage.ask("b")
    for feed in (other.pools, other.claims):
        feed.advance(feed.behind)
    await stage.pool(other)
    stage.arrive()
    return stage.problem


async def claim_forced_away_while_ipaddresses_lag(stage: ClaimStage) -> str | None:
    """A's claim goes without a release, and b asks a replica that has not read a's IPAddress.

    The garbage collector deletes the IPAddress only later. The promise to a is dropped before.
    """
    other = stage.replica()
    stage.ask("a")
    await stage.drop_settled(stage.replica())
    stage.model.vanish(CLAIMS, "a")
    return await _ask_behind_ipaddresses(stage, other)


async def claim_forced_away_before_its_promise_is_dropped(stage: ClaimStage) -> str | None:
    """The same, while the journal still has the promise to a."""
    other = stage.replica()
    stage.ask("a")
    await stage.pool(stage.replica())
    stage.model.vanish(CLAIMS, "a")
    return await _ask_behind_ipaddresses(stage, other)


async def claim_loses_its_finalizer_while_ipaddresses_lag(stage: ClaimStage) -> str | None:
    """The same, while another's finalizer keeps the claim, which has lost ours."""
    other = stage.replica()
    stage.ask("a")
    await stage.pool(stage.replica())
    patch = {"metadata": {"finalizers": ["example.com/other"]}}
    stage.judge.paused = True  # a claim that a person edits so refers to nothing
    stage.edit(CLAIMS, "a", patch)
    stage.model.delete(CLAIMS, "a")
    stage.judge.paused = False
    return await _ask_behind_ipaddresses(stage, other)


async def memory_lost_after_a_claim_was_forced_away(stage: ClaimStage) -> str | None:
    """The same, and the pool forgets its journal."""
    other = stage.replica()
    stage.ask("a")
    await stage.drop_settled(stage.replica())
    stage.model.vanish(CLAIMS, "a")
    stage.forget()
    return await _ask_behind_ipaddresses(stage, other)


async def revision_of_ipaddresses_removed_by_hand(stage: ClaimStage) -> str | None:
    """The same, and a person removes the revision of IPAddresses from the journal."""
    other = stage.replica()
    stage.ask("a")
    await stage.drop_settled(stage.replica())
    stage.model.vanish(CLAIMS, "a")
    journal = json.loads(stage.journal)
    assert not journal.get("promises"), "the promise is dropped"
    del journal["effects"]
    stage.edit_pool({"metadata": {"annotations": {ANNOTATION: seal_annotation(journal)}}})
    return await _ask_behind_ipaddresses(stage, other)


async def memory_lost_during_a_pause(stage: ClaimStage) -> str | None:
    """The address of b is on its way when its paused pool forgets; a asks, and the pause ends.

    The fence may wait for the end of the pause, as a paused pool hands out nothing.
    """
    stage.ask("b")
    other = stage.replica()
    under_way = await stage.begin(stage.replica(), stage.gives_to("b"))
    stage.forget()
    stage.edit_pool({"metadata": {"annotations": {PAUSED: ""}}})
    stage.ask("a")

    async def work() -> None:
        for _ in range(3):  # more than once, as the replica may wait for its cache
            for feed in (other.pools, other.claims):
                feed.advance(feed.behind)
            await stage.pool(other, stage.gives_to("b"))
            stage.clock.skip(2)

    await work()
    if stage.is_served("a"):
        return "a is served by a paused pool"
    stage.edit_pool({"metadata": {"annotations": {PAUSED: None}}})
    await work()
    await stage.go_on(under_way)
    return stage.problem if stage.is_served("a") else "a waits though the pause is over"


async def status_of_a_served_claim_wiped_while_ipaddresses_lag(stage: ClaimStage) -> str | None:
    """C has its address and loses its status; b, which goes first, asks another replica.

    The journal still has the promise to c, and the replica has not read c's IPAddress.
    """
    other = stage.replica()
    stage.ask("c")
    await stage.pool(stage.replica())
    stage.judge.paused = True  # a claim that a person edits so refers to nothing
    stage.edit(CLAIMS, "c", {"status": None})
    return await _ask_behind_ipaddresses(stage, other, served_claim="c")


async def _ask_behind_ipaddresses(
    stage: ClaimStage, replica: ClaimReplica, served_claim: str = "a"
) -> str | None:
    """Let b ask a replica that reads everything but IPAddresses; that of `served` still exists."""
    stage.ask("b")
    for _ in range(4):  # more than once, as the replica may wait for its cache
        for feed in (replica.pools, replica.claims):
            feed.advance(feed.behind)
        await stage.pool(replica)
        stage.clock.skip(2)
    earlier, b = stage.model.get(ADDRESSES, served_claim), stage.model.get(ADDRESSES, "b")
    assert earlier is not None
    if b is None:
        return "b is not served"
    if earlier["spec"]["address"] == b["spec"]["address"]:
        return f"the IPAddresses of {served_claim} and b both have {b['spec']['address']}"
    return stage.problem
