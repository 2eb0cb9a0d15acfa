"""What the controllers would do, pass by pass, until they have nothing left to do.

Each step asks the functions that the reconcilers themselves ask, and writes what they would write:

    adopt       an allocation gets its finalizer
    ask         a TenantCluster asks for its addresses      (reconcilers/tenantcluster)
    serve       a NetworkPool hands out ranges              (reconcilers/networkpool)
    wait        an allocation says what it waits for        (reconcilers/ipallocation)
    tell        TenantClusters and ProviderConfigs say how they stand

Requests in the input come before those that TenantClusters make of it. What depends on a tenant's
own API server (MetalLB, growth, shrink) and on Secrets is not foreseen.
"""

from dataclasses import dataclass
from datetime import datetime

from allocator import InvalidPool, Layout
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, FAILED, POOL_INDEX, RELEASED
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.planning.ledger import Ledger
from reconcilers.cli.planning.tenants import Tenants
from reconcilers.conditions import rendered
from reconcilers.ipallocation.reconciler import pending_status, waiting_for
from reconcilers.networkpool import status
from reconcilers.networkpool.pending_promises import granted_status, new_refusals, refused_status
from reconcilers.networkpool.protocol import Decision, blockers, decide
from reconcilers.networkpool.view import View
from reconcilers.settings import Settings

_ROUNDS = 100
"""Far more than it takes: a request moves on only to a pool that has room for it now."""


@dataclass(slots=True)
class Forecast:
    """Works out what becomes of a ledger.

    Args:
        ledger: the objects; changed in place.
        tenants: asks in the name of TenantClusters.
        settings: as the controllers would have them.
        now: when all of it happens.
    """

    ledger: Ledger
    tenants: Tenants
    settings: Settings
    now: datetime

    def run(self) -> None:
        """Let the controllers work until they rest."""
        self._adopt()
        for pool in self.ledger.pools:
            self._serve(pool)
        for _ in range(_ROUNDS):
            if not self._ask():
                break
        for pool in self.ledger.pools:
            self._tell(pool)
        self._wait()
        self.tenants.tell(self.now)

    def _ask(self) -> bool:
        """Let every cluster ask, and each request be served at once; return whether any did."""
        asked = False
        for created in self.tenants.ask():
            asked = True
            pool = self.ledger.pools.cache.get(created.pool_key)
            if pool is not None:
                self._serve(pool)
        return asked

    def _adopt(self) -> None:
        for allocation in self.ledger.allocations:
            if not allocation.metadata.terminating:
                self.ledger.allocations.add_finalizer(allocation, names.FINALIZER_ALLOCATION)

    def _layout(self, pool: NetworkPool) -> Layout | None:
        """Return the geometry of a pool that hands out ranges; None if it does not."""
        if pool.metadata.terminating:
            return None
        try:
            return ranges.layout(pool.spec, self.settings.pool.max_addresses)
        except InvalidPool:
            return None

    def _serve(self, pool: NetworkPool) -> None:
        """Let a pool make passes until there is nothing left to do."""
        layout = self._layout(pool)
        while layout is not None and self._carry_out(*self._pass(pool, layout)):
            pass

    def _pass(self, pool: NetworkPool, layout: Layout) -> tuple[View, Decision]:
        view = self._view(pool.metadata.key)
        return view, decide(pool, view, layout, self.settings.pool.batch)

    def _tell(self, pool: NetworkPool) -> None:
        """Write a pool's status as it is once everything rests."""
        if pool.metadata.terminating:
            count = blockers(pool, self._view(pool.metadata.key))
            self.ledger.pools.write_status(pool, status.deleting(pool, count, self.now))
            return
        try:
            layout = ranges.layout(pool.spec, self.settings.pool.max_addresses)
        except InvalidPool as invalid:
            wanted = status.invalid(pool, invalid.messages, self.now)
            self.ledger.pools.write_status(pool, wanted)
            return
        self._write(pool, *self._pass(pool, layout))

    def _view(self, pool: Key) -> View:
        allocations = self.ledger.allocations
        return View(
            allocations.read_up_to,
            allocations.cache.by_index(POOL_INDEX, str(pool)),
            lambda name: allocations.cache.get(Key(pool.namespace, name)),
        )

    def _carry_out(self, view: View, decision: Decision) -> bool:
        """Write what a pass decided to the allocations; return whether another may decide more.

        It may where a range was handed out and somebody else had been refused or not heard.
        """
        given = [(grant.allocation, grant.range) for grant in decision.choice.grants]
        for promise in decision.settlement.open:
            allocation = view.current(promise.name, promise.uid)
            promised = ranges.promised(promise)
            if allocation is None or promised is None or allocation.metadata.terminating:
                continue
            if allocation.metadata.resourceVersion == promise.resourceVersion:
                given.append((allocation, promised))
        for allocation, range_ in given:
            self.ledger.allocations.write_status(
                allocation, granted_status(allocation, range_, self.now)
            )
        refused = new_refusals(decision.choice.refusals)
        for refusal in refused:
            self.ledger.allocations.write_status(
                refusal.allocation, refused_status(refusal, self.now)
            )
        others = decision.choice.refusals or decision.choice.more or decision.settlement.open
        return bool(others and (given or refused))

    def _write(self, pool: NetworkPool, view: View, decision: Decision) -> None:
        """Write the status of a pool that hands out ranges.

        Its memory (allocationsRevision) is a number of the server's; only one that was in the
        input is shown.
        """
        wanted = status.served(
            pool,
            view,
            decision,
            self.now,
            self.ledger.pools.cache,
            self.settings.pool.max_addresses,
        )
        for name in ("assignments", "allocationsRevision"):
            del wanted[name]
        if pool.status.assignments:
            open_ = status.promises(decision.settlement.open, 0)["assignments"]
            wanted["assignments"] = open_ or None
        self.ledger.pools.write_status(pool, wanted)

    def _wait(self) -> None:
        for allocation in self.ledger.allocations:
            phase = allocation.status.phase
            held = ranges.held(allocation) is not None and phase == ALLOCATED
            if allocation.metadata.terminating or held or phase in {FAILED, RELEASED}:
                continue
            pool = self.ledger.pools.cache.get(allocation.pool_key)
            reason = waiting_for(allocation, pool)
            patch = pending_status(allocation, reason, self.now)
            if rendered(allocation.status.conditions) != patch["conditions"]:
                self.ledger.allocations.write_status(allocation, patch)
