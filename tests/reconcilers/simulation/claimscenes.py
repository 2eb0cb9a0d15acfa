"""Scenes in which one rule of the promises to claims keeps two claims from having one address.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

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
from tests.reconcilers.simulation.stage import Matcher, Stage
from tests.reconcilers.simulation.wire import Flight

GRACE_PERIOD: Json = {"spec": {"addressReuseGracePeriodSeconds": 8}}
"""The patch that gives a pool a grace period for released addresses."""


class ClaimStage(Stage):
    """A model with in-cluster pool p of three addresses and its journal; no replica works yet."""

    kind: ClassVar[type[Adapter]] = Claims

    @property
    def journal(self) -> str:
        """The text of the stored journal of pool p."""
        pool = self.model.get(CLAIM_POOLS, "p")
        assert pool is not None
        return str(pool["metadata"]["annotations"][ANNOTATION])


def _match_reports_to(name: str) -> Matcher:
    """Return a matcher for the writes that report an address or a refusal to a claim."""

    def is_match(flight: Flight) -> bool:
        status = flight.plural == CLAIMS and flight.name == name and flight.subresource == "status"
        return status and "are void" not in str(flight.body)

    return is_match


async def pool_deleted_while_a_cache_lags(stage: ClaimStage) -> str | None:
    """The pool is deleted; the replica that reconciles it has not read the IPAddress of a."""
    stage.create_request("a")
    other = stage.start_replica()
    await stage.reconcile_pool(stage.start_replica())
    stage.model.delete(CLAIM_POOLS, "p")
    other.pools.catch_up()
    await stage.reconcile_pool(other)
    if stage.model.get(CLAIM_POOLS, "p") is None:
        return "pool p is gone, and an IPAddress names it"
    return stage.problem


async def own_write_after_an_unseen_claim(stage: ClaimStage) -> str | None:
    """A replica writes to claim b, and has not read claim a, whose address is on its way.

    The answer to that write is newer than claim a.
    """
    stage.model.create(CLAIMS, stage.adapter.make_claim("b"))
    other = stage.start_replica()
    stage.create_request("a")

    def gives_to_a(flight: Flight) -> bool:
        return flight.plural == CLAIMS and flight.name == "a" and flight.subresource == "status"

    await stage.reconcile_pool(stage.start_replica(), gives_to_a)
    await stage.reconcile(other, 1, "b")
    other.pools.catch_up()
    await stage.reconcile_pool(other)
    stage.run_late_requests()
    return stage.problem


async def claim_released_while_pools_lag(stage: ClaimStage) -> str | None:
    """Claim a is deleted, and the replica that releases it has not read its pool."""
    stage.edit_pool(GRACE_PERIOD)
    stage.create_request("a")
    await stage.serve_requests(stage.start_replica())
    other = stage.start_replica()
    other.pools.cache.replace([], stage.model.revision)
    stage.model.delete(CLAIMS, "a")
    other.claims.catch_up()
    await stage.reconcile(other, 1, "a")
    return stage.problem if stage.model.get(ADDRESSES, "a") else "the address of a is free at once"


async def claim_released_by_a_pool_without_a_grace_period(stage: ClaimStage) -> str | None:
    """Claim a is deleted; the replica that releases it read its pool without the grace period."""
    other = stage.start_replica()
    stage.edit_pool(GRACE_PERIOD)
    stage.create_request("a")
    await stage.serve_requests(stage.start_replica())
    stage.model.delete(CLAIMS, "a")
    for feed in (other.claims, other.addresses):
        feed.catch_up()
    await stage.reconcile(other, 1, "a")
    return stage.problem if stage.model.get(ADDRESSES, "a") else "the address of a is free at once"


async def ipaddress_unreadable_for_a_while(stage: ClaimStage) -> str | None:
    """The IPAddress of a, whose claim is gone, becomes unreadable; then claim b is created."""
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    stage.edit(ADDRESSES, "a", {"spec": {"prefix": "many"}})
    stage.model.remove_by_force(CLAIMS, "a")
    return await _serve_b_beside_unreadable(stage, ADDRESSES, {"spec": {"prefix": 24}})


async def claim_unreadable_for_a_while(stage: ClaimStage) -> str | None:
    """Claim a, whose IPAddress was removed by force, becomes unreadable; then b is created."""
    stage.create_request("a")
    await stage.drop_settled(stage.start_replica())  # the promise would hold the address, too
    stage.judge.paused = True  # the judge cannot read it, either
    stage.edit(CLAIMS, "a", {"spec": {"clusterName": 7}})
    stage.model.remove_by_force(ADDRESSES, "a")
    return await _serve_b_beside_unreadable(stage, CLAIMS, {"spec": {"clusterName": None}})


async def _serve_b_beside_unreadable(stage: ClaimStage, plural: str, repair: Json) -> str | None:
    """Serve b while unreadable object a holds the first address, and again once a is repaired.

    Args:
        stage: a stage on which a has the first address.
        plural: of the kind of a.
        repair: the patch that makes a readable.
    """
    stage.create_request("b")
    replica = stage.start_replica()
    await stage.serve_requests(replica)
    b = stage.model.get(ADDRESSES, "b")
    if b is not None and b["spec"]["address"] == f"{FIRST}{SPANS['p'][0]}":
        return f"a and b both have {b['spec']['address']}"
    stage.edit(plural, "a", repair)
    await stage.serve_requests(replica)
    if stage.model.get(ADDRESSES, "b") is None:
        return "b is not served once a can be read"
    return stage.problem


async def promise_to_an_unreadable_claim(stage: ClaimStage) -> str | None:
    """The address of a is on its way; the replica that serves b can read only the pool of a.

    The pool that it reads is none of ours, as if a person had replaced the reference. The replica
    has not read the IPAddress of a either.
    """
    stage.create_request("a")
    other = stage.start_replica()
    await stage.reconcile_pool(stage.start_replica(), _match_reports_to("a"))
    claim = other.claims.cache.get(stage.key("a"))
    outline = PoolOutline(claim.metadata, PoolOutlineSpec(PoolRef("Pool", "q", "example.com")))
    failure = DecodeFailure("odd", outline, claim.metadata)
    for unreadable in (
        {},
        {stage.key("a"): failure},
    ):  # the replica has just listed claims, so it has no older version of a
        other.claims.cache.replace([], stage.model.revision, unreadable)
    stage.create_request("b")
    for feed in (other.pools, other.claims):
        feed.catch_up()
    await stage.reconcile_pool(other)
    stage.run_late_requests()
    return stage.problem


async def claim_forced_away_while_ipaddresses_lag(stage: ClaimStage) -> str | None:
    """Claim a is removed by force; the replica that serves b has not read the IPAddress of a.

    The garbage collector deletes the IPAddress only later. The promise to a is dropped before.
    """
    other = stage.start_replica()
    stage.create_request("a")
    await stage.drop_settled(stage.start_replica())
    stage.model.remove_by_force(CLAIMS, "a")
    return await _serve_b_without_reading_ipaddresses(stage, other)


async def claim_forced_away_before_its_promise_is_dropped(stage: ClaimStage) -> str | None:
    """Claim a is removed by force, and the journal still has the promise to a.

    The replica that serves b has not read the IPAddress of a.
    """
    other = stage.start_replica()
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    stage.model.remove_by_force(CLAIMS, "a")
    return await _serve_b_without_reading_ipaddresses(stage, other)


async def claim_loses_its_finalizer_while_ipaddresses_lag(stage: ClaimStage) -> str | None:
    """A person removes our finalizer from claim a, and deletes it; another finalizer keeps it.

    The replica that serves b has not read the IPAddress of a.
    """
    other = stage.start_replica()
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    patch = {"metadata": {"finalizers": ["example.com/other"]}}
    stage.judge.paused = True  # a claim that a person edits so refers to nothing
    stage.edit(CLAIMS, "a", patch)
    stage.model.delete(CLAIMS, "a")
    stage.judge.paused = False
    return await _serve_b_without_reading_ipaddresses(stage, other)


async def memory_lost_after_a_claim_was_forced_away(stage: ClaimStage) -> str | None:
    """Claim a is removed by force, and the pool loses its journal.

    The replica that serves b has not read the IPAddress of a.
    """
    other = stage.start_replica()
    stage.create_request("a")
    await stage.drop_settled(stage.start_replica())
    stage.model.remove_by_force(CLAIMS, "a")
    stage.delete_journal()
    return await _serve_b_without_reading_ipaddresses(stage, other)


async def revision_of_ipaddresses_removed_by_hand(stage: ClaimStage) -> str | None:
    """Claim a is removed by force; a person removes the revision of IPAddresses from the journal.

    The replica that serves b has not read the IPAddress of a.
    """
    other = stage.start_replica()
    stage.create_request("a")
    await stage.drop_settled(stage.start_replica())
    stage.model.remove_by_force(CLAIMS, "a")
    journal = json.loads(stage.journal)
    assert not journal.get("promises"), "the promise is dropped"
    del journal["effects"]
    stage.edit_pool({"metadata": {"annotations": {ANNOTATION: seal_annotation(journal)}}})
    return await _serve_b_without_reading_ipaddresses(stage, other)


async def memory_lost_during_a_pause(stage: ClaimStage) -> str | None:
    """A paused pool loses its journal while the address of b is on its way; a is created.

    The fence may wait for the end of the pause, as a paused pool hands out nothing.
    """
    stage.create_request("b")
    other = stage.start_replica()
    late_write = await stage.reconcile_until(stage.start_replica(), stage.match_grants_to("b"))
    stage.delete_journal()
    stage.edit_pool({"metadata": {"annotations": {PAUSED: ""}}})
    stage.create_request("a")

    async def serve_from_other() -> None:
        for _ in range(3):  # more than once, as the replica may wait for its cache
            for feed in (other.pools, other.claims):
                feed.catch_up()
            await stage.reconcile_pool(other, stage.match_grants_to("b"))
            stage.skip_time(seconds=2)

    await serve_from_other()
    if stage.is_served("a"):
        return "a is served by a paused pool"
    stage.edit_pool({"metadata": {"annotations": {PAUSED: None}}})
    await serve_from_other()
    await stage.run_held_request(late_write)
    return stage.problem if stage.is_served("a") else "a waits though the pause is over"


async def status_of_a_served_claim_wiped_while_ipaddresses_lag(stage: ClaimStage) -> str | None:
    """Claim c has its address and loses its status; another replica serves b, which goes first.

    The journal still has the promise to c, and the replica has not read the IPAddress of c.
    """
    other = stage.start_replica()
    stage.create_request("c")
    await stage.reconcile_pool(stage.start_replica())
    stage.judge.paused = True  # a claim that a person edits so refers to nothing
    stage.edit(CLAIMS, "c", {"status": None})
    return await _serve_b_without_reading_ipaddresses(stage, other, served_claim="c")


async def _serve_b_without_reading_ipaddresses(
    stage: ClaimStage, replica: ClaimReplica, served_claim: str = "a"
) -> str | None:
    """Serve b by a replica that reads everything but IPAddresses.

    Args:
        stage: a stage on which the IPAddress of `served_claim` exists.
        replica: serves b.
        served_claim: the claim whose address b must not get.
    """
    stage.create_request("b")
    for _ in range(4):  # more than once, as the replica may wait for its cache
        for feed in (replica.pools, replica.claims):
            feed.catch_up()
        await stage.reconcile_pool(replica)
        stage.skip_time(seconds=2)
    earlier, b = stage.model.get(ADDRESSES, served_claim), stage.model.get(ADDRESSES, "b")
    assert earlier is not None
    if b is None:
        return "b is not served"
    if earlier["spec"]["address"] == b["spec"]["address"]:
        return f"the IPAddresses of {served_claim} and b both have {b['spec']['address']}"
    return stage.problem
