"""Lists that come in parts, put together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from controller.codec import Page, decode_page
from controller.errors import Expired
from controller.meta import Object
from controller.resource import Resource

if TYPE_CHECKING:  # the HTTP client it needs is no business of those who never send anything
    from controller.transport import Transport

T = TypeVar("T", bound=Object)

PAGE_SIZE = 500
LIST_SECONDS = 60.0
"""How long one part may take."""


async def list_whole(
    transport: "Transport", resource: Resource[T], namespace: str, query: Mapping[str, str]
) -> Page[T]:
    """Return a whole list, however many parts the server makes of it.

    All parts show the world at the first one's resourceVersion. If the server forgets
    that moment while we read, the list is begun anew and asked for in one piece, as
    client-go's pager does: in parts it could expire again and again.

    Args:
        transport: the server.
        resource: the kind.
        namespace: empty for all.
        query: selectors; `limit` for parts, `resourceVersion` for the first part.

    Raises:
        ApiError, NoAnswer, MalformedAnswer: as the server gives them.
    """
    try:
        return await _list_in_parts(transport, resource, namespace, query)
    except _ExpiredInBetween:
        whole = {name: value for name, value in query.items() if name != "limit"}
        return await _list_in_parts(transport, resource, namespace, whole)


class _ExpiredInBetween(Exception):
    """The continue token of a later part is too old."""


async def _list_in_parts(
    transport: "Transport", resource: Resource[T], namespace: str, query: Mapping[str, str]
) -> Page[T]:
    path = resource.collection(namespace)
    data = await transport.request("GET", path, query=query, timeout=LIST_SECONDS)
    page = decode_page(resource, data)
    items, unreadable = list(page.items), dict(page.unreadable)
    # A continue token holds its own resourceVersion; the server refuses another beside it.
    rest = {k: v for k, v in query.items() if not k.startswith("resourceVersion")}
    while page.continuation:
        rest["continue"] = page.continuation
        try:
            data = await transport.request("GET", path, query=rest, timeout=LIST_SECONDS)
        except Expired as error:
            raise _ExpiredInBetween from error
        page = decode_page(resource, data)
        items += page.items
        unreadable.update(page.unreadable)
    return Page(tuple(items), page.revision, unreadable)
