"""Scenes of NetworkPools that serve claims and allocations from one journal.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
Claims are called c, d and e, allocations a and b.
"""

from typing import ClassVar

from controller.conditions import format_rfc3339
from reconcilers.api import names
from reconcilers.integrations.clusterapi.api import CLAIM_FINALIZER, PAUSED
from reconcilers.integrations.core.absentkinds import ABSENCE_SECONDS
from reconcilers.networkpool.claims import ClaimService
from reconcilers.networkpool.statusjournal import compute_seal
from reconcilers.reporting.conditions import FOREIGN_MANAGER
from tests.reconcilers.simulation.adapter import FIRST, Adapter, StatusMemory
from tests.reconcilers.simulation.model import ADDRESSES, ALLOCATIONS, CLAIMS, POOLS, Json
from tests.reconcilers.simulation.sharedpools import SharedPools, SharedReplica
from tests.reconcilers.simulation.stage import Stage, match_writes_of
from tests.reconcilers.simulation.wire import Flight

REF = {"apiGroup": names.GROUP, "kind": "NetworkPool", "name": "p"}
POOL = 0
"""The number of the reconciler of pools in a replica."""


LONG_AGO = "2020-01-01T00:00:00Z"
"""The request time of an allocation that goes before all others."""
FORGOTTEN: Json = {"status": dict.fromkeys(("assignments", "revisions", "journalOf"))}
"""The patch by which a pool loses its journal, and nothing else."""


class SharedStage(Stage):
    """A model with NetworkPool p of three addresses and its journal; no replica works yet."""

    kind: ClassVar[type[Adapter]] = SharedPools

    def create_claim(self, name: str) -> None:
        """Create a claim that may be served."""
        self.adapter.create_claim(name)

    def create_claim_without_finalizer(self, name: str) -> None:
        """Create a claim that has its place in the queue, and is not served yet."""
        self.model.create(CLAIMS, {"metadata": {"name": name}, "spec": {"poolRef": REF}})

    def add_claim_finalizer(self, name: str) -> None:
        """Let a claim be served from now on."""
        self.edit(CLAIMS, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}})

    def create_oldest_allocation(self, name: str) -> None:
        """Create an allocation that goes before every claim."""
        self.create_request(name, since=LONG_AGO)


def _reports_to_claim(flight: Flight) -> bool:
    """Return whether a request reports an address or a refusal to a claim."""
    status = flight.plural == CLAIMS and flight.subresource == "status"
    return status and "are void" not in str(flight.body)


async def claim_written_late_after_loss_of_memory(stage: SharedStage) -> str | None:
    """The pool loses its journal while a claim's address is on its way; an allocation is created.

    The replica that serves the allocation has not read the IPAddress of the claim.
    """
    stage.create_claim("c")
    other = stage.start_replica()
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=_reports_to_claim)
    stage.edit_pool(FORGOTTEN)
    stage.create_oldest_allocation("a")
    for feed in (other.pools, other.allocations):
        feed.catch_up()
    await stage.reconcile(other, POOL, name="p", late=_reports_to_claim)
    stage.run_late_requests()
    return stage.problem


