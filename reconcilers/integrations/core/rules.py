"""The rules by which no address is handed out twice, as pure functions of what was read.

A promise may be written only to the very version of the request that it names, so it takes
effect at most once, and is settled for good when that object has moved on or is gone.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from allocator import AddressRange
from controller.meta import Key, Object
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder
from reconcilers.promises.journal import MOST_RANGES, Journal, Promise, PromisedRange
from reconcilers.promises.rules import Waiting
from reconcilers.promises.settling import Effects, find_promised_version, settle
from reconcilers.promises.shares import NO_LIMITS, Limits

R = TypeVar("R", bound=Object)


@dataclass(frozen=True, slots=True)
class View(Generic[R]):
    """What was read of a space.

    Args:
        position: the revision up to which all requests were read.
        holdings: what is held, and which askers wait.
        find: returns the request of a holder.
        answer: returns what answers the request of a key, as it was read with the holdings.
        unreadable: the requests that cannot be decoded; `find` may return an older version.
        effects: the objects that are created for promises beside the requests; None for no such
            kind.
    """

    position: int
    holdings: Holdings
    find: Find[R]
    answer: Callable[[Key], Any]
    unreadable: Container[Key] = frozenset()
    effects: Effects | None = None

    def at_version(self, promise: Promise) -> R | None:
        """Return the request of a promise if it still is what the promise names."""
        return find_promised_version(promise, self.find(promise.holder))


def needs_fence(revision: int | None, position: int, *, wanted: bool) -> bool:
    """Return whether what an object may have promised has to be voided before it hands out.

    Its journal was never written, is lost, or is of another cluster's history. One of the latter
    is fenced even if nothing is to be handed out, or each pass would list to find out.

    Args:
        revision: that the object's journal remembers; None without memory.
        position: the revision up to which all requests were read, by a list if the caches had not.
        wanted: whether something is to be handed out.
    """
    return wanted if revision is None else position < revision


@dataclass(frozen=True, slots=True)
class Grant(Generic[R]):
    """Blocks chosen for a request at the version that was read, and the promise of them."""

    request: R
    promise: Promise


@dataclass(frozen=True, slots=True)
class Refusal(Generic[R]):
    """Why a request gets nothing: a reason for its Ready condition, and a sentence."""

    holder: Holder
    request: R
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Choice(Generic[R]):
    """What one pass hands out.

    Args:
        settled: the journal as it was, without what is settled.
        grants: at most a batch.
        refusals: which cannot be served now; of equal requests that show it already, the first.
        more: whether a full batch, or a tenant's share of it, left others for the next pass.
    """

    settled: Journal
    grants: Sequence[Grant[R]]
    refusals: Sequence[Refusal[R]]
    more: bool

    @property
    def journal(self) -> Journal:
        """What the journal has to hold before anything is written."""
        made = tuple(grant.promise for grant in self.grants)
        return self.settled.with_promises(made)


class Refused(Exception):
    """A request cannot be served; the reason is for its Ready condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


Take = Callable[[R], AddressRange | None]
"""Takes blocks of the space for a request, in a trial; None to pass over it. Raises Refused."""


def choose(  # noqa: PLR0913 - what was read, and the space
    journal: Journal,
    kind: str,
    view: View[R],
    *,
    to_blocks: Callable[[AddressRange], AddressRange],
    to_addresses: Callable[[AddressRange], AddressRange],
    also_held: Sequence[AddressRange],
    take: Take[R],
    shows: Callable[[Refusal[R]], bool],
    batch: int,
    limits: Limits = NO_LIMITS,
) -> Choice[R]:
    """Serve the requests that wait, the oldest first, from what is neither held nor promised.

    Args:
        journal: of the object that the choice will be written to.
        kind: of the requests.
        view: what was read, at least as far as the journal says.
        to_blocks: from addresses to the blocks of the space that they touch.
        to_addresses: from blocks to their addresses.
        also_held: blocks that others hold than those whom the view shows.
        take: takes blocks for one request.
        shows: returns whether the object of a request shows a refusal already.
        batch: the most to serve in one pass.
        limits: which requests may be served.
    """
    settled = settle(journal, kind, view, view.effects)
    eligibility = limits.eligibility(settled.promises)
    room = min(batch, MOST_RANGES - settled.range_count)
    grants: list[Grant[R]] = []
    refusals: list[Refusal[R]] = []
    space = view.holdings.space()
    with view.holdings.trial():
        for blocks in also_held:
            space.hold(blocks)
        for promise in settled.promises:
            for part in promise.ranges:
                space.hold(to_blocks(part.range))
        asking = Waiting(view, settled.promises)
        for holder, request in asking.eligible(eligibility, limits.tenant_of):
            if len(grants) >= room:
                return Choice(settled, grants, refusals, more=True)
            try:
                blocks_taken = take(request)
            except Refused as refused:
                refusals.append(Refusal(holder, request, refused.reason, refused.message))
                if shows(refusals[-1]):
                    # Free addresses only get fewer, so no equal request would fit.
                    asking.turns.leave_out()
                continue
            if blocks_taken is not None:
                addresses = to_addresses(blocks_taken)
                grants.append(Grant(request, _promise(kind, request, addresses)))
                eligibility.note_promised(limits.tenant_of(holder))
    return Choice(settled, grants, refusals, more=eligibility.has_waiting_tenant)


def _promise(kind: str, request: Object, addresses: AddressRange) -> Promise:
    meta = request.metadata
    promised = (PromisedRange(addresses),)
    return Promise(kind, meta.key, meta.uid, meta.resourceVersion, promised)
