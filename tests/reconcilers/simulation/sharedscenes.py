"""Scenes of NetworkPools with two journals: one rule keeps claims and allocations apart."""

import json
from typing import ClassVar

from controller.conditions import rfc3339
from reconcilers.api import names
from reconcilers.integrations.clusterapi.api import CLAIM_FINALIZER, PAUSED
from reconcilers.integrations.clusterapi.networkpools import ABSENCE_SECONDS
from reconcilers.promises.journal import ANNOTATION
from reconcilers.reporting.conditions import FOREIGN_MANAGER
from tests.reconcilers.simulation.adapter import FIRST, Adapter, sealed
from tests.reconcilers.simulation.model import ADDRESSES, ALLOCATIONS, CLAIMS, POOLS
from tests.reconcilers.simulation.sharedpools import SharedPools, SharedReplica
from tests.reconcilers.simulation.stage import Stage, writes_of
from tests.reconcilers.simulation.wire import Flight

REF = {"apiGroup": names.GROUP, "kind": "NetworkPool", "name": "p"}
POOL, CLAIM_POOL = 0, 2
"""Which reconciler of a replica hands out of a pool: to allocations, and to claims."""


class SharedStage(Stage):
    """A model with NetworkPool p of three addresses, both its memories, and no replica yet."""

    kind: ClassVar[type[Adapter]] = SharedPools

    def claim(self, name: str) -> None:
        """Make a claim that may be served."""
        self.adapter.claim(name)


def _gives(flight: Flight) -> bool:
    """Return whether a request says to a claim what it got."""
    status = flight.plural == CLAIMS and flight.subresource == "status"
    return status and "are void" not in str(flight.body)


async def claim_written_late_after_loss_of_memory(stage: SharedStage) -> str | None:
    """A claim's address is on its way when the pool forgets; an allocation asks for some, too.

    The replica that serves the allocation has not heard of the IPAddress that was made.
    """
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), CLAIM_POOL, "p", _gives)
    patch = {"metadata": {"annotations": {ANNOTATION: None}}}
    stage.edit_pool(patch)
    stage.ask("a")
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, "p")
    stage.arrive()
    return stage.problem


