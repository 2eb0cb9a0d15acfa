"""Lists for commands of a user who may be allowed to read one namespace only.

A cluster-scoped pool hands out addresses to objects of every namespace. So one namespace does not
tell which addresses are free, and all namespaces are read where that is allowed. The namespace
that a user names only selects the objects to show. Kinds that could not be read are noted as
*limits* (`NotRead`), so that no answer reports their addresses as free.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from controller.errors import Forbidden
from controller.meta import Key, Object
from controller.resource import Resource

if TYPE_CHECKING:
    from controller.client import Client
    from controller.codec import Page

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class NotRead:
    """A limit: objects of a kind that a user may not read.

    Args:
        kind: the full name of the kind: plural and group.
        except_namespace: the only namespace whose objects may be read; empty if there is none.
    """

    kind: str
    except_namespace: str = ""

    @override
    def __str__(self) -> str:
        """Return the kind; if one of its namespaces may be read, name that namespace as well."""
        if not self.except_namespace:
            return self.kind
        return f"{self.kind} of other namespaces than {self.except_namespace}"


def describe_limits(not_read: Iterable[NotRead]) -> str:
    """Return the kinds that a user may not read, as a list that names each namespace once."""
    kinds_by_namespace: dict[str, list[str]] = {}
    for limit in not_read:
        kinds_by_namespace.setdefault(limit.except_namespace, []).append(limit.kind)
    # The kinds with one readable namespace are joined, and written like one kind.
    return "; ".join(
        str(NotRead(", ".join(dict.fromkeys(kinds)), namespace))
        for namespace, kinds in kinds_by_namespace.items()
    )


def list_limits(
    namespace: str, kinds: Collection[str], not_read: Iterable[NotRead]
) -> list[NotRead]:
    """Return the limits that hide objects of some kinds in a namespace.

    Args:
        namespace: empty for all namespaces. Then a limit counts even if it excepts a namespace.
        kinds: the full names of the kinds.
        not_read: all limits of the user.
    """
    return [
        limit
        for limit in not_read
        if limit.kind in kinds and (not namespace or limit.except_namespace != namespace)
    ]


def is_left_out(resource: Resource[Object], key: Key, not_read: Iterable[NotRead]) -> bool:
    """Return whether a limit hides an object, so that it may exist although it was not read.

    Args:
        resource: the kind of the object.
        key: the namespace and name of the object.
        not_read: all limits of the user.
    """
    return bool(list_limits(key.namespace, {resource.full_name}, not_read))


def find_readable_namespace(resource: Resource[Object], not_read: Iterable[NotRead]) -> str | None:
    """Return the namespace in which a kind may be read; empty for all, None for nowhere."""
    for limit in not_read:
        if limit.kind == resource.full_name:
            # No namespace is excepted from the limit: the kind may be read nowhere.
            return limit.except_namespace or None
    return ""


class ScopedLists:
    """Lists kinds from all namespaces, or from one if only that is allowed.

    Args:
        client: for the lists.
        namespace: the namespace to read if reading all namespaces is forbidden; empty for none.
    """

    def __init__(self, client: "Client", namespace: str) -> None:
        self.client = client
        self._namespace = namespace
        self._not_read: list[NotRead] = []

    @property
    def not_read(self) -> Sequence[NotRead]:
        """The limits that the lists have met so far."""
        return tuple(self._not_read)

    async def list_required(self, resource: Resource[T]) -> "Page[T]":
        """Return the objects of a kind in all namespaces, or in the one that may be read.

        In the second case the limit is noted in `not_read`.

        Raises:
            Forbidden: the user may read the kind neither in all namespaces nor in that one.
            ControllerError: a request failed.
        """
        try:
            return await self.client.list(resource)
        except Forbidden:
            if not resource.namespaced or not self._namespace:
                raise
        page = await self.client.list(resource, namespace=self._namespace)
        self._not_read.append(NotRead(resource.full_name, self._namespace))
        return page

    async def list_allowed(self, resource: Resource[T]) -> "Page[T] | None":
        """Return the objects of a kind in all namespaces, or in the one that may be read.

        In the second case the limit is noted in `not_read`.

        Returns:
            None if the user may not read the kind at all; that is noted in `not_read`, too.

        Raises:
            ControllerError: a request failed, other than a LIST that is forbidden to the user.
        """
        try:
            return await self.list_required(resource)
        except Forbidden:
            self._not_read.append(NotRead(resource.full_name))
            return None
