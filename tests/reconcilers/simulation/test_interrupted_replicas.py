"""Replicas that stop between two writes: no address is free, and no pool goes, in between."""

from collections.abc import Callable
from functools import partial

import pytest

from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.api import ADDRESS_FINALIZER
from reconcilers.networkpool.claims import ClaimService, PoolClaims
from tests.reconcilers.simulation.adapter import FIRST
from tests.reconcilers.simulation.claimrules import addresses_listed_first
from tests.reconcilers.simulation.model import ADDRESSES, CLAIMS, POOLS
from tests.reconcilers.simulation.sharedscenes import POOL, REF, SharedStage
from tests.reconcilers.simulation.stage import play_scene
from tests.reconcilers.simulation.switch import check_scene
from tests.reconcilers.simulation.wire import Flight


async def pool_goes_while_a_promise_is_kept(stage: SharedStage) -> str | None:
    """A promise to c is kept between the LISTs of IPAddresses and of claims of a deletion."""
    stage.claim("c")
    late_create = await stage.begin(
        stage.replica(), lambda flight: flight.plural == ADDRESSES and flight.method == "POST"
    )
    stage.model.delete(POOLS, "p")
    other = stage.replica()  # it has read everything
    list_of_claims = await stage.begin(
        other, lambda flight: flight.plural == CLAIMS and flight.method == "GET"
    )
    await stage.go_on(late_create)  # and the write of the claim
    assert (stage.model.get(CLAIMS, "c") or {})["status"]["addressRef"]
    await stage.go_on(list_of_claims)
    address = stage.model.get(ADDRESSES, "c")
    assert address is not None
    if stage.model.get(POOLS, "p") is None:
        return f"the pool is gone, and claim c has {address['spec']['address']}"
    return stage.problem


def test_a_pool_stays_whose_promise_is_kept_during_its_deletion() -> None:
    check_scene(
        addresses_listed_first,
        lambda: play_scene(pool_goes_while_a_promise_is_kept, SharedStage),
        "the pool is gone",
    )


def second_write_of_the_pool() -> Callable[[Flight], bool]:
    """Return whether a request is the second write of the pool, or comes after it."""
    writes: list[Flight] = []

    def is_reached(flight: Flight) -> bool:
        if flight.method == "PATCH" and flight.plural == POOLS:
            writes.append(flight)
        return len(writes) >= 2

    return is_reached


async def lost_journal_and_one_fence(
    stage: SharedStage, served_from: Callable[[NetworkPool], PoolClaims | None] | None
) -> str | None:
    """The journal is lost; a replica fences allocations and stops; another one has no claims.

    Args:
        stage: the platform.
        served_from: what the other replica knows of claims; None for what discovery has answered.
    """
    stage.claim("c")
    first = stage.replica()
    await stage.drop_settled(first)
    stage.edit_pool({"status": {"journalOf": "nonsense"}})
    stage.ask("a")
    other = stage.replica()
    other.discovered.pool_claims = None
    if served_from is not None:
        other.discovered.served_from = served_from
    await stage.work(other, POOL, "p")
    first.read(1.0, all_of_it=True)
    await stage.work(first, POOL, name="p", late=second_write_of_the_pool())
    for _ in range(3):
        other.read(1.0, all_of_it=True)
        await stage.work(other, POOL, "p")
        await stage.clock.advance(5)
    return stage.problem


@pytest.mark.parametrize("is_off", [True, False], ids=["switched off", "not seen yet"])
def test_claims_hold_their_addresses_while_allocations_alone_are_fenced(is_off: bool) -> None:
    served_from = ClaimService().served_from if is_off else None
    scene = partial(lost_journal_and_one_fence, served_from=served_from)
    assert play_scene(scene, SharedStage) is None


async def restored_address_is_recreated_and_its_replica_dies(stage: SharedStage) -> str | None:
    """A restored IPAddress is removed to be made anew; the replica dies before it makes it."""
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}2", "prefix": 24}
    owner = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "name": "c",
        "uid": "of-before",
        "controller": True,
    }
    metadata = {"name": "c", "finalizers": [ADDRESS_FINALIZER], "ownerReferences": [owner]}
    stage.model.create(ADDRESSES, {"metadata": metadata, "spec": spec})
    stage.claim("c")
    stage.model.delete(ADDRESSES, "c")  # by the garbage collector
    first = stage.replica()
    dead: list[Flight] = []

    def from_create_on(flight: Flight) -> bool:
        if flight.plural == ADDRESSES and flight.method == "POST":
            dead.append(flight)
        return bool(dead)

    for worker, name in ((POOL, "p"), (2, "c"), (POOL, "p"), (2, "c")):
        await stage.work(first, worker, name=name, late=from_create_on)
        if dead:
            break
        first.read(1.0, all_of_it=True)
    stage.late.clear()
    assert dead
    assert stage.model.get(ADDRESSES, "c") is None
    stage.edit(CLAIMS, "c", {"metadata": {"labels": {"touched": "true"}}})
    stage.ask_first("a")
    other = stage.replica()
    for _ in range(3):
        other.read(1.0, all_of_it=True)
        await stage.work(other, POOL, "p")
        await stage.work(other, 2, "c")
        await stage.clock.advance(60)
    address = stage.model.get(ADDRESSES, "c")
    got = (address or {}).get("spec", {}).get("address")
    return None if got == f"{FIRST}2" else f"c was restored with {FIRST}2, and has {got}"


def test_a_restored_address_is_never_free() -> None:
    assert play_scene(restored_address_is_recreated_and_its_replica_dies, SharedStage) is None


async def pool_goes_whose_claim_records_its_address(stage: SharedStage) -> str | None:
    """The IPAddress of c was removed by force; c records its address, and the pool is deleted."""
    stage.claim("c")
    await stage.drop_settled(stage.replica())
    stage.model.vanish(ADDRESSES, "c")
    stage.model.delete(POOLS, "p")
    other = stage.replica()
    await stage.work(other, POOL, "p")
    if stage.model.get(POOLS, "p") is None:
        return "the pool is gone, and claim c has an address on record"
    return None


def test_a_pool_stays_while_a_claim_records_an_address() -> None:
    assert play_scene(pool_goes_whose_claim_records_its_address, SharedStage) is None
