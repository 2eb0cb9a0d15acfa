"""What an IPAllocation gets of its NetworkPool: best fit, the lowest address on ties.

A *space* is the part of a pool that has one address family. A range is taken of it in a *trial*,
which frees all taken ranges at its end: taken ranges are only promised later.
"""

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
    make_holder,
    name_spaces,
    read_shown_answer,
)
from reconcilers.promises.choosing import Refused, Taken
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder
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
        pool: of which ranges are taken.
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
        self._refuse_if_range_is_in_use(asker)
        try:
            ranges = rangetaking.take_ranges(self._pool, asker, self._spaces)
        except AllocatorError as error:
            raise make_refusal(error) from error
        return Taken(name_spaces(ranges), describe_choice(asker, ranges, self._spaces))

    def _refuse_if_range_is_in_use(self, asker: IPAllocation) -> None:
        """Refuse an allocation whose status shows a range that another request has.

        A restore from a backup can create a status whose range was handed out since the backup.

        Raises:
            Refused: another request has some of the addresses, or may get them by a promise.
        """
        for part in name_spaces(statusranges.list_held_ranges(asker)):
            other_holder = self._holdings.find_other_holder(
                part.range, make_holder(asker), part.space
            )
            if other_holder is None:
                other_holder = self._find_other_promised_holder(asker, part)
            if other_holder is not None:
                raise Refused(
                    "RangeInUse",
                    f"its status shows {part.range.text}, but {describe_holder(other_holder)} has"
                    " addresses of it, too; delete the one of the two that does not use them",
                )

    def _find_other_promised_holder(
        self, asker: IPAllocation, part: PromisedRange
    ) -> Holder | None:
        """Return another request that was promised addresses of a range; None without one."""
        for promise in self._promises:
            if promise.holder != make_holder(asker) and _promises_part(promise, part):
                return promise.holder
        return None

    def is_refusal_shown(self, asker: IPAllocation, refused: Refused) -> bool:
        """Return whether the status of an allocation shows a refusal already."""
        return read_shown_answer(asker) == (FAILED, refused.reason, refused.message)


def _promises_part(promise: Promise, part: PromisedRange) -> bool:
    """Return whether a promise has addresses of a range."""
    return any(
        promised.space == part.space and promised.range.overlaps(part.range)
        for promised in promise.ranges
    )


def make_refusal(error: AllocatorError) -> Refused:
    """Return why an allocation is refused, as its Ready condition reports it."""
    # What is refused of one family is reported with the reason of that refusal.
    cause = error.refused if isinstance(error, rangetaking.FamilyRefused) else error
    # The default is for errors of an invalid request that have no reason of their own.
    reason = next(
        (word for error_type, word in _REASONS.items() if isinstance(cause, error_type)),
        "InvalidRequest",
    )
    # The message names the family that could not be served. The next grant may fill the other
    # family, so equal requests are refused with these words only until then.
    return Refused(reason, str(error), until_granted=cause is not error)
