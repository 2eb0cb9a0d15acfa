"""Which askers that wait for a pool get which ranges: one choice for pools of all kinds.

An *asker* is an object that waits for an address. Askers that would get equal answers are one
*row* of the queue. A *trial* is a context at whose end all ranges that it took are free again.

The choice is pure: it depends on what was read, and writes nothing. A pass carries it out, and
`plan` shows it without a cluster. It takes the askers of all rows and kinds, the oldest asker
first. A smaller request may pass a larger one that does not fit.

Each kind of requests has a `Taker`, which decides what an asker gets. It takes ranges of spaces
of the pool in a trial, so the holdings are afterwards as they were before. Askers of several kinds
are of several types, and a choice looks only at their metadata. So it gets each taker as
`ServedAskers`, which binds the taker with the type of its askers.

If an asker is refused, and the others of its row show that refusal already, the others are not
tried: each grant leaves fewer free addresses, so none of them would fit. Some refusals hold only
until the next grant. If a request asks for two families and one is full, the next grant may fill
the other family, and the refusal then names that family.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeGuard, TypeVar

from allocator import AddressRange
from controller.meta import Object
from reconcilers.promises.holdings import Holdings, Place
from reconcilers.promises.identities import Find, Holder
from reconcilers.promises.journal import Promise, PromisedRange
from reconcilers.promises.queue import Turns
from reconcilers.promises.shares import NO_LIMITS, Limits, ShareVerdict

AskerT = TypeVar("AskerT", bound=Object)
Asker_co = TypeVar("Asker_co", bound=Object, covariant=True)


class Taken(NamedTuple):
    """The ranges that a taker took for one asker.

    Args:
        ranges: at least one range, in the form in which they are promised.
        choice: how the ranges were chosen, in words; empty if that is not recorded.
    """

    ranges: tuple[PromisedRange, ...]
    choice: str = ""


class Refused(Exception):
    """An asker cannot be served. A Taker raises it, and the choice records it.

    Args:
        reason: the reason of the asker's condition Ready.
        message: why the asker cannot be served, in a sentence.
        until_granted: whether equal askers may be refused for another reason after the next grant.
    """

    def __init__(self, reason: str, message: str, *, until_granted: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.until_granted = until_granted


@dataclass(frozen=True, slots=True)
class Grant(Generic[Asker_co]):
    """The ranges chosen for one asker at the version that was read.

    Args:
        holder: the identity of the asker.
        asker: the object that waits.
        ranges: at least one, as they are promised.
        choice: how they were chosen, in words; empty if that is not recorded.
    """

    holder: Holder
    asker: Asker_co
    ranges: tuple[PromisedRange, ...]
    choice: str = ""

    @property
    def addresses(self) -> tuple[AddressRange, ...]:
        """The ranges without their spaces."""
        return tuple(part.range for part in self.ranges)

    def build_promise(self, request: Object) -> Promise:
        """Return the promise of the ranges to a request, at the version that was read.

        Args:
            request: the object to which the ranges will be written. It is the asker itself, except
                in KKP: there a Cluster asks, and its IPAMAllocation is the request.
        """
        meta = request.metadata
        version = meta.resourceVersion
        return Promise(
            self.holder.kind,
            meta.key,
            uid=meta.uid,
            resourceVersion=version,
            ranges=self.ranges,
            choice=self.choice,
        )


@dataclass(frozen=True, slots=True)
class AskerRefusal(Generic[Asker_co]):
    """Why an asker gets nothing.

    Args:
        holder: the identity of the asker.
        asker: the object that waits.
        reason: the reason of the asker's condition Ready.
        message: why the asker gets nothing, in a sentence.
        is_shown: whether the asker shows this refusal already, so that it need not be written.
    """

    holder: Holder
    asker: Asker_co
    reason: str
    message: str
    is_shown: bool = False


def select_refusals(
    asker_type: type[AskerT], refusals: Iterable[AskerRefusal[Object]]
) -> list[AskerRefusal[AskerT]]:
    """Return the refusals whose askers are of one type, in order."""
    return [refusal for refusal in refusals if _is_refusal_of(refusal, asker_type)]


def _is_refusal_of(
    refusal: AskerRefusal[Object], asker_type: type[AskerT]
) -> TypeGuard[AskerRefusal[AskerT]]:
    """Return whether the asker of a refusal is of this type."""
    return isinstance(refusal.asker, asker_type)


@dataclass(frozen=True, slots=True)
class Choice(Generic[Asker_co]):
    """The grants and the refusals that one pass has chosen.

    Args:
        grants: at most as many as a batch has.
        refusals: the askers that cannot be served now, and why. If a row shows its refusal
            already, only its first asker is listed.
        more: whether the next pass may serve more: the batch or the journal is full, or a tenant
            has its share.
    """

    grants: tuple[Grant[Asker_co], ...] = ()
    refusals: tuple[AskerRefusal[Asker_co], ...] = ()
    more: bool = False


class Taker(Protocol[AskerT]):
    """Decides what the askers of one kind of requests get of a pool."""

    @property
    def kind(self) -> str:
        """The kind of the requests, by its full name."""
        ...

    @property
    def find(self) -> Find[AskerT]:
        """Returns the asker of a holder; None if nothing may be promised to it now."""
        ...

    def take(self, asker: AskerT) -> Taken | None:
        """Take ranges of the spaces of the pool, in a trial.

        Returns:
            The ranges; None to pass over the asker, which gets neither ranges nor a refusal.

        Raises:
            Refused: it cannot be served; nothing is taken.
        """
        ...

    def is_refusal_shown(self, asker: AskerT, refused: Refused) -> bool:
        """Return whether a refusal of an asker need not be reported to the others of its row.

        True if the other askers show the refusal already, or if the pass reports the refusal to
        all askers of the row at once.
        """
        ...


class AskerTurn(Generic[Asker_co]):
    """The next asker of a choice, with the functions of its kind.

    It binds the asker with its taker, so that a choice need not know the type of the asker.

    Args:
        taker: the taker of the asker's kind.
    """

    __slots__ = ("_taker", "asker")

    def __init__(self, taker: Taker[Asker_co], asker: Asker_co) -> None:
        self._taker = taker
        self.asker = asker

    def take(self) -> Taken | None:
        """Take ranges of the spaces of the pool, in a trial.

        Returns:
            The ranges; None to pass over the asker, which gets neither ranges nor a refusal.

        Raises:
            Refused: the asker cannot be served; nothing is taken.
        """
        return self._taker.take(self.asker)

    def is_refusal_shown(self, refused: Refused) -> bool:
        """Return whether the asker, and so all others of its row, show a refusal already."""
        return self._taker.is_refusal_shown(self.asker, refused)


class ServedAskers(Generic[Asker_co]):
    """The askers of one kind as a choice sees them, whatever their type.

    Args:
        taker: the taker of the kind; only the taker knows the type of the askers.
    """

    def __init__(self, taker: Taker[Asker_co]) -> None:
        self._taker = taker
        self.kind = taker.kind
        """The kind of the requests, by its full name."""

    def find_turn(self, holder: Holder) -> AskerTurn[Asker_co] | None:
        """Return the turn of a holder; None if nothing may be promised to it now."""
        asker = self._taker.find(holder)
        return None if asker is None else AskerTurn(self._taker, asker)


@contextmanager
def exclude_ranges(
    holdings: Holdings, promised: Iterable[PromisedRange], also_held: Iterable[PromisedRange] = ()
) -> Iterator[None]:
    """Take promised ranges, and ranges of other allocators, for the duration of this context.

    So a choice in this context can take none of these ranges. The ranges of the holders are taken
    anyway. All ranges that are taken in this context are free again at its end, because holdings
    record the held ranges, not the promised or chosen ones.

    Args:
        holdings: the holdings of the pool.
        promised: the ranges of open promises, in the spaces of the pool.
        also_held: the ranges that are in use without a holder in `holdings`.
    """
    with holdings.roll_back_at_exit():
        for parts in (promised, also_held):
            for part in parts:
                # A change of the spec may have removed the space since the promise was made.
                if part.space in holdings.layouts:
                    holdings.get_space(part.space).hold(part.range)
        yield


def count_ranges(ranges: Sequence[PromisedRange]) -> int:
    """Return the number of ranges of a promise, for a journal whose room is counted in ranges."""
    return len(ranges)


def count_promise(_: Sequence[PromisedRange]) -> int:
    """Return 1 for any promise, for a journal whose room is counted in promises."""
    return 1


def _find_unpromised(
    turns: Turns[Place], askers: Iterable[ServedAskers[AskerT]], promises: Iterable[Promise]
) -> Iterator[tuple[Holder, AskerTurn[AskerT]]]:
    """Yield the askers of served kinds that have no open promise, in the order of `turns`.

    An asker with an open promise gets that promise. A new promise is made only once the open
    promise is over.
    """
    askers_by_kind = {askers_of_kind.kind: askers_of_kind for askers_of_kind in askers}
    promised_uids = {promise.uid for promise in promises}
    for _, holder in turns:
        askers_of_kind = askers_by_kind.get(holder.kind)
        if askers_of_kind is None:  # nothing is given to askers of this kind now
            turns.leave_out()
            continue
        turn = askers_of_kind.find_turn(holder)
        if turn is not None and turn.asker.metadata.uid not in promised_uids:
            yield holder, turn


def choose(  # noqa: PLR0913 - what was read, who asks, and the limits of the pass
    holdings: Holdings,
    askers: Iterable[ServedAskers[AskerT]],
    promises: Collection[Promise],
    room: int,
    *,
    batch: int | None = None,
    limits: Limits = NO_LIMITS,
    count: Callable[[Sequence[PromisedRange]], int] = count_ranges,
) -> Choice[AskerT]:
    """Choose ranges for the askers that wait without an open promise, the oldest first.

    Args:
        holdings: what is held of the pool, and which askers wait. They must be in a trial, such as
            `exclude_ranges`, because the choice takes ranges of them.
        askers: of each kind of requests that is served.
        promises: the open promises of the pool.
        room: the most to promise, in the unit of `count`. A promise is never cut. If it needs more
            room than there is, it has to wait, and askers of other rows may get what is left.
        batch: the most promises; None for no limit beside `room`.
        limits: which askers may get a promise.
        count: returns how much of `room` the ranges of one promise need.

    Returns:
        The grants and the refusals. `more` is True if an eligible asker is left over because there
        is no room, or the batch is full, or if a tenant has to wait for its share.
    """
    eligibility = limits.build_eligibility(promises)
    grants: list[Grant[AskerT]] = []
    refusals: list[AskerRefusal[AskerT]] = []
    has_left_over = False
    turns = holdings.iterate_turns()
    for holder, turn in _find_unpromised(turns, askers, promises):
        asker = turn.asker
        tenant = limits.get_tenant(holder)
        verdict = eligibility.judge(asker.metadata, tenant)
        if verdict is ShareVerdict.TENANT_WAITS:  # the verdict is the same for all its askers
            turns.leave_out_tenant()
        if verdict is not ShareVerdict.ELIGIBLE:
            continue
        # Checked only now, because `more` is True only if an eligible asker is left over.
        if room <= 0 or len(grants) == batch:
            return Choice(tuple(grants), tuple(refusals), more=True)
        try:
            chosen = turn.take()
        except Refused as refused:
            is_shown = turn.is_refusal_shown(refused)
            refusals.append(
                AskerRefusal(
                    holder,
                    asker,
                    reason=refused.reason,
                    message=refused.message,
                    is_shown=is_shown,
                )
            )
            # The other askers of the row would be refused as well, and show that already.
            if is_shown:
                turns.leave_out(until_granted=refused.until_granted)
            continue
        if chosen is None:  # the taker passes over the asker, without a refusal
            continue
        needed_room = count(chosen.ranges)
        if needed_room > room:
            # The ranges stay taken until the end of the trial, so that no younger asker gets them.
            # The others of the row would need as much room.
            has_left_over = True
            turns.leave_out()
            continue
        room -= needed_room
        grants.append(Grant(holder, asker, ranges=chosen.ranges, choice=chosen.choice))
        eligibility.note_promised(tenant)
        turns.resume_paused()  # a refusal that held until the next grant may be another one now
    more = has_left_over or eligibility.has_waiting_tenant
    return Choice(tuple(grants), tuple(refusals), more=more)