async def claim_written_late_after_a_paused_pool_lost_its_memory(
    stage: SharedStage,
) -> str | None:
    """A paused pool loses its journal while a claim's address is on its way.

    A person has paused the pool for claims; IPAllocations are served during the pause.
    """
    stage.create_claim("c")
    other = stage.start_replica()
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=_reports_to_claim)
    stage.edit_pool({"metadata": {"annotations": {PAUSED: ""}}})
    stage.edit_pool(FORGOTTEN)
    stage.create_request("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.catch_up()
        await stage.reconcile(other, POOL, "p")
    stage.run_late_requests()
    for _ in range(3):
        other.catch_up()
        await stage.reconcile(other, POOL, "p")
    if stage.problem or not stage.is_served("a"):
        return stage.problem or "allocation a waits for ever"
    return _find_address_of_both(stage)


async def claim_forced_away_while_ipaddresses_lag(
    stage: SharedStage, *, edit_journal: bool = False
) -> str | None:
    """A claim is removed by force; an allocation is created while the IPAddress still exists.

    The replica that serves the allocation has not read the IPAddress.

    Args:
        stage: a stage without requests.
        edit_journal: whether a person removes the revision of IPAddresses from the journal.
    """
    stage.create_claim("c")
    other = stage.start_replica()
    first = stage.start_replica()
    await stage.reconcile(first, POOL, "p")
    if edit_journal:
        first.catch_up()
        await stage.clock.advance(60)
        await stage.reconcile(first, POOL, "p")  # drops the settled promise
        _remove_revision_of_addresses(stage)
    stage.model.remove_by_force(CLAIMS, "c")
    stage.create_request("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.catch_up()
        await stage.reconcile(other, POOL, "p")
        await stage.reconcile(other, POOL, "p")
        if edit_journal:
            await stage.clock.advance(2)
    if edit_journal and not stage.is_served("a"):  # the pass over IPAllocations reads caches only
        other.addresses.catch_up()
        await stage.reconcile(other, POOL, "p")
    if not stage.is_served("a"):
        return "allocation a is not served"
    return _find_address_of_both(stage) or stage.problem


def _find_address_of_both(stage: SharedStage) -> str | None:
    """Return a sentence about the address that allocation a and the IPAddress of c share."""
    address, asked = stage.model.get(ADDRESSES, "c"), stage.model.get(ALLOCATIONS, "a")
    assert address is not None
    assert asked is not None
    if asked["status"].get("startAddress") == address["spec"]["address"]:
        return f"a and the IPAddress of c both have {address['spec']['address']}"
    return None


async def claim_forced_away_after_an_edit_of_the_journal(stage: SharedStage) -> str | None:
    """A claim is removed by force after a person removed the revision of IPAddresses."""
    return await claim_forced_away_while_ipaddresses_lag(stage, edit_journal=True)


def _remove_revision_of_addresses(stage: SharedStage) -> None:
    """Remove from the journal how far IPAddresses have to be read, as a person may do."""
    pool = stage.model.get(POOLS, "p")
    assert pool is not None
    revisions = dict(pool["status"]["revisions"])
    assert not pool["status"].get("assignments"), "the promise is dropped"
    del revisions[names.KIND_ADDRESSES]
    journal_of = compute_seal(pool["metadata"]["uid"], revisions, ())
    changed = {"revisions": {names.KIND_ADDRESSES: None}, "journalOf": journal_of}
    stage.edit_pool({"status": changed})


async def journal_lost_while_another_controller_wrote(stage: SharedStage) -> str | None:
    """A pool has lost its journal, and its status says that another controller writes it.

    That controller has stopped.
    """
    condition = {
        "type": FOREIGN_MANAGER,
        "status": "True",
        "reason": "StatusWrittenByOthers",
        "message": "manager writes the pool's status",
        "lastTransitionTime": format_rfc3339(stage.clock.now()),
    }
    stage.edit_pool(FORGOTTEN)
    stage.edit_pool({"status": {"conditions": [condition]}})
    stage.create_claim("c")
    stage.create_request("a")
    replica = stage.start_replica()
    for _ in range(6):
        await stage.reconcile(replica, POOL, "p")
        replica.catch_up()
        await stage.clock.advance(60)
    allocation, claim = stage.model.get(ALLOCATIONS, "a"), stage.model.get(CLAIMS, "c")
    is_served = (allocation or {}).get("status", {}).get("phase") == "Allocated"
    if not is_served or not (claim or {}).get("status", {}).get("addressRef"):
        return "allocation a and claim c wait for ever"
    return stage.problem


async def address_made_by_hand_that_an_allocation_has(stage: SharedStage) -> str | None:
    """A person creates an IPAddress for claim c with the address of an allocation."""
    stage.create_request("a")
    await stage.reconcile(stage.start_replica(), POOL, "p")
    stage.create_claim("c")
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}0", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    await stage.reconcile(stage.start_replica(), POOL, "p")
    return stage.problem


async def allocation_promised_while_a_claim_is_served(stage: SharedStage) -> str | None:
    """An allocation's range is on its way when a claim, which goes first, may be served."""
    stage.create_claim_without_finalizer("c")
    await stage.clock.advance(1)
    stage.create_request("a")
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=match_writes_of("a"))
    stage.add_claim_finalizer("c")
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=match_writes_of("a"))
    stage.run_late_requests()
    return stage.problem


