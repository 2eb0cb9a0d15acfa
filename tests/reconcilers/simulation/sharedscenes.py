"""Scenes of NetworkPools that serve claims and allocations from one journal."""

from typing import ClassVar

from controller.conditions import rfc3339
from reconcilers.api import names
from reconcilers.integrations.clusterapi.api import CLAIM_FINALIZER, PAUSED
from reconcilers.integrations.core.absentkinds import ABSENCE_SECONDS
from reconcilers.networkpool.claims import ClaimService
from reconcilers.networkpool.statusjournal import seal
from reconcilers.reporting.conditions import FOREIGN_MANAGER
from tests.reconcilers.simulation.adapter import FIRST, Adapter, StatusMemory
from tests.reconcilers.simulation.model import ADDRESSES, ALLOCATIONS, CLAIMS, POOLS, Json
from tests.reconcilers.simulation.sharedpools import SharedPools, SharedReplica
from tests.reconcilers.simulation.stage import Stage, writes_of
from tests.reconcilers.simulation.wire import Flight

REF = {"apiGroup": names.GROUP, "kind": "NetworkPool", "name": "p"}
POOL = 0
"""Which reconciler of a replica hands out of a pool."""


LONG_AGO = "2020-01-01T00:00:00Z"
FORGOTTEN: Json = {"status": dict.fromkeys(("assignments", "revisions", "journalOf"))}
"""The patch by which a pool loses its journal, and nothing else."""


class SharedStage(Stage):
    """A model with NetworkPool p of three addresses, its memory of both kinds, and no replica."""

    kind: ClassVar[type[Adapter]] = SharedPools

    def claim(self, name: str) -> None:
        """Make a claim that may be served."""
        self.adapter.claim(name)

    def claim_to_be(self, name: str) -> None:
        """Make a claim that is not served before `let_claim`; its place in the queue is of now."""
        self.model.create(CLAIMS, {"metadata": {"name": name}, "spec": {"poolRef": REF}})

    def let_claim(self, name: str) -> None:
        """Let a claim be served."""
        self.edit(CLAIMS, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}})

    def ask_first(self, name: str) -> None:
        """Make an allocation that goes before every claim."""
        self.ask(name, since=LONG_AGO)


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
    await stage.work(stage.replica(), POOL, name="p", late=_gives)
    stage.edit_pool(FORGOTTEN)
    stage.ask_first("a")
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, name="p", late=_gives)
    stage.arrive()
    return stage.problem


