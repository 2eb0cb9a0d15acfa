"""One kind as it is in many clusters: their caches, and handlers for all of them at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from controller.cache import Cache, Change
from controller.indexes import IndexFunction
from controller.informer import Informer, Registration
from controller.meta import Key, Object
from controller.resource import Resource
from controller.sources import Scope

T = TypeVar("T", bound=Object)

ClusterHandler = Callable[[Key, Change[T]], None]


@dataclass(eq=False, slots=True)
class _Subscription(Generic[T]):
    """A handler, and its place in the informer of each cluster that is open."""

    handler: ClusterHandler[T]
    registrations: dict[Key, Registration] = field(default_factory=dict)


class ClusterKind(Generic[T]):
    """One kind as it is in all clusters that are open; made by `Clusters.kind`.

    Args:
        resource: the kind.
        scope: which of its objects.
        indexes: of the caches.
        used: told the key of each cluster that is read.
    """

    def __init__(
        self,
        resource: Resource[T],
        scope: Scope,
        indexes: Mapping[str, IndexFunction[T]],
        used: Callable[[Key], None],
    ) -> None:
        self.resource = resource
        self.scope = scope
        self.indexes = indexes
        self._used = used
        self._informers: dict[Key, Informer[T]] = {}
        self._subscriptions: list[_Subscription[T]] = []

    def cache(self, cluster: Key) -> Cache[T] | None:
        """Return what is known of a cluster; None unless it is open and was listed.

        It stays current as long as the cluster is open: ask again at each pass.

        Args:
            cluster: which one, by the key it was opened under.
        """
        self._used(cluster)
        informer = self._informers.get(cluster)
        return informer.cache if informer is not None and informer.cache.synced else None

    def add_handler(self, handler: ClusterHandler[T]) -> Registration:
        """Tell `handler` of changes in all clusters, those opened later too.

        What is known comes at once, as `initial`. The handler is synchronous. A cluster that is
        closed tells nothing: its objects have not gone.
        """
        subscription = _Subscription(handler)
        self._subscriptions.append(subscription)
        for cluster, informer in self._informers.items():
            self._subscribe(subscription, cluster, informer)
        return Registration(partial(self._unsubscribe, subscription))

    def attach(self, cluster: Key, informer: Informer[T]) -> None:
        """Make `informer` the source for a cluster that was opened.

        Args:
            cluster: which one, by the key it was opened under.
            informer: watches the kind there.
        """
        self._informers[cluster] = informer
        for subscription in self._subscriptions:
            self._subscribe(subscription, cluster, informer)

    def detach(self, cluster: Key) -> None:
        """Forget a cluster that was closed.

        Args:
            cluster: which one, by the key it was opened under.
        """
        self._informers.pop(cluster, None)
        for subscription in self._subscriptions:
            if registration := subscription.registrations.pop(cluster, None):
                registration.close()

    def _subscribe(
        self, subscription: _Subscription[T], cluster: Key, informer: Informer[T]
    ) -> None:
        registration = informer.add_handler(partial(subscription.handler, cluster))
        subscription.registrations[cluster] = registration

    def _unsubscribe(self, subscription: _Subscription[T]) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        for registration in subscription.registrations.values():
            registration.close()
        subscription.registrations.clear()
