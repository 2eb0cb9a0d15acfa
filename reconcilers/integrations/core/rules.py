"""What was read of a pool with one kind of requests, and whether the pool needs a fence.

The rules by which no address is allocated twice stand in reconcilers/promises/.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from controller.meta import Key, Object
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find
from reconcilers.promises.journal import Promise
from reconcilers.promises.settling import Effects, find_promised_version

Request_co = TypeVar("Request_co", bound=Object, covariant=True)


@dataclass(frozen=True, slots=True)
class SpaceView(Generic[Request_co]):
    """What was read of a space.

    Args:
        position: the revision up to which all requests were read.
        holdings: what is held, and which askers wait.
        find: returns the request of a holder.
        unreadable: the requests that cannot be decoded; `find` may return an older version.
        effects: the objects that are created for promises beside the requests; None for no such
            kind.
    """

    position: int
    holdings: Holdings
    find: Find[Request_co]
    unreadable: Container[Key] = frozenset()
    effects: Effects | None = None

    def with_holdings(self, holdings: Holdings) -> Self:
        """Return the same with other holdings."""
        return replace(self, holdings=holdings)

    def at_version(self, promise: Promise) -> Request_co | None:
        """Return the request of a promise if it still is what the promise names."""
        return find_promised_version(promise, self.find(promise.holder))


def needs_fence(revision: int | None, position: int, *, has_requests: bool) -> bool:
    """Return whether earlier promises of an object have to be voided before it hands out.

    They have to be if its journal was never written, is lost, or is of another history. Without
    memory the fence can wait until something is to be handed out. A journal of another history is
    fenced at once: the caches never reach its revision, so each pass would LIST until then.

    Args:
        revision: that the object's journal remembers; None without memory.
        position: the revision up to which all requests were read, by a list if the caches had not.
        has_requests: whether something is to be handed out.
    """
    return has_requests if revision is None else position < revision
