"""Identities of holders and tenants; each begins with the kind of the requests.

Requests of two kinds may have one namespace and name, so a key alone names no holder.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from controller.meta import Key

RequestT = TypeVar("RequestT")


class Holder(NamedTuple):
    """An identity that uses addresses: a request, whichever objects show its addresses.

    Args:
        kind: the kind of the request, by its full name.
        key: namespace and name of the request.
    """

    kind: str
    key: Key


class Tenant(NamedTuple):
    """A group of requests of one kind that a pool must not serve at the cost of others.

    Args:
        kind: the kind of the requests, by its full name.
        name: of the group; a namespace, for example.
    """

    kind: str
    name: str


Find = Callable[[Holder], RequestT | None]
"""Returns the request of a holder; None if there is none."""


def find_by_key(kind: str, find: Callable[[Key], RequestT | None]) -> Find[RequestT]:
    """Return a function that finds the requests of one kind.

    Args:
        kind: the kind of the requests, by its full name.
        find: returns a request of that kind by its key.
    """

    def find_request(holder: Holder) -> RequestT | None:
        # A request of another kind may have the same key.
        return find(holder.key) if holder.kind == kind else None

    return find_request
