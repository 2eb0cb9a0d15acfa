"""Replicas that stop between two writes: no address is free, and no pool is removed, in between.

The coroutines that take a stage are scenes; they return the violation, None if there is none.
"""

from collections.abc import Callable
from functools import partial

import pytest

from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.api import ADDRESS_FINALIZER
from reconcilers.networkpool.claims import ClaimService, PoolClaims
from tests.reconcilers.simulation.adapter import FIRST
from tests.reconcilers.simulation.claimrules import list_addresses_first
from tests.reconcilers.simulation.model import ADDRESSES, CLAIMS, POOLS
from tests.reconcilers.simulation.sharedscenes import POOL, REF, SharedStage
from tests.reconcilers.simulation.stage import play_scene
from tests.reconcilers.simulation.switch import check_scene
from tests.reconcilers.simulation.wire import Flight


async def pool_is_deleted_while_a_promise_is_written(stage: SharedStage) -> str | None:
    """The promised address of c is written while the deletion of the pool lists its claims."""
    stage.create_claim("c")
    late_create = await stage.reconcile_until(
        stage.start_replica(),
        lambda flight: flight.plural == ADDRESSES and flight.method == "POST",
    )
    stage.model.delete(POOLS, "p")
    other = stage.start_replica()  # it has read everything
    list_of_claims = await stage.reconcile_until(
        other, lambda flight: flight.plural == CLAIMS and flight.method == "GET"
    )
    await stage.run_held_request(late_create)  # and the write of the claim
    assert (stage.model.get(CLAIMS, "c") or {})["status"]["addressRef"]
    await stage.run_held_request(list_of_claims)
    address = stage.model.get(ADDRESSES, "c")
    assert address is not None
    if stage.model.get(POOLS, "p") is None:
        return f"the pool is gone, and claim c has {address['spec']['address']}"
    return stage.problem


def test_a_pool_is_kept_whose_promise_is_written_during_its_deletion() -> None:
    check_scene(
        list_addresses_first,
        lambda: play_scene(pool_is_deleted_while_a_promise_is_written, SharedStage),
        "the pool is gone",
    )


def match_from_second_pool_write() -> Callable[[Flight], bool]:
    """Return a matcher for the second write of the pool and all requests after it."""
    writes: list[Flight] = []

    def is_match(flight: Flight) -> bool:
        if flight.method == "PATCH" and flight.plural == POOLS:
            writes.append(flight)
        return len(writes) >= 2

    return is_match


async def fence_of_allocations_alone_after_a_lost_journal(
    stage: SharedStage, find_pool_claims: Callable[[NetworkPool], PoolClaims | None] | None
) -> str | None:
    """A journal is lost; a replica fences the allocations and stops; another has no claims.

    Args:
        stage: a stage without requests.
        find_pool_claims: returns the claims of a pool, or None, in the other replica; None to use
            its discovery, which has found no claims.
    """
    stage.create_claim("c")
    first = stage.start_replica()
    await stage.drop_settled(first)
    stage.edit_pool({"status": {"journalOf": "nonsense"}})
    stage.create_request("a")
    other = stage.start_replica()
    other.discovered.pool_claims = None
    if find_pool_claims is not None:
        other.discovered.find_pool_claims = find_pool_claims
    await stage.reconcile(other, POOL, "p")
    first.catch_up()
    await stage.reconcile(first, POOL, name="p", late=match_from_second_pool_write())
    for _ in range(3):
        other.catch_up()
        await stage.reconcile(other, POOL, "p")
        await stage.clock.advance(5)
    return stage.problem


@pytest.mark.parametrize("is_off", [True, False], ids=["switched off", "not seen yet"])
def test_claims_hold_their_addresses_while_allocations_alone_are_fenced(is_off: bool) -> None:
    find_pool_claims = ClaimService().find_pool_claims if is_off else None
    scene = partial(
        fence_of_allocations_alone_after_a_lost_journal, find_pool_claims=find_pool_claims
    )
    assert play_scene(scene, SharedStage) is None


async def replica_stops_while_it_recreates_a_restored_address(stage: SharedStage) -> str | None:
    """A replica removes a restored IPAddress, and stops before it creates the IPAddress again."""
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}2", "prefix": 24}
    owner = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "name": "c",
        "uid": "uid-before-the-restore",
        "controller": True,
    }
    metadata = {"name": "c", "finalizers": [ADDRESS_FINALIZER], "ownerReferences": [owner]}
    stage.model.create(ADDRESSES, {"metadata": metadata, "spec": spec})
    stage.create_claim("c")
    stage.model.delete(ADDRESSES, "c")  # by the garbage collector
    first = stage.start_replica()
    unsent: list[Flight] = []

    def match_from_create_on(flight: Flight) -> bool:
        if flight.plural == ADDRESSES and flight.method == "POST":
            unsent.append(flight)
        return bool(unsent)

    for number, name in ((POOL, "p"), (2, "c"), (POOL, "p"), (2, "c")):
        await stage.reconcile(first, number, name=name, late=match_from_create_on)
        if unsent:
            break
        first.catch_up()
    stage.late_requests.clear()
    assert unsent
    assert stage.model.get(ADDRESSES, "c") is None
    stage.edit(CLAIMS, "c", {"metadata": {"labels": {"touched": "true"}}})
    stage.create_oldest_allocation("a")
    other = stage.start_replica()
    for _ in range(3):
        other.catch_up()
        await stage.reconcile(other, POOL, "p")
        await stage.reconcile(other, 2, "c")
        await stage.clock.advance(60)
    address = stage.model.get(ADDRESSES, "c")
    restored_address = (address or {}).get("spec", {}).get("address")
    if restored_address == f"{FIRST}2":
        return None
    return f"c was restored with {FIRST}2, and has {restored_address}"


def test_a_restored_address_is_never_free() -> None:
    assert play_scene(replica_stops_while_it_recreates_a_restored_address, SharedStage) is None


async def pool_is_deleted_while_a_claim_records_its_address(stage: SharedStage) -> str | None:
    """The IPAddress of c was removed by force; c records its address, and the pool is deleted."""
    stage.create_claim("c")
    await stage.drop_settled(stage.start_replica())
    stage.model.remove_by_force(ADDRESSES, "c")
    stage.model.delete(POOLS, "p")
    other = stage.start_replica()
    await stage.reconcile(other, POOL, "p")
    if stage.model.get(POOLS, "p") is None:
        return "the pool is gone, and claim c has an address on record"
    return None


def test_a_pool_is_kept_while_a_claim_records_an_address() -> None:
    assert play_scene(pool_is_deleted_while_a_claim_records_its_address, SharedStage) is None
