"""The rules by which two ranges never overlap, as pure functions of what was read.

    decide          which request gets what, and which promises stay open, for one pass
    count_blockers  for how many allocations a pool's deletion waits

A promise is an assignment in the pool's status. It takes effect at most once, because it may be
written only to the version of the request that it names. It is *settled*, which means over, when
the request has another version or is gone. The pool's *journal* has its open promises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from allocator import AddressRange, Capacity, Layout
from controller.meta import Object
from reconcilers.addressing import familychoice
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.allocationtaking import AllocationTaker
from reconcilers.networkpool.facts import KIND, name_spaces
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, settle_journal
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.choosing import (
    Choice,
    ServedAskers,
    choose,
    count_promise,
    exclude_ranges,
)
from reconcilers.promises.holdings import Layouts
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.shares import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class PassDecision:
    """What one pass read of the journal, and what it chose.

    Args:
        stored: the journal as it was read.
        settled: the same journal without promises that are over.
        choice: which requests get which ranges.
        promises: the new promises, for the grants of the choice.
        layouts: what the pool may hand out of each family, its first one first.
        capacities: how full each is with everything that is held or promised.
        claimed: the sum of the sizes of all ranges that were held or promised before the choice.
    """

    stored: Journal
    settled: Journal
    choice: Choice[Object]
    promises: tuple[Promise, ...]
    layouts: tuple[Layout, ...]
    capacities: tuple[Capacity, ...]
    claimed: int

    @property
    def journal(self) -> Journal:
        """The journal that the pool's status has to carry: open promises, then new ones."""
        return self.settled.with_promises(self.promises)


ServeAskers = Callable[[Journal], ServedAskers[Object]]
"""Returns the askers of a further kind, given the journal without what is over."""


def decide(  # noqa: PLR0913 - what was read, and the pool
    pool: NetworkPool,
    view: AllocationsView,
    geometry: Sequence[Layout],
    batch: int,
    observed: Sequence[AddressRange] = (),
    *,
    limits: Limits = NO_LIMITS,
    journal: Journal | None = None,
    claims: ServeAskers | None = None,
    are_allocations_served: bool = True,
) -> PassDecision:
    """Decide for one pass over `pool` which requests get a range, given what was read of them.

    One batch serves the requests of all kinds, the oldest first.

    Args:
        view: the requests of the pool.
        geometry: what it may hand out of each family, its first one first.
        batch: the most to hand out; with 0, no request is considered.
        observed: the ranges that another allocator gave.
        limits: which requests may get a range.
        journal: of the pool; None if it has not been read yet.
        claims: returns the claims that wait; None if nothing is given to claims now.
        are_allocations_served: whether allocations get ranges now.
    """
    stored = STATUS_JOURNALS.read(pool) if journal is None else journal
    settled = settle_journal(stored, view)
    promised = [part for promise in settled.promises for part in promise.ranges]
    observed_ranges = name_spaces(observed)
    claimed = view.holdings.claimed_size + sum(
        part.range.size for part in (*promised, *observed_ranges)
    )
    by_family: Layouts = {familychoice.FAMILY_NAMES[layout.family]: layout for layout in geometry}
    view.holdings.replace_layouts(by_family)
    # The choice must not give these ranges again. The capacities count them as allocated, too.
    with exclude_ranges(view.holdings, promised, observed_ranges):
        spaces = [view.holdings.get_space(family) for family in by_family]
        choice: Choice[Object] = Choice()
        if batch:
            askers: list[ServedAskers[Object]] = []
            if are_allocations_served:
                taker = AllocationTaker(
                    pool,
                    view.find,
                    spaces=spaces,
                    holdings=view.holdings,
                    promises=settled.promises,
                )
                allocations = ServedAskers(taker)
                askers.append(allocations)
            if claims is not None:
                askers.append(claims(settled))
            # The status of a pool has room for a limited number of promises.
            choice = choose(
                view.holdings,
                askers,
                settled.promises,
                min(batch, STATUS_JOURNALS.count_room(settled)),
                limits=limits,
                count=count_promise,
            )
        promises = tuple(grant.build_promise(grant.asker) for grant in choice.grants)
        capacities = tuple(space.compute_capacity() for space in spaces)
        return PassDecision(
            stored,
            settled,
            choice=choice,
            promises=promises,
            layouts=tuple(geometry),
            capacities=capacities,
            claimed=claimed,
        )


def count_blockers(journal: Journal, view: AllocationsView) -> int:
    """Return how many allocations hold a range of a pool, or may get one by an open promise.

    Claims are not counted here: the caller adds the IPAddresses that name the pool. Open promises
    to claims do not block the deletion, because they are voided (`PoolClaims.count_blockers`).

    Args:
        journal: of the pool.
        view: the allocations of the pool.
    """
    promised = {
        (promise.holder, promise.uid)
        for promise in settle_journal(journal, view).promises
        if promise.kind == KIND
    }
    # A request that holds ranges is counted below, unless it was recreated since the promise.
    only_promised = [
        holder
        for holder, uid in promised
        if not (facts := view.holdings.get_facts(holder)).ranges or facts.uid != uid
    ]
    holding_count = sum(1 for _, facts in view.holdings.list_facts_of_kind(KIND) if facts.ranges)
    return holding_count + len(only_promised)
