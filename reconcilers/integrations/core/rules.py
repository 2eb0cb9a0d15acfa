"""One reading of a pool with one kind of requests, and whether the pool needs a fence.

A fence voids all promises that an earlier journal of the pool may have had. The rules by which no
address is allocated twice stand in reconcilers/promises/.
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
    """The requests of one kind and the holdings that a pass has read of a space.

    Args:
        position: the revision up to which all requests were read.
        holdings: the ranges that requests hold, and the requests that wait.
        find: returns the request of a holder.
        unreadable: the requests that cannot be decoded; `find` may return an older version.
        effects: the objects that are created for promises to these requests, such as IPAddresses;
            None if none are created.
    """

    position: int
    holdings: Holdings
    find: Find[Request_co]
    unreadable: Container[Key] = frozenset()
    effects: Effects | None = None

    def with_holdings(self, holdings: Holdings) -> Self:
        """Return a copy of this view with other holdings."""
        return replace(self, holdings=holdings)

    def find_promised_request(self, promise: Promise) -> Request_co | None:
        """Return the request of a promise; None if it has another version than the promise."""
        return find_promised_version(promise, self.find(promise.holder))


def needs_fence(revision: int | None, position: int, *, has_requests: bool) -> bool:
    """Return whether a pool must void earlier promises before it hands out an address.

    It must if its journal was never written, is lost, or comes from another history of etcd.
    A missing journal can wait until a request needs an address. A journal of another history is
    fenced at once: the caches never reach its revision, so each pass would LIST.

    Args:
        revision: the revision in the pool's journal; None if the journal is missing.
        position: the revision up to which all requests were read, by a list if the caches had not.
        has_requests: whether a request needs an address.
    """
    return has_requests if revision is None else position < revision
