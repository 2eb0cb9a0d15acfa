"""The requests of a pool, and up to which resourceVersion they were read."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from allocator import AddressRange, Layout
from controller.meta import Key, Object
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.facts import KIND, compute_holdings
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder, find_by_key
from reconcilers.promises.journal import Promise
from reconcilers.promises.settling import Effects, ReadRequests, find_promised_version
from reconcilers.reporting.conditions import ConditionFinding


class ClaimView(ReadRequests[Object], Protocol):
    """The claims of one pool, and their IPAddresses."""

    @property
    def holdings(self) -> Holdings:
        """What the claims hold and wait for; it may include requests of other kinds."""
        ...

    @property
    def effects(self) -> Effects | None:
        """The IPAddresses that were created for promises."""
        ...

    def with_holdings(self, holdings: Holdings) -> "ClaimView":
        """Return the same claims with `holdings`, which are those of requests of all kinds."""
        ...


@dataclass(frozen=True, slots=True)
class AllocationsView:
    """The allocations of one pool, and of its namespace by name.

    Args:
        position: the revision up to which watch or list delivered everything.
        holdings: what the allocations that name the pool hold and wait for. It includes the claims
            if these were read.
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
        """Return the view of the allocations that name a pool.

        Args:
            position: the revision up to which everything was read.
            of_pool: the allocations.
            find: returns an allocation by key, whichever pool it names; None for those of
                `of_pool` alone.
            unreadable: the allocations that cannot be decoded.
        """
        by_key = {allocation.metadata.key: allocation for allocation in of_pool}
        find_holder = find_by_key(KIND, find or by_key.get)
        return cls(position, compute_holdings(of_pool), find=find_holder, unreadable=unreadable)

    @property
    def of_pool(self) -> tuple[IPAllocation, ...]:
        """The allocations that name the pool, sorted by name; computed at each access."""
        allocations = (self.find(holder) for holder in self.holdings.holders)
        return tuple(allocation for allocation in allocations if allocation is not None)

    def with_claims(self, claims: ClaimView) -> "AllocationsView":
        """Return this view with the claims of the pool, and with holdings of both kinds.

        The facts of each kind come from the reading of that kind, which may be a LIST for one
        kind and a cache for the other.
        """
        facts = chain(
            self.holdings.list_facts_of_kind(KIND),
            claims.holdings.list_facts_of_kind(names.KIND_CLAIMS),
        )
        holdings = Holdings(facts=facts)
        return replace(self, holdings=holdings, claims=claims.with_holdings(holdings))

    def find_promised_request(self, promise: Promise) -> IPAllocation | None:
        """Return the allocation of a promise if it has the promised version; otherwise None."""
        return find_promised_version(promise, self.find(promise.holder))

    def find_current(self, key: Key, uid: str) -> IPAllocation | None:
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
        observed: the ranges that another allocator gave, which does not know the pool.
    """

    pool: Key
    geometry: Sequence[Layout]
    closed: ConditionFinding | None
    view: AllocationsView
    observed: Sequence[AddressRange] = ()
