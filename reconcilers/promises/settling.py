"""Which promises are over: they can never take effect again.

A promise may be written only to the very version of the request that it names. So it takes effect
at most once, and is over when that version is gone.
"""

from collections.abc import Callable, Container
from typing import Protocol, TypeVar

from controller.meta import Key, Object
from reconcilers.promises.journal import Journal

Request_co = TypeVar("Request_co", bound=Object, covariant=True)


class ReadRequests(Protocol[Request_co]):
    """The requests of one kind, as they were read."""

    @property
    def position(self) -> int:
        """The revision up to which all of them were read."""
        ...

    @property
    def find(self) -> Callable[[Key], Request_co | None]:
        """Returns a request by its key."""
        ...

    @property
    def unreadable(self) -> Container[Key]:
        """The requests that exist and cannot be decoded; `find` may return an older version."""
        ...


def settle(journal: Journal, kind: str, requests: ReadRequests[Object]) -> Journal:
    """Return the journal without the promises to requests of a kind that are over.

    A promise is over if its uid is seen at a higher resourceVersion, in whatever state, or if the
    requests were read as far as the promised version and the uid is absent. A request that cannot
    be decoded exists: its promise stays open. The revision of the kind rises to the highest
    resourceVersion of the requests that settled a promise. It does not rise to the position: that
    is the number of a bookmark or a LIST, and a reader that saw the objects need not have seen it.

    Args:
        journal: as it is stored.
        kind: of the requests; promises to other kinds stay.
        requests: of that kind.
    """
    revisions = dict(journal.revisions)
    still_open = []
    for promise in journal.promises:
        if promise.kind != kind:
            still_open.append(promise)
            continue
        request = requests.find(promise.key)
        if request is not None and request.metadata.uid != promise.uid:
            request = None
        if request is not None and request.metadata.revision > promise.revision:
            if kind in revisions:  # else a fence has to set it: nothing else gives memory
                revisions[kind] = max(revisions[kind], request.metadata.revision)
            continue
        is_read = requests.position >= promise.revision and promise.key not in requests.unreadable
        if request is not None or not is_read:
            still_open.append(promise)
    return Journal(revisions, tuple(still_open))
