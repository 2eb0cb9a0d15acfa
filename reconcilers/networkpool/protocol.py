"""The rules by which two ranges never overlap, as pure functions of what was read.

    decide   which allocation gets what, and which promises stay open, for one pass
    blockers what a pool's deletion waits for

A promise (an assignment in the pool's status) takes effect at most once: it may be written only
to the very version of the allocation that it names. It is settled for good when that object has
moved on or is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from allocator import AddressRange, Capacity, Layout
from reconcilers.addressing import familychoice
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.allocationtaking import AllocationTaker
from reconcilers.networkpool.facts import name_spaces
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, settle_journal
from reconcilers.networkpool.view import View
from reconcilers.promises.choosing import Choice, choose, count_promise, taken
from reconcilers.promises.holdings import Layouts
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.shares import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass found and chose.

    Args:
        stored: the journal as it was.
        settled: the journal as it was, without promises that are over.
        choice: who gets what.
        promises: the new ones.
        layouts: what the pool may hand out of each family, its first one first.
        capacities: how full each is with everything that is held or promised.
        claimed: the sizes of all ranges that were held or promised before, added up.
    """

    stored: Journal
    settled: Journal
    choice: Choice[IPAllocation]
    promises: tuple[Promise, ...]
    layouts: tuple[Layout, ...]
    capacities: tuple[Capacity, ...]
    claimed: int

    @property
    def capacity(self) -> Capacity:
        """How full the pool's first family is."""
        return self.capacities[0]

    @property
    def journal(self) -> Journal:
        """The journal that the pool's status has to carry: open promises, then new ones."""
        return self.settled.with_promises(self.promises)


def decide(  # noqa: PLR0913 - what was read, and the pool
    pool: NetworkPool,
    view: View,
    geometry: Sequence[Layout],
    batch: int,
    also_held: Sequence[AddressRange] = (),
    *,
    limits: Limits = NO_LIMITS,
    journal: Journal | None = None,
) -> Decision:
    """Return what a pass over `pool` does, given what was read of its allocations.

    Args:
        pool: the pool.
        view: its allocations.
        geometry: what it may hand out of each family, its first one first.
        batch: the most to hand out; with 0, no request is looked at.
        also_held: what others than allocations hold.
        limits: which allocations may get a range.
        journal: of the pool; None if it has not been read yet.
    """
    stored = STATUS_JOURNALS.read(pool) if journal is None else journal
    settled = settle_journal(stored, view)
    promised = [part for promise in settled.promises for part in promise.ranges]
    others = name_spaces(also_held)
    claimed = view.holdings.claimed_size + sum(part.range.size for part in (*promised, *others))
    by_family: Layouts = {familychoice.FAMILY_NAMES[layout.family]: layout for layout in geometry}
    view.holdings.lay_out(by_family)
    with taken(view.holdings, promised, others):
        spaces = [view.holdings.space(family) for family in by_family]
        choice: Choice[IPAllocation] = Choice()
        if batch:
            choice = choose(
                view.holdings,
                [AllocationTaker(pool, view.find, spaces)],
                settled.promises,
                min(batch, STATUS_JOURNALS.room(settled)),
                limits=limits,
                count=count_promise,
            )
        promises = tuple(grant.promise_to(grant.asker) for grant in choice.grants)
        capacities = tuple(space.capacity() for space in spaces)
        return Decision(stored, settled, choice, promises, tuple(geometry), capacities, claimed)


def blockers(journal: Journal, view: View) -> int:
    """Return how many requests hold, or may still come to hold, a range of a pool.

    Args:
        journal: of the pool. Promises to requests of other kinds count until they are dropped.
        view: the allocations of the pool.
    """
    promised = {
        (promise.holder, promise.uid) for promise in settle_journal(journal, view).promises
    }
    only_promised = [
        holder
        for holder, uid in promised
        if not (facts := view.holdings.facts(holder)).ranges or facts.uid != uid
    ]
    return view.holdings.holder_count + len(only_promised)
