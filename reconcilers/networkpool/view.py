"""The requests of a pool, and up to which resourceVersion they were read."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from allocator import AddressRange, Layout
from controller.meta import Key, Object
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.facts import KIND, allocation_holdings
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder, find_by_key
from reconcilers.promises.journal import Promise
from reconcilers.promises.settling import Effects, ReadRequests, find_promised_version
from reconcilers.reporting.conditions import ConditionFinding


class ClaimView(ReadRequests[Object], Protocol):
    """The claims of one pool, and their IPAddresses."""

    @property
    def holdings(self) -> Holdings:
        """What they hold, and which of them wait; it may have requests of other kinds, too."""
        ...

    @property
    def effects(self) -> Effects | None:
        """The IPAddresses that were created for promises."""
        ...

    def with_holdings(self, holdings: Holdings) -> "ClaimView":
        """Return the same with other holdings: those of requests of all kinds."""
        ...


@dataclass(frozen=True, slots=True)
class AllocationsView:
    """The allocations of one pool, and of its namespace by name.

    Args:
        position: the revision up to which watch or list delivered everything.
        holdings: what those that name the pool hold and wait for; with those of claims, if these
            were read, too.
        find: returns the allocation of a holder, whichever pool it names.
        unreadable: the allocations that cannot be decoded; `find` may return an older version of
            them, or None.
        claims: its claims, whose holdings are the same; None if they were not read.
    """

    position: int
    holdings: Holdings
    find: Find[IPAllocation]
    unreadable: Container[Key] = frozenset()
    claims: ClaimView | None = None

    @classmethod
    def from_allocations(
        cls,
        position: int,
        of_pool: Sequence[IPAllocation],
        find: Callable[[Key], IPAllocation | None] | None = None,
        unreadable: Container[Key] = frozenset(),
    ) -> "AllocationsView":
        """Return the view of these allocations; `find` finds them and others, by default them."""
        by_key = {allocation.metadata.key: allocation for allocation in of_pool}
        find_holder = find_by_key(KIND, find or by_key.get)
        return cls(position, allocation_holdings(of_pool), find=find_holder, unreadable=unreadable)

    @property
    def of_pool(self) -> tuple[IPAllocation, ...]:
        """The allocations that name the pool, sorted by name; costs as much as there are."""
        allocations = (self.find(holder) for holder in self.holdings.holders)
        return tuple(allocation for allocation in allocations if allocation is not None)

    def with_claims(self, claims: ClaimView) -> "AllocationsView":
        """Return the same with the claims of the pool, and one Holdings of both kinds.

        The facts of each kind are those of its own reading: one may be of a LIST, and the other of
        a cache.
        """
        facts = chain(
            self.holdings.facts_of_kind(KIND), claims.holdings.facts_of_kind(names.KIND_CLAIMS)
        )
        holdings = Holdings(facts=facts)
        return replace(self, holdings=holdings, claims=claims.with_holdings(holdings))

    def at_version(self, promise: Promise) -> IPAllocation | None:
        """Return the allocation of a promise if it has the promised version; otherwise None."""
        return find_promised_version(promise, self.find(promise.holder))

    def current(self, key: Key, uid: str) -> IPAllocation | None:
        """Return the allocation of this key; None if it is gone or was recreated."""
        allocation = self.find(Holder(KIND, key))
        return allocation if allocation is not None and allocation.metadata.uid == uid else None


@dataclass(frozen=True, slots=True)
class NetworkPoolReading:
    """What a pass read of a NetworkPool.

    Args:
        geometry: what it may hand out of each family, its first one first.
        closed: condition Ready if it hands out nothing new; None if it does.
        view: its allocations and claims.
        observed: what another allocator gave, which knows nothing of the pool.
    """

    pool: Key
    geometry: Sequence[Layout]
    closed: ConditionFinding | None
    view: AllocationsView
    observed: Sequence[AddressRange] = ()
