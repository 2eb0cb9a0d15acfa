"""Which promises are over: they can never take effect again. To *settle* is to drop these.

A promise may be written only to the very version of the request that it names. So it takes effect
at most once, and is over when that version is gone.

When a promise is kept, an object of another kind may be created: its *effect*, such as the
IPAddress of a claim. It holds the ranges as well and may outlive the request. Such a promise is
over only once that object was read, or was found absent.

A *revision* of a journal is the resourceVersion up to which a reader must have read a kind before
it allocates. It has to cover everything that settled a promise: a replica that had not read that
object would see neither the promise nor the range.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from controller.meta import Key, Object
from reconcilers.promises.identities import Find
from reconcilers.promises.journal import Identity, Journal, Promise

RequestT = TypeVar("RequestT", bound=Object)
Request_co = TypeVar("Request_co", bound=Object, covariant=True)


class ReadRequests(Protocol[Request_co]):
    """The requests of one kind, as they were read."""

    @property
    def position(self) -> int:
        """The revision up to which all of them were read."""
        ...

    @property
    def find(self) -> Find[Request_co]:
        """Returns the request of a holder."""
        ...

    @property
    def unreadable(self) -> Container[Key]:
        """The requests that exist and cannot be decoded; `find` may return an older version."""
        ...


class Effects(Protocol):
    """The objects of another kind that were created for promises, as they were read."""

    @property
    def kind(self) -> str:
        """The kind of these objects, in revisions of journals."""
        ...

    @property
    def position(self) -> int:
        """The revision up to which all of them were read."""
        ...

    def find_revision(self, promise: Promise) -> int | None:
        """Return the resourceVersion of the object that was created for a promise.

        Args:
            promise: a promise that cannot be kept any more.

        Returns:
            0 if there is no such object; None if it is not known whether there is one.
        """
        ...


@dataclass(frozen=True, slots=True)
class CreatedEffects:
    """The objects that were created for promises, by caches or LISTs, and by single reads before.

    Args:
        kind: the kind of the objects, by its full name.
        position: the revision up to which all of them were read.
        find: returns the resourceVersion of the object that was created for a promise; None if
            the caches or LISTs do not show one.
        known: by the identity of a promise, the resourceVersion of its object as it was read
            earlier; 0 if that read found none.
    """

    kind: str
    position: int
    find: Callable[[Promise], int | None]
    known: Mapping[Identity, int]

    def find_revision(self, promise: Promise) -> int | None:
        """Return the resourceVersion of the object of a promise.

        The caches or LISTs decide. If they show no object, an earlier single read decides.

        Returns:
            0 if the earlier read found no object; None if there was no earlier read.
        """
        revision = self.find(promise)
        return self.known.get(promise.identity) if revision is None else revision


def find_promised_version(promise: Promise, request: RequestT | None) -> RequestT | None:
    """Return the request of a promise if the promise may still be written to it; else None.

    Args:
        request: as it was read by the key of the promise; None if it does not exist.
    """
    # A request that is being deleted gets no range, because nothing would use it.
    if request is None or request.metadata.is_terminating:
        return None
    version = request.metadata.uid, request.metadata.resourceVersion
    return request if version == promise.identity else None


def settle(
    journal: Journal,
    kind: str,
    requests: ReadRequests[Object],
    effects: Effects | None = None,
) -> Journal:
    """Return the journal without the promises to requests of a kind that are over.

    A promise is over if its request has a higher resourceVersion, in whatever state. It is also
    over if the requests were read as far as the promised version and no request has its uid. A
    promise stays open if its request cannot be decoded, because that request exists. It also stays
    open while it is not known whether its effect exists.

    The revision of the kind rises to the highest resourceVersion of the requests that settled a
    promise. It does not rise to the position, which may come from a bookmark or a LIST: a reader
    may have read all of these objects without having reached that number.

    Args:
        journal: as it is stored.
        kind: the kind of the requests; promises to other kinds stay.
        requests: the requests of that kind.
        effects: the objects of another kind that are created for promises; None for no such kind.
            The revision of that kind rises to the resourceVersions of these objects, if the
            journal has one.
    """
    revisions = dict(journal.revisions)
    still_open = []
    for promise in journal.promises:
        if promise.kind != kind:
            still_open.append(promise)
            continue
        request = requests.find(promise.holder)
        if request is not None and request.metadata.uid != promise.uid:
            request = None  # recreated under the same name: the promised one is gone
        is_read = requests.position >= promise.revision and promise.key not in requests.unreadable
        is_over = is_read if request is None else request.metadata.revision > promise.revision
        effect_revision = effects.find_revision(promise) if is_over and effects is not None else 0
        # An effect of which it is not known whether it exists may hold the ranges.
        if not is_over or effect_revision is None:
            still_open.append(promise)
            continue
        # Only a fence gives a kind its first revision, because only a fence voids promises that
        # the journal does not record. So a revision is raised here, never added.
        if kind in revisions and request is not None:
            revisions[kind] = max(revisions[kind], request.metadata.revision)
        if effects is not None and effects.kind in revisions:
            revisions[effects.kind] = max(revisions[effects.kind], effect_revision)
    return Journal(revisions, tuple(still_open))
