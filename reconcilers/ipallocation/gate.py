"""The question that stands between a deleted allocation and its addresses: has the tenant let go?

The finalizer of an IPAllocation is the gate, whoever deleted it. It goes last.
"""

from dataclasses import dataclass
from typing import Protocol

from reconcilers.api.ipallocation import IPAllocation


@dataclass(frozen=True, slots=True)
class LetGo:
    """Nobody can use the range any more; `how` says how we know."""

    how: str


@dataclass(frozen=True, slots=True)
class Holding:
    """The tenant still has, or may still have, the range.

    Args:
        why: what is waited for.
        answered: whether the tenant said so; else it could not be asked.
        in_use: whether a Service there shows an address of it.
    """

    why: str
    answered: bool = True
    in_use: bool = False


class Gate(Protocol):
    """Asks the tenant's side."""

    async def ask(self, allocation: IPAllocation, mark: int) -> LetGo | Holding:
        """Say whether the tenant has let go of the range of a marked allocation.

        Args:
            allocation: being deleted.
            mark: a resourceVersion at or after which it was; what the tenant was told by a reader
                that had read this far does not contain it.

        Raises:
            ControllerError: it could not be learnt from the management cluster; ask again.
        """
        ...
