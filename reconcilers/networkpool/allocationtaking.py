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
from reconcilers.addressing import familychoice, rangetaking
from reconcilers.api.ipallocation import FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.choicewords import describe_choice
from reconcilers.networkpool.facts import KIND, name_spaces, shown_answer
from reconcilers.promises.choosing import Refused, Taken
from reconcilers.promises.identities import Find

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
        pool: the pool.
        find: returns the allocation of a holder.
        spaces: of the pool, its first family first; in a trial.
    """

    kind = KIND

    def __init__(
        self, pool: NetworkPool, find: Find[IPAllocation], spaces: Sequence[Space]
    ) -> None:
        self.find = find
        self._pool = pool
        self._spaces = spaces

    def take(self, asker: IPAllocation) -> Taken:
        """Take what an allocation asks for: a range of each family.

        Raises:
            Refused: it cannot be served; nothing is taken.
        """
        try:
            ranges = rangetaking.take_ranges(self._pool, asker, self._spaces)
        except AllocatorError as error:
            raise refusal_of(error) from error
        return Taken(name_spaces(ranges), describe_choice(asker, ranges, self._spaces))

    def shows(self, asker: IPAllocation, refused: Refused) -> bool:
        """Return whether the status of an allocation shows a refusal already."""
        return shown_answer(asker) == (FAILED, refused.reason, refused.message)


def refusal_of(error: AllocatorError) -> Refused:
    """Return why an allocation is refused, as its Ready condition reports it."""
    why = error.refused if isinstance(error, rangetaking.FamilyRefused) else error
    reason = next(
        (word for kind, word in _REASONS.items() if isinstance(why, kind)), "InvalidRequest"
    )
    # Of two families the other one may be the first to be full after the next grant.
    return Refused(reason, str(error), until_granted=why is not error)