async def claim_written_late_after_a_paused_pool_lost_its_memory(
    stage: SharedStage,
) -> str | None:
    """The same, and a person has paused the pool: IPAllocations are served all the same."""
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), POOL, name="p", late=_gives)
    stage.edit_pool({"metadata": {"annotations": {PAUSED: ""}}})
    stage.edit_pool(FORGOTTEN)
    stage.ask("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.advance(feed.behind)
        await stage.work(other, POOL, "p")
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
    await stage.work(first, POOL, "p")
    if edit_journal:
        first.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
        await stage.work(first, POOL, "p")  # drops the settled promise
        _remove_revision_of_addresses(stage)
    stage.model.vanish(CLAIMS, "c")
    stage.ask("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.advance(feed.behind)
        await stage.work(other, POOL, "p")
        await stage.work(other, POOL, "p")
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
    if asked["status"].get("startAddress") == address["spec"]["address"]:
        return f"a and the IPAddress of c both have {address['spec']['address']}"
    return None


async def claim_forced_away_after_an_edit_of_the_journal(stage: SharedStage) -> str | None:
    """The same, after a person removed the revision of IPAddresses from the journal."""
    return await claim_forced_away_while_ipaddresses_lag(stage, edit_journal=True)


def _remove_revision_of_addresses(stage: SharedStage) -> None:
    """Edit the journal of the pool by hand: it does not say how far IPAddresses were read."""
    pool = stage.model.get(POOLS, "p")
    assert pool is not None
    revisions = dict(pool["status"]["revisions"])
    assert not pool["status"].get("assignments"), "the promise is dropped"
    del revisions[names.KIND_ADDRESSES]
    journal_of = seal(pool["metadata"]["uid"], revisions, ())
    changed = {"revisions": {names.KIND_ADDRESSES: None}, "journalOf": journal_of}
    stage.edit_pool({"status": changed})


async def journal_lost_while_another_controller_wrote(stage: SharedStage) -> str | None:
    """A pool was put under Butler's controller, which has stopped; its journal is lost as well."""
    condition = {
        "type": FOREIGN_MANAGER,
        "status": "True",
        "reason": "StatusWrittenByOthers",
        "message": "manager writes the pool's status",
        "lastTransitionTime": rfc3339(stage.clock.now()),
    }
    stage.edit_pool(FORGOTTEN)
    stage.edit_pool({"status": {"conditions": [condition]}})
    stage.claim("c")
    stage.ask("a")
    replica = stage.replica()
    for _ in range(6):
        await stage.work(replica, POOL, "p")
        replica.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
    allocation, claim = stage.model.get(ALLOCATIONS, "a"), stage.model.get(CLAIMS, "c")
    is_served = (allocation or {}).get("status", {}).get("phase") == "Allocated"
    if not is_served or not (claim or {}).get("status", {}).get("addressRef"):
        return "allocation a and claim c wait for ever"
    return stage.problem


async def address_made_by_hand_that_an_allocation_has(stage: SharedStage) -> str | None:
    """A person makes an IPAddress of a claim's name; an allocation has its address."""
    stage.ask("a")
    await stage.work(stage.replica(), POOL, "p")
    stage.claim("c")
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}0", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    await stage.work(stage.replica(), POOL, "p")
    return stage.problem


async def allocation_promised_while_a_claim_is_served(stage: SharedStage) -> str | None:
    """An allocation's range is on its way when a claim, which goes first, may be served."""
    stage.claim_to_be("c")
    await stage.clock.advance(1)
    stage.ask("a")
    await stage.work(stage.replica(), POOL, name="p", late=writes_of("a"))
    stage.let_claim("c")
    await stage.work(stage.replica(), POOL, name="p", late=writes_of("a"))
    stage.arrive()
    return stage.problem


async def claim_promised_while_an_allocation_is_served(stage: SharedStage) -> str | None:
    """A claim's address is on its way when an allocation asks, and the IPAddress is not seen."""
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), POOL, name="p", late=_gives)
    stage.ask_first("a")
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, name="p", late=_gives)
    stage.arrive()
    return stage.problem


async def claim_promised_before_its_kinds_are_seen(stage: SharedStage) -> str | None:
    """A claim's address is on its way; another replica does not see yet that claims are served."""
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), POOL, name="p", late=_gives)
    stage.ask("a")
    other.discovered.pool_claims = None
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
    other.discovered.pool_claims = None
    stage.claim("c")
    first = stage.replica()
    for _ in range(2):  # the second pass drops the settled promise
        await stage.work(first, POOL, "p")
        first.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
    stage.ask("a")
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, "p")
    return stage.problem


async def claim_written_while_allocations_are_listed(stage: SharedStage) -> str | None:
    """A claim's address is on its way; it arrives while a pass lists allocations."""
    other = stage.replica()
    stage.claim_to_be("d")
    await stage.clock.advance(1)
    stage.claim("c")
    await stage.work(stage.replica(), POOL, name="p", late=_gives)
    stage.ask("a")
    first = stage.replica()
    for _ in range(2):  # the second pass drops the settled promise, and raises the memory
        await stage.work(first, POOL, name="p", late=_gives)
        first.read(1.0, all_of_it=True)
        await stage.clock.advance(60)
    other.pools.advance(other.pools.behind)
    stage.let_claim("d")
    # It knows the promise to c, and claim d, but not the IPAddress of c nor what a holds.
    other.claims.advance(other.claims.behind)

    def meanwhile(flight: Flight) -> bool:
        if flight.plural == ALLOCATIONS and not flight.name:
            stage.arrive()
            for feed in (other.addresses, other.claims):
                feed.advance(feed.behind)
        return False

    for _ in range(2):  # at first it waits for its cache of allocations
        await stage.work(other, POOL, name="p", late=meanwhile)
        await stage.clock.advance(2)
    return stage.problem