async def claim_promised_while_an_allocation_is_served(stage: SharedStage) -> str | None:
    """A claim's address is on its way when an allocation is created; the IPAddress is not read."""
    stage.create_claim("c")
    other = stage.start_replica()
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=_reports_to_claim)
    stage.create_oldest_allocation("a")
    for feed in (other.pools, other.allocations):
        feed.catch_up()
    await stage.reconcile(other, POOL, name="p", late=_reports_to_claim)
    stage.run_late_requests()
    return stage.problem


async def claim_promised_before_its_kinds_are_seen(stage: SharedStage) -> str | None:
    """A claim's address is on its way; another replica has not discovered the kinds of claims."""
    stage.create_claim("c")
    other = stage.start_replica()
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=_reports_to_claim)
    stage.create_request("a")
    other.discovered.pool_claims = None
    await _work_until_absence_is_believed(stage, other)
    stage.run_late_requests()
    return stage.problem


async def _work_until_absence_is_believed(stage: SharedStage, other: SharedReplica) -> None:
    """Let a replica that has not discovered the kinds of claims serve the allocations."""
    for feed in (other.pools, other.allocations):
        feed.catch_up()
    await stage.reconcile(other, POOL, "p")
    await stage.clock.advance(ABSENCE_SECONDS)
    await stage.reconcile(other, POOL, "p")


async def claim_served_before_its_kinds_are_seen(stage: SharedStage) -> str | None:
    """Claim c is served, and its promise dropped, before another replica discovers its kind."""
    other = stage.start_replica()
    other.discovered.pool_claims = None
    stage.create_claim("c")
    first = stage.start_replica()
    for _ in range(2):  # the second pass drops the settled promise
        await stage.reconcile(first, POOL, "p")
        first.catch_up()
        await stage.clock.advance(60)
    stage.create_request("a")
    for feed in (other.pools, other.allocations):
        feed.catch_up()
    await stage.reconcile(other, POOL, "p")
    return stage.problem


async def claim_written_while_allocations_are_listed(stage: SharedStage) -> str | None:
    """A claim's address is on its way, and arrives while a pass lists allocations."""
    other = stage.start_replica()
    stage.create_claim_without_finalizer("d")
    await stage.clock.advance(1)
    stage.create_claim("c")
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=_reports_to_claim)
    stage.create_request("a")
    first = stage.start_replica()
    for _ in range(2):  # the second pass drops the settled promise, and raises the memory
        await stage.reconcile(first, POOL, name="p", late=_reports_to_claim)
        first.catch_up()
        await stage.clock.advance(60)
    other.pools.catch_up()
    stage.add_claim_finalizer("d")
    # The replica has read the promise to c and claim d, but neither the IPAddress of c nor a.
    other.claims.catch_up()

    def deliver_before_list(flight: Flight) -> bool:
        if flight.plural == ALLOCATIONS and not flight.name:
            stage.run_late_requests()
            for feed in (other.addresses, other.claims):
                feed.catch_up()
        return False

    for _ in range(2):  # at first it waits for its cache of allocations
        await stage.reconcile(other, POOL, name="p", late=deliver_before_list)
        await stage.clock.advance(2)
    return stage.problem


