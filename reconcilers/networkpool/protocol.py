"""The rules by which two ranges never overlap, as pure functions of what was read.

    taken    what may not be handed out
    choose   which waiting allocation gets what: best fit, lowest address on ties
    decide   both, and which promises stay open, for one pass
    blockers what a pool's deletion waits for

A promise (an assignment in the pool's status) takes effect at most once: it may be written only
to the very version of the allocation that it names. It is settled for good when that object has
moved on or is gone.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, product

from allocator import (
    AddressRange,
    AllocatorError,
    Capacity,
    InvalidRequest,
    Layout,
    OutOfRange,
    PinnedRangeConflict,
    PoolExhausted,
    Space,
)
from reconcilers.addressing import familychoice, rangetaking
from reconcilers.api.ipallocation import FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.choicewords import describe_choice
from reconcilers.networkpool.facts import KIND, shown_answer
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, settle_journal
from reconcilers.networkpool.view import View
from reconcilers.promises.holdings import Layouts
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Journal, Promise, PromisedRange, ranges_of
from reconcilers.promises.rules import Waiting
from reconcilers.promises.shares import NO_LIMITS, Eligibility, Limits, TenantOf


@contextmanager
def taken(
    view: View, promises: Iterable[Promise], geometry: Sequence[Layout]
) -> Iterator[Sequence[Space]]:
    """Give the pool's addresses, by family, with everything taken that may not be handed out.

    That is every range in a status, and every open promise. The phase does not matter: an
    allocation that is being deleted, or whose phase was wiped, holds its range until it is gone.
    Ranges may overlap each other where others made that so.

    What is taken in addition while the context lasts is free again afterwards: the view's holdings
    are what is held, not what is chosen.
    """
    by_family: Layouts = {familychoice.FAMILY_NAMES[layout.family]: layout for layout in geometry}
    view.holdings.lay_out(by_family)
    with view.holdings.trial():
        spaces = [view.holdings.space(family) for family in by_family]
        for space, promised in product(spaces, ranges_of(promises)):
            space.hold(promised)
        yield spaces


@dataclass(frozen=True, slots=True)
class Grant:
    """The ranges chosen for one allocation at the version that was read.

    Args:
        allocation: the allocation.
        ranges: one, or one of each family, in its order.
        promise: the promise as the pool's status carries it.
    """

    allocation: IPAllocation
    ranges: tuple[AddressRange, ...]
    promise: Promise

    @classmethod
    def from_choice(
        cls, allocation: IPAllocation, chosen: tuple[AddressRange, ...], spaces: Sequence[Space]
    ) -> "Grant":
        """Return the grant of what was taken from `spaces` for an allocation just now."""
        meta = allocation.metadata
        promised = tuple(
            PromisedRange(part, familychoice.FAMILY_NAMES[part.family]) for part in chosen
        )
        words = describe_choice(allocation, chosen, spaces)
        promise = Promise(KIND, meta.key, meta.uid, meta.resourceVersion, promised, words)
        return cls(allocation, chosen, promise)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an allocation gets nothing: a reason for its Ready condition, and a sentence."""

    holder: Holder
    allocation: IPAllocation
    reason: str
    message: str

    @property
    def is_new(self) -> bool:
        """Whether the allocation's status does not show it yet."""
        return shown_answer(self.allocation) != (FAILED, self.reason, self.message)


@dataclass(frozen=True, slots=True)
class Choice:
    """What one pass hands out.

    Args:
        grants: at most a batch.
        refusals: which cannot be served now; of those that ask for the same, and whose statuses
            say so already, the first one.
        more: whether a full batch, or a tenant's share of it, left others for the next pass.
    """

    grants: tuple[Grant, ...]
    refusals: tuple[Refusal, ...]
    more: bool


_REASONS: dict[type[AllocatorError], str] = {
    PoolExhausted: "PoolExhausted",
    PinnedRangeConflict: "PinnedRangeConflict",
    OutOfRange: "OutOfRange",
    InvalidRequest: "InvalidRequest",
    familychoice.PoolNotDualStack: "PoolNotDualStack",
    familychoice.FamilyNotConfigured: "FamilyNotConfigured",
}


def choose(
    pool: NetworkPool,
    asking: Waiting[IPAllocation],
    spaces: Sequence[Space],
    room: int,
    eligibility: Eligibility,
    tenant_of: TenantOf,
) -> Choice:
    """Serve `asking` in order from `spaces`, at most `room`; smaller ones may pass larger ones.

    Those that would be refused as their statuses say already, because one that asks for the same
    just was, are not tried. Free addresses only get fewer here, so none of them would fit.
    """
    grants: list[Grant] = []
    refusals: list[Refusal] = []
    for holder, allocation in asking.eligible(eligibility, tenant_of):
        if len(grants) == room:
            return Choice(tuple(grants), tuple(refusals), more=True)
        try:
            taken_ranges = rangetaking.take_ranges(pool, allocation, spaces)
            grants.append(Grant.from_choice(allocation, taken_ranges, spaces))
            eligibility.note_promised(tenant_of(holder))
        except AllocatorError as refused:
            refusal = _refusal(holder, allocation, refused)
            refusals.append(refusal)
            if not refusal.is_new:
                # Of two families the other one may be the first to be full after the next grant.
                of_two = isinstance(refused, rangetaking.FamilyRefused)
                asking.turns.leave_out(until_granted=of_two)
        else:
            asking.turns.granted()
    return Choice(tuple(grants), tuple(refusals), more=eligibility.has_waiting_tenant)


def _refusal(holder: Holder, allocation: IPAllocation, refused: AllocatorError) -> Refusal:
    why = refused.refused if isinstance(refused, rangetaking.FamilyRefused) else refused
    reason = next(
        (word for kind, word in _REASONS.items() if isinstance(why, kind)), "InvalidRequest"
    )
    return Refusal(holder, allocation, reason, str(refused))


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass found and chose.

    Args:
        stored: the journal as it was.
        settled: the journal as it was, without promises that are over.
        choice: the new ones.
        layouts: what the pool may hand out of each family, its first one first.
        capacities: how full each is with everything that is held or promised.
        claimed: the sizes of all ranges that were held or promised before, added up.
    """

    stored: Journal
    settled: Journal
    choice: Choice
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
        return self.settled.with_promises([grant.promise for grant in self.choice.grants])


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
    promised = ranges_of(settled.promises)
    claimed = view.holdings.claimed_size + sum(one.size for one in chain(promised, also_held))
    with taken(view, settled.promises, geometry) as spaces:
        for space, one in product(spaces, also_held):
            space.hold(one)
        room = min(batch, STATUS_JOURNALS.room(settled))
        asking, eligibility = Waiting(view, settled.promises), limits.eligibility(settled.promises)
        choice = Choice((), (), more=False)
        if batch:
            choice = choose(pool, asking, spaces, room, eligibility, limits.tenant_of)
        capacities = tuple(space.capacity() for space in spaces)
        return Decision(stored, settled, choice, tuple(geometry), capacities, claimed)


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