async def address_made_by_hand_that_a_list_showed(stage: SharedStage) -> str | None:
    """A pass lists an IPAddress that another provider made; the cache of claims catches up alone.

    The cache of IPAddresses has read as far as the journal says; that IPAddress was made later.
    """
    stage.claim_to_be("d")
    await stage.clock.advance(1)
    stage.claim("e")
    stage.ask("a")
    other = stage.replica()
    await stage.drop_settled(stage.replica())
    for feed in (other.pools, other.allocations, other.addresses):
        feed.advance(feed.behind)
        feed.cache.bookmark(stage.model.revision)
    status = {"addressRef": {"name": "c"}}
    claim = {"metadata": {"name": "c"}, "spec": {"poolRef": REF}, "status": status}
    stage.model.create(CLAIMS, claim)
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}2", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    stage.let_claim("d")
    for _ in range(2):  # at first it waits for its cache of claims
        await stage.work(other, POOL, "p")
        await stage.clock.advance(2)
    other.claims.advance(other.claims.behind)
    other.claims.cache.bookmark(stage.model.revision)
    other.pools.advance(other.pools.behind)
    for _ in range(2):  # d may have come from a backup with an IPAddress, which is waited for
        await stage.work(other, POOL, "p")
        await stage.clock.advance(60)
    return stage.problem


