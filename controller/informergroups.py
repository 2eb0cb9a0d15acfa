"""Informers of one kind in clusters or namespaces that come and go, and their handlers.

A member is such a cluster or namespace, with an informer of its own.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from controller.informer import Informer, Registration
from controller.meta import Object
from controller.slices import exhaust

M = TypeVar("M", bound=Hashable)
T = TypeVar("T", bound=Object)

Register = Callable[[M, Informer[T]], Registration]
"""Registers a handler at the informer of a member, without the objects that are in its cache."""


@dataclass(eq=False, slots=True)
class _Subscription(Generic[M, T]):
    """A handler, and its registration at the informer of each member."""

    register: Register[M, T]
    registrations: dict[M, Registration] = field(default_factory=dict)

    def replay(self) -> Iterator[None]:
        """Call the handler with all objects of all members once more, in slices."""
        for member, registration in list(self.registrations.items()):
            # A member that left the group between two slices is not replayed.
            if self.registrations.get(member) is registration:
                yield from registration.replay()


class InformerGroup(Generic[M, T]):
    """The informers of the members of a group; a handler is registered at later members, too."""

    def __init__(self) -> None:
        self.informers: dict[M, Informer[T]] = {}
        """By member; changed by `attach` and `detach`."""
        self._subscriptions: list[_Subscription[M, T]] = []

    def subscribe(self, register: Register[M, T], *, replayed: bool = True) -> Registration:
        """Register a handler at the informers of all present and later members.

        Args:
            register: registers the handler at the informer of one member.
            replayed: whether the handler is called with the objects that are in the caches now.

        Returns:
            The registration at all members; its `close` is for later members, too.
        """
        subscription = _Subscription(register)
        self._subscriptions.append(subscription)
        for member, informer in self.informers.items():
            subscription.registrations[member] = register(member, informer)
        if replayed:
            exhaust(subscription.replay())
        return Registration(partial(self._unsubscribe, subscription), subscription.replay)

    def attach(self, member: M, informer: Informer[T]) -> None:
        """Add a member and its informer; call all handlers with the objects in its cache."""
        self.informers[member] = informer
        for subscription in self._subscriptions:
            registration = subscription.registrations[member] = subscription.register(
                member, informer
            )
            exhaust(registration.replay())

    def detach(self, member: M) -> None:
        """Remove a member, whose informer then calls no handler any more."""
        self.informers.pop(member, None)
        for subscription in self._subscriptions:
            if registration := subscription.registrations.pop(member, None):
                registration.close()

    def _unsubscribe(self, subscription: _Subscription[M, T]) -> None:
        """Remove a handler from all members; does nothing at a second call."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        for registration in subscription.registrations.values():
            registration.close()
        subscription.registrations.clear()
