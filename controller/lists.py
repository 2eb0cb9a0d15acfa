"""Reading all objects of a kind: in pages, or as the initial events of a watch.

Pages: `list_all` puts the pages of a LIST together. All pages show the state at the first page's
resourceVersion.

Initial events (`sendInitialEvents`, the WatchList feature): the server sends every object as
ADDED, in no order of resourceVersions, and then a bookmark with the annotation
`k8s.io/initial-events-end`. Events after that bookmark continue the same watch. Before the
bookmark no event may be used: an object that has not come yet may still exist, and a watch cannot
resume from any of the resourceVersions. So `InitialEvents` collects the events, and the cache gets
all of them at once.

A proxy may hold back or drop that bookmark. client-go then waits for ever and logs a warning; here
the list must be complete within a deadline.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from anyio.lowlevel import checkpoint

from controller.codec import (
    Bookmark,
    Deleted,
    ObjectEvent,
    Page,
    Unreadable,
    decode_page_in_slices,
)
from controller.errors import Expired
from controller.meta import Key, Object
from controller.resource import Resource
from controller.watch import ReadLimit

if TYPE_CHECKING:  # a client that is given its transport does not need to load aiohttp
    from controller.transport import Transport

T = TypeVar("T", bound=Object)

PAGE_SIZE = 500
PAGE_SECONDS = 60.0
"""Timeout for one page."""
STREAM_SECONDS = 30.0
"""Deadline for all initial events of a watch."""


def create_list_query(revision: str) -> dict[str, str]:
    """Return the query parameters of a list.

    Args:
        revision: `0` for any state in the server's watch cache, a resourceVersion for a state not
            older than it, empty for the newest state. Only the newest state is read in pages: the
            server answers the other requests from its watch cache, in one response.
    """
    return {"resourceVersion": revision} if revision else {"limit": str(PAGE_SIZE)}


def create_stream_query(revision: str) -> dict[str, str]:
    """Return the query parameters of a watch with initial events.

    Args:
        revision: a resourceVersion for a state not older than it, empty for the newest state.
    """
    return {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",  # the server requires it for initial events
        "resourceVersion": revision,
    }


async def list_all(
    transport: "Transport",
    resource: Resource[T],
    namespace: str,
    query: Mapping[str, str],
    limit: ReadLimit | None = None,
) -> Page[T]:
    """Return all objects, in however many pages the server sends them.

    If the continue token of a later page has expired, the list is read again in one response,
    because another token might expire, too. client-go's pager does the same.

    Args:
        transport: the server.
        resource: the kind.
        namespace: empty for all.
        query: selectors; `limit` for pages, `resourceVersion` for the first page.
        limit: how much is read; None for no limit.

    Raises:
        ApiError, NoAnswer, MalformedAnswer: a request failed, or the list exceeds `limit`.
    """
    limit = limit or ReadLimit()
    try:
        return await _list_pages(
            transport, resource, namespace=namespace, query=query, limit=limit
        )
    except _TokenExpired:
        unpaged_query = {name: value for name, value in query.items() if name != "limit"}
        return await _list_pages(
            transport, resource, namespace=namespace, query=unpaged_query, limit=limit
        )


class _TokenExpired(Exception):
    """The continue token of a later page is too old."""


async def _list_pages(
    transport: "Transport",
    resource: Resource[T],
    namespace: str,
    query: Mapping[str, str],
    limit: ReadLimit,
) -> Page[T]:
    """Read a list page by page, and return all pages as one.

    Args:
        transport: the server.
        resource: the kind.
        namespace: empty for all.
        query: of the first page; a `resourceVersion` in it is left out of the others.
        limit: counts from zero for this list.

    Raises:
        _TokenExpired: the server has forgotten the state that the first page shows.
    """
    path = resource.build_collection_path(namespace)
    accept = resource.accept_list
    limit.reset()
    data = await transport.request("GET", path, query=query, accept=accept, timeout=PAGE_SECONDS)
    page = await _decode_page(resource, data)
    limit.add_page(resource.plural, len(data), len(page.items) + len(page.unreadable))
    items, unreadable = list(page.items), dict(page.unreadable)
    # The continue token holds the resourceVersion; the server rejects a request with both.
    next_query = {
        name: value for name, value in query.items() if not name.startswith("resourceVersion")
    }
    while page.continuation:
        next_query["continue"] = page.continuation
        try:
            data = await transport.request(
                "GET", path, query=next_query, accept=accept, timeout=PAGE_SECONDS
            )
        except Expired as error:
            raise _TokenExpired from error
        page = await _decode_page(resource, data)
        limit.add_page(resource.plural, len(data), len(page.items) + len(page.unreadable))
        items += page.items
        unreadable.update(page.unreadable)
    return Page(tuple(items), page.revision, unreadable)


async def _decode_page(resource: Resource[T], data: bytes) -> Page[T]:
    """Return the decoded list response; let other tasks run between slices of it.

    Raises:
        MalformedAnswer: `data` is no list, or has no resourceVersion.
    """
    slices = decode_page_in_slices(resource, data)
    while (page := next(slices)) is None:  # the page comes after the last slice
        await checkpoint()
    return page


class InitialEvents(Generic[T]):
    """Collects the initial events of one watch until the list is complete.

    Args:
        revision: the list may not be older than this resourceVersion; empty for the newest state.
        deadline: when (monotonic seconds) the list must be complete.
    """

    def __init__(self, revision: str, deadline: float) -> None:
        self.revision = revision
        self.deadline = deadline
        self.is_accepted = False
        """Whether the server has accepted the watch."""
        self._items: dict[Key, T] = {}
        self._unreadable: dict[Key, str] = {}

    def add(self, event: ObjectEvent[T] | Bookmark) -> Page[T] | None:
        """Add an event; return the list if the event completes it, else None.

        A server may send changes among the initial events, so the last event of an object counts.
        """
        match event:
            case Bookmark(revision, initial_end=True):
                return Page(tuple(self._items.values()), revision, self._unreadable)
            case Bookmark():
                pass  # an ordinary bookmark says nothing about the end of the list
            case Unreadable(key, _, reason, deleted):
                self._items.pop(key, None)
                if deleted:
                    self._unreadable.pop(key, None)
                else:
                    self._unreadable[key] = reason
            case Deleted():
                self._unreadable.pop(event.key, None)
                self._items.pop(event.key, None)
            case _:
                self._unreadable.pop(event.key, None)
                self._items[event.key] = event.object
        return None