async def claim_forced_away_after_its_promise_is_dropped(stage: SharedStage) -> str | None:
    """A claim goes without a release, and its promise is dropped; IPAddresses lag."""
    stage.claim("c")
    other = stage.replica()
    await stage.drop_settled(stage.replica())
    stage.model.vanish(CLAIMS, "c")
    stage.ask("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.advance(feed.behind)
        await stage.work(other, POOL, "p")
        await stage.clock.advance(2)
    if not stage.is_served("a"):
        return "allocation a is not served"
    return _ipaddress_that_an_allocation_has(stage) or stage.problem


async def claim_served_before_an_allocation_asks(stage: SharedStage) -> str | None:
    """Claim c is served, and its promise dropped; then an allocation asks."""
    stage.claim("c")
    first = stage.replica()
    await stage.drop_settled(first)
    stage.ask("a")
    await stage.serve(first)
    return stage.problem


async def claim_loses_its_ipaddress_while_claims_lag(stage: SharedStage) -> str | None:
    """A replica has read IPAddresses, and claims not yet; the address of c is on its record alone.

    A person removes the IPAddress of claim c by force, and an allocation asks.
    """
    stage.claim("c")
    other = stage.replica()
    await stage.drop_settled(stage.replica())
    stage.model.vanish(ADDRESSES, "c")
    stage.ask_first("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.addresses):
            feed.advance(feed.behind)
        await stage.work(other, POOL, "p")
        await stage.clock.advance(2)
    return stage.problem


async def fence_of_claims_while_an_allocation_is_promised(stage: SharedStage) -> str | None:
    """The kinds of claims come while the range of allocation a is on its way; then c asks."""
    without = stage.replica()
    without.discovered.pool_claims = None
    _leave_no_entry(stage)
    stage.claim_to_be("c")
    await stage.clock.advance(1)
    stage.ask("a")
    without.read(1.0, all_of_it=True)
    await stage.work(without, POOL, name="p", late=writes_of("a"))
    assert stage.late, "the promise is written"
    stage.let_claim("c")
    replica = stage.replica()
    for _ in range(3):
        replica.read(1.0, all_of_it=True)
        await stage.work(replica, POOL, name="p", late=writes_of("a"))
    stage.arrive()
    return stage.problem or (None if _has_address(stage, "c") else "claim c waits")


def _has_address(stage: SharedStage, claim: str) -> bool:
    """Return whether a claim refers to an IPAddress."""
    return bool((stage.model.get(CLAIMS, claim) or {}).get("status", {}).get("addressRef"))


async def definition_missing_while_an_ipaddress_exists(stage: SharedStage) -> str | None:
    """The definition of claims is missing; an IPAddress was made, and no journal tells of it."""
    other = stage.replica()
    other.discovered.pool_claims = None
    other.discovered.incomplete = "the definition of IPAddressClaims is missing"
    _leave_no_entry(stage)
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}0", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    stage.ask("a")
    other.read(1.0, all_of_it=True)
    await stage.work(other, POOL, "p")
    return _ipaddress_that_an_allocation_has(stage)


def _leave_no_entry(stage: SharedStage) -> None:
    """Let the journal of the pool be one that never knew of claims."""
    pool = stage.model.get(POOLS, "p")
    assert pool is not None
    stage.edit_pool({"status": {"revisions": dict.fromkeys(pool["status"]["revisions"])}})
    stage.edit_pool(StatusMemory().of_history(pool, 0))


async def integration_off_after_a_claim_was_served(stage: SharedStage) -> str | None:
    """Claim c is served; a replica without the integration is asked by an allocation."""
    stage.claim("c")
    await stage.drop_settled(stage.replica())
    stage.ask("a")
    other = stage.replica()
    other.discovered.pool_claims = None
    other.discovered.served_from = ClaimService().served_from
    for _ in range(2):
        await stage.work(other, POOL, "p")
        await stage.clock.advance(60)
    return stage.problem


async def absence_under_steady_promises(stage: SharedStage) -> str | None:
    """The kinds of claims are gone, and other replicas promise to allocations all the time."""
    first, other = stage.replica(), stage.replica()
    other.discovered.pool_claims = None
    for number in range(8):
        name = f"x{number}"
        stage.ask(name)
        await stage.serve(first)
        other.read(1.0, all_of_it=True)
        await stage.work(other, POOL, "p")
        stage.model.vanish(ALLOCATIONS, name)
        await stage.clock.advance(ABSENCE_SECONDS / 4)
    stage.ask("a")
    await stage.serve(other)
    return stage.problem or (None if stage.is_served("a") else "allocation a waits for ever")


async def claim_written_late_after_a_restore_to_a_new_uid(stage: SharedStage) -> str | None:
    """A claim's address is on its way; the pool comes back as it was before, with another uid."""
    pool = stage.model.get(POOLS, "p")
    assert pool is not None
    earlier = StatusMemory().make_copy(pool)
    stage.claim("c")
    other = stage.replica()
    await stage.work(stage.replica(), POOL, name="p", late=_gives)
    stage.replace_pool([earlier])
    stage.ask_first("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations):
            feed.advance(feed.behind)
        await stage.work(other, POOL, name="p", late=_gives)
        await stage.clock.advance(2)
    stage.arrive()
    return stage.problem


async def claim_and_allocation_of_one_name(stage: SharedStage) -> str | None:
    """The address of claim a is on its way; then an allocation with its name asks."""
    stage.claim("a")
    other = stage.replica()
    await stage.work(stage.replica(), POOL, name="p", late=_gives)
    stage.ask_first("a")
    for feed in (other.pools, other.allocations):
        feed.advance(feed.behind)
    await stage.work(other, POOL, name="p", late=_gives)
    stage.arrive()
    await stage.serve(other)
    if stage.problem:
        return stage.problem
    is_served = stage.is_served("a") and _has_address(stage, "a")
    return None if is_served else "claim a or allocation a waits"


async def oldest_request_of_either_kind(stage: SharedStage, *, is_claim_first: bool) -> str | None:
    """A claim and an allocation of the whole pool wait; return which of the two is served."""
    for is_claim in (is_claim_first, not is_claim_first):
        if is_claim:
            stage.claim("c")
        else:
            stage.ask("a", count=3)
        await stage.clock.advance(1)
    await stage.serve(stage.replica())
    is_served_by_name = {
        "the claim": _has_address(stage, "c"),
        "the allocation": stage.is_served("a"),
    }
    return stage.problem or " and ".join(
        name for name, is_it in is_served_by_name.items() if is_it
    )
