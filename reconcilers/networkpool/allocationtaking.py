"""What an IPAllocation gets of its NetworkPool: best fit, the lowest address on ties."""

from collections.abc import Sequence

from allocator import (
    AllocatorError,
    InvalidRequest,
    OutOfRange,
    PinnedRangeConflict,
    PoolExhausted,
    Space,
)
from reconcilers.addressing import familychoice, rangetaking, statusranges
from reconcilers.api.ipallocation import FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.choicewords import describe_choice
from reconcilers.networkpool.facts import (
    KIND,
    describe_holder,
    holder_of,
    name_spaces,
    shown_answer,
)
from reconcilers.promises.choosing import Refused, Taken
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find
from reconcilers.promises.journal import Promise, PromisedRange

_REASONS: dict[type[AllocatorError], str] = {
    PoolExhausted: "PoolExhausted",
    PinnedRangeConflict: "PinnedRangeConflict",
    OutOfRange: "OutOfRange",
    InvalidRequest: "InvalidRequest",
    familychoice.PoolNotDualStack: "PoolNotDualStack",
    familychoice.FamilyNotConfigured: "FamilyNotConfigured",
}


class AllocationTaker:
    """Takes ranges of a NetworkPool for IPAllocations.

    Args:
        find: returns the allocation of a holder.
        spaces: of the pool, its first family first; in a trial.
        holdings: what requests of all kinds hold of the pool.
        promises: the open promises of the pool.
    """

    kind = KIND

    def __init__(
        self,
        pool: NetworkPool,
        find: Find[IPAllocation],
        spaces: Sequence[Space],
        holdings: Holdings,
        promises: Sequence[Promise],
    ) -> None:
        self.find = find
        self._pool = pool
        self._spaces = spaces
        self._holdings = holdings
        self._promises = promises

    def take(self, asker: IPAllocation) -> Taken:
        """Take what an allocation asks for: a range of each family.

        Raises:
            Refused: it cannot be served; nothing is taken.
        """
        self._check_held(asker)
        try:
            ranges = rangetaking.take_ranges(self._pool, asker, self._spaces)
        except AllocatorError as error:
            raise refusal_of(error) from error
        return Taken(name_spaces(ranges), describe_choice(asker, ranges, self._spaces))

    def _check_held(self, asker: IPAllocation) -> None:
        """Check that nobody else has the ranges in the status of an allocation.

        A restore can create a status whose range was handed out since the backup.

        Raises:
            Refused: another request has one of them, or may get it by a promise.
        """
        for part in name_spaces(statusranges.list_held_ranges(asker)):
            other = self._holdings.other_holder(part.range, holder_of(asker), part.space)
            if other is None:
                other = next(
                    (
                        promise.holder
                        for promise in self._promises
                        if promise.holder != holder_of(asker) and _promises_part(promise, part)
                    ),
                    None,
                )
            if other is not None:
                raise Refused(
                    "RangeInUse",
                    f"its status shows {part.range.text}, but {describe_holder(other)} has"
                    " addresses of it, too; delete the one of the two that does not use them",
                )

    def shows(self, asker: IPAllocation, refused: Refused) -> bool:
        """Return whether the status of an allocation shows a refusal already."""
        return shown_answer(asker) == (FAILED, refused.reason, refused.message)


def _promises_part(promise: Promise, part: PromisedRange) -> bool:
    """Return whether a promise has addresses of a range."""
    return any(
        promised.space == part.space and promised.range.overlaps(part.range)
        for promised in promise.ranges
    )


def refusal_of(error: AllocatorError) -> Refused:
    """Return why an allocation is refused, as its Ready condition reports it."""
    why = error.refused if isinstance(error, rangetaking.FamilyRefused) else error
    reason = next(
        (word for kind, word in _REASONS.items() if isinstance(why, kind)), "InvalidRequest"
    )
    # Of two families the other one may be the first to be full after the next grant.
    return Refused(reason, str(error), until_granted=why is not error)