async def address_made_by_hand_that_a_list_showed(stage: SharedStage) -> str | None:
    """A pass lists an IPAddress of another provider; then only the cache of claims catches up.

    The cache of IPAddresses has read as far as the journal says; that IPAddress was created later.
    """
    stage.create_claim_without_finalizer("d")
    await stage.clock.advance(1)
    stage.create_claim("e")
    stage.create_request("a")
    other = stage.start_replica()
    await stage.drop_settled(stage.start_replica())
    for feed in (other.pools, other.allocations, other.addresses):
        feed.catch_up()
        feed.cache.apply_bookmark(stage.model.revision)
    status = {"addressRef": {"name": "c"}}
    claim = {"metadata": {"name": "c"}, "spec": {"poolRef": REF}, "status": status}
    stage.model.create(CLAIMS, claim)
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}2", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    stage.add_claim_finalizer("d")
    for _ in range(2):  # at first it waits for its cache of claims
        await stage.reconcile(other, POOL, "p")
        await stage.clock.advance(2)
    other.claims.catch_up()
    other.claims.cache.apply_bookmark(stage.model.revision)
    other.pools.catch_up()
    for _ in range(2):  # d may be restored from a backup, so the pass waits for its IPAddress
        await stage.reconcile(other, POOL, "p")
        await stage.clock.advance(60)
    return stage.problem