async def claim_written_late_after_a_paused_pool_lost_its_memory(
    stage: SharedStage,
) -> str | None:
    """The same, and a person has paused the pool: IPAllocations are served all the same."""
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), CLAIM_POOL, "p", _gives)
    stage.edit_pool({"metadata": {"annotations": {ANNOTATION: None, PAUSED: ""}}})
    stage.ask("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.advance(feed.behind)
        for number in (POOL, CLAIM_POOL):
            await stage.work(other, number, "p")
    stage.arrive()
    for _ in range(3):
        other.read(1.0, all_of_it=True)
        await stage.work(other, POOL, "p")
    if stage.problem or not stage.is_served("a"):
        return stage.problem or "allocation a waits for ever"
    return _ipaddress_that_an_allocation_has(stage)


async def claim_forced_away_while_ipaddresses_lag(
    stage: SharedStage, *, edit_journal: bool = False
) -> str | None:
    """A claim goes without a release; an allocation asks while its IPAddress still exists.

    The replica that serves the allocation has not read the IPAddress.
    """
    stage.claim("c")
    other = stage.replica()
    first = stage.replica()
    await stage.work(first, CLAIM_POOL, "p")
    if edit_journal:
        first.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
        await stage.work(first, CLAIM_POOL, "p")  # drops the settled promise
        _remove_revision_of_addresses(stage)
    stage.model.vanish(CLAIMS, "c")
    stage.ask("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.advance(feed.behind)
        await stage.work(other, POOL, "p")
        await stage.work(other, CLAIM_POOL, "p")
        if edit_journal:
            await stage.clock.advance(2)
    if edit_journal and not stage.is_served("a"):  # the pass over IPAllocations asks caches alone
        other.addresses.advance(other.addresses.behind)
        await stage.work(other, POOL, "p")
    if not stage.is_served("a"):
        return "allocation a is not served"
    return _ipaddress_that_an_allocation_has(stage) or stage.problem


def _ipaddress_that_an_allocation_has(stage: SharedStage) -> str | None:
    """Return the address that allocation a and the IPAddress of c have, in a sentence."""
    address, asked = stage.model.get(ADDRESSES, "c"), stage.model.get(ALLOCATIONS, "a")
    assert address is not None
    assert asked is not None
    if asked["status"]["startAddress"] == address["spec"]["address"]:
        return f"a and the IPAddress of c both have {address['spec']['address']}"
    return None


async def claim_forced_away_after_an_edit_of_the_journal(stage: SharedStage) -> str | None:
    """The same, after a person removed the revision of IPAddresses from the journal."""
    return await claim_forced_away_while_ipaddresses_lag(stage, edit_journal=True)


def _remove_revision_of_addresses(stage: SharedStage) -> None:
    """Edit the journal of the pool by hand: it does not say how far IPAddresses were read."""
    pool = stage.model.get(POOLS, "p")
    assert pool is not None
    journal = json.loads(pool["metadata"]["annotations"][ANNOTATION])
    assert not journal.get("promises"), "the promise is dropped"
    del journal["effects"]
    stage.edit_pool({"metadata": {"annotations": {ANNOTATION: sealed(journal)}}})


async def journal_lost_while_another_controller_wrote(stage: SharedStage) -> str | None:
    """A pool was put under Butler's controller, which has stopped; its journal is lost as well."""
    condition = {
        "type": FOREIGN_MANAGER,
        "status": "True",
        "reason": "StatusWrittenByOthers",
        "message": "manager writes the pool's status",
        "lastTransitionTime": rfc3339(stage.clock.now()),
    }
    patch = {"metadata": {"annotations": {ANNOTATION: None}}}
    stage.edit_pool(patch)
    stage.edit_pool({"status": {"conditions": [condition]}})
    stage.claim("c")
    stage.ask("a")
    replica = stage.replica()
    for _ in range(6):
        for number in (POOL, CLAIM_POOL):
            await stage.work(replica, number, "p")
            replica.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
    allocation, claim = stage.model.get(ALLOCATIONS, "a"), stage.model.get(CLAIMS, "c")
    served = (allocation or {}).get("status", {}).get("phase") == "Allocated"
    if not served or not (claim or {}).get("status", {}).get("addressRef"):
        return "allocation a and claim c wait for ever"
    return stage.problem


async def address_made_by_hand_that_an_allocation_has(stage: SharedStage) -> str | None:
    """A person makes an IPAddress of a claim's name; an allocation has its address."""
    stage.ask("a")
    await stage.work(stage.replica(), POOL, "p")
    stage.claim("c")
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}0", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    await stage.work(stage.replica(), CLAIM_POOL, "p")
    return stage.problem


async def allocation_promised_while_a_claim_is_served(stage: SharedStage) -> str | None:
    """An allocation's range is on its way when a claim asks for an address."""
    stage.ask("a")
    await stage.work(stage.replica(), POOL, "p", writes_of("a"))
    stage.claim("c")
    await stage.work(stage.replica(), CLAIM_POOL, "p")
    stage.arrive()
    return stage.problem


async def claim_promised_while_an_allocation_is_served(stage: SharedStage) -> str | None:
    """A claim's address is on its way when an allocation asks, and the IPAddress is not seen."""
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), CLAIM_POOL, "p", _gives)
    stage.ask("a")
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, "p")
    stage.arrive()
    return stage.problem


async def claim_promised_before_its_kinds_are_seen(stage: SharedStage) -> str | None:
    """A claim's address is on its way; another replica does not see yet that claims are served."""
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), CLAIM_POOL, "p", _gives)
    stage.ask("a")
    other.holders.pools = None
    await _work_until_absence_is_believed(stage, other)
    stage.arrive()
    return stage.problem


