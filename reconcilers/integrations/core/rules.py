"""The rules by which no address is handed out twice, as pure functions of what was read.

A promise may be written only to the very version of the request that it names, so it takes
effect at most once, and is settled for good when that object has moved on or is gone.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from allocator import AddressRange
from controller.meta import Key, Object
from reconcilers.integrations.core.contents import Contents
from reconcilers.integrations.core.journal import MOST_PROMISES, Journal, Promise

R = TypeVar("R", bound=Object)
Found_co = TypeVar("Found_co", bound=Object, covariant=True)


class Requests(Protocol[Found_co]):
    """Requests of a space, as they were read."""

    @property
    def position(self) -> int:
        """The revision up to which all of them were read."""
        ...

    @property
    def find(self) -> Callable[[Key], Found_co | None]:
        """Returns a request by its key."""
        ...

    @property
    def unreadable(self) -> Container[Key]:
        """The requests that exist and cannot be decoded."""
        ...


@dataclass(frozen=True, slots=True)
class View(Generic[R]):
    """What was read of a space.

    Args:
        position: the revision up to which all requests were read.
        contents: what is held, and who waits.
        find: returns a request by its key.
        answer: returns what answers the request of that key, as it was read with the contents.
        unreadable: the requests that cannot be decoded; `find` may return an older version.
    """

    position: int
    contents: Contents
    find: Callable[[Key], R | None]
    answer: Callable[[Key], Any]
    unreadable: Container[Key] = frozenset()

    def at_version(self, promise: Promise) -> R | None:
        """Return the request of a promise if it still is what the promise names."""
        found = self.find(promise.key)
        if found is None or found.metadata.terminating:
            return None
        same = (found.metadata.uid, found.metadata.resourceVersion) == promise.identity
        return found if same else None


def settle(journal: Journal, view: Requests[Object]) -> Journal:
    """Return the journal without the promises that can no longer take effect.

    A promise is settled when its uid is seen at a higher resourceVersion, in whatever state, or
    when the view has read as far as the promise's version and the uid is not there. A request that
    cannot be decoded is there: its promise stays open. Only a request that is seen at a higher
    resourceVersion raises the revision, as a position is a bookmark's or a list's number.
    """
    revision = journal.revision or 0
    still_open = []
    for promise in journal.promises:
        version = promise.version
        if version is None or promise.range is None:
            continue  # edited by hand into something that cannot be written
        seen = view.find(promise.key)
        if seen is not None and seen.metadata.uid != promise.uid:
            seen = None
        if seen is not None and seen.metadata.revision > version:
            revision = max(revision, seen.metadata.revision)
        elif seen is not None or view.position < version or promise.key in view.unreadable:
            still_open.append(promise)
    return Journal(revision, tuple(still_open))


def needs_fence(journal: Journal, position: int, *, wanted: bool) -> bool:
    """Return whether what an object may have promised has to be voided before it hands out.

    Its journal was never written, is lost, or is of another cluster's history. One of the latter
    is fenced even if nothing is to be handed out, or each pass would list to find out.

    Args:
        journal: of the object.
        position: the revision up to which all requests were read, by a list if the caches had not.
        wanted: whether something is to be handed out.
    """
    if journal.revision is None:
        return wanted
    return position < journal.revision


@dataclass(frozen=True, slots=True)
class Grant(Generic[R]):
    """Blocks chosen for a request at the version that was read, and the promise of them."""

    request: R
    promise: Promise


@dataclass(frozen=True, slots=True)
class Refusal(Generic[R]):
    """Why a request gets nothing: a reason for its Ready condition, and a sentence."""

    request: R
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Choice(Generic[R]):
    """What one pass hands out.

    Args:
        settled: the journal as it was, without what is settled.
        grants: at most a batch.
        refusals: which cannot be served now.
        more: whether a full batch left others for the next pass.
    """

    settled: Journal
    grants: Sequence[Grant[R]]
    refusals: Sequence[Refusal[R]]
    more: bool

    @property
    def journal(self) -> Journal:
        """What the journal has to hold before anything is written."""
        made = tuple(grant.promise for grant in self.grants)
        return Journal(self.settled.revision, (*self.settled.promises, *made))


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
    view: View[R],
    *,
    to_blocks: Callable[[AddressRange], AddressRange],
    to_addresses: Callable[[AddressRange], AddressRange],
    also_held: Sequence[AddressRange],
    take: Take[R],
    batch: int,
) -> Choice[R]:
    """Serve those who wait, the oldest first, from what is neither held nor promised.

    Args:
        journal: of the object that the choice will be written to.
        view: what was read, at least as far as the journal says.
        to_blocks: from addresses to the blocks of the space that they touch.
        to_addresses: from blocks to their addresses.
        also_held: blocks that others hold than those whom the view shows.
        take: takes blocks for one request.
        batch: the most to serve in one pass.
    """
    settled = settle(journal, view)
    promised = {promise.uid for promise in settled.promises}
    room = min(batch, MOST_PROMISES - len(settled.promises))
    grants: list[Grant[R]] = []
    refusals: list[Refusal[R]] = []
    space = view.contents.space
    with space.trial():
        for blocks in also_held:
            space.hold(blocks)
        for promise in settled.promises:
            if promise.range is not None:
                space.hold(to_blocks(promise.range))
        for key in view.contents.queue():
            request = view.find(key)
            if request is None or request.metadata.uid in promised:
                continue
            if len(grants) >= room:
                return Choice(settled, grants, refusals, more=True)
            try:
                blocks_taken = take(request)
            except Refused as refused:
                refusals.append(Refusal(request, refused.reason, refused.message))
                continue
            if blocks_taken is not None:
                grants.append(Grant(request, _promise(request, to_addresses(blocks_taken))))
    return Choice(settled, grants, refusals, more=False)


def _promise(request: Object, addresses: AddressRange) -> Promise:
    meta = request.metadata
    return Promise(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resourceVersion,
        addresses.start_text,
        addresses.end_text,
    )