async def claim_forced_away_after_its_promise_is_dropped(stage: SharedStage) -> str | None:
    """A claim's promise is dropped, and the claim removed by force; IPAddresses are not read."""
    stage.create_claim("c")
    other = stage.start_replica()
    await stage.drop_settled(stage.start_replica())
    stage.model.remove_by_force(CLAIMS, "c")
    stage.create_request("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.claims):
            feed.catch_up()
        await stage.reconcile(other, POOL, "p")
        await stage.clock.advance(2)
    if not stage.is_served("a"):
        return "allocation a is not served"
    return _find_address_of_both(stage) or stage.problem


async def claim_served_before_an_allocation_asks(stage: SharedStage) -> str | None:
    """Claim c is served, and its promise dropped; then an allocation is created."""
    stage.create_claim("c")
    first = stage.start_replica()
    await stage.drop_settled(first)
    stage.create_request("a")
    await stage.serve_requests(first)
    return stage.problem


async def claim_loses_its_ipaddress_while_claims_lag(stage: SharedStage) -> str | None:
    """A person removes the IPAddress of claim c by force, and an allocation is created.

    The replica that serves it has read IPAddresses, but not claims, and only claim c records its
    address.
    """
    stage.create_claim("c")
    other = stage.start_replica()
    await stage.drop_settled(stage.start_replica())
    stage.model.remove_by_force(ADDRESSES, "c")
    stage.create_oldest_allocation("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations, other.addresses):
            feed.catch_up()
        await stage.reconcile(other, POOL, "p")
        await stage.clock.advance(2)
    return stage.problem


async def fence_of_claims_while_an_allocation_is_promised(stage: SharedStage) -> str | None:
    """The kinds of claims are discovered while the range of a is on its way; then c is served."""
    without_claims = stage.start_replica()
    without_claims.discovered.pool_claims = None
    _remove_entry_of_claims(stage)
    stage.create_claim_without_finalizer("c")
    await stage.clock.advance(1)
    stage.create_request("a")
    without_claims.catch_up()
    await stage.reconcile(without_claims, POOL, name="p", late=match_writes_of("a"))
    assert stage.late_requests, "the promise is written"
    stage.add_claim_finalizer("c")
    replica = stage.start_replica()
    for _ in range(3):
        replica.catch_up()
        await stage.reconcile(replica, POOL, name="p", late=match_writes_of("a"))
    stage.run_late_requests()
    return stage.problem or (None if _has_address(stage, "c") else "claim c waits")


def _has_address(stage: SharedStage, claim: str) -> bool:
    """Return whether a claim refers to an IPAddress."""
    return bool((stage.model.get(CLAIMS, claim) or {}).get("status", {}).get("addressRef"))


async def definition_missing_while_an_ipaddress_exists(stage: SharedStage) -> str | None:
    """The definition of claims is missing; an IPAddress exists that no journal mentions."""
    other = stage.start_replica()
    other.discovered.pool_claims = None
    other.discovered.incomplete_reason = "the definition of IPAddressClaims is missing"
    _remove_entry_of_claims(stage)
    spec = {"claimRef": {"name": "c"}, "poolRef": REF, "address": f"{FIRST}0", "prefix": 24}
    stage.model.create(ADDRESSES, {"metadata": {"name": "c"}, "spec": spec})
    stage.create_request("a")
    other.catch_up()
    await stage.reconcile(other, POOL, "p")
    return _find_address_of_both(stage)


def _remove_entry_of_claims(stage: SharedStage) -> None:
    """Replace the journal of the pool by one that never recorded claims."""
    pool = stage.model.get(POOLS, "p")
    assert pool is not None
    stage.edit_pool({"status": {"revisions": dict.fromkeys(pool["status"]["revisions"])}})
    stage.edit_pool(StatusMemory().make_empty_journal(pool, 0))


async def integration_off_after_a_claim_was_served(stage: SharedStage) -> str | None:
    """Claim c is served; then a replica without the integration serves an allocation."""
    stage.create_claim("c")
    await stage.drop_settled(stage.start_replica())
    stage.create_request("a")
    other = stage.start_replica()
    other.discovered.pool_claims = None
    other.discovered.find_pool_claims = ClaimService().find_pool_claims
    for _ in range(2):
        await stage.reconcile(other, POOL, "p")
        await stage.clock.advance(60)
    return stage.problem


async def absence_under_steady_promises(stage: SharedStage) -> str | None:
    """The kinds of claims are gone, while another replica promises ranges all the time."""
    first, other = stage.start_replica(), stage.start_replica()
    other.discovered.pool_claims = None
    for number in range(8):
        name = f"x{number}"
        stage.create_request(name)
        await stage.serve_requests(first)
        other.catch_up()
        await stage.reconcile(other, POOL, "p")
        stage.model.remove_by_force(ALLOCATIONS, name)
        await stage.clock.advance(ABSENCE_SECONDS / 4)
    stage.create_request("a")
    await stage.serve_requests(other)
    return stage.problem or (None if stage.is_served("a") else "allocation a waits for ever")


async def claim_written_late_after_a_restore_to_a_new_uid(stage: SharedStage) -> str | None:
    """A claim's address is on its way; the pool is restored from a backup, with another uid."""
    pool = stage.model.get(POOLS, "p")
    assert pool is not None
    earlier = StatusMemory().make_copy(pool)
    stage.create_claim("c")
    other = stage.start_replica()
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=_reports_to_claim)
    stage.replace_pool([earlier])
    stage.create_oldest_allocation("a")
    for _ in range(3):
        for feed in (other.pools, other.allocations):
            feed.catch_up()
        await stage.reconcile(other, POOL, name="p", late=_reports_to_claim)
        await stage.clock.advance(2)
    stage.run_late_requests()
    return stage.problem


async def claim_and_allocation_of_one_name(stage: SharedStage) -> str | None:
    """The address of claim a is on its way; then an allocation of the same name is created."""
    stage.create_claim("a")
    other = stage.start_replica()
    await stage.reconcile(stage.start_replica(), POOL, name="p", late=_reports_to_claim)
    stage.create_oldest_allocation("a")
    for feed in (other.pools, other.allocations):
        feed.catch_up()
    await stage.reconcile(other, POOL, name="p", late=_reports_to_claim)
    stage.run_late_requests()
    await stage.serve_requests(other)
    if stage.problem:
        return stage.problem
    is_served = stage.is_served("a") and _has_address(stage, "a")
    return None if is_served else "claim a or allocation a waits"


async def oldest_request_of_either_kind(stage: SharedStage, *, is_claim_first: bool) -> str | None:
    """A claim and an allocation of the whole pool wait; return the one that is served."""
    for is_claim in (is_claim_first, not is_claim_first):
        if is_claim:
            stage.create_claim("c")
        else:
            stage.create_request("a", count=3)
        await stage.clock.advance(1)
    await stage.serve_requests(stage.start_replica())
    is_served_by_name = {
        "the claim": _has_address(stage, "c"),
        "the allocation": stage.is_served("a"),
    }
    return stage.problem or " and ".join(
        name for name, is_served in is_served_by_name.items() if is_served
    )