async def _work_until_absence_is_believed(stage: SharedStage, other: SharedReplica) -> None:
    """Let a replica that does not see the kinds of claims serve the allocations."""
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, "p")
    await stage.clock.advance(ABSENCE_SECONDS)
    await stage.work(other, POOL, "p")


async def claim_served_before_its_kinds_are_seen(stage: SharedStage) -> str | None:
    """Claim c is served, and its promise dropped, before another replica sees its kind."""
    other = stage.replica()
    other.holders.pools = None
    stage.claim("c")
    first = stage.replica()
    for _ in range(2):  # the second pass drops the settled promise
        await stage.work(first, CLAIM_POOL, "p")
        first.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
    stage.ask("a")
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, "p")
    return stage.problem


async def claim_written_while_allocations_are_listed(stage: SharedStage) -> str | None:
    """A claim's address is on its way; it arrives while a pass over claims lists allocations."""
    other = stage.replica()
    # The older claim d, which is first in the queue, may be served only later.
    stage.model.create(CLAIMS, {"metadata": {"name": "d"}, "spec": {"poolRef": REF}})
    await stage.clock.advance(1)
    stage.claim("c")
    await stage.work(stage.replica(), CLAIM_POOL, "p", _gives)
    stage.ask("a")
    first = stage.replica()
    for _ in range(2):  # the second pass drops the settled promise, and raises the memory
        await stage.work(first, POOL, "p")
        first.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
    other.pools.advance(other.pools.behind)
    patch = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
    stage.edit(CLAIMS, "d", patch)
    # It knows the promise to c, and claim d, but not the IPAddress of c nor what a holds.
    other.claims.advance(other.claims.behind)

    def meanwhile(flight: Flight) -> bool:
        if flight.plural == ALLOCATIONS and not flight.name:
            stage.arrive()
            for feed in (other.addresses, other.claims):
                feed.advance(feed.behind)
        return False

    for _ in range(2):  # at first it waits for its cache of allocations
        await stage.work(other, CLAIM_POOL, "p", meanwhile)
        await stage.clock.advance(2)
    return stage.problem


async def address_made_by_hand_that_a_list_showed(
    stage: SharedStage, *, between_passes: bool = False
) -> str | None:
    """A pass over claims lists an IPAddress that another provider made; its cache lags behind.

    The caches of claims and allocations catch up while the pass lists allocations, or after it.
    """
    other = stage.replica()
    unserved = {"spec": {"poolRef": REF}}
    status = {"addressRef": {"name": "c"}}
    stage.model.create(CLAIMS, {"metadata": {"name": "c"}, **unserved, "status": status})
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}0", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    stage.model.create(CLAIMS, {"metadata": {"name": "d"}, **unserved})
    await stage.clock.advance(1)
    stage.claim("e")
    stage.ask("a")
    first = stage.replica()
    for _ in range(2):  # the second passes drop the settled promises, and raise both memories
        for number in (POOL, CLAIM_POOL):
            await stage.work(first, number, "p")
            first.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
    patch = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
    stage.edit(CLAIMS, "d", patch)
    other.pools.advance(other.pools.behind)

    def catch_up() -> None:
        for cached in (other.claims, other.allocations):
            cached.advance(cached.behind)
            cached.cache.bookmark(stage.model.revision)

    def meanwhile(flight: Flight) -> bool:
        if flight.plural == ALLOCATIONS and not flight.name and not between_passes:
            catch_up()
        return False

    for _ in range(3):  # at first it waits for its caches of claims and allocations
        await stage.work(other, CLAIM_POOL, "p", meanwhile)
        await stage.clock.advance(2)
    catch_up()
    for _ in range(2):  # d may have come from a backup with an IPAddress, which is waited for
        await stage.work(other, CLAIM_POOL, "p")
        await stage.clock.advance(60)
    return stage.problem


async def address_made_by_hand_that_an_earlier_list_showed(stage: SharedStage) -> str | None:
    """The same, where the caches catch up between two passes."""
    return await address_made_by_hand_that_a_list_showed(stage, between_passes=True)
